//! Experiments without a server: a plan of a few values from the command line, stored as TOML.
//!
//! Like any plan it becomes an ordered list of trials: all levels in every round, each round in its own order
//! that follows from the seed. The archive stores the text, so a run can be resumed and repeated from it.

use std::time::Duration;

use record::bakeoff::{Factor, Levels, Plot, Trial};
use record::quantity;
use record::run::RunKind;
use toml::{Table, Value};

use crate::order;
use crate::scale::ScalePlan;
use crate::sweep::SweepPlan;

/// Plan of an experiment without a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Experiment {
    /// Copies of a unit of work, at several numbers of copies.
    Scale(ScalePlan),
    /// Reads at every buffer size.
    Sweep(SweepPlan),
}

/// Error for an experiment that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnExperiment {
    /// The text is not TOML.
    #[error("the plan is not TOML: {0}")]
    NotToml(String),
    /// A value is missing or invalid.
    #[error("{key}: expected {expected}")]
    Value {
        /// Key, which is also the option on the command line.
        key: &'static str,
        /// Expected value.
        expected: String,
    },
}

impl Experiment {
    /// Parses the text of a plan in the notation of [`Self::text`].
    ///
    /// # Errors
    ///
    /// [`NotAnExperiment`], for the first problem.
    pub fn read(text: &str) -> Result<Self, NotAnExperiment> {
        let table: Table =
            text.parse().map_err(|e: toml::de::Error| NotAnExperiment::NotToml(e.to_string()))?;
        let stored = StoredPlan(&table);
        match stored.text("experiment")? {
            "scale" => ScalePlan::read(&stored).map(Self::Scale),
            "dder" => SweepPlan::read(&stored).map(Self::Sweep),
            _ => Err(expected("experiment", "scale or dder")),
        }
    }

    /// Plan as TOML.
    pub fn text(&self) -> String {
        let (name, table) = match self {
            Self::Scale(plan) => ("scale", plan.table()),
            Self::Sweep(plan) => ("dder", plan.table()),
        };
        let mut all = Table::from_iter([("experiment".to_owned(), name.into())]);
        all.extend(table);
        all.to_string()
    }

    /// Checks whether the values are consistent.
    ///
    /// # Errors
    ///
    /// [`NotAnExperiment`], for the first inconsistent value.
    pub fn check(&self) -> Result<(), NotAnExperiment> {
        match self {
            Self::Scale(plan) => plan.check(),
            Self::Sweep(plan) => plan.check(),
        }
    }

    /// Kind of its run.
    pub fn kind(&self) -> RunKind {
        match self {
            Self::Scale(_) => RunKind::Scale,
            Self::Sweep(_) => RunKind::Dder,
        }
    }

    /// One line for people.
    pub fn title(&self) -> &str {
        match self {
            Self::Scale(plan) => &plan.title,
            Self::Sweep(plan) => &plan.title,
        }
    }

    /// Rounds; each measures every level once.
    pub fn rounds(&self) -> u32 {
        match self {
            Self::Scale(plan) => plan.rounds,
            Self::Sweep(plan) => plan.rounds,
        }
    }

    /// Random seed of the order.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Scale(plan) => plan.seed,
            Self::Sweep(plan) => plan.seed,
        }
    }

    /// Length of the measurement in a trial: minimum for each copy, or length for each point.
    pub fn measure(&self) -> Duration {
        match self {
            Self::Scale(plan) => plan.time,
            Self::Sweep(plan) => plan.point,
        }
    }

    /// Factors.
    pub fn factors(&self) -> Vec<Factor> {
        let factor =
            |name: &str, values| Factor { name: name.into(), values, reference: None, plot: Plot::Sub };
        match self {
            Self::Scale(plan) => {
                vec![factor(ScalePlan::COPIES, plan.copies.iter().map(u32::to_string).collect())]
            }
            Self::Sweep(plan) => vec![
                factor(SweepPlan::HOW, plan.how.iter().map(|h| h.word().to_owned()).collect()),
                factor(SweepPlan::DATA, plan.data.iter().map(|d| d.name.clone()).collect()),
            ],
        }
    }

    /// All trials in the order drawn: each round is one block and one series.
    pub fn trials(&self) -> Vec<Trial> {
        let cells: Vec<Levels> = match self {
            Self::Scale(plan) => plan.cells(),
            Self::Sweep(plan) => plan.cells(),
        };
        order::draw(self.seed(), self.rounds(), &[(Levels::new(), cells)])
    }
}

/// Table of a plan, which is read value by value.
pub(crate) struct StoredPlan<'a>(&'a Table);

impl<'a> StoredPlan<'a> {
    pub(crate) fn text(&self, key: &'static str) -> Result<&'a str, NotAnExperiment> {
        self.0.get(key).and_then(Value::as_str).ok_or_else(|| expected(key, "a string"))
    }

    pub(crate) fn number(&self, key: &'static str) -> Result<u64, NotAnExperiment> {
        let found = self.0.get(key).and_then(Value::as_integer);
        found.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| expected(key, "a number from 0"))
    }

    pub(crate) fn small(&self, key: &'static str) -> Result<u32, NotAnExperiment> {
        u32::try_from(self.number(key)?).map_err(|_| expected(key, "a number below 2^32"))
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<bool, NotAnExperiment> {
        self.0.get(key).and_then(Value::as_bool).ok_or_else(|| expected(key, "true or false"))
    }

    pub(crate) fn span(&self, key: &'static str) -> Result<Duration, NotAnExperiment> {
        quantity::duration(self.text(key)?).map_err(|e| expected(key, &e.to_string()))
    }

    pub(crate) fn texts(&self, key: &'static str) -> Result<Vec<String>, NotAnExperiment> {
        let list = self.0.get(key).and_then(Value::as_array);
        let texts = list.and_then(|l| l.iter().map(|v| v.as_str().map(str::to_owned)).collect());
        texts.ok_or_else(|| expected(key, "a list of strings"))
    }

    pub(crate) fn numbers(&self, key: &'static str) -> Result<Vec<u32>, NotAnExperiment> {
        let list = self.0.get(key).and_then(Value::as_array);
        let number = |v: &Value| v.as_integer().and_then(|n| u32::try_from(n).ok());
        let numbers = list.and_then(|l| l.iter().map(number).collect());
        numbers.ok_or_else(|| expected(key, "a list of numbers"))
    }
}

pub(crate) fn expected(key: &'static str, what: &str) -> NotAnExperiment {
    NotAnExperiment::Value { key, expected: what.to_owned() }
}

/// Formats a duration without loss.
pub(crate) fn span_text(span: Duration) -> Value {
    format!("{}us", span.as_micros()).into()
}

/// Converts a seed to a TOML integer.
pub(crate) fn number_value(number: u64) -> Value {
    Value::Integer(i64::try_from(number).expect("checked to fit 63 bits"))
}

/// Largest seed that a plan can hold.
pub(crate) const SEED_MAX: u64 = i64::MAX.cast_unsigned();
