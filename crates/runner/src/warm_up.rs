//! A warm-up that is judged: a load before the load, until throughput, latency, CPU and memory are steady.
//!
//! The warm-up is a separate load, with other random numbers: with the same, the measured phase would find
//! exactly its rows in every cache. Then the connections are made anew, and a short rest of the warm-up lets
//! them settle.

use std::time::Duration;

use analysis::steady::{Matters, Steadiness, next_look, steadiness};
use load::{Event, LoadError, Stop};
use nix::unistd::Pid;
use plan::Plan;
use record::bakeoff::Trial;
use record::histogram::Histogram;
use record::load::{LoadRecord, LoadSettings, Phase, Progress};
use record::missing::{Maybe, Missing};
use record::verdict::Check;
use record::warm_up::{Course, JudgedCourse, WarmUp};

use crate::generator;
use crate::server_cpu::ServerMeter;
use crate::server_use::{self, Whose};

/// Separates the random numbers of the warm-up from those of the measured load.
const SEED_SALT: u64 = 0x7761_726d_2d75_7021;
/// Longest interval of the load, so that a request to stop is not kept waiting.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Longest warm-up of the load that is measured, after a judged one.
const REST_MAX: Duration = Duration::from_secs(1);

/// Most batches that one p99 covers.
const TAIL_BATCHES_MAX: u32 = 4;

/// Fewest cycles in a measured phase, and the largest difference from a whole number of them, as a share.
const CYCLES_MIN: f64 = 5.0;
const CYCLES_OFF_RATIO_MAX: f64 = 0.02;

/// The processes of the server under test, as far as a warm-up looks at them.
pub(crate) struct Observed<'a> {
    pub(crate) pids: Vec<Pid>,
    pub(crate) whose: Whose,
    pub(crate) members: &'a dyn Fn() -> Vec<Pid>,
    /// Whether a process of the server has ended.
    pub(crate) has_ended: &'a dyn Fn() -> bool,
}

/// Result of a warm-up.
#[derive(Debug)]
pub(crate) struct Warmed {
    pub(crate) warm_up: WarmUp,
    /// Metrics that were not judged, with the reason.
    pub(crate) not_judged: Vec<String>,
}

/// Returns the settings of the measured load: after a judged warm-up, only its rest is left.
pub(crate) fn shortened(settings: LoadSettings, plan: &Plan) -> LoadSettings {
    if !plan.warmup().is_judged() {
        return settings;
    }
    LoadSettings { warmup: REST_MAX.min(plan.warmup().min), ramp_up: Duration::ZERO, ..settings }
}

/// Warms a server up until it is steady, or as long as the plan allows.
///
/// - `settings`: those of the trial.
///
/// # Errors
///
/// [`LoadError`] if the load cannot be driven, or the user stopped it.
pub(crate) fn warm_up(
    plan: &Plan,
    trial: &Trial,
    settings: LoadSettings,
    observed: &Observed<'_>,
    stop: &Stop,
) -> Result<Warmed, LoadError> {
    let rules = plan.warmup();
    let batch = rules.batch();
    let parts = batch.as_nanos().div_ceil(INTERVAL_MAX.as_nanos()).max(1);
    let parts = u32::try_from(parts).expect("a batch lasts some seconds");
    let settings = LoadSettings {
        draws: settings.draws ^ SEED_SALT ^ u64::from(trial.index),
        warmup: Duration::ZERO,
        time: rules.max.unwrap_or(rules.min),
        interval: batch / parts,
        ramp_down: Duration::ZERO,
        ..settings
    };
    let mut judge = Judge::new(plan, &settings, observed, parts);
    let enough = Stop::new();
    let done = load::run_with(&settings, &generator::client_of(plan), &enough, &mut |event| {
        judge.follow(event);
        if (stop.is_requested() || judge.is_over() || (observed.has_ended)()) && !enough.is_requested() {
            enough.request();
        }
    });
    if stop.is_requested() {
        return Err(LoadError::Interrupted);
    }
    done.map(|_: LoadRecord| judge.end())
}

