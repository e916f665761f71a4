//! The server's CPU time per event for plans with several rates: the slope of its CPU use against the rate.
//!
//! CPU use divided by the rate at one point includes the work that the server does without any event, which
//! dominates at low rates. The slope separates it, as the background.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, Trial};
use record::missing::{Maybe, Missing};
use record::run::Run;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::bootstrap::about;
use crate::cell::{BlockValue, Cell, Seen, combinations, seen};
use crate::metric::{Value, counted_per_s, cpu_ratio, events_in_doubt_per_s, not_degraded};
use crate::paired::Paired;
use crate::robust::median;

/// Below this p, CPU use does not follow a line.
const LACK_OF_FIT_P_MIN: f64 = 0.01;

/// Maximum relative uncertainty of the rates: the slope through less certain rates is less certain still.
const DOUBT_RATIO_MAX: f64 = 0.01;

/// The server's CPU time per event of one configuration, without its background.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// Compared factors of the configuration.
    pub arm: Levels,
    /// The condition, without the rate.
    pub levels: Levels,
    /// CPU seconds per event: mean over the blocks.
    pub value_s: Maybe<f64>,
    /// Interval of the value, t over the blocks; missing with one block.
    pub interval_s: Maybe<(f64, f64)>,
    /// The slope of Theil and Sen: the median over all pairs of rates of a block. A few wild trials do not
    /// move it; far from the value, they dominate that.
    pub robust_s: Maybe<f64>,
    /// Interval of that slope: t with the standard error of a bootstrap over the blocks.
    pub robust_interval_s: Maybe<(f64, f64)>,
    /// CPU seconds per second that the line predicts without any event: mean over the blocks.
    pub background_ratio: Maybe<f64>,
}

/// Slopes of every configuration in every block.
#[derive(Debug)]
pub(crate) struct Slopes {
    rate: String,
    compared: Vec<String>,
    cells: Vec<Cell>,
    /// Lines by block, for each cell.
    lines: Vec<Vec<Maybe<Line>>>,
}

impl Slopes {
    /// The factor that sets the rate.
    pub(crate) fn rate_factor(&self) -> &str {
        &self.rate
    }

    /// One cell for each combination of the other factors' levels; its values are slopes.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// - `seed`: of the bootstrap.
    pub(crate) fn over_blocks(&self, alpha: f64, seed: u64) -> Vec<Slope> {
        let slope = |(cell, lines): (&Cell, &Vec<Maybe<Line>>)| {
            let lines = straight(cell, lines);
            let mean = |figure: fn(&Line) -> f64| {
                lines.clone().map(|all| all.iter().map(|l| figure(l)).sum::<f64>() / all.len() as f64)
            };
            let interval = lines.clone().and_then(|all| {
                let slopes: Vec<(f64, f64)> = all.iter().map(|l| (l.slope, l.slope)).collect();
                let one = || Missing::because("an interval needs at least 2 blocks");
                Ok(Paired::in_order(&slopes).ok_or_else(one)?.interval(alpha))
            });
            let robust = |all: Vec<&Line>| (theil_sen(&all), robust_interval(&all, alpha, seed));
            let (robust_s, robust_interval_s) =
                lines.clone().map_or_else(|why| (Err(why.clone()), Err(why)), robust);
            let (arm, levels) =
                cell.levels.clone().into_iter().partition(|(name, _)| self.compared.contains(name));
            Slope {
                arm,
                levels,
                value_s: mean(|line| line.slope),
                interval_s: interval,
                robust_s,
                robust_interval_s,
                background_ratio: mean(|line| line.intercept),
            }
        };
        self.cells.iter().zip(&self.lines).map(slope).collect()
    }
}

