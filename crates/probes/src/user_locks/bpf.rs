//! Our programs in the kernel, and what they summed up.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, process, ptr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore as _, MapFlags};
use record::clock::{Clock, Monotonic};
use record::locks::Waits;
use record::missing::{Maybe, Missing};

use self::skel::types::{futex_key, futex_stack, futex_sum, waker, waker_key};
use self::skel::{UserLocksSkel, UserLocksSkelBuilder};
use super::Options;
use crate::descriptors;
use crate::hog::{self, Work};
use crate::locks;
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
    reason = "generated from user_locks.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/user_locks.skel.rs"));
}

const _: () = assert!(size_of::<futex_key>() == 24);
const _: () = assert!(size_of::<futex_sum>() == 224);
const _: () = assert!(size_of::<futex_stack>() == 968);
const _: () = assert!(size_of::<waker_key>() == 16);
const _: () = assert!(size_of::<waker>() == 32);

/// Programs, maps and links, and some.
const DESCRIPTORS: u64 = 64;

/// The reasons of `user_locks.h`, in its order.
const LOST: [&str; 4] = ["no-room", "no-room-for-stack", "no-room-for-waker", "no-room-for-task"];

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: UserLocksSkel<'static>,
    room: u32,
    half: u32,
    losses: Losses<{ LOST.len() }>,
    /// Stacks by name; those that the kernel's side has no room for are still wanted by waits that go on.
    stacks: Kept<Stack>,
    /// Waits that ended when their stack had been forgotten.
    without_stack: u64,
    _links: [Link; 2],
}

/// Where a thread called from.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    /// As frame pointers tell it, innermost first.
    pub(super) frames: Vec<u64>,
    /// What lies on the stack, innermost first.
    pub(super) window: Vec<u64>,
}

/// What was waited for by one process, with one lock, operation and stack.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) pid: u32,
    pub(super) comm: String,
    pub(super) address: u64,
    pub(super) op: u32,
    pub(super) stack: Maybe<Stack>,
    pub(super) waker: Maybe<Waker>,
    pub(super) waits: Waits,
    pub(super) spun_ns: u64,
    pub(super) not_slept: u64,
    pub(super) timed_out: u64,
}

/// Who woke waiters last.
#[derive(Debug)]
pub(super) struct Waker {
    /// `comm/thread`.
    pub(super) name: String,
    pub(super) stack: Maybe<Stack>,
}

/// All that was summed up in an interval.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) sums: Vec<Sum>,
    pub(super) lost: BTreeMap<String, u64>,
}

