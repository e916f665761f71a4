//! Control of a running load: a local socket, one line for each request, one line for each answer.
//!
//! ```text
//! rate 2000/s      the rate from now on; also `rate +10%`, `rate -10%` and `rate x2`
//! status           where the load is, as `name=value` words
//! stop             end it now, as Ctrl-C does
//! help             these words
//! ```
//!
//! Each answer begins with `ok` or `error:`. Permission to write to the socket is permission to control: only
//! its owner has it.

pub(crate) mod bound;
mod command;
mod error;
pub(crate) mod progress;
mod socket;
pub(crate) mod start_line;
pub(crate) mod stop;
pub(crate) mod turns;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use record::histogram::{Bound, QUANTILES, Summary};
use record::load::{Arrivals, LoadSettings, Phase, Progress, RateChange};

pub(crate) use self::command::RateCommand;
pub use self::error::ControlError;
use self::socket::Listening;

/// A socket that controls a load; dropping it removes the socket.
#[derive(Debug)]
pub struct Control {
    shared: Arc<Shared>,
    _listening: Listening,
}

/// State shared by the socket's threads and the conductor.
#[derive(Debug, Default)]
struct Shared(Mutex<Desk>);

#[derive(Debug, Default)]
struct Desk {
    /// The conductor is answering requests.
    is_manned: bool,
    asked: VecDeque<PendingRate>,
    state: State,
}

/// A requested change, and the channel for its answer.
#[derive(Debug)]
pub(crate) struct PendingRate {
    pub(crate) ask: RateCommand,
    pub(crate) answer: SyncSender<String>,
}

/// The state that `status` prints.
#[derive(Debug)]
struct State {
    phase: Option<Phase>,
    /// Beginning of the phase on `CLOCK_MONOTONIC`.
    phase_from_ns: u64,
    measured: Duration,
    /// Duration of the rise before the warm-up, and of the fall after the measured phase.
    ramps: [Duration; 2],
    /// Distribution of due times.
    arrivals: Arrivals,
    /// The planned mean rate; `None` in a closed loop.
    planned_per_s: Option<f64>,
    /// The current mean rate; `None` in a closed loop.
    rate_per_s: Option<f64>,
    /// Announced rates and their times on `CLOCK_MONOTONIC`, in order.
    coming: VecDeque<(u64, f64)>,
    progress: Option<Progress>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            phase: None,
            phase_from_ns: 0,
            measured: Duration::ZERO,
            ramps: [Duration::ZERO; 2],
            arrivals: Arrivals::Period,
            planned_per_s: None,
            rate_per_s: None,
            coming: VecDeque::new(),
            progress: None,
        }
    }
}

impl Control {
    /// Listens at `path`. A socket there without a listener is replaced.
    ///
    /// - `on_stop`: called for each request to end the load.
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

    /// Announces that the conductor answers from now on.
    pub(crate) fn man(&self, settings: &LoadSettings) {
        let mut desk = self.shared.lock();
        desk.is_manned = true;
        desk.state.measured = settings.time;
        desk.state.ramps = [settings.ramp_up, settings.ramp_down];
        desk.state.rate_per_s = settings.pace.per_s();
        desk.state.planned_per_s = settings.pace.per_s();
        if let Some(open) = settings.pace.as_open() {
            desk.state.arrivals = open.arrivals.clone();
        }
    }

    /// Announces that the conductor has stopped answering, and refuses all waiting requests.
    pub(crate) fn leave(&self) {
        let mut desk = self.shared.lock();
        desk.is_manned = false;
        for asked in desk.asked.drain(..) {
            // The client may have gone.
            let _ = asked.answer.try_send(OVER.to_owned());
        }
    }

    pub(crate) fn next(&self) -> Option<PendingRate> {
        self.shared.lock().asked.pop_front()
    }

    pub(crate) fn note_phase(&self, phase: Phase, from_ns: u64) {
        let mut desk = self.shared.lock();
        (desk.state.phase, desk.state.phase_from_ns) = (Some(phase), from_ns);
    }

    pub(crate) fn note_progress(&self, progress: &Progress) {
        self.shared.lock().state.progress = Some(progress.clone());
    }

    /// Notes an announced change.
    ///
    /// - `at_ns`: the time at which the change takes effect.
    pub(crate) fn note_change(&self, change: &RateChange, at_ns: u64) {
        self.shared.lock().state.coming.push_back((at_ns, change.per_s));
    }
}

/// Quantiles of `status`.
const TOLD: [&str; 2] = ["p50", "p99"];
const OVER: &str = "error: the load has ended, or has not started yet";
/// The maximum number of waiting requests.
const ASKED_MAX: usize = 64;
/// A change is made within milliseconds; a missing answer means that the load is over.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to one line.
    fn answer(&self, line: &str, on_stop: &(impl Fn() + ?Sized)) -> String {
        match command::parse(line) {
            Err(problem) => format!("error: {problem}"),
            Ok(command::Command::Help) => format!("ok {}", command::HELP),
            Ok(command::Command::Status) => self.lock().state.line_at(Monotonic.now_ns()),
            Ok(command::Command::Stop) => {
                on_stop();
                "ok stopping the load".to_owned()
            }
            Ok(command::Command::Rate(ask)) => self.pass_on(ask),
        }
    }

    fn pass_on(&self, ask: RateCommand) -> String {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        {
            let mut desk = self.lock();
            if !desk.is_manned {
                return OVER.to_owned();
            }
            if desk.asked.len() >= ASKED_MAX {
                return "error: too many pending rate changes".to_owned();
            }
            desk.asked.push_back(PendingRate { ask, answer });
        }
        answered.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| OVER.to_owned())
    }
}

