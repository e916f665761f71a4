//! Distribution of due times over a load, and its notation: `poisson`, `ramp:100-1000`,
//! `burst:50-2000@1s/10s`.
//!
//! One parser and one writer of this notation serve the command line, plans and the archive.

mod shape;

use std::fmt;
use std::time::Duration;

pub use self::shape::Shape;
use crate::quantity::{self, NotAQuantity};

/// Distribution of due times.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Each thread has its period; each due time moves by up to this share of it either way, uniformly.
    Jitter {
        /// Share of a thread's period, in [0, 1].
        ratio: f64,
    },
    /// Exactly even.
    Period,
    /// Exponential gaps: independent users.
    Poisson,
    /// The rate changes linearly from one to the other over the measured phase.
    Ramp {
        /// Rate at the beginning.
        from_per_s: f64,
        /// Rate at the end.
        to_per_s: f64,
    },
    /// Consecutive constant rates.
    Step(Vec<Step>),
    /// A high rate at the beginning of each cycle, then a low rate.
    Burst {
        /// Rate between bursts; may be 0.
        low_per_s: f64,
        /// Rate in a burst.
        high_per_s: f64,
        /// Length of a burst.
        length: Duration,
        /// Time from the beginning of one burst to the beginning of the next.
        every: Duration,
    },
    /// The rate follows a sine between two rates; it begins at their mean and rises.
    Sine {
        /// Lowest rate; may be 0.
        low_per_s: f64,
        /// Highest rate.
        high_per_s: f64,
        /// Length of one sine period.
        period: Duration,
    },
    /// Recorded due times.
    File(Recorded),
}

/// One step of [`Arrivals::Step`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Rate; may be 0.
    pub per_s: f64,
    /// Length; the last step lasts to the end. If no step has a length, all have the same.
    pub length: Option<Duration>,
}

/// Recorded schedule, by name; the due times are passed separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// File that holds the due times, as the user wrote it.
    pub path: String,
    /// Number of due times in the file; 0 until it is read.
    pub events: u64,
    /// Time from the first due time to the last.
    pub span: Duration,
    /// SHA-256 of the due times; empty until they are read.
    pub sha256: String,
}

/// Error for a text that is not valid arrivals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// The word is unknown.
    #[error(
        "unknown arrivals `{0}`: expected jitter, period, poisson, ramp:A-B, step:R1,R2,.., burst:LOW-HIGH@LENGTH/EVERY, \
         sine:LOW-HIGH@PERIOD or file:PATH"
    )]
    Unknown(String),
    /// The word is known, but the text after its colon is invalid.
    #[error("`{text}`: {problem}; write {example}")]
    Malformed {
        /// The text.
        text: String,
        /// The problem.
        problem: String,
        /// A valid example.
        example: &'static str,
    },
}

impl Arrivals {
    /// Default jitter.
    pub const JITTER_RATIO: f64 = crate::load::settings::JITTER.default_ratio();

    /// Whether the arrivals define their own rates, so no separate rate is given.
    pub fn say_their_rate(&self) -> bool {
        !matches!(self, Self::Jitter { .. } | Self::Period | Self::Poisson)
    }

    /// Mean rate over a phase of length `span`; `None` if the arrivals do not define their own rates.
    pub fn mean_per_s(&self, span: Duration) -> Option<f64> {
        if let Self::File(recorded) = self {
            // The file does not hold the last gap: assume a mean one.
            let gaps = recorded.events.saturating_sub(1).max(1);
            return Some(gaps as f64 / recorded.span.max(RECORDED_SPAN_MIN).as_secs_f64());
        }
        let shape = Shape::of(self, span)?;
        Some(shape.events_until(span.as_secs_f64()) / span.as_secs_f64())
    }

    /// Parses what [`fmt::Display`] writes; `jitter` alone has the share [`Self::JITTER_RATIO`].
    ///
    /// # Errors
    ///
    /// [`ArrivalsError`], with a valid example.
    pub fn parse(text: &str) -> Result<Self, ArrivalsError> {
        let (word, rest) = text.split_once(':').unwrap_or((text, ""));
        let parse = match (word, text.contains(':')) {
            ("jitter", false) => return Ok(Self::Jitter { ratio: Self::JITTER_RATIO }),
            ("period", false) => return Ok(Self::Period),
            ("poisson", false) => return Ok(Self::Poisson),
            ("ramp", _) => ramp,
            ("step", _) => step,
            ("burst", _) => burst,
            ("sine", _) => sine,
            ("file", _) => file,
            _ => return Err(ArrivalsError::Unknown(text.to_owned())),
        };
        parse(rest).map_err(|(problem, example)| ArrivalsError::Malformed {
            text: text.to_owned(),
            problem,
            example,
        })
    }
}

/// Shortest span for the rate of a recording, because all its events may be due at once.
const RECORDED_SPAN_MIN: Duration = Duration::from_millis(1);

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = quantity::written_duration;
        match self {
            Self::Jitter { ratio } => write!(f, "jitter {}%", ratio * 100.0),
            Self::Period => f.write_str("period"),
            Self::Poisson => f.write_str("poisson"),
            Self::Ramp { from_per_s, to_per_s } => write!(f, "ramp:{from_per_s}-{to_per_s}"),
            Self::Step(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "step:" } else { "," }, step.per_s)?;
                    if let Some(length) = step.length {
                        write!(f, "@{}", time(length))?;
                    }
                }
                Ok(())
            }
            Self::Burst { low_per_s, high_per_s, length, every } => {
                write!(f, "burst:{low_per_s}-{high_per_s}@{}/{}", time(*length), time(*every))
            }
            Self::Sine { low_per_s, high_per_s, period } => {
                write!(f, "sine:{low_per_s}-{high_per_s}@{}", time(*period))
            }
            Self::File(recorded) => write!(f, "file:{}", recorded.path),
        }
    }
}

