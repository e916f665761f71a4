//! The knee of response against rate: the rate from which response times climb steeply.
//!
//! Two lines that meet are fitted to the logarithm of p99 against the rate; they meet at the knee. A smooth
//! queue has no point where it bends, so the position depends on the measured rates: the knee describes the
//! curve within them. A knee is reported only if the whole interval of the bend is upwards, steep and large;
//! otherwise the measured rates show none.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, Factor, Levels, Metric};
use record::missing::{Maybe, Missing};

use crate::bakeoff::Comparisons;
use crate::bootstrap::over_blocks;
use crate::cell::Cell;
use crate::paired::Paired;
use crate::slope::says_the_rate;

/// Fewest rates: each of two lines needs two.
pub const RATES_MIN: usize = 4;
/// Fewest times that the slope beyond the knee is that before it.
pub const STEEPER_MIN: f64 = 3.0;
/// Fewest times that p99 at the highest rate is that at the knee.
pub const RISE_MIN: f64 = 1.5;
/// Places tried for the knee.
const PLACES: usize = 101;

/// Response of one configuration against the rate, under one condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Knee {
    /// Compared factors of the configuration.
    pub a: Levels,
    /// The condition, without the rate.
    pub levels: Levels,
    /// Rates with values, events per second, rising.
    pub rates_per_s: Vec<f64>,
    /// Blocks with a value at each of them.
    pub blocks: usize,
    /// The knee, or the reason that it is not named.
    pub bend: Maybe<Bend>,
}

/// A knee.
#[derive(Debug, Clone, PartialEq)]
pub struct Bend {
    /// Events per second at the knee.
    pub per_s: f64,
    /// The 1 - alpha interval of that rate, by bootstrap over the blocks. An end at the edge of the places
    /// of a fit extends to the outermost rate.
    pub interval_per_s: Maybe<(f64, f64)>,
    /// p99 at the knee, by the fit.
    pub p99_s: f64,
    /// p99 at the highest rate, by the fit.
    pub p99_at_highest_s: f64,
}

/// The knee of every configuration; empty if no factor sets the rate, or if the bake-off is not over.
pub fn knees(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<Knee> {
    let is_rate = |factor: &&Factor| factor.reference.is_none() && says_the_rate(bakeoff, factor);
    let Some(factor) = bakeoff.factors.iter().find(is_rate).filter(|_| !comparisons.unfinished) else {
        return Vec::new();
    };
    let per_s = rates(bakeoff, factor);
    let mut groups: Vec<(Levels, Vec<&Cell>)> = Vec::new();
    for cell in comparisons.cells_of(Metric::P99).filter(|c| c.levels.contains_key(&factor.name)) {
        let mut rest = cell.levels.clone();
        rest.remove(&factor.name);
        match groups.iter_mut().find(|(levels, _)| *levels == rest) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((rest, vec![cell])),
        }
    }
    let one = |(rest, cells): (Levels, Vec<&Cell>)| {
        let at_rate =
            cells.iter().filter_map(|c| Some((*per_s.get(&c.levels[&factor.name])?, by_block(c)))).collect();
        let (a, levels) = rest.into_iter().partition(|(name, _)| comparisons.compared.contains(name));
        let (rates_per_s, curves) = complete(at_rate);
        let bend = bend(&rates_per_s, &curves, comparisons.rules.alpha, bakeoff.seed);
        Knee { a, levels, blocks: curves.len(), bend, rates_per_s }
    };
    groups.into_iter().map(one).collect()
}

/// The rate of each level of the factor.
fn rates(bakeoff: &Bakeoff, factor: &Factor) -> BTreeMap<String, f64> {
    let of = |levels: &Levels, per_s: Option<f64>| Some((levels.get(&factor.name)?.clone(), per_s?));
    let sealed = bakeoff.sealed();
    sealed.filter_map(|(trial, run)| of(&trial.levels, run.load.as_ref()?.settings.pace.per_s())).collect()
}

/// ln p99 of each block that may be judged.
fn by_block(cell: &Cell) -> BTreeMap<u32, f64> {
    let ln = |v: &crate::cell::BlockValue| {
        let value = v.value.as_ref().ok().filter(|value| value.unjudged.is_none())?;
        Some((v.block, value.middle()?.ln()))
    };
    cell.values.iter().filter_map(ln).collect()
}

