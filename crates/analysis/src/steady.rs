//! Whether a series of batches is steady, and how it got there.
//!
//! Four statistics decide together, each blind to what another sees: MSER-5 finds the initial part that
//! biases the mean; KPSS rejects a part that drifts; PELT finds steps in it. These three find too little in a
//! few batches: of 18 or fewer, KPSS passes even a straight line without noise. So the slope of Theil and Sen
//! must show that a drift is too small to matter; until then, the answer is *not yet*. A cycle of fixed
//! length looks like steps to PELT and is steady: it is looked for first.

mod repetition;

use self::repetition::repetition;
use crate::cycles::cycles;
use crate::growth::{neighbors, theil_sen, theil_sen_interval, unbiased_about_line};
use crate::robust::median;
use crate::student::t_above;

/// Fewest batches that are judged.
pub const BATCHES_MIN: usize = 10;
/// Critical value of KPSS for a constant level, 5 %.
///
/// # Source
///
/// Kwiatkowski, Phillips, Schmidt and Shin, *Journal of Econometrics* 54 (1992), 159-178, table 1.
const KPSS_MAX: f64 = 0.463;
/// Fewest values in which a cycle is looked for, and fewest repetitions that are accepted as one.
const CYCLE_VALUES_MIN: usize = 32;
const CYCLES_MIN: f64 = 3.0;
/// Rate of false alarms of one search for a cycle; a warm-up is searched several times.
const CYCLE_ALPHA: f64 = 0.001;
/// Largest probability that a drift is larger, and that it is smaller, than its interval allows.
const DRIFT_TAIL: f64 = 0.01;
/// Most points of a slope; more batches are averaged in neighbors.
const SLOPE_POINTS_MAX: usize = 48;
/// Share of the batches after which a series is judged again. A judgement after each batch would be more
/// chances of a wrong one.
const LOOK_EVERY: usize = 16;
/// Distance of the initial part from the steady one, in its standard errors, that counts as real.
const INITIAL_ERRORS: f64 = 4.0;
/// Fewest values in which a different beginning is looked for.
pub const STARTS_MIN: usize = 8;
/// Least difference of a beginning, as a share of the level after it, that is worth a word.
const START_RATIO_MIN: f64 = 0.05;
/// Tail of the test of a beginning, before it is shared by all its possible ends.
const START_TAIL: f64 = 0.000_5;
/// Fewest batches of a segment of PELT.
const SEGMENT_MIN: usize = 2;
/// Highest autocorrelation that the penalty of PELT assumes.
const CORRELATION_MAX: f64 = 0.9;

/// Judgement of one series.
#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    /// Steady from the beginning.
    Flat,
    /// Steady after an initial part of so many batches; the steady level divided by that of the initial part.
    After {
        /// Batches before the steady part.
        batches: usize,
        /// Steady level divided by that of the initial part.
        ratio: f64,
    },
    /// Steady, with a cycle of so many batches.
    Cycles {
        /// Length of the cycle in batches.
        period: f64,
    },
    /// Not steady so far, with the reason.
    Unsteady(String),
}

/// Changes that matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matters {
    /// A smaller change, as a share of the level, does not count.
    pub rope_ratio: f64,
    /// Length of the measured phase, in batches: a drift moves its mean.
    pub measured: f64,
}

/// Number of batches at which a series of `n` batches is judged next.
pub fn next_look(n: usize) -> usize {
    (n + (n / LOOK_EVERY).max(1)).max(BATCHES_MIN)
}