/// A problem and a valid example.
type Problem = (String, &'static str);

fn ramp(text: &str) -> Result<Arrivals, Problem> {
    let example = "ramp:100-1000, the rates at the beginning and at the end";
    let (from, to) = two_rates(text).map_err(|problem| (problem, example))?;
    Ok(Arrivals::Ramp { from_per_s: from, to_per_s: to })
}

fn step(text: &str) -> Result<Arrivals, Problem> {
    let example = "step:100,200,400 for steps of the same length, or step:100@10s,200@30s,400";
    let one = |part: &str| {
        let (per_s, length) = part.split_once('@').map_or((part, None), |(r, l)| (r, Some(l)));
        let length = length.map(over_zero).transpose()?;
        Ok(Step { per_s: rate(per_s)?, length })
    };
    let steps: Result<Vec<Step>, String> = text.split(',').map(one).collect();
    let steps = steps.map_err(|problem| (problem, example))?;
    let with_length = steps.iter().filter(|s| s.length.is_some()).count();
    let all_but_the_last = steps[..steps.len() - 1].iter().all(|s| s.length.is_some());
    if with_length > 0 && !all_but_the_last {
        return Err(("give a length to every step but the last, or to none".to_owned(), example));
    }
    if steps.iter().all(|s| s.per_s == 0.0) {
        return Err(("every rate is 0: no event would ever be due".to_owned(), example));
    }
    Ok(Arrivals::Step(steps))
}

fn burst(text: &str) -> Result<Arrivals, Problem> {
    let example = "burst:50-2000@1s/10s: 50/s, but 2000/s in the first 1 s of every 10 s";
    let read = || {
        let (rates, times) = text.split_once('@').ok_or("`@LENGTH/EVERY` is missing")?;
        let (low_per_s, high_per_s) = two_rates(rates)?;
        let (length, every) = times.split_once('/').ok_or("`/EVERY` is missing")?;
        let (length, every) = (over_zero(length)?, over_zero(every)?);
        if length >= every {
            return Err("the burst must be shorter than its period".to_owned());
        }
        Ok(Arrivals::Burst { low_per_s, high_per_s, length, every })
    };
    read().map_err(|problem| (problem, example))
}

fn sine(text: &str) -> Result<Arrivals, Problem> {
    let example = "sine:100-500@60s: between 100/s and 500/s, with a period of 60 s";
    let read = || {
        let (rates, period) = text.split_once('@').ok_or("the period is missing")?;
        let (low_per_s, high_per_s) = two_rates(rates)?;
        if low_per_s > high_per_s {
            return Err("the first rate must be the lower one".to_owned());
        }
        Ok(Arrivals::Sine { low_per_s, high_per_s, period: over_zero(period)? })
    };
    read().map_err(|problem| (problem, example))
}

fn file(text: &str) -> Result<Arrivals, Problem> {
    if text.is_empty() {
        let example =
            "file:events.parquet, a file that --log wrote, or a text file with one time in seconds per line";
        return Err(("the path after the colon is missing".to_owned(), example));
    }
    Ok(Arrivals::File(Recorded {
        path: text.to_owned(),
        events: 0,
        span: Duration::ZERO,
        sha256: String::new(),
    }))
}

fn two_rates(text: &str) -> Result<(f64, f64), String> {
    let (first, second) = text.split_once('-').ok_or("expected two rates with a `-` between them")?;
    let (first, second) = (rate(first)?, rate(second)?);
    if first == 0.0 && second == 0.0 { Err("both rates are 0".to_owned()) } else { Ok((first, second)) }
}

/// A rate, or 0 for a pause.
fn rate(text: &str) -> Result<f64, String> {
    if text == "0" {
        return Ok(0.0);
    }
    quantity::rate_per_s(text).map_err(|NotAQuantity { found, .. }| format!("`{found}` is not a rate"))
}

fn over_zero(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text).map_err(|e| e.to_string())?;
    if time.is_zero() { Err(format!("`{text}` is not a duration over 0")) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "period",
            "poisson",
            "ramp:100-1000",
            "ramp:0-0.5",
            "step:100,0,200",
            "step:100@10s,200@1500ms,400",
            "burst:50-2000@1s/10s",
            "sine:0-500@1m",
            "file:/tmp/a b:c.parquet",
        ] {
            assert_eq!(Arrivals::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Arrivals::parse("jitter"), Ok(Arrivals::Jitter { ratio: 0.1 }));
        assert_eq!(Arrivals::parse("ramp:6000/m-100/s"), Arrivals::parse("ramp:100-100"));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_would_do() {
        for (text, says) in [
            ("gauss", "unknown arrivals"),
            ("poisson:3", "unknown arrivals"),
            ("ramp", "two rates"),
            ("ramp:100", "two rates"),
            ("ramp:0-0", "both rates are 0"),
            ("ramp:fast-100", "`fast` is not a rate"),
            ("step:", "`` is not a rate"),
            ("step:100@10s,200,300", "every step but the last"),
            ("step:0", "no event"),
            ("step:100@10", "a duration"),
            ("burst:1-2", "`@LENGTH/EVERY` is missing"),
            ("burst:1-2@1s", "`/EVERY` is missing"),
            ("burst:1-2@2s/1s", "shorter"),
            ("sine:5-1@1s", "must be the lower one"),
            ("sine:1-5@0", "is not a duration"),
            ("file:", "path after the colon is missing"),
        ] {
            let error = Arrivals::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("; write") || error.contains("; write "), "{error}");
        }
    }
}
