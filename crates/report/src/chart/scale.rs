//! Conversion from values to positions on an axis, and round values for its labels.

/// Maximum number of ticks on an axis.
const TICKS_MAX: u32 = 100;

/// Division of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Equal differences take equal lengths.
    Linear,
    /// Equal ratios take equal lengths.
    Log,
}

/// An axis from `low` to `high`, drawn from pixel `from` to pixel `to`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) kind: Kind,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    /// The pixel of a value; values outside the axis map to its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = |v: f64| if self.kind == Kind::Log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (low, high) = (place(self.low), place(self.high));
        let share = if high > low { (place(value) - low) / (high - low) } else { 0.5 };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Whether a value is on the axis.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values inside the axis, about `wanted` of them.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => round_values(self.low, self.high, wanted),
            Kind::Log => log_ticks(self.low, self.high, wanted),
        }
    }
}

/// Round values from `low` to `high`, about `wanted` of them, in equal steps.
pub(crate) fn round_values(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if high <= low || !(high - low).is_finite() {
        return vec![low];
    }
    let step = round_up((high - low) / wanted.max(1) as f64);
    let first = (low / step - 1e-9).ceil();
    // Multiples of the step, so that rounding errors do not accumulate.
    (0..TICKS_MAX)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|v| *v <= high + 1e-9 * step)
        .map(|v| if v.abs() < 1e-9 * step { 0.0 } else { v })
        .collect()
}

fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let decades = |mantissas: &[f64]| -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut decade = 10.0_f64.powf(low.log10().floor());
        while decade <= high * 1.000_001 {
            ticks.extend(
                mantissas
                    .iter()
                    .map(|m| m * decade)
                    .filter(|v| *v >= low * 0.999_999 && *v <= high * 1.000_001),
            );
            decade *= 10.0;
        }
        ticks
    };
    let choices = [
        decades(&[1.0]),
        decades(&[1.0, 3.0]),
        decades(&[1.0, 2.0, 5.0]),
        decades(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]),
    ];
    let far = |ticks: &Vec<f64>| ticks.len().abs_diff(wanted);
    let best = choices.into_iter().min_by_key(far).unwrap_or_default();
    // A short range has too few of these values; equal steps read better there.
    if best.len() <= wanted / 2 { round_values(low, high, wanted) } else { best }
}

/// The next of 1, 2, 5, 10, ... at or above `step`.
fn round_up(step: f64) -> f64 {
    let decade = 10.0_f64.powf(step.log10().floor());
    let mantissa = step / decade;
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|m| *m >= mantissa - 1e-9).unwrap_or(10.0);
    round * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: Kind, low: f64, high: f64) -> Scale {
        Scale { kind, low, high, from: 0.0, to: 100.0 }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(scale(Kind::Linear, 0.0, 9_500.0).ticks(5), [0.0, 2_000.0, 4_000.0, 6_000.0, 8_000.0]);
        assert_eq!(scale(Kind::Linear, -3.0, 3.0).ticks(6), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(scale(Kind::Log, 1.0, 1_000.0).ticks(4), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(scale(Kind::Linear, 5.0, 5.0).ticks(4), [5.0]);
        assert!(scale(Kind::Log, 0.98, 1.06).ticks(5).len() >= 3);
    }

    #[test]
    fn values_find_their_place_and_stay_on_the_axis() {
        assert!((scale(Kind::Linear, 0.0, 10.0).at(2.5) - 25.0).abs() < 1e-9);
        assert!((scale(Kind::Log, 1.0, 100.0).at(10.0) - 50.0).abs() < 1e-9);
        assert!((scale(Kind::Linear, 0.0, 10.0).at(99.0) - 100.0).abs() < 1e-9);
        assert!((scale(Kind::Linear, 3.0, 3.0).at(3.0) - 50.0).abs() < 1e-9);
    }
}
