//! Cycles in time: repetitions that stand out of noise with a memory.
//!
//! What a machine does at one moment resembles what it did before. Such noise has more power at low
//! frequencies, and a test against white noise finds a cycle in all of it. So a peak must stand out of an
//! autoregression fitted to the same values, and of the median power near it: a step, a trend and a bend are
//! no autoregression, but they raise the neighbors too.

mod background;
mod calendar;
mod family;
mod power;
mod rules;
mod window;

use std::collections::BTreeMap;
use std::f64::consts::LN_2;

use record::missing::{Maybe, Missing};

pub use self::background::Background;
use self::calendar::Noise;
use self::family::{Family, Spectrum};
use self::power::Powers;
use self::rules::{CYCLES_MIN, SAME, detrend};
pub use self::window::Window;
use crate::period::Wave;
use crate::robust::{mad, median};

/// Cycles of a series, and what the series cannot tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cycles {
    /// Number of values; values of one time count as one.
    pub n: usize,
    /// Number of values that shared their time with another one, and were averaged.
    pub doubled: usize,
    /// Time from the first to the last value.
    pub span_s: f64,
    /// Whether all steps are alike.
    pub even: bool,
    /// Mean of the values.
    pub mean: f64,
    /// Noise beside the cycles.
    pub background: Maybe<Background>,
    /// Significant cycles, the strongest first.
    pub cycles: Vec<Cycle>,
    /// Periods that the data can neither show nor exclude, with the reason.
    pub cannot_tell: Vec<CannotTell>,
}

/// A significant cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct Cycle {
    /// Length.
    pub period_s: f64,
    /// Probability that the background alone makes any peak at least as high.
    pub p: f64,
    /// Half of the distance from crest to trough of the fundamental sine, in units of the values.
    pub amplitude: f64,
    /// Share of the variance that the fundamental sine and its harmonics explain.
    pub strength: f64,
    /// Time of the first crest of the fundamental sine, on the axis of the times; of a daily or weekly cycle
    /// on the local clock.
    pub crest_s: f64,
    /// Part of the cycle that is highest or lowest; `None` of a sine.
    pub window: Option<Window>,
    /// Whether people's clocks set it: a cycle of a day or a week, in local time.
    pub clock: Option<Clock>,
    /// Whether its times are universal ones although the local clock changed within the series: it does not
    /// follow that change.
    pub is_universal: bool,
    /// Multiples of the frequency that stand out too.
    pub harmonics: Vec<u32>,
}

/// A cycle of people's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Every day.
    Day,
    /// Every week.
    Week,
}

impl Clock {
    const ALL: [Self; 2] = [Self::Day, Self::Week];

    fn length_s(self) -> f64 {
        match self {
            Self::Day => 86_400.0,
            Self::Week => 604_800.0,
        }
    }

    /// Values without the mean of their time of the cycle, and with the mean of all.
    fn without(self, local: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let gaps: Vec<f64> = local.windows(2).map(|w| (w[1].0 - w[0].0).abs()).collect();
        // About one value of each repetition.
        let step_s = median(&gaps).unwrap_or(1.0).max(1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a place in the cycle")]
        let phase = |t: f64| ((t + 1e-3).rem_euclid(self.length_s()) / step_s) as i64;
        let mut sums: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (t, y) in local {
            let sum = sums.entry(phase(*t)).or_default();
            *sum = (sum.0 + y, sum.1 + 1.0);
        }
        let mean = local.iter().map(|p| p.1).sum::<f64>() / local.len() as f64;
        let of = |t: f64| sums.get(&phase(t)).map_or(mean, |sum| sum.0 / sum.1);
        local.iter().map(|(t, y)| (*t, y - of(*t) + mean)).collect()
    }
}

/// A period for which the values have no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct CannotTell {
    /// Length; missing if it holds for any.
    pub period_s: Maybe<f64>,
    /// Reason.
    pub why: String,
}

/// Fewest values in which a cycle is looked for.
const VALUES_MIN: usize = 32;
/// Most values at uneven times; more are averaged in equal spans.
const UNEVEN_MAX: usize = 8_192;
/// Most waves, harmonics included.
const WAVES_MAX: usize = 24;
/// Half of the band around a frequency, in independent frequencies; the median of the band is its level.
const NEAR: usize = 16;
const NEAR_MIN: usize = 3;
/// Values beyond this many deviations (by the median of distances) are clipped.
const WILD: f64 = 6.0;

