//! How throughput grows with concurrency: linear, Amdahl's law, and the Universal Scalability Law.
//!
//! X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): lambda is one unit's throughput, sigma contention (a share
//! of the work that is done one after the other), kappa coherency (work that grows with the number of pairs). Amdahl's
//! law is kappa = 0, linear is both 0. Negative values are findings, not errors, and are not clamped.
//!
//! Fitted to ln X, since noise is a share of throughput. Intervals come from drawing whole series again, with the
//! noise that its levels share. A peak is named only where kappa is surely over 0 and the peak lies within 1.5 times what
//! was measured; a fall that is steeper than any such law allows is a *cliff*, and then no law is believed.
//!
//! # Source
//!
//! N. J. Gunther, *Guerrilla Capacity Planning* (2007), chapters 4 to 6; for the widened percentile interval, T. C.
//! Hesterberg, "What Teachers Should Know About the Bootstrap" (2015), section 5.3; for the comparison of models, Hurvich
//! and Tsai, *Biometrika* 76 (1989).

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};
use statrs::distribution::{ContinuousCDF, FisherSnedecor, Normal};

use crate::chance::SplitMix;
use crate::robust::mean_and_error;
use crate::student::{p_two_sided, t_above};

/// Throughput of one series: at each concurrency, in any order.
pub type Series = Vec<(f64, f64)>;

/// Which law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// X = lambda N.
    Linear,
    /// With contention.
    Amdahl,
    /// With contention and coherency.
    Usl,
}

impl Law {
    /// All of them, the simplest first.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Amdahl, Self::Usl];

    /// The word in JSON and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Amdahl => "Amdahl",
            Self::Usl => "USL",
        }
    }

    fn parameters(self) -> usize {
        self as usize + 1
    }
}

/// A law's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Throughput of one unit.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
}

impl Curve {
    /// Throughput at concurrency `n`.
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / self.divisor(n)
    }

    fn divisor(&self, n: f64) -> f64 {
        1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0)
    }

    /// The concurrency at which throughput is greatest; `None` where it never falls.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// A fitted law.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Which.
    pub law: Law,
    /// Its parameters.
    pub curve: Curve,
    /// Interval of lambda, sigma and kappa.
    pub intervals: [(f64, f64); 3],
    /// Corrected information criterion; the smallest is preferred. Missing where there are too few points.
    pub aicc: Maybe<f64>,
    /// p of the test whether levels lie off the curve by more than their repeats differ; missing without repeats.
    pub lack_of_fit_p: Maybe<f64>,
    /// The band of throughput at each level measured.
    pub band: Vec<(f64, (f64, f64))>,
}

/// A fall that no law allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// The last concurrency before it.
    pub at: f64,
    /// The first one after it.
    pub next: f64,
    /// What is left there, as a share of what there was.
    pub left_ratio: f64,
    /// What is left at the worst by any law whose peak lies where one was measured.
    pub allowed_ratio: f64,
}

/// What the levels measured come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Every law that there are levels enough for, the simplest first.
    pub laws: Vec<Fitted>,
    /// The law that says most with least; missing where none may be believed.
    pub chosen: Maybe<Law>,
    /// The concurrency of the greatest throughput by the law, with its interval; missing where none may be claimed.
    pub peak: Maybe<(f64, (f64, f64))>,
    /// A fall steeper than any law allows.
    pub cliff: Option<Cliff>,
    /// Whether throughput at the end is surely below its greatest.
    pub retrograde: bool,
}

/// Draws for the intervals.
const DRAWS: usize = 1_000;
/// Two-sided probability outside an interval.
const ALPHA: f64 = 0.05;
/// One-sided probability of calling a fall a cliff that is none.
const CLIFF_ALPHA: f64 = 0.01;
/// Below this, levels lie off every curve.
const LACK_OF_FIT_P: f64 = 0.001;
/// No law is told past so many times the largest concurrency measured.
pub const BEYOND: f64 = 1.5;

