//! Our programs in the kernel, and what they summed up.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use std::{fmt, ptr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore as _, MapFlags};
use record::clock::{Clock, Monotonic};
use record::locks::Waits;
use record::missing::{Maybe, Missing};

use self::skel::types::{stack, wait_key, wait_sum};
use self::skel::{LocksSkel, LocksSkelBuilder};
use super::Options;
use crate::descriptors;
use crate::hog;
use crate::process_ids;
use crate::program::{self, KERNEL_BTF, Kept, Losses, RunTime};

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from locks.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/locks.skel.rs"));
}

const _: () = assert!(size_of::<wait_key>() == 24);
const _: () = assert!(size_of::<wait_sum>() == 200);
const _: () = assert!(size_of::<stack>() == 192);

/// Programs, maps and links, and some.
const DESCRIPTORS: u64 = 64;

/// The reasons of `locks.h`, in its order.
const LOST: [&str; 6] = [
    "no-room",
    "no-room-for-stack",
    "no-room-for-task",
    "too-many-at-once",
    "began-unseen",
    "inside-own-program",
];

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: LocksSkel<'static>,
    room: u32,
    half: u32,
    losses: Losses<{ LOST.len() }>,
    /// Stacks by name; those that the kernel's side has no room for are still wanted by waits that go on.
    stacks: Kept<Vec<u64>>,
    /// Waits that ended when their stack had been forgotten.
    without_stack: u64,
    _links: [Link; 2],
}

/// What was waited for with one lock, kind and stack.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) lock: u64,
    pub(super) flags: u32,
    pub(super) role: Option<&'static str>,
    pub(super) frames: Maybe<Vec<u64>>,
    pub(super) waits: Waits,
    pub(super) spun_ns: u64,
}

/// All that was summed up in an interval.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) sums: Vec<Sum>,
    pub(super) lost: BTreeMap<String, u64>,
}

