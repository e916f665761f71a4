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
    /// Time of a command, from its start to its exit.
    Time,
    /// CPU time of a command and of the children that it waited for.
    Cpu,
}

words!(Metric {
    Throughput = "throughput",
    P99 = "p99",
    CpuPerEvent = "cpu-per-event",
    Time = "time",
    Cpu = "cpu",
});

impl Metric {
    /// Metrics of a load, and so of a bake-off.
    pub const OF_LOADS: [Self; 3] = [Self::Throughput, Self::P99, Self::CpuPerEvent];
    /// Metrics of a command that ran as a whole.
    pub const OF_COMMANDS: [Self; 2] = [Self::Time, Self::Cpu];

    /// Metric of a load by its word.
    pub fn of_load(word: &str) -> Option<Self> {
        Self::OF_LOADS.into_iter().find(|metric| metric.word() == word)
    }

    /// Whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// Unit of a value.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "1/s",
            Self::P99 | Self::CpuPerEvent | Self::Time | Self::Cpu => "s",
        }
    }

    /// Fewest events of a trial for which the metric is judged.
    ///
    /// 10,000 events leave 100 beyond their p99. With fewer, the bias of a sample's p99 depends on the number
    /// of events, so it differs between a slower and a faster configuration.
    pub fn events_min(self) -> u64 {
        match self {
            Self::P99 => 10_000,
            Self::Throughput | Self::CpuPerEvent | Self::Time | Self::Cpu => 1,
        }
    }
}
