//! How much work each copy's command is, by what it takes alone.

use std::time::Duration;

/// Runs of each command alone, of which the shortest counts.
pub(super) const SOLO_RUNS: u32 = 3;

/// The work of each kind of copy, the first one's being 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights {
    /// One for each kind; copies take them in turn.
    pub(super) each: Vec<f64>,
    /// How far each may be off, as a share of itself; 0 if all copies do the same.
    pub(super) error_ratio: f64,
}

impl Weights {
    /// All copies do the same.
    pub(super) fn even() -> Self {
        Self { each: vec![1.0], error_ratio: 0.0 }
    }

    /// - `alone`: for each kind, how long its runs took; at least two.
    ///
    /// The shortest run counts, and the next one says how far that is to be trusted. Kinds that do not differ by more than that
    /// are the same work.
    pub(super) fn of(alone: &[Vec<Duration>]) -> Self {
        let two_shortest = |spans: &Vec<Duration>| {
            let mut seconds: Vec<f64> = spans.iter().map(Duration::as_secs_f64).collect();
            seconds.sort_by(f64::total_cmp);
            (seconds[0], seconds[1] / seconds[0] - 1.0)
        };
        let all: Vec<(f64, f64)> = alone.iter().map(two_shortest).collect();
        let (first_s, first_error) = all[0];
        let weight = |(s, error): &(f64, f64)| {
            let ratio = s / first_s;
            if (ratio - 1.0).abs() <= error + first_error { 1.0 } else { ratio }
        };
        let error_ratio = all[1..].iter().map(|(_, error)| error + first_error).fold(0.0, f64::max);
        Self { each: all.iter().map(weight).collect(), error_ratio }
    }

    pub(super) fn of_copy(&self, copy: u32) -> f64 {
        self.each[copy as usize % self.each.len()]
    }

    /// As it is stored with a run: `0.02: 1,19.8`.
    pub(super) fn text(&self) -> String {
        let each: Vec<String> = self.each.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.error_ratio, each.join(","))
    }

    /// What [`Self::text`] wrote, for so many kinds.
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
    fn kinds_that_differ_by_less_than_their_runs_are_the_same_work() {
        let spans = |ms: [u64; 3]| ms.map(Duration::from_millis).to_vec();
        let weights = Weights::of(&[spans([105, 100, 160]), spans([104, 110, 103]), spans([200, 202, 999])]);
        assert_eq!(weights.each, [1.0, 1.0, 2.0]);
        assert!((weights.error_ratio - (0.05 + 0.01)).abs() < 1e-9, "{weights:?}");
        assert_eq!((weights.of_copy(2), weights.of_copy(3)), (2.0, 1.0));
        assert_eq!(Weights::read(&weights.text(), 3), Some(weights.clone()));
        for (text, kinds) in [("", 1), ("0.1: 1,2", 3), ("0.1: 1,-2", 2), ("0.1: 1,NaN", 2), ("1,2", 2)] {
            assert_eq!(Weights::read(text, kinds), None, "{text}");
        }
    }
}
