//! Gates: conditions on the result of a bake-off that decide its exit code.

use std::fmt;
use std::time::Duration;

use crate::metric::Metric;
use crate::quantity::{bytes, duration, rate_per_s, ratio, written_duration};
use crate::run::words;

/// Condition on one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Judged metric.
    pub metric: Metric,
    /// Condition.
    pub rule: GateRule,
    /// Effect of an inconclusive gate.
    pub on_inconclusive: OnInconclusive,
}

/// Condition of a gate, at every combination of the sub-plot factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GateRule {
    /// Every configuration is worse than the reference by at most this share of the reference's value.
    NotWorseBy {
        /// Share, in (0, 1).
        ratio: f64,
    },
    /// The value of every configuration, the reference included, is at most this.
    AtMost(Amount),
    /// The value of every configuration, the reference included, is at least this.
    AtLeast(Amount),
}

/// Limit of a metric, with its unit; over 0, but for a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Time.
    Seconds(f64),
    /// Rate.
    PerSecond(f64),
    /// Bytes.
    Bytes(f64),
    /// Energy in joules.
    Joules(f64),
    /// Share.
    Share(f64),
}

/// Effect of an inconclusive gate on the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInconclusive {
    /// The gate fails.
    Fail,
    /// The gate passes.
    Pass,
    /// The gate is inconclusive.
    Inconclusive,
}

words!(OnInconclusive { Fail = "fail", Pass = "pass", Inconclusive = "inconclusive" });

/// Reason that a text is not a gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAGate {
    /// The first word is not a metric.
    #[error("`{found}` is not a metric of {of}; expected one of {known}")]
    UnknownMetric {
        /// The word.
        found: String,
        /// The kind of comparison.
        of: &'static str,
        /// All metrics.
        known: String,
    },
    /// The rest is not a rule.
    #[error("`{found}` is not a rule; expected {RULE_FORMS}")]
    NotARule {
        /// The text after the metric.
        found: String,
    },
    /// The limit has the unit of another metric.
    #[error("the limit of {metric} must be {expected}, not `{found}`")]
    WrongUnit {
        /// The metric.
        metric: &'static str,
        /// The limit.
        found: String,
        /// The metric's form, with an example.
        expected: &'static str,
    },
}

impl NotAGate {
    /// The error with the limit as the user wrote it: `20`, and not `20/s`.
    fn of_limit(self, limit: &str) -> Self {
        match self {
            Self::WrongUnit { metric, found: _, expected } => {
                Self::WrongUnit { metric, found: limit.to_owned(), expected }
            }
            other => other,
        }
    }
}

/// Forms of a rule, for messages.
pub const RULE_FORMS: &str = "`not worse by 5%`, `<= 20ms` or `>= 10000/s`";

/// Kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time,
    Rate,
    Bytes,
    Energy,
    Share,
}

impl Gate {
    /// Parses `p99 not worse by 5%`, `p99 <= 20ms`, `throughput >= 10000/s`. An inconclusive result is
    /// inconclusive.
    ///
    /// # Errors
    ///
    /// [`NotAGate`] if the metric or the rule is unknown, or the limit has the unit of another metric.
    pub fn read(text: &str) -> Result<Self, NotAGate> {
        Self::read_of(text, &Metric::of_plans().collect::<Vec<_>>(), "bake-offs")
    }

