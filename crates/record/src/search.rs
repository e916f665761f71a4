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

/// How a search ended.
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
    /// The runs contradict each other: it was kept and broken at rates that do not settle.
    Unsettled {
        /// Highest rate at which it was kept and not broken later.
        kept_per_s: f64,
        /// Lowest rate at which it was broken.
        broken_at_per_s: f64,
    },
    /// The target changed during the search: a rate was kept, lower ones were broken later, and it was broken too when it was
    /// tried again at the end.
    Changed {
        /// Highest rate at which it was kept, before.
        kept_per_s: f64,
        /// Lowest rate at which it was broken, after.
        broken_at_per_s: f64,
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

#[cfg(test)]
mod tests {
    use super::*;

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