/// Returns the check of a judged warm-up.
pub(crate) fn check(warm_up: &WarmUp, longest: Duration) -> Check {
    let worst: Vec<String> = warm_up
        .metrics
        .iter()
        .filter(|m| m.course == Course::NoSteadyState)
        .map(|m| format!("{}: {}", m.metric, m.evidence))
        .collect();
    let ok = warm_up.is_steady();
    let why =
        if warm_up.metrics.is_empty() { "no metric could be judged".to_owned() } else { worst.join("; ") };
    let text = if ok {
        format!("steady after {:.1} s of warm-up ({})", warm_up.took_s, warm_up.course.word())
    } else {
        format!(
            "not-steady: still not steady after {:.1} s of warm-up, the plan's maximum: {why}",
            warm_up.took_s
        )
    };
    Check { name: "not-steady", ok, found: warm_up.took_s, limit: longest.as_secs_f64(), text }
}

/// Tells of a measured phase that does not cover whole cycles, or too few: its mean depends on where in a
/// cycle it began.
pub(crate) fn partial_cycles(warm_up: &WarmUp, measured: Duration) -> Option<String> {
    let period_s = warm_up.period_s().filter(|period_s| *period_s > 0.0)?;
    let cycles = measured.as_secs_f64() / period_s;
    let whole = cycles.round().max(CYCLES_MIN);
    if (cycles - whole).abs() <= CYCLES_OFF_RATIO_MAX * whole {
        return None;
    }
    Some(format!(
        "the measured phase of {:.1} s covers {cycles:.1} cycles of {period_s:.1} s: make it {:.1} s or another whole \
         number of cycles, at least {CYCLES_MIN}",
        measured.as_secs_f64(),
        whole * period_s
    ))
}

/// One judged metric, batch by batch.
#[derive(Debug)]
struct Strand {
    metric: String,
    /// Batches that one value covers.
    width: u32,
    /// Changes that matter, with the measured phase in such values.
    matters: Matters,
    batches: Vec<f64>,
    /// Number of batches up to the last one without a value: only what follows can be steady.
    from: usize,
    /// Number of batches after it at which they are judged next.
    next_look: usize,
    /// Reason that the last batch without a value has none.
    missing: Option<String>,
    found: Steadiness,
}

/// Collects batches and judges them.
struct Judge<'a> {
    observed: &'a Observed<'a>,
    meter: ServerMeter,
    least_s: f64,
    /// Intervals in a batch.
    parts: u32,
    strands: Vec<Strand>,
    /// Current batch: intervals, seconds, events, latencies.
    intervals: u32,
    seconds: f64,
    events: f64,
    latency: Histogram,
    tail: Tail,
    /// CPU time of the server at its beginning.
    cpu_s: Maybe<f64>,
    so_far_s: f64,
    batches: usize,
}

impl<'a> Judge<'a> {
    fn new(plan: &Plan, settings: &LoadSettings, observed: &'a Observed<'a>, parts: u32) -> Self {
        let rules = plan.warmup();
        let measured = plan.measure().as_secs_f64() / rules.batch().as_secs_f64();
        let matters = Matters { rope_ratio: plan.judge().rope_ratio, measured };
        let meter = ServerMeter::of(&observed.pids, settings.target.scheme());
        Self {
            observed,
            cpu_s: meter.so_far_s(),
            meter,
            least_s: rules.least().as_secs_f64(),
            parts,
            strands: rules.judge.iter().map(|metric| Strand::new(metric, matters)).collect(),
            intervals: 0,
            seconds: 0.0,
            events: 0.0,
            latency: Histogram::new(),
            tail: Tail { latency: Histogram::new(), batches: 0, width: 1 },
            so_far_s: 0.0,
            batches: 0,
        }
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } => self.cpu_s = self.meter.so_far_s(),
            Event::Interval(progress) if progress.phase == Phase::Measure => self.add(progress),
            _ => {}
        }
    }

    fn add(&mut self, progress: &Progress) {
        self.intervals += 1;
        self.seconds += progress.interval_s;
        self.events += progress.achieved_per_s * progress.interval_s;
        self.latency.add(&progress.latency.merged());
        if self.intervals < self.parts {
            return;
        }
        let cpu_s = self.meter.so_far_s();
        let used_s = cpu_s.clone().and_then(|now| Ok(now - self.cpu_s.clone()?));
        for strand in &mut self.strands {
            let value = match strand.metric.as_str() {
                "throughput" => Ok(self.events / self.seconds),
                "p99" => {
                    let value = self.tail.add(&self.latency);
                    strand.widen(self.tail.width);
                    let Some(value) = value else { continue };
                    value
                }
                // A batch without an event has no cost: its level is unknown, not 0.
                // A counter that went back is that of another process.
                "cpu-per-event" => {
                    used_s.clone().map(|used_s| if used_s < 0.0 { f64::NAN } else { used_s / self.events })
                }
                _ => server_use::level(self.observed.whose, &(self.observed.members)()),
            };
            strand.add(value);
        }
        self.so_far_s += self.seconds;
        self.batches += 1;
        (self.intervals, self.seconds, self.events, self.cpu_s) = (0, 0.0, 0.0, cpu_s);
        self.latency.clear();
    }

    /// Whether every metric was steady when it was judged last, and the least length has passed.
    fn is_over(&self) -> bool {
        let mut judged = self.strands.iter().filter(|strand| strand.is_judged()).peekable();
        self.so_far_s >= self.least_s && judged.peek().is_some() && judged.all(Strand::is_steady)
    }

    fn end(mut self) -> Warmed {
        self.strands.iter_mut().filter(|strand| !strand.is_steady()).for_each(Strand::look);
        let batch_s = self.so_far_s / (self.batches.max(1)) as f64;
        let (judged, missing): (Vec<Strand>, Vec<Strand>) =
            self.strands.into_iter().partition(Strand::is_judged);
        let metrics: Vec<JudgedCourse> = judged.iter().map(|strand| strand.course(batch_s)).collect();
        let course = metrics.iter().map(|m| m.course).max().unwrap_or(Course::NoSteadyState);
        let told = |strand: Strand| {
            format!("{} is not judged in the warm-up: {}", strand.metric, strand.missing.unwrap_or_default())
        };
        Warmed {
            warm_up: WarmUp { course, took_s: self.so_far_s, batch_s, batches: self.batches, metrics },
            not_judged: missing.into_iter().map(told).collect(),
        }
    }
}

