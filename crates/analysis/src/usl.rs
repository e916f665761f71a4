//! Growth of throughput with concurrency: linear, Amdahl's law, and the Universal Scalability Law.
//!
//! X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): lambda is one unit's throughput, sigma contention
//! (the serial share of the work), kappa coherency (work that grows with the number of pairs). Amdahl's law
//! is kappa = 0, linear is both 0. Negative values are findings, not errors, and are not clamped.
//!
//! The fit is to ln X, since noise is proportional to throughput. With fewer than six series there are no
//! intervals: two or three series do not predict the next one. From six on, the law is fitted to
//! each series, and the interval is Student's t of the fits: noise that a series shares moves one fit, not
//! the others. The program
//! `examples/coverage` measures by simulation how often an interval holds the truth; `docs/validation.md` has
//! its table.
//!
//! Lambda is the throughput of the machine as it was, hiccups included. If slow values are more frequent than
//! even noise explains ([`Scaling::slow_tail`]), the undisturbed machine does more, and no interval here
//! holds that.
//!
//! The chosen law is the one with the most parameters of which the last is certainly not 0, by its interval
//! over the series. The information criterion does not choose: it counts variation between series as noise,
//! and so misses a contention that every series shows. With fewer than six series there are no intervals, and
//! no law is chosen.
//!
//! A peak is named only if kappa is certainly over 0 and the peak lies within 1.5 times the measured
//! concurrency. A fall that is steeper than any such law allows is a *cliff*, and then no law is chosen.
//!
//! # Source
//!
//! N. J. Gunther, *Guerrilla Capacity Planning* (2007), chapters 4 to 6; for the comparison of models,
//! Hurvich and Tsai, *Biometrika* 76 (1989).

use std::collections::BTreeMap;

use record::missing::{Maybe, Missing};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::robust::mean_and_error;
use crate::student::t_above;

/// Concurrency and throughput of one series, in any order.
pub type Series = Vec<(f64, f64)>;

/// A scaling law.
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
    /// All laws, the simplest first.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Amdahl, Self::Usl];

    /// Name of the law in JSON and in reports.
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

/// Parameters of a law.
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

    /// Concurrency of the greatest throughput; `None` if throughput never falls.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// A fitted law.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The law.
    pub law: Law,
    /// Parameters.
    pub curve: Curve,
    /// 95 % interval of lambda, sigma and kappa; missing under [`SERIES_MIN`] series.
    pub intervals: Maybe<[(f64, f64); 3]>,
    /// Corrected information criterion; the smallest is preferred. Missing if there are too few points.
    pub aicc: Maybe<f64>,
    /// p of the test whether the levels miss the curve by more than their repeats differ; missing without
    /// repeats.
    pub lack_of_fit_p: Maybe<f64>,
    /// Band of throughput at each measured level; missing under [`SERIES_MIN`] series.
    pub band: Vec<(f64, Option<(f64, f64)>)>,
    /// Interval of the parameter that the next simpler law lacks, at 97.5 %: the law is chosen only if it
    /// does not hold 0. False alarms of Amdahl's law and of the USL together have a probability of 5 %
    /// (Bonferroni). Missing for the linear law, and under [`SERIES_MIN`] series.
    pub last: Maybe<(f64, f64)>,
}

impl Fitted {
    fn is_needed(&self) -> bool {
        self.law == Law::Linear || self.last.as_ref().is_ok_and(|(low, high)| *low > 0.0 || *high < 0.0)
    }
}

/// A fall that no law allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// The last concurrency before it.
    pub at: f64,
    /// The first one after it.
    pub next: f64,
    /// Throughput at `next`, as a share of that at `at`.
    pub left_ratio: f64,
    /// Smallest share that a law with its peak near the measured one allows.
    pub allowed_ratio: f64,
}

/// Result of fitting the measured levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Every law with enough levels, the simplest first.
    pub laws: Vec<Fitted>,
    /// The law that describes the levels; missing under [`SERIES_MIN`] series, or if levels lie off it.
    pub chosen: Maybe<Law>,
    /// Concurrency of the greatest throughput by the law, with its interval; missing if no peak may be
    /// claimed.
    pub peak: Maybe<(f64, (f64, f64))>,
    /// A fall steeper than any law allows.
    pub cliff: Option<Cliff>,
    /// Whether throughput at the end is certainly below its greatest.
    pub retrograde: bool,
    /// Whether slow values are more frequent than even noise explains: other work came and went.
    pub slow_tail: bool,
}

