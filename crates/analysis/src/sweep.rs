//! Reads at every buffer size: the cost of a call, and which shifts of the curve belong to the system and
//! which to interference.
//!
//! Every size is measured once per round, in a separate random order, so interference meets sizes at random.
//! A shift in *time* order is interference, and the probes' values at that moment may name its cause. A
//! shift, a band or an effect in *size* order counts only if both halves of the rounds show it.

mod bands;
mod compare;
mod cost;
mod curve;
mod multiples;
mod point;
mod round;
mod speed;
mod time;

use std::collections::BTreeMap;

use record::bakeoff::Bakeoff;
use record::missing::{Maybe, Missing};
use record::run::Run;

use crate::change_point::{jump_near, jumps};
use crate::robust::{mad, mean_and_error, median};

pub use bands::Band;
use bands::detrended;
pub use compare::{Place, Versus, versus};
pub use cost::Cost;
pub use curve::{Estimate, Shape};
pub use multiples::Multiple;
use point::EFFECT_MIN;
pub use point::Point;
pub(crate) use round::Round;
pub use speed::Speed;
pub use time::TimeShift;

/// Result of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Every call on every amount of data, in the plan's order.
    pub cells: Vec<Cell>,
    /// Ways to start a program, and the time that each takes.
    pub starts: Vec<(String, Maybe<Estimate>)>,
}

/// One call on one amount of data.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the call.
    pub how: String,
    /// Amount of data, such as `L2`.
    pub data: String,
    /// Number of rounds.
    pub rounds: u32,
    /// Every size, rising.
    pub points: Vec<Point>,
    /// Time of a call as a sum of three costs.
    pub cost: Maybe<Cost>,
    /// Plateau, knee and peak.
    pub shape: Maybe<Shape>,
    /// Sizes that are multiples of a number, compared with their neighbors, one entry for each number.
    pub multiples: Vec<Multiple>,
    /// Bands: repetitions that both halves of the rounds show.
    pub bands: Vec<Band>,
    /// Shifts of the size curve that both halves of the rounds show.
    pub size_shifts: Vec<SizeShift>,
    /// Shifts in time, in time order.
    pub time_shifts: Vec<TimeShift>,
    /// Steadiness of the machine. Costs and plateau of an unsteady machine have no interval.
    pub speed: Maybe<Speed>,
    /// 100 minus the roughness of the size curve, in percent of the curve.
    pub smoothness: Maybe<f64>,
    /// 100 minus the variation of the reference, in percent. Missing if the machine changed its speed: the
    /// median deviation does not detect a change during less than half of the time.
    pub quietness: Maybe<f64>,
    /// Spread of a size's values over the rounds, median over sizes, as a share.
    pub spread_ratio: Maybe<f64>,
    /// Correlation of neighbors in time, of neighbors in size, and of the two halves of the rounds.
    pub correlations: Maybe<[f64; 3]>,
}

/// A shift of the size curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeShift {
    /// The sizes before and after it.
    pub between: (u64, u64),
    /// Time of a call after it, divided by that before it.
    pub ratio: f64,
}

/// Maximum number of points in a curve that is searched; more are binned.
const BINS_MAX: usize = 4_000;

