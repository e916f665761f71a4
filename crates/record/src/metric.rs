//! Metrics by which configurations are compared.

use crate::run::words;

/// Number by which configurations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Completed events per second.
    Throughput,
    /// 99th percentile of response time; of service time in a closed loop.
    P99,
    /// CPU time of the server's own tasks per completed event.
    CpuPerEvent,
}

words!(Metric { Throughput = "throughput", P99 = "p99", CpuPerEvent = "cpu-per-event" });

impl Metric {
    /// Whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// Fewest events of a trial for which the metric is judged.
    ///
    /// 10,000 events leave 100 beyond their p99. With fewer, the bias of a sample's p99 depends on the number
    /// of events, so it differs between a slower and a faster configuration.
    pub fn events_min(self) -> u64 {
        match self {
            Self::P99 => 10_000,
            Self::Throughput | Self::CpuPerEvent => 1,
        }
    }
}
