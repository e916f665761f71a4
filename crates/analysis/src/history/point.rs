//! Values, and the series that they belong to.

use std::collections::BTreeMap;

use record::metric::Metric;
use record::missing::Maybe;
use record::run::RunId;

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
    /// Meaning of the numbers.
    pub numbers: Numbers,
}

/// Meaning of the numbers of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Numbers {
    /// Numbers of bakeoff, or of a benchmark tool in its documented unit, converted to ours.
    Ours,
    /// Numbers of a CSV file, in a unit that its author knows, even under a name that bakeoff uses.
    OfTable,
}

impl Key {
    /// The metric of bakeoff that the numbers are values of, in its unit; `None` for other numbers.
    pub fn own_metric(&self) -> Option<Metric> {
        match (self.numbers, self.metric.as_str()) {
            (Numbers::OfTable, _) => None,
            (Numbers::Ours, "cpu-time") => Some(Metric::Cpu),
            (Numbers::Ours, name) => Metric::from_word(name),
        }
    }
}
