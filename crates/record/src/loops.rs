//! Open and closed loops: what says when an event begins. Each has settings of its own, and only those.

use std::fmt;
use std::time::Duration;

use crate::arrivals::Arrivals;
pub use crate::load::choices::Schedule;
use crate::load::rules::{self, Violation};
use crate::load::settings;
use crate::quantity::{NotAQuantity, duration, written_duration};

/// What says when an event begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Loop {
    /// A schedule, whatever the server takes.
    Open(OpenLoop),
    /// The end of the event before.
    Closed {
        /// Rest of a worker after each event.
        think: Think,
    },
}

impl Loop {
    /// As fast as it goes.
    pub const CLOSED: Self = Self::Closed { think: Think::None };

    /// As [`OpenLoop::plain`].
    pub fn open(per_s: f64) -> Self {
        Self::Open(OpenLoop::plain(per_s))
    }

    /// What an open loop was asked for; `None` in a closed one.
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

    /// Rest of a worker after each event; none in an open loop, whose schedule says when the next one begins.
    pub fn think(&self) -> Think {
        match self {
            Self::Open(_) => Think::None,
            Self::Closed { think } => *think,
        }
    }

    /// Whether there is anything that workers may spin for: due times, or answers on one of many connections.
    pub fn may_spin(&self, connections: Option<u32>) -> bool {
        self.as_open().is_some() || connections.is_some()
    }
}

/// What only a loop with due times has.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoop {
    /// Events per second over all threads; of arrivals that say their rates themselves, the mean.
    pub per_s: f64,
    /// How due times are spread.
    pub arrivals: Arrivals,
    /// Which worker takes the next event.
    pub schedule: Schedule,
    /// What happens to late ones.
    pub late: LatePolicy,
    /// Without [`crate::load::ClientSettings::spin`]: workers ask to be woken early by what their wake-ups usually take, and
    /// spin the rest; all together for at most this share of one CPU. 0 turns it off.
    pub spin_budget_ratio: f64,
    /// Workers run at real-time priority (`SCHED_FIFO`), before everything else. In a closed loop nothing else would run.
    pub fifo: bool,
}

impl OpenLoop {
    /// The default of [`Self::spin_budget_ratio`].
    pub const SPIN_BUDGET_RATIO: f64 = settings::SPIN_BUDGET.default_ratio();

    /// Even arrivals, for any free worker; workers sleep, at ordinary priority.
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

/// The settings of a loop as they are given. `None`: not given.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopOptions {
    /// Events per second.
    pub per_s: Option<f64>,
    /// How due times are spread.
    pub arrivals: Option<Arrivals>,
    /// How far jitter arrivals move, as [`Arrivals::Jitter`]; overrides the ratio of the arrivals.
    pub jitter_ratio: Option<f64>,
    /// Which worker takes the next event.
    pub schedule: Option<Schedule>,
    /// What happens to late events.
    pub late: Option<LatePolicy>,
    /// How much workers may spin.
    pub spin_budget_ratio: Option<f64>,
    /// Real-time priority.
    pub fifo: bool,
    /// Rest after each event.
    pub think: Option<Think>,
}

impl LoopOptions {
    /// The loop, with every default resolved.
    ///
    /// - `span`: length of the measured phase, for the mean rate of arrivals that have rates of their own.
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

    /// The first setting that is given and that only an open loop has.
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

/// What happens to an event that is taken late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatePolicy {
    /// It starts at once; it counts from its due time.
    Queue,
    /// It is not done where it is later than this, and is counted as skipped.
    Skip {
        /// The lateness from which an event is given up.
        limit: Duration,
    },
    /// It is not done where no worker was free when it was due, and is counted as skipped.
    Drop,
    /// It waits for its turn: late events start at no more than this many times the rate, however many there are.
    Pace {
        /// Over 1, or the backlog never shrinks.
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
    /// Reads what [`fmt::Display`] writes: `queue`, `skip=100ms`, `drop`, `pace=2x`.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "queue" => Ok(Self::Queue),
            None if text == "drop" => Ok(Self::Drop),
            Some(("skip", limit)) => match duration(limit) {
                Ok(Duration::ZERO) => Err("skip= needs a limit over 0; drop is the one without".to_owned()),
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

/// How long a worker of a closed loop rests after each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Not at all.
    None,
    /// Always this long.
    Constant(Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
}

impl Think {
    /// Reads what [`fmt::Display`] writes: `10ms`, `exp:10ms`.
    ///
    /// # Errors
    ///
    /// [`NotAQuantity`] where it holds no duration.
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