/// The p99 of a batch, in seconds. A batch without an event has none, and that of fewer than 100 is their
/// maximum.
fn p99_s(latency: &Histogram) -> Maybe<f64> {
    let events = latency.count();
    let p99_ns = latency.held_quantile_ns(0.99);
    p99_ns
        .map(|ns| ns as f64 * 1e-9)
        .ok_or_else(|| Missing::because(format!("a p99 needs batches of 100 events, and one had {events}")))
}

/// Latencies of the batches that one p99 covers.
struct Tail {
    latency: Histogram,
    batches: u32,
    /// Batches to cover.
    width: u32,
}

impl Tail {
    /// Adds a batch, and returns the p99 if that completes one. With too few events, that p99 and all later
    /// ones cover twice as many batches, up to [`TAIL_BATCHES_MAX`].
    fn add(&mut self, batch: &Histogram) -> Option<Maybe<f64>> {
        self.latency.add(batch);
        self.batches += 1;
        if self.batches < self.width {
            return None;
        }
        let value = p99_s(&self.latency);
        if value.is_err() && self.width < TAIL_BATCHES_MAX {
            self.width *= 2;
            return None;
        }
        self.latency.clear();
        self.batches = 0;
        Some(value)
    }
}

impl Strand {
    fn new(metric: &str, matters: Matters) -> Self {
        Self {
            metric: metric.to_owned(),
            width: 1,
            matters,
            batches: Vec::new(),
            from: 0,
            next_look: next_look(0),
            missing: None,
            found: Steadiness::Unsteady("no batch was completed".to_owned()),
        }
    }

    /// Begins again, with values that cover more batches, if they do.
    fn widen(&mut self, width: u32) {
        if width == self.width {
            return;
        }
        let measured = self.matters.measured * f64::from(self.width) / f64::from(width);
        let matters = Matters { measured, ..self.matters };
        *self = Self { width, missing: self.missing.take(), ..Self::new(&self.metric, matters) };
    }

    /// Whether it had a value at least once: what no batch has cannot be judged.
    fn is_judged(&self) -> bool {
        self.batches.iter().any(|z| z.is_finite()) || self.missing.is_none()
    }

    /// Whether it was steady when it was judged last.
    fn is_steady(&self) -> bool {
        !matches!(self.found, Steadiness::Unsteady(_))
    }

    /// Adds a batch, and judges if it is time. The level of a batch without a value is unknown.
    fn add(&mut self, value: Maybe<f64>) {
        let value = value.unwrap_or_else(|why| {
            self.missing = Some(why.reason);
            f64::NAN
        });
        self.batches.push(value);
        if !value.is_finite() {
            self.from = self.batches.len();
        }
        if !value.is_finite() || self.batches.len() - self.from >= self.next_look {
            self.look();
        }
    }