/// Finds the cycles with a false-alarm probability of at most `alpha`.
///
/// The values are detrended by a straight line. A peak that only one half of the series shows is not a cycle
/// of the series.
///
/// - `points`: seconds and value, finite, in any order; values of one time are averaged.
/// - `alpha`: in (0, 1).
///
/// # Source
///
/// The background: Schulz and Mudelsee, *Computers & Geosciences* 28 (2002), 421-426. The probability:
/// `power::false_alarm`.
pub fn cycles(points: &[(f64, f64)], alpha: f64) -> Cycles {
    assert!(points.iter().all(|p| p.0.is_finite() && p.1.is_finite()), "times and values are finite");
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is a share in (0, 1): {alpha}");
    let (scaled, scale) = scaled(points);
    let mut found = of_scaled(&scaled, alpha);
    found.mean *= scale;
    if let Ok(background) = &mut found.background {
        background.variance *= scale * scale;
    }
    for cycle in &mut found.cycles {
        cycle.amplitude *= scale;
        if let Some(window) = &mut cycle.window {
            window.scaled(scale);
        }
    }
    found
}

/// Cycles of values of which the largest is 1 or -1.
fn of_scaled(points: &[(f64, f64)], alpha: f64) -> Cycles {
    let sorted = merged(points);
    let (start, end) = (sorted.first().map_or(0.0, |p| p.0), sorted.last().map_or(0.0, |p| p.0));
    let mut found = Cycles {
        n: sorted.len(),
        doubled: points.len() - sorted.len(),
        span_s: end - start,
        even: true,
        mean: sorted.iter().map(|p| p.1).sum::<f64>() / (sorted.len() as f64).max(1.0),
        background: Err(Missing::because("too few values to estimate the noise")),
        cycles: Vec::new(),
        cannot_tell: Vec::new(),
    };
    if sorted.len() < VALUES_MIN {
        let why = format!("{} values at different times, {VALUES_MIN} needed", sorted.len());
        found.cannot_tell.push(CannotTell { period_s: Err(Missing::because("holds for any period")), why });
        return found;
    }
    let points = thinned(sorted, found.span_s);
    let gaps: Vec<f64> = points.windows(2).map(|w| w[1].0 - w[0].0).collect();
    let step_s = median(&gaps).expect("there are several values");
    found.even = gaps.iter().all(|gap| (gap - step_s).abs() <= 0.01 * step_s);
    let mut series: Vec<(f64, f64)> = points.iter().map(|p| ((p.0 - start) / step_s, p.1)).collect();
    detrend(&mut series);
    if series.iter().all(|p| p.1.abs() <= 1e-12) {
        found.background = Err(Missing::because("the values are constant, or a straight line"));
    } else {
        clip(&mut series);
        search(&series, alpha, (&points, step_s), &mut found);
    }
    too_long(&mut found);
    found
}

