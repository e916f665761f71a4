//! Interrupts with long handlers: again and again, another CPU asks for the counts of a large group of perf
//! events, which the asked CPU reads one by one in the handler of a function call.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use perf_event::events::Software;
use perf_event::{Builder, Counter, Group, ReadFormat};
use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};

use crate::{descriptors, hog};

/// Calls per second. The way to the handler and back, which no event shows, takes up to some 10 us of each.
pub(super) const PER_S: u64 = 500;
/// Some 0.1 ms of work. The kernel limits the answer to 16 KiB: 16 bytes an event.
const EVENTS: usize = 900;

/// Calls under way; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Calls {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Calls {
    /// Starts to call a function on that CPU from the others.
    ///
    /// # Errors
    ///
    /// Missing if there is no other CPU, or its events are not for us.
    pub(super) fn start(cpu: u32) -> Maybe<Self> {
        let failed = |e: &dyn std::fmt::Display| {
            Missing::because(format!("interrupts with long handlers cannot be made: {e}"))
        };
        let others: Vec<u32> = hog::usable().into_iter().filter(|other| *other != cpu).collect();
        if others.is_empty() {
            return Err(Missing::because("interrupts come from another CPU: needs two"));
        }
        descriptors::make_room(EVENTS as u64 + 64).map_err(|e| failed(&e))?;
        let (mut leader, members) = group(cpu).map_err(|e| failed(&e))?;
        let (stop, stopped) = mpsc::channel();
        let body = move || {
            let _members = members;
            keep_to(&others);
            let mut due_ns = Monotonic.now_ns();
            loop {
                due_ns = (due_ns + 1_000_000_000 / PER_S).max(Monotonic.now_ns());
                let left = Duration::from_nanos(due_ns - Monotonic.now_ns().min(due_ns));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) || leader.read().is_err() {
                    break;
                }
            }
        };
        let thread =
            thread::Builder::new().name("function-calls".into()).spawn(body).map_err(|e| failed(&e))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread ends when the sender is gone.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn group(cpu: u32) -> io::Result<(Group, Vec<Counter>)> {
    let of_cpu = |software: Software| {
        let mut builder = Builder::new(software);
        builder.any_pid().one_cpu(cpu as usize).include_kernel().include_hv().exclude_idle(false);
        builder.read_format(ReadFormat::GROUP);
        builder
    };
    let mut leader = of_cpu(Software::DUMMY).build_group()?;
    let member = of_cpu(Software::CPU_CLOCK);
    let members = (0..EVENTS).map(|_| leader.add(&member)).collect::<io::Result<Vec<_>>>()?;
    leader.enable()?;
    leader.read()?;
    Ok((leader, members))
}

/// Only the other CPUs send interrupts; a CPU calls its own functions without one.
fn keep_to(cpus: &[u32]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        // A CPU beyond the set's size is not used.
        let _ = set.set(*cpu as usize);
    }
    // If it fails, calls without an interrupt are work of this thread, which the proof sees as other work.
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}
