//! Causes of the variation within trials: stolen time, placement of threads, I/O.
//!
//! Regression over the intervals of all trials, without the trials' means, gives the share of each. The
//! causes may overlap, so their shares need not add up.

use record::bakeoff::Bakeoff;
use record::block_io::IoInterval;
use record::cpu::CpuInterval;
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::run::Run;
use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use crate::intervals::{Interval, intervals};
use crate::mean::{AR1_MAX, unbiased};

/// Level of the test that a cause explains anything.
const CAUSE_ALPHA: f64 = 0.01;

/// Part of the variation within trials that goes with block I/O.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfIo {
    /// Share of the variation; 0 if that may be chance, or if I/O rises and falls with the work itself.
    pub ratio: f64,
    /// The number of the better evidence.
    pub by: IoEvidence,
    /// Correlation of that number with the logarithm of the value, without the trials' means.
    pub correlation: f64,
}

/// Number of an interval that shows what I/O did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoEvidence {
    /// Mean time of a request to a block device.
    Wait,
    /// Bytes that block devices transferred.
    Bytes,
}

impl IoEvidence {
    /// Words on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wait => "time per block request",
            Self::Bytes => "bytes of block requests",
        }
    }
}

/// Value of which the noise is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Events per second of a closed loop.
    Throughput,
    /// Mean latency of an open loop: its rate is set.
    Latency,
}

/// End in nanoseconds since the start of the measured phase, and level, of each interval. An interval without
/// events has a rate of 0 and no latency.
pub(super) fn levels(load: &LoadRecord, of: Subject) -> Vec<(u64, f64)> {
    let level = |interval: &Interval<'_>| match of {
        Subject::Throughput => Some(interval.ended_per_s()),
        Subject::Latency => interval.latencies().summary().map(|summary| summary.mean_ns),
    };
    intervals(load).iter().filter_map(|interval| Some((interval.until_ns, level(interval)?))).collect()
}

/// Share of the variation within trials that goes with stolen time.
pub(super) fn steal(bakeoff: &Bakeoff, of: Subject) -> Maybe<f64> {
    of_cpus(bakeoff, of, |interval| interval.mean(|cpu| cpu.stolen_ratio.clone()))
}

/// Share of the variation within trials that goes with an uneven use of the CPUs.
///
/// The CPUs on which threads ran are known of whole trials only, so they cannot explain what varies within.
pub(super) fn placement(bakeoff: &Bakeoff, of: Subject) -> Maybe<f64> {
    of_cpus(bakeoff, of, imbalance)
}

fn of_cpus(bakeoff: &Bakeoff, of: Subject, cause: fn(&CpuInterval) -> Maybe<f64>) -> Maybe<f64> {
    let found = correlated(bakeoff, of, CAUSE_ALPHA, |run, levels| {
        let Some(first) = run.cpu.first() else {
            return Err(Missing::because("the CPUs were not watched"));
        };
        let at = |i: &CpuInterval| -> Maybe<Option<Caused>> { Ok(Some((i.from_ns, i.until_ns, cause(i)?))) };
        beside(run.cpu.iter().map(at), first.from_ns, levels)
    });
    Ok(found?.as_cause(of))
}

/// Part of the variation within trials that goes with I/O, by the better of two numbers.
///
/// The mean time of a request serves better than the time of all requests: if all threads of a closed loop
/// wait for a slow device, the latter does not change.
pub(super) fn io(bakeoff: &Bakeoff, of: Subject) -> Maybe<OfIo> {
    let evidence = |by: IoEvidence| -> Maybe<OfIo> {
        // Two numbers are tried.
        let found = correlated(bakeoff, of, CAUSE_ALPHA / 2.0, |run, levels| {
            let Some(load) = run.load.as_ref().filter(|_| !run.instruments.io.is_empty()) else {
                let asked = run.instruments.missing.get("io").cloned();
                return Err(asked.unwrap_or_else(|| Missing::because("`io` is not among the instruments")));
            };
            let at = |i: &IoInterval| -> Maybe<Option<Caused>> {
                Ok(of_interval(i, by)?.map(|number| (i.from_ns, i.until_ns, number)))
            };
            beside(run.instruments.io.iter().map(at), load.measured_from_ns, levels)
        })?;
        Ok(OfIo { ratio: found.as_cause(of), by, correlation: found.correlation })
    };
    match (evidence(IoEvidence::Wait), evidence(IoEvidence::Bytes)) {
        (Ok(wait), Ok(bytes)) => Ok(if bytes.ratio > wait.ratio { bytes } else { wait }),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(why), Err(_)) => Err(why),
    }
}

