//! Our programs in the kernel, and their sums.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use std::{fmt, ptr};

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use record::locks::Waits;
use record::missing::{Maybe, Missing};

use self::skel::types::{stack, wait_key, wait_sum};
use self::skel::{LocksSkel, LocksSkelBuilder};
use super::form::waits;
use crate::descriptors;
use crate::hog;
use crate::locks::Options;
use crate::process_ids;
use crate::program::{self, AskedCgroup, Halves, KERNEL_BTF, Losses, Stacks};

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

const _: () = assert!(size_of::<wait_key>() == 32);
const _: () = assert!(size_of::<wait_sum>() == 200);
const _: () = assert!(size_of::<stack>() == 192);

/// Programs, maps and links, with a margin.
const DESCRIPTORS: u64 = 64;

/// Loss reasons of `locks.h`, in its order.
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
    halves: Halves,
    losses: Losses<{ LOST.len() }>,
    stacks: Stacks<Vec<u64>>,
    asked: AskedCgroup,
    _links: [Link; 2],
}

/// Waits for one lock, by kind and stack.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) lock: u64,
    pub(super) flags: u32,
    pub(super) role: Option<&'static str>,
    pub(super) frames: Maybe<Vec<u64>>,
    /// Control group id; 0 if groups were not requested.
    pub(super) cgroup: u64,
    pub(super) waits: Waits,
    pub(super) spun_ns: u64,
}

/// All sums of an interval.
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
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; the error reports it instead.
        libbpf_rs::set_print(None);
        descriptors::make_room(DESCRIPTORS)?;
        let pid = options.pid.map(process_ids::machines).transpose().map_err(|why| why.reason)?;
        let options = &Options { pid, ..options.clone() };
        if !program::kernel_is_at_least(6, 1) {
            // Before, a program that waits for a lock may be entered again by that very wait.
            return Err("cannot trace lock waits with BPF: needs Linux 6.1 or later".to_owned());
        }
        Self::attach(options).map_err(|e| {
            if program::may_load() && !Path::new(KERNEL_BTF).exists() {
                return format!("cannot trace lock waits with BPF: this kernel has no BTF ({KERNEL_BTF})");
            }
            if program::may_load() && e.kind() == libbpf_rs::ErrorKind::NotFound {
                return "cannot trace lock waits with BPF: this kernel has no lock:contention_begin, which \
                        Linux 5.19 added"
                    .to_owned();
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
        settings.by_cgroup = options.by_cgroup;
        settings.only_cgroup = options.cgroup.is_some();
        let skel = open.load()?;
        let asked = AskedCgroup::open(&skel.maps.asked_cgroup, options.cgroup.as_ref())?;
        // A wait that ends without a seen begin is not lost: it began before us.
        let links = [skel.progs.on_begin.attach()?, skel.progs.on_end.attach()?];
        let losses = Losses::new(LOST);
        let stacks = Stacks::new(16 * options.room as usize, frames);
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
        Ok((until_ns, Drained { sums, lost: self.lost() }))
    }

    /// Follows the control group to its path's new one; a sentence if something changed.
    pub(super) fn follow(&mut self) -> Option<String> {
        self.asked.follow(&self.skel.maps.asked_cgroup)
    }

    fn sum(&mut self, key: &[u8], sum: &[u8]) -> Sum {
        // SAFETY: the map's key and value are these types, of plain integers; the sizes are asserted above.
        let (key, sum): (wait_key, wait_sum) =
            unsafe { (ptr::read_unaligned(key.as_ptr().cast()), ptr::read_unaligned(sum.as_ptr().cast())) };
        Sum {
            lock: key.lock,
            flags: key.flags,
            role: [None, Some("mmap_lock"), Some("siglock")].get(sum.role as usize).copied().flatten(),
            frames: self.stacks.of_waits(&self.skel.maps.stacks, key.stack, sum.count),
            cgroup: key.cgroup,
            waits: waits(sum.count, sum.total_ns, sum.max_ns, &sum.buckets),
            spun_ns: sum.spun_ns,
        }
    }

    /// Losses since the last call, by reason.
    fn lost(&mut self) -> BTreeMap<String, u64> {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain words in memory that is mapped as long as `skel` lives; each is read whole.
        let counts: [u64; LOST.len()] = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let programs = [self.skel.progs.on_begin.as_fd(), self.skel.progs.on_end.as_fd()];
        let mut lost = self.losses.since_last(counts, &programs);
        program::count_in(&mut lost, LOST[1], self.stacks.take_forgotten());
        lost
    }
}

/// Time of the two programs for one wait, of any thread: measured with programs without filters, and a burst
/// of waits.
///
/// # Errors
///
/// Missing if the kernel's run statistics are unavailable.
pub(super) fn ns_per_wait() -> Maybe<f64> {
    let options = Options { room: 1024, ..Options::of_everyone() };
    let bpf = Bpf::attach(&options).map_err(|e| Missing::because(e.to_string()))?;
    let p = &bpf.skel.progs;
    let burst = || hog::lock::contend(2, Duration::from_millis(50)).map(drop);
    let programs = [p.on_begin.as_fd(), p.on_end.as_fd()];
    let [begin, end] = program::in_a_burst(programs, &p.on_end_nothing, burst)?;
    Ok(begin.ns_per_run()? + end.ns_per_run()?)
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32) -> libbpf_rs::Result<u64> {
    let bpf = Bpf::attach(&Options::of_everyone())?;
    Ok(program::kernel_bytes(&bpf.skel, possible))
}

/// Reads a stack of the kernel's side: addresses, innermost first, then zeros.
fn frames(stack: &[u8]) -> Vec<u64> {
    let words = stack.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("eight bytes")));
    words.take_while(|frame| *frame != 0).collect()
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("room", &self.room).finish_non_exhaustive()
    }
}
