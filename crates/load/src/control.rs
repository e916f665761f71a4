//! Talking to a load while it runs: a local socket, one line asked, one line answered.
//!
//! ```text
//! rate 2000/s      the rate from now on; also `rate +10%`, `rate -10%` and `rate x2`
//! status           where the load is, as `name=value` words
//! stop             end it now, as Ctrl-C does
//! help             these words
//! ```
//!
//! Each answer begins with `ok` or `error:`. Who may write to the socket may do this: its file is for its owner only.

mod ask;
mod socket;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use record::load::{Arrivals, LoadSettings, Phase, Progress, Rate, RateChange};

pub(crate) use self::ask::RateAsk;
use self::socket::Listening;

/// Why nobody can talk to a load.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Something is there that is no socket, and is left alone.
    #[error("{} is there and is no socket: choose another path for --control", path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// Another user's socket is there: nothing is said to it.
    #[error("{} is another user's socket: choose another path for --control", path.display())]
    OfAnother {
        /// Where.
        path: PathBuf,
    },
    /// Another load listens there.
    #[error("another load listens at {}: choose another path for --control", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// The kernel takes no path of this length for a socket.
    #[error("{} is too long for a socket, which may have 107 bytes: choose a shorter path", path.display())]
    TooLong {
        /// Where.
        path: PathBuf,
    },
    /// The kernel's.
    #[error("cannot listen at {}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket at which a load is talked to; it is removed with this.
#[derive(Debug)]
pub struct Control {
    shared: Arc<Shared>,
    _listening: Listening,
}

/// What those who ask and who conducts share.
#[derive(Debug, Default)]
struct Shared(Mutex<Desk>);

#[derive(Debug, Default)]
struct Desk {
    /// Who conducts answers what is asked.
    is_manned: bool,
    asked: VecDeque<Asked>,
    state: State,
}

/// A change that is asked for, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) ask: RateAsk,
    pub(crate) answer: SyncSender<String>,
}

/// What `status` tells.
#[derive(Debug)]
struct State {
    phase: Option<Phase>,
    /// `CLOCK_MONOTONIC`.
    phase_from_ns: u64,
    measured: Duration,
    /// How due times are spread.
    arrivals: Arrivals,
    /// The mean at first; `None` in a closed loop.
    planned_per_s: Option<f64>,
    /// The mean in force now; `None` in a closed loop.
    rate_per_s: Option<f64>,
    /// Rates that come into force, and when, on `CLOCK_MONOTONIC`; in order.
    coming: VecDeque<(u64, f64)>,
    progress: Option<Progress>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            phase: None,
            phase_from_ns: 0,
            measured: Duration::ZERO,
            arrivals: Arrivals::Period,
            planned_per_s: None,
            rate_per_s: None,
            coming: VecDeque::new(),
            progress: None,
        }
    }
}

impl Control {
    /// Listens at `path`. A socket that somebody left there who does not listen any more is replaced.
    ///
    /// - `on_stop`: called where somebody asks to end the load, once for each time.
    ///
    /// # Errors
    ///
    /// [`ControlError`], with what to do.
    pub fn listen(path: &Path, on_stop: impl Fn() + Send + Sync + 'static) -> Result<Self, ControlError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let answer = move |line: &str| theirs.answer(line, &on_stop);
        let listening = Listening::begin(path, Arc::new(answer))?;
        Ok(Self { shared, _listening: listening })
    }

    /// From now on somebody answers.
    pub(crate) fn man(&self, settings: &LoadSettings) {
        let mut desk = self.shared.lock();
        desk.is_manned = true;
        desk.state.measured = settings.time;
        desk.state.rate_per_s = match settings.rate {
            Rate::Max => None,
            Rate::PerSecond(per_s) => Some(per_s),
        };
        desk.state.planned_per_s = desk.state.rate_per_s;
        desk.state.arrivals = settings.arrivals.clone();
    }

    /// From now on nobody answers.
    pub(crate) fn leave(&self) {
        let mut desk = self.shared.lock();
        desk.is_manned = false;
        for asked in desk.asked.drain(..) {
            // Whoever asked may have gone.
            let _ = asked.answer.try_send(OVER.to_owned());
        }
    }

    pub(crate) fn next(&self) -> Option<Asked> {
        self.shared.lock().asked.pop_front()
    }

    pub(crate) fn note_phase(&self, phase: Phase, from_ns: u64) {
        let mut desk = self.shared.lock();
        (desk.state.phase, desk.state.phase_from_ns) = (Some(phase), from_ns);
    }

    pub(crate) fn note_progress(&self, progress: &Progress) {
        self.shared.lock().state.progress = Some(progress.clone());
    }

    /// - `at_ns`: when it comes into force.
    pub(crate) fn note_change(&self, change: &RateChange, at_ns: u64) {
        self.shared.lock().state.coming.push_back((at_ns, change.per_s));
    }
}

