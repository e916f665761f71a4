//! Excursions: values at another level that are too few to be one.
//!
//! The tests compare at least [`SIDE_MIN`] values on each side, so an excursion of four makes two changes, of
//! which each side holds a value that does not belong to it. It is cut out and counted once, and the rest of
//! the series is tested anew. Whether the newest few values will last is unknown: they are an excursion that
//! has not ended.

use super::divisive::{Found, changes, newest};
use super::energy::SIDE_MIN;
use super::fit::Fit;

/// Share of alpha of the test of the newest values: most series that are looked at have nothing new.
pub const OF_NEWEST: f64 = 0.2;

/// Values apart from their level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Short {
    /// Index of the first value.
    pub(super) from: usize,
    /// Index after the last value; the number of all values if it has not ended.
    pub(super) until: usize,
    /// Probability that a series without a change shows one at least as clear anywhere.
    pub(super) p: f64,
}

/// Changes and excursions of a series.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Indices of the values outside of the excursions.
    pub(super) lasting: Vec<usize>,
    /// Changes among those values.
    pub(super) found: Vec<Found>,
    /// Excursions, in time order.
    pub(super) short: Vec<Short>,
}

/// Finds changes between levels of at least [`SIDE_MIN`] values, and excursions.
pub(super) fn apart(values: &[f64], alpha: f64, seed: u64) -> Apart {
    let mut lasting: Vec<usize> = (0..values.len()).collect();
    let mut short: Vec<Short> = Vec::new();
    loop {
        let now: Vec<f64> = lasting.iter().map(|i| values[*i]).collect();
        let found = changes(&now, alpha, seed);
        let is_open = short.iter().any(|one| one.until == values.len());
        let new = enclosed(&now, &found, is_open);
        if new.is_empty() {
            let last = found.last().map_or(0, |change| change.at);
            let apart = newest(&now[last..], alpha * OF_NEWEST, seed).filter(|_| !is_open);
            if let Some(Found { at, p }) = apart {
                short.push(Short { from: lasting[last + at], until: values.len(), p });
                lasting.truncate(last + at);
            }
            return Apart { lasting, found, short: merged(short) };
        }
        for Short { from, until, p } in new.into_iter().rev() {
            short.push(Short { from: lasting[from], until: lasting[until - 1] + 1, p });
            lasting.drain(from..until);
        }
    }
}

/// Excursions in time order; those that touch are one, unless they are enough for a level.
fn merged(mut short: Vec<Short>) -> Vec<Short> {
    short.sort_by_key(|one| one.from);
    let mut all: Vec<Short> = Vec::new();
    for one in short {
        match all.last_mut() {
            Some(last)
                if one.from < last.until || one.from == last.until && one.until - last.from < SIDE_MIN =>
            {
                (last.until, last.p) = (last.until.max(one.until), last.p.max(one.p));
            }
            _ => all.push(one),
        }
    }
    all
}

/// Excursions that the changes enclose, in time order and apart from each other.
///
/// - `is_open`: whether an excursion at the end is known.
fn enclosed(values: &[f64], found: &[Found], is_open: bool) -> Vec<Short> {
    let mut all: Vec<Short> = Vec::new();
    // An outlier that explains more than the changes do is cut out, and then they are found again.
    let fit = Fit::of(values).up_to_the_end(!is_open);
    for i in 0..found.len() {
        let new = short(&fit, values.len(), found, i);
        all.extend(new.filter(|new| all.last().is_none_or(|last| last.until < new.from)));
    }
    all
}

/// The excursion that a change begins, or makes near an end of the series.
fn short(fit: &Fit, n: usize, found: &[Found], i: usize) -> Option<Short> {
    let at = found[i].at;
    let start = if i == 0 { 0 } else { found[i - 1].at };
    let end = |i: usize| found.get(i + 1).map_or(n, |next| next.at);
    let is_short = |from: usize, until: usize| until - from < 2 * SIDE_MIN;
    if let Some(next) = found.get(i + 1).filter(|next| is_short(at, next.at)) {
        let (from, until) = fit.between((start, end(i + 1)), (at, next.at));
        if until - from < SIDE_MIN {
            return Some(Short { from, until, p: found[i].p.max(next.p) });
        }
    }
    let is_last = i + 1 == found.len();
    if (is_last && is_short(at, n)) || (i == 0 && is_short(0, at)) {
        let (from, until) = fit.instead_of_a_step((start, end(i)), at)?;
        return Some(Short { from, until, p: found[i].p });
    }
    None
}
