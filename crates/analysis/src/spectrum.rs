//! Latency of a cell at every percentile, with the agreement between its runs.

use record::bakeoff::{Bakeoff, Levels};
use record::histogram::{CensoredHistogram, Histogram};
use record::missing::{Maybe, Missing};
use record::run::Run;

use crate::paired::Paired;

/// A latency distribution over all sealed runs of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    /// Whether this is response time; otherwise (closed loop) service time.
    pub is_response: bool,
    /// Number of merged runs.
    pub runs: usize,
    /// Number of events.
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
    /// Whether unfinished events could still raise it.
    pub at_least: bool,
    /// t interval over the runs' own values, computed in logs; missing with fewer than two runs.
    pub interval_ns: Maybe<(f64, f64)>,
}

/// Merges the latencies of all sealed runs of a cell, without loss, and reads them at `quantiles`.
///
/// Quantiles with fewer than one event above them are left out.
///
/// # Errors
///
/// No run of the cell is sealed, or the runs mix open and closed loop.
pub fn spectrum(bakeoff: &Bakeoff, levels: &Levels, quantiles: &[f64]) -> Maybe<Spectrum> {
    let runs: Vec<&Run> = bakeoff.sealed().filter(|(t, _)| t.levels == *levels).map(|(_, run)| run).collect();
    let loads: Vec<_> = runs.iter().filter_map(|r| r.load.as_ref()).collect();
    let Some(first) = loads.first() else {
        return Err(Missing::because("no run of this cell was sealed"));
    };
    let is_response = first.response.is_ok();
    if loads.iter().any(|l| l.response.is_ok() != is_response) {
        return Err(Missing::because("some runs are open-loop and others closed-loop"));
    }
    let mut all = CensoredHistogram::default();
    let mut each: Vec<Histogram> = Vec::new();
    for load in &loads {
        if let Ok(response) = &load.response {
            all.add(response);
            each.push(response.merged());
        } else {
            all.add(&load.service);
            each.push(load.service.merged());
        }
    }
    let merged = all.merged();
    let events = merged.count();
    let points = quantiles
        .iter()
        .filter(|q| (1.0 - **q) * events as f64 >= 1.0)
        .filter_map(|q| {
            let latency_ns = merged.quantile_ns(*q)?;
            Some(SpectrumPoint {
                quantile: *q,
                latency_ns,
                at_least: !all.at_least.is_empty()
                    && (all.known.count_at_or_below(latency_ns) as f64) < q * events as f64,
                interval_ns: between(&each, *q, bakeoff.judge.alpha),
            })
        })
        .collect();
    Ok(Spectrum { is_response, runs: loads.len(), events, points })
}

fn between(each: &[Histogram], quantile: f64, alpha: f64) -> Maybe<(f64, f64)> {
    let logs: Vec<f64> =
        each.iter().filter_map(|h| h.quantile_ns(quantile)).map(|ns| (ns as f64).ln()).collect();
    let paired = Paired::of(&logs).ok_or_else(|| Missing::because("an interval needs at least 2 runs"))?;
    let (low, high) = paired.interval(alpha);
    Ok((low.exp(), high.exp()))
}