/// Rising rates that have values, and the curves of the blocks that have all of them: another selection of
/// blocks at each rate would bend the curve.
fn complete(mut at_rate: Vec<(f64, BTreeMap<u32, f64>)>) -> (Vec<f64>, Vec<Vec<f64>>) {
    at_rate.retain(|(_, values)| !values.is_empty());
    at_rate.sort_by(|x, y| x.0.total_cmp(&y.0));
    let all: BTreeSet<u32> = at_rate.iter().flat_map(|(_, values)| values.keys().copied()).collect();
    let curve = |block: u32| at_rate.iter().map(|(_, values)| values.get(&block).copied()).collect();
    let curves = all.into_iter().filter_map(curve).collect();
    (at_rate.iter().map(|(rate, _)| *rate).collect(), curves)
}

/// - `curves`: ln p99 at each rate, for each block.
fn bend(rates: &[f64], curves: &[Vec<f64>], alpha: f64, seed: u64) -> Maybe<Bend> {
    if rates.len() < RATES_MIN {
        return Err(Missing::because(format!(
            "a knee needs {RATES_MIN} rates with values, and has {}",
            rates.len()
        )));
    }
    let Some(upwards) = Paired::of(&curves.iter().map(|curve| bends(rates, curve)).collect::<Vec<f64>>())
    else {
        return Err(Missing::because(format!(
            "a knee needs 2 blocks with all rates, and has {}",
            curves.len()
        )));
    };
    let sticks = sticks(rates);
    let mean = |drawn: &[usize]| -> Vec<f64> {
        let at = |rate: usize| drawn.iter().map(|i| curves[*i][rate]).sum::<f64>() / drawn.len() as f64;
        (0..rates.len()).map(at).collect()
    };
    let all: Vec<usize> = (0..curves.len()).collect();
    let best = best(&sticks, &mean(&all));
    let highest = rates[rates.len() - 1];
    let fit = sticks[best].fit(&mean(&all));
    let none = |why: &str| Missing::because(format!("no knee within the rates: {why}"));
    if upwards.interval(alpha).0 <= 0.0 {
        return Err(none("p99 does not bend upwards for certain"));
    }
    if fit.after < STEEPER_MIN * fit.before.max(0.0) {
        return Err(none("p99 bends upwards slowly"));
    }
    let rise = fit.after * (highest - sticks[best].per_s);
    if rise < RISE_MIN.ln() {
        return Err(none("p99 rises little"));
    }
    let place = |drawn: &[usize]| Some(self::best(&sticks, &mean(drawn)) as f64);
    let interval = over_blocks(curves.len(), alpha, seed, place);
    Ok(Bend {
        per_s: sticks[best].per_s,
        interval_per_s: interval.map(|(low, high)| extended(&sticks, rates, (low, high))),
        p99_s: fit.at_knee.exp(),
        p99_at_highest_s: (fit.at_knee + rise).exp(),
    })
}

/// Rates of an interval of places.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "indexes of places")]
fn extended(sticks: &[Stick], rates: &[f64], (low, high): (f64, f64)) -> (f64, f64) {
    let (low, high) = (low as usize, high as usize);
    (
        if low == 0 { rates[0] } else { sticks[low].per_s },
        if high + 1 == sticks.len() { rates[rates.len() - 1] } else { sticks[high].per_s },
    )
}

/// Slope over the upper half of the rates less that over the lower half; of an odd number, both have the
/// middle one. The halves do not follow from the values, so no search makes this larger.
fn bends(rates: &[f64], curve: &[f64]) -> f64 {
    let half = rates.len().div_ceil(2);
    let from = rates.len() - half;
    slope(&rates[from..], &curve[from..]) - slope(&rates[..half], &curve[..half])
}

fn slope(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let xy: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    xy / x.iter().map(|x| (x - mx).powi(2)).sum::<f64>()
}

