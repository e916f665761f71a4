//! The generator's scheduling priority: before all other threads, or after them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::measure::client;

/// Gives the calling thread priority over every thread of ordinary priority.
///
/// # Errors
///
/// `EPERM` without the right: `CAP_SYS_NICE`, or a limit on real-time priority (`ulimit -r`) of at least 1.
pub(crate) fn real_time() -> io::Result<()> {
    // The lowest real-time priority: before all ordinary threads, behind the kernel's own real-time threads.
    set(libc::SCHED_FIFO, 1)
}

/// Makes the calling thread an ordinary one again, with its previous niceness.
pub(crate) fn ordinary() -> io::Result<()> {
    set(libc::SCHED_OTHER, 0)
}

/// Checks whether a thread of this process may be real-time, on a separate thread that ends with its
/// priority.
pub(crate) fn may_be_real_time() -> io::Result<()> {
    thread::Builder::new().name("load-may-fifo".to_owned()).spawn(real_time)?.join().expect("it cannot panic")
}

fn set(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters are alive for the call; 0 is the calling thread.
    Ok(Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)?)
}

/// Idle-priority threads, one for each CPU, that keep every CPU awake; they end when this is dropped.
///
/// An idle CPU takes time to wake up, and in a virtual machine its host's CPU does too: at low rates that is
/// a large part of every latency, and at high rates a smaller one.
#[derive(Debug)]
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Arc<AtomicI32>)>,
}

impl Awake {
    /// Starts one thread on every CPU that this process may use.
    pub(crate) fn keep() -> io::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let over = Arc::new(AtomicBool::new(false));
        let mut awake = Self { over, threads: Vec::new() };
        for cpu in (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)) {
            let (over, id) = (Arc::clone(&awake.over), Arc::new(AtomicI32::new(0)));
            let its_id = Arc::clone(&id);
            let body = move || {
                // A thread that cannot get idle priority or be pinned must not spin: it would compete with
                // the workers.
                let mut own = CpuSet::new();
                let is_placed = own.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &own)).is_ok();
                if set(libc::SCHED_IDLE, 0).is_err() || !is_placed {
                    return;
                }
                its_id.store(nix::unistd::gettid().as_raw(), Ordering::SeqCst);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let thread = thread::Builder::new().name(format!("load-awake-{cpu}")).spawn(body)?;
            awake.threads.push((thread, id));
        }
        Ok(awake)
    }

    /// CPU time that they have used so far; `None` if the kernel does not report it.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let ns_of = |id: &Arc<AtomicI32>| match id.load(Ordering::SeqCst) {
            0 => Some(0),
            id => client::scheduled(id).map(|s| s.on_cpu_ns),
        };
        self.threads.iter().map(|(_, id)| ns_of(id)).sum::<Option<u64>>().map(Duration::from_nanos)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for (thread, _) in self.threads.drain(..) {
            // The thread does nothing that could panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_keep_awake_use_cpu_and_end_when_told() {
        let awake = Awake::keep().unwrap();
        assert!(!awake.threads.is_empty());
        while awake.cpu().is_some_and(|cpu| cpu.is_zero()) {
            thread::yield_now();
        }
        drop(awake);
    }

    #[test]
    fn asking_for_real_time_leaves_the_asker_as_it_was() {
        let _ = may_be_real_time();
        // SAFETY: 0 is the calling thread.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
    }
}
