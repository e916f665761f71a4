//! The lead: the time before a due time at which a worker asks to be woken.
//!
//! A sleep ends late: the timer's interrupt, the CPU's exit from its idle state and the scheduler take some
//! tens of microseconds, in a virtual machine more. The workers learn the delay together from their own
//! wake-ups, from the warm-up on: the *lead* is its running 99th percentile, or the 90th if the 99th is
//! longer than a lead may be. A worker asks to be woken that much before the due time and spins for the rest.
//!
//! The 99th, because a run is judged by it. If wake-ups take 44 us at p50, 62 at p90 and 170 to 290 at p99, a
//! lead of the 90th leaves 17 of 20 loads of 500/s INVALID (lateness p99 120 to 430 us, 100 allowed).
//!
//! Spinning has a budget, a share of one CPU for all workers together, and less if the machine has less than
//! one idle CPU. If the budget is used up, the lead shrinks: at the shortest wake-up latency it costs nothing
//! and still removes most of the lateness.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum lead. A wake-up that takes longer waited for a CPU, and no lead helps against that.
const LEAD_MAX_NS: u64 = 300_000;
/// Limit of an estimate: it only has to show that the latency is longer than a lead may be.
const LEARNED_MAX_NS: f64 = 2.0 * LEAD_MAX_NS as f64;
/// The estimates: the quantile, and the step by which one wake-up moves it, as a share of it. Few wake-ups
/// pass the 99th: smaller steps reach it after the warm-up only.
const P90: (f64, f64) = (0.90, 1.0 / 32.0);
const P99: (f64, f64) = (0.99, 1.0 / 8.0);
const STEP_MIN_NS: f64 = 500.0;
/// Maximum unused budget that is saved up, as the time in which it accrues.
const SAVED_MAX: Duration = Duration::from_millis(200);
const MILLION: u64 = 1_000_000;

/// The shared estimate. Workers write it without a lock: of two concurrent updates, one may be lost.
#[derive(Debug)]
pub(crate) struct Lead {
    /// Budget in millionths of a CPU; 0: no lead.
    budget_e6: u64,
    /// Millionths of the budget that the idle CPUs allow.
    room_e6: AtomicU64,
    /// The running percentiles.
    p90_ns: AtomicU64,
    p99_ns: AtomicU64,
    /// The lead that the budget allows.
    allowed_ns: AtomicU64,
    /// Unused budget.
    left_ns: AtomicI64,
    /// Time at which the budget accrued last; 0 before the first wake-up.
    accrued_ns: AtomicU64,
    first_ns: AtomicU64,
    spun_ns: AtomicU64,
}

/// The lead, and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent {
    pub(crate) lead_ns: u64,
    /// Share of one CPU.
    pub(crate) spun_ratio: f64,
}

