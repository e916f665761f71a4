//! Open and closed loops, which decide when an event begins. Each has separate settings.

use std::fmt;
use std::time::Duration;

use crate::arrivals::Arrivals;
pub use crate::load::choices::Schedule;
use crate::load::rules::{self, Violation};
use crate::load::settings;
use crate::quantity::{NotAQuantity, duration, written_duration};

/// Loop that decides when an event begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Loop {
    /// Events begin by a schedule, independent of the server.
    Open(OpenLoop),
    /// An event begins after the end of the previous one.
    Closed {
        /// Think time of a worker after each event.
        think: Think,
    },
}

impl Loop {
    /// Closed loop without think time.
    pub const CLOSED: Self = Self::Closed { think: Think::None };

    /// Open loop by [`OpenLoop::plain`].
    pub fn open(per_s: f64) -> Self {
        Self::Open(OpenLoop::plain(per_s))
    }

    /// Settings of the open loop; `None` in a closed loop.
    pub fn as_open(&self) -> Option<&OpenLoop> {
        match self {
            Self::Open(open) => Some(open),
            Self::Closed { .. } => None,
        }
    }

    /// [`OpenLoop::per_s`]; `None` in a closed loop.
    pub fn per_s(&self) -> Option<f64> {
        self.as_open().map(|open| open.per_s)
    }

    /// Think time of a worker after each event; none in an open loop, where the schedule decides when the
    /// next event begins.
    pub fn think(&self) -> Think {
        match self {
            Self::Open(_) => Think::None,
            Self::Closed { think } => *think,
        }
    }

    /// Whether workers have anything to spin for: due times, or responses on one of many connections.
    pub fn may_spin(&self, connections: Option<u32>) -> bool {
        self.as_open().is_some() || connections.is_some()
    }
}

/// Settings that only an open loop has.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoop {
    /// Events per second over all threads; the mean if the arrivals define their own rates.
    pub per_s: f64,
    /// Distribution of due times.
    pub arrivals: Arrivals,
    /// Rule by which a worker takes the next event.
    pub schedule: Schedule,
    /// Handling of late events.
    pub late: LatePolicy,
    /// Share of one CPU that all workers together may spin if [`crate::load::ClientSettings::spin`] is off:
    /// they ask for an early wake-up by their usual wake-up latency and spin for the rest. 0 turns this off.
    pub spin_budget_ratio: f64,
    /// Whether workers run at real-time priority (`SCHED_FIFO`), before everything else. In a closed loop
    /// nothing else would run.
    pub fifo: bool,
}

impl OpenLoop {
    /// Default of [`Self::spin_budget_ratio`].
    pub const SPIN_BUDGET_RATIO: f64 = settings::SPIN_BUDGET.default_ratio();

    /// Loop with even arrivals that any free worker takes; workers sleep, at ordinary priority.
    pub fn plain(per_s: f64) -> Self {
        Self {
            per_s,
            arrivals: Arrivals::Period,
            schedule: Schedule::Shared,
            late: LatePolicy::Queue,
            spin_budget_ratio: 0.0,
            fifo: false,
        }
    }
}

/// Settings of a loop as given. `None`: not given.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopOptions {
    /// Events per second.
    pub per_s: Option<f64>,
    /// Distribution of due times.
    pub arrivals: Option<Arrivals>,
    /// Range of jitter arrivals, as in [`Arrivals::Jitter`]; overrides the ratio of the arrivals.
    pub jitter_ratio: Option<f64>,
    /// Rule by which a worker takes the next event.
    pub schedule: Option<Schedule>,
    /// Handling of late events.
    pub late: Option<LatePolicy>,
    /// Share of one CPU that workers may spin.
    pub spin_budget_ratio: Option<f64>,
    /// Real-time priority.
    pub fifo: bool,
    /// Think time after each event.
    pub think: Option<Think>,
}

