//! Random draws that follow from a seed, the same on every machine.

/// Generator `SplitMix64` of Steele, Lea and Flood (OOPSLA 2014), sufficient for coin tosses and resampling.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    /// A number below `n`; the bias of the remainder is below `n` / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below a usize")
    }

    /// Puts `values` into a random order (Fisher and Yates).
    pub(crate) fn shuffle(&mut self, values: &mut [f64]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}