/// Reads and judges a sweep.
pub fn sweep(bakeoff: &Bakeoff) -> Sweep {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut sorted: Vec<_> = bakeoff.trials.iter().collect();
    let place = |name: &str, value: &str| {
        let factor = bakeoff.factors.iter().find(|f| f.name == name);
        factor.and_then(|f| f.values.iter().position(|v| v == value))
    };
    sorted.sort_by_key(|t| (place("how", &t.levels["how"]), place("data", &t.levels["data"])));
    for trial in sorted {
        let name = (trial.levels["how"].clone(), trial.levels["data"].clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (mut cells, mut starts) = (Vec::new(), Vec::new());
    for (how, data) in names {
        let rounds = rounds(bakeoff, &how, &data);
        let only_starts = matches!(how.as_str(), "posix-spawn" | "fork-exec");
        if only_starts {
            let medians: Vec<f64> = rounds
                .iter()
                .filter_map(|r| median(&r.points.iter().map(|p| p.2).collect::<Vec<_>>()))
                .collect();
            starts.push((how, curve::estimate(&medians)));
        } else {
            cells.push(cell(how, data, &rounds));
        }
    }
    Sweep { cells, starts }
}

/// Sealed rounds of a cell.
fn rounds(bakeoff: &Bakeoff, how: &str, data: &str) -> Vec<Round> {
    let of_cell = |(trial, _): &(&record::bakeoff::Trial, &Run)| {
        trial.levels["how"] == how && trial.levels["data"] == data
    };
    let began_ns = bakeoff.header.anchor.monotonic_ns;
    let mut rounds: Vec<(u32, Round)> =
        bakeoff.sealed().filter(of_cell).map(|(trial, run)| (trial.block, round(run, began_ns))).collect();
    rounds.sort_by_key(|(block, _)| *block);
    rounds.into_iter().map(|(_, round)| round).collect()
}

fn round(run: &Run, began_ns: u64) -> Round {
    let offset_s = run.header.anchor.monotonic_ns.saturating_sub(began_ns) as f64 * 1e-9;
    let mut round = Round { points: Vec::new(), references: Vec::new(), windows: BTreeMap::new() };
    for sample in &run.series {
        let at_s = offset_s + sample.t_ms as f64 * 1e-3;
        let size = sample.labels.strip_prefix("size=").and_then(|n| n.parse().ok());
        match (sample.name.as_str(), size) {
            ("call_ns", Some(size)) => round.points.push((at_s, size, sample.value)),
            ("reference_call_ns", _) => round.references.push((at_s, sample.value)),
            _ => round.windows.entry(sample.name.to_string()).or_default().push((at_s, sample.value)),
        }
    }
    round
}

fn cell(how: String, data: String, rounds: &[Round]) -> Cell {
    let steady: Vec<BTreeMap<u64, f64>> = steadied(rounds);
    let mut points = middle(&steady);
    let own = at_their_own_speed(rounds, &steady);
    let (mut cost, mut shape) = (cost::cost(&own), curve::shape(&own));
    let time_shifts = cost.as_ref().map(|c| time::shifts(rounds, c)).unwrap_or_default();
    let speed = cost.as_ref().map(|c| speed::speed(rounds, c, &time_shifts)).map_err(Clone::clone);
    if let (Ok(cost), Ok(Speed { is_steady: false, .. })) = (&mut cost, &speed) {
        speed::without_intervals(cost, shape.as_mut().ok());
    }
    for point in &mut points {
        point.fitted_ns = cost.as_ref().map_or(f64::NAN, |c| c.call_ns(point.size_bytes));
    }
    let halves = halves(&steady);
    let residual = |points: &[Point]| -> Vec<(u64, f64)> {
        let of =
            |p: &Point| cost.as_ref().map_or(p.call_ns.ln(), |c| (p.call_ns / c.call_ns(p.size_bytes)).ln());
        points.iter().map(|p| (p.size_bytes, of(p))).collect()
    };
    let whole = residual(&points);
    let half_points = halves.map(|h| h.map(|rounds| middle(&rounds)));
    let of_halves = half_points.as_ref().map(|h| h.each_ref().map(|points| residual(points)));
    let still = of_halves.as_ref().map(|h| [binned(&h[0]), binned(&h[1])]);
    let curve = binned(&whole);
    let detrended = detrended(&curve);
    let none = || Missing::because("too few sizes were measured, or no round");
    let off: Vec<f64> = detrended.iter().map(|p| p.1).collect();
    let references: Vec<f64> = rounds.iter().flat_map(|r| &r.references).map(|(_, ns)| ns.ln()).collect();
    let quietness = match speed.as_ref().ok().and_then(Speed::sentence) {
        Some(_) => Err(Missing::because("the machine changed its speed")),
        None => mad(&references)
            .filter(|_| references.len() > 2)
            .map(|m| 100.0 * (1.0 - m).max(0.0))
            .ok_or_else(|| Missing::because("there was no reference")),
    };
    Cell {
        rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
        multiples: multiples::multiples(&points, half_points.as_ref()),
        bands: bands::bands(&curve, still.as_ref()),
        size_shifts: size_shifts(&curve, still.as_ref()),
        time_shifts,
        speed,
        smoothness: mad(&off).map(|m| 100.0 * (1.0 - m).max(0.0)).ok_or_else(none),
        quietness,
        spread_ratio: spread(&steady),
        correlations: correlations(rounds, cost.as_ref().ok(), &detrended, of_halves.as_ref()),
        how,
        data,
        points,
        cost,
        shape,
    }
}

/// Time of a call by size in each round, divided by the reference next to it and multiplied by the median
/// reference of all rounds: this removes the machine's own speed.
pub(crate) fn steadied(rounds: &[Round]) -> Vec<BTreeMap<u64, f64>> {
    let all: Vec<f64> = rounds.iter().flat_map(|r| &r.references).map(|r| r.1).collect();
    let middle = median(&all);
    let of = |round: &Round| {
        let clock = smooth(&round.references);
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (at_s, size, ns) in &round.points {
            let speed = middle.and_then(|m| Some(m / beside(&clock, *at_s)?)).unwrap_or(1.0);
            by_size.entry(*size).or_default().push(ns * speed);
        }
        by_size.into_iter().filter_map(|(size, ns)| Some((size, median(&ns)?))).collect()
    };
    rounds.iter().map(of).collect()
}

/// Times of [`steadied`], scaled to each round's own median reference, so that variation between rounds stays
/// in the intervals.
fn at_their_own_speed(rounds: &[Round], steady: &[BTreeMap<u64, f64>]) -> Vec<BTreeMap<u64, f64>> {
    let of = |rounds: &[Round]| {
        median(&rounds.iter().flat_map(|r| &r.references).map(|r| r.1).collect::<Vec<_>>())
    };
    let middle = of(rounds);
    let own = |(round, steady): (&Round, &BTreeMap<u64, f64>)| {
        let speed = of(std::slice::from_ref(round)).zip(middle).map_or(1.0, |(own, middle)| own / middle);
        steady.iter().map(|(size, ns)| (*size, ns * speed)).collect()
    };
    rounds.iter().zip(steady).map(own).collect()
}

/// Running median of five of the reference.
fn smooth(references: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let at = |i: usize| {
        let near = &references[i.saturating_sub(2)..(i + 3).min(references.len())];
        let values: Vec<f64> = near.iter().map(|r| r.1).collect();
        (references[i].0, median(&values).expect("there is one at least"))
    };
    (0..references.len()).map(at).collect()
}

/// Reference at a moment: mean of the two measurements around it.
fn beside(clock: &[(f64, f64)], at_s: f64) -> Option<f64> {
    let after = clock.partition_point(|(t, _)| *t < at_s);
    let value = |i: usize| clock.get(i).map(|(_, ns)| *ns);
    match (after.checked_sub(1).and_then(value), value(after)) {
        (Some(a), Some(b)) => Some(a.midpoint(b)),
        (one, other) => one.or(other),
    }
}

/// Median of each size over the rounds that have it.
fn middle(rounds: &[BTreeMap<u64, f64>]) -> Vec<Point> {
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (size, ns) in rounds.iter().flatten() {
        by_size.entry(*size).or_default().push(*ns);
    }
    by_size
        .into_iter()
        .map(|(size_bytes, values)| Point {
            size_bytes,
            call_ns: median(&values).expect("a size has a value"),
            call_ns_range: (
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(0.0, f64::max),
            ),
            n: u32::try_from(values.len()).unwrap_or(u32::MAX),
            fitted_ns: f64::NAN,
        })
        .collect()
}

/// Odd and even rounds; `None` of fewer than two.
fn halves(rounds: &[BTreeMap<u64, f64>]) -> Option<[Vec<BTreeMap<u64, f64>>; 2]> {
    let every_other = |from: usize| rounds.iter().skip(from).step_by(2).cloned().collect();
    (rounds.len() >= 2).then(|| [every_other(0), every_other(1)])
}

/// Whether the size may be special because of page alignment: a multiple of 512 bytes.
fn is_special(size: u64) -> bool {
    size.is_multiple_of(512)
}

/// The residual without special sizes, averaged in bins of neighbors if there are many.
fn binned(residual: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let plain: Vec<(f64, f64)> =
        residual.iter().filter(|(size, _)| !is_special(*size)).map(|(size, y)| (*size as f64, *y)).collect();
    let per_bin = plain.len().div_ceil(BINS_MAX).max(1);
    let mean = |bin: &[(f64, f64)]| {
        let n = bin.len() as f64;
        (bin.iter().map(|p| p.0).sum::<f64>() / n, bin.iter().map(|p| p.1).sum::<f64>() / n)
    };
    plain.chunks(per_bin).map(mean).collect()
}

fn size_shifts(curve: &[(f64, f64)], halves: Option<&[Vec<(f64, f64)>; 2]>) -> Vec<SizeShift> {
    let Some(halves) = halves else { return Vec::new() };
    let confirmed = |by: f64, x: f64| {
        halves.iter().all(|half| {
            jump_near(half, x)
                .is_some_and(|j| j.by * by > 0.0 && j.z.abs() > 2.5 && j.by.abs() > 0.4 * by.abs())
        })
    };
    let shift = |j: crate::change_point::Jump| {
        let (before, after) = (curve[j.at - 1].0, curve[j.at].0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes are whole and over 0"
        )]
        let between = (before.round() as u64, after.round() as u64);
        confirmed(j.by, before.midpoint(after)).then(|| SizeShift { between, ratio: j.by.exp() })
    };
    jumps(curve, EFFECT_MIN).into_iter().filter_map(shift).collect()
}

/// Median over sizes of the standard deviation over rounds.
fn spread(rounds: &[BTreeMap<u64, f64>]) -> Maybe<f64> {
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (size, ns) in rounds.iter().flatten() {
        by_size.entry(*size).or_default().push(ns.ln());
    }
    let sd = |logs: &Vec<f64>| (logs.len() > 1).then(|| mean_and_error(logs).1 * (logs.len() as f64).sqrt());
    let all: Vec<f64> = by_size.values().filter_map(sd).collect();
    median(&all).ok_or_else(|| Missing::because("an interval needs at least 2 rounds"))
}

fn correlations(
    rounds: &[Round],
    cost: Option<&Cost>,
    by_size: &[(f64, f64)],
    halves: Option<&[Vec<(u64, f64)>; 2]>,
) -> Maybe<[f64; 3]> {
    let none = || Missing::because("this takes two rounds and a few dozen sizes");
    let (cost, halves) = (cost.ok_or_else(none)?, halves.ok_or_else(none)?);
    let in_time: Vec<(f64, f64)> = rounds.iter().flat_map(|r| time::neighbours(r, cost)).collect();
    let in_size: Vec<(f64, f64)> = by_size.windows(2).map(|w| (w[0].1, w[1].1)).collect();
    let still = halves.each_ref().map(|half| detrended(&binned(half)));
    let of_halves: Vec<(f64, f64)> = still[0].iter().zip(&still[1]).map(|(a, b)| (a.1, b.1)).collect();
    let all = [correlation(&in_time), correlation(&in_size), correlation(&of_halves)];
    match all {
        [Some(time), Some(size), Some(halves)] => Ok([time, size, halves]),
        _ => Err(none()),
    }
}

fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 20 {
        return None;
    }
    let n = pairs.len() as f64;
    let (ma, mb) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - ma, p.1 - mb)).sum::<f64>();
    let (ab, aa, bb) = (sum(&|a, b| a * b), sum(&|a, _| a * a), sum(&|_, b| b * b));
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