/// Fits all laws to some series, and judges them.
///
/// - `series`: the repeats of the whole experiment; throughputs over 0, concurrencies from 1.
/// - `fitted_to`: the largest concurrency that the laws are fitted to; past the number of CPUs a law of more CPUs says
///   nothing. Cliffs are looked for at all levels.
pub fn scaling(series: &[Series], fitted_to: f64, seed: u64) -> Scaling {
    assert!(series.iter().flatten().all(|(n, x)| *n >= 1.0 && *x > 0.0), "throughputs over 0 at 1 and more");
    let within: Vec<Series> = series
        .iter()
        .map(|s| s.iter().copied().filter(|(n, _)| *n <= fitted_to).collect::<Series>())
        .filter(|s| !s.is_empty())
        .collect();
    let levels = levels_of(&within);
    let laws: Vec<Fitted> = Law::ALL
        .into_iter()
        .filter(|law| levels.len() > law.parameters() && within.len() > 1)
        .map(|law| fitted(law, &within, &levels, seed))
        .collect();
    let cliff = cliff(series);
    let retrograde = retrograde(series);
    let chosen = chosen(&laws, cliff.as_ref(), levels.len(), within.len());
    let peak = chosen.clone().and_then(|law| peak(law, &laws, &levels, &within, seed));
    Scaling { laws, chosen, peak, cliff, retrograde }
}

fn levels_of(series: &[Series]) -> Vec<f64> {
    let mut levels: Vec<f64> = series.iter().flatten().map(|(n, _)| *n).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

fn chosen(laws: &[Fitted], cliff: Option<&Cliff>, levels: usize, series: usize) -> Maybe<Law> {
    if cliff.is_some() {
        return Err(Missing::because("throughput falls off a cliff, which no law has"));
    }
    if series > 1 && laws.len() < 2 {
        let why = format!("levels within the CPUs, {levels}, are too few to tell laws apart: it takes three");
        return Err(Missing::because(why));
    }
    let known = laws.iter().filter_map(|f| Some((f, *f.aicc.as_ref().ok()?)));
    let best = known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(f, _)| f);
    let Some(best) = best else {
        return Err(Missing::because("a law needs two rounds or more"));
    };
    if best.lack_of_fit_p.as_ref().is_ok_and(|p| *p < LACK_OF_FIT_P) {
        return Err(Missing::because("levels lie off every curve by more than their repeats differ"));
    }
    Ok(best.law)
}

fn fitted(law: Law, series: &[Series], levels: &[f64], seed: u64) -> Fitted {
    let points: Series = series.iter().flatten().copied().collect();
    let curve = fit(law, &points);
    let drawn = drawn(law, &curve, series, seed);
    let interval = |of: &dyn Fn(&Curve) -> f64| {
        let values: Vec<f64> = drawn.iter().map(of).collect();
        percentiles(values, series.len())
    };
    let rss = residuals(&curve, &points).map(|r| r * r).sum::<f64>();
    Fitted {
        law,
        curve,
        intervals: [interval(&|c| c.lambda), interval(&|c| c.sigma), interval(&|c| c.kappa)],
        aicc: aicc(rss, points.len(), law.parameters() + 1),
        lack_of_fit_p: lack_of_fit(law, &curve, series, levels),
        band: levels.iter().map(|n| (*n, interval(&|c| c.at(*n)))).collect(),
    }
}

/// The law fitted to series drawn again, whole, each from where all of them led.
fn drawn(law: Law, from: &Curve, series: &[Series], seed: u64) -> Vec<Curve> {
    let mut chance = SplitMix(seed);
    let mut draw = || -> Curve {
        let points: Series =
            (0..series.len()).flat_map(|_| series[chance.below(series.len())].iter().copied()).collect();
        descend(law, &points, *from).0
    };
    (0..DRAWS).map(|_| draw()).collect()
}

/// The percentile interval, widened for the few series that it rests on.
fn percentiles(mut values: Vec<f64>, series: usize) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = series as f64;
    let z = (n / (n - 1.0)).sqrt() * t_above(ALPHA / 2.0, n - 1.0);
    let tail = Normal::standard().cdf(-z);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the draws")]
    let place = (tail * (values.len() - 1) as f64).round() as usize;
    (values[place], values[values.len() - 1 - place])
}

