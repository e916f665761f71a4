//! Time for which the whole generator stood still: stopped by a signal, frozen with its control group or its
//! machine, or off its CPUs.
//!
//! A sleep of the conductor that ends too late shows it. A busy machine ends sleeps late too, and while the
//! conductor waits for a CPU the workers may have one. So short delays count less the time for which the
//! conductor was runnable, by the kernel's account. A process that is stopped or frozen is not runnable. An
//! event that begins meanwhile ends the stop: a hypervisor may take the conductor's CPU alone, or leave it
//! asleep for longer than its timer, and the kernel's account does not have that.

use std::ops::Range;

use crate::engine::{Engine, STOP_NS_MIN};
use crate::measure::client::OwnAccount;

/// Minimum delay of the conductor's wake-up that counts even if the conductor waited for a CPU. Shorter stops
/// count if they are as long together: a hypervisor takes some milliseconds now and then.
const STARVED_NS_MIN: u64 = 100_000_000;

/// The pauses of the measured phase.
#[derive(Debug)]
pub(super) struct Pauses {
    phase_ns: Range<u64>,
    /// The account of the conductor's thread; its first sleep opens it.
    account: Option<OwnAccount>,
    long_ns: u64,
    short_ns: u64,
}

impl Pauses {
    pub(super) fn new(phase_ns: Range<u64>) -> Self {
        Self { phase_ns, account: None, long_ns: 0, short_ns: 0 }
    }

    /// Sleeps until `asked_ns`, and tells the workers of a stop meanwhile.
    pub(super) fn sleep(&mut self, engine: &Engine, asked_ns: u64) {
        let waited_before = self.account.get_or_insert_with(OwnAccount::open).waited_ns();
        let slept_ns = engine.clock.now_ns();
        engine.stops.sleep(slept_ns, asked_ns);
        engine.clock.sleep_until_ns(asked_ns);
        let woke_ns = engine.clock.now_ns();
        let is_late = woke_ns >= asked_ns.saturating_add(STOP_NS_MIN);
        // Between turns the clock also shows times before the load.
        let stop = if is_late && asked_ns >= engine.timeline().start_ns {
            let waited_now = self.account.as_ref().and_then(OwnAccount::waited_ns);
            let waited_ns = waited_now.zip(waited_before).map(|(now, before)| now - before);
            self.note(asked_ns, woke_ns, waited_ns, engine.stops.witness_ns())
        } else {
            None
        };
        engine.stops.wake(stop.map(|end_ns| (slept_ns, end_ns)));
    }

    /// Notes a sleep that was to end at `asked_ns` and ended at `woke_ns`; time outside the phase does not
    /// count. Returns the end of the stop, if it was one.
    ///
    /// - `waited_ns`: time for which the conductor waited for a CPU meanwhile; `None` if unknown.
    /// - `witness_ns`: beginning of the first event meanwhile.
    fn note(
        &mut self,
        asked_ns: u64,
        woke_ns: u64,
        waited_ns: Option<u64>,
        witness_ns: Option<u64>,
    ) -> Option<u64> {
        let until_ns = witness_ns.unwrap_or(woke_ns).min(woke_ns);
        let late_ns = until_ns.saturating_sub(asked_ns);
        let may_be_starved = late_ns < STARVED_NS_MIN;
        let waited_ns = match waited_ns {
            // The conductor waited at the end of its delay, if at all: after a witness that is not a stop.
            Some(waited_ns) => waited_ns.saturating_sub(woke_ns - until_ns),
            None if may_be_starved => late_ns,
            None => 0,
        };
        let stopped_ns = late_ns.saturating_sub(waited_ns);
        let stop = (stopped_ns >= STOP_NS_MIN).then_some(asked_ns + stopped_ns);
        let counted_until_ns =
            if may_be_starved { stop.unwrap_or(asked_ns) } else { asked_ns.saturating_add(late_ns) };
        let (from_ns, until_ns) =
            (asked_ns.max(self.phase_ns.start), counted_until_ns.min(self.phase_ns.end));
        let sum_ns = if may_be_starved { &mut self.short_ns } else { &mut self.long_ns };
        *sum_ns += until_ns.saturating_sub(from_ns);
        stop
    }

