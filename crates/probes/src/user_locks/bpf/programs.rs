//! Our programs in the kernel, and their sums.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, process, ptr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore as _, MapFlags};
use record::locks::Waits;
use record::missing::{Maybe, Missing};

use self::skel::types::{futex_key, futex_stack, futex_sum, waker};
use self::skel::{UserLocksSkel, UserLocksSkelBuilder};
use crate::descriptors;
use crate::hog::{self, Work};
use crate::locks::bpf::waits;
use crate::process_ids;
use crate::program::{self, AskedCgroup, BurstTime, Halves, KERNEL_BTF, Losses, Stacks};
use crate::user_locks::Options;

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from user_locks.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/user_locks.skel.rs"));
}

const _: () = assert!(size_of::<futex_key>() == 40);
const _: () = assert!(size_of::<futex_sum>() == 232);
const _: () = assert!(size_of::<futex_stack>() == 968);
const _: () = assert!(size_of::<waker>() == 32);

/// Programs, maps and links, with a margin.
const DESCRIPTORS: u64 = 64;

/// Loss reasons of `user_locks.h`, in its order.
const LOST: [&str; 4] = ["no-room", "no-room-for-stack", "no-room-for-waker", "no-room-for-task"];

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: UserLocksSkel<'static>,
    room: u32,
    halves: Halves,
    losses: Losses<{ LOST.len() }>,
    stacks: Stacks<Stack>,
    asked: AskedCgroup,
    _links: [Link; 3],
}

/// Stack of a thread at its call.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    /// Return addresses by frame pointers, innermost first.
    pub(super) frames: Vec<u64>,
    /// Words on the stack, innermost first.
    pub(super) window: Vec<u64>,
}

/// Waits of one process, with one lock, operation and stack.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) pid: u32,
    /// In a PID namespace: the process is outside of it, and its id is the machine's.
    pub(super) is_outside: bool,
    pub(super) comm: String,
    pub(super) address: u64,
    pub(super) op: u32,
    pub(super) stack: Maybe<Stack>,
    pub(super) waker: Maybe<Waker>,
    /// Control group id; 0 if groups were not requested.
    pub(super) cgroup: u64,
    pub(super) waits: Waits,
    pub(super) spun_ns: u64,
    pub(super) not_slept: u64,
    pub(super) timed_out: u64,
}

/// The thread that ended the last wait that was not left by itself.
#[derive(Debug)]
pub(super) struct Waker {
    /// `comm/thread`.
    pub(super) name: String,
    pub(super) stack: Maybe<Stack>,
}

/// All sums of an interval.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) sums: Vec<Sum>,
    pub(super) lost: BTreeMap<String, u64>,
}

/// Whether an operation is one of priority-inheriting locks, all of which are mutexes.
pub(super) fn is_priority_inheriting(op: u32) -> bool {
    const LOCK_PI: u32 = 6;
    const LOCK_PI2: u32 = 13;
    op == LOCK_PI || op == LOCK_PI2
}

impl Stack {
    fn of(value: &[u8]) -> Self {
        assert_eq!(value.len(), size_of::<futex_stack>(), "the map's value is this type");
        // SAFETY: of plain integers, and of this size.
        let stack: futex_stack = unsafe { ptr::read_unaligned(value.as_ptr().cast()) };
        let frames = stack.frames.into_iter().take_while(|frame| *frame != 0).collect();
        Self { frames, window: stack.window.to_vec() }
    }
}