fn residuals<'a>(curve: &'a Curve, points: &'a [(f64, f64)]) -> impl Iterator<Item = f64> + 'a {
    points.iter().map(|(n, x)| x.ln() - curve.at(*n).ln())
}

/// Least squares on ln X, by Gauss and Newton with steps made shorter until they help (Levenberg, Marquardt).
fn fit(law: Law, points: &[(f64, f64)]) -> Curve {
    let middle = |sigma: f64, kappa: f64| {
        let shape = Curve { lambda: 1.0, sigma, kappa };
        (residuals(&shape, points).sum::<f64>() / points.len() as f64).exp()
    };
    if law == Law::Linear {
        return Curve { lambda: middle(0.0, 0.0), sigma: 0.0, kappa: 0.0 };
    }
    let highest = points.iter().map(|p| p.0).fold(1.0, f64::max);
    let starts = [
        (0.0, 0.0),
        (0.05, 0.1 / (highest * highest)),
        (0.3, 0.0),
        (-0.2 / highest, 0.5 / (highest * highest)),
    ];
    let from = |(sigma, kappa): &(f64, f64)| {
        let kappa = if law == Law::Amdahl { 0.0 } else { *kappa };
        descend(law, points, Curve { lambda: middle(*sigma, kappa), sigma: *sigma, kappa })
    };
    let all = starts.iter().map(from);
    all.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are starts").0
}

/// From a start to the nearest least sum of squares, which it yields too.
fn descend(law: Law, points: &[(f64, f64)], start: Curve) -> (Curve, f64) {
    let cost = |c: &Curve| {
        let possible = c.lambda > 0.0 && points.iter().all(|(n, _)| c.divisor(*n) > 1e-6);
        if possible { residuals(c, points).map(|r| r * r).sum() } else { f64::INFINITY }
    };
    let (mut at, mut least, mut damping) = (start, cost(&start), 1e-3);
    for _ in 0..200 {
        let step = step(law, points, &at, damping);
        let next =
            Curve { lambda: at.lambda * step[0].exp(), sigma: at.sigma + step[1], kappa: at.kappa + step[2] };
        let found = cost(&next);
        if found < least {
            let gained = least - found;
            (at, least) = (next, found);
            damping = (damping / 5.0).max(1e-12);
            if gained < 1e-14 * (1.0 + least) {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    (at, least)
}

/// The damped step in ln lambda, sigma and kappa; those that the law has not stay.
fn step(law: Law, points: &[(f64, f64)], at: &Curve, damping: f64) -> [f64; 3] {
    let k = law.parameters();
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for (n, x) in points {
        let d = at.divisor(*n);
        let slopes = [1.0, -(n - 1.0) / d, -n * (n - 1.0) / d];
        let residual = x.ln() - at.at(*n).ln();
        for i in 0..k {
            right[i] += slopes[i] * residual;
            for j in 0..k {
                matrix[i][j] += slopes[i] * slopes[j];
            }
        }
    }
    for (i, row) in matrix.iter_mut().enumerate().take(k) {
        row[i] *= 1.0 + damping;
    }
    solve(matrix, right, k)
}

/// Gauss's elimination of the first `k` unknowns; where they cannot be told apart, all stay 0.
pub(crate) fn solve<const N: usize>(mut m: [[f64; N]; N], mut r: [f64; N], k: usize) -> [f64; N] {
    for i in 0..k {
        let pivot = (i..k).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs())).expect("not empty");
        m.swap(i, pivot);
        r.swap(i, pivot);
        if m[i][i].abs() < f64::MIN_POSITIVE {
            return [0.0; N];
        }
        for below in i + 1..k {
            let share = m[below][i] / m[i][i];
            let (above, rest) = m.split_at_mut(below);
            for (to, from) in rest[0].iter_mut().zip(&above[i]).take(k) {
                *to -= share * from;
            }
            r[below] -= share * r[i];
        }
    }
    let mut x = [0.0; N];
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|j| m[i][j] * x[j]).sum();
        x[i] = (r[i] - known) / m[i][i];
    }
    x
}

