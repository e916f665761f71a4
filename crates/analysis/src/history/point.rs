//! Values, and the series that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Machine of the run, also if its series is that of any machine.
    pub host: String,
    /// Name of the measured version, if the run has one: a commit.
    pub version: Option<String>,
    /// The value.
    pub value: f64,
    /// Interval of the value.
    pub interval: Maybe<(f64, f64)>,
    /// Facts of the run by name: machine, versions, plan, labels.
    pub facts: Arc<BTreeMap<String, String>>,
}

/// Time, machine, version, and labels of the run: they tell the values of a series apart. Of several values
/// with one identity, that of the newest import counts.
pub(super) type Identity = (u64, String, Option<String>, Vec<(String, String)>);

impl Point {
    pub(super) fn identity(&self) -> Identity {
        let labels = self.facts.iter().filter(|(name, _)| name.starts_with(LABEL));
        let labels = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        (self.at_unix_ns, self.host.clone(), self.version.clone(), labels)
    }
}

/// Beginning of the facts that are labels of the run.
pub(super) const LABEL: &str = "label.";

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Numbers {
    /// Numbers of bakeoff, or times of a benchmark tool, in our unit.
    Ours,
    /// Other numbers of a file, even under a name that bakeoff uses, in this unit; empty if only their author
    /// knows it.
    OfFile(String),
}

impl Key {
    /// Unit of the numbers; `None` if only their author knows it.
    pub fn unit(&self) -> Option<&str> {
        match &self.numbers {
            Numbers::Ours => self.own_metric().map(Metric::unit),
            Numbers::OfFile(unit) => Some(unit.as_str()).filter(|unit| !unit.is_empty()),
        }
    }

    /// The metric of bakeoff that the numbers are values of, in its unit; `None` for other numbers.
    pub fn own_metric(&self) -> Option<Metric> {
        match (&self.numbers, self.metric.as_str()) {
            (Numbers::OfFile(_), _) => None,
            (Numbers::Ours, "cpu-time") => Some(Metric::Cpu),
            (Numbers::Ours, name) => Metric::from_word(name),
        }
    }
}
