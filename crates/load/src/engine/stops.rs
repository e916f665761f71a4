//! The times for which the whole generator stood still, as the workers see them.
//!
//! An event in service while the generator is stopped takes longer, and no stamp of it says why. The
//! conductor notices a stop by its own sleep that ends too late, and notes it here. The worker with the
//! event that ends reads it; of a stop that has just ended it may know before the conductor does.
//!
//! A stop may have begun at any time of that sleep. The whole sleep counts as the stop: the generator's part
//! of a response is an upper bound.
//!
//! A hypervisor may take one CPU, or leave one that was idle asleep, while the others run. So an event that
//! begins while the conductor is late is a witness: the generator did not stand still any longer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Minimum delay of the conductor's wake-up that may be a stop.
pub(crate) const STOP_NS_MIN: u64 = 10_000_000;
/// Delay of the conductor's wake-up from which on events are witnesses: wake-ups are a little late as a rule.
const WITNESS_NS_MIN: u64 = 1_000_000;
/// Number of stops that are remembered, the newest.
const STOPS_MAX: usize = 64;

/// The newest stops, and the present sleep of the conductor. Only the conductor writes.
#[derive(Debug)]
pub(crate) struct Stops {
    /// Beginning of the conductor's sleep.
    slept_ns: AtomicU64,
    /// Time at which it is to end; `u64::MAX` while the conductor does not sleep.
    asked_ns: AtomicU64,
    /// Beginning of the first event since then, in the present sleep; `u64::MAX` without one.
    witness_ns: AtomicU64,
    /// End of the newest stop.
    last_until_ns: AtomicU64,
    newest: [Stop; STOPS_MAX],
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Stop {
    from_ns: AtomicU64,
    /// 0 while it is written.
    until_ns: AtomicU64,
}

impl Default for Stops {
    fn default() -> Self {
        Self {
            slept_ns: AtomicU64::new(0),
            asked_ns: AtomicU64::new(u64::MAX),
            witness_ns: AtomicU64::new(u64::MAX),
            last_until_ns: AtomicU64::new(0),
            newest: std::array::from_fn(|_| Stop::default()),
            count: AtomicUsize::new(0),
        }
    }
}

impl Stops {
    /// Notes that the conductor sleeps from `now_ns` until `asked_ns`.
    pub(crate) fn sleep(&self, now_ns: u64, asked_ns: u64) {
        self.slept_ns.store(now_ns, Ordering::Relaxed);
        self.witness_ns.store(u64::MAX, Ordering::Relaxed);
        self.asked_ns.store(asked_ns, Ordering::Release);
    }

    /// Notes an event that began at `start_ns` and has ended. One load, unless the conductor is late; then
    /// two, unless the event is the first witness.
    pub(crate) fn note_event(&self, start_ns: u64) {
        if start_ns >= self.asked_ns.load(Ordering::Acquire).saturating_add(WITNESS_NS_MIN)
            && start_ns < self.witness_ns.load(Ordering::Relaxed)
        {
            self.witness_ns.fetch_min(start_ns, Ordering::Relaxed);
        }
    }

    /// The beginning of the first event that began since the conductor's sleep was to end, if one has ended.
    pub(crate) fn witness_ns(&self) -> Option<u64> {
        let witness_ns = self.witness_ns.load(Ordering::Relaxed);
        // An event of the sleep before may have come late.
        (witness_ns != u64::MAX && witness_ns >= self.asked_ns.load(Ordering::Relaxed)).then_some(witness_ns)
    }

    /// Notes that the conductor is awake, and the stop that it found.
    pub(crate) fn wake(&self, stop: Option<(u64, u64)>) {
        self.asked_ns.store(u64::MAX, Ordering::Release);
        let Some((from_ns, until_ns)) = stop else { return };
        let number = self.count.load(Ordering::Relaxed);
        let place = &self.newest[number % STOPS_MAX];
        place.until_ns.store(0, Ordering::Release);
        place.from_ns.store(from_ns, Ordering::Release);
        place.until_ns.store(until_ns, Ordering::Release);
        self.last_until_ns.store(until_ns, Ordering::Release);
        self.count.store(number + 1, Ordering::Release);
    }

