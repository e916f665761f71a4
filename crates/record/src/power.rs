//! Energy over an interval, by the parts of the machine that have a counter of it.

use crate::missing::Maybe;

/// What one part took.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergySample {
    /// `package-0`, and `package-0/dram` for the memory that it controls; memory is not in the package's energy.
    pub zone: String,
    /// In joules.
    pub energy_j: Maybe<f64>,
    /// Time between the two readings of its counter.
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