impl LoopOptions {
    /// Resolves every default and returns the loop.
    ///
    /// - `span`: length of the measured phase, for the mean rate of arrivals that define their own rates.
    ///
    /// # Errors
    ///
    /// The first setting that would have no effect, or contradicts another.
    pub fn resolved(self, span: Duration) -> Result<Loop, Violation> {
        let arrivals = self.arrivals.clone().unwrap_or(Arrivals::Jitter { ratio: Arrivals::JITTER_RATIO });
        if self.per_s.is_some() && arrivals.say_their_rate() {
            return Err(Violation::of("arrivals", &rules::TWO_RATES));
        }
        let arrivals = match (arrivals, self.jitter_ratio) {
            (Arrivals::Jitter { .. }, Some(ratio)) => Arrivals::Jitter { ratio },
            (_, Some(_)) => return Err(Violation::of("jitter", &rules::NO_JITTER)),
            (arrivals, None) => arrivals,
        };
        let think = self.think.unwrap_or(Think::None);
        let Some(per_s) = self.per_s.or_else(|| arrivals.mean_per_s(span)) else {
            let closed = Ok(Loop::Closed { think });
            return self.open_only().map_or(closed, |name| Err(Violation::of(name, &rules::OPEN_LOOP)));
        };
        if think != Think::None {
            return Err(Violation::of("think", &rules::THINK_TIME));
        }
        Ok(Loop::Open(OpenLoop {
            per_s,
            arrivals,
            schedule: self.schedule.unwrap_or(Schedule::Shared),
            late: self.late.unwrap_or(LatePolicy::Queue),
            spin_budget_ratio: self.spin_budget_ratio.unwrap_or(OpenLoop::SPIN_BUDGET_RATIO),
            fifo: self.fifo,
        }))
    }

    /// First given setting that only an open loop has.
    fn open_only(&self) -> Option<&'static str> {
        let given = [
            ("arrivals", self.arrivals.is_some()),
            ("jitter", self.jitter_ratio.is_some()),
            ("schedule", self.schedule.is_some()),
            ("late", self.late.is_some()),
            ("fifo", self.fifo),
            ("spin_budget", self.spin_budget_ratio.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// Handling of an event that starts late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatePolicy {
    /// Starts immediately; its response time counts from its due time.
    Queue,
    /// Skipped and counted if it is later than the limit.
    Skip {
        /// Lateness from which an event is skipped.
        limit: Duration,
    },
    /// Skipped and counted if no worker was free at its due time.
    Drop,
    /// Waits for its turn: late events start at most at this many times the rate, however many there are.
    Pace {
        /// Over 1; otherwise the backlog never shrinks.
        times: f64,
    },
}

impl fmt::Display for LatePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("queue"),
            Self::Skip { limit } => write!(f, "skip={}", written_duration(*limit)),
            Self::Drop => f.write_str("drop"),
            Self::Pace { times } => write!(f, "pace={times}x"),
        }
    }
}

impl LatePolicy {
    /// Parses what [`fmt::Display`] writes: `queue`, `skip=100ms`, `drop`, `pace=2x`.
    ///
    /// # Errors
    ///
    /// The problem and a valid example.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "queue" => Ok(Self::Queue),
            None if text == "drop" => Ok(Self::Drop),
            Some(("skip", limit)) => match duration(limit) {
                Ok(Duration::ZERO) => {
                    Err("skip= needs a limit over 0; to skip every late event, use drop".to_owned())
                }
                Ok(limit) => Ok(Self::Skip { limit }),
                Err(e) => Err(e.to_string()),
            },
            Some(("pace", times)) => match times.strip_suffix('x').map(str::parse) {
                Some(Ok(times)) if times > 1.0 && f64::is_finite(times) => Ok(Self::Pace { times }),
                _ => Err(format!("`{times}` is not a speed over 1x, such as pace=2x")),
            },
            _ => {
                Err("expected queue, skip=DURATION such as skip=100ms, drop, or pace=TIMESx such as pace=2x"
                    .into())
            }
        }
    }
}

/// Think time of a worker of a closed loop after each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Zero think time.
    None,
    /// Constant.
    Constant(Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
}