fn aicc(rss: f64, points: usize, parameters: usize) -> Maybe<f64> {
    let (n, k) = (points as f64, parameters as f64);
    if points <= parameters + 1 {
        return Err(Missing::because("there are too few points"));
    }
    // A perfect fit is no better than one to the last digit of a number.
    let rss = rss.max(n * 1e-24);
    Ok(n * (rss / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0))
}

/// F test of the levels' means about the curve against what repeats differ by, the series' own levels taken out.
fn lack_of_fit(law: Law, curve: &Curve, series: &[Series], levels: &[f64]) -> Maybe<f64> {
    let whole: Vec<&Series> = series.iter().filter(|s| s.len() == levels.len()).collect();
    let (s, l) = (whole.len() as f64, levels.len() as f64);
    let (of_curve, of_error) = (l - law.parameters() as f64, (s - 1.0) * (l - 1.0));
    if whole.len() < 2 || of_curve < 1.0 {
        return Err(Missing::because("there are too few repeats or levels"));
    }
    let log = |series: &Series, n: f64| {
        let at = series.iter().find(|(level, _)| (level - n).abs() < f64::EPSILON);
        at.expect("a whole series has every level").1.ln()
    };
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of_level: Vec<f64> =
        levels.iter().map(|n| mean(whole.iter().map(|x| log(x, *n)).collect())).collect();
    let of_series: Vec<f64> =
        whole.iter().map(|x| mean(levels.iter().map(|n| log(x, *n)).collect())).collect();
    let grand = mean(of_level.clone());
    let mut pure = 0.0;
    for (x, series_mean) in whole.iter().zip(&of_series) {
        for (n, level_mean) in levels.iter().zip(&of_level) {
            pure += (log(x, *n) - series_mean - level_mean + grand).powi(2);
        }
    }
    let off: f64 = levels.iter().zip(&of_level).map(|(n, m)| s * (m - curve.at(*n).ln()).powi(2)).sum();
    if pure <= 0.0 {
        return Err(Missing::because("the repeats do not differ at all"));
    }
    let f = (off / of_curve) / (pure / of_error);
    let f_of = FisherSnedecor::new(of_curve, of_error).expect("degrees of freedom are over 0");
    Ok(f_of.sf(f))
}

/// The peak of the chosen law where it may be told.
fn peak(law: Law, laws: &[Fitted], levels: &[f64], series: &[Series], seed: u64) -> Maybe<(f64, (f64, f64))> {
    let none = |why: &str| Err(Missing::because(why.to_owned()));
    if law != Law::Usl {
        return none("the law that fits best has no peak");
    }
    let usl = laws.iter().find(|f| f.law == Law::Usl).expect("it was chosen");
    let Some(at) = usl.curve.peak() else { return none("throughput never falls by the law") };
    if usl.intervals[2].0 <= 0.0 {
        return none("coherency may be 0, and then there is no peak");
    }
    if at > BEYOND * levels[levels.len() - 1] {
        return none("it would lie beyond 1.5 times what was measured");
    }
    let peaks: Vec<f64> =
        drawn(Law::Usl, &usl.curve, series, seed).iter().map(|c| c.peak().unwrap_or(f64::INFINITY)).collect();
    Ok((at, percentiles(peaks, series.len())))
}

/// ln of throughput at each level, series by series.
fn by_level(series: &[Series]) -> BTreeMap<u64, (f64, Vec<(usize, f64)>)> {
    let mut levels: BTreeMap<u64, (f64, Vec<(usize, f64)>)> = BTreeMap::new();
    for (i, s) in series.iter().enumerate() {
        for (n, x) in s {
            // Positive numbers sort like their bits.
            levels.entry(n.to_bits()).or_insert((*n, Vec::new())).1.push((i, x.ln()));
        }
    }
    levels
}

/// Differences of two levels within the series that have both.
fn paired(a: &[(usize, f64)], b: &[(usize, f64)]) -> Vec<f64> {
    b.iter().filter_map(|(i, x)| Some(x - a.iter().find(|(j, _)| i == j)?.1)).collect()
}

