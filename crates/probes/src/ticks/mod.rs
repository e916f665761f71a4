//! The view of samplers: at the tick, after the tick, and out of phase with it.
//!
//! Compared with the events, they show what sampling tools miss.
//!
//! *Traces* the expiry of the scheduler's tick (`hrtimer_expire_entry`), the end of its interrupt
//! (`local_timer_exit`, which only x86 has) and a `cpu-clock` perf event about every 1/997 s on each CPU.
//! *Yields* three shares of time (ratio) per CPU and interval: of ticks that found a task running, of ticks
//! after which one was runnable, each divided by how many ticks there would be in that time, since none come
//! while a CPU idles, or by how many came if these are more (an interval may begin just before a tick and end
//! just after one); of the samples that came, those that found a task, a softirq or an interrupt's handler
//! running. *Differs from* `/proc/stat` in that no tick is left out or booked twice. *Blind to* ticks in
//! low-resolution timer mode, which no hrtimer drives. *Costs* some 0.1 to 0.25 us a tick and a sample, and a
//! look at each expiring hrtimer.

#[cfg(feature = "bpf")]
pub(crate) mod bpf;

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
pub(crate) use self::bpf::Ticks;
#[cfg(not(feature = "bpf"))]
pub(crate) use crate::absent::Ticks;

/// Period of the samples of a CPU: 997 Hz, a prime, which is in step with nothing.
pub(crate) const SAMPLE_PERIOD_NS: u64 = 1_003_009;

/// Minimum share of the due samples: fewer say nothing about the time in between.
const CAME_AT_LEAST: f64 = 0.5;

/// Minimum number of ticks or samples that are due in an interval: of fewer, most depends on its edges.
const DUE_MIN: f64 = 5.0;

/// Counts of one CPU so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    at_ns: u64,
    /// Ticks, and those of them that found a task running.
    ticks: (u64, u64),
    /// Ends of ticks' interrupts, and those of them after which a task was runnable.
    ends: Option<(u64, u64)>,
    /// Samples that came, and those of them that found something running.
    sampled: Option<(u64, u64)>,
    /// Timers of any kind that expired.
    timers: u64,
}

/// Counts of every CPU at one edge, and the tick's period if it is known by now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    period_ns: Option<u64>,
    cpus: BTreeMap<u32, Counts>,
}

impl Tally {
    /// Timers of any kind that expired since `before`, on the CPUs of this tally.
    pub(crate) fn timers_since(&self, before: &Self) -> u64 {
        let earlier = |cpu: &u32| before.cpus.get(cpu).map_or(0, |counts| counts.timers);
        self.cpus.iter().map(|(cpu, counts)| counts.timers.saturating_sub(earlier(cpu))).sum()
    }
}

/// The three shares of one CPU over an interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shares {
    pub(crate) before_tick: Maybe<f64>,
    pub(crate) after_tick: Maybe<f64>,
    pub(crate) out_of_phase: Maybe<f64>,
}

impl Shares {
    /// All three missing, for one reason.
    pub(crate) fn missing(why: &Missing) -> Self {
        let why = || Err(why.clone());
        Self { before_tick: why(), after_tick: why(), out_of_phase: why() }
    }
}

/// The shares of one CPU between two tallies.
pub(crate) fn shares(cpu: u32, before: &Tally, after: &Tally) -> Shares {
    let (Some(b), Some(a)) = (before.cpus.get(&cpu), after.cpus.get(&cpu)) else {
        return Shares::missing(&Missing::because("the CPU was not online at both ends of the interval"));
    };
    let no_period = || Missing::because("no two consecutive ticks were observed yet");
    let wall_ns = a.at_ns.saturating_sub(b.at_ns) as f64;
    let is_long = |tick_ns: u64| wall_ns >= DUE_MIN * tick_ns as f64;
    let tick_ns = after.period_ns.ok_or_else(no_period);
    let tick_ns = tick_ns.and_then(|ns| is_long(ns).then_some(ns).ok_or_else(|| too_short("ticks")));
    let grown = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1));
    // Both counts are read a moment apart: each tick that found something came.
    let share = |(came, found): (u64, u64), period_ns: u64| {
        found as f64 / (wall_ns / period_ns as f64).max(came.max(found).max(1) as f64)
    };
    let ended = a.ends.zip(b.ends).map(|(a, b)| grown(a, b));
    let no_end = || Missing::because("this kernel does not report when a tick's interrupt ends (x86 does)");
    let ended = ended.ok_or_else(no_end);
    Shares {
        before_tick: tick_ns.clone().map(|ns| share(grown(a.ticks, b.ticks), ns)),
        after_tick: tick_ns.and_then(|ns| Ok(share(ended?, ns))),
        out_of_phase: sampled(b.sampled, a.sampled, wall_ns),
    }
}