impl Lead {
    /// An estimate that knows nothing yet.
    ///
    /// - `budget_ratio`: share of a CPU; 0 turns the lead off.
    pub(crate) fn new(budget_ratio: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, from 0 on")]
        let budget_e6 = (budget_ratio * MILLION as f64) as u64;
        Self {
            budget_e6,
            room_e6: AtomicU64::new(MILLION),
            p90_ns: AtomicU64::new(0),
            p99_ns: AtomicU64::new(0),
            allowed_ns: AtomicU64::new(LEAD_MAX_NS),
            left_ns: AtomicI64::new(0),
            accrued_ns: AtomicU64::new(0),
            first_ns: AtomicU64::new(0),
            spun_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.budget_e6 > 0
    }

    /// The current lead.
    pub(crate) fn ns(&self) -> u64 {
        if !self.is_on() {
            return 0;
        }
        let p99_ns = self.p99_ns.load(Ordering::Relaxed);
        let wanted_ns = if p99_ns <= LEAD_MAX_NS { p99_ns } else { self.p90_ns.load(Ordering::Relaxed) };
        wanted_ns.min(self.allowed_ns.load(Ordering::Relaxed))
    }

    /// Learns from a sleep before an event that was to end at `asked_ns` and ended at `woke_ns`.
    pub(crate) fn learn(&self, asked_ns: u64, woke_ns: u64) {
        if !self.is_on() {
            return;
        }
        let late_ns = woke_ns.saturating_sub(asked_ns) as f64;
        let is_first = self.first_ns.load(Ordering::Relaxed) == 0;
        for (estimate, (quantile, share)) in [(&self.p90_ns, P90), (&self.p99_ns, P99)] {
            let before_ns = if is_first { late_ns } else { estimate.load(Ordering::Relaxed) as f64 };
            let step_ns = (before_ns * share).max(STEP_MIN_NS);
            let moved_ns = if late_ns > before_ns { quantile * step_ns } else { (quantile - 1.0) * step_ns };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            let after_ns = (before_ns + moved_ns).clamp(0.0, LEARNED_MAX_NS) as u64;
            estimate.store(after_ns, Ordering::Relaxed);
        }
    }

    /// Adapts the budget to the number of idle CPUs.
    pub(crate) fn note_idle_cpus(&self, idle: f64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let room_e6 = (idle.clamp(0.0, 1.0) * MILLION as f64) as u64;
        self.room_e6.store(room_e6, Ordering::Relaxed);
    }

    /// The lead and its cost until `now_ns`; `None` if it is off, or no worker has slept yet.
    pub(crate) fn spent(&self, now_ns: u64) -> Option<Spent> {
        let first_ns = self.first_ns.load(Ordering::Relaxed);
        let span_ns = now_ns.saturating_sub(first_ns);
        if !self.is_on() || first_ns == 0 || span_ns == 0 {
            return None;
        }
        let spun_ratio = self.spun_ns.load(Ordering::Relaxed) as f64 / span_ns as f64;
        Some(Spent { lead_ns: self.ns(), spun_ratio })
    }

    /// Charges `spun_ns`, for which a worker spun until `now_ns`, whether it had slept before or not. Called
    /// once for each event before which it slept or spun.
    pub(crate) fn spend(&self, now_ns: u64, spun_ns: u64) {
        if !self.is_on() {
            return;
        }
        let before_ns = self.accrued_ns.fetch_max(now_ns, Ordering::Relaxed);
        if before_ns == 0 {
            self.first_ns.store(now_ns, Ordering::Relaxed);
        }
        let since_ns = if before_ns == 0 { 0 } else { now_ns.saturating_sub(before_ns) };
        let accrues_e6 = self.budget_e6 * self.room_e6.load(Ordering::Relaxed) / MILLION;
        let of = |span_ns: u64| {
            let share_ns = u128::from(span_ns) * u128::from(accrues_e6) / u128::from(MILLION);
            i64::try_from(share_ns).unwrap_or(i64::MAX)
        };
        self.spun_ns.fetch_add(spun_ns, Ordering::Relaxed);
        let spent_ns = i64::try_from(spun_ns).unwrap_or(i64::MAX);
        let left_ns =
            self.left_ns.load(Ordering::Relaxed).saturating_add(of(since_ns)).saturating_sub(spent_ns);
        let saved_max_ns = of(crate::schedule::clock::to_ns(SAVED_MAX));
        // Overspending is worked off, but only up to a limit.
        self.left_ns.store(left_ns.clamp(-saved_max_ns - 1, saved_max_ns), Ordering::Relaxed);
        let allowed_ns = self.allowed_ns.load(Ordering::Relaxed);
        let allowed_ns = if left_ns < 0 {
            allowed_ns - allowed_ns.div_ceil(16)
        } else {
            allowed_ns + allowed_ns / 64 + 100
        };
        self.allowed_ns.store(allowed_ns.min(LEAD_MAX_NS), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::random::Random;

    /// Plays a worker that wakes 40 to 60 us late, and another `tail_ns` later; returns the latenesses and
    /// the share of time spun, both of the second half.
    fn play_with(
        lead: &Lead,
        gap_ns: u64,
        events: u64,
        tail_ns: impl Fn(&mut Random) -> u64,
    ) -> (Vec<u64>, f64) {
        let mut random = Random::of(9, gap_ns);
        let (mut late, mut spun_ns) = (Vec::new(), 0);
        let mut now_ns = 1_000_000_000;
        for event in 1..=events {
            let due_ns = 1_000_000_000 + event * gap_ns;
            let asked_ns = due_ns - lead.ns();
            // A worker that comes late neither sleeps nor spins; one that comes during the lead only spins.
            let before_ns = now_ns;
            if now_ns < asked_ns {
                let tail_ns = tail_ns(&mut random);
                now_ns = asked_ns + 40_000 + random.below(20_000) + tail_ns;
                lead.learn(asked_ns, now_ns);
            }
            let spins_ns = due_ns.saturating_sub(now_ns);
            now_ns = now_ns.max(due_ns);
            if now_ns > before_ns {
                lead.spend(now_ns, spins_ns);
            }
            spun_ns += if event > events / 2 { spins_ns } else { 0 };
            if event > events / 2 {
                late.push(now_ns - due_ns);
            }
        }
        late.sort_unstable();
        (late, spun_ns as f64 / (events / 2 * gap_ns) as f64)
    }

    /// One time in fifty 500 us later.
    fn play(lead: &Lead, gap_ns: u64, events: u64) -> (Vec<u64>, f64) {
        play_with(lead, gap_ns, events, |random| if random.below(50) == 0 { 500_000 } else { 0 })
    }

    #[test]
    fn a_worker_learns_how_late_it_wakes_and_is_on_time_nine_times_of_ten() {
        let lead = Lead::new(0.05);
        let (late, spun) = play(&lead, 1_000_000, 4_000);
        assert_eq!(late[late.len() / 2], 0);
        assert_eq!(late[late.len() * 85 / 100], 0);
        assert!(spun < 0.05, "{spun}");
        assert!((55_000..65_000).contains(&lead.ns()), "the 90th percentile is 58 us: {}", lead.ns());
    }

    /// Wake-ups of a virtual machine: 44 us at p50, 62 at p90, 106 to 155 at p98, 173 to 289 at p99.
    #[test]
    fn wake_ups_with_a_tail_that_the_budget_reaches_are_on_time_at_p99() {
        let tail = |random: &mut Random| match random.below(1_000) {
            0..20 => random.below(200_000),
            20..100 => random.below(40_000),
            _ => 0,
        };
        for (gap_ns, events) in [(2_000_000, 2_000), (5_000_000, 1_000)] {
            let lead = Lead::new(0.05);
            let (late, spun) = play_with(&lead, gap_ns, events, tail);
            let p99_ns = late[late.len() * 99 / 100];
            assert!(
                p99_ns < 60_000,
                "{gap_ns}: {p99_ns} ns late at p99; a lead of the 90th percentile leaves over 90 us"
            );
            assert!(spun < 0.055, "{gap_ns}: {spun}");
        }
    }

    #[test]
    fn spinning_stays_within_its_budget_and_the_rest_of_the_lead_remains() {
        // A sleep spans two gaps of 20 us: half of the events are late by its length, whatever the lead.
        for (gap_ns, budget, late_ns) in
            [(20_000, 0.05, 32_000), (100_000, 0.05, 25_000), (100_000, 0.01, 25_000)]
        {
            let lead = Lead::new(budget);
            let (late, spun) = play(&lead, gap_ns, 200_000);
            assert!(spun <= budget * 1.1, "{gap_ns}: {spun}");
            assert!(late[late.len() / 2] < late_ns, "{gap_ns}, {budget}: {}", late[late.len() / 2]);
        }
    }

    #[test]
    fn a_machine_without_an_idle_cpu_is_not_spun_on() {
        let lead = Lead::new(0.05);
        lead.note_idle_cpus(0.0);
        let (_, spun) = play(&lead, 1_000_000, 4_000);
        assert!(spun < 0.002, "{spun}");
        let off = Lead::new(0.0);
        let (late, spun) = play(&off, 1_000_000, 400);
        assert!(spun == 0.0 && late[0] >= 40_000 && off.spent(u64::MAX).is_none());
    }
}
