//! Search for the highest rate that keeps a promise: the promise, the tries and the answer.

use std::fmt;
use std::time::Duration;

use crate::quantity::{duration, written_duration};
use crate::run::{RunId, words};
use crate::target::Target;

/// Promise that each of these latencies stays below its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise(pub Vec<Clause>);

/// One latency and its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clause {
    /// Statistic of the response times, from the due times.
    pub statistic: Statistic,
    /// Upper limit, exclusive.
    pub limit: Duration,
}

/// Statistic of a distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// Mean.
    Mean,
    /// Maximum.
    Max,
    /// Percentile, in percent: 99.9.
    Percentile(f64),
}

impl Promise {
    /// Parses `p99<10ms`, `p99.9<5ms,max<1s`.
    ///
    /// # Errors
    ///
    /// The problem and a valid example.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(clause).collect::<Result<_, _>>().map(Self)
    }
}

fn clause(text: &str) -> Result<Clause, String> {
    let wrong =
        |problem: String| format!("{problem}; write p99<10ms, or several limits as in p99.9<5ms,max<1s");
    let (name, limit) = text.split_once('<').ok_or_else(|| wrong(format!("`{text}` has no `<`")))?;
    let limit = duration(limit.trim()).map_err(|e| wrong(e.to_string()))?;
    let percent = |text: &str| text.parse().ok().filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
    let statistic = match name.trim() {
        "mean" => Statistic::Mean,
        "max" => Statistic::Max,
        name => match name.strip_prefix('p').and_then(percent) {
            Some(percent) => Statistic::Percentile(percent),
            None => return Err(wrong(format!("`{name}` is not a percentile, mean or max"))),
        },
    };
    if limit.is_zero() {
        return Err(wrong("the limit must be over 0".to_owned()));
    }
    Ok(Clause { statistic, limit })
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, clause) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}<{}", clause.statistic, written_duration(clause.limit))?;
        }
        Ok(())
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percent) => write!(f, "p{percent}"),
        }
    }
}

/// Purpose of a run at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Finds the order of magnitude: each rate is twice the last one.
    Ramp,
    /// Halves the distance between a rate that keeps the promise and one that breaks it.
    Bisect,
    /// Repeats the answer's rate to exclude luck.
    Confirm,
    /// Repeats, after contradicting runs, the highest rate that kept the promise.
    Recheck,
}

words!(Stage { Ramp = "ramp", Bisect = "bisect", Confirm = "confirm", Recheck = "recheck" });

/// Outcome of a run at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeEnd {
    /// The promise was kept.
    Kept,
    /// The target broke it.
    Broken,
    /// The promise was broken, possibly by the generator.
    Unclear,
    /// The run is INVALID for another reason: a quota stopped the processes, or the cache was not steady.
    Invalid,
}

words!(ProbeEnd { Kept = "kept", Broken = "broken", Unclear = "unclear", Invalid = "invalid" });

/// One run of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Offered rate.
    pub rate_per_s: f64,
    /// Purpose.
    pub stage: Stage,
    /// Outcome.
    pub end: ProbeEnd,
    /// Measured values of the promised latencies, as text.
    pub found: String,
    /// Events per second that were due in the phase and ended in it, or count as in flight at its end: the
    /// number that decides whether the run kept up.
    pub achieved_per_s: f64,
    /// Run id, if the run was archived.
    pub run: Option<RunId>,
}

/// Run of a search that the answer names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Try {
    /// Number in the search, from 1.
    pub number: usize,
    /// Offered rate.
    pub rate_per_s: f64,
}

/// Answer of a search. Each rate in it was tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Every try at this rate kept the promise, and the other rate broke it.
    Found {
        /// Highest rate that kept the promise.
        rate_per_s: f64,
        /// Lowest rate that broke it.
        broken_at_per_s: f64,
    },
    /// The promise was broken at the lowest rate that a run of this length can judge.
    Unreachable {
        /// Lowest rate.
        at_per_s: f64,
    },
    /// The latencies kept the promise at the lowest rate that a run of this length can judge, and the rate
    /// was missed: the run is too short to tell a backlog from events in flight.
    TooShort {
        /// Lowest rate.
        at_per_s: f64,
    },
    /// The generator cannot offer more on time, or runs at higher rates are INVALID: the target may be able
    /// to do more.
    GeneratorLimit {
        /// Highest rate that kept the promise; `None` if no rate did.
        kept_per_s: Option<f64>,
        /// Rate at which the generator was the limit.
        at_per_s: f64,
    },
    /// The tries contradict each other, or too few had a clear outcome.
    Unsettled {
        /// Try at the highest rate that kept the promise; `None` if no try did.
        kept: Option<Try>,
        /// Try at the lowest rate that broke it; `None` if no try did. At or below the rate of `kept`, the
        /// two contradict each other.
        broken: Option<Try>,
    },
    /// The target changed during the search: a rate kept the promise, then the same or a lower rate broke it,
    /// and so did the repetition at the end.
    Changed {
        /// Try at the highest rate that kept the promise.
        kept: Try,
        /// Try at the lowest rate that broke it after that.
        broken: Try,
        /// Last try, at the rate of `kept`: it broke the promise.
        again: Try,
    },
    /// The user stopped it.
    Stopped,
}

