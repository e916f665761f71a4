//! The rule of what counts: which phase an event belongs to, and what it adds to the rate of a closed loop.
//!
//! | loop | an event belongs to the measured phase if | it is done if |
//! |---|---|---|
//! | open | it is due in the phase | it ends well in the phase |
//! | closed | any part of it lies in the phase | it ends well in the phase |
//! | closed, with a number of events | it begins in the phase | it ends well in the phase |
//!
//! The rate is the sum, over all events that end well, of the share of each event's service that lies in the
//! phase, divided by the phase's length. An event that the phase contains counts 1. An event that an edge of
//! the phase cuts counts its share, so neither edge gains or loses an event. The expected sum is exact for
//! any distribution of service times if the load was steady before the phase (each event adds 1 over all
//! time), and in a closed loop for constant service times also if all connections begin with the phase.
//!
//! In a closed loop with a number of events, connections have nothing to do from the moment at which they
//! find no event left. Their mean idle time is taken off the phase's length.
//!
//! Service times are those of the events that begin in the phase. Events that are in flight at one moment are
//! longer than most; a sample that included those in flight at both ends would be too long.

use record::load::{LoadSettings, Loop};

use crate::schedule::taken::Taken;

/// The measured phase, as the rule uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counting {
    pub(crate) from_ns: u64,
    /// End of the phase; the actual end if the phase ended early.
    pub(crate) until_ns: u64,
    pub(crate) by: By,
}

/// The property that assigns an event to the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Open loop: the due time.
    Due,
    /// Closed loop with a number of events: the start.
    Start,
    /// Closed loop: any part of the event.
    Part,
}

/// The phase of an event that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhasePosition {
    /// The warm-up.
    Before { ended_in_phase: bool },
    /// The measured phase, in which the event ended.
    Within,
    /// The measured phase, in which the event ended; it began before the phase.
    CarriedIn,
    /// The measured phase; the event ended after it.
    CarriedOut,
    /// The falling load.
    After,
    /// None: the event was due after the moment at which the phase was ended early.
    Cut,
}

impl By {
    pub(crate) fn of(settings: &LoadSettings) -> Self {
        match (&settings.pace, settings.events_max) {
            (Loop::Open(_), _) => Self::Due,
            (Loop::Closed { .. }, Some(_)) => Self::Start,
            (Loop::Closed { .. }, None) => Self::Part,
        }
    }
}

impl Counting {
    /// The phase of an event that ended at `end_ns`.
    pub(crate) fn place(&self, taken: &Taken, end_ns: u64) -> PhasePosition {
        let begins_in_phase = taken.is_measured;
        if !begins_in_phase && taken.due_ns >= self.from_ns {
            return PhasePosition::After;
        }
        if begins_in_phase && taken.due_ns >= self.until_ns {
            return PhasePosition::Cut;
        }
        let ended_in_phase = end_ns >= self.from_ns;
        match (begins_in_phase, self.by) {
            (false, By::Part) if ended_in_phase && end_ns < self.until_ns => PhasePosition::CarriedIn,
            (false, By::Part) if ended_in_phase => PhasePosition::CarriedOut,
            (false, _) => PhasePosition::Before { ended_in_phase },
            (true, _) if end_ns < self.until_ns => PhasePosition::Within,
            (true, _) => PhasePosition::CarriedOut,
        }
    }

    /// Whether an event's try that ended at `at_ns` counts.
    pub(crate) fn has_try(&self, taken: &Taken, at_ns: u64) -> bool {
        let is_counted = taken.is_measured || (self.by == By::Part && at_ns >= self.from_ns);
        is_counted && at_ns < self.until_ns
    }

    /// Whether an event that was taken belongs to the phase, unless it ends before the phase.
    pub(crate) fn has_taken(&self, due_ns: u64, is_measured: bool) -> bool {
        is_measured || (self.by == By::Part && due_ns < self.from_ns)
    }

    /// The share of an event that lies in the phase, in billionths; 0 for an event that took no time.
    pub(crate) fn part_e9(&self, start_ns: u64, end_ns: u64) -> u64 {
        let inside_ns = self.inside_ns(start_ns, end_ns);
        let part = u128::from(inside_ns) * 1_000_000_000 / u128::from((end_ns - start_ns).max(1));
        u64::try_from(part).expect("at most the whole of it")
    }

    /// The part of that time that lies in the phase.
    pub(crate) fn inside_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        end_ns.min(self.until_ns).saturating_sub(start_ns.max(self.from_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASE: Counting = Counting { from_ns: 100, until_ns: 200, by: By::Part };

    fn taken(due_ns: u64, is_measured: bool) -> Taken {
        Taken { chance: 0, due_ns, is_measured, version: 0 }
    }

    #[test]
    fn an_event_belongs_where_the_table_says() {
        for (by, due_ns, is_measured, end_ns, expected) in [
            (By::Due, 90, false, 99, PhasePosition::Before { ended_in_phase: false }),
            (By::Due, 90, false, 150, PhasePosition::Before { ended_in_phase: true }),
            (By::Due, 100, true, 199, PhasePosition::Within),
            (By::Due, 199, true, 200, PhasePosition::CarriedOut),
            (By::Due, 200, true, 210, PhasePosition::Cut),
            (By::Due, 200, false, 210, PhasePosition::After),
            (By::Start, 90, false, 150, PhasePosition::Before { ended_in_phase: true }),
            (By::Start, 150, true, 250, PhasePosition::CarriedOut),
            (By::Part, 90, false, 99, PhasePosition::Before { ended_in_phase: false }),
            (By::Part, 90, false, 100, PhasePosition::CarriedIn),
            (By::Part, 90, false, 200, PhasePosition::CarriedOut),
            (By::Part, 100, true, 199, PhasePosition::Within),
            (By::Part, 100, true, 201, PhasePosition::CarriedOut),
            (By::Part, 200, false, 201, PhasePosition::After),
        ] {
            let counting = Counting { by, ..PHASE };
            let found = counting.place(&taken(due_ns, is_measured), end_ns);
            assert_eq!(found, expected, "{by:?} {due_ns} {end_ns}");
        }
    }

    #[test]
    fn an_edge_leaves_each_phase_its_share_of_an_event() {
        let next = Counting { from_ns: 200, until_ns: 300, ..PHASE };
        for (start_ns, end_ns) in [(190, 220), (101, 299), (150, 200), (199, 201)] {
            let parts = PHASE.part_e9(start_ns, end_ns) + next.part_e9(start_ns, end_ns);
            assert!((999_999_998..=1_000_000_000).contains(&parts), "{start_ns} to {end_ns}: {parts}");
        }
        assert_eq!(PHASE.part_e9(50, 250), 500_000_000);
        assert_eq!(PHASE.part_e9(150, 150), 0);
    }
}
