//! Time for which the whole generator stood still: stopped by a signal, frozen with its control group or its
//! machine, or off its CPUs.

use std::ops::Range;

/// Minimum delay of the conductor's wake-up that counts as a pause. A busy machine wakes it some milliseconds
/// late.
const PAUSE_NS_MIN: u64 = 100_000_000;

/// The pauses of the measured phase.
#[derive(Debug)]
pub(super) struct Pauses {
    phase_ns: Range<u64>,
    total_ns: u64,
}

impl Pauses {
    pub(super) fn new(phase_ns: Range<u64>) -> Self {
        Self { phase_ns, total_ns: 0 }
    }

    /// Notes a sleep that was to end at `asked_ns` and ended at `woke_ns`; time outside the phase does not
    /// count.
    pub(super) fn note(&mut self, asked_ns: u64, woke_ns: u64) {
        if woke_ns.saturating_sub(asked_ns) >= PAUSE_NS_MIN {
            let (from_ns, until_ns) = (asked_ns.max(self.phase_ns.start), woke_ns.min(self.phase_ns.end));
            self.total_ns += until_ns.saturating_sub(from_ns);
        }
    }

    pub(super) fn total_s(&self) -> f64 {
        self.total_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_pause_counts_as_far_as_it_lies_in_the_phase() {
        for (asked_ms, woke_ms, expected_s) in [
            // A busy machine.
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
            let mut pauses = Pauses::new(1_000 * MS..5_000 * MS);
            pauses.note(asked_ms * MS, woke_ms * MS);
            assert!((pauses.total_s() - expected_s).abs() < 1e-9, "{asked_ms} to {woke_ms} ms: {pauses:?}");
        }
    }
}
