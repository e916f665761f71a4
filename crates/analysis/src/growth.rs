//! Growth rate of a level: a slope with its interval.

use record::missing::{Maybe, Missing};

use crate::robust::median;
use crate::student::t_above;

/// Minimum number of differences that shows their spread.
pub const DIFFERENCES_MIN: usize = 6;

/// Growth per second over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Last level minus the first, divided by the time between.
    pub per_s: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// Growth of a level that was read at equal intervals.
///
/// The steps between readings are the sample. Levels of memory wander, so residuals about a fitted line are
/// autocorrelated, and that line's own interval would be far too narrow. If consecutive steps correlate (a
/// warm-up that fades), the interval is widened according to the first autocorrelation. The result does not
/// predict the level after the window.
///
/// - `levels`: in time order, any unit.
/// - `interval_s`: time from one to the next.
///
/// # Errors
///
/// Missing with fewer than [`DIFFERENCES_MIN`] steps.
pub fn growth(levels: &[f64], interval_s: f64) -> Maybe<Growth> {
    let steps: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if steps.len() < DIFFERENCES_MIN {
        return Err(Missing::because(format!("a slope needs {DIFFERENCES_MIN} intervals")));
    }
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / n;
    let squares: f64 = steps.iter().map(|s| (s - mean).powi(2)).sum();
    let products: f64 = steps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // Negatively correlated steps (garbage that is collected) would narrow the interval; that is not relied
    // on.
    let lean = if squares > 0.0 { (products / squares).clamp(0.0, 0.9) } else { 0.0 };
    let error = (squares / (n - 1.0) / n * (1.0 + lean) / (1.0 - lean)).sqrt();
    let margin = t_above(0.025, n - 1.0) * error;
    let per_s = |steps: f64| steps / interval_s;
    Ok(Growth { per_s: per_s(mean), low: per_s(mean - margin), high: per_s(mean + margin) })
}

/// Slope of a level: the median of the slopes of all pairs of points; `None` without two different times.
///
/// Up to 29 % of the points may be wild.
///
/// - `points`: time and level, at most some thousands.
///
/// # Source
///
/// Sen, *Journal of the American Statistical Association* 63 (1968), 1379-1389.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (b.0 - a.0, b.1 - a.1)))
        .filter(|(time, _)| *time != 0.0)
        .map(|(time, level)| level / time)
        .collect();
    median(&slopes)
}

impl Growth {
    /// Whether the interval excludes 0.
    pub fn is_certain(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    #[test]
    fn a_steady_leak_is_its_rate() {
        let levels: Vec<f64> = (0..20).map(|i| 1e6 + f64::from(i) * 500.0).collect();
        let found = growth(&levels, 0.5).unwrap();
        assert!((found.per_s - 1_000.0).abs() < 1e-6 && found.is_certain(), "{found:?}");
        assert!(growth(&levels[..6], 0.5).is_err());
    }

    #[test]
    fn one_jump_is_no_growth_and_a_level_that_stays_has_none() {
        let jump: Vec<f64> = (0..20).map(|i| if i < 9 { 0.0 } else { 64e6 }).collect();
        assert!(!growth(&jump, 1.0).unwrap().is_certain());
        let flat = growth(&[5.0; 12], 1.0).unwrap();
        assert!(flat.per_s == 0.0 && !flat.is_certain());
    }

    #[test]
    fn a_saw_of_garbage_is_no_growth_in_whichever_phase_it_is_cut() {
        for phase in 0..7 {
            let levels: Vec<f64> = (0..30).map(|i| f64::from((i + phase) % 7) * 1e6).collect();
            let found = growth(&levels, 1.0).unwrap();
            assert!(!found.is_certain(), "{phase}: {found:?}");
        }
    }

    #[test]
    fn a_level_that_wanders_is_said_to_grow_no_more_often_than_one_time_in_twenty_or_so() {
        let mut chance = SplitMix(7);
        let mut certain = 0;
        for _ in 0..2_000 {
            let mut level = 0.0;
            let levels: Vec<f64> = (0..30)
                .map(|_| {
                    level += chance.normal();
                    level
                })
                .collect();
            certain += u32::from(growth(&levels, 1.0).unwrap().is_certain());
        }
        // 100 expected; three standard deviations are 29.
        assert!(certain <= 130, "{certain} of 2,000");
    }
}