/// Two lines that meet at one rate, ready for a least-squares fit.
struct Stick {
    /// Rate of the knee.
    per_s: f64,
    /// Orthonormal base of the constant, the rate from the knee on the left, and on the right.
    base: [Vec<f64>; 3],
    /// Columns over the base: `columns[j][i]` is the part of base vector `i` in column `j`.
    columns: [[f64; 3]; 3],
}

/// A fit of two lines.
struct Fit {
    /// ln p99 at the knee.
    at_knee: f64,
    /// Change of ln p99 per event and second, below the knee and above it.
    before: f64,
    after: f64,
}

/// The places at which two lines may meet: both have two rates.
fn sticks(rates: &[f64]) -> Vec<Stick> {
    let (first, last) = (rates[1], rates[rates.len() - 2]);
    let place = |i: usize| first + (last - first) * i as f64 / (PLACES - 1) as f64;
    (0..PLACES).map(|i| Stick::at(place(i), rates)).collect()
}

/// The place with the least squares: the first of equal ones.
fn best(sticks: &[Stick], y: &[f64]) -> usize {
    let explained: Vec<f64> = sticks.iter().map(|stick| stick.explained(y)).collect();
    let most = explained.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    explained.iter().position(|e| *e >= most).unwrap_or(0)
}

impl Stick {
    fn at(per_s: f64, rates: &[f64]) -> Self {
        let raw: [Vec<f64>; 3] = [
            rates.iter().map(|_| 1.0).collect(),
            rates.iter().map(|x| (x - per_s).min(0.0)).collect(),
            rates.iter().map(|x| (x - per_s).max(0.0)).collect(),
        ];
        let mut base = raw.clone();
        let mut columns = [[0.0; 3]; 3];
        // Gram and Schmidt.
        for j in 0..3 {
            for i in 0..j {
                let part = dot(&base[i], &raw[j]);
                columns[j][i] = part;
                let along = base[i].clone();
                base[j].iter_mut().zip(along).for_each(|(b, a)| *b -= part * a);
            }
            let length = dot(&base[j], &base[j]).sqrt();
            columns[j][j] = length;
            base[j].iter_mut().for_each(|b| *b /= length);
        }
        Self { per_s, base, columns }
    }

    /// The part of the squares of `y` that the fit explains.
    fn explained(&self, y: &[f64]) -> f64 {
        self.base.iter().map(|b| dot(b, y).powi(2)).sum()
    }

    fn fit(&self, y: &[f64]) -> Fit {
        let parts = [0, 1, 2].map(|i: usize| dot(&self.base[i], y));
        let c = &self.columns;
        let after = parts[2] / c[2][2];
        let before = (parts[1] - after * c[2][1]) / c[1][1];
        let at_knee = (parts[0] - after * c[2][0] - before * c[1][0]) / c[0][0];
        Fit { at_knee, before, after }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    const RATES: [f64; 8] = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0];

    /// ln p99 of `blocks` blocks at each rate: `of` is the truth; each block is shifted, and each trial has
    /// noise.
    fn curves(
        rates: &[f64],
        blocks: usize,
        sd: f64,
        of: &dyn Fn(f64) -> f64,
        chance: &mut SplitMix,
    ) -> Vec<Vec<f64>> {
        let mut curve = || {
            let shift = 0.2 * chance.normal();
            rates.iter().map(|x| of(*x) + shift + sd * chance.normal()).collect()
        };
        (0..blocks).map(|_| curve()).collect()
    }

    /// 5 ms, flat to 530/s, then 1 % a step of 1/s.
    fn stick(x: f64) -> f64 {
        0.005_f64.ln() + 0.000_1 * x.min(530.0) + 0.01 * (x - 530.0).max(0.0)
    }

    fn why(found: &Maybe<Bend>) -> &str {
        &found.as_ref().unwrap_err().reason
    }

    #[test]
    fn two_lines_without_noise_meet_where_they_meet() {
        for blocks in [2, 6] {
            let found =
                bend(&RATES, &curves(&RATES, blocks, 0.0, &stick, &mut SplitMix(1)), 0.05, 1).unwrap();
            assert!((found.per_s - 530.0).abs() < 4.0, "{found:?}");
            assert!((found.p99_at_highest_s / found.p99_s).ln() > 2.5, "{found:?}");
            assert_eq!(found.interval_per_s.is_ok(), blocks == 6);
        }
    }