/// The first step down that is steeper than any law whose peak lies near the one measured.
fn cliff(series: &[Series]) -> Option<Cliff> {
    let levels: Vec<(f64, Vec<(usize, f64)>)> = by_level(series).into_values().collect();
    let mean = |logs: &[(usize, f64)]| logs.iter().map(|(_, x)| x).sum::<f64>() / logs.len() as f64;
    let top = (0..levels.len()).max_by(|a, b| mean(&levels[*a].1).total_cmp(&mean(&levels[*b].1)))?;
    let rise: Series =
        levels[..=top].iter().flat_map(|(n, logs)| logs.iter().map(|(_, x)| (*n, x.exp()))).collect();
    // What grows faster than its number may also fall faster.
    let sigma = if top >= 2 { fit(Law::Amdahl, &rise).sigma.min(0.0) } else { 0.0 };
    let around = (levels[top.saturating_sub(1)].0, levels[(top + 1).min(levels.len() - 1)].0);
    (top + 1..levels.len()).find_map(|next| {
        let at = next - 1;
        let falls = paired(&levels[at].1, &levels[next].1);
        if falls.len() < 2 {
            return None;
        }
        let allowed_ratio = steepest(levels[at].0, levels[next].0, around, sigma);
        let (fall, error) = mean_and_error(&falls);
        let surely = fall + t_above(CLIFF_ALPHA, falls.len() as f64 - 1.0) * error < allowed_ratio.ln();
        surely.then(|| Cliff {
            at: levels[at].0,
            next: levels[next].0,
            left_ratio: fall.exp(),
            allowed_ratio,
        })
    })
}

/// The least that a law with its peak in `peaks` leaves of X(`from`) at `to`.
fn steepest(from: f64, to: f64, peaks: (f64, f64), sigma: f64) -> f64 {
    const PLACES: usize = 50;
    let left = |i: usize| {
        let peak = peaks.0 + (peaks.1 - peaks.0) * i as f64 / PLACES as f64;
        let law = Curve { lambda: 1.0, sigma, kappa: (1.0 - sigma) / (peak * peak) };
        law.at(to) / law.at(from)
    };
    (0..=PLACES).map(left).filter(|r| *r > 0.0).fold(1.0, f64::min)
}