impl Bpf {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    ///
    /// A sentence for people: what is missing, and how to get it.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; what we have to say, we say in the error.
        libbpf_rs::set_print(None);
        descriptors::make_room(DESCRIPTORS)?;
        let pid = options.pid.map(process_ids::machines).transpose().map_err(|why| why.reason)?;
        let options = &Options { pid, ..options.clone() };
        if !program::kernel_is_at_least(6, 1) {
            // There a program that waits for a lock may be run again by that very wait.
            return Err("no waits for locks by BPF: it needs Linux 6.1 or later".to_owned());
        }
        Self::attach(options).map_err(|e| {
            if program::may_load() && !Path::new(KERNEL_BTF).exists() {
                return format!("no waits for locks by BPF: this kernel has no BTF ({KERNEL_BTF})");
            }
            if program::may_load() && e.kind() == libbpf_rs::ErrorKind::NotFound {
                return "no waits for locks by BPF: this kernel has no lock:contention_begin, which Linux 5.19 brought".to_owned();
            }
            program::refusal("waits for locks", &e)
        })
    }

    fn attach(options: &Options) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = LocksSkelBuilder::default().open(place)?;
        open.maps.sums_even.set_max_entries(options.room)?;
        open.maps.sums_odd.set_max_entries(options.room)?;
        open.maps.stacks.set_max_entries(options.room)?;
        let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
        settings.only_tgid = options.pid.unwrap_or(0);
        settings.only_comm = program::comm(options.comm.as_deref());
        let skel = open.load()?;
        // What ends before anyone watches for its beginning is not lost but older than we are.
        let links = [skel.progs.on_begin.attach()?, skel.progs.on_end.attach()?];
        let losses = Losses::new(LOST);
        let stacks = Kept::new(16 * options.room as usize);
        Ok(Self { skel, room: options.room, half: 0, losses, stacks, without_stack: 0, _links: links })
    }

    /// Ends an interval: turns to the other half of the sums, and hands out the one that was in use.
    ///
    /// # Errors
    ///
    /// Missing where the kernel does not hand them out.
    pub(super) fn drain(&mut self) -> Maybe<(u64, Drained)> {
        let full = usize::try_from(self.half & 1).expect("0 or 1");
        self.half += 1;
        let half = self.half;
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; only we write it.
        unsafe { ptr::write_volatile(&raw mut shared.half, half) };
        let until_ns = Monotonic.now_ns();
        program::wait_for_running();
        let maps = &self.skel.maps;
        let rows =
            if full == 0 { program::take_all(&maps.sums_even) } else { program::take_all(&maps.sums_odd) }?;
        let sums = rows.iter().map(|(key, sum)| self.sum(key, sum)).collect();
        self.make_room();
        Ok((until_ns, Drained { sums, lost: self.lost() }))
    }

    fn sum(&mut self, key: &[u8], sum: &[u8]) -> Sum {
        // SAFETY: the map's key and value are these types, of plain integers; the sizes are asserted above.
        let (key, sum): (wait_key, wait_sum) =
            unsafe { (ptr::read_unaligned(key.as_ptr().cast()), ptr::read_unaligned(sum.as_ptr().cast())) };
        let frames = self.frames(key.stack);
        // Where there was no room for it in the first place, the kernel's side has counted that.
        if frames.is_err() && key.stack != 0 {
            self.without_stack += sum.count;
        }
        Sum {
            lock: key.lock,
            flags: key.flags,
            role: [None, Some("mmap_lock"), Some("siglock")].get(sum.role as usize).copied().flatten(),
            frames,
            waits: super::waits(sum.count, sum.total_ns, sum.max_ns, &sum.buckets),
            spun_ns: sum.spun_ns,
        }
    }

    fn frames(&mut self, name: u64) -> Maybe<Vec<u64>> {
        if let Some(known) = self.stacks.get(name) {
            return Ok(known);
        }
        let found = self.skel.maps.stacks.lookup(&name.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let frames = frames(&found.ok_or_else(|| Missing::because("there was no room for its stack"))?);
        self.stacks.insert(name, frames.clone());
        Ok(frames)
    }

    /// Makes room before the kernel's side runs out of it: what is wanted again is written again, and what waits that go on
    /// want is kept here.
    fn make_room(&mut self) {
        for (name, stack) in program::take_if_half_full(&self.skel.maps.stacks) {
            let name = u64::from_ne_bytes(name.try_into().expect("a name of eight bytes"));
            self.stacks.insert(name, frames(&stack));
        }
    }

    /// What was lost since the last time, by reason.
    fn lost(&mut self) -> BTreeMap<String, u64> {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain words in memory that is mapped as long as `skel` lives; each is read whole.
        let counts: [u64; LOST.len()] = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let programs = [self.skel.progs.on_begin.as_fd(), self.skel.progs.on_end.as_fd()];
        let mut lost = self.losses.since_last(counts, &programs);
        program::count_in(&mut lost, LOST[1], std::mem::take(&mut self.without_stack));
        lost
    }

    /// Time of our two programs for one wait.
    pub(super) fn ns_per_wait(&mut self) -> Maybe<f64> {
        let failed = |what: &str, e: &dyn fmt::Display| Missing::because(format!("{what}: {e}"));
        let _statistics = program::run_statistics()
            .map_err(|e| failed("the kernel's run statistics are closed to us", &e))?;
        let nothing = &self.skel.progs.on_end_nothing;
        let _nothing = nothing.attach().map_err(|e| failed("the empty program cannot be attached", &e))?;
        let programs = [self.skel.progs.on_begin.as_fd(), self.skel.progs.on_end.as_fd(), nothing.as_fd()];
        let before = programs.map(RunTime::of);
        hog::lock::contend(2, Duration::from_millis(50))
            .map_err(|e| failed("no burst of waits could be made", &e))?;
        let [begin, end, nothing] =
            std::array::from_fn(|i| RunTime::of(programs[i])?.ns_per_run_since(before[i].clone()?));
        Ok(begin? + end? - 2.0 * nothing?)
    }
}

/// What the kernel's side writes of a stack: addresses, innermost first, then zeros.
fn frames(stack: &[u8]) -> Vec<u64> {
    let words = stack.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
    words.take_while(|frame| *frame != 0).collect()
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("room", &self.room).finish_non_exhaustive()
    }
}