/// Minimum number of series for an interval and a law.
pub const SERIES_MIN: usize = 6;
/// Minimum number of levels that can distinguish the laws.
const LEVELS_MIN: usize = 3;
/// Two-sided probability outside an interval.
const ALPHA: f64 = 0.05;
/// One-sided probability of a false cliff.
const CLIFF_ALPHA: f64 = 0.01;
/// Below this, levels lie off every curve.
const LACK_OF_FIT_P: f64 = 0.001;
/// Largest multiple of the measured concurrency at which a peak is reported.
pub const BEYOND: f64 = 1.5;

/// Fits all laws to the series and judges them.
///
/// - `series`: the repeats of the whole experiment; throughputs over 0, concurrencies from 1.
/// - `fitted_to`: the largest concurrency in the fit. Past the number of CPUs the law, which assumes more
///   CPUs, does not apply. Cliffs are searched for at all levels.
pub fn scaling(series: &[Series], fitted_to: f64) -> Scaling {
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
        .map(|law| fitted(law, &within, &levels))
        .collect();
    let cliff = cliff(series);
    let retrograde = retrograde(series);
    let chosen = chosen(&laws, cliff.as_ref(), levels.len());
    let peak = chosen.clone().and_then(|law| peak(law, &laws, &levels, &within));
    Scaling { laws, chosen, peak, cliff, retrograde, slow_tail: slow_tail(series) }
}

fn levels_of(series: &[Series]) -> Vec<f64> {
    let mut levels: Vec<f64> = series.iter().flatten().map(|(n, _)| *n).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

fn chosen(laws: &[Fitted], cliff: Option<&Cliff>, levels: usize) -> Maybe<Law> {
    if cliff.is_some() {
        return Err(Missing::because("throughput falls off a cliff, which no law describes"));
    }
    if levels < LEVELS_MIN {
        let word = if levels == 1 { "level" } else { "levels" };
        let why = format!("{levels} valid {word} up to the CPU count, {LEVELS_MIN} needed");
        return Err(Missing::because(why));
    }
    let Some(simplest) = laws.first() else { return Err(too_few_rounds(1)) };
    // Without intervals a parameter of 0 cannot be told from another value.
    simplest.intervals.clone()?;
    let best = laws.iter().rfind(|fitted| fitted.is_needed()).expect("the linear law is there");
    if best.lack_of_fit_p.as_ref().is_ok_and(|p| *p < LACK_OF_FIT_P) {
        return Err(Missing::because("the levels miss the curve by more than their repeats differ"));
    }
    Ok(best.law)
}

fn too_few_rounds(rounds: usize) -> Missing {
    Missing::because(format!("rounds that are valid at every level: {rounds}, {SERIES_MIN} needed"))
}

fn fitted(law: Law, series: &[Series], levels: &[f64]) -> Fitted {
    let points: Series = series.iter().flatten().copied().collect();
    let curve = fit(law, &points);
    let each = each(law, &curve, series, levels);
    let rss = residuals(&curve, &points).map(|r| r * r).sum::<f64>();
    let log = |of: &dyn Fn(&Curve) -> f64| {
        each.as_ref()
            .map(|all| interval(all, ALPHA, |c| of(c).ln()))
            .map(|(low, high)| (low.exp(), high.exp()))
    };
    let intervals = each.as_ref().map_err(Clone::clone).map(|all| {
        let (low, high) = interval(all, ALPHA, |c| c.lambda.ln());
        [(low.exp(), high.exp()), interval(all, ALPHA, |c| c.sigma), interval(all, ALPHA, |c| c.kappa)]
    });
    let at_the_tests_level =
        |of: fn(&Curve) -> f64| each.as_ref().map_err(Clone::clone).map(|all| interval(all, ALPHA / 2.0, of));
    Fitted {
        law,
        curve,
        intervals,
        aicc: aicc(rss, points.len(), law.parameters() + 1),
        lack_of_fit_p: lack_of_fit(law, &curve, series, levels),
        band: levels.iter().map(|n| (*n, log(&|c| c.at(*n)).ok())).collect(),
        last: match law {
            Law::Linear => Err(Missing::because("the linear law has one parameter")),
            Law::Amdahl => at_the_tests_level(|c| c.sigma),
            Law::Usl => at_the_tests_level(|c| c.kappa),
        },
    }
}

/// Student's t interval of the mean of the values of `of`, with probability `alpha` outside.
fn interval(curves: &[Curve], alpha: f64, of: impl Fn(&Curve) -> f64) -> (f64, f64) {
    let values: Vec<f64> = curves.iter().map(of).collect();
    let (mean, error) = mean_and_error(&values);
    let half = t_above(alpha / 2.0, values.len() as f64 - 1.0) * error;
    (mean - half, mean + half)
}

/// Fits of the law to each series that has every level, so that all fits use the same points.
fn each(law: Law, curve: &Curve, series: &[Series], levels: &[f64]) -> Maybe<Vec<Curve>> {
    let whole: Vec<Curve> =
        series.iter().filter(|s| s.len() == levels.len()).map(|s| descend(law, s, *curve).0).collect();
    if whole.len() < SERIES_MIN { Err(too_few_rounds(whole.len())) } else { Ok(whole) }
}

fn residuals<'a>(curve: &'a Curve, points: &'a [(f64, f64)]) -> impl Iterator<Item = f64> + 'a {
    points.iter().map(|(n, x)| x.ln() - curve.at(*n).ln())
}

/// Least squares on ln X, by Gauss and Newton with damped steps (Levenberg, Marquardt).
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

/// Descends from `start` to the nearest minimum; returns it with its sum of squares.
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

/// Damped step in ln lambda, sigma and kappa; parameters that the law lacks do not move.
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

/// Gaussian elimination of the first `k` unknowns; all 0 if the matrix is singular.
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
    // A perfect fit ranks no better than one to the last digit of a number.
    let rss = rss.max(n * 1e-24);
    Ok(n * (rss / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0))
}