/// Whether the last level is surely below the greatest, by series that have both.
fn retrograde(series: &[Series]) -> bool {
    let levels: Vec<(f64, Vec<(usize, f64)>)> = by_level(series).into_values().collect();
    let mean = |logs: &[(usize, f64)]| logs.iter().map(|(_, x)| x).sum::<f64>() / logs.len() as f64;
    let Some(last) = levels.last() else { return false };
    let top = levels.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1))).expect("there is a last");
    let falls = paired(&top.1, &last.1);
    if falls.len() < 2 {
        return false;
    }
    let (fall, error) = mean_and_error(&falls);
    fall < 0.0 && p_two_sided(fall / error.max(f64::MIN_POSITIVE), falls.len() as f64 - 1.0) < ALPHA
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// Normal by the sum of twelve, good enough for noise.
    fn noise(random: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    /// `rounds` series of `truth`, with 2 % of noise that a series shares and 2 % of its own at each level.
    fn measured(truth: impl Fn(f64) -> f64, levels: &[f64], rounds: usize, seed: u64) -> Vec<Series> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let one = |random: &mut ChaCha8Rng| -> Series {
            let shared = 0.02 * noise(random);
            levels.iter().map(|n| (*n, truth(*n) * (shared + 0.02 * noise(random)).exp())).collect()
        };
        (0..rounds).map(|_| one(&mut random)).collect()
    }

    const LEVELS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    #[test]
    fn a_curve_without_noise_is_found_as_it_is() {
        let truth = Curve { lambda: 995.6, sigma: 0.026_71, kappa: 0.000_769 };
        let points: Series = LEVELS.iter().map(|n| (*n, truth.at(*n))).collect();
        let found = fit(Law::Usl, &points);
        assert!((found.lambda / truth.lambda - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            (found.sigma - truth.sigma).abs() < 1e-7 && (found.kappa - truth.kappa).abs() < 1e-9,
            "{found:?}"
        );
        // By hand: sqrt((1 - 0.02671) / 0.000769) = 35.58.
        assert!((found.peak().unwrap() - 35.58).abs() < 0.01);
    }

    #[test]
    fn what_grows_faster_than_its_number_keeps_its_sign() {
        let truth = Curve { lambda: 10.0, sigma: -0.002, kappa: 0.0 };
        let points: Series = LEVELS.iter().map(|n| (*n, truth.at(*n))).collect();
        assert!((fit(Law::Usl, &points).sigma - truth.sigma).abs() < 1e-6);
    }

    #[test]
    fn a_truly_linear_one_claims_no_peak() {
        let claims = (0..100)
            .filter(|seed| {
                let found = scaling(&measured(|n| 50.0 * n, &LEVELS, 6, *seed), 128.0, 1);
                found.peak.is_ok() || found.cliff.is_some() || found.retrograde
            })
            .count();
        assert!(claims <= 5, "{claims} of 100");
    }

    #[test]
    fn a_fall_from_ninety_to_a_quarter_is_a_cliff_and_has_no_peak() {
        // Linear to 90 copies, and a quarter of that at 128: what a lock that all fight for does.
        let truth = |n: f64| if n <= 90.0 { 10.0 * n } else { 225.0 };
        let levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 90.0, 128.0];
        for seed in 0..20 {
            let found = scaling(&measured(truth, &levels, 6, seed), 128.0, 1);
            let cliff = found.cliff.expect("it is seen");
            assert_eq!((cliff.at, cliff.next), (90.0, 128.0));
            assert!((cliff.left_ratio - 0.25).abs() < 0.02 && cliff.allowed_ratio > 0.5, "{cliff:?}");
            assert!(found.peak.is_err() && found.chosen.is_err(), "{found:?}");
        }
    }

    #[test]
    fn the_steepest_law_leaves_what_the_formula_says() {
        // By hand, sigma = 0, peak at 90: (128 / (1 + 128 * 127 / 8100)) / (90 / (1 + 90 * 89 / 8100)) = 0.9407.
        assert!((steepest(90.0, 128.0, (90.0, 90.0), 0.0) - 0.940_7).abs() < 5e-4);
    }

    #[test]
    fn a_true_peak_is_found_and_its_interval_holds_it() {
        let truth = Curve { lambda: 100.0, sigma: 0.02, kappa: 0.000_5 };
        let (mut found, mut held) = (0, 0);
        for seed in 0..40 {
            let peak = scaling(&measured(|n| truth.at(n), &LEVELS, 6, seed), 128.0, 1).peak;
            if let Ok((_, (low, high))) = peak {
                found += 1;
                held += u32::from((low..=high).contains(&truth.peak().unwrap()));
            }
        }
        assert!(found >= 38, "{found} of 40");
        assert!(held >= 34, "{held} of {found}");
    }

    #[test]
    fn contention_alone_is_amdahl_and_levels_past_the_cpus_are_not_fitted() {
        let truth = |n: f64| 10.0 * n.min(64.0) / (1.0 + 0.05 * (n.min(64.0) - 1.0));
        let found = scaling(&measured(truth, &LEVELS, 6, 3), 64.0, 1);
        assert_eq!(found.chosen, Ok(Law::Amdahl), "{found:?}");
        assert!(found.cliff.is_none() && found.laws.len() == 3);
        let sigma = found.laws[1].intervals[1];
        assert!(sigma.0 < 0.05 && 0.05 < sigma.1, "{sigma:?}");
    }

    #[test]
    fn too_little_is_said_to_be_too_little() {
        let two = measured(|n| n, &[1.0, 2.0], 6, 1);
        let found = scaling(&two, 2.0, 1);
        assert_eq!(found.laws.iter().map(|f| f.law).collect::<Vec<_>>(), [Law::Linear]);
        let once = measured(|n| n, &LEVELS, 1, 1);
        assert!(scaling(&once, 128.0, 1).chosen.is_err());
        assert!(scaling(&[], 1.0, 1).chosen.is_err());
    }
}