/// Variant of [`cycles`] that finds daily and weekly cycles on the local clock.
///
/// At a change to or from daylight saving, what happens at nine by the clock moves by an hour in universal
/// time. If the series contains such a change, daily and weekly cycles are looked for on both clocks, and the
/// clock counts by which the days are more alike. All others are those of the values without the cycles of
/// the local clock.
///
/// - `offset_s`: seconds that the clock is ahead of universal time at a time.
pub fn cycles_by_the_clock(points: &[(f64, f64)], alpha: f64, offset_s: &dyn Fn(f64) -> f64) -> Cycles {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = &points[..];
    let mut found = cycles(points, alpha);
    let offsets: Vec<f64> = points.iter().map(|p| offset_s(p.0)).collect();
    let one_offset = offsets.windows(2).all(|w| w[0].total_cmp(&w[1]).is_eq());
    let local: Vec<(f64, f64)> = points.iter().zip(offsets).map(|(p, offset)| (p.0 + offset, p.1)).collect();
    if one_offset {
        set_clocks(&mut found.cycles, &local);
        for cycle in found.cycles.iter_mut().filter(|cycle| cycle.clock.is_some()) {
            cycle.crest_s += offset_s(cycle.crest_s);
        }
        return found;
    }
    let mut by_clock = cycles(&local, alpha).cycles;
    set_clocks(&mut by_clock, &local);
    by_clock.retain(|cycle| cycle.clock.is_some());
    set_universal(&mut found.cycles, points);
    let is_universal = found.cycles.iter().any(|cycle| cycle.is_universal)
        && (by_clock.is_empty() || are_days_more_alike(points, &local));
    if is_universal || by_clock.is_empty() {
        return found;
    }
    // In universal time a daily cycle is split in two or more, and each of them looks like another one.
    let has_week = by_clock.iter().any(|cycle| cycle.clock == Some(Clock::Week));
    let left = if has_week { Clock::Week } else { Clock::Day }.without(&local);
    let left: Vec<(f64, f64)> = points.iter().zip(left).map(|(p, left)| (p.0, left.1)).collect();
    let mut rest = cycles(&left, alpha);
    set_universal(&mut rest.cycles, &left);
    let share = squares_of(&left) / squares_of(points);
    rest.cycles.iter_mut().for_each(|cycle| cycle.strength *= share);
    rest.cycles.extend(by_clock);
    rest.cycles.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    rest
}

/// Names the cycles of a day and of a week, and finds their windows by the clock of `times`.
fn set_clocks(cycles: &mut [Cycle], times: &[(f64, f64)]) {
    for cycle in cycles.iter_mut() {
        // A length of the calendar is exact.
        let is_it = |clock: &Clock| (cycle.period_s / clock.length_s() - 1.0).abs() < 1e-9;
        cycle.clock = Clock::ALL.into_iter().find(is_it);
    }
    // If every day is alike, only noise differs between the days of a week.
    let has_day = cycles.iter().any(|cycle| cycle.clock == Some(Clock::Day));
    for cycle in cycles.iter_mut() {
        let Some(clock) = cycle.clock.filter(|_| cycle.window.is_some()) else { continue };
        let is_beside_a_day = has_day && clock == Clock::Week;
        let without_day = || Clock::Day.without(times);
        cycle.window = if is_beside_a_day { window(&without_day(), clock) } else { window(times, clock) };
    }
}

/// Variant of [`set_clocks`] for cycles that do not follow a change of the clock.
fn set_universal(cycles: &mut [Cycle], points: &[(f64, f64)]) {
    set_clocks(cycles, points);
    for cycle in cycles {
        cycle.is_universal = cycle.clock.is_some();
    }
}

/// Whether the days are certainly more alike by the times of `points` than by those of `others`: the
/// difference of the log likelihoods of both means by the time of day is that of a 99 % interval.
///
/// - `others`: the same values.
fn are_days_more_alike(points: &[(f64, f64)], others: &[(f64, f64)]) -> bool {
    let start = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let mut flat: Vec<(f64, f64)> = points.iter().map(|p| (p.0 - start, p.1)).collect();
    detrend(&mut flat);
    clip(&mut flat);
    let left = |times: &[(f64, f64)]| {
        let of: Vec<(f64, f64)> = times.iter().zip(&flat).map(|(t, flat)| (t.0, flat.1)).collect();
        Clock::Day.without(&of)
    };
    let (left, of_others) = (left(points), left(others));
    let values: Vec<f64> = left.iter().map(|p| p.1).collect();
    // Neighbors that resemble each other are worth fewer values.
    let ar1 = crate::mean::lag_1(&values).clamp(0.0, crate::mean::AR1_MAX);
    let worth = values.len() as f64 * (1.0 - ar1) / (1.0 + ar1);
    worth / 2.0 * (squares_of(&of_others) / squares_of(&left)).ln() > calendar::LOSS_MAX
}

/// Squares about the mean.
fn squares_of(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    points.iter().map(|p| (p.1 - mean).powi(2)).sum()
}

/// Window of a cycle with a length that a clock sets.
fn window(local: &[(f64, f64)], clock: Clock) -> Option<Window> {
    let (scaled, scale) = scaled(local);
    let sorted = merged(&scaled);
    let gaps: Vec<f64> = sorted.windows(2).map(|w| w[1].0 - w[0].0).collect();
    let mut found = Window::of(&sorted, clock.length_s(), median(&gaps)?).filter(Window::is_apart)?;
    found.scaled(scale);
    Some(found)
}