/// The number of an interval; `None` if no request ended in it, which has no time.
fn of_interval(interval: &IoInterval, by: IoEvidence) -> Maybe<Option<f64>> {
    if !interval.lost.is_empty() {
        return Err(Missing::because("block requests were lost"));
    }
    let total = interval.total();
    Ok(match by {
        IoEvidence::Bytes => Some(total.bytes as f64 / interval.seconds()),
        IoEvidence::Wait => total.from_start.mean_ns().or_else(|| total.from_issue.mean_ns()),
    })
}

/// Start, end and cause of an interval.
type Caused = (u64, u64, f64);

/// Variation that one cause explains.
struct Explained {
    ratio: f64,
    correlation: f64,
}

impl Explained {
    /// The share, if the number goes against the work: with lower throughput, or with higher latency.
    ///
    /// More work means more I/O, busier CPUs, and more time to steal. A number that rises with throughput, or
    /// falls with latency, is an effect and not a cause.
    fn as_cause(&self, of: Subject) -> f64 {
        if (self.correlation < 0.0) == (of == Subject::Throughput) { self.ratio } else { 0.0 }
    }
}

/// Variation that a cause explains over all trials that have it.
///
/// - `of_trial`: cause and ln level of the intervals of a trial, both without their means.
fn correlated(
    bakeoff: &Bakeoff,
    of: Subject,
    alpha: f64,
    of_trial: impl Fn(&Run, &[(u64, f64)]) -> Maybe<Vec<(f64, f64)>>,
) -> Maybe<Explained> {
    let (mut trials, mut why) = (Vec::new(), None);
    for (_, run) in bakeoff.sealed() {
        let Some(load) = &run.load else { continue };
        // Blocks of a control arm have no instruments.
        match of_trial(run, &levels(load, of)) {
            Ok(own) if own.len() >= 3 => trials.push(own),
            Ok(_) => {}
            Err(missing) => why = Some(missing),
        }
    }
    match why {
        Some(why) if trials.is_empty() => Err(why),
        _ => explained(&trials, alpha),
    }
}

/// Largest difference of the CPUs' use in an interval.
fn imbalance(interval: &CpuInterval) -> Maybe<f64> {
    let busy = interval.cpus.iter().map(record::cpu::CpuSample::busy_ratio).collect::<Maybe<Vec<f64>>>()?;
    let most = busy.iter().copied().fold(0.0, f64::max);
    Ok(most - busy.iter().copied().fold(most, f64::min))
}

/// Cause and ln level of each interval of a trial, both without their means.
///
/// - `causes`: start, end and cause of each interval; `None` of an interval that has none.
/// - `origin_ns`: start of the measured phase.
fn beside(
    causes: impl Iterator<Item = Maybe<Option<Caused>>>,
    origin_ns: u64,
    levels: &[(u64, f64)],
) -> Maybe<Vec<(f64, f64)>> {
    let mut pairs = Vec::new();
    for cause in causes {
        let Some((from_ns, until_ns, cause)) = cause? else { continue };
        let end_ns = until_ns.saturating_sub(origin_ns);
        let length_ns = until_ns.saturating_sub(from_ns);
        let level = levels.iter().find(|(end, _)| end.abs_diff(end_ns) < length_ns / 4);
        if let Some((_, level)) = level.filter(|(_, level)| *level > 0.0) {
            pairs.push((cause, level.ln()));
        }
    }
    Ok(without_means(pairs))
}

fn without_means(pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    pairs.into_iter().map(|p| (p.0 - x, p.1 - y)).collect()
}

/// R^2 of one cause over all trials; 0 if an F test at `alpha` does not find it.
///
/// Neighboring intervals are alike, in the cause and in the level. Two such series correlate by chance more
/// than independent ones: they are worth fewer intervals than there are, by both of their memories.
///
/// - `trials`: pairs of each trial in order of time, without the trial's means.
///
/// # Source
///
/// M. S. Bartlett, *Journal of the Royal Statistical Society* 98 (1935), 536-543.
fn explained(trials: &[Vec<(f64, f64)>], alpha: f64) -> Maybe<Explained> {
    let all = || trials.iter().flatten();
    let df = all().count() as f64 - trials.len() as f64 - 1.0;
    if df < 3.0 {
        return Err(Missing::because("too few intervals"));
    }
    let sum = |of: fn(&(f64, f64)) -> f64| all().map(of).sum::<f64>();
    let (xx, xy, yy) = (sum(|p| p.0 * p.0), sum(|p| p.0 * p.1), sum(|p| p.1 * p.1));
    if xx <= 0.0 || yy <= 0.0 {
        return Ok(Explained { ratio: 0.0, correlation: 0.0 });
    }
    let correlation = (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0);
    let share = correlation * correlation;
    let memory = (memory(trials, |p| p.0) * memory(trials, |p| p.1)).max(0.0);
    let worth = (df * (1.0 - memory) / (1.0 + memory)).max(1.0);
    let f = share / (1.0 - share).max(1e-12) * worth;
    let p = FisherSnedecor::new(1.0, worth).map_or(1.0, |law| law.sf(f));
    Ok(Explained { ratio: if p < alpha { share } else { 0.0 }, correlation })
}

