//! Metrics by which configurations are compared.

use crate::run::words;

/// Number by which configurations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Completed events per second.
    Throughput,
    /// 99th percentile of response time; of service time in a closed loop.
    P99,
    /// 99.9th percentile of the same times.
    P999,
    /// CPU time of the server's own tasks per completed event.
    CpuPerEvent,
    /// Share of the time of all CPUs that tasks spun for locks of the kernel.
    LockCpu,
    /// Bytes that the server's own processes read from and wrote to storage per completed event.
    IoPerEvent,
    /// Growth of the server's own memory over the measured phase, as a share of its level at the start.
    MemoryGrowth,
    /// Energy of the machine per completed event.
    EnergyPerEvent,
    /// Time of a command, from its start to its exit.
    Time,
    /// CPU time of a command and of the children that it waited for.
    Cpu,
}

words!(Metric {
    Throughput = "throughput",
    P99 = "p99",
    P999 = "p99.9",
    CpuPerEvent = "cpu-per-event",
    LockCpu = "lock-cpu",
    IoPerEvent = "io-per-event",
    MemoryGrowth = "memory-growth",
    EnergyPerEvent = "energy-per-event",
    Time = "time",
    Cpu = "cpu",
});

/// Scale on which two values of a metric are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Ratio of the values.
    Ratio,
    /// Difference of the values, in percentage points: the metric is a share that may be 0, which has no
    /// logarithm. A value is held as e to the share, so that the logarithm of a ratio of two values is the
    /// difference of their shares.
    Points,
}

impl Metric {
    /// Metrics of a load, and so of a bake-off.
    pub const OF_LOADS: [Self; 7] = [
        Self::Throughput,
        Self::P99,
        Self::CpuPerEvent,
        Self::LockCpu,
        Self::IoPerEvent,
        Self::MemoryGrowth,
        Self::EnergyPerEvent,
    ];
    /// Metrics of a load that only a plan or a gate which names them has: their values need more events than
    /// most trials have.
    pub const ON_REQUEST: [Self; 1] = [Self::P999];
    /// Metrics of a command that ran as a whole.
    pub const OF_COMMANDS: [Self; 2] = [Self::Time, Self::Cpu];
    /// Metrics that a plan judges if it names none, as far as its phases are long enough.
    pub const DEFAULT: [Self; 3] = [Self::Throughput, Self::P99, Self::CpuPerEvent];

    /// Metrics that a plan may judge, and a gate may limit.
    pub fn of_plans() -> impl Iterator<Item = Self> {
        Self::OF_LOADS.into_iter().chain(Self::ON_REQUEST)
    }

    /// Metric of a load by its word.
    pub fn of_load(word: &str) -> Option<Self> {
        Self::of_plans().find(|metric| metric.word() == word)
    }

    /// Quantile of the response time, of the metrics that are one.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }

    /// Whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// Scale on which two values are compared.
    pub fn scale(self) -> Scale {
        match self {
            Self::LockCpu | Self::MemoryGrowth => Scale::Points,
            _ => Scale::Ratio,
        }
    }

    /// Unit of a value in documents.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "1/s",
            Self::P99 | Self::P999 | Self::CpuPerEvent | Self::Time | Self::Cpu => "s",
            Self::LockCpu | Self::MemoryGrowth => "1 + share",
            Self::IoPerEvent => "bytes",
            Self::EnergyPerEvent => "J",
        }
    }

    /// Fewest events of a trial for which the metric is judged.
    ///
    /// 10,000 events leave 100 beyond their p99, and 100,000 as many beyond their p99.9. With fewer, the bias
    /// of a sample's percentile depends on the number of events, so it differs between a slower and a faster
    /// configuration.
    pub fn events_min(self) -> u64 {
        match self {
            Self::P99 => 10_000,
            Self::P999 => 100_000,
            _ => 1,
        }
    }
}
