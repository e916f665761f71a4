//! Amount of work of each copy's command, from its solo time.

use std::time::Duration;

/// Number of solo runs of each command. The first loads the input into memory and does not count.
pub(super) const SOLO_RUNS: usize = 6;
/// Student's t that leaves 2.5 % above, with 4 degrees of freedom: five runs count.
const T_OF_4: f64 = 2.776_445;

/// Work of each kind of copy, relative to the first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights {
    /// One weight for each kind; copies take them in turn.
    pub(super) each: Vec<f64>,
    /// Relative error of the weights at a confidence of 95 %; 0 if all copies do the same.
    pub(super) error_ratio: f64,
}

impl Weights {
    /// Returns weights for copies that all do the same.
    pub(super) fn even() -> Self {
        Self { each: vec![1.0], error_ratio: 0.0 }
    }

    /// Computes the weights from solo times.
    ///
    /// - `alone`: duration of each kind, in each of [`SOLO_RUNS`] turns. In a turn all kinds run one after
    ///   the other, so drift of the machine affects all of them.
    pub(super) fn of(alone: &[Vec<Duration>; SOLO_RUNS]) -> Self {
        let of_kind = |kind: usize| {
            let ratio = |turn: &Vec<Duration>| (turn[kind].as_secs_f64() / turn[0].as_secs_f64()).ln();
            let logs: Vec<f64> = alone[1..].iter().map(ratio).collect();
            let n = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / n;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
            (mean.exp(), (T_OF_4 * (variance / n).sqrt()).exp_m1())
        };
        let (each, errors): (Vec<f64>, Vec<f64>) = (0..alone[0].len()).map(of_kind).unzip();
        Self { each, error_ratio: errors.into_iter().fold(0.0, f64::max) }
    }

    pub(super) fn of_copy(&self, copy: u32) -> f64 {
        self.each[copy as usize % self.each.len()]
    }

    /// Formats the weights as they are stored with a run: `0.02: 1,19.8`.
    pub(super) fn text(&self) -> String {
        let each: Vec<String> = self.each.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.error_ratio, each.join(","))
    }

    /// Parses the output of [`Self::text`] for `kinds` kinds.
    pub(super) fn read(text: &str, kinds: u32) -> Option<Self> {
        let (error_ratio, each) = text.split_once(": ")?;
        let each: Vec<f64> = each.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        let is_good =
            each.len() == kinds as usize && each.iter().all(|weight| weight.is_finite() && *weight > 0.0);
        let error_ratio = error_ratio.parse().ok()?;
        is_good.then_some(Self { each, error_ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_mean_of_the_ratios_without_the_first_turn() {
        let turn = |ms: [u64; 3]| ms.map(Duration::from_millis).to_vec();
        // Cold at first; then the second kind equals the first, and the third takes twice as long, on a
        // machine that gets slower.
        let mut alone = [1, 2, 3, 4, 5, 6].map(|times| turn([100 * times, 100 * times, 200 * times]));
        alone[0] = turn([900, 100, 100]);
        let weights = Weights::of(&alone);
        assert!(weights.each.iter().zip([1.0, 1.0, 2.0]).all(|(found, is)| (found - is).abs() < 1e-9));
        assert!(weights.error_ratio < 1e-9, "{weights:?}");
        // By hand: ln 1.1, three times 0 and -ln 1.1 have the standard deviation 0.06740, and t x that / sqrt
        // 5 is 0.08368.
        let (fast, slow) = (turn([100, 100, 220]), turn([110, 110, 200]));
        let even = turn([100, 100, 200]);
        let weights = Weights::of(&[even.clone(), fast, even.clone(), even.clone(), even, slow]);
        assert!((weights.error_ratio - 0.08368_f64.exp_m1()).abs() < 1e-4, "{weights:?}");
        assert_eq!(
            (weights.of_copy(1).to_bits(), weights.of_copy(3).to_bits()),
            (1.0_f64.to_bits(), 1.0_f64.to_bits())
        );
        assert_eq!(Weights::read(&weights.text(), 3), Some(weights.clone()));
        for (text, kinds) in [("", 1), ("0.1: 1,2", 3), ("0.1: 1,-2", 2), ("0.1: 1,NaN", 2), ("1,2", 2)] {
            assert_eq!(Weights::read(text, kinds), None, "{text}");
        }
    }

    /// Returns a number from 0 to 1, by splitmix64.
    fn unit(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a normal value, from the sum of twelve uniform ones.
    fn normal(seed: &mut u64) -> f64 {
        (0..12).map(|_| unit(seed)).sum::<f64>() - 6.0
    }

    /// Noise model: the ratio of a run's duration to its true value, for the turn with that number.
    type Slowness = fn(&mut u64, usize) -> f64;

    /// Simulates 1000 pairs of kinds; the second is `ratio` times the first. Returns how many weights are
    /// precise enough to be used (10 %), and how many of those lie within their error.
    fn held(slowness: Slowness, ratio: f64) -> (u32, u32) {
        let (mut used, mut held) = (0, 0);
        for experiment in 0..1_000_u64 {
            let mut seed = experiment << 32;
            let alone: [Vec<Duration>; SOLO_RUNS] = std::array::from_fn(|turn| {
                [1.0, ratio].map(|work| Duration::from_secs_f64(work * slowness(&mut seed, turn))).to_vec()
            });
            let Weights { each, error_ratio } = Weights::of(&alone);
            if error_ratio <= 0.1 {
                used += 1;
                held += u32::from((each[1] / ratio).ln().abs() <= error_ratio.ln_1p());
            }
        }
        (used, held)
    }

    #[test]
    fn a_weight_lies_within_its_error_as_often_as_it_says() {
        let cases: [(&str, Slowness); 8] = [
            ("even noise of 1 %", |seed, _| (0.01 * normal(seed)).exp()),
            ("of 2 %", |seed, _| (0.02 * normal(seed)).exp()),
            ("of 5 %", |seed, _| (0.05 * normal(seed)).exp()),
            ("a tail of 3 % in the mean", |seed, _| 1.0 - 0.03 * (1.0 - unit(seed)).ln()),
            ("one run in ten takes 10 % longer", |seed, _| {
                (0.01 * normal(seed)).exp() * if unit(seed) < 0.1 { 1.1 } else { 1.0 }
            }),
            ("the first run takes three times as long", |seed, turn| {
                (0.01 * normal(seed)).exp() * if turn == 0 { 3.0 } else { 1.0 }
            }),
            ("each turn is 2 % slower", |seed, turn| (0.01 * normal(seed) + 0.02 * turn as f64).exp()),
            ("half of the runs take 50 % longer", |seed, _| {
                (0.01 * normal(seed)).exp() * if unit(seed) < 0.5 { 1.5 } else { 1.0 }
            }),
        ];
        for (name, slowness) in cases {
            for ratio in [1.0, 1.02, 3.0] {
                let (used, held) = held(slowness, ratio);
                // Weights that are too imprecise are not used, and weights that seem precise by chance are:
                // two modes.
                let is_refused = used <= 100;
                assert!(is_refused || held * 100 >= used * 91, "{name}, {ratio}: {held} of {used}");
                println!("{name} | {ratio} | {used} | {held}");
            }
        }
    }
}
