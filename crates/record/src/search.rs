//! The search for the highest rate that keeps a promise: what was promised, what was tried, what came of it.

use std::fmt;
use std::time::Duration;

use crate::quantity::{duration, written_duration};
use crate::run::{RunId, words};
use crate::target::Target;

/// What is promised: each of these latencies stays below its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise(pub Vec<Clause>);

/// One latency and its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clause {
    /// Which latency: of the response times, from the due times.
    pub statistic: Statistic,
    /// It stays below this.
    pub limit: Duration,
}

/// A number that stands for a distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// That below which this share lies, in percent as people say it: 99.9.
    Percentile(f64),
}

impl Promise {
    /// Reads `p99<10ms`, `p99.9<5ms,max<1s`.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(clause).collect::<Result<_, _>>().map(Self)
    }
}

fn clause(text: &str) -> Result<Clause, String> {
    let wrong = |problem: String| format!("{problem}; write p99<10ms, or p99.9<5ms,max<1s for several");
    let (name, limit) = text.split_once('<').ok_or_else(|| wrong(format!("`{text}` has no `<`")))?;
    let limit = duration(limit.trim()).map_err(|e| wrong(e.to_string()))?;
    let percent = |text: &str| text.parse().ok().filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
    let statistic = match name.trim() {
        "mean" => Statistic::Mean,
        "max" => Statistic::Max,
        name => match name.strip_prefix('p').and_then(percent) {
            Some(percent) => Statistic::Percentile(percent),
            None => return Err(wrong(format!("`{name}` is no percentile, mean or max"))),
        },
    };
    if limit.is_zero() {
        return Err(wrong("no latency is below 0".to_owned()));
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

/// What a run at one rate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// To find the order of magnitude: each rate is twice the last one.
    Ramp,
    /// To halve what lies between a rate that keeps the promise and one that does not.
    Bisect,
    /// To see whether the answer was luck.
    Confirm,
    /// To see, after runs that contradict each other, whether the highest rate that was kept still is.
    Recheck,
}

words!(Stage { Ramp = "ramp", Bisect = "bisect", Confirm = "confirm", Recheck = "recheck" });

/// What a run at one rate told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeEnd {
    /// The promise was kept.
    Kept,
    /// The target broke it.
    Broken,
    /// It was broken, and the generator may be the one who did it.
    Unclear,
    /// The run is INVALID whatever it found: a quota stopped the processes, or the cache was not steady.
    Invalid,
}

words!(ProbeEnd { Kept = "kept", Broken = "broken", Unclear = "unclear", Invalid = "invalid" });

/// One run of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The rate that was offered.
    pub rate_per_s: f64,
    /// What it was for.
    pub stage: Stage,
    /// What it told.
    pub end: ProbeEnd,
    /// In words: the latencies that were promised, as they were found.
    pub found: String,
    /// Done events per second.
    pub achieved_per_s: f64,
    /// The run, where it was archived.
    pub run: Option<RunId>,
}

/// A run of a search that its answer names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Try {
    /// Its number in the search, from 1.
    pub number: usize,
    /// The rate that was offered.
    pub rate_per_s: f64,
}

/// How a search ended. Each rate in it was tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The promise was kept at this rate, each time, and broken at the other.
    Found {
        /// Highest rate at which it was kept.
        rate_per_s: f64,
        /// Lowest rate at which it was broken.
        broken_at_per_s: f64,
    },
    /// It was broken at the lowest rate that a run of this length can tell anything about.
    Unreachable {
        /// That rate.
        at_per_s: f64,
    },
    /// The generator cannot offer more on time, or runs there are INVALID: the target may be able to.
    GeneratorLimit {
        /// Highest rate at which the promise was kept; `None` where it never was.
        kept_per_s: Option<f64>,
        /// Where the generator was in the way.
        at_per_s: f64,
    },
    /// The tries do not settle: they contradict each other, or there were too few that told anything.
    Unsettled {
        /// A try that kept it, at the highest rate; `None` if none did.
        kept: Option<Try>,
        /// A try that broke it, at the lowest rate; at or below that of `kept`, the two contradict each other. `None` if none did.
        broken: Option<Try>,
    },
    /// The target changed during the search: a rate was kept, this or a lower one was broken later, and it was broken too when it
    /// was tried again at the end.
    Changed {
        /// Where it was kept at the highest rate.
        kept: Try,
        /// Where it was broken at the lowest rate after that.
        broken: Try,
        /// The last try, at the rate of `kept`: it broke it.
        again: Try,
    },
    /// The user stopped it.
    Stopped,
}

/// A search, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRecord {
    /// Where the load went.
    pub target: Target,
    /// What was promised.
    pub promise: Promise,
    /// Every run, first to last.
    pub probes: Vec<Probe>,
    /// What came of it.
    pub answer: Answer,
}

impl SearchRecord {
    /// Numbers of the tries that speak against the answer, from 1: those that broke the promise at or below a rate that is said to
    /// keep it, and those that kept it at or above one that is said to break it.
    pub fn contradicting(&self) -> Vec<usize> {
        let rate = |tried: &Option<Try>| tried.map(|tried| tried.rate_per_s);
        let (kept_per_s, broken_per_s) = match &self.answer {
            Answer::Found { rate_per_s, broken_at_per_s } => (Some(*rate_per_s), Some(*broken_at_per_s)),
            Answer::Unreachable { at_per_s } => (None, Some(*at_per_s)),
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
            ("p100<1ms", "`p100` is no percentile"),
            ("q99<1ms", "`q99` is no percentile"),
            ("p99<10", "a duration"),
            ("p99<0", "no latency is below 0"),
        ] {
            let error = Promise::parse(text).unwrap_err();
            assert!(error.contains(says) && error.contains("write p99<10ms"), "{error}");
        }
    }
}