impl Bpf {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    ///
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; the error reports it instead.
        libbpf_rs::set_print(None);
        descriptors::make_room(DESCRIPTORS)?;
        let machines = |pid| process_ids::machines(pid).map_err(|why| why.reason);
        let options = &Options { pid: options.pid.map(machines).transpose()?, ..options.clone() };
        let own = machines(process::id())?;
        Self::attach(options, own).map_err(|e| {
            if program::may_load() && !Path::new(KERNEL_BTF).exists() {
                return format!("cannot trace futex waits with BPF: this kernel has no BTF ({KERNEL_BTF})");
            }
            program::refusal("futex waits", &e)
        })
    }

    fn attach(options: &Options, own_pid: u32) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = UserLocksSkelBuilder::default().open(place)?;
        open.maps.sums_even.set_max_entries(options.room)?;
        open.maps.sums_odd.set_max_entries(options.room)?;
        open.maps.stacks.set_max_entries(options.room)?;
        open.maps.wakers.set_max_entries(options.room)?;
        let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
        settings.only_tgid = options.pid.unwrap_or(0);
        settings.reader_namespace = process_ids::namespace();
        settings.but_tgid = if options.own_threads { 0 } else { own_pid };
        settings.only_comm = program::comm(options.comm.as_deref());
        settings.by_cgroup = options.by_cgroup;
        settings.only_cgroup = options.cgroup.is_some();
        let skel = open.load()?;
        let asked = AskedCgroup::open(&skel.maps.asked_cgroup, options.cgroup.as_ref())?;
        let p = &skel.progs;
        let links = [p.on_enter.attach()?, p.on_waking.attach()?, p.on_exit.attach()?];
        let losses = Losses::new(LOST);
        let stacks = Stacks::new(4 * options.room as usize, Stack::of);
        Ok(Self { skel, room: options.room, halves: Halves::default(), losses, stacks, asked, _links: links })
    }

    /// Ends an interval: switches to the other half of the sums, and returns the one that was in use.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return them.
    pub(super) fn drain(&mut self) -> Maybe<(u64, Drained)> {
        let maps = &mut self.skel.maps;
        let shared = maps.bss_data.as_deref_mut().expect("our object has a .bss");
        let (until_ns, rows) = self.halves.turn(&mut shared.half, [&maps.sums_even, &maps.sums_odd])?;
        let sums = rows.iter().map(|(key, sum)| self.sum(key, sum)).collect();
        self.stacks.make_room(&self.skel.maps.stacks);
        program::empty_if_half_full(&self.skel.maps.wakers);
        Ok((until_ns, Drained { sums, lost: self.lost() }))
    }

    /// Follows the control group to its path's new one; a sentence if something changed.
    pub(super) fn follow(&mut self) -> Option<String> {
        self.asked.follow(&self.skel.maps.asked_cgroup)
    }

    fn sum(&mut self, key: &[u8], sum: &[u8]) -> Sum {
        // SAFETY: the map's key and value are these types, of plain integers; the sizes are asserted above.
        let (key, sum): (futex_key, futex_sum) =
            unsafe { (ptr::read_unaligned(key.as_ptr().cast()), ptr::read_unaligned(sum.as_ptr().cast())) };
        Sum {
            pid: key.tgid,
            is_outside: key.is_outside != 0,
            comm: program::text(&sum.comm),
            address: key.address,
            op: key.op,
            stack: self.stacks.of_waits(&self.skel.maps.stacks, key.stack, sum.count),
            waker: self.waker(sum.waker),
            cgroup: key.cgroup,
            waits: waits(sum.count, sum.total_ns, sum.max_ns, &sum.buckets),
            spun_ns: sum.spun_ns,
            not_slept: sum.not_slept,
            timed_out: sum.timed_out,
        }
    }

    fn waker(&mut self, name: u64) -> Maybe<Waker> {
        let found = self.skel.maps.wakers.lookup(&name.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let bytes = found.ok_or_else(|| Missing::because("no waker was observed"))?;
        // SAFETY: the map's value is this type, of plain integers; its size is asserted above.
        let waker: waker = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
        let name = format!("{}/{}", program::text(&waker.comm), waker.tid);
        Ok(Waker { name, stack: self.stacks.get(&self.skel.maps.stacks, waker.stack) })
    }

    /// Losses since the last call, by reason.
    fn lost(&mut self) -> BTreeMap<String, u64> {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain words in memory that is mapped as long as `skel` lives; each is read whole.
        let counts: [u64; LOST.len()] = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let programs = [self.skel.progs.on_enter.as_fd(), self.skel.progs.on_exit.as_fd()];
        let mut lost = self.losses.since_last(counts, &programs);
        program::count_in(&mut lost, LOST[1], self.stacks.take_forgotten());
        lost
    }

    /// System calls of any kind that have ended since the programs were attached.
    pub(super) fn calls(&self) -> u64 {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: aligned words in memory that is mapped as long as `skel` lives; each is read whole.
        shared.calls.iter().map(|of_cpu| unsafe { ptr::read_volatile(&raw const of_cpu.n) }).sum()
    }

    /// Wake-ups of any thread since the programs were attached.
    pub(super) fn wakings(&self) -> u64 {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: as above.
        shared.calls.iter().map(|of_cpu| unsafe { ptr::read_volatile(&raw const of_cpu.wakings) }).sum()
    }
}

/// Time of the programs for one wait with the call that ends it, for one other system call, and for one
/// wake-up, of any thread: measured with programs without filters, and bursts of both calls.
///
/// # Errors
///
/// Missing if the kernel's run statistics are unavailable.
pub(super) fn ns_of_calls() -> Maybe<[f64; 3]> {
    let options = Options { room: 1024, own_threads: true, ..Options::of_everyone_else() };
    let mut bpf = Bpf::attach(&options, process::id()).map_err(|e| Missing::because(e.to_string()))?;
    let ask = || {
        for _ in 0..20_000 {
            // This call enters the kernel each time.
            nix::unistd::gettid();
        }
        Ok::<_, Infallible>(())
    };
    let [enter, exit, _] = bpf.burst(ask)?;
    let other = enter.ns_per_run()? + exit.ns_per_run()?;
    bpf.drain()?;
    let wait = || {
        let (stop, length) = (AtomicBool::new(false), Duration::from_millis(100));
        hog::lock::hold_mutex(2, Duration::from_micros(50), &Work { length, stop: &stop });
        Ok::<_, Infallible>(())
    };
    let [enter, exit, waking] = bpf.burst(wait)?;
    let waits: u64 = bpf.drain()?.1.sums.iter().map(|sum| sum.waits.count).sum();
    if waits == 0 {
        return Err(Missing::because("no wait of the burst was observed"));
    }
    let others = enter.runs.saturating_sub(waits) as f64;
    let wait = ((enter.ns + exit.ns - other * others) / waits as f64).max(0.0);
    Ok([wait, other, waking.ns_per_run()?])
}

impl Bpf {
    fn burst(&self, burst: impl FnOnce() -> Result<(), Infallible>) -> Maybe<[BurstTime; 3]> {
        let p = &self.skel.progs;
        let programs = [p.on_enter.as_fd(), p.on_exit.as_fd(), p.on_waking.as_fd()];
        program::in_a_burst(programs, &p.on_exit_nothing, burst)
    }
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32) -> libbpf_rs::Result<u64> {
    let bpf = Bpf::attach(&Options::of_everyone_else(), process::id())?;
    Ok(program::kernel_bytes(&bpf.skel, possible))
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("room", &self.room).finish_non_exhaustive()
    }
}