/// The lines of all blocks. A slope that is not positive counts too: the mean of the others would be that of
/// the lucky blocks.
///
/// # Errors
///
/// A block has none, or CPU use does not follow a line.
fn straight<'a>(cell: &Cell, lines: &'a [Maybe<Line>]) -> Maybe<Vec<&'a Line>> {
    if let Some(curved) = cell.values.iter().find_map(|v| v.value.as_ref().ok()?.unjudged.clone()) {
        return Err(curved);
    }
    if lines.is_empty() {
        let none = || Missing::because("no block has a slope");
        return Err(cell.summary.clone().err().unwrap_or_else(none));
    }
    lines.iter().map(|line| line.as_ref().map_err(Clone::clone)).collect()
}

/// Median of the slopes between the rates of a block, over all blocks: what a block's time did to all of its
/// trials is in none of them.
fn theil_sen(lines: &[&Line]) -> Maybe<f64> {
    let slopes: Vec<f64> = lines.iter().flat_map(|line| line.pairs.iter().copied()).collect();
    median(&slopes).ok_or_else(|| Missing::because("no block has two rates"))
}

fn robust_interval(lines: &[&Line], alpha: f64, seed: u64) -> Maybe<(f64, f64)> {
    about(theil_sen(lines)?, (lines.len(), alpha, seed), |drawn| {
        theil_sen(&drawn.iter().map(|i| lines[*i]).collect::<Vec<&Line>>()).ok()
    })
}

/// Slopes of a bake-off; `None` if no factor sets the rate, or it has fewer than two levels.
pub(crate) fn slopes(bakeoff: &Bakeoff) -> Option<Slopes> {
    let rate = bakeoff.factors.iter().find(|f| f.reference.is_none() && says_the_rate(bakeoff, f))?;
    let others: Vec<&Factor> = bakeoff.factors.iter().filter(|f| f.name != rate.name).collect();
    let seen = seen(bakeoff);
    let mut found = Slopes {
        rate: rate.name.clone(),
        compared: others.iter().filter(|f| f.reference.is_some()).map(|f| f.name.clone()).collect(),
        cells: Vec::new(),
        lines: Vec::new(),
    };
    let all = combinations(bakeoff, &others);
    let at = |levels: &Levels, value: &String| {
        let mut levels = levels.clone();
        levels.insert(rate.name.clone(), value.clone());
        seen.get(&levels)
    };
    let condition = |levels: &Levels| -> Levels {
        levels.clone().into_iter().filter(|(name, _)| !found.compared.contains(name)).collect()
    };
    // Only rates that all configurations have in this condition: the slope over other rates is another one
    // where CPU use is not a line.
    let shared = |levels: &Levels| -> Vec<&String> {
        let own = condition(levels);
        let same: Vec<&Levels> = all.iter().filter(|other| condition(other) == own).collect();
        rate.values.iter().filter(|value| same.iter().all(|other| at(other, value).is_some())).collect()
    };
    let rates: Vec<Vec<&String>> = all.iter().map(shared).collect();
    for (levels, rates) in all.iter().cloned().zip(rates) {
        let at_rates: Vec<&Seen> = rates.into_iter().filter_map(|value| at(&levels, value)).collect();
        let (cell, lines) = cell(levels, &at_rates, bakeoff.judge.alpha);
        found.cells.push(cell);
        found.lines.push(lines);
    }
    Some(found)
}

/// Whether each level of the factor sets exactly one rate, different from the others.
pub(crate) fn says_the_rate(bakeoff: &Bakeoff, factor: &Factor) -> bool {
    let mut rates: BTreeMap<&String, BTreeSet<u64>> = BTreeMap::new();
    for (trial, run) in bakeoff.sealed() {
        let Some(level) = trial.levels.get(&factor.name) else { return false };
        let Some(per_s) = run.load.as_ref().and_then(|load| load.settings.pace.per_s()) else {
            return false;
        };
        rates.entry(level).or_default().insert(per_s.to_bits());
    }
    let distinct: BTreeSet<u64> = rates.values().flatten().copied().collect();
    rates.values().all(|of_level| of_level.len() == 1) && distinct.len() == rates.len() && rates.len() >= 2
}

