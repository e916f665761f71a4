//! Energy over an interval, by the parts of the machine that have an energy counter.

use crate::missing::{Maybe, Missing};

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

/// Minimum time between two readings for a power: the processor updates a counter about once in a
/// millisecond.
const POWER_NS_MIN: u64 = 20_000_000;

impl EnergySample {
    /// Mean power, in watts.
    ///
    /// # Errors
    ///
    /// Missing if the energy is, or if the time is so short that the updates of the counter decide the power.
    pub fn power_w(&self) -> Maybe<f64> {
        let joules = self.energy_j.clone()?;
        if self.length_ns < POWER_NS_MIN {
            return Err(Missing::because(
                "the interval is too short: the counter is updated once in a millisecond",
            ));
        }
        Ok(joules / (self.length_ns as f64 * 1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package of 50 W: its counter was updated just after the start of the interval and before its end.
    #[test]
    fn the_power_of_an_interval_of_two_updates_of_the_counter_is_missing() {
        let of =
            |length_ns, joules| EnergySample { zone: "package-0".into(), energy_j: Ok(joules), length_ns };
        let power = of(1_100_000, 0.1).power_w();
        assert!(power.as_ref().is_err_and(|why| why.reason.contains("too short")), "{power:?}");
        let watts = of(20_000_000, 1.05).power_w().unwrap();
        assert!((watts - 50.0).abs() < 3.0, "{watts}");
    }
}
