//! Excursions: values at another level that are too few to be one, before the series goes back.
//!
//! The tests compare at least [`SIDE_MIN`] values on each side, so an excursion of four makes two changes, of
//! which each side holds a value that does not belong to it. It is cut out and counted once, and the rest of
//! the series is tested anew.

use super::divisive::{Found, changes};
use super::energy::SIDE_MIN;

/// Values that leave a level and come back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Short {
    /// Index of the first value.
    pub(super) from: usize,
    /// Index after the last value.
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
        let new = enclosed(&now, &found);
        if new.is_empty() {
            return Apart { lasting, found, short: merged(short) };
        }
        for Short { from, until, p } in new.into_iter().rev() {
            short.push(Short { from: lasting[from], until: lasting[until - 1] + 1, p });
            lasting.drain(from..until);
        }
    }
}

/// Excursions in time order; those that touch are one.
fn merged(mut short: Vec<Short>) -> Vec<Short> {
    short.sort_by_key(|one| one.from);
    let mut all: Vec<Short> = Vec::new();
    for one in short {
        match all.last_mut() {
            Some(last) if one.from <= last.until => {
                (last.until, last.p) = (last.until.max(one.until), last.p.max(one.p));
            }
            _ => all.push(one),
        }
    }
    all
}

/// Excursions that the changes enclose, in time order and apart from each other.
fn enclosed(values: &[f64], found: &[Found]) -> Vec<Short> {
    let mut all: Vec<Short> = Vec::new();
    // An outlier that explains more than the changes do is cut out, and then they are found again.
    let fit = Fit::of(values);
    for i in 0..found.len() {
        let short = fit.short(values.len(), found, i);
        all.extend(short.filter(|short| all.last().is_none_or(|last| last.until < short.from)));
    }
    all
}

/// Sums of values, from which least-squares levels follow.
struct Fit {
    sums: Vec<f64>,
}

impl Fit {
    fn of(values: &[f64]) -> Self {
        let middle = values.iter().sum::<f64>() / values.len() as f64;
        let mut sums = vec![0.0; values.len() + 1];
        for (i, v) in values.iter().enumerate() {
            sums[i + 1] = sums[i] + (v - middle);
        }
        Self { sums }
    }

    /// The excursion that a change begins, or makes near an end of the series.
    fn short(&self, n: usize, found: &[Found], i: usize) -> Option<Short> {
        let at = found[i].at;
        let start = if i == 0 { 0 } else { found[i - 1].at };
        let end = |i: usize| found.get(i + 1).map_or(n, |next| next.at);
        let is_short = |from: usize, until: usize| until - from < 2 * SIDE_MIN;
        if let Some(next) = found.get(i + 1).filter(|next| is_short(at, next.at)) {
            let (from, until) = self.between((start, end(i + 1)), (at, next.at));
            if until - from < SIDE_MIN {
                return Some(Short { from, until, p: found[i].p.max(next.p) });
            }
        }
        let is_last = i + 1 == found.len();
        if (is_last && is_short(at, n)) || (i == 0 && is_short(0, at)) {
            let (from, until) = self.instead_of_a_step((start, end(i)), at)?;
            return Some(Short { from, until, p: found[i].p });
        }
        None
    }

    /// Share of the squares that one level for these values explains.
    fn gain(&self, from: usize, until: usize) -> f64 {
        (self.sums[until] - self.sums[from]).powi(2) / (until - from) as f64
    }

    /// The stretch near `(from, until)` that explains most by its own level between two others.
    fn between(&self, (start, end): (usize, usize), (from, until): (usize, usize)) -> (usize, usize) {
        let all = |from: usize, until: usize| {
            self.gain(start, from) + self.gain(from, until) + self.gain(until, end)
        };
        let first = from.saturating_sub(SIDE_MIN).max(start + 1);
        let places = (first..until).flat_map(|from| {
            let last = (until + SIDE_MIN).min(end - 1);
            (from + 1..=last).map(move |until| (from, until))
        });
        let of = |(from, until)| (all(from, until), (from, until));
        places.map(of).fold((f64::NEG_INFINITY, (from, until)), |a, b| if b.0 > a.0 { b } else { a }).1
    }

    /// The excursion from one level that explains more than a step at `at` does, if there is one.
    fn instead_of_a_step(&self, (start, end): (usize, usize), at: usize) -> Option<(usize, usize)> {
        let of_step = self.gain(start, at) + self.gain(at, end);
        let outside = |from: usize, until: usize| {
            let sum = self.sums[end] - self.sums[until] + self.sums[from] - self.sums[start];
            sum.powi(2) / (end - until + from - start) as f64
        };
        let (first, last) = (at.saturating_sub(2 * SIDE_MIN).max(start + 1), at + 2 * SIDE_MIN);
        let places = (first..last.min(end))
            .flat_map(|from| (from + 1..(from + SIDE_MIN).min(end)).map(move |until| (from, until)));
        let of = |(from, until)| (self.gain(from, until) + outside(from, until), (from, until));
        let best = places.map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 > of_step).then_some(best.1)
    }
}
