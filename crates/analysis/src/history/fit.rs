//! Least-squares levels: which stretch near a change explains most as an excursion.

use super::energy::SIDE_MIN;

/// Sums of values, from which least-squares levels follow.
pub(super) struct Fit {
    sums: Vec<f64>,
    /// Whether an excursion may last to the end.
    has_newest: bool,
}

impl Fit {
    pub(super) fn of(values: &[f64]) -> Self {
        let middle = values.iter().sum::<f64>() / values.len() as f64;
        let mut sums = vec![0.0; values.len() + 1];
        for (i, v) in values.iter().enumerate() {
            sums[i + 1] = sums[i] + (v - middle);
        }
        Self { sums, has_newest: false }
    }

    /// Variant in which an excursion may last to the end, if `has_newest` holds.
    pub(super) fn up_to_the_end(self, has_newest: bool) -> Self {
        Self { has_newest, ..self }
    }

    /// Share of the squares that one level for these values explains.
    fn gain(&self, from: usize, until: usize) -> f64 {
        (self.sums[until] - self.sums[from]).powi(2) / (until - from) as f64
    }

    /// The stretch near `(from, until)` that explains most by its own level between two others.
    pub(super) fn between(
        &self,
        (start, end): (usize, usize),
        (from, until): (usize, usize),
    ) -> (usize, usize) {
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
    pub(super) fn instead_of_a_step(
        &self,
        (start, end): (usize, usize),
        at: usize,
    ) -> Option<(usize, usize)> {
        let of_step = self.gain(start, at) + self.gain(at, end);
        let outside = |from: usize, until: usize| {
            let sum = self.sums[end] - self.sums[until] + self.sums[from] - self.sums[start];
            sum.powi(2) / (end - until + from - start) as f64
        };
        let (first, last) = (at.saturating_sub(2 * SIDE_MIN).max(start + 1), at + 2 * SIDE_MIN);
        let is_newest = self.has_newest && end + 1 == self.sums.len();
        let beyond = if is_newest { end + 1 } else { end };
        let places = (first..last.min(end))
            .flat_map(|from| (from + 1..(from + SIDE_MIN).min(beyond)).map(move |until| (from, until)));
        let of = |(from, until)| (self.gain(from, until) + outside(from, until), (from, until));
        let best = places.map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 > of_step).then_some(best.1)
    }
}
