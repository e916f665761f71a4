//! What the generator itself costs, and whether it got the CPU when it wanted it.

use std::fs;
use std::sync::atomic::Ordering;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::engine::Post;

/// CPU time and switches of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) user_us: i64,
    pub(crate) system_us: i64,
    pub(crate) switches: i64,
    /// Switches that the thread did not ask for.
    pub(crate) preemptions: i64,
}

impl Usage {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            user_us: self.user_us - before.user_us,
            system_us: self.system_us - before.system_us,
            switches: self.switches - before.switches,
            preemptions: self.preemptions - before.preemptions,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
    }
}

/// What the calling thread has used so far.
pub(crate) fn thread_usage() -> Option<Usage> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    let preemptions = usage.involuntary_context_switches();
    Some(Usage {
        user_us: usage.user_time().num_microseconds(),
        system_us: usage.system_time().num_microseconds(),
        switches: usage.voluntary_context_switches() + preemptions,
        preemptions,
    })
}

/// How long each worker's thread has been runnable without running, since the thread began.
///
/// `None` where the kernel does not count it.
///
/// # Source
///
/// `/proc/PID/task/TID/schedstat`, second field: Documentation/scheduler/sched-stats.rst.
pub(crate) fn run_queue_waits_ns(posts: &[Post]) -> Vec<Option<u64>> {
    let wait_of = |post: &Post| match post.run_queue_wait_ns.load(Ordering::SeqCst) {
        0 => run_queue_wait_ns(post.thread_id.load(Ordering::SeqCst)),
        at_its_end_ns => Some(at_its_end_ns),
    };
    posts.iter().map(wait_of).collect()
}

/// The same for one thread of this process.
pub(crate) fn run_queue_wait_ns(thread_id: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The largest share of `span_s` that any worker waited for a CPU, of waits read before and after.
pub(crate) fn starved_ratio(before: &[Option<u64>], after: &[Option<u64>], span_s: f64) -> Option<f64> {
    let waits = before.iter().zip(after).map(|(b, a)| Some(a.as_ref()?.saturating_sub(*b.as_ref()?) as f64));
    let worst_ns = waits.collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
    Some(worst_ns / 1e9 / span_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_off_worker_decides_and_an_unknown_one_leaves_it_open() {
        let before = [Some(1_000_000_000), Some(0)];
        assert_eq!(starved_ratio(&before, &[Some(1_500_000_000), Some(200_000_000)], 10.0), Some(0.05));
        assert_eq!(starved_ratio(&before, &[Some(1_500_000_000), None], 10.0), None);
    }

    #[test]
    fn a_thread_that_burns_cpu_sees_it_in_its_usage() {
        let before = thread_usage().unwrap();
        let mut random = crate::random::Random::of(1, 1);
        let burnt = || thread_usage().unwrap().since(&before);
        while burnt().user_us + burnt().system_us < 20_000 {
            std::hint::black_box(random.bits());
        }
        assert!(burnt().user_us > 0);
    }
}
