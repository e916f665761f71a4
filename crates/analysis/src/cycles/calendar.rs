//! Lengths that people's clocks set, and the cycles of such a length.
//!
//! Noise moves a peak: over two weeks, a daily wave is found at 23.6 or 24.3 hours. A crest at that length is
//! hours off at both ends of the series. So a cycle that may have a length of the calendar has it.

use super::background::Background;
use super::family::Family;
use super::rules::SAME;
use crate::period::Wave;

/// Half a day, a day and a week, in seconds.
const LENGTHS_S: [f64; 3] = [43_200.0, 86_400.0, WEEK_S];
const WEEK_S: f64 = 604_800.0;
/// Loss of log likelihood up to which a length lies in the 99 % interval of the length.
///
/// scipy 1.17.1: `chi2.isf(0.01, 1) / 2`.
pub(super) const LOSS_MAX: f64 = 3.317;
/// Loss that is accepted, as a share: real cycles are not exactly alike. Over the series, a length with this
/// loss moves by a twelfth of itself from the one that is assumed.
const LOSS_SHARE: f64 = 0.03;
/// Waves by which lengths are compared.
const TELLING: usize = 8;
/// Share of a weekly cycle's power at multiples of a day from which it holds a daily one: about the share of
/// the days on which a daily event takes place.
const DAILY: f64 = 0.5;

/// Power of the noise at each frequency.
pub(super) struct Noise<'a> {
    pub(super) background: Background,
    /// Share of the power at a frequency that the background does not expect.
    pub(super) beyond: &'a dyn Fn(f64) -> f64,
}

impl Family {
    /// Moves the family to the calendar's length, if its own is not certainly another one.
    ///
    /// - `points`: the values with this cycle and without the others.
    pub(super) fn snap(&mut self, points: &[(f64, f64)], step_s: f64, noise: &Noise<'_>) {
        let span = points[points.len() - 1].0;
        // A weak wave at a high multiple may be one because noise is strong at this very frequency.
        let mut telling: Vec<(u32, f64)> =
            self.waves.iter().map(|(m, wave)| (*m, wave.amplitude())).collect();
        telling.sort_by(|a, b| b.1.total_cmp(&a.1));
        telling.truncate(TELLING);
        // One noise for both lengths: a median of neighbors is another one at another frequency.
        let own = self.frequency;
        let explained = |frequency: f64| {
            let power = |m: u32| {
                let (here, at) = (f64::from(m) * own, f64::from(m) * frequency);
                let size = Wave::of(points, at).amplitude().powi(2) * points.len() as f64 / 4.0;
                size / noise.background.at(here) / (noise.beyond)(here)
            };
            telling.iter().map(|(m, _)| power(*m)).sum::<f64>()
        };
        let most = explained(own);
        for length_s in LENGTHS_S {
            let frequency = step_s / length_s;
            let is_near = (frequency - own).abs() * span <= SAME / 2.0;
            if is_near && most - explained(frequency) <= LOSS_MAX.max(LOSS_SHARE * most) {
                self.frequency = frequency;
                for (m, wave) in &mut self.waves {
                    *wave = Wave::of(points, f64::from(*m) * frequency);
                }
            }
        }
    }

    /// Takes the daily cycle out of a weekly one, with its share of the power: an event on most days.
    pub(super) fn daily(&mut self, step_s: f64) -> Option<(Self, f64)> {
        if (self.frequency * WEEK_S / step_s - 1.0).abs() > 1e-9 {
            return None;
        }
        let is_daily = |m: u32| m.is_multiple_of(7);
        let power = |of: &dyn Fn(u32) -> bool| -> f64 {
            self.waves.iter().filter(|(m, _)| of(*m)).map(|(_, wave)| wave.amplitude().powi(2)).sum()
        };
        let share = power(&is_daily) / power(&|_| true);
        if share.is_nan() || share < DAILY {
            return None;
        }
        let (daily, weekly): (Vec<_>, Vec<_>) = self.waves.iter().partition(|(m, _)| is_daily(*m));
        self.waves = weekly;
        let waves = daily.into_iter().map(|(m, wave)| (m / 7, wave)).collect();
        Some((Self { frequency: 7.0 * self.frequency, waves, is_shaped: true }, share))
    }
}
