//! Values folded at the period of a cycle: the part of it in which they are highest, or lowest.

use record::missing::{Maybe, Missing};

use super::rules::detrend;
use crate::mean;
use crate::robust::{mad, median};

/// The part of a cycle that differs most from the rest of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Time of its first value, of the first repetition; of a cycle of a clock, on that clock.
    pub from_s: f64,
    /// Time of its last value, of the same repetition.
    pub last_s: f64,
    /// Length: from the first value to the last, and one step, for which the last value stands.
    pub length_s: f64,
    /// Mean of the values in it minus the mean of the others.
    pub change: f64,
    /// 95 % interval of the change over the repetitions.
    pub interval: Maybe<(f64, f64)>,
    /// Mean of the others.
    pub rest: f64,
}

/// Most parts of a cycle.
const PARTS_MAX: f64 = 1_440.0;
/// Values beyond this many deviations from those of the same phase are clipped.
const WILD: f64 = 6.0;

impl Window {
    /// Window of values at a known period; `None` if there is no difference.
    ///
    /// The window has at most half of the period; its mean and that of the rest explain the most.
    ///
    /// - `points`: seconds and value, in time order, several.
    /// - `step_s`: usual distance of neighbors.
    pub(super) fn of(points: &[(f64, f64)], period_s: f64, step_s: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded here")]
        let parts = (period_s / step_s).round().clamp(2.0, PARTS_MAX) as usize;
        // Clocks count whole seconds; a value at nine is not before nine.
        let phase_of = |t: f64| (t + 1e-6 * step_s).rem_euclid(period_s);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the parts")]
        let part_of = |t: f64| ((phase_of(t) / period_s * parts as f64 + 1e-6) as usize).min(parts - 1);
        let values = tamed(&level(points), parts, part_of, points);
        let (mut sums, mut counts) = (vec![0.0; 2 * parts + 1], vec![0.0; 2 * parts + 1]);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        for ((t, _), value) in points.iter().zip(&values) {
            for part in [part_of(*t), part_of(*t) + parts] {
                sums[part + 1] += value - mean;
                counts[part + 1] += 1.0;
            }
        }
        for i in 1..sums.len() {
            sums[i] += sums[i - 1];
            counts[i] += counts[i - 1];
        }
        let (mut best, mut most) = (None, 0.0);
        for start in 0..parts {
            for length in 1..=parts / 2 {
                let inside = counts[start + length] - counts[start];
                let outside = values.len() as f64 - inside;
                if inside < 0.5 || outside < 0.5 {
                    continue;
                }
                let gain = (sums[start + length] - sums[start]).powi(2) / inside / outside;
                if gain > most {
                    (best, most) = (Some((start, length)), gain);
                }
            }
        }
        let (start, length) = best?;
        let is_in = |t: f64| (part_of(t) + parts - start) % parts < length;
        let start_s = start as f64 / parts as f64 * period_s;
        Self::between(points, &values, (period_s, step_s), (start_s, &is_in))
    }

    fn between(
        points: &[(f64, f64)],
        values: &[f64],
        (period_s, step_s): (f64, f64),
        (start_s, is_in): (f64, &dyn Fn(f64) -> bool),
    ) -> Option<Self> {
        // A repetition begins with the window, which then lies in one of them.
        let first = ((points[0].0 - start_s) / period_s).floor();
        let repetition = |t: f64| (((t - start_s) / period_s + 1e-9).floor() - first).max(0.0);
        let offset = |t: f64| t - start_s - (repetition(t) + first) * period_s;
        let inside = points.iter().filter(|p| is_in(p.0)).map(|p| offset(p.0));
        let (from, to) = inside.fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b), a.1.max(b)));
        let all: Vec<(f64, bool, f64)> =
            points.iter().zip(values).map(|(p, v)| (repetition(p.0), is_in(p.0), *v)).collect();
        let of = |those: &[(f64, bool, f64)], inside: bool| {
            let (mut sum, mut n) = (0.0, 0.0);
            those.iter().filter(|one| one.1 == inside).for_each(|one| {
                sum += one.2;
                n += 1.0;
            });
            (n > 0.0).then(|| sum / n)
        };
        let (high, rest) = (of(&all, true)?, of(&all, false)?);
        let repetitions = all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        let changes: Vec<f64> = repetitions.filter_map(|r| Some(of(r, true)? - of(r, false)?)).collect();
        let few = || Missing::because("fewer than three repetitions have values in both parts");
        let interval = if changes.len() < 3 { None } else { mean::interval(&changes, 0.05) };
        let mut from_s = start_s + first * period_s + from;
        if from_s < points[0].0 - 1e-6 * period_s {
            from_s += period_s;
        }
        Some(Self {
            from_s,
            last_s: from_s + (to - from),
            length_s: to - from + step_s,
            change: high - rest,
            interval: interval.ok_or_else(few),
            rest,
        })
    }

    /// Whether the interval of the change, if it has one, excludes no change.
    pub(super) fn is_apart(&self) -> bool {
        self.interval.as_ref().ok().is_none_or(|(low, high)| *low > 0.0 || *high < 0.0)
    }

    /// The same in another unit of the values.
    pub(super) fn scaled(&mut self, by: f64) {
        self.change *= by;
        self.rest *= by;
        if let Ok((low, high)) = &mut self.interval {
            (*low, *high) = (*low * by, *high * by);
        }
    }
}

/// Values without their straight line, with their mean.
fn level(points: &[(f64, f64)]) -> Vec<f64> {
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let mut left: Vec<(f64, f64)> = points.iter().map(|p| (p.0 - points[0].0, p.1)).collect();
    detrend(&mut left);
    left.into_iter().map(|p| p.1 + mean).collect()
}

/// Values, those far from the others of their part moved to a bound.
fn tamed(values: &[f64], parts: usize, part_of: impl Fn(f64) -> usize, points: &[(f64, f64)]) -> Vec<f64> {
    let mut of_part = vec![Vec::new(); parts];
    for ((t, _), value) in points.iter().zip(values) {
        of_part[part_of(*t)].push(*value);
    }
    let middles: Vec<f64> = of_part.iter().map(|all| median(all).unwrap_or(0.0)).collect();
    let middle = |t: f64| middles[part_of(t)];
    let off: Vec<f64> = points.iter().zip(values).map(|((t, _), v)| v - middle(*t)).collect();
    let spread = mad(&off).unwrap_or(0.0);
    let bound = if spread > 0.0 { WILD * spread } else { f64::INFINITY };
    points.iter().zip(off).map(|((t, _), off)| middle(*t) + off.clamp(-bound, bound)).collect()
}
