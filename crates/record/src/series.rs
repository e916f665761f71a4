//! Numbers over time, in the two long forms that the archive keeps.

use crate::histogram::CompactHistogram;

/// One value of one named series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Milliseconds since the run's anchor; the end of the interval that the value describes.
    pub t_ms: i64,
    /// The machine it was taken on.
    pub host: String,
    /// What it is, ending in its unit: `offered_per_s`, `cpu_event_ratio`.
    pub name: String,
    /// What tells it from others of the name: `cpu=1`; empty where nothing does.
    pub labels: String,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// The `labels` of a number that describes a whole trial and was asked for by the plan.
    pub const OF_TRIAL: &'static str = "of=trial";
}

/// What kind of latency a distribution holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyKind {
    /// From the intended start to the end: what a user feels.
    Response,
    /// From the actual start to the end: what the server took.
    Service,
    /// From the intended start until a worker was free.
    Wait,
    /// How late the generator itself was.
    Lateness,
    /// From the intended start until we stopped looking at an event that had not ended: a lower bound of its
    /// response time.
    ResponseAtLeast,
    /// Service time of the tries that failed.
    Failure,
}

impl LatencyKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Response, Self::Service, Self::Wait, Self::Lateness, Self::ResponseAtLeast, Self::Failure];

    /// The word in files: the tag of a `.hlog` line, the `kind` of `hist.parquet`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::Wait => "wait",
            Self::Lateness => "lateness",
            Self::ResponseAtLeast => "response-at-least",
            Self::Failure => "failure",
        }
    }

    /// The kind of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.word() == word)
    }
}

/// The distribution of one kind of latency of one operation over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSlice {
    /// Start of the interval, nanoseconds since the start of the measured phase.
    pub from_ns: u64,
    /// Length of the interval.
    pub for_ns: u64,
    /// What was done: `point-select`; empty for whole events.
    pub operation: String,
    /// What was timed.
    pub kind: LatencyKind,
    /// The values.
    pub histogram: CompactHistogram,
}