fn too_short(what: &str) -> Missing {
    Missing::because(format!("too few {what} are due in so short a time"))
}

/// Share of the samples that came: the kernel delays some at any time, whatever runs then.
fn sampled(before: Option<(u64, u64)>, after: Option<(u64, u64)>, wall_ns: f64) -> Maybe<f64> {
    let no_event = || Missing::because("no perf event could be opened on this CPU");
    let ((before, found_before), (after, found)) = before.zip(after).ok_or_else(no_event)?;
    let (came, due) = (after.saturating_sub(before) as f64, wall_ns / SAMPLE_PERIOD_NS as f64);
    if due < DUE_MIN {
        return Err(too_short("samples"));
    }
    if came < due * CAME_AT_LEAST || came == 0.0 {
        return Err(Missing::because(format!("{came} of {due:.0} samples came")));
    }
    Ok(found.saturating_sub(found_before) as f64 / came)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn tally(at_ns: u64, before: u64, after: Option<u64>, sampled: Option<(u64, u64)>) -> Tally {
        let (ticks, ends) = ((before, before), after.map(|after| (after, after)));
        Tally {
            period_ns: Some(4_000_000),
            cpus: [(1, Counts { at_ns, ticks, ends, sampled, timers: 0 })].into(),
        }
    }

    #[test]
    fn of_a_cpu_that_every_tick_found_busy_the_share_is_one_wherever_the_interval_begins() {
        // 51 ticks of 4 ms in an interval of 200.1 ms.
        let shares = shares(1, &tally(0, 10, Some(20), None), &tally(200_100_000, 61, Some(71), None));
        assert_eq!((shares.before_tick, shares.after_tick), (Ok(1.0), Ok(1.0)));
    }

    #[test]
    fn counts_become_shares_of_what_there_would_be_in_that_time() {
        let shares = shares(
            1,
            &tally(0, 10, Some(20), Some((500, 100))),
            &tally(2 * S, 135, Some(520), Some((2_494, 1_097))),
        );
        assert!((shares.before_tick.unwrap() - 0.25).abs() < 1e-9);
        assert!((shares.after_tick.unwrap() - 1.0).abs() < 1e-9);
        assert!((shares.out_of_phase.unwrap() - 0.5).abs() < 1e-3);
    }

    /// Ctrl-C 3 ms after an interval ended: the tick that came then is no 100 %, and of two samples one is no
    /// half.
    #[test]
    fn an_interval_of_a_few_ticks_or_samples_has_no_shares() {
        let short = |until_ns| {
            let after = tally(until_ns, 11, Some(21), Some((502, 101)));
            shares(1, &tally(0, 10, Some(20), Some((500, 100))), &after)
        };
        let found = short(3_000_000);
        for share in [found.before_tick, found.after_tick, found.out_of_phase] {
            assert!(share.as_ref().is_err_and(|why| why.reason.contains("so short a time")), "{share:?}");
        }
        assert_eq!(short(20_000_000).before_tick, Ok(0.2));
        assert!(short(19_999_999).before_tick.is_err());
    }

    /// CPU 0 goes offline with its count: that of CPU 1 does not pay for it.
    #[test]
    fn timers_of_a_cpu_that_went_offline_are_not_taken_off_those_of_others() {
        let of = |cpus: &[(u32, u64)]| Tally {
            period_ns: None,
            cpus: cpus
                .iter()
                .map(|(cpu, timers)| (*cpu, Counts { timers: *timers, ..Counts::default() }))
                .collect(),
        };
        assert_eq!(of(&[(1, 150)]).timers_since(&of(&[(0, 900), (1, 100)])), 50);
        assert_eq!(of(&[(1, 150), (2, 7)]).timers_since(&of(&[(1, 100)])), 57);
    }

    #[test]
    fn samples_that_the_kernel_held_back_count_for_neither_side_and_too_few_are_none() {
        let share = |came, found| sampled(Some((0, 0)), Some((came, found)), 2e9);
        assert!((share(1_600, 128).unwrap() - 0.08).abs() < 1e-9);
        assert_eq!(share(400, 32), Err(Missing::because("400 of 1994 samples came")));
        assert!(sampled(Some((7, 3)), Some((7, 3)), 0.0).is_err());
    }

    #[test]
    fn what_was_not_watched_says_why() {
        let mut late = tally(S, 0, None, None);
        late.period_ns = None;
        let of = shares(1, &tally(0, 0, None, None), &late);
        assert!(of.before_tick.unwrap_err().reason.contains("consecutive"));
        assert!(of.out_of_phase.unwrap_err().reason.contains("perf event"));
        let with_period = shares(1, &tally(0, 0, None, None), &tally(S, 0, None, None));
        assert!(with_period.after_tick.unwrap_err().reason.contains("x86"));
        assert!(shares(2, &tally(0, 0, None, None), &tally(S, 0, None, None)).before_tick.is_err());
    }
}