const OVER: &str = "error: the load is over, or has not begun";
/// Asking for more while so many wait makes no sense.
const ASKED_MAX: usize = 64;
/// A change is laid out within milliseconds; so long it takes for nobody.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to one line.
    fn answer(&self, line: &str, on_stop: &(impl Fn() + ?Sized)) -> String {
        match ask::parse(line) {
            Err(problem) => format!("error: {problem}"),
            Ok(ask::Ask::Help) => format!("ok {}", ask::HELP),
            Ok(ask::Ask::Status) => self.lock().state.line_at(Monotonic.now_ns()),
            Ok(ask::Ask::Stop) => {
                on_stop();
                "ok the load ends".to_owned()
            }
            Ok(ask::Ask::Rate(ask)) => self.pass_on(ask),
        }
    }

    fn pass_on(&self, ask: RateAsk) -> String {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        {
            let mut desk = self.lock();
            if !desk.is_manned {
                return OVER.to_owned();
            }
            if desk.asked.len() >= ASKED_MAX {
                return "error: too many changes wait already".to_owned();
            }
            desk.asked.push_back(Asked { ask, answer });
        }
        answered.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| OVER.to_owned())
    }
}

impl State {
    /// The rate in force `t_s` into the phase. Arrivals that change their rate have another one at each moment.
    fn in_force_per_s(&self, phase: Phase, t_s: f64) -> Option<f64> {
        let mean_per_s = self.rate_per_s?;
        let t_s = match phase {
            Phase::RampUp | Phase::Warmup => 0.0,
            Phase::Measure => t_s,
            Phase::RampDown | Phase::Drain => return Some(mean_per_s),
        };
        let shaped_per_s = crate::pace::rate_per_s_at(&self.arrivals, self.measured, t_s);
        let shaped_per_s = shaped_per_s.zip(self.planned_per_s);
        Some(shaped_per_s.map_or(mean_per_s, |(per_s, planned_per_s)| per_s * (mean_per_s / planned_per_s)))
    }

    fn line_at(&mut self, now_ns: u64) -> String {
        while let Some((_, per_s)) = self.coming.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.rate_per_s = Some(per_s);
        }
        let Some(phase) = self.phase else { return "ok phase=preparing".to_owned() };
        let t_s = now_ns.saturating_sub(self.phase_from_ns) as f64 / 1e9;
        let rate = self.in_force_per_s(phase, t_s).map_or("max".to_owned(), |per_s| per_s.to_string());
        let mut words = vec![
            "ok".to_owned(),
            format!("phase={}", phase.word()),
            format!("t_s={t_s:.3}"),
            format!("time_s={}", self.measured.as_secs_f64()),
            format!("rate_per_s={rate}"),
        ];
        words.extend(self.coming.back().map(|(_, per_s)| format!("next_rate_per_s={per_s}")));
        if let Some(progress) = &self.progress {
            let offered = progress.offered_per_s.as_ref().ok();
            words.extend(offered.map(|per_s| format!("offered_per_s={per_s:.3}")));
            words.push(format!("achieved_per_s={:.3}", progress.achieved_per_s));
            words.push(format!("backlog={}", progress.backlog));
            for (name, quantile) in [("p50_ns", 0.5), ("p99_ns", 0.99)] {
                words.extend(progress.latency.quantile_ns(quantile).map(|ns| format!("{name}={ns}")));
            }
            words.push(format!("errors={}", progress.errors));
            words.push(format!("outage={}", progress.outage));
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_that_change_their_rate_are_told_at_the_rate_of_the_moment() {
        let told = |arrivals: &str, at_s: f64, mean_per_s: f64| {
            let mut state = State {
                phase: Some(Phase::Measure),
                measured: Duration::from_secs(6),
                arrivals: Arrivals::parse(arrivals).unwrap(),
                planned_per_s: Some(100.0),
                rate_per_s: Some(mean_per_s),
                ..State::default()
            };
            let line = state.line_at(crate::engine::to_ns(Duration::from_secs_f64(at_s)));
            let word = line.split(' ').find_map(|word| word.strip_prefix("rate_per_s=")).unwrap();
            word.to_owned()
        };
        for (at_s, per_s, doubled) in
            [(0.5, "100", "200"), (3.0, "0", "0"), (4.0, "400", "800"), (9.0, "400", "800")]
        {
            assert_eq!(told("step:100@2s,0@2s,400@2s", at_s, 100.0), per_s, "{at_s}");
            assert_eq!(told("step:100@2s,0@2s,400@2s", at_s, 200.0), doubled, "{at_s}");
        }
        assert_eq!(told("ramp:0-600", 3.0, 100.0), "300");
        assert_eq!(told("period", 3.0, 100.0), "100");
    }

    #[test]
    fn a_rate_is_told_as_the_next_until_it_is_in_force() {
        let mut state = State { phase: Some(Phase::Measure), rate_per_s: Some(400.0), ..State::default() };
        state.coming.extend([(100, 500.0), (200, 600.0)]);
        assert!(state.line_at(99).ends_with(" rate_per_s=400 next_rate_per_s=600"));
        assert!(state.line_at(100).ends_with(" rate_per_s=500 next_rate_per_s=600"));
        assert!(state.line_at(250).ends_with(" rate_per_s=600"));
    }
}
