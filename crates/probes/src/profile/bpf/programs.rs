//! Our programs in the kernel, and their sums.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fmt, process, ptr};

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use record::clock::{Clock, Monotonic};
use record::missing::Maybe;
use record::profile::{ProfileKind, ThreadState};

use self::skel::types::{away, cpu, profile_key, profile_stack, profile_sum};
use self::skel::{ProfileSkel, ProfileSkelBuilder};
use crate::profile::Options;
use crate::program::{self, AskedCgroup, Halves, KERNEL_BTF, Losses, PerCpu, Row, RunTime, Sampler, Stacks};
use crate::ticks::SAMPLE_PERIOD_NS;
use crate::{cpu_list, descriptors, process_ids};

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from profile.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
}

const _: () = assert!(size_of::<profile_key>() == 40);
const _: () = assert!(size_of::<profile_sum>() == 16);
const _: () = assert!(size_of::<profile_stack>() == 1024);
const _: () = assert!(size_of::<away>() == 64);
const _: () = assert!(size_of::<cpu>() == 64);

/// Programs, maps and links, with a margin.
const DESCRIPTORS: u64 = 64;

/// Maximum depth of a stack, as in `profile.h`.
pub(super) const FRAMES: usize = 127;

/// The values of `profile.h`.
const OUTSIDE: u32 = 256;

/// Loss reasons of `profile.h`, in its order.
const LOST: [&str; 4] = ["no-room", "no-room-for-stack", "no-room-for-thread", "switch-unseen"];

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: ProfileSkel<'static>,
    cpus: PerCpu<cpu>,
    kind: ProfileKind,
    room: u32,
    halves: Halves,
    losses: Losses<{ LOST.len() }>,
    /// Stacks by name; those that the kernel's side has no room for are still needed.
    stacks: Stacks<Vec<u64>>,
    /// Number of stacks stored when they were last taken out.
    taken_at: u64,
    /// Only for on-CPU time.
    sampler: Option<Sampler>,
    /// The stay of each sampled CPU, see [`cpu_list::stays`].
    stays: BTreeMap<u32, u64>,
    asked: AskedCgroup,
    links: Vec<Link>,
    /// The kernel times our programs as long as this is open; `None` if it refuses.
    _statistics: Option<OwnedFd>,
}

/// Time of one process in one stack.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    pub(super) tgid: u32,
    /// In a PID namespace: the process is outside of it, and its id is the machine's.
    pub(super) is_outside: bool,
    pub(super) comm: String,
    pub(super) state: ThreadState,
    /// Innermost first; `None` if there is no such stack; missing if there was no room for it.
    pub(super) user: Maybe<Option<Vec<u64>>>,
    pub(super) kernel: Maybe<Option<Vec<u64>>>,
    pub(super) count: u64,
    pub(super) ns: u64,
}