/// F test of the levels' means about the curve against the variation of repeats, with the series' own levels
/// removed.
fn lack_of_fit(law: Law, curve: &Curve, series: &[Series], levels: &[f64]) -> Maybe<f64> {
    let whole: Vec<&Series> = series.iter().filter(|s| s.len() == levels.len()).collect();
    let (s, l) = (whole.len() as f64, levels.len() as f64);
    let (of_curve, of_error) = (l - law.parameters() as f64, (s - 1.0) * (l - 1.0));
    if whole.len() < 2 || of_curve < 1.0 {
        return Err(Missing::because("there are too few repeats or levels"));
    }
    let of_level = levels.iter().map(|n| mean(whole.iter().map(|x| log(x, *n))));
    let off: f64 = levels.iter().zip(of_level).map(|(n, m)| s * (m - curve.at(*n).ln()).powi(2)).sum();
    let pure: f64 = left_of_both(&whole, levels).iter().map(|r| r * r).sum();
    if pure <= 0.0 {
        return Err(Missing::because("the repeats do not differ at all"));
    }
    let f = (off / of_curve) / (pure / of_error);
    let f_of = FisherSnedecor::new(of_curve, of_error).expect("degrees of freedom are over 0");
    Ok(f_of.sf(f))
}

/// Residuals of ln X from the means of level and series, for series that have every level.
fn left_of_both(whole: &[&Series], levels: &[f64]) -> Vec<f64> {
    let of_level: Vec<f64> = levels.iter().map(|n| mean(whole.iter().map(|x| log(x, *n)))).collect();
    let grand = mean(of_level.iter().copied());
    let of_series = |x: &Series| mean(levels.iter().map(|n| log(x, *n)));
    let of_one = |x: &&Series| {
        let of_series = of_series(x);
        levels
            .iter()
            .zip(&of_level)
            .map(|(n, of_level)| log(x, *n) - of_series - of_level + grand)
            .collect::<Vec<_>>()
    };
    whole.iter().flat_map(of_one).collect()
}