    /// Parses `time not worse by 5%`, `cpu <= 20ms`: a gate on a comparison of commands.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub fn read_of_commands(text: &str) -> Result<Self, NotAGate> {
        Self::read_of(text, &Metric::OF_COMMANDS, "commands")
    }

    /// Parses a gate on any metric.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub fn read_of_any(text: &str) -> Result<Self, NotAGate> {
        Self::read_of(text, Metric::ALL, "runs")
    }

    fn read_of(text: &str, metrics: &[Metric], of: &'static str) -> Result<Self, NotAGate> {
        let text = text.trim();
        let end = text.find([' ', '<', '>']).unwrap_or(text.len());
        let (word, rule) = (&text[..end], text[end..].trim());
        let metric = metrics.iter().copied().find(|metric| metric.word() == word);
        let metric = metric.ok_or_else(|| NotAGate::UnknownMetric {
            found: word.to_owned(),
            of,
            known: metrics.iter().map(|m| m.word()).collect::<Vec<_>>().join(", "),
        })?;
        let not_a_rule = || NotAGate::NotARule { found: rule.to_owned() };
        let limit = rule.trim_start_matches(['<', '>', '=']).trim();
        let rule = GateRule::read(rule).ok_or_else(not_a_rule)?;
        rule.fits(metric).map_err(|wrong| wrong.of_limit(limit))?;
        Ok(Self { metric, rule, on_inconclusive: OnInconclusive::Inconclusive })
    }
}

impl GateRule {
    /// Parses `not worse than reference by 5%` (or `not worse by 5%`), `<= 20ms`, `>= 10000/s`.
    pub fn read(text: &str) -> Option<Self> {
        if let Some(share) =
            text.strip_prefix("not worse than reference by ").or_else(|| text.strip_prefix("not worse by "))
        {
            let ratio = ratio(share.trim()).ok().filter(|r| 0.0 < *r && *r < 1.0)?;
            return Some(Self::NotWorseBy { ratio });
        }
        if let Some(limit) = text.strip_prefix("<=") {
            return Amount::read(limit.trim()).map(Self::AtMost);
        }
        Amount::read(text.strip_prefix(">=")?.trim()).map(Self::AtLeast)
    }

    /// Checks that the limit has the metric's unit.
    ///
    /// # Errors
    ///
    /// [`NotAGate::WrongUnit`] if it has not.
    pub fn fits(self, metric: Metric) -> Result<(), NotAGate> {
        let (Self::AtMost(amount) | Self::AtLeast(amount)) = self else { return Ok(()) };
        let (unit, expected) = match metric {
            Metric::Throughput => (Unit::Rate, "a rate such as 10000/s"),
            Metric::P99 | Metric::P999 | Metric::CpuPerEvent | Metric::Time | Metric::Cpu => {
                (Unit::Time, "a time such as 20ms")
            }
            Metric::IoPerEvent => (Unit::Bytes, "a size such as 64KiB"),
            Metric::EnergyPerEvent => (Unit::Energy, "an energy such as 0.5J"),
            Metric::LockCpu | Metric::MemoryGrowth => (Unit::Share, "a share such as 2%"),
        };
        if amount.unit() == unit {
            return Ok(());
        }
        Err(NotAGate::WrongUnit { metric: metric.word(), found: amount.to_string(), expected })
    }
}

impl Amount {
    /// Parses `20ms`, `10000/s`, `64KiB`, `0.5J`, `2%`; 0 has no logarithm and is refused, but for a share.
    fn read(text: &str) -> Option<Self> {
        let joules = |text: &str| text.strip_suffix('J')?.trim().parse().ok().filter(|j: &f64| j.is_finite());
        let amount = if let Ok(time) = duration(text) {
            Self::Seconds(time.as_secs_f64())
        } else if let Ok(share) = ratio(text) {
            Self::Share(share)
        } else if let Ok(per_s) = rate_per_s(text) {
            Self::PerSecond(per_s)
        } else if let Some(joules) = joules(text) {
            Self::Joules(joules)
        } else {
            Self::Bytes(bytes(text).ok()? as f64)
        };
        (amount.value() > 0.0).then_some(amount)
    }

    /// The number, in the unit of the metric's values.
    pub fn value(self) -> f64 {
        match self {
            Self::Seconds(value) | Self::PerSecond(value) | Self::Bytes(value) | Self::Joules(value) => value,
            Self::Share(share) => share.exp(),
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Seconds(_) => Unit::Time,
            Self::PerSecond(_) => Unit::Rate,
            Self::Bytes(_) => Unit::Bytes,
            Self::Joules(_) => Unit::Energy,
            Self::Share(_) => Unit::Share,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.metric.word(), self.rule)
    }
}