/// Judges a series of batches so far.
///
/// - `batches`: means over equal spans, in time order, finite.
pub fn steadiness(batches: &[f64], matters: Matters) -> Steadiness {
    let Matters { rope_ratio, .. } = matters;
    assert!(batches.iter().all(|z| z.is_finite()), "batches are finite");
    let n = batches.len();
    if n < BATCHES_MIN {
        return Steadiness::Unsteady(format!("{n} batches, {BATCHES_MIN} needed"));
    }
    let cut = mser(batches);
    let kept = &batches[cut..];
    if is_constant(kept) {
        return with_initial(batches, cut, rope_ratio);
    }
    let eta = kpss(kept, kpss_lags(kept.len()));
    let drifts = eta >= KPSS_MAX;
    // The first quarter may be the initial part, which hides a cycle.
    if !drifts && let Some(period) = cycle(&batches[n / 4..]) {
        return Steadiness::Cycles { period };
    }
    if cut >= n / 2 {
        return Steadiness::Unsteady(format!(
            "the initial transient is not over (MSER-5: {cut} of {n} batches)"
        ));
    }
    if drifts {
        return Steadiness::Unsteady(format!("it drifts (KPSS {eta:.2}, limit {KPSS_MAX})"));
    }
    if let Some(step) = late_step(kept, rope_ratio) {
        return Steadiness::Unsteady(format!("it changes by {:+.1} % in its last half (PELT)", step * 100.0));
    }
    if let Err(why) = no_drift(kept, matters) {
        return Steadiness::Unsteady(why);
    }
    with_initial(batches, cut, rope_ratio)
}

/// Beginning of a measured phase with another level than the rest: the warm-up was too short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// Values of the beginning; half of all if there is no end of it.
    pub values: usize,
    /// Level of the rest divided by that of the beginning.
    pub ratio: f64,
}

/// Beginning with a level that surely differs from the rest, by 5 % or more.
///
/// The beginning is what MSER-5 cuts; a t test, corrected for the choice of the cut and for a memory of one
/// step, decides. Fewer than [`STARTS_MIN`] values have none.
///
/// - `values`: at equal steps of time, finite.
pub fn different_start(values: &[f64]) -> Option<Start> {
    if values.len() < STARTS_MIN {
        return None;
    }
    let cut = mser(values);
    // One value may be a stall.
    if cut < 2 {
        return None;
    }
    let (first, rest) = values.split_at(cut);
    let (initial, level) = (mean(first), mean(rest));
    let residuals: Vec<f64> = rest.iter().map(|z| z - level).collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let found = if squares > 0.0 { products / squares } else { 0.0 };
    // Residuals of a short series understate its memory (Kendall, *Biometrika* 41 (1954), 403-404).
    let phi = (found + 3.0 * found / rest.len() as f64).clamp(0.0, CORRELATION_MAX);
    let df = rest.len() as f64 - 1.0;
    let variance = squares / df * (1.0 + phi) / (1.0 - phi);
    let error = (variance * (1.0 / cut as f64 + 1.0 / rest.len() as f64)).sqrt();
    let distance = (initial - level).abs();
    let cuts = (values.len() / 2) as f64;
    let is_sure = distance > t_above(START_TAIL / cuts, df) * error;
    (is_sure && distance >= START_RATIO_MIN * level.abs())
        .then_some(Start { values: cut, ratio: level / initial })
}

/// Number of initial batches to leave out, at most half of all: the cut that leaves the smallest standard
/// error of the mean.
///
/// # Source
///
/// White, *Simulation* 69 (1997), 323-334; White, Cobb and Spratt, *WSC* 2000, 755-760 (MSER-5).
pub fn mser(batches: &[f64]) -> usize {
    let n = batches.len();
    let error = |cut: usize| {
        let kept = &batches[cut..];
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        kept.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / (kept.len() as f64).powi(2)
    };
    (0..=n / 2).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0)
}

