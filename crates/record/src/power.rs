//! Energy over an interval, by the parts of the machine that have an energy counter.

use crate::missing::Maybe;

/// Energy of one part.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergySample {
    /// `package-0`, or `package-0/dram` for the memory that it controls; the package's energy excludes the
    /// memory.
    pub zone: String,
    /// Energy in joules.
    pub energy_j: Maybe<f64>,
    /// Time between the two readings of the counter.
    pub length_ns: u64,
}

impl EnergySample {
    /// Mean power, in watts.
    ///
    /// # Errors
    ///
    /// Missing if the energy is.
    pub fn power_w(&self) -> Maybe<f64> {
        self.energy_j.clone().map(|joules| joules / (self.length_ns.max(1) as f64 * 1e-9))
    }
}
