//! The offset of an agent's clock from the conductor's, from round trips.
//!
//! A round trip leaves at `a`, is received at `b` and answered at `c` of the other clock, and returns at `d`.
//! Whatever the two ways took, the other clock less ours lies between `c - d` and `b - a`. The narrowest of
//! many trips bounds it best, so half of the shortest round trip is the bound, however uneven the two ways.
//!
//! # Source
//!
//! Cristian, *Probabilistic clock synchronization*, Distributed Computing 3 (1989); the clock filter of NTP
//! (RFC 5905, section 10).

use record::agents::ClockOffset;

/// Round trips before a load and after it.
pub(crate) const PROBES: usize = 50;

/// One round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "units are part of names")]
pub(crate) struct Trip {
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) answered_ns: u64,
    pub(crate) returned_ns: u64,
}

/// An offset and how far the true one may be from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset {
    /// The other clock less ours.
    pub(crate) ns: i64,
    pub(crate) bound_ns: u64,
}

/// Largest offset that a clock can have: 146 years. The difference of two offsets fits its type.
const OFFSET_NS_MAX: u64 = i64::MAX.unsigned_abs() / 2;

impl Trip {
    /// The offset; `None` if no clock gives these times.
    fn offset(&self) -> Option<Offset> {
        let low = i128::from(self.answered_ns) - i128::from(self.returned_ns);
        let high = i128::from(self.received_ns) - i128::from(self.sent_ns);
        let ns = i64::try_from((low + high).div_euclid(2)).ok()?;
        // Rounded up: the middle may be half a nanosecond off.
        let bound_ns = u64::try_from((high - low + 1).max(0) / 2 + 1).unwrap_or(u64::MAX);
        let is_possible = self.received_ns <= self.answered_ns && ns.unsigned_abs() <= OFFSET_NS_MAX;
        is_possible.then_some(Offset { ns, bound_ns })
    }
}

/// The offset that the shortest of the trips gives; `None` without trips. An impossible time counts as no
/// answer.
pub(crate) fn offset(trips: &[Trip]) -> Option<Offset> {
    trips.iter().filter_map(Trip::offset).min_by_key(|offset| offset.bound_ns)
}

/// The offsets before and after a load as one: its bound holds at both times.
pub(crate) fn over_a_load(before: Offset, after: Offset) -> ClockOffset {
    let drift_ns = after.ns - before.ns;
    ClockOffset {
        offset_ns: before.ns,
        bound_ns: before.bound_ns.max(after.bound_ns.saturating_add(drift_ns.unsigned_abs())),
        drift_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of numbers without a pattern.
    fn chance(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn the_true_offset_lies_within_the_bound_however_uneven_the_ways_are() {
        let mut state = 1;
        for truth in [0_i64, 5_000_000, -5_000_000, 86_400_000_000_000, -1] {
            // Ways out and back: equal, all delay on one of them, or heavy tails on both.
            for (out_ns, back_ns) in [(50_000, 50_000), (3_000_000, 10), (10, 3_000_000), (0, 0)] {
                let trips: Vec<Trip> = (0..PROBES)
                    .map(|i| {
                        let sent_ns = 1_000_000_000_000 + i as u64 * 10_000_000;
                        let tail =
                            |state: &mut u64| chance(state) % 100_000 * (chance(state) % 50 / 49 * 99 + 1);
                        let arrives_ns = sent_ns + out_ns + tail(&mut state);
                        let answers_ns = arrives_ns + chance(&mut state) % 20_000;
                        let there = |ns: u64| ns.checked_add_signed(truth).unwrap();
                        Trip {
                            sent_ns,
                            received_ns: there(arrives_ns),
                            answered_ns: there(answers_ns),
                            returned_ns: answers_ns + back_ns + tail(&mut state),
                        }
                    })
                    .collect();
                let found = offset(&trips).unwrap();
                assert!(found.ns.abs_diff(truth) <= found.bound_ns, "{truth}: {found:?}, {out_ns} {back_ns}");
                assert!(found.bound_ns < out_ns.max(back_ns) + 60_000, "{found:?}");
            }
        }
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn an_impossible_clock_counts_as_no_answer() {
        let trip = |received_ns, answered_ns| Trip { sent_ns: 10, received_ns, answered_ns, returned_ns: 20 };
        for (received_ns, answered_ns) in [(u64::MAX, u64::MAX), (1 << 63, 1 << 63), (17, 12), (u64::MAX, 0)]
        {
            assert_eq!(offset(&[trip(received_ns, answered_ns)]), None, "{received_ns} {answered_ns}");
            assert!(offset(&[trip(received_ns, answered_ns), trip(14, 16)]).is_some_and(|o| o.ns == 0));
        }
        // The two farthest clocks that are possible.
        let far = offset(&[trip(OFFSET_NS_MAX, OFFSET_NS_MAX)]).unwrap();
        let back = Offset { ns: -i64::try_from(OFFSET_NS_MAX).unwrap(), bound_ns: u64::MAX };
        assert_eq!(over_a_load(far, back).bound_ns, u64::MAX);
        assert!(over_a_load(back, far).drift_ns > 0);
    }

    #[test]
    fn a_clock_that_drifts_over_the_load_widens_the_bound() {
        let before = Offset { ns: 1_000, bound_ns: 100 };
        let found = over_a_load(before, Offset { ns: -2_000, bound_ns: 50 });
        assert_eq!((found.offset_ns, found.drift_ns, found.bound_ns), (1_000, -3_000, 3_050));
    }
}