impl State {
    /// The rate at which events are due `t_s` into the phase; `None` in a closed loop.
    fn in_force_per_s(&self, phase: Phase, t_s: f64) -> Option<f64> {
        let (mean_per_s, planned_per_s) = (self.rate_per_s?, self.planned_per_s?);
        let share_of = |ramp: Duration| (t_s / ramp.as_secs_f64()).clamp(0.0, 1.0);
        let opening_per_s = || {
            crate::schedule::pace::opening_rate_per_s(&self.arrivals, self.measured).unwrap_or(planned_per_s)
        };
        let unchanged_per_s = match phase {
            Phase::RampUp => opening_per_s() * share_of(self.ramps[0]),
            Phase::Warmup => opening_per_s(),
            Phase::Measure => crate::schedule::pace::rate_per_s_at(&self.arrivals, self.measured, t_s)
                .unwrap_or(planned_per_s),
            Phase::RampDown => planned_per_s * (1.0 - share_of(self.ramps[1])),
            Phase::Drain => 0.0,
        };
        let per_s = unchanged_per_s * (mean_per_s / planned_per_s);
        // Rounded to a millionth: an event an hour is 0.000278/s.
        Some((per_s * 1e6).round() / 1e6)
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
            words.extend(progress.latency.summary().iter().flat_map(latency_words));
            words.push(format!("errors={}", progress.errors));
            words.push(format!("outage={}", progress.outage));
        }
        words.join(" ")
    }
}

/// The percentiles that the sample holds, and the names of those that events that timed out could raise.
fn latency_words(summary: &Summary) -> Vec<String> {
    let (mut words, mut lower_bounds) = (Vec::new(), Vec::new());
    for (place, (name, _)) in QUANTILES.into_iter().enumerate().filter(|(_, (n, _))| TOLD.contains(n)) {
        let Some(ns) = summary.quantile_ns(place) else { continue };
        words.push(format!("{name}_ns={ns}"));
        lower_bounds.extend((summary.bound(name) == Bound::Lower).then_some(name));
    }
    if !lower_bounds.is_empty() {
        words.push(format!("lower_bounds={}", lower_bounds.join(",")));
    }
    words
}

#[cfg(test)]
mod tests {
    use record::histogram::CensoredHistogram;

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
            let line = state.line_at(crate::schedule::clock::to_ns(Duration::from_secs_f64(at_s)));
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
    fn before_and_after_the_measured_phase_the_rate_is_that_of_the_moment_too() {
        let told = |arrivals: &str, phase: Phase, at_s: f64| {
            let mut state = State {
                phase: Some(phase),
                measured: Duration::from_secs(6),
                ramps: [Duration::from_secs(4), Duration::from_secs(2)],
                arrivals: Arrivals::parse(arrivals).unwrap(),
                planned_per_s: Some(300.0),
                rate_per_s: Some(600.0),
                ..State::default()
            };
            let line = state.line_at(crate::schedule::clock::to_ns(Duration::from_secs_f64(at_s)));
            line.split(' ').find_map(|word| word.strip_prefix("rate_per_s=")).unwrap().to_owned()
        };
        // Changed to twice the planned rate. A ramp that begins with nothing has its mean rate before.
        for (arrivals, opening) in [("period", 600.0), ("ramp:0-600", 600.0), ("step:100,500", 200.0)] {
            for (phase, at_s, per_s) in [
                (Phase::RampUp, 0.0, 0.0),
                (Phase::RampUp, 1.0, opening / 4.0),
                (Phase::Warmup, 1.0, opening),
                (Phase::RampDown, 0.0, 600.0),
                (Phase::RampDown, 1.5, 150.0),
                (Phase::Drain, 1.0, 0.0),
            ] {
                assert_eq!(told(arrivals, phase, at_s), per_s.to_string(), "{arrivals} {phase:?} {at_s}");
            }
        }
    }

    #[test]
    fn a_rate_is_told_as_the_next_until_it_is_in_force() {
        let mut state = State {
            phase: Some(Phase::Measure),
            planned_per_s: Some(400.0),
            rate_per_s: Some(400.0),
            ..State::default()
        };
        state.coming.extend([(100, 500.0), (200, 600.0)]);
        assert!(state.line_at(99).ends_with(" rate_per_s=400 next_rate_per_s=600"));
        assert!(state.line_at(100).ends_with(" rate_per_s=500 next_rate_per_s=600"));
        assert!(state.line_at(250).ends_with(" rate_per_s=600"));
    }

    #[test]
    fn a_percentile_of_too_few_events_is_left_out() {
        let told = |events: u64, timeouts: u64| {
            let progress = Progress {
                phase: Phase::Measure,
                t_s: 1.0,
                interval_s: 1.0,
                offered_per_s: Ok(60.0),
                achieved_per_s: 60.0,
                backlog: 0,
                latency: Box::new(CensoredHistogram {
                    known: (1..=events).map(|ns| (ns, 1)).collect(),
                    at_least: std::iter::once((1_000, timeouts)).filter(|(_, n)| *n > 0).collect(),
                }),
                lateness: Ok(Box::default()),
                errors: 0,
                outage: false,
            };
            State { phase: Some(Phase::Measure), progress: Some(progress), ..State::default() }.line_at(0)
        };
        let few = told(60, 0);
        assert!(few.contains(" p50_ns=30 ") && !few.contains("p99_ns"), "{few}");
        let many = told(100, 0);
        assert!(many.contains(" p50_ns=50 p99_ns=99 errors"), "{many}");
        // Events that timed out lasted longer than that.
        let timed_out = told(97, 3);
        assert!(timed_out.contains(" p50_ns=50 p99_ns=1000 lower_bounds=p99 errors"), "{timed_out}");
    }
}