/// Whether an operation is one of locks that lend their priority: mutexes, all of them.
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
    /// A sentence for people: what is missing, and how to get it.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; what we have to say, we say in the error.
        libbpf_rs::set_print(None);
        descriptors::make_room(DESCRIPTORS)?;
        let machines = |pid| process_ids::machines(pid).map_err(|why| why.reason);
        let options = &Options { pid: options.pid.map(machines).transpose()?, ..options.clone() };
        let own = machines(process::id())?;
        Self::attach(options, own).map_err(|e| {
            if program::may_load() && !Path::new(KERNEL_BTF).exists() {
                return format!("no futex waits by BPF: this kernel has no BTF ({KERNEL_BTF})");
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
        settings.but_tgid = if options.own_threads { 0 } else { own_pid };
        settings.only_comm = program::comm(options.comm.as_deref());
        let skel = open.load()?;
        let links = [skel.progs.on_enter.attach()?, skel.progs.on_exit.attach()?];
        let losses = Losses::new(LOST);
        let stacks = Kept::new(4 * options.room as usize);
        Ok(Self { skel, room: options.room, half: 0, losses, stacks, without_stack: 0, _links: links })
    }

    /// Ends an interval: turns to the other half of the sums, and hands out the one that was in use.
    ///
    /// # Errors
    ///
    /// Missing where the kernel does not hand them out.
    pub(super) fn drain(&mut self) -> Maybe<(u64, Drained)> {
        let full = self.half & 1;
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
        let (key, sum): (futex_key, futex_sum) =
            unsafe { (ptr::read_unaligned(key.as_ptr().cast()), ptr::read_unaligned(sum.as_ptr().cast())) };
        let stack = self.stack(key.stack);
        // Where there was no room for it in the first place, the kernel's side has counted that.
        if stack.is_err() && key.stack != 0 {
            self.without_stack += sum.count;
        }
        Sum {
            pid: key.tgid,
            comm: program::text(&sum.comm),
            address: key.address,
            op: key.op,
            stack,
            waker: self.waker(&key),
            waits: locks::waits(sum.count, sum.total_ns, sum.max_ns, &sum.buckets),
            spun_ns: sum.spun_ns,
            not_slept: sum.not_slept,
            timed_out: sum.timed_out,
        }
    }

    fn waker(&mut self, of: &futex_key) -> Maybe<Waker> {
        let key = [of.address.to_ne_bytes(), u64::from(of.tgid).to_ne_bytes()].concat();
        let found = self.skel.maps.wakers.lookup(&key, MapFlags::ANY).ok().flatten();
        let bytes = found.ok_or_else(|| Missing::because("nobody was seen to wake it"))?;
        // SAFETY: the map's value is this type, of plain integers; its size is asserted above.
        let waker: waker = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
        let name = format!("{}/{}", program::text(&waker.comm), waker.tid);
        Ok(Waker { name, stack: self.stack(waker.stack) })
    }

    fn stack(&mut self, name: u64) -> Maybe<Stack> {
        if let Some(known) = self.stacks.get(name) {
            return Ok(known);
        }
        let found = self.skel.maps.stacks.lookup(&name.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let stack = Stack::of(&found.ok_or_else(|| Missing::because("there was no room for its stack"))?);
        self.stacks.insert(name, stack.clone());
        Ok(stack)
    }

    /// Makes room before the kernel's side runs out of it: what is wanted again is written again, and what waits that go on
    /// want is kept here.
    fn make_room(&mut self) {
        for (name, stack) in program::take_if_half_full(&self.skel.maps.stacks) {
            let name = u64::from_ne_bytes(name.try_into().expect("a name of eight bytes"));
            self.stacks.insert(name, Stack::of(&stack));
        }
        program::empty_if_half_full(&self.skel.maps.wakers);
    }

    /// What was lost since the last time, by reason.
    fn lost(&mut self) -> BTreeMap<String, u64> {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain words in memory that is mapped as long as `skel` lives; each is read whole.
        let counts: [u64; LOST.len()] = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let programs = [self.skel.progs.on_enter.as_fd(), self.skel.progs.on_exit.as_fd()];
        let mut lost = self.losses.since_last(counts, &programs);
        program::count_in(&mut lost, LOST[1], std::mem::take(&mut self.without_stack));
        lost
    }

    /// Time of our two programs for one wait.
    pub(super) fn ns_per_wait(&mut self) -> Maybe<f64> {
        let failed = |what: &str, e: &dyn fmt::Display| Missing::because(format!("{what}: {e}"));
        let _statistics = program::run_statistics()
            .map_err(|e| failed("the kernel's run statistics are closed to us", &e))?;
        let nothing = &self.skel.progs.on_exit_nothing;
        let _nothing = nothing.attach().map_err(|e| failed("the empty program cannot be attached", &e))?;
        let programs = [self.skel.progs.on_enter.as_fd(), self.skel.progs.on_exit.as_fd(), nothing.as_fd()];
        let before = programs.map(RunTime::of);
        let (stop, length) = (AtomicBool::new(false), Duration::from_millis(100));
        hog::lock::hold_mutex(2, Duration::from_micros(50), &Work { length, stop: &stop });
        let [enter, exit, nothing] =
            std::array::from_fn(|i| RunTime::of(programs[i])?.ns_per_run_since(before[i].clone()?));
        Ok(enter? + exit? - 2.0 * nothing?)
    }
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("room", &self.room).finish_non_exhaustive()
    }
}
