//! Sizes of changes: levels before and after, with an interval that allows for the memory of the noise.

use super::divisive::Found;
use super::excursion::Short;
use crate::mean::{AR1_MAX, freedom, inflation, lag_1, unbiased};
use crate::robust::{mad, median};
use crate::student::t_above;

/// A change with its size, in the units of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sized {
    /// The change.
    pub(super) found: Found,
    /// Mean of the values from the change before, without outliers.
    pub(super) before: f64,
    /// Mean of the values up to the next change, without outliers.
    pub(super) after: f64,
    /// 95 % interval of the difference.
    pub(super) interval: (f64, f64),
}

/// Share of both tails of the interval.
const TAILS: f64 = 0.05;
/// Values beyond this many deviations from the median of their stretch are moved there.
const WILD: f64 = 5.0;

impl Sized {
    fn by(&self) -> f64 {
        (self.after - self.before).abs()
    }

    /// Whether the level moves by at least `band`, and the interval excludes a level that does not move: the
    /// permutation tests also find a spread that changes, or noise with a longer memory than they assume.
    fn is_change(&self, band: f64) -> bool {
        self.by() >= band && (self.interval.0 > 0.0 || self.interval.1 < 0.0)
    }
}

/// Sizes of the changes that move the level by at least `band`, and certainly move it.
///
/// The smallest of the others is dropped first: the stretches on both sides of it become one, and the sizes
/// of its neighbors change.
pub(super) fn sizes(values: &[f64], mut found: Vec<Found>, band: f64) -> Vec<Sized> {
    loop {
        let sized = all(values, &found);
        let others = (0..sized.len()).filter(|i| !sized[*i].is_change(band));
        let Some(smallest) = others.min_by(|a, b| sized[*a].by().total_cmp(&sized[*b].by())) else {
            return sized;
        };
        found.remove(smallest);
    }
}

/// An excursion with its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SizedShort {
    /// The excursion.
    pub(super) short: Short,
    /// The step that begins it.
    pub(super) sized: Sized,
    /// Mean of the values after it; `None` without such values.
    pub(super) then: Option<f64>,
    /// Whether they are at the level before it, as far as the changes show.
    pub(super) is_back: bool,
}

/// Sizes of the excursions that leave their level in this way.
///
/// - `changes`: indices of the changes.
pub(super) fn sizes_of_short(
    values: &[f64],
    changes: &[usize],
    short: &[Short],
    band: f64,
) -> Vec<SizedShort> {
    /// Distance from the level before it, as a share of the excursion, from which it is not back.
    const BACK: f64 = 0.25;
    let ends = short.iter().flat_map(|one| [one.from, one.until]).filter(|at| *at < values.len());
    let mut cuts: Vec<usize> = changes.iter().copied().chain(ends).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let cuts: Vec<Found> = cuts.into_iter().map(|at| Found { at, p: 1.0 }).collect();
    let sized = all(values, &cuts);
    let at = |at: usize| sized.iter().find(|sized| sized.found.at == at);
    let of = |one: &Short| {
        let (short, sized) = (*one, *at(one.from)?);
        let then = at(one.until).map(|end| end.after);
        let is_near = |then: f64| (then - sized.before).abs() <= BACK * sized.by();
        let is_back = !changes.contains(&one.until) && then.is_some_and(is_near);
        Some(SizedShort { short, sized, then, is_back })
    };
    short.iter().filter_map(of).filter(|one| one.sized.is_change(band)).collect()
}

/// Sizes of all these changes.
pub(super) fn all(values: &[f64], found: &[Found]) -> Vec<Sized> {
    let ends: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|f| f.at)).chain([values.len()]).collect();
    let stretches: Vec<Vec<f64>> = ends.windows(2).map(|w| tamed(&values[w[0]..w[1]])).collect();
    let means: Vec<f64> = stretches.iter().map(|s| s.iter().sum::<f64>() / s.len() as f64).collect();
    let left: Vec<f64> = stretches
        .iter()
        .zip(&means)
        .flat_map(|(stretch, mean)| stretch.iter().map(move |v| v - mean))
        .collect();
    let n = left.len() as f64;
    let ar1 = unbiased(lag_1(&left), n / stretches.len() as f64).clamp(0.0, AR1_MAX);
    let inflations: Vec<f64> = stretches.iter().map(|s| inflation(s.len(), ar1)).collect();
    // Means take up as many values as they have the variance of.
    let (free, df) = freedom(n, inflations.iter().sum(), ar1);
    let variance = left.iter().map(|r| r * r).sum::<f64>() / free;
    let of_mean = |i: usize| variance * inflations[i] / stretches[i].len() as f64;
    let sized = |(i, found): (usize, &Found)| {
        let difference = means[i + 1] - means[i];
        let half = t_above(TAILS / 2.0, df) * (of_mean(i) + of_mean(i + 1)).sqrt();
        Sized {
            found: *found,
            before: means[i],
            after: means[i + 1],
            interval: (difference - half, difference + half),
        }
    };
    found.iter().enumerate().map(sized).collect()
}

fn tamed(values: &[f64]) -> Vec<f64> {
    let (Some(middle), Some(spread)) = (median(values), mad(values)) else { return Vec::new() };
    if spread <= 0.0 {
        return values.to_vec();
    }
    values.iter().map(|v| v.clamp(middle - WILD * spread, middle + WILD * spread)).collect()
}