/// Slopes and lines of one configuration, block by block.
fn cell(levels: Levels, at_rates: &[&Seen], alpha: f64) -> (Cell, Vec<Maybe<Line>>) {
    let mut blocks: BTreeMap<u32, Vec<(&Trial, &Run)>> = BTreeMap::new();
    for (trial, run) in at_rates.iter().flat_map(|seen| &seen.sealed) {
        blocks.entry(trial.block).or_default().push((trial, run));
    }
    // A block that lacks a rate has no line: it fell out if one of its trials did, else it has not ended.
    let fell_out = at_rates.iter().flat_map(|seen| seen.fell_out.iter().copied()).collect::<BTreeSet<u32>>();
    let redone = at_rates.iter().flat_map(|seen| seen.redone.iter().copied()).collect();
    let abandoned = at_rates.iter().flat_map(|seen| seen.abandoned.iter().copied()).collect();
    blocks.retain(|block, runs| runs.len() == at_rates.len() && !fell_out.contains(block));

    let lines: Vec<Maybe<Line>> = blocks.values().map(|runs| line(runs)).collect();
    let known: Vec<&Line> = lines.iter().filter_map(|line| line.as_ref().ok()).collect();
    let curved = lack_of_fit(&known).filter(|p| *p < LACK_OF_FIT_P_MIN).map(|p| {
        Missing::because(format!(
            "the server's CPU time does not grow in proportion to the rate (lack of fit, p = {p:.2e}): there \
             is no single cost per event"
        ))
    });
    let values = blocks
        .values()
        .zip(&lines)
        .map(|(runs, line)| BlockValue {
            block: runs[0].0.block,
            series: runs[0].0.series,
            run: runs[0].1.header.id,
            value: line.as_ref().map_err(Clone::clone).and_then(|line| value(line, curved.as_ref())),
        })
        .collect();
    let seen = Seen { sealed: Vec::new(), fell_out, redone, abandoned };
    (Cell::with(levels, Metric::CpuPerEvent, values, &seen, alpha), lines)
}

/// The slope as a value, which has a logarithm.
fn value(line: &Line, curved: Option<&Missing>) -> Maybe<Value> {
    if line.slope > 0.0 {
        return Ok(Value { unjudged: curved.cloned(), ..Value::exact(line.slope) });
    }
    Err(Missing::because("the server's CPU time does not grow with the rate"))
}

/// CPU use against the rate in one block.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    slope: f64,
    intercept: f64,
    /// Residual at each rate, as a share of the CPU use there.
    residuals: Vec<f64>,
    /// Slopes between each two rates.
    pairs: Vec<f64>,
}

fn line(runs: &[(&Trial, &Run)]) -> Maybe<Line> {
    let point = |(_, run): &(&Trial, &Run)| {
        let load = run.load.as_ref().ok_or_else(|| Missing::because("the run generated no load"))?;
        not_degraded(load)?;
        let counted_per_s = counted_per_s(run, load)?;
        if events_in_doubt_per_s(run, load)? > DOUBT_RATIO_MAX * counted_per_s {
            return Err(Missing::because(
                "the phase is too short for its commands: the number of commands behind the CPU time is \
                 uncertain by over 1 %",
            ));
        }
        Ok((counted_per_s, cpu_ratio(run)?))
    };
    fit(&runs.iter().map(point).collect::<Maybe<Vec<(f64, f64)>>>()?)
}