/// Values over their largest, and that: squares of very large and very small values are no numbers any more.
fn scaled(points: &[(f64, f64)]) -> (Vec<(f64, f64)>, f64) {
    let largest = points.iter().map(|p| p.1.abs()).fold(0.0, f64::max);
    let scale = if largest > 0.0 { largest } else { 1.0 };
    (points.iter().map(|p| (p.0, p.1 / scale)).collect(), scale)
}

/// Points in time order, with one value for each time: their mean.
fn merged(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_one_time = sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    of_one_time.map(|all| (all[0].0, all.iter().map(|p| p.1).sum::<f64>() / all.len() as f64)).collect()
}

/// Means over equal spans, if there are too many values for least squares.
fn thinned(points: Vec<(f64, f64)>, span_s: f64) -> Vec<(f64, f64)> {
    let gap = |w: &[(f64, f64)]| w[1].0 - w[0].0;
    let first = gap(&points[..2]);
    let even = points.windows(2).all(|w| (gap(w) - first).abs() <= 0.01 * first);
    if even || points.len() <= UNEVEN_MAX {
        return points;
    }
    let start = points[0].0;
    let place = |p: &(f64, f64)| ((p.0 - start) / span_s * UNEVEN_MAX as f64).floor();
    let mean = |all: &[(f64, f64)]| {
        let sum = all.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        (sum.0 / all.len() as f64, sum.1 / all.len() as f64)
    };
    points.chunk_by(|a, b| place(a).total_cmp(&place(b)).is_eq()).map(mean).collect()
}

/// Moves values far from the others to a bound, and then subtracts a fitted line again.
fn clip(points: &mut [(f64, f64)]) {
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let (middle, spread) = (median(&values).unwrap_or(0.0), mad(&values).unwrap_or(0.0));
    if spread > 0.0 {
        for (_, y) in points.iter_mut() {
            *y = y.clamp(middle - WILD * spread, middle + WILD * spread);
        }
        detrend(points);
    }
}

/// A cycle that stood out.
struct Standing {
    family: Family,
    p: f64,
    /// Share of the variance of the series.
    strength: f64,
    /// Whether only one half of the series has it: which.
    half: Option<&'static str>,
}

impl Standing {
    /// Whether none of its waves is at a frequency.
    fn is_apart(&self, frequency: f64, span: f64) -> bool {
        self.family.waves.iter().all(|(_, wave)| (wave.frequency - frequency).abs() * span > SAME)
    }
}

fn squares(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|p| p.1 * p.1).sum()
}

/// Finds one cycle after another, and subtracts each with its harmonics before it looks for the next.
///
/// - `origin`: values before any change, and length of a step.
fn search(series: &[(f64, f64)], alpha: f64, origin: (&[(f64, f64)], f64), found: &mut Cycles) {
    let span = series[series.len() - 1].0;
    let even = found.even;
    let total = squares(series);
    let mut left = series.to_vec();
    let mut standing: Vec<Standing> = Vec::new();
    for _ in 0..WAVES_MAX {
        let (powers, background) = powers(&left, even);
        found.background = Ok(background);
        let levels = levels(&powers, span);
        let (low, high) = (CYCLES_MIN / span, 0.5 - 1.0 / span);
        let strongest = |low: f64, high: f64| {
            let places = (0..levels.len()).map(|k| (k, (k + 1) as f64 * powers.step));
            let is_new = |f: f64| standing.iter().all(|s| s.is_apart(f, span));
            let places = places.filter(|(_, f)| *f >= low && *f <= high && is_new(*f));
            places.max_by(|a, b| levels[a.0].z.total_cmp(&levels[b.0].z))
        };
        let width = effective_length(&left) * (high - low);
        if standing.is_empty() {
            slow(strongest(1.0 / span, low).map(|(k, f)| (levels[k].z, f)), alpha, width, origin.1, found);
        }
        let Some((best, frequency)) = strongest(low, high) else { break };
        let p = power::false_alarm(levels[best].z, width);
        // What is not a number is no evidence.
        if p.is_nan() || p > alpha {
            break;
        }
        let wave = Wave::of(&left, frequency).sharpened(&left, powers.step);
        let before = squares(&left);
        let of = standing.iter_mut().find_map(|s| {
            let multiple = s.family.multiple(wave.frequency, span)?;
            Some((s, multiple))
        });
        if let Some((one, multiple)) = of {
            for (x, y) in &mut left {
                *y -= wave.at(*x);
            }
            one.family.waves.push((multiple, wave));
            one.strength += (before - squares(&left)) / total;
            continue;
        }
        let half = only_half(&left, wave.frequency, levels[best].noise);
        let family = Family::of(&left, wave, alpha, &|rest| spectrum(rest, even, span));
        left = family.without(&left);
        standing.push(Standing { family, p, strength: (before - squares(&left)) / total, half });
    }
    let mut all = Vec::new();
    for mut one in grouped(standing, span) {
        let with: Vec<(f64, f64)> = left.iter().map(|(x, y)| (*x, y + one.family.at(*x))).collect();
        let (powers, background) = powers(&left, even);
        let levels = levels(&powers, span);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
        let beyond = |at: f64| levels[((at / powers.step).round() as usize).clamp(1, levels.len()) - 1].noise;
        one.family.snap(&with, origin.1, &Noise { background, beyond: &beyond });
        if let Some((daily, share)) = one.family.daily(origin.1) {
            let strength = one.strength * share;
            one.strength -= strength;
            all.push((Standing { family: daily, strength, p: one.p, half: one.half }, with.clone()));
        }
        if !one.family.waves.is_empty() {
            all.push((one, with));
        }
    }
    tell(all, origin, found);
}

