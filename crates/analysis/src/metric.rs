//! One number of a run, by which configurations are compared.

use record::bakeoff::Metric;
use record::missing::{Maybe, Missing};
use record::run::Run;

use crate::machine::machine;

/// What a run says about a metric: events per second, seconds, or CPU seconds per event.
///
/// Positive and finite, so that it has a logarithm. The 99th percentile is of response time where there is one, else
/// (closed loop) of service time.
///
/// # Errors
///
/// Why the run cannot say: it drove no load, nothing was done, unfinished events reach the percentile, or the CPUs
/// were not watched throughout.
pub fn value(run: &Run, metric: Metric) -> Maybe<f64> {
    let load = run.load.as_ref().ok_or_else(|| Missing::because("the run drove no load"))?;
    if load.counts.done == 0 {
        return Err(Missing::because("no event was done"));
    }
    let value = match metric {
        Metric::Throughput => load.achieved_per_s,
        Metric::P99 => {
            let summary = match &load.response {
                Ok(response) => response.summary(),
                Err(_) => load.service.summary(),
            };
            let summary = summary.ok_or_else(|| Missing::because("no latency was recorded"))?;
            if summary.lower_bounds.contains(&"p99") {
                return Err(Missing::because("unfinished events reach the 99th percentile"));
            }
            summary.quantiles_ns[record::histogram::QUANTILES
                .iter()
                .position(|(name, _)| *name == "p99")
                .expect("p99 is one of the quantiles that every summary carries")] as f64
                * 1e-9
        }
        Metric::CpuPerEvent => machine(load, &run.cpu).busy_cpu_s? / load.counts.done as f64,
    };
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Missing::because(format!("{} is {value}, which has no logarithm", metric.word())))
    }
}
