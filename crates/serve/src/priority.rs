//! Priority of the server's threads: the load that they show goes first.

use nix::libc;

/// Niceness of the threads that answer viewers and follow runs.
const NICE: i32 = 10;
/// Slice of CPU time of such a thread. Ordinary threads have at most 2.8 ms. One that wakes up takes the CPU
/// at once: a thread is not protected from one with a shorter slice (Linux 6.12). An even longer slice would
/// delay the thread while all CPUs are busy.
const SLICE_NS: u64 = 4_000_000;

/// Lowers the priority of this thread and of those that it starts.
///
/// # Source
///
/// `sched_setattr(2)`; `check_preempt_wakeup_fair` in `kernel/sched/fair.c` of Linux 6.12.
pub(crate) fn yield_to_loads() {
    // The process may have been nice before.
    let Ok(nice) = rustix::process::nice(NICE) else { return };
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).expect("a small constant"),
        // A thread of this policy takes the CPU from no other when it wakes up.
        sched_policy: libc::SCHED_BATCH.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // A kernel that refuses leaves the niceness.
    // SAFETY: the attributes are alive for the call, and have the size that they say; 0 is this thread.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Policy and niceness of this thread.
    fn own() -> (String, String) {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[38].to_owned(), fields[16].to_owned())
    }

    #[test]
    fn a_thread_that_yields_and_those_that_it_starts_disturb_no_load() {
        let before = own();
        let of_both = std::thread::spawn(|| {
            yield_to_loads();
            [own(), std::thread::spawn(own).join().unwrap()]
        });
        for (policy, nice) in of_both.join().unwrap() {
            assert_eq!(
                (policy, nice),
                (libc::SCHED_BATCH.to_string(), {
                    let before: i32 = before.1.parse().unwrap();
                    (before + NICE).min(19).to_string()
                })
            );
        }
        assert_eq!(own(), before, "other threads keep theirs");
    }
}
