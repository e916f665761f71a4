//! Latency of a cell at every percentile, with the agreement between its runs.

use record::bakeoff::{Bakeoff, Levels};
use record::histogram::{CensoredHistogram, Histogram, is_held};
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};

use crate::metric::latencies;
use crate::paired::Paired;

/// A latency distribution over all sealed runs of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    /// Whether this is response time; otherwise (closed loop) service time.
    pub is_response: bool,
    /// Number of merged runs.
    pub runs: usize,
    /// Number of events that were due.
    pub events: u64,
    /// Points at rising quantiles.
    pub points: Vec<SpectrumPoint>,
}

/// A latency at one quantile.
#[derive(Debug, Clone, PartialEq)]
pub struct SpectrumPoint {
    /// The quantile, in [0, 1).
    pub quantile: f64,
    /// Value of the merged distribution; never a mean of percentiles.
    pub latency_ns: u64,
    /// Whether unfinished, failed or skipped events could still raise it.
    pub at_least: bool,
    /// t interval over the runs' own values, computed in logs; missing with fewer than two runs, and if a run
    /// has no separate value there.
    pub interval_ns: Maybe<(f64, f64)>,
}

/// Merges the latencies of all sealed runs of a cell, without loss, and reads them at `quantiles`.
///
/// An event without any latency counts as slower than all others. Quantiles with fewer than one event above
/// them are left out.
///
/// # Errors
///
/// No run of the cell is sealed, or the runs mix open and closed loop.
pub fn spectrum(bakeoff: &Bakeoff, levels: &Levels, quantiles: &[f64]) -> Maybe<Spectrum> {
    let runs = bakeoff.sealed().filter(|(t, _)| t.levels == *levels);
    let loads: Vec<&LoadRecord> = runs.filter_map(|(_, run)| run.load.as_ref()).collect();
    let Some(first) = loads.first() else {
        return Err(Missing::because("no run of this cell was sealed"));
    };
    let is_response = first.response.is_ok();
    if loads.iter().any(|l| l.response.is_ok() != is_response) {
        return Err(Missing::because("some runs are open-loop and others closed-loop"));
    }
    let each: Vec<Due> = loads.iter().map(|load| Due::of(latencies(load))).collect();
    let mut all = (CensoredHistogram::default(), 0);
    for (latency, without_latency) in loads.iter().map(|load| latencies(load)) {
        all.0.add(latency);
        all.1 += without_latency;
    }
    let all = Due::of((&all.0, all.1));
    let point = |quantile: f64| {
        let (latency_ns, at_least) = all.at(quantile)?;
        let interval_ns = between(&each, quantile, bakeoff.judge.alpha);
        Some(SpectrumPoint { quantile, latency_ns, at_least, interval_ns })
    };
    let points = quantiles.iter().filter_map(|q| point(*q)).collect();
    Ok(Spectrum { is_response, runs: loads.len(), events: all.events, points })
}

/// Latencies of the events that were due.
struct Due<'a> {
    known: &'a Histogram,
    /// With unfinished events at the time that they had lasted.
    merged: Histogram,
    /// With those that have no latency.
    events: u64,
}

impl<'a> Due<'a> {
    fn of((latency, without_latency): (&'a CensoredHistogram, u64)) -> Self {
        let merged = latency.merged();
        Self { known: &latency.known, events: merged.count() + without_latency, merged }
    }

    /// Latency at a quantile, and whether it is a lower bound; `None` if no event is above it.
    fn at(&self, quantile: f64) -> Option<(u64, bool)> {
        if !is_held(self.events, quantile) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most the number of events"
        )]
        let rank = ((quantile * self.events as f64 - 1e-6).ceil() as u64).max(1);
        let value = self.merged.bucket_of_rank(rank.min(self.merged.count()))?.1;
        Some((value, self.known.count_at_or_below(value) < rank))
    }
}

fn between(each: &[Due], quantile: f64, alpha: f64) -> Maybe<(f64, f64)> {
    let value = |due: &Due| match due.at(quantile) {
        None => Err(Missing::because("a run has too few events for this percentile")),
        Some((_, true)) => Err(Missing::because("events without an end leave a run without a value there")),
        Some((ns, false)) => {
            let ln = (ns.max(1) as f64).ln();
            Ok((ln, ln))
        }
    };
    let logs = each.iter().map(value).collect::<Maybe<Vec<_>>>()?;
    let paired =
        Paired::in_order(&logs).ok_or_else(|| Missing::because("an interval needs at least 2 runs"))?;
    let (low, high) = paired.interval(alpha);
    Ok((low.exp(), high.exp()))
}
