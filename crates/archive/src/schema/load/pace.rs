//! Times at which the events of a load begin, as stored in its settings.

use std::time::Duration;

use record::arrivals::{Arrivals, Recorded};
use record::load::{LatePolicy, Loop, OpenLoop, Schedule, Think};
use serde::{Deserialize, Serialize};

use super::super::{Real, Wrong, ns, word};

/// A [`Loop`], as fields of the settings. Fields of the other kind of loop are absent.
pub(super) struct Paced {
    pub(super) rate: Pace,
    pub(super) arrivals: Option<Spread>,
    pub(super) schedule: Option<String>,
    pub(super) late: Option<Late>,
    pub(super) spin_budget_ratio: Option<Real>,
    pub(super) fifo: Option<bool>,
    /// `0` or empty in an open loop.
    pub(super) think: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Pace {
    Max,
    Steady { per_s: Real },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Spread {
    Jitter {
        ratio: Real,
    },
    Period,
    Poisson,
    /// Shape in the notation of the command line.
    Shape {
        text: String,
    },
    File {
        path: String,
        events: u64,
        span_ns: u64,
        sha256: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Late {
    Queue,
    Skip { limit_ns: u64 },
    Drop,
    Pace { times: Real },
}

impl Paced {
    pub(super) fn of(pace: &Loop) -> Self {
        match pace {
            Loop::Open(OpenLoop { per_s, arrivals, schedule, late, spin_budget_ratio, fifo }) => Self {
                rate: Pace::Steady { per_s: Real(*per_s) },
                arrivals: Some(Spread::of(arrivals)),
                schedule: Some(schedule.word().to_owned()),
                late: Some(Late::of(*late)),
                spin_budget_ratio: Some(Real(*spin_budget_ratio)),
                fifo: Some(*fifo),
                think: Think::None.to_string(),
            },
            Loop::Closed { think } => Self {
                rate: Pace::Max,
                arrivals: None,
                schedule: None,
                late: None,
                spin_budget_ratio: None,
                fifo: None,
                think: think.to_string(),
            },
        }
    }

    /// Ignores the fields that earlier versions wrote for a closed loop, other than its think time.
    pub(super) fn read(self) -> Result<Loop, Wrong> {
        let Pace::Steady { per_s } = self.rate else {
            let think = match self.think.as_str() {
                "" => Think::None,
                text => Think::parse(text).map_err(|e| Wrong(format!("think: {e}")))?,
            };
            return Ok(Loop::Closed { think });
        };
        let missing = |field: &str| Wrong(format!("{field} is missing, but an open loop needs it"));
        Ok(Loop::Open(OpenLoop {
            per_s: per_s.0,
            arrivals: self.arrivals.ok_or_else(|| missing("arrivals"))?.read()?,
            schedule: word(
                "schedule",
                &self.schedule.ok_or_else(|| missing("schedule"))?,
                Schedule::from_word,
            )?,
            late: self.late.ok_or_else(|| missing("late"))?.read(),
            spin_budget_ratio: self.spin_budget_ratio.map_or(0.0, |ratio| ratio.0),
            // Absent in runs from before this setting existed.
            fifo: self.fifo.unwrap_or(false),
        }))
    }
}

impl Spread {
    fn of(arrivals: &Arrivals) -> Self {
        match arrivals {
            Arrivals::Jitter { ratio } => Self::Jitter { ratio: Real(*ratio) },
            Arrivals::Period => Self::Period,
            Arrivals::Poisson => Self::Poisson,
            Arrivals::Ramp { .. } | Arrivals::Step(_) | Arrivals::Burst { .. } | Arrivals::Sine { .. } => {
                Self::Shape { text: arrivals.to_string() }
            }
            Arrivals::File(Recorded { path, events, span, sha256 }) => {
                Self::File { path: path.clone(), events: *events, span_ns: ns(*span), sha256: sha256.clone() }
            }
        }
    }

    fn read(self) -> Result<Arrivals, Wrong> {
        Ok(match self {
            Self::Jitter { ratio } => Arrivals::Jitter { ratio: ratio.0 },
            Self::Period => Arrivals::Period,
            Self::Poisson => Arrivals::Poisson,
            Self::Shape { text } => Arrivals::parse(&text).map_err(|e| Wrong(format!("arrivals: {e}")))?,
            Self::File { path, events, span_ns, sha256 } => {
                let span = Duration::from_nanos(span_ns);
                Arrivals::File(Recorded { path, events, span, sha256 })
            }
        })
    }
}

impl Late {
    fn of(late: LatePolicy) -> Self {
        match late {
            LatePolicy::Queue => Self::Queue,
            LatePolicy::Skip { limit } => Self::Skip { limit_ns: ns(limit) },
            LatePolicy::Drop => Self::Drop,
            LatePolicy::Pace { times } => Self::Pace { times: Real(times) },
        }
    }

    fn read(self) -> LatePolicy {
        match self {
            Self::Queue => LatePolicy::Queue,
            Self::Skip { limit_ns } => LatePolicy::Skip { limit: Duration::from_nanos(limit_ns) },
            Self::Drop => LatePolicy::Drop,
            Self::Pace { times } => LatePolicy::Pace { times: times.0 },
        }
    }
}