    pub(super) fn total_s(&self) -> f64 {
        let short_ns = if self.short_ns < STARVED_NS_MIN { 0 } else { self.short_ns };
        (self.long_ns + short_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Stops;

    const MS: u64 = 1_000_000;

    fn pauses() -> Pauses {
        Pauses::new(1_000 * MS..5_000 * MS)
    }

    #[test]
    fn a_pause_counts_as_far_as_it_lies_in_the_phase() {
        for (asked_ms, woke_ms, expected_s) in [
            // A single short stop does not count.
            (2_000, 2_099, 0.0),
            (2_000, 2_100, 0.1),
            (2_000, 3_000, 1.0),
            // The pause began in the warm-up, or ended after the phase.
            (900, 1_250, 0.25),
            (4_950, 8_000, 0.05),
            (300, 800, 0.0),
            (5_000, 9_000, 0.0),
            (0, 9_000, 4.0),
        ] {
            let mut pauses = pauses();
            pauses.note(asked_ms * MS, woke_ms * MS, Some(0), None);
            assert!((pauses.total_s() - expected_s).abs() < 1e-9, "{asked_ms} to {woke_ms} ms: {pauses:?}");
        }
    }

    #[test]
    fn short_stops_add_up_and_waits_for_a_cpu_are_none() {
        // Stopped for 80 of every 100 ms, seen from a sleep that ends in the middle of the stop.
        let (mut stopped, mut busy, mut unknown) = (pauses(), pauses(), pauses());
        for cycle in 10..50 {
            let (asked_ns, woke_ns) = ((100 * cycle + 40) * MS, 100 * (cycle + 1) * MS);
            assert_eq!(stopped.note(asked_ns, woke_ns, Some(MS), None), Some(woke_ns - MS));
            assert_eq!(busy.note(asked_ns, woke_ns, Some(55 * MS), None), None);
            assert_eq!(unknown.note(asked_ns, woke_ns, None, None), None);
        }
        assert!((stopped.total_s() - 40.0 * 0.059).abs() < 1e-9, "{stopped:?}");
        assert!(busy.total_s() == 0.0 && unknown.total_s() == 0.0, "{busy:?} {unknown:?}");
        // A generator that gets no CPU at all for so long stands still, and its events were in service.
        assert_eq!(busy.note(2_000 * MS, 2_150 * MS, Some(149 * MS), None), None);
        assert!((busy.total_s() - 0.15).abs() < 1e-9, "{busy:?}");
    }

    /// Pauses of four seconds in which the hypervisor takes the conductor's CPU for 10 ms of every 50 ms,
    /// each time when its timer ends: it is slow to wake a CPU that was idle. Events take `event_us` each,
    /// and follow one another.
    ///
    /// - `takes_all`: whether it takes the workers' CPUs too.
    fn under_a_hypervisor(event_us: u64, takes_all: bool) -> Pauses {
        let (mut pauses, stops) = (pauses(), Stops::default());
        let (mut asked_ns, mut event_ns) = (1_050 * MS, 1_000 * MS);
        while asked_ns < 5_000 * MS {
            stops.sleep(asked_ns - 40 * MS, asked_ns);
            let until_ns = asked_ns + 10 * MS;
            while event_ns < until_ns {
                let start_ns = event_ns;
                event_ns += event_us * 1_000;
                if takes_all && (asked_ns..until_ns).contains(&event_ns) {
                    // It ends when the CPUs are back.
                    event_ns = until_ns;
                }
                stops.note_event(start_ns);
            }
            let woke_ns = until_ns + MS / 10;
            stops.wake(
                pauses.note(asked_ns, woke_ns, Some(0), stops.witness_ns()).map(|end_ns| (asked_ns, end_ns)),
            );
            asked_ns += 50 * MS;
        }
        pauses
    }

    #[test]
    fn a_cpu_that_a_hypervisor_takes_is_no_pause_if_the_workers_have_theirs() {
        for event_us in [20, 700, 3_000] {
            let taken = under_a_hypervisor(event_us, false);
            assert!(taken.total_s() == 0.0, "{event_us} us: {taken:?}");
            let stopped = under_a_hypervisor(event_us, true);
            assert!((0.15..0.25).contains(&(stopped.total_s() / 4.0)), "{event_us} us: {stopped:?}");
        }
        // No event begins while the conductor is late: which CPUs the hypervisor took is unknown.
        let unknown = under_a_hypervisor(600_000, false);
        assert!(unknown.total_s() > 0.5, "{unknown:?}");
    }

    #[test]
    fn a_witness_ends_a_long_pause_too() {
        let mut pauses = pauses();
        assert_eq!(pauses.note(2_000 * MS, 2_150 * MS, Some(149 * MS), Some(2_002 * MS)), None);
        assert!(pauses.total_s() == 0.0, "a conductor without a CPU, and workers with theirs: {pauses:?}");
        // It was stopped for 120 ms, and then waited for a CPU.
        let end_ns = pauses.note(3_000 * MS, 3_150 * MS, Some(29 * MS), Some(3_120 * MS));
        assert_eq!(end_ns, Some(3_120 * MS));
        assert!((pauses.total_s() - 0.12).abs() < 1e-9, "{pauses:?}");
        // A kernel without accounts: a short delay may be a wait for a CPU.
        assert_eq!(pauses.note(4_000 * MS, 4_090 * MS, None, Some(4_050 * MS)), None);
    }
}