fn spectrum(series: &[(f64, f64)], even: bool, span: f64) -> Spectrum {
    let (powers, _) = powers(series, even);
    let z = levels(&powers, span).into_iter().map(|level| level.z).collect();
    Spectrum { step: powers.step, z }
}

fn powers(series: &[(f64, f64)], even: bool) -> (Powers, Background) {
    let background = Background::of(series);
    if even {
        let values: Vec<f64> = series.iter().map(|p| p.1).collect();
        (power::of_even(&values, background), background)
    } else {
        (power::of_uneven(series, background), background)
    }
}

/// A power beside the noise around it.
struct Level {
    /// Power over noise.
    z: f64,
    /// Share of the median power near it that the background does not expect, at least 1.
    noise: f64,
}

fn levels(powers: &Powers, span: f64) -> Vec<Level> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful")]
    let independent = (1.0 / span / powers.step).round().max(1.0) as usize;
    let of = |k: usize| {
        // A step has power as 1 over the square of the frequency: a wide band would hide that near 0.
        let reach = k.clamp(NEAR_MIN * independent, NEAR * independent) / independent * independent;
        let from = k.saturating_sub(reach);
        let to = (k + reach + 1).min(powers.ratios.len());
        let near: Vec<f64> = powers.ratios[from..to].iter().step_by(independent).copied().collect();
        // Of an exponential distribution the median is ln 2 of the mean.
        let noise = (median(&near).unwrap_or(0.0) / LN_2).max(1.0);
        Level { z: powers.ratios[k] / noise, noise }
    };
    (0..powers.ratios.len()).map(of).collect()
}

/// Length of an even series with the same variance of times, by which frequencies are independent.
fn effective_length(series: &[(f64, f64)]) -> f64 {
    let n = series.len() as f64;
    let mean = series.iter().map(|p| p.0 / n).sum::<f64>();
    let variance = series.iter().map(|p| (p.0 - mean).powi(2) / n).sum::<f64>();
    (4.0 * std::f64::consts::PI * variance).sqrt()
}

/// Records a peak of fewer cycles than a claim needs.
fn slow(peak: Option<(f64, f64)>, alpha: f64, width: f64, step_s: f64, found: &mut Cycles) {
    let Some((z, frequency)) = peak else { return };
    if power::false_alarm(z, width) <= alpha {
        let period_s = step_s / frequency;
        let why = format!("{} cycles in the span, 3 needed", too_few(found.span_s / period_s));
        found.cannot_tell.push(CannotTell { period_s: Ok(period_s), why });
    }
}