/// Weighted least squares: the error of CPU use is proportional to it, so each point weighs 1 / use^2.
///
/// - `points`: events per second, CPU seconds per second.
fn fit(points: &[(f64, f64)]) -> Maybe<Line> {
    if points.iter().any(|(_, used)| *used <= 0.0) {
        return Err(Missing::because("the server used no measurable CPU time"));
    }
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, u)| of(*x, *u) / (u * u)).sum::<f64>();
    let (w, wx, wu) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, u| u));
    let (wxx, wxu) = (sum(&|x, _| x * x), sum(&|x, u| x * u));
    let spread = w * wxx - wx * wx;
    if spread <= 1e-12 * w * wxx {
        return Err(Missing::because("a block has only one rate"));
    }
    let slope = (w * wxu - wx * wu) / spread;
    let intercept = (wu - slope * wx) / w;
    let residuals = points.iter().map(|(x, u)| (u - intercept - slope * x) / u).collect();
    let between = |(i, a): (usize, &(f64, f64))| {
        let rise = |b: &(f64, f64)| (b.1 - a.1) / (b.0 - a.0);
        points[i + 1..].iter().map(rise).filter(|rise| rise.is_finite()).collect::<Vec<f64>>()
    };
    let pairs = points.iter().enumerate().flat_map(between).collect();
    Ok(Line { slope, intercept, residuals, pairs })
}

