//! Numbers over time, in the two long formats of the archive.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::histogram::CompactHistogram;

/// A text that samples share: a clone copies no letters. A series of a million samples has few texts.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedText(Arc<str>);

impl SharedText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// One value of one named series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Milliseconds since the run's anchor; the end of the interval that the value describes.
    pub t_ms: i64,
    /// Host of the measurement.
    pub host: SharedText,
    /// Name, ending in its unit: `offered_per_s`, `cpu_event_ratio`.
    pub name: SharedText,
    /// Labels that distinguish samples of one name: `cpu=1`; may be empty.
    pub labels: SharedText,
    /// The value.
    pub value: f64,
}

/// Series of a run that has more numbers over time than memory holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thinned {
    /// The series, by name, then host, then labels.
    pub series: Vec<ThinnedSeries>,
    /// Values that no measurement has, such as infinity: they are left out.
    pub no_numbers: u64,
}

/// A series with neighboring values merged while it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinnedSeries {
    /// Host of the measurement.
    pub host: SharedText,
    /// Name, ending in its unit.
    pub name: SharedText,
    /// Labels; may be empty.
    pub labels: SharedText,
    /// Number of values.
    pub values: u64,
    /// Mean of all values.
    pub mean: f64,
    /// Smallest of all values.
    pub min: f64,
    /// Largest of all values.
    pub max: f64,
    /// Means over equal parts of the run, in time order, each with the time of its last value in
    /// milliseconds since the run's anchor. A part without a value has none.
    pub points: Vec<(i64, f64)>,
}

impl Sample {
    /// The `labels` of a number that describes a whole trial and comes from a command of the plan.
    pub const OF_TRIAL: &'static str = "of=trial";
}

/// Kind of latency in a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyKind {
    /// Response time, from the intended start to the end: what a user sees.
    Response,
    /// Service time, from the actual start to the end: time in the server.
    Service,
    /// Wait, from the intended start until a worker was free.
    Wait,
    /// Lateness of the generator itself.
    Lateness,
    /// Time from the intended start until the end of the measurement, for an event that is unfinished, or
    /// until it timed out: a lower bound of its response time.
    ResponseAtLeast,
    /// The same for the service time in a closed loop, which has no intended start.
    ServiceAtLeast,
    /// Response time, or service time in a closed loop, of an event that was due, or began, before the
    /// measured phase and ended in it. It is a completion of its interval, and no sample of the phase's
    /// latencies: with it, they would be too long.
    CarriedIn,
    /// Service time of failed tries.
    Failure,
}

impl LatencyKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Response,
        Self::Service,
        Self::Wait,
        Self::Lateness,
        Self::ResponseAtLeast,
        Self::ServiceAtLeast,
        Self::CarriedIn,
        Self::Failure,
    ];

    /// Word in files: the tag of a `.hlog` line, the `kind` of `hist.parquet`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::Wait => "wait",
            Self::Lateness => "lateness",
            Self::ResponseAtLeast => "response-at-least",
            Self::ServiceAtLeast => "service-at-least",
            Self::CarriedIn => "carried-in",
            Self::Failure => "failure",
        }
    }

    /// Kind of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.word() == word)
    }
}

/// Distribution of one kind of latency of one operation over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSlice {
    /// Start of the interval, nanoseconds since the start of the measured phase.
    pub from_ns: u64,
    /// Length of the interval.
    pub for_ns: u64,
    /// Operation: `point-select`; empty for whole events.
    pub operation: String,
    /// Kind of latency.
    pub kind: LatencyKind,
    /// The values.
    pub histogram: CompactHistogram,
}

impl HistogramSlice {
    /// Whether it is part of the latencies of whole events, or counts their completions.
    ///
    /// - `latency`: kind of those latencies: response, or service in a closed loop.
    pub fn is_of_events(&self, latency: LatencyKind) -> bool {
        let is_of_kind = match self.kind {
            LatencyKind::Response | LatencyKind::ResponseAtLeast => latency == LatencyKind::Response,
            LatencyKind::Service | LatencyKind::ServiceAtLeast => latency == LatencyKind::Service,
            LatencyKind::CarriedIn => true,
            LatencyKind::Wait | LatencyKind::Lateness | LatencyKind::Failure => false,
        };
        is_of_kind && self.operation.is_empty()
    }
}