    /// The part of a span for which the generator was stopped.
    ///
    /// Two loads, unless the span is near a stop.
    pub(crate) fn within_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        let asked_ns = self.asked_ns.load(Ordering::Acquire);
        let last_until_ns = self.last_until_ns.load(Ordering::Acquire);
        // A sleep that is over this long, and no conductor that woke: a stop has just ended.
        let is_over = until_ns >= asked_ns.saturating_add(STOP_NS_MIN);
        if from_ns >= last_until_ns && !is_over {
            return 0;
        }
        let slept_ns = self.slept_ns.load(Ordering::Relaxed);
        // The conductor may have woken meanwhile, and noted the stop.
        let is_present = is_over && slept_ns >= last_until_ns;
        let present_until_ns = until_ns.min(self.witness_ns.load(Ordering::Relaxed));
        let present_ns = if is_present { present_until_ns.saturating_sub(from_ns.max(slept_ns)) } else { 0 };
        present_ns + self.past_within_ns(from_ns, until_ns)
    }

    #[cold]
    fn past_within_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        let count = self.count.load(Ordering::Acquire).min(STOPS_MAX);
        let within = |stop: &Stop| {
            // Read in this order, a stop that is replaced meanwhile ends before it begins.
            let end_ns = stop.until_ns.load(Ordering::Acquire).min(until_ns);
            end_ns.saturating_sub(stop.from_ns.load(Ordering::Acquire).max(from_ns))
        };
        self.newest[..count].iter().map(within).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_span_has_the_part_of_each_stop_that_lies_in_it() {
        let stops = Stops::default();
        let within_ms = |from_ms: u64, until_ms: u64| stops.within_ns(from_ms * MS, until_ms * MS) / MS;
        assert_eq!(within_ms(0, 10_000), 0);
        stops.wake(Some((1_000 * MS, 1_200 * MS)));
        stops.wake(Some((3_000 * MS, 3_050 * MS)));
        assert_eq!(within_ms(0, 10_000), 250);
        assert_eq!(within_ms(1_100, 1_150), 50);
        assert_eq!(within_ms(1_100, 3_010), 110);
        assert_eq!((within_ms(1_200, 3_000), within_ms(3_050, 9_000)), (0, 0));
        for number in 0..2 * STOPS_MAX as u64 {
            stops.wake(Some(((4_000 + 100 * number) * MS, (4_010 + 100 * number) * MS)));
        }
        assert_eq!(within_ms(0, 1_000_000), 640, "the newest are remembered");
        assert_eq!(within_ms(16_700, 1_000_000), 10);
    }

    #[test]
    fn a_stop_that_has_just_ended_is_known_before_the_conductor_wakes() {
        let stops = Stops::default();
        stops.sleep(950 * MS, 1_000 * MS);
        assert_eq!(stops.within_ns(0, 1_009 * MS), 0, "a wake-up may be late");
        assert_eq!(stops.within_ns(0, 2_000 * MS), 1_050 * MS, "since the conductor slept");
        assert_eq!(stops.within_ns(1_500 * MS, 2_000 * MS), 500 * MS);
        stops.wake(Some((950 * MS, 2_000 * MS)));
        assert_eq!(stops.within_ns(0, 2_001 * MS), 1_050 * MS);
        stops.sleep(2_000 * MS, 2_050 * MS);
        assert_eq!(stops.within_ns(2_000 * MS, 2_040 * MS), 0);
        assert_eq!(stops.within_ns(1_900 * MS, 2_040 * MS), 100 * MS);
    }

    #[test]
    fn events_that_begin_while_the_conductor_is_late_end_its_stop() {
        let stops = Stops::default();
        stops.note_event(500 * MS);
        assert_eq!(stops.witness_ns(), None, "the conductor is awake");
        stops.sleep(950 * MS, 1_000 * MS);
        stops.note_event(999 * MS);
        stops.note_event(1_000 * MS + 1);
        assert_eq!(stops.witness_ns(), None, "a wake-up may be late");
        stops.note_event(1_030 * MS);
        stops.note_event(1_002 * MS);
        assert_eq!(stops.witness_ns(), Some(1_002 * MS));
        assert_eq!(stops.within_ns(0, 1_100 * MS), 52 * MS);
        assert_eq!(stops.within_ns(1_010 * MS, 1_100 * MS), 0);
        stops.wake(None);
        stops.sleep(1_100 * MS, 1_150 * MS);
        assert_eq!(stops.witness_ns(), None, "another sleep");
    }
}
