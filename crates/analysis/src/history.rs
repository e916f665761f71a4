//! Histories: a number over many runs, the moments at which it changed, and what changed with it.
//!
//! Values are compared only within one machine. A change of the machine or of its kernel is a known break: the
//! values before and after it are not tested against each other.

mod divisive;
mod effect;
mod energy;
mod memory;
mod observe;
mod sequence;
mod step;
mod suspect;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use record::missing::Maybe;
use record::run::RunId;

pub use self::observe::{Observations, SUBJECT_LABEL, of_bakeoff, of_import, of_run};
pub use self::sequence::{Sense, histories};
pub use self::suspect::Suspect;

/// One value of a metric, with the conditions of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Time of the measurement, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Run that holds it.
    pub run: RunId,
    /// Name of the measured version, if the run has one: a commit.
    pub version: Option<String>,
    /// The value.
    pub value: f64,
    /// Interval of the value.
    pub interval: Maybe<(f64, f64)>,
    /// Facts of the run by name: machine, versions, plan, labels.
    pub facts: BTreeMap<String, String>,
}

/// A value with the series that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Series.
    pub key: Key,
    /// Value.
    pub point: Point,
}

/// Identity of a series: values with the same key are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Metric: `throughput`, or a name from an imported file.
    pub metric: String,
    /// The measured thing: target and workload, a cell of a bake-off, a benchmark's name; may be empty.
    pub subject: String,
    /// Machine.
    pub host: String,
}

/// A metric over time on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Identity.
    pub key: Key,
    /// Direction that is an improvement.
    pub sense: Sense,
    /// Values in time order.
    pub points: Vec<Point>,
    /// Changes of the machine, in time order.
    pub breaks: Vec<Break>,
    /// Changes of the level, in time order.
    pub changes: Vec<Change>,
    /// Number of values that lie in stretches too short to be tested.
    pub untested: usize,
}

/// A change of the machine between two values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// Index of the first value on the changed machine.
    pub at: usize,
    /// Facts that differ.
    pub what: Vec<Suspect>,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Index of the first value after the change. The true change may lie some values earlier or later.
    pub at: usize,
    /// Level before it.
    pub before: f64,
    /// Level after it.
    pub after: f64,
    /// Level after it over the level before, with its 95 % interval; missing if values are not positive.
    pub ratio: Maybe<(f64, f64, f64)>,
    /// Probability that a series without a change shows one at least as clear anywhere.
    pub p: f64,
    /// Facts that are new with the change, the most telling first.
    pub suspects: Vec<Suspect>,
}

/// Fewest values in which a change can be found: five on each side, and one to learn the memory from.
pub const VALUES_MIN: usize = 11;
/// Most values of a stretch that are tested; of a longer one, the newest.
pub const VALUES_MAX: usize = 1_000;