/// Statistic of the test that a series has a constant level, with `lags` autocovariances in its long-run
/// variance (Bartlett's weights). A constant series has 0.
///
/// # Source
///
/// As `KPSS_MAX`.
pub fn kpss(values: &[f64], lags: usize) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let residuals: Vec<f64> = values.iter().map(|z| z - mean).collect();
    let mut sum = 0.0;
    let squares: f64 = residuals
        .iter()
        .map(|r| {
            sum += r;
            sum * sum
        })
        .sum();
    let covariance = |lag: usize| residuals.iter().zip(&residuals[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let weighted = (1..=lags.min(values.len().saturating_sub(1)))
        .map(|lag| 2.0 * (1.0 - lag as f64 / (lags as f64 + 1.0)) * covariance(lag));
    let variance = (covariance(0) + weighted.sum::<f64>()) / n;
    if variance > 0.0 { squares / (n * n) / variance } else { 0.0 }
}

/// Autocovariances that KPSS uses for a series of `n` values.
pub fn kpss_lags(n: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let lags = (4.0 * (n as f64 / 100.0).powf(0.25)).ceil() as usize;
    lags
}

/// Beginnings of the segments after the first that divide a series into pieces of constant level, at the
/// least cost: the sum of squares about each level, and `penalty` for each segment.
///
/// The optimum of PELT. Its pruning only saves time, which some hundred batches do not need.
///
/// # Source
///
/// Killick, Fearnhead and Eckley, *Journal of the American Statistical Association* 107 (2012), 1590-1598.
pub fn pelt(values: &[f64], penalty: f64, segment_min: usize) -> Vec<usize> {
    let n = values.len();
    let sums = Sums::of(values);
    // Least cost of the first i values, and the beginning of the last segment in it.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0] = (-penalty, 0);
    for end in segment_min..=n {
        let starts = std::iter::once(0).chain(segment_min..(end + 1).saturating_sub(segment_min));
        let costs = starts.map(|start| (best[start].0 + sums.cost(start, end) + penalty, start));
        best[end] = costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("0 is a beginning");
    }
    let mut changes = Vec::new();
    let mut at = n;
    while at > 0 {
        at = best[at].1;
        if at > 0 {
            changes.push(at);
        }
    }
    changes.reverse();
    changes
}

/// Sums of the first i values, and of their squares.
struct Sums(Vec<(f64, f64)>);

impl Sums {
    fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / (values.len() as f64).max(1.0);
        let mut sums = vec![(0.0, 0.0)];
        for value in values {
            let (sum, squares) = sums[sums.len() - 1];
            // About the mean, which keeps the squares small.
            let z = value - mean;
            sums.push((sum + z, squares + z * z));
        }
        Self(sums)
    }

    /// Sum of squares about the mean of the values from `start` up to `end`.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let (a, b) = (self.0[start], self.0[end]);
        let sum = b.0 - a.0;
        (b.1 - a.1 - sum * sum / (end - start) as f64).max(0.0)
    }
}

/// Whether a drift, at most, moves the mean of the measured phase by no more than the region: its interval
/// lies inside.
///
/// # Errors
///
/// The move that is not excluded.
fn no_drift(kept: &[f64], matters: Matters) -> Result<(), String> {
    let rope_ratio = matters.rope_ratio;
    let Some((low, high)) = drift(kept, matters.measured) else {
        return Err(format!("{} batches are too few to exclude a drift (Theil-Sen)", kept.len()));
    };
    if -rope_ratio <= low && high <= rope_ratio {
        return Ok(());
    }
    let word = if low > 0.0 || high < 0.0 { "it drifts" } else { "a drift is not excluded" };
    Err(format!(
        "{word}: the mean of the measured phase may move by {:+.1} % to {:+.1} %, limit {:.1} % (Theil-Sen)",
        low * 100.0,
        high * 100.0,
        rope_ratio * 100.0
    ))
}

/// Interval of the change of the mean of a measured phase by a drift, as a share of the level; `None` of too
/// few batches.
///
/// The mean of a phase is its level half a phase after its beginning. A short phase counts as
/// [`BATCHES_MIN`] batches: a level that drifts is not steady, however little of it is measured.
fn drift(kept: &[f64], measured: f64) -> Option<(f64, f64)> {
    let points = joined(kept);
    let slope = theil_sen(&points)?;
    let about: Vec<f64> = points.iter().map(|(time, level)| level - slope * time).collect();
    let middle = median(&about)?;
    let residuals: Vec<f64> = about.iter().map(|level| level - middle).collect();
    let memory = unbiased_about_line(neighbors(&residuals), points.len() as f64).clamp(0.0, CORRELATION_MAX);
    let (low, high) = theil_sen_interval(&points, DRIFT_TAIL, memory)?;
    let ahead = measured.max(BATCHES_MIN as f64) / 2.0 / mean(kept).abs();
    Some((low * ahead, high * ahead))
}