/// The half of the series that alone has the wave; `None` if both have it, or a half is too short to tell.
///
/// - `noise`: power of the noise at the frequency over that of the background.
fn only_half(series: &[(f64, f64)], frequency: f64, noise: f64) -> Option<&'static str> {
    /// Fewest cycles in a half.
    const CYCLES: f64 = 2.0;
    /// Difference of the amplitudes in standard errors.
    const APART: f64 = 3.5;
    let middle = series[series.len() - 1].0 / 2.0;
    let (first, last) = series.split_at(series.partition_point(|p| p.0 <= middle));
    if middle * frequency < CYCLES || first.len().min(last.len()) < VALUES_MIN / 2 {
        return None;
    }
    let [one, other] = [first, last].map(|half| Wave::of(half, frequency).amplitude());
    let power = noise * Background::of(series).at(frequency);
    let error = (2.0 * power / first.len() as f64 + 2.0 * power / last.len() as f64).sqrt();
    if (one - other).abs() < APART * error || one.min(other) > one.max(other) / 2.0 {
        return None;
    }
    Some(if one > other { "first" } else { "second" })
}

/// Families; one at a multiple of a slower one's frequency belongs to that one.
fn grouped(mut standing: Vec<Standing>, span: f64) -> Vec<Standing> {
    standing.sort_by(|a, b| a.family.frequency.total_cmp(&b.family.frequency));
    let mut cycles: Vec<Standing> = Vec::new();
    for one in standing {
        let of = cycles
            .iter_mut()
            .find_map(|slow| slow.family.multiple(one.family.frequency, span).map(|times| (slow, times)));
        let Some((slow, times)) = of else {
            cycles.push(one);
            continue;
        };
        slow.family.waves.extend(one.family.waves.iter().map(|(multiple, wave)| (multiple * times, *wave)));
        slow.family.is_shaped = true;
        slow.strength += one.strength;
    }
    cycles
}

/// Makes cycles of families.
///
/// - `families`: each with the values that hold it and no other one.
fn tell(
    mut families: Vec<(Standing, Vec<(f64, f64)>)>,
    (points, step_s): (&[(f64, f64)], f64),
    found: &mut Cycles,
) {
    families.sort_by(|a, b| b.0.strength.total_cmp(&a.0.strength));
    for (one, with) in families {
        let period_s = step_s / one.family.frequency;
        if let Some(half) = one.half {
            let why = format!("only the {half} half of the span shows it");
            found.cannot_tell.push(CannotTell { period_s: Ok(period_s), why });
            continue;
        }
        let own = one.family.waves.iter().find(|(multiple, _)| *multiple == 1).map(|(_, wave)| *wave);
        let fundamental = own.unwrap_or_else(|| Wave::of(&with, one.family.frequency));
        let is_shaped = one.family.is_shaped || one.family.waves.len() > 1;
        let window = is_shaped.then(|| Window::of(points, period_s, step_s)).flatten();
        found.cycles.push(Cycle {
            period_s,
            p: one.p,
            amplitude: fundamental.amplitude(),
            strength: one.strength,
            crest_s: points[0].0 + fundamental.crest() * step_s,
            window: window.filter(Window::is_apart),
            clock: None,
            is_universal: false,
            harmonics: one.family.harmonics(),
        });
    }
}

/// Names the usual periods that the span is too short for.
fn too_long(found: &mut Cycles) {
    let usual = [("a day", 86_400.0), ("a week", 604_800.0), ("a year", 31_557_600.0)];
    let longest = found.span_s / CYCLES_MIN;
    for (name, period_s) in usual.into_iter().filter(|(_, p)| *p > longest && *p <= CYCLES_MIN * found.span_s)
    {
        let why = format!("{name}: {} cycles in the span, 3 needed", too_few(found.span_s / period_s));
        found.cannot_tell.push(CannotTell { period_s: Ok(period_s), why });
    }
}

/// A number of cycles below those that are needed, with enough digits to show that.
fn too_few(cycles: f64) -> String {
    let rounded = |digits: usize| format!("{cycles:.digits$}");
    let is_below = |text: &String| text.parse().is_ok_and(|number: f64| number < CYCLES_MIN);
    (1..=4).map(rounded).find(is_below).unwrap_or_else(|| "just under 3".to_owned())
}

#[cfg(test)]
mod tests;