impl Think {
    /// Parses what [`fmt::Display`] writes: `10ms`, `exp:10ms`.
    ///
    /// # Errors
    ///
    /// [`NotAQuantity`] if the text is not a duration.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        let (is_exponential, time) = text.strip_prefix("exp:").map_or((false, text), |time| (true, time));
        let time = duration(time)?;
        Ok(match (time.is_zero(), is_exponential) {
            (true, _) => Self::None,
            (false, true) => Self::Exponential(time),
            (false, false) => Self::Constant(time),
        })
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::Constant(time) => f.write_str(&written_duration(*time)),
            Self::Exponential(mean) => write!(f, "exp:{}", written_duration(*mean)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_think_times_read_back_as_they_are_written() {
        for text in ["queue", "skip=100ms", "drop", "pace=2x", "pace=1.5x"] {
            assert_eq!(LatePolicy::parse(text).unwrap().to_string(), text);
        }
        for text in ["skip=0", "skip=5", "pace=1x", "pace=2", "pace=infx", "wait", "drop=1s"] {
            assert!(LatePolicy::parse(text).is_err(), "{text}");
        }
        for text in ["0", "10ms", "exp:1s"] {
            assert_eq!(Think::parse(text).unwrap().to_string(), text);
        }
        assert!(Think::parse("exp:").is_err() && Think::parse("gauss:1s").is_err());
    }

    const NOTHING: LoopOptions = LoopOptions {
        per_s: None,
        arrivals: None,
        jitter_ratio: None,
        schedule: None,
        late: None,
        spin_budget_ratio: None,
        fifo: false,
        think: None,
    };
    const REST: Think = Think::Constant(Duration::from_millis(10));

    fn resolved(options: LoopOptions) -> Result<Loop, Violation> {
        options.resolved(Duration::from_secs(10))
    }

    #[test]
    fn what_was_not_said_has_its_default() {
        assert_eq!(resolved(NOTHING), Ok(Loop::CLOSED));
        assert_eq!(resolved(LoopOptions { think: Some(REST), ..NOTHING }), Ok(Loop::Closed { think: REST }));
        let jitter = |ratio| OpenLoop {
            arrivals: Arrivals::Jitter { ratio },
            spin_budget_ratio: 0.05,
            ..OpenLoop::plain(500.0)
        };
        let open = LoopOptions { per_s: Some(500.0), think: Some(Think::None), ..NOTHING };
        assert_eq!(resolved(open.clone()), Ok(Loop::Open(jitter(0.1))));
        assert_eq!(resolved(LoopOptions { jitter_ratio: Some(0.5), ..open }), Ok(Loop::Open(jitter(0.5))));
    }

    #[test]
    fn arrivals_that_say_their_rates_open_the_loop_at_their_mean() {
        let per_s = |text: &str| {
            let options = LoopOptions { arrivals: Some(Arrivals::parse(text).unwrap()), ..NOTHING };
            resolved(options).unwrap().per_s().unwrap()
        };
        for (text, mean_per_s) in [
            ("ramp:100-300", 200.0),
            ("step:100,500", 300.0),
            ("step:100@9s,600", 150.0),
            ("burst:10-110@1s/5s", 30.0),
            ("sine:0-200@5s", 100.0),
        ] {
            assert!((per_s(text) - mean_per_s).abs() < 1e-9, "{text}: {}", per_s(text));
        }
    }

    #[test]
    fn what_cannot_be_had_together_is_refused() {
        let open = LoopOptions { per_s: Some(500.0), ..NOTHING };
        let ramp = Arrivals::parse("ramp:1-9").unwrap();
        let (beside, moved) = (
            LoopOptions { arrivals: Some(ramp.clone()), ..open.clone() },
            LoopOptions { arrivals: Some(Arrivals::Poisson), jitter_ratio: Some(0.1), ..open.clone() },
        );
        assert_eq!(resolved(beside), Err(Violation::of("arrivals", &rules::TWO_RATES)));
        assert_eq!(resolved(moved), Err(Violation::of("jitter", &rules::NO_JITTER)));
        let rests = LoopOptions { think: Some(REST), ..open };
        assert_eq!(resolved(rests), Err(Violation::of("think", &rules::THINK_TIME)));
        let rests = LoopOptions { think: Some(REST), arrivals: Some(ramp), ..NOTHING };
        assert_eq!(resolved(rests), Err(Violation::of("think", &rules::THINK_TIME)));
        for (name, options) in [
            ("arrivals", LoopOptions { arrivals: Some(Arrivals::Poisson), ..NOTHING }),
            ("jitter", LoopOptions { jitter_ratio: Some(0.0), ..NOTHING }),
            ("schedule", LoopOptions { schedule: Some(Schedule::Shared), ..NOTHING }),
            ("late", LoopOptions { late: Some(LatePolicy::Queue), ..NOTHING }),
            ("fifo", LoopOptions { fifo: true, ..NOTHING }),
            ("spin_budget", LoopOptions { spin_budget_ratio: Some(0.0), ..NOTHING }),
        ] {
            assert_eq!(resolved(options), Err(Violation::of(name, &rules::OPEN_LOOP)));
        }
    }
}