/// p of the test that the residuals at each rate are only noise between blocks; `None` if there are too few
/// rates or blocks.
///
/// # Source
///
/// Draper and Smith, *Applied Regression Analysis*, 3rd ed. (1998), section 2.1, with blocks as repeats.
fn lack_of_fit(lines: &[&Line]) -> Option<f64> {
    let rates = lines.first()?.residuals.len();
    let blocks = lines.len();
    if rates < 3 || blocks < 2 {
        return None;
    }
    let mean = |rate: usize| lines.iter().map(|l| l.residuals[rate]).sum::<f64>() / blocks as f64;
    let means: Vec<f64> = (0..rates).map(mean).collect();
    let free = (rates - 2) as f64;
    let of_curve = blocks as f64 * means.iter().map(|m| m * m).sum::<f64>() / free;
    let about: f64 = lines
        .iter()
        .flat_map(|l| l.residuals.iter().zip(&means).map(|(residual, mean)| (residual - mean).powi(2)))
        .sum();
    let df = free * (blocks as f64 - 1.0);
    let of_noise = about / df;
    if of_noise <= 0.0 {
        return None;
    }
    Some(FisherSnedecor::new(free, df).ok()?.sf(of_curve / of_noise))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    /// 200 us per event and a background of 0.3 CPUs: one point at the highest rate would give 238 us.
    fn points(chance: &mut SplitMix, curve: f64) -> Vec<(f64, f64)> {
        let used = |x: f64| 0.3 + 200e-6 * x + curve * x * x;
        [1_000.0, 3_000.0, 5_000.0, 8_000.0].map(|x| (x, used(x) * (1.0 + 0.01 * chance.normal()))).to_vec()
    }

    #[test]
    fn the_background_is_apart_from_what_an_event_costs() {
        let mut chance = SplitMix(7);
        let lines: Vec<Line> = (0..400).map(|_| fit(&points(&mut chance, 0.0)).unwrap()).collect();
        let mean = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>() / lines.len() as f64;
        let (slope, intercept) = (mean(|l| l.slope), mean(|l| l.intercept));
        assert!((slope / 200e-6 - 1.0).abs() < 0.005, "{slope}");
        assert!((intercept - 0.3).abs() < 0.005, "{intercept}");
    }

    #[test]
    fn a_curve_is_found_and_a_line_is_seldom_taken_for_one() {
        let mut chance = SplitMix(8);
        let mut share = |curve: f64| {
            let bends = |_| {
                let lines: Vec<Line> = (0..6).map(|_| fit(&points(&mut chance, curve)).unwrap()).collect();
                lack_of_fit(&lines.iter().collect::<Vec<_>>()).unwrap() < LACK_OF_FIT_P_MIN
            };
            (0..300).map(bends).filter(|b| *b).count()
        };
        // Three standard errors over 1 % of 300 are 8.
        let (line, curve) = (share(0.0), share(8e-9));
        println!("{line} of 300 lines, {curve} of 300 curves");
        assert!(line <= 8 && curve > 270, "{line} {curve}");
    }

    /// Events that cost nothing: the noise alone makes a slope, of either sign.
    #[test]
    fn blocks_whose_cpu_time_does_not_grow_count_too() {
        let mut chance = SplitMix(9);
        let mut lines = |per_event: f64| -> Vec<Line> {
            let mut one = || {
                let noisy = |rate| (rate, (0.3 + per_event * rate) * (1.0 + 0.02 * chance.normal()));
                fit(&[500.0, 1_000.0, 1_500.0].map(noisy)).unwrap()
            };
            (0..200).map(|_| one()).collect()
        };
        let of = |lines: Vec<Line>| {
            let values = lines.iter().zip(1..).map(|(line, block)| BlockValue {
                block,
                series: block,
                run: record::run::RunId::new(record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 0 }, 0),
                value: value(line, None),
            });
            let cell =
                Cell::with(Levels::new(), Metric::CpuPerEvent, values.collect(), &Seen::default(), 0.05);
            let lines = lines.into_iter().map(Ok).collect();
            let slopes =
                Slopes { rate: "rate".into(), compared: Vec::new(), cells: vec![cell], lines: vec![lines] };
            slopes.over_blocks(0.05, 1).remove(0)
        };
        let none = of(lines(0.0));
        let (low, high) = none.interval_s.clone().unwrap();
        assert!(low <= 0.0 && 0.0 <= high, "{none:?}");
        let some = of(lines(2e-6));
        let (low, high) = some.interval_s.clone().unwrap();
        assert!(low <= 2e-6 && 2e-6 <= high, "{some:?}");
    }

    /// Six blocks of four rates; `wild`: the CPU use of one trial is five times as large.
    fn robust(chance: &mut SplitMix, wild: bool) -> (f64, f64, (f64, f64)) {
        let mut blocks: Vec<Vec<(f64, f64)>> = (0..6).map(|_| points(chance, 0.0)).collect();
        blocks[2][3].1 *= if wild { 5.0 } else { 1.0 };
        let lines: Vec<Line> = blocks.iter().map(|points| fit(points).unwrap()).collect();
        let all: Vec<&Line> = lines.iter().collect();
        let mean = all.iter().map(|line| line.slope).sum::<f64>() / 6.0;
        (mean, theil_sen(&all).unwrap(), robust_interval(&all, 0.05, 3).unwrap())
    }

    #[test]
    fn a_wild_trial_moves_the_mean_slope_and_hardly_that_of_theil_and_sen() {
        let (mean, robust, (low, high)) = robust(&mut SplitMix(10), true);
        assert!((robust / 200e-6 - 1.0).abs() < 0.02, "{robust}");
        assert!((mean / 200e-6 - 1.0).abs() > 2.0 * (robust / 200e-6 - 1.0).abs(), "{mean} {robust}");
        assert!(low < 200e-6 && 200e-6 < high, "{low} {high}");
    }

    #[test]
    fn the_bootstrap_covers_the_slope_as_often_as_promised() {
        let mut chance = SplitMix(11);
        let covers = |_: &u32| {
            let (_, _, (low, high)) = robust(&mut chance, false);
            low <= 200e-6 && 200e-6 <= high
        };
        let covered = (0..300).filter(covers).count();
        println!("{covered} of 300 intervals of the slope of Theil and Sen cover 200 us");
        // 95 % less two standard errors of the simulation.
        assert!(covered >= 277, "{covered}");
    }

    #[test]
    fn rates_that_do_not_differ_have_no_line() {
        assert!(fit(&[(500.0, 0.2), (500.0, 0.21)]).is_err());
        assert!(fit(&[(500.0, 0.0), (600.0, 0.21)]).is_err());
        assert!(fit(&[(500.0, 0.2)]).is_err());
        assert_eq!(lack_of_fit(&[]), None);
    }
}
