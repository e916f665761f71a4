//! Repeatable randomness: everything random in an event follows from the seed and the event's number.
//!
//! So it does not matter which worker runs an event, or how often: a retried transaction touches the same
//! rows.

/// A stream of uniform numbers.
///
/// # Source
///
/// `SplitMix64`: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
    event: u64,
}

/// Bits of an event's number; those above mark the phases that do not count.
const EVENT_NUMBER: u64 = (1 << 62) - 1;

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The stream of event `number` under `seed`.
    pub fn of(seed: u64, number: u64) -> Self {
        let state = mix(seed.wrapping_add(GOLDEN_GAMMA) ^ mix(number.wrapping_add(GOLDEN_GAMMA)));
        Self { state, event: number }
    }

    /// Number of the event in its phase.
    pub(crate) fn event(&self) -> u64 {
        self.event & EVENT_NUMBER
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// Uniform in [0, 1), all 53 bits of it.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0 .. `below`.
    ///
    /// Multiplies instead of dividing; the bias is below `below` / 2^64.
    pub fn below(&mut self, below: u64) -> u64 {
        assert!(below > 0, "there is no number below 0");
        ((u128::from(self.bits()) * u128::from(below)) >> 64) as u64
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_draws_the_same_numbers_and_its_neighbour_others() {
        let draw = |seed, number| {
            let mut r = Random::of(seed, number);
            [r.bits(), r.bits(), r.bits()]
        };
        assert_eq!(draw(1, 7), draw(1, 7));
        assert_ne!(draw(1, 7), draw(1, 8));
        assert_ne!(draw(1, 7), draw(2, 7));
    }

    #[test]
    fn first_draws_of_successive_events_are_uniform() {
        // The first draw of each event decides its rows: neighbors must not resemble each other. Chi-squared
        // over 100 cells has 99 degrees of freedom: mean 99, standard deviation 14.
        let mut cells = [0u32; 100];
        for number in 0..100_000 {
            cells[usize::try_from(Random::of(42, number).below(100)).unwrap()] += 1;
        }
        let chi_squared: f64 = cells.iter().map(|&n| (f64::from(n) - 1_000.0).powi(2) / 1_000.0).sum();
        assert!((50.0..160.0).contains(&chi_squared), "{chi_squared}");
    }
}