/// A complete search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRecord {
    /// Target of the load.
    pub target: Target,
    /// Promise.
    pub promise: Promise,
    /// All runs in chronological order.
    pub probes: Vec<Probe>,
    /// Answer.
    pub answer: Answer,
}

impl SearchRecord {
    /// Numbers, from 1, of the tries that contradict the answer: those that broke the promise at or below a
    /// rate that keeps it by the answer, and those that kept it at or above a rate that breaks it by the
    /// answer.
    pub fn contradicting(&self) -> Vec<usize> {
        let rate = |tried: &Option<Try>| tried.map(|tried| tried.rate_per_s);
        let (kept_per_s, broken_per_s) = match &self.answer {
            Answer::Found { rate_per_s, broken_at_per_s } => (Some(*rate_per_s), Some(*broken_at_per_s)),
            Answer::Unreachable { at_per_s } | Answer::TooShort { at_per_s } => (None, Some(*at_per_s)),
            Answer::GeneratorLimit { kept_per_s, .. } => (*kept_per_s, None),
            Answer::Unsettled { kept, broken } => (rate(kept), rate(broken)),
            Answer::Changed { kept, broken, .. } => (Some(kept.rate_per_s), Some(broken.rate_per_s)),
            Answer::Stopped => (None, None),
        };
        let contradicts = |probe: &Probe| match probe.end {
            ProbeEnd::Kept => broken_per_s.is_some_and(|broken| probe.rate_per_s >= broken),
            ProbeEnd::Broken => kept_per_s.is_some_and(|kept| probe.rate_per_s <= kept),
            ProbeEnd::Unclear | ProbeEnd::Invalid => false,
        };
        (1..).zip(&self.probes).filter(|(_, probe)| contradicts(probe)).map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_that_speak_against_an_answer_are_named() {
        let probe = |(rate_per_s, end)| Probe {
            rate_per_s,
            stage: Stage::Ramp,
            end,
            found: String::new(),
            achieved_per_s: rate_per_s,
            run: None,
        };
        let tries = [
            (100.0, ProbeEnd::Kept),
            (200.0, ProbeEnd::Kept),
            (400.0, ProbeEnd::Kept),
            (200.0, ProbeEnd::Broken),
            (100.0, ProbeEnd::Unclear),
            (300.0, ProbeEnd::Broken),
        ];
        let against = |answer| {
            let search = SearchRecord {
                target: Target::new("null:"),
                promise: Promise::parse("p99<1ms").unwrap(),
                probes: tries.map(probe).into(),
                answer,
            };
            search.contradicting()
        };
        let found = |rate_per_s, broken_at_per_s| Answer::Found { rate_per_s, broken_at_per_s };
        assert_eq!(against(found(100.0, 450.0)), [0_usize; 0]);
        assert_eq!(against(found(200.0, 300.0)), [3, 4]);
        assert_eq!(against(Answer::Unreachable { at_per_s: 200.0 }), [2, 3]);
        assert_eq!(against(Answer::GeneratorLimit { kept_per_s: Some(200.0), at_per_s: 800.0 }), [4]);
        assert_eq!(against(Answer::Stopped), [0_usize; 0]);
    }

    #[test]
    fn promises_read_back_as_they_are_written() {
        for text in ["p99<10ms", "p99.9<5ms,max<1s", "mean<250us", "p50<1ms"] {
            assert_eq!(Promise::parse(text).unwrap().to_string(), text);
        }
        for (text, says) in [
            ("p99", "no `<`"),
            ("p100<1ms", "`p100` is not a percentile"),
            ("q99<1ms", "`q99` is not a percentile"),
            ("p99<10", "a duration"),
            ("p99<0", "the limit must be over 0"),
        ] {
            let error = Promise::parse(text).unwrap_err();
            assert!(error.contains(says) && error.contains("write p99<10ms"), "{error}");
        }
    }
}