impl Cell {
    /// All findings as one sentence.
    pub fn verdict(&self) -> String {
        self.findings().join("; ")
    }

    /// The first finding, and the number of others.
    pub fn headline(&self) -> String {
        let findings = self.findings();
        match findings.len() - 1 {
            0 => findings[0].clone(),
            1 => findings.join("; "),
            more => format!("{}; {more} other findings are below", findings[0]),
        }
    }

    /// Findings, each a sentence; at least one.
    fn findings(&self) -> Vec<String> {
        let mut said = Vec::new();
        said.extend(self.multiples.iter().filter(|m| m.is_period).map(Multiple::sentence));
        for shift in &self.size_shifts {
            let word = if shift.ratio < 1.0 { "faster" } else { "slower" };
            let by = 100.0 * (shift.ratio - 1.0).abs();
            said.push(format!("calls are {by:.1} % {word} from {} bytes on", shift.between.1));
        }
        for band in &self.bands {
            said.push(format!(
                "a band repeats every {:.0} bytes, its strongest wave {:.1} % from mean to crest",
                band.period_bytes,
                100.0 * band.amplitude()
            ));
        }
        if said.is_empty() {
            said.push(match self.rounds {
                0 => "it has no valid round".to_owned(),
                1 => "one round cannot confirm an effect of size".to_owned(),
                _ if self.smoothness.is_err() => {
                    "the sizes are too few or too evenly spaced to search for shifts and bands".to_owned()
                }
                _ => "no shift, no band and no special multiple was found".to_owned(),
            });
        }
        if !self.time_shifts.is_empty() {
            said.push(match self.time_shifts.len() {
                1 => "one shift depends on time, not on size".to_owned(),
                n => format!("{n} shifts depend on time, not on size"),
            });
        }
        said.extend(self.speed.as_ref().ok().and_then(Speed::sentence));
        said
    }
}
