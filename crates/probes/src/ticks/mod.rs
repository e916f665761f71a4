//! What samplers see: at the tick, after the tick, and out of phase with it.
//!
//! Not for their own sake: held against the events, they show what the tools that sample are blind to.
//!
//! *Traces* the expiry of the scheduler's tick (`hrtimer_expire_entry`), the end of its interrupt (`local_timer_exit`, which
//! only x86 has) and a `cpu-clock` perf event every 1/997 s on each CPU.
//! *Yields* three shares of time (ratio) per CPU and interval: of ticks that found a task running, of ticks after which one
//! was runnable, of samples that found one running; each divided by how many there would be in that time, since neither
//! ticks nor samples come while a CPU idles.
//! *Differs from* `/proc/stat` in that no tick is left out or booked twice.
//! *Blind to* ticks in low-resolution timer mode, which no hrtimer drives.
//! *Costs* some 0.1 to 0.25 us a tick and a sample, and a look at each expiring hrtimer.

#[cfg(feature = "bpf")]
mod bpf;

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};

#[cfg(feature = "bpf")]
pub(crate) use self::bpf::Ticks;

/// 997 Hz: a prime, so that it stays in step with nothing.
const SAMPLE_PERIOD_NS: u64 = 1_003_009;

/// What was counted on one CPU so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    at_ns: u64,
    before: u64,
    after: Option<u64>,
    sampled: Option<u64>,
}

/// The counts of every CPU at one edge, and the tick's period where it is known by now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    period_ns: Option<u64>,
    cpus: BTreeMap<u32, Counts>,
}

/// The three shares of one CPU over an interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shares {
    pub(crate) before_tick: Maybe<f64>,
    pub(crate) after_tick: Maybe<f64>,
    pub(crate) out_of_phase: Maybe<f64>,
}

impl Shares {
    /// None of the three, all for one reason.
    pub(crate) fn missing(why: &Missing) -> Self {
        let why = || Err(why.clone());
        Self { before_tick: why(), after_tick: why(), out_of_phase: why() }
    }
}

/// What cannot be had in a build without BPF.
#[cfg(not(feature = "bpf"))]
#[derive(Debug)]
pub(crate) enum Ticks {}

#[cfg(not(feature = "bpf"))]
impl Ticks {
    pub(crate) fn open(_: &std::collections::BTreeSet<u32>) -> Result<Self, String> {
        Err("this build has no BPF".into())
    }

    pub(crate) fn tally(&self, _: &std::collections::BTreeSet<u32>) -> Tally {
        match *self {}
    }
}

/// The shares of one CPU between two tallies.
pub(crate) fn shares(cpu: u32, before: &Tally, after: &Tally) -> Shares {
    let (Some(b), Some(a)) = (before.cpus.get(&cpu), after.cpus.get(&cpu)) else {
        return Shares::missing(&Missing::because("the CPU was not online at both ends of the interval"));
    };
    let no_period = || Missing::because("no two ticks in a row were seen yet");
    let tick_ns = after.period_ns.ok_or_else(no_period);
    let wall_ns = a.at_ns.saturating_sub(b.at_ns) as f64;
    let share = |found: u64, period_ns: u64| found as f64 * period_ns as f64 / wall_ns;
    let both = |b: Option<u64>, a: Option<u64>, why: &str| {
        a.zip(b).map(|(a, b)| a.saturating_sub(b)).ok_or_else(|| Missing::because(why))
    };
    let ended = both(b.after, a.after, "this kernel does not tell when a tick's interrupt ends (x86 does)");
    let sampled = both(b.sampled, a.sampled, "no perf event could be opened on this CPU");
    Shares {
        before_tick: tick_ns.clone().map(|ns| share(a.before.saturating_sub(b.before), ns)),
        after_tick: tick_ns.and_then(|ns| Ok(share(ended?, ns))),
        out_of_phase: sampled.map(|found| share(found, SAMPLE_PERIOD_NS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn tally(at_ns: u64, before: u64, after: Option<u64>, sampled: Option<u64>) -> Tally {
        Tally { period_ns: Some(4_000_000), cpus: [(1, Counts { at_ns, before, after, sampled })].into() }
    }

    #[test]
    fn counts_become_shares_of_what_there_would_be_in_that_time() {
        let shares =
            shares(1, &tally(0, 10, Some(20), Some(100)), &tally(2 * S, 135, Some(520), Some(1_097)));
        assert!((shares.before_tick.unwrap() - 0.25).abs() < 1e-9);
        assert!((shares.after_tick.unwrap() - 1.0).abs() < 1e-9);
        assert!((shares.out_of_phase.unwrap() - 0.5).abs() < 1e-3);
    }

    #[test]
    fn what_was_not_watched_says_why() {
        let mut late = tally(S, 0, None, None);
        late.period_ns = None;
        let of = shares(1, &tally(0, 0, None, None), &late);
        assert!(of.before_tick.unwrap_err().reason.contains("in a row"));
        assert!(of.out_of_phase.unwrap_err().reason.contains("perf event"));
        let with_period = shares(1, &tally(0, 0, None, None), &tally(S, 0, None, None));
        assert!(with_period.after_tick.unwrap_err().reason.contains("x86"));
        assert!(shares(2, &tally(0, 0, None, None), &tally(S, 0, None, None)).before_tick.is_err());
    }
}