fn log(series: &Series, n: f64) -> f64 {
    let at = series.iter().find(|(level, _)| (level - n).abs() < f64::EPSILON);
    at.expect("a whole series has every level").1.ln()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// Peak of the chosen law, if it may be reported.
fn peak(law: Law, laws: &[Fitted], levels: &[f64], series: &[Series]) -> Maybe<(f64, (f64, f64))> {
    let none = |why: &str| Err(Missing::because(why.to_owned()));
    if law != Law::Usl {
        return none("the law that fits best has no peak");
    }
    let usl = laws.iter().find(|f| f.law == Law::Usl).expect("it was chosen");
    let Some(at) = usl.curve.peak() else { return none("the law predicts no fall of throughput") };
    if usl.intervals.clone()?[2].0 <= 0.0 {
        return none("coherency may be 0, and then there is no peak");
    }
    if at > BEYOND * levels[levels.len() - 1] {
        return none("it would lie beyond 1.5 times the largest measured level");
    }
    // kappa / (1 - sigma) has a value for every fit, also for one without a peak.
    let each = each(Law::Usl, &usl.curve, series, levels)?;
    let (low, high) = interval(&each, ALPHA, |c| c.kappa / (1.0 - c.sigma).max(f64::MIN_POSITIVE));
    let peak = |ratio: f64| if ratio > 0.0 { ratio.recip().sqrt() } else { f64::INFINITY };
    Ok((at, (peak(high), peak(low))))
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

/// First step down that is steeper than any law with its peak near the measured one.
fn cliff(series: &[Series]) -> Option<Cliff> {
    let levels: Vec<(f64, Vec<(usize, f64)>)> = by_level(series).into_values().collect();
    let mean = |logs: &[(usize, f64)]| logs.iter().map(|(_, x)| x).sum::<f64>() / logs.len() as f64;
    let top = (0..levels.len()).max_by(|a, b| mean(&levels[*a].1).total_cmp(&mean(&levels[*b].1)))?;
    let rise: Series =
        levels[..=top].iter().flat_map(|(n, logs)| logs.iter().map(|(_, x)| (*n, x.exp()))).collect();
    // Throughput that grows superlinearly may also fall faster.
    let sigma = if top >= 2 { fit(Law::Amdahl, &rise).sigma.min(0.0) } else { 0.0 };
    let around = (levels[top.saturating_sub(1)].0, levels[(top + 1).min(levels.len() - 1)].0);
    // Each step down is a comparison.
    let share = CLIFF_ALPHA / (levels.len() - top).saturating_sub(1).max(1) as f64;
    (top + 1..levels.len()).find_map(|next| {
        let at = next - 1;
        let falls = paired(&levels[at].1, &levels[next].1);
        if falls.len() < SERIES_MIN {
            return None;
        }
        let allowed_ratio = steepest(levels[at].0, levels[next].0, around, sigma);
        let (fall, error) = mean_and_error(&falls);
        let surely = fall + t_above(share, falls.len() as f64 - 1.0) * error < allowed_ratio.ln();
        surely.then(|| Cliff {
            at: levels[at].0,
            next: levels[next].0,
            left_ratio: fall.exp(),
            allowed_ratio,
        })
    })
}

/// Smallest share of X(`from`) that a law with its peak in `peaks` leaves at `to`.
fn steepest(from: f64, to: f64, peaks: (f64, f64), sigma: f64) -> f64 {
    const PLACES: usize = 50;
    let left = |i: usize| {
        let peak = peaks.0 + (peaks.1 - peaks.0) * i as f64 / PLACES as f64;
        let law = Curve { lambda: 1.0, sigma, kappa: (1.0 - sigma) / (peak * peak) };
        law.at(to) / law.at(from)
    };
    (0..=PLACES).map(left).filter(|r| *r > 0.0).fold(1.0, f64::min)
}

/// Whether the last level is certainly below another one, by series that have both.
///
/// The greatest of several levels is partly so by chance, so the test must not treat it as chosen in advance:
/// every other level is a comparison, and each gets its share of the 5 % (Bonferroni).
fn retrograde(series: &[Series]) -> bool {
    let levels: Vec<(f64, Vec<(usize, f64)>)> = by_level(series).into_values().collect();
    let Some((last, before)) = levels.split_last() else { return false };
    let share = ALPHA / before.len().max(1) as f64;
    before.iter().any(|level| {
        let falls = paired(&level.1, &last.1);
        if falls.len() < SERIES_MIN {
            return false;
        }
        let (fall, error) = mean_and_error(&falls);
        fall + t_above(share, falls.len() as f64 - 1.0) * error < 0.0
    })
}

/// Minimum ratio of skewness to its error under even noise; below it, slow values are too frequent.
const SKEW_MIN: f64 = -2.0;

/// Whether the residuals of ln X lean to the slow side, by their skewness.
///
/// If a tenth of the values is 10 % slower, with noise of 2 %, detected in a third of experiments of six
/// rounds, and in nine of ten from sixteen rounds on. With even noise: in 2 %.
fn slow_tail(series: &[Series]) -> bool {
    let levels = levels_of(series);
    let whole: Vec<&Series> = series.iter().filter(|s| s.len() == levels.len()).collect();
    if whole.len() < SERIES_MIN || levels.len() < 2 {
        return false;
    }
    let left = left_of_both(&whole, &levels);
    let n = left.len() as f64;
    let moment = |power: i32| left.iter().map(|r| r.powi(power)).sum::<f64>() / n;
    let variance = moment(2);
    variance > 0.0 && moment(3) / variance.powf(1.5) / (6.0 / n).sqrt() < SKEW_MIN
}

#[cfg(test)]
mod tests;