/// Correlation of neighbors within trials, without the bias that the trials' means cause.
fn memory(trials: &[Vec<(f64, f64)>], of: fn(&(f64, f64)) -> f64) -> f64 {
    let squares: f64 = trials.iter().flatten().map(|p| of(p).powi(2)).sum();
    let products: f64 =
        trials.iter().flat_map(|own| own.windows(2)).map(|pair| of(&pair[0]) * of(&pair[1])).sum();
    let each = trials.iter().map(Vec::len).sum::<usize>() as f64 / trials.len() as f64;
    unbiased(products / squares, each).clamp(-AR1_MAX, AR1_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;

    #[test]
    fn a_cause_has_its_share_and_chance_has_none() {
        let mut chance = SplitMix(4);
        let pairs: Vec<(f64, f64)> = (0..200)
            .map(|_| {
                let x = chance.normal();
                (x, x + chance.normal())
            })
            .collect();
        let share = |pairs: &[(f64, f64)]| explained(&[pairs.to_vec()], CAUSE_ALPHA).map(|found| found.ratio);
        assert!((share(&pairs).unwrap() - 0.5).abs() < 0.1);
        let found = (0..500).filter(|_| {
            let pairs: Vec<(f64, f64)> = (0..40).map(|_| (chance.normal(), chance.normal())).collect();
            share(&pairs).unwrap() > 0.0
        });
        assert!(found.count() <= 15);
        assert!(share(&[(0.0, 1.0); 20]).unwrap().abs() < f64::EPSILON, "a machine without steal");
        assert!(share(&pairs[..4]).is_err());
    }

    /// Two unrelated autoregressions of 0.8, or one that causes the other.
    fn named((trials, intervals): (u32, u32), (a, b): (f64, f64), is_cause: bool) -> u32 {
        let mut chance = SplitMix(u64::from(trials * intervals));
        let mut next = |now: &mut f64, phi: f64| {
            *now = phi * *now + (1.0 - phi * phi).sqrt() * chance.normal();
            *now
        };
        let mut of_bakeoff = || -> Vec<Vec<(f64, f64)>> {
            let mut of_trial = || {
                let (mut x, mut y) = (0.0, 0.0);
                let mut both = || (next(&mut x, a), next(&mut y, b));
                // The beginning does not count.
                for _ in 0..30 {
                    both();
                }
                let drawn: Vec<(f64, f64)> = (0..intervals).map(|_| both()).collect();
                let caused = drawn.iter().map(|p| (p.0, if is_cause { p.0 + p.1 } else { p.1 }));
                without_means(caused.collect())
            };
            (0..trials).map(|_| of_trial()).collect()
        };
        let is_named = |_: &u32| explained(&of_bakeoff(), CAUSE_ALPHA).unwrap().ratio > 0.0;
        u32::try_from((0..400).filter(is_named).count()).expect("a few")
    }

    #[test]
    fn series_with_a_memory_that_have_nothing_in_common_explain_nothing() {
        for size in [(12, 10), (12, 40), (24, 20), (1, 60)] {
            for memories in [(0.0, 0.0), (0.8, 0.0), (0.8, 0.8), (-0.5, -0.5)] {
                let (by_chance, caused) = (named(size, memories, false), named(size, memories, true));
                println!("{size:?} {memories:?}: {by_chance} of 400 by chance, {caused} of 400 with a cause");
                // 1 % of 400, and two standard errors; the memory of one trial is a guess.
                assert!(by_chance <= if size.0 == 1 { 16 } else { 8 }, "{size:?} {memories:?}: {by_chance}");
                assert!(caused >= 360 || size.0 == 1, "{size:?} {memories:?}: {caused}");
            }
        }
    }
}