    #[test]
    fn the_interval_of_the_knee_covers_it_as_often_as_promised() {
        let mut chance = SplitMix(2);
        let covers = |_: &u32| {
            let found = bend(&RATES, &curves(&RATES, 6, 0.1, &stick, &mut chance), 0.05, 3).unwrap();
            let (low, high) = found.interval_per_s.unwrap();
            low <= 530.0 && 530.0 <= high
        };
        let covered = (0..200).filter(covers).count();
        println!("{covered} of 200 intervals cover a knee at 530/s");
        // 95 % less two standard errors of the simulation.
        assert!(covered >= 184, "{covered}");
    }

    #[test]
    fn a_line_has_no_knee_however_much_noise_there_is() {
        let line = |x: f64| 0.005_f64.ln() + 0.002 * x;
        for (sd, seed) in [(0.05, 4), (0.3, 5), (1.0, 6)] {
            let mut chance = SplitMix(seed);
            let is_named =
                |_: &u32| bend(&RATES, &curves(&RATES, 6, sd, &line, &mut chance), 0.05, 1).is_ok();
            let named = (0..300).filter(is_named).count();
            println!("{named} of 300 lines with noise of {sd} have a knee");
            // One tail of 5 %, and two standard errors of the simulation.
            assert!(named <= 13, "{sd}: {named}");
        }
    }

    #[test]
    fn a_queue_has_a_knee_only_if_it_was_measured_close_to_its_capacity() {
        // p99 of a queue with one server and a capacity of 850/s.
        let queue = |x: f64| (4.6 / (850.0 - x)).ln();
        let near = bend(&RATES, &curves(&RATES, 6, 0.02, &queue, &mut SplitMix(7)), 0.05, 1).unwrap();
        assert!((550.0..750.0).contains(&near.per_s), "{near:?}");
        let half = [50.0, 100.0, 150.0, 200.0, 300.0, 425.0];
        let found = bend(&half, &curves(&half, 6, 0.02, &queue, &mut SplitMix(8)), 0.05, 1);
        assert!(why(&found).starts_with("no knee within the rates"), "{found:?}");
    }

    #[test]
    fn what_falls_or_levels_off_has_no_knee_and_few_rates_tell_none() {
        let mut chance = SplitMix(9);
        let levels_off = |x: f64| -5.0 + 0.01 * x.min(400.0);
        let found = bend(&RATES, &curves(&RATES, 6, 0.02, &levels_off, &mut chance), 0.05, 1);
        assert!(why(&found).contains("does not bend upwards"), "{found:?}");
        let three = &RATES[..3];
        let found = bend(three, &curves(three, 6, 0.02, &stick, &mut chance), 0.05, 1);
        assert_eq!(why(&found), "a knee needs 4 rates with values, and has 3");
        let found = bend(&RATES, &curves(&RATES, 1, 0.02, &stick, &mut chance), 0.05, 1);
        assert_eq!(why(&found), "a knee needs 2 blocks with all rates, and has 1");
    }

    /// Only the last rate is over the knee: nothing shows where between the last two it lies.
    #[test]
    fn a_knee_at_the_edge_has_an_interval_to_the_outermost_rate() {
        let last = |x: f64| -5.0 + if x > 750.0 { 3.0 } else { 0.0 };
        let found = bend(&RATES, &curves(&RATES, 6, 0.01, &last, &mut SplitMix(10)), 0.05, 1).unwrap();
        assert!((found.per_s - 700.0).abs() < 1e-9, "{found:?}");
        assert!((found.interval_per_s.unwrap().1 - 800.0).abs() < 1e-9);
    }

    #[test]
    fn a_block_without_a_rate_is_left_out_and_a_rate_without_values_too() {
        let at = |rate: f64, blocks: &[u32]| (rate, blocks.iter().map(|b| (*b, rate)).collect());
        let (rates, curves) =
            complete(vec![at(300.0, &[1, 2, 3]), at(100.0, &[1, 2, 3]), at(200.0, &[1, 3]), at(400.0, &[])]);
        assert_eq!((rates, curves.len()), (vec![100.0, 200.0, 300.0], 2));
    }
}