impl fmt::Display for GateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWorseBy { ratio } => {
                write!(f, "not worse than reference by {}", percent(*ratio))
            }
            Self::AtMost(amount) => write!(f, "<= {amount}"),
            Self::AtLeast(amount) => write!(f, ">= {amount}"),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(value) => f.write_str(&written_duration(Duration::from_secs_f64(*value))),
            Self::PerSecond(value) => write!(f, "{value}/s"),
            Self::Bytes(value) => write!(f, "{value}B"),
            Self::Joules(value) => write!(f, "{value}J"),
            Self::Share(share) => f.write_str(&percent(*share)),
        }
    }
}

/// The shortest percentage that reads back to the same share, or to one that differs by rounding alone.
fn percent(share: f64) -> String {
    let digits = (0..16).map(|digits| format!("{:.digits$}%", share * 100.0));
    let is_it = |text: &String| ratio(text).is_ok_and(|read| (read - share).abs() <= 1e-12 * share.max(1e-3));
    digits.into_iter().find(is_it).unwrap_or_else(|| format!("{}%", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_written_as_it_is_read() {
        for text in [
            "p99 not worse than reference by 5%",
            "p99 <= 20ms",
            "p99.9 <= 20ms",
            "throughput >= 10000/s",
            "io-per-event <= 65536B",
            "energy-per-event <= 0.5J",
            "lock-cpu <= 2%",
            "memory-growth <= 0%",
        ] {
            assert_eq!(Gate::read(text).unwrap().to_string(), text);
        }
        assert_eq!(Gate::read("p99<=20ms"), Gate::read(" p99  <=  20ms "));
        assert_eq!(Gate::read("p99 not worse by 5%"), Gate::read("p99 not worse than reference by 5%"));
        assert_eq!(Gate::read("throughput >= 600/m"), Gate::read("throughput >= 10/s"));
    }

    #[test]
    fn what_is_no_gate_is_refused_with_the_reason() {
        let said = |text: &str| Gate::read(text).unwrap_err().to_string();
        assert_eq!(
            said("p95 <= 20ms"),
            "`p95` is not a metric of bake-offs; expected one of throughput, p99, cpu-per-event, lock-cpu, io-per-event, \
             memory-growth, energy-per-event, p99.9"
        );
        assert!(Gate::read("time <= 20ms").is_err() && Gate::read_of_commands("p99 <= 20ms").is_err());
        assert_eq!(Gate::read_of_commands("time <= 20ms").unwrap().to_string(), "time <= 20ms");
        assert_eq!(said("p99 <= 10/s"), "the limit of p99 must be a time such as 20ms, not `10/s`");
        // A number alone reads as a rate; the message has what the user wrote.
        assert_eq!(
            Gate::read_of_commands("time <= 20").unwrap_err().to_string(),
            "the limit of time must be a time such as 20ms, not `20`"
        );
        assert_eq!(said("lock-cpu <= 5ms"), "the limit of lock-cpu must be a share such as 2%, not `5ms`");
        assert_eq!(
            said("throughput >= 5m"),
            "the limit of throughput must be a rate such as 10000/s, not `5m`"
        );
        for rule in
            ["", "better by 5%", "not worse by 0%", "not worse by 100%", "not worse by 5", "<= 0", "<= 20"]
        {
            let whole = format!("p99 {rule}");
            assert!(Gate::read(&whole).is_err(), "{whole}");
        }
        for text in
            ["p99 <= NaNms", "p99 <= infs", "throughput >= inf/s", "throughput >= -1/s", "p99 < 20ms", ""]
        {
            assert!(Gate::read(text).is_err(), "{text}");
        }
    }
}