/// At most [`SLOPE_POINTS_MAX`] points, means of neighbors, with their places in batches. The first batches
/// that fill no group are left out.
fn joined(batches: &[f64]) -> Vec<(f64, f64)> {
    let each = batches.len().div_ceil(SLOPE_POINTS_MAX).max(1);
    let groups = batches.rchunks_exact(each).rev();
    groups.zip(0_u32..).map(|(group, place)| (f64::from(place) * each as f64, mean(group))).collect()
}

/// The largest step over `rope_ratio` that begins in the last half, as a share of the level before it.
fn late_step(kept: &[f64], rope_ratio: f64) -> Option<f64> {
    let changes = pelt(kept, penalty(kept), SEGMENT_MIN);
    let ends: Vec<usize> = changes.iter().copied().chain([kept.len()]).collect();
    let mut before = 0;
    let mut largest: Option<f64> = None;
    for pair in ends.windows(2) {
        let (change, end) = (pair[0], pair[1]);
        let (was, is) = (mean(&kept[before..change]), mean(&kept[change..end]));
        let step = is / was - 1.0;
        if change * 2 >= kept.len() && step.abs() > rope_ratio && largest.is_none_or(|l| step.abs() > l.abs())
        {
            largest = Some(step);
        }
        before = change;
    }
    largest
}

/// 3 sigma^2 ln n (1 + phi) / (1 - phi): noise that remembers makes steps by itself. Variance and correlation
/// are those about the two best levels, so that one true step does not hide itself.
fn penalty(values: &[f64]) -> f64 {
    let n = values.len();
    let sums = Sums::of(values);
    let cost = |cut: &usize| sums.cost(0, *cut) + sums.cost(*cut, n);
    let cut = (1..n).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(n);
    let (low, high) = (mean(&values[..cut]), mean(&values[cut..]));
    let residual = |(i, z): (usize, &f64)| z - if i < cut { low } else { high };
    let residuals: Vec<f64> = values.iter().enumerate().map(residual).collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let phi = if squares > 0.0 { (products / squares).clamp(0.0, CORRELATION_MAX) } else { 0.0 };
    let variance = squares / (n as f64 - 2.0).max(1.0);
    3.0 * variance * (n as f64).ln() * (1.0 + phi) / (1.0 - phi)
}

/// Length of a significant cycle of a series, in values; `None` also if it repeats too seldom.
///
/// - `values`: at equal steps of time.
pub fn cycle(values: &[f64]) -> Option<f64> {
    if values.len() < CYCLE_VALUES_MIN {
        return None;
    }
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, z)| (i as f64, *z)).collect();
    let strongest = cycles(&points, CYCLE_ALPHA).cycles.into_iter().next();
    let period = strongest.map(|cycle| cycle.period_s);
    period.filter(|period| period * CYCLES_MIN <= values.len() as f64).or_else(|| repetition(values))
}

/// Steady, with an initial part if its level surely differs.
fn with_initial(batches: &[f64], cut: usize, rope_ratio: f64) -> Steadiness {
    if cut == 0 {
        return Steadiness::Flat;
    }
    let (initial, rest) = (mean(&batches[..cut]), &batches[cut..]);
    let kept = mean(rest);
    let squares: f64 = rest.iter().map(|z| (z - kept).powi(2)).sum();
    let sd = (squares / (rest.len() as f64 - 1.0).max(1.0)).sqrt();
    let error = sd * (1.0 / cut as f64 + 1.0 / rest.len() as f64).sqrt();
    let distance = (initial - kept).abs();
    if distance <= rope_ratio * kept.abs() || distance <= INITIAL_ERRORS * error {
        return Steadiness::Flat;
    }
    Steadiness::After { batches: cut, ratio: kept / initial }
}

fn is_constant(values: &[f64]) -> bool {
    let level = values.iter().fold(0.0_f64, |most, z| most.max(z.abs()));
    values.windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 1e-12 * level)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