impl Bpf {
    /// Loads and attaches the program for this kind of time; counting starts later.
    ///
    /// # Errors
    ///
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; the error reports it instead.
        libbpf_rs::set_print(None);
        let online = cpu_list::stays(Path::new("/")).unwrap_or_default();
        descriptors::make_room(DESCRIPTORS + 2 * online.len() as u64)?;
        let machines = |pid| process_ids::machines(pid).map_err(|why| why.reason);
        let options = &Options { pid: options.pid.map(machines).transpose()?, ..options.clone() };
        let own = machines(process::id())?;
        let mut bpf = Self::load(options, own, cpu_list::possible_count()).map_err(|e| {
            if program::may_load() && !Path::new(KERNEL_BTF).exists() {
                return format!("cannot profile with BPF: this kernel has no BTF ({KERNEL_BTF})");
            }
            program::refusal("stacks", &e)
        })?;
        bpf.attach(online)?;
        Ok(bpf)
    }

    /// - `own`: this process, by the machine's id.
    /// - `possible`: CPUs that need room.
    fn load(options: &Options, own: u32, possible: u32) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = ProfileSkelBuilder::default().open(place)?;
        let samples = options.kind == ProfileKind::OnCpu;
        open.progs.on_sample.set_autoload(samples);
        open.progs.on_switch.set_autoload(!samples);
        if samples {
            open.maps.off_cpu.set_max_entries(1)?;
        }
        open.maps.cpus.set_max_entries(possible)?;
        open.maps.sums_even.set_max_entries(options.room)?;
        open.maps.sums_odd.set_max_entries(options.room)?;
        open.maps.stacks.set_max_entries(options.room)?;
        let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
        settings.only_tgid = options.pid.unwrap_or(0);
        settings.only_comm = program::comm(options.comm.as_deref());
        settings.only_cgroup = options.cgroup.is_some();
        settings.leave_out = options.leave_out;
        settings.reader_namespace = process_ids::namespace();
        // Our CPU time uses the machine, so it is shown; our sleeping does not.
        settings.but_tgid = if samples || options.pid == Some(own) { 0 } else { own };
        let skel = open.load()?;
        let asked = AskedCgroup::open(&skel.maps.asked_cgroup, options.cgroup.as_ref())?;
        Ok(Self {
            cpus: PerCpu::map(&skel.maps.cpus)?,
            skel,
            kind: options.kind,
            room: options.room,
            halves: Halves::default(),
            losses: Losses::new(LOST),
            stacks: Stacks::new(4 * options.room as usize, frames),
            taken_at: 0,
            sampler: None,
            stays: BTreeMap::new(),
            asked,
            links: Vec::new(),
            _statistics: program::run_statistics().ok(),
        })
    }

    /// - `online`: CPUs with their stays.
    fn attach(&mut self, online: BTreeMap<u32, u64>) -> Result<(), String> {
        if self.kind == ProfileKind::OffCpu {
            let link = self.skel.progs.on_switch.attach();
            self.links.push(link.map_err(|e| program::refusal("context switches", &e))?);
            return Ok(());
        }
        let cpus = online.keys().copied();
        let refused = |cpu, why| Err(format!("CPU {cpu} cannot be sampled: {why}"));
        self.sampler = Some(Sampler::start(cpus, |_| SAMPLE_PERIOD_NS, &self.skel.progs.on_sample, refused)?);
        self.stays = online;
        Ok(())
    }

    /// Follows the control group to its path's new one; a sentence if something changed.
    pub(super) fn follow(&mut self) -> Option<String> {
        self.asked.follow(&self.skel.maps.asked_cgroup)
    }

    /// CPUs that are sampled, with their stays; none off-CPU.
    pub(super) fn sampled(&self) -> BTreeMap<u32, u64> {
        self.stays.clone()
    }

    /// Number of watched CPUs.
    pub(super) fn cpus(&self) -> usize {
        match self.kind {
            ProfileKind::OnCpu => self.sampler.as_ref().map_or(0, |s| s.ids().len()),
            ProfileKind::OffCpu => cpu_list::online_count(),
        }
    }

    /// Starts or stops counting and returns the time.
    pub(super) fn set_running(&mut self, running: bool) -> u64 {
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; only we write it.
        unsafe { ptr::write_volatile(&raw mut shared.running, u32::from(running)) };
        Monotonic.now_ns()
    }

    /// Samples so far, of all threads and CPUs.
    pub(super) fn samples(&self) -> u64 {
        let of = |number: &u32| {
            let place = self.cpus.of(*number)?;
            // SAFETY: an aligned word in memory that is mapped as long as `cpus` lives; it is read whole.
            Some(unsafe { ptr::read_volatile(&raw const (*place).samples) })
        };
        self.sampler.iter().flat_map(|s| s.ids().keys()).filter_map(of).sum()
    }

    /// Run time of our program so far.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not report it.
    pub(super) fn run_time(&self) -> Maybe<RunTime> {
        RunTime::of(self.program())
    }

    fn program(&self) -> BorrowedFd<'_> {
        match self.kind {
            ProfileKind::OnCpu => self.skel.progs.on_sample.as_fd(),
            ProfileKind::OffCpu => self.skel.progs.on_switch.as_fd(),
        }
    }

    /// Switches to the other half of the sums, and returns the one that was in use.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return them.
    pub(super) fn drain(&mut self) -> Maybe<Vec<Sum>> {
        let maps = &mut self.skel.maps;
        let shared = maps.bss_data.as_deref_mut().expect("our object has a .bss");
        let (_, rows) = self.halves.turn(&mut shared.half, [&maps.sums_even, &maps.sums_odd])?;
        let sum = |(key, sum): &Row| {
            // SAFETY: the map's key and value are these types, of plain integers; the sizes are asserted
            // above.
            let (key, sum): (profile_key, profile_sum) = unsafe {
                (ptr::read_unaligned(key.as_ptr().cast()), ptr::read_unaligned(sum.as_ptr().cast()))
            };
            self.sum(&key, sum.count, sum.ns)
        };
        let sums = rows.iter().map(sum).collect();
        self.make_room();
        Ok(sums)
    }

    /// Threads that are off the CPU, with their time until now: call once, after counting has stopped.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return them.
    pub(super) fn still_off(&mut self, until_ns: u64) -> Maybe<Vec<Sum>> {
        if self.kind == ProfileKind::OnCpu {
            return Ok(Vec::new());
        }
        let rows = program::take_all(&self.skel.maps.off_cpu)?;
        // SAFETY: the map's value is this type, of plain integers; its size is asserted above.
        let away = |value: &[u8]| -> away { unsafe { ptr::read_unaligned(value.as_ptr().cast()) } };
        let rows = rows.iter().map(|(_, value)| away(value)).filter(|away| away.is_back == 0);
        let rows: Vec<away> = rows.collect();
        Ok(rows.iter().map(|a| self.sum(&a.key, 1, until_ns.saturating_sub(a.since_ns))).collect())
    }

    fn sum(&mut self, key: &profile_key, count: u64, ns: u64) -> Sum {
        const STATES: [ThreadState; 3] = [ThreadState::Running, ThreadState::Blocked, ThreadState::Runnable];
        Sum {
            tgid: key.tgid,
            is_outside: key.state & OUTSIDE != 0,
            comm: program::text(&key.comm),
            state: STATES[(key.state & !OUTSIDE) as usize],
            user: self.stack(key.user),
            kernel: self.stack(key.kernel),
            count,
            ns: if self.kind == ProfileKind::OnCpu { count * SAMPLE_PERIOD_NS } else { ns },
        }
    }

    fn stack(&mut self, name: u64) -> Maybe<Option<Vec<u64>>> {
        if name == 0 {
            return Ok(None);
        }
        self.stacks.get(&self.skel.maps.stacks, name).map(Some)
    }

    /// Makes room before the kernel's side runs out of it: stacks that are still needed are written again.
    fn make_room(&mut self) {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; it is read whole.
        let stored = unsafe { ptr::read_volatile(&raw const shared.stored) };
        if stored - self.taken_at <= u64::from(self.room) / 2 {
            return;
        }
        self.taken_at = stored;
        self.stacks.make_room(&self.skel.maps.stacks);
    }

    /// Losses since the last call, by reason.
    pub(super) fn lost(&mut self) -> BTreeMap<String, u64> {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain words in memory that is mapped as long as `skel` lives; each is read whole.
        let counts: [u64; LOST.len()] = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let program = match self.kind {
            ProfileKind::OnCpu => self.skel.progs.on_sample.as_fd(),
            ProfileKind::OffCpu => self.skel.progs.on_switch.as_fd(),
        };
        self.losses.since_last(counts, &[program])
    }
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32, kind: ProfileKind) -> libbpf_rs::Result<u64> {
    let bpf = Bpf::load(&Options::of_everyone(kind), process::id(), possible)?;
    Ok(program::kernel_bytes(&bpf.skel, possible))
}

/// Addresses of a stack as the kernel's side writes it: depth, then addresses, innermost first.
fn frames(stack: &[u8]) -> Vec<u64> {
    assert_eq!(stack.len(), size_of::<profile_stack>(), "the map's value is this type");
    // SAFETY: of plain integers, and of this size.
    let stack: profile_stack = unsafe { ptr::read_unaligned(stack.as_ptr().cast()) };
    let depth = usize::try_from(stack.depth).unwrap_or(FRAMES).min(FRAMES);
    stack.frames[..depth].to_vec()
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("kind", &self.kind).finish_non_exhaustive()
    }
}