    /// Judges what follows the last batch without a value.
    fn look(&mut self) {
        let batches = &self.batches[self.from..];
        self.found = steadiness(batches, self.matters);
        self.next_look = next_look(batches.len());
    }

    /// - `batch_s`: length of a batch; a value may cover several.
    fn course(&self, batch_s: f64) -> JudgedCourse {
        let batch_s = batch_s * f64::from(self.width);
        let more_is_better = self.metric == "throughput";
        let mut period_s = None;
        let (course, evidence) = match &self.found {
            Steadiness::Flat => (Course::Flat, "steady from the beginning".to_owned()),
            Steadiness::Cycles { period } => {
                period_s = Some(period * batch_s);
                (Course::Cycles, format!("steady, with a cycle of {:.1} s", period * batch_s))
            }
            Steadiness::After { batches, ratio } => {
                // More memory than at first is what a warm-up is for.
                let is_better = self.metric == "rss" || (*ratio > 1.0) == more_is_better;
                let course = if is_better { Course::WarmUp } else { Course::Slowdown };
                let change = (ratio - 1.0) * 100.0;
                (course, format!("steady after {:.1} s, {change:+.1} %", *batches as f64 * batch_s))
            }
            Steadiness::Unsteady(why) => (Course::NoSteadyState, why.clone()),
        };
        JudgedCourse { metric: self.metric.clone(), course, evidence, period_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strand(metric: &str, batches: &[f64]) -> JudgedCourse {
        of(metric, batches.iter().map(|z| Ok(*z))).course(5.0)
    }

    fn of(metric: &str, batches: impl Iterator<Item = Maybe<f64>>) -> Strand {
        let mut strand = Strand::new(metric, Matters { rope_ratio: 0.01, measured: 12.0 });
        batches.for_each(|batch| strand.add(batch));
        strand.look();
        strand
    }

    /// A fixed ripple of 0.1 %, so that nothing is constant.
    fn levels(n: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..n).map(|i| level(i) * (1.0 + 0.001 * ((i * 7 % 5) as f64 - 2.0) / 2.0)).collect()
    }

    #[test]
    fn which_way_is_better_depends_on_the_metric() {
        let falls = levels(20, |i| if i < 4 { 100.0 } else { 60.0 });
        let rises = levels(20, |i| if i < 4 { 60.0 } else { 100.0 });
        for (metric, batches, course) in [
            ("throughput", &rises, Course::WarmUp),
            ("throughput", &falls, Course::Slowdown),
            ("p99", &falls, Course::WarmUp),
            ("cpu-per-event", &rises, Course::Slowdown),
            ("rss", &rises, Course::WarmUp),
        ] {
            let found = strand(metric, batches);
            assert_eq!(found.course, course, "{metric}: {found:?}");
        }
        assert_eq!(strand("rss", &levels(40, |i| 100.0 + i as f64)).course, Course::NoSteadyState);
    }

    #[test]
    fn a_measured_phase_of_a_server_with_cycles_covers_whole_ones() {
        let wave = |i: usize| 100.0 + 10.0 * (std::f64::consts::TAU * i as f64 / 8.0).sin();
        let found = strand("throughput", &levels(64, wave));
        assert_eq!(found.course, Course::Cycles, "{found:?}");
        assert!((found.period_s.unwrap() - 40.0).abs() < 0.5, "8 batches of 5 s: {found:?}");
        let warm_up = |period_s| WarmUp {
            course: Course::Cycles,
            took_s: 320.0,
            batch_s: 5.0,
            batches: 64,
            metrics: vec![JudgedCourse { period_s, ..found.clone() }, strand("p99", &[5.0; 64])],
        };
        let told = |period_s, s| partial_cycles(&warm_up(period_s), Duration::from_secs(s));
        assert_eq!(told(None, 60), None);
        assert_eq!([200, 240, 1_000].map(|s| told(Some(40.0), s)), [None, None, None]);
        for (s, covered) in
            [(80, "covers 2.0 cycles of 40.0 s: make it 200.0 s"), (220, "covers 5.5 cycles of 40.0 s")]
        {
            let text = told(Some(40.0), s).unwrap();
            assert!(text.contains(covered), "{text}");
        }
    }

    #[test]
    fn a_batch_without_an_event_is_no_level() {
        let mut batches = levels(12, |_| 5.0);
        assert_eq!(strand("p99", &batches).course, Course::Flat);
        batches[11] = f64::NAN;
        assert_eq!(strand("p99", &batches).course, Course::NoSteadyState);
        batches[11] = 5.0;
        batches[3] = f64::NAN;
        assert_eq!(strand("p99", &batches).course, Course::NoSteadyState, "8 batches are too few");
    }

    /// 2 % a batch, and noise of 2 %: ten of such batches look even.
    #[test]
    fn a_noisy_drift_is_not_over_after_ten_batches() {
        let noisy = |i: usize| 2.0 * ((i * i * 7 + 3 * i) % 11) as f64 / 5.0 - 2.0;
        let batches: Vec<f64> = (0..42).map(|i| 100.0 + 2.0 * i as f64 + noisy(i)).collect();
        for n in 10..=42 {
            let found = strand("rss", &batches[..n]);
            assert_eq!(found.course, Course::NoSteadyState, "{n} batches: {found:?}");
        }
    }

    #[test]
    fn the_p99_of_batches_with_few_events_is_not_judged() {
        let of_events = |events: u64| (1..=events).map(|i| (i * 1_000_000, 1)).collect::<Histogram>();
        assert!((p99_s(&of_events(100)).unwrap() - 0.099).abs() < 1e-4);
        let why = p99_s(&of_events(60)).unwrap_err().reason;
        assert!(why.ends_with("one had 60"), "{why}");
        assert!(!of("p99", (0..12).map(|_| p99_s(&of_events(60)))).is_judged());
    }

    /// 60 events in a batch, and once 30: two batches are too few then, and four enough.
    #[test]
    fn a_p99_of_few_events_covers_several_batches() {
        let of_events = |events: u64| (1..=events).map(|i| (i * 1_000_000, 1)).collect::<Histogram>();
        let mut tail = Tail { latency: Histogram::new(), batches: 0, width: 1 };
        let mut strand = Strand::new("p99", Matters { rope_ratio: 0.01, measured: 48.0 });
        let mut told = Vec::new();
        for events in [60, 60, 60, 60, 30, 30, 60, 60, 60, 60, 60, 60] {
            let value = tail.add(&of_events(events));
            strand.widen(tail.width);
            if let Some(value) = value {
                strand.add(value);
            }
            told.push((strand.width, strand.batches.len()));
        }
        let four = |n| (4, n);
        let two = |n| (2, n);
        let known = [two(0), two(1), two(1), two(2), two(2), four(0)];
        assert_eq!(told[..6], known, "{told:?}");
        assert_eq!(told[6..], [four(0), four(1), four(1), four(1), four(1), four(2)], "{told:?}");
        assert!((strand.matters.measured - 12.0).abs() < 1e-12, "{strand:?}");
        let mut rare = Tail { latency: Histogram::new(), batches: 0, width: 1 };
        let values: Vec<Maybe<f64>> = (0..8).filter_map(|_| rare.add(&of_events(20))).collect();
        assert!(values.len() == 2 && values.iter().all(Result::is_err), "80 events in 5 s: {values:?}");
    }

    #[test]
    fn a_batch_that_could_not_be_read_is_unknown_and_does_not_end_the_judging() {
        let lacks = |at: &'static [usize]| {
            let batch = move |i: usize| {
                if at.contains(&i) {
                    Err(Missing::because("it has ended"))
                } else {
                    Ok(5.0 + (i % 3) as f64 * 1e-3)
                }
            };
            of("rss", (0..12).map(batch))
        };
        assert!(lacks(&[11]).is_judged());
        assert_eq!(lacks(&[11]).course(5.0).course, Course::NoSteadyState);
        assert_eq!(lacks(&[0]).course(5.0).course, Course::Flat);
        assert!(!lacks(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).is_judged());
    }

    #[test]
    fn an_unsteady_warm_up_is_a_failed_check_with_its_reason() {
        let metrics = vec![strand("rss", &levels(40, |i| 100.0 + i as f64))];
        let warm_up =
            WarmUp { course: Course::NoSteadyState, took_s: 60.0, batch_s: 1.5, batches: 40, metrics };
        let check = check(&warm_up, Duration::from_mins(1));
        assert!(
            !check.ok && check.text.starts_with("not-steady: still not steady after 60.0 s"),
            "{check:?}"
        );
        assert!(check.text.contains("rss: the initial transient is not over"), "{check:?}");
        let without = WarmUp { metrics: Vec::new(), ..warm_up };
        let check = super::check(&without, Duration::from_mins(1));
        assert!(check.text.ends_with(": no metric could be judged"), "{check:?}");
    }
}
