//! The monitor as a part of a page: what runs, the machine's instruments, and the queue.

use std::sync::{Arc, OnceLock};

use archive::{Standing, TrialStanding};
use askama::Template;
use record::bakeoff::TrialState;
use record::histogram::Bound;
use record::load::Phase;
use record::run::{RunHeader, RunKind, RunState};
use serde_json::Value;

use crate::instruments::{Busy, Seen, lost};
use crate::monitor::{Now, Running};
use crate::view::{bound, duration, marked, moment, state_of_trial};
use crate::view_page::{EntryView, state_of, text};

/// Squares of an order that are drawn.
const SQUARES_MAX: usize = 600;
/// Reasons of INVALID trials on the monitor.
const REASONS_MAX: usize = 3;
/// Size of a chart, in its own units.
const CHART: (f64, f64) = (640.0, 110.0);
/// Size of the drawing of a CPU.
const STRIP: (f64, f64) = (120.0, 28.0);
/// CPUs that are drawn.
const STRIPS_MAX: usize = 64;

/// A state of a moment, with its forms, each rendered once for all viewers.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) now: Now,
    reader: OnceLock<String>,
    runner: OnceLock<String>,
    documents: [OnceLock<String>; 2],
}

impl Shown {
    pub(crate) fn new(now: Now) -> Self {
        Self { now, ..Self::default() }
    }

    /// Part of a page.
    pub(crate) fn html(&self, may_run: bool, csrf: &str) -> &str {
        let form = if may_run { &self.runner } else { &self.reader };
        form.get_or_init(|| text(&NowPage::of(&self.now, may_run, if may_run { csrf } else { "" })))
    }

    /// Document in one line.
    pub(crate) fn document(&self, may_run: bool) -> &str {
        self.documents[usize::from(may_run)].get_or_init(|| self.now.document(may_run).to_string())
    }
}

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage<'a> {
    running: Vec<RunningView>,
    machine: Option<MachineView>,
    /// Reason that the entries are not known.
    unlisted: &'a Option<String>,
    ended: Vec<EndedView>,
    entries: Vec<EntryView>,
    more: u64,
    holder: &'a Option<String>,
    trouble: &'a Option<String>,
    may_run: bool,
    csrf: &'a str,
}

impl<'a> NowPage<'a> {
    fn of(now: &'a Now, may_run: bool, csrf: &'a str) -> Self {
        let entries = now.entries.iter().zip(&now.expected);
        Self {
            running: now.running.iter().map(RunningView::of).collect(),
            machine: MachineView::of(&now.machine),
            entries: entries.map(|(entry, at)| EntryView::of(entry, *at, may_run)).collect(),
            more: now.not_listed(),
            unlisted: &now.unlisted,
            ended: now.ended.iter().map(EndedView::of).collect(),
            holder: &now.holder,
            trouble: &now.trouble,
            may_run,
            csrf,
        }
    }
}

/// Result of a run that has ended.
struct EndedView {
    id: String,
    title: String,
    kind: &'static str,
    state: &'static str,
    tone: &'static str,
    reason: String,
}

impl EndedView {
    fn of(header: &RunHeader) -> Self {
        let (state, tone) = state_of(header.state);
        // A bake-off that is sealed may have failed its gates.
        let is_judged = header.kind == RunKind::Bakeoff && header.state == RunState::Sealed;
        Self {
            id: header.id.to_string(),
            title: header.title.clone(),
            kind: header.kind.word(),
            state,
            tone: if is_judged { "even" } else { tone },
            reason: header.reason.clone().unwrap_or_default(),
        }
    }
}

struct RunningView {
    id: String,
    title: String,
    kind: &'static str,
    /// Progress in words, of a bake-off.
    trials: Option<String>,
    end: String,
    step: String,
    invalid_reasons: Vec<String>,
    behind: Option<String>,
    numbers: Option<Vec<(&'static str, String)>>,
    /// Reason that there are no numbers.
    no_numbers: Option<&'static str>,
    chart: String,
    squares: Vec<(&'static str, String)>,
    /// States that the squares have.
    legend: Vec<&'static str>,
    notes: Vec<String>,
    log: Option<String>,
}

impl RunningView {
    fn of(running: &Running) -> Self {
        let trials = running.standing.as_ref().map_or(&[][..], |standing| standing.trials.as_slice());
        let bad = trials.iter().rev().filter(|told| told.state == TrialState::Invalid);
        let reasons = bad.filter_map(|told| Some(format!("{}: {}", name(told), told.reason.as_ref()?)));
        let is_short = trials.len() <= SQUARES_MAX;
        let squares: Vec<_> = if is_short { trials.iter().map(square).collect() } else { Vec::new() };
        let mut legend: Vec<&str> = squares.iter().map(|(word, _)| *word).collect();
        legend.sort_unstable();
        legend.dedup();
        Self {
            id: running.header.id.to_string(),
            title: running.header.title.clone(),
            kind: running.header.kind.word(),
            trials: running.standing.as_ref().map(|standing| progress(standing)),
            end: running.expected_end_unix_ns.map(moment).unwrap_or_default(),
            step: running.step.clone(),
            invalid_reasons: reasons.take(REASONS_MAX).collect(),
            behind: running.behind(),
            numbers: running.interval.as_ref().map(|interval| numbers(interval, running.age_s)),
            no_numbers: running.no_interval(),
            chart: chart(&running.intervals),
            squares,
            legend,
            notes: running.notes.clone(),
            log: running.log.clone(),
        }
    }
}

fn progress(standing: &Standing) -> String {
    let count = |state| standing.count(state);
    let (sealed, invalid, failed) =
        (count(TrialState::Sealed), count(TrialState::Invalid), count(TrialState::Failed));
    let dropped = standing.dropped();
    let (done, all) = (sealed + invalid + failed, standing.trials.len() - dropped);
    let of_dropped = if dropped > 0 { format!(" {dropped} more were dropped.") } else { String::new() };
    format!("{done} of {all} trials ended: {sealed} sealed, {invalid} INVALID, {failed} failed.{of_dropped}")
}

fn name(told: &TrialStanding) -> String {
    let levels: Vec<String> =
        told.trial.levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
    format!("block {} {}", told.trial.block, levels.join(" "))
}

fn square(told: &TrialStanding) -> (&'static str, String) {
    let word = state_of_trial(told);
    (word, format!("{}: {word}", name(told)))
}

/// Age of numbers that are not of this moment, in words.
fn as_of(age_s: u64) -> String {
    format!("{age_s} s ago")
}

/// Numbers of an interval for people. A number that is missing reads `-`.
///
/// - `age_s`: of an interval that is not of this moment.
fn numbers(interval: &Value, age_s: Option<u64>) -> Vec<(&'static str, String)> {
    let rate = |name: &str| interval[name].as_f64().map_or("-".to_owned(), |per_s| format!("{per_s:.1}/s"));
    let time = |of: &str, name: &str| {
        let Some(ns) = interval[of][name].as_u64() else { return "-".to_owned() };
        marked(bound(&interval[of], name), &duration(ns))
    };
    let count = |name: &str| interval[name].as_u64().map_or("-".to_owned(), |n| n.to_string());
    // A new phase has no interval yet: its numbers are those of the last one.
    let phase = interval["phase"].as_str().filter(|phase| *phase != Phase::Measure.word());
    let numbers = [
        ("offered", rate("offered_per_s")),
        ("done", rate("achieved_per_s")),
        ("p50", time("latency_ns", "p50")),
        ("p99", time("latency_ns", "p99")),
        ("max", time("latency_ns", "max")),
        ("lateness p99", time("lateness_ns", "p99")),
        ("lateness max", time("lateness_ns", "max")),
        ("backlog", count("backlog")),
        ("errors", count("errors")),
    ];
    let of_before = phase.map(|phase| ("numbers of", phase.to_owned()));
    let age = age_s.map(|age_s| ("as of", as_of(age_s)));
    age.into_iter().chain(of_before).chain(numbers).collect()
}

/// The machine's instruments on a page.
struct MachineView {
    /// Numbers of each instrument, and the reasons of those without.
    numbers: Vec<(&'static str, String)>,
    missing: Vec<String>,
    /// A drawing for each CPU, and its text.
    strips: Vec<(String, String)>,
    more: usize,
}

impl MachineView {
    fn of(seen: &Seen) -> Option<Self> {
        if seen.latest.is_empty() {
            return None;
        }
        let missing = seen
            .latest
            .iter()
            .filter_map(|(name, interval)| Some(format!("{name}: {}", interval.as_ref().err()?)));
        let cpus: Vec<u64> =
            seen.strips.last().map(|all| all.iter().map(|busy| busy.cpu).collect()).unwrap_or_default();
        Some(Self {
            numbers: machine_numbers(seen),
            missing: missing.collect(),
            strips: cpus.iter().take(STRIPS_MAX).map(|cpu| strip(*cpu, &seen.strips)).collect(),
            more: cpus.len().saturating_sub(STRIPS_MAX),
        })
    }
}

/// Bound of a number of an instrument that has lost events: a time of the CPUs may be above or below it.
fn bound_of_lost(interval: &Value, instrument: &str, number: &str) -> Bound {
    let is_of_events = ["event_ratio", "run_queue_wait_s"].contains(&number);
    match lost(interval).next() {
        Some(_) if instrument != "cpu" => Bound::Lower,
        Some(_) if is_of_events => Bound::Neither,
        _ => Bound::Exact,
    }
}

/// Numbers of the instruments for people. One that is missing reads `-`.
fn machine_numbers(seen: &Seen) -> Vec<(&'static str, String)> {
    type Form = fn(f64) -> String;
    let share: Form = |ratio| format!("{:.1} %", ratio * 100.0);
    let rate: Form = |per_s| format!("{per_s:.0}/s");
    let wait: Form = |s_per_s| {
        if s_per_s < 1.0 { format!("{:.1} ms/s", s_per_s * 1e3) } else { format!("{s_per_s:.1} s/s") }
    };
    let bytes: Form = |bytes| format!("{:.2} GiB", bytes / f64::from(1 << 30));
    let numbers: [(&str, &str, [&str; 2], bool, Form); 12] = [
        ("cpu", "busy by events", ["all", "event_ratio"], false, share),
        ("cpu", "busy by /proc", ["all", "procstat_busy_ratio"], false, share),
        ("cpu", "unaccounted", ["all", "unaccounted_ratio"], false, share),
        ("cpu", "run-queue wait", ["all", "run_queue_wait_s"], true, wait),
        ("io", "reads", ["rates", "reads_per_s"], false, rate),
        ("io", "writes", ["rates", "writes_per_s"], false, rate),
        ("io", "flushes", ["rates", "flushes_per_s"], false, rate),
        ("locks", "lock waits", ["total", "count"], true, rate),
        ("locks", "CPUs spinning", ["total", "cpu_util_ratio"], false, share),
        ("memory", "memory available", ["machine", "available_bytes"], false, bytes),
        ("memory", "major faults", ["machine", "major_faults"], true, rate),
        ("memory", "memory pressure", ["machine", "pressure_some_ratio"], false, share),
    ];
    let of =
        |(instrument, name, [part, value], is_count, form): &(&str, &'static str, [&str; 2], bool, Form)| {
            let interval = seen.of(instrument)?;
            let found = interval[*part][*value].as_f64();
            let seconds =
                if *is_count { interval["interval_s"].as_f64().filter(|s| *s > 0.0) } else { Some(1.0) };
            let bound = bound_of_lost(interval, instrument, value);
            let shown = found
                .zip(seconds)
                .map_or("-".to_owned(), |(value, seconds)| marked(bound, &form(value / seconds)));
            Some((*name, shown))
        };
    let losses = seen.latest.keys().filter_map(|name| {
        let counts = lost(seen.of(name)?).map(|(reason, n)| format!("{n} {reason}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        (!counts.is_empty()).then(|| (*name, format!("lost: {counts}")))
    });
    let ages = seen.ages_s.iter().map(|(name, age_s)| (*name, format!("as of {}", as_of(*age_s))));
    let nics = seen.of("nic").and_then(traffic).map(|text| ("network", text));
    numbers.iter().filter_map(of).chain(nics).chain(losses).chain(ages).collect()
}

/// Traffic of all interfaces but the loopback.
fn traffic(interval: &Value) -> Option<String> {
    let seconds = interval["interval_s"].as_f64().filter(|s| *s > 0.0)?;
    let all = interval["interfaces"].as_array()?.iter().filter(|nic| nic["name"] != "lo");
    let sum = |name: &str| all.clone().map(|nic| nic[name].as_f64()).sum::<Option<f64>>();
    let kib = |bytes: f64| format!("{:.0} KiB/s", bytes / seconds / 1024.0);
    Some(format!("{} in, {} out", kib(sum("rx_bytes")?), kib(sum("tx_bytes")?)))
}

/// The last intervals of a CPU: busy by events as a line, by `/proc/stat` as a dashed one; and the last of
/// them in words.
fn strip(cpu: u64, strips: &[Arc<Vec<Busy>>]) -> (String, String) {
    let of = |all: &Arc<Vec<Busy>>| all.iter().find(|busy| busy.cpu == cpu).copied();
    let last = strips.last().and_then(of);
    let percent =
        |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0));
    let text = format!(
        "CPU {cpu}: {}, /proc {}",
        percent(last.and_then(|busy| busy.event_ratio)),
        percent(last.and_then(|busy| busy.procstat_ratio))
    );
    let values =
        |read: fn(Busy) -> Option<f64>| strips.iter().map(|all| of(all).and_then(read)).collect::<Vec<_>>();
    let drawn = [
        polylines("procstat", &values(|busy| busy.procstat_ratio), 1.0, STRIP),
        polylines("event", &values(|busy| busy.event_ratio), 1.0, STRIP),
    ];
    let (width, height) = STRIP;
    let svg = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {width} {height}\" aria-hidden=\"true\">{}</svg>",
        drawn.concat()
    );
    (svg, text)
}

/// Rate, p99 and lateness over the last intervals as a drawing; p99 and lateness have one scale. An interval
/// without the number breaks its line.
fn chart(intervals: &[Value]) -> String {
    let values = |read: &dyn Fn(&Value) -> Option<f64>| intervals.iter().map(read).collect::<Vec<_>>();
    let done = values(&|interval| interval["achieved_per_s"].as_f64());
    let offered = values(&|interval| interval["offered_per_s"].as_f64());
    let p99 = values(&|interval| interval["latency_ns"]["p99"].as_f64());
    let late = values(&|interval| interval["lateness_ns"]["p99"].as_f64());
    let most = |all: &[Option<f64>]| all.iter().flatten().copied().fold(0.0, f64::max);
    let (rate_max, p99_max) = (most(&done).max(most(&offered)), most(&p99).max(most(&late)));
    if intervals.len() < 2 || rate_max <= 0.0 {
        return String::new();
    }
    let lines = [
        ("offered", &offered, rate_max),
        ("done", &done, rate_max),
        ("p99", &p99, p99_max),
        ("late", &late, p99_max),
    ];
    let drawn: String = lines.iter().map(|(class, all, top)| polylines(class, all, *top, CHART)).collect();
    let (width, height) = CHART;
    let has = |all: &[Option<f64>]| all.iter().any(Option::is_some);
    let of_offered = if has(&offered) { format!(" of {:.1}/s", most(&offered)) } else { String::new() };
    let of_p99 = if has(&p99) {
        let most = most(&p99);
        let bound = bound_of_most(intervals, most);
        format!(", p99 up to {}", marked(bound, &duration(whole(most))))
    } else {
        String::new()
    };
    let which = match (has(&p99), has(&late)) {
        (true, true) => " (p99 is the other line, its lateness is dotted)",
        (true, false) => " (p99 is the other line)",
        (false, _) => "",
    };
    // The template writes the drawing as it is.
    let of_p99 = of_p99.replace('<', "&lt;").replace('>', "&gt;");
    let label = format!("done up to {:.1}/s{of_offered}{of_p99}", most(&done));
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"The last {} intervals: {label}\">\
         {drawn}<text x=\"2\" y=\"10\">{label}{which}</text></svg>",
        intervals.len()
    )
}

/// Bound of the largest p99 of intervals: any lower bound may hide a larger one.
fn bound_of_most(intervals: &[Value], most: f64) -> Bound {
    let of = |interval: &Value| {
        let latency = &interval["latency_ns"];
        Some((bound(latency, "p99"), latency["p99"].as_f64()?))
    };
    let all: Vec<(Bound, f64)> = intervals.iter().filter_map(of).collect();
    let is_lower = all.iter().any(|(bound, _)| matches!(bound, Bound::Lower | Bound::Neither));
    let is_upper =
        all.iter().any(|(bound, ns)| *ns >= most && matches!(bound, Bound::Upper | Bound::Neither));
    Bound::of(is_lower, is_upper)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds that were whole numbers"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
}

/// Values as lines, from 0 up to `top`. A value that is missing breaks the line.
fn polylines(class: &str, values: &[Option<f64>], top: f64, (width, height): (f64, f64)) -> String {
    if top <= 0.0 {
        return String::new();
    }
    let step = width / values.len().saturating_sub(1).max(1) as f64;
    // A chart has a line of text at its top.
    let above = if height > 40.0 { 16.0 } else { 2.0 };
    let mut lines = Vec::new();
    let mut line = Vec::new();
    for (i, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                let (x, y) = (i as f64 * step, (height - 2.0) - value / top * (height - 2.0 - above));
                line.push(format!("{x:.1},{y:.1}"));
            }
            None => lines.push(std::mem::take(&mut line)),
        }
    }
    lines.push(line);
    let drawn = lines.into_iter().filter(|line| !line.is_empty());
    let line = |line: Vec<String>| format!("<polyline class=\"{class}\" points=\"{}\"/>", line.join(" "));
    drawn.map(line).collect::<Vec<String>>().concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_number_is_a_dash_and_breaks_its_line() {
        let interval = json!({"achieved_per_s": 5.0, "offered_per_s": null, "latency_ns": null, "backlog": 0, "errors": 0});
        let shown = numbers(&interval, None);
        assert_eq!((shown[0].1.as_str(), shown[1].1.as_str(), shown[3].1.as_str()), ("-", "5.0/s", "-"));
        assert_eq!(
            shown.iter().filter(|(name, value)| name.starts_with("lateness") && value == "-").count(),
            2
        );
        assert_eq!(numbers(&json!({"phase": "warmup"}), None)[0], ("numbers of", "warmup".to_owned()));
        assert_eq!(numbers(&json!({"phase": "measure"}), None)[0].0, "offered");
        assert_eq!(numbers(&json!({"phase": "measure"}), Some(4))[0], ("as of", "4 s ago".to_owned()));
        let full = |p99: Value| json!({"achieved_per_s": 5.0, "latency_ns": {"p99": p99}});
        let drawn = chart(&[full(json!(1000)), full(Value::Null), full(json!(2000)), full(json!(2000))]);
        assert_eq!(drawn.matches("class=\"p99\"").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("class=\"offered\"").count(), 0, "a closed loop offers nothing: {drawn}");
        assert_eq!(chart(&[]), "");
        let without = chart(&[full(Value::Null), full(Value::Null)]);
        assert!(without.contains("done up to 5.0/s") && !without.contains("p99"), "{without}");
        let behind = json!({"achieved_per_s": 5.0, "offered_per_s": 40.0});
        let drawn = chart(&[behind.clone(), behind]);
        assert!(drawn.contains("done up to 5.0/s of 40.0/s"), "what is offered is not done: {drawn}");
        let trials = chart(&[full(json!(1000)), full(json!(1000)), Value::Null, full(json!(3000))]);
        assert_eq!(trials.matches("class=\"done\"").count(), 2, "two trials are not one line: {trials}");
    }

    #[test]
    fn lateness_is_drawn_on_the_scale_of_p99_even_if_it_is_above() {
        let at = |p99: u64, late: Value| json!({"achieved_per_s": 5.0, "latency_ns": {"p99": p99}, "lateness_ns": late});
        let drawn = chart(&[at(1_000, json!({"p99": 4_000})), at(2_000, json!({"p99": 1_000}))]);
        let points = |class: &str| {
            let rest = drawn.split(&format!("class=\"{class}\" points=\"")).nth(1).expect("it is drawn");
            let ends = rest.split('"').next().unwrap_or_default().split([',', ' ']).collect::<Vec<_>>();
            [1, 3].map(|n| ends[n].parse::<f64>().unwrap())
        };
        // Lower on the page is less.
        let (p99, late) = (points("p99"), points("late"));
        assert!(late[0] < p99[0] && late[1] > p99[1], "{drawn}");
        assert!(
            drawn.contains("p99 up to 2.0 \u{b5}s") && drawn.contains("its lateness is dotted"),
            "{drawn}"
        );
        assert!(!chart(&[at(1_000, Value::Null), at(2_000, Value::Null)]).contains("lateness"));
    }

    #[test]
    fn a_latency_that_is_a_bound_reads_so_in_its_number_and_in_the_chart() {
        let at = |p99: u64, more: Value| {
            let mut latency = json!({"p50": 100, "p99": p99, "max": 9_000});
            latency.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"achieved_per_s": 5.0, "latency_ns": latency})
        };
        let lower = || json!({"lower_bounds": ["p99", "max"]});
        let shown = numbers(&at(2_000, lower()), None);
        let number = |name: &str| shown.iter().find(|(n, _)| *n == name).unwrap().1.clone();
        assert_eq!(["p50", "p99", "max"].map(number), ["100 ns", ">= 2.0 \u{b5}s", ">= 9.0 \u{b5}s"]);
        let upper = || json!({"lower_bounds": [], "upper_bounds": ["p99"]});
        assert_eq!(numbers(&at(2_000, upper()), None)[3].1, "<= 2.0 \u{b5}s");
        let both = || json!({"lower_bounds": ["p99"], "upper_bounds": ["p99"]});
        assert_eq!(numbers(&at(2_000, both()), None)[3].1, "~ 2.0 \u{b5}s");
        let exact = || json!({});
        for (first, second, expected) in [
            (at(1_000, exact()), at(2_000, exact()), "p99 up to 2.0 \u{b5}s"),
            (at(1_000, exact()), at(2_000, lower()), "p99 up to >= 2.0 \u{b5}s"),
            (at(1_000, lower()), at(2_000, exact()), "p99 up to >= 2.0 \u{b5}s"),
            (at(1_000, exact()), at(2_000, upper()), "p99 up to <= 2.0 \u{b5}s"),
            (at(1_000, upper()), at(2_000, exact()), "p99 up to 2.0 \u{b5}s"),
        ] {
            let drawn = chart(&[first, second]);
            let label = expected.replace(">=", "&gt;=").replace("<=", "&lt;=");
            assert_eq!(drawn.matches(&label).count(), 2, "in the text and in the label: {drawn}");
        }
    }

    #[test]
    fn what_an_instrument_lost_makes_its_numbers_bounds() {
        let mut seen = Seen::default();
        let locks =
            json!({"interval_s": 1.0, "total": {"count": 3, "cpu_util_ratio": 0.5}, "lost": {"no-room": 7}});
        let cpu = json!({
            "interval_s": 1.0, "lost": {"switch": 2, "unsure-ns": 9}, "all": {
                "event_ratio": 0.5, "procstat_busy_ratio": 0.25, "unaccounted_ratio": 0.0, "run_queue_wait_s": 0.001,
            },
        });
        let io = json!({"interval_s": 1.0, "rates": {"reads_per_s": 4.0}, "lost": {}});
        for (name, interval) in [("locks", locks), ("cpu", cpu), ("io", io)] {
            seen.latest.insert(name, Ok(Arc::new(interval)));
        }
        let all = machine_numbers(&seen);
        let of = |name: &str| -> Vec<&str> {
            all.iter().filter(|(n, _)| *n == name).map(|(_, text)| text.as_str()).collect()
        };
        assert_eq!((of("lock waits"), of("CPUs spinning")), (vec![">= 3/s"], vec![">= 50.0 %"]));
        assert_eq!(of("locks"), ["lost: 7 no-room"]);
        assert_eq!((of("busy by events"), of("run-queue wait")), (vec!["~ 50.0 %"], vec!["~ 1.0 ms/s"]));
        assert_eq!((of("busy by /proc"), of("cpu")), (vec!["25.0 %"], vec!["lost: 2 switch"]));
        assert_eq!((of("reads"), of("io")), (vec!["4/s"], vec![]));
    }

    #[test]
    fn an_instrument_without_a_number_reads_so_on_the_page() {
        assert!(MachineView::of(&Seen::default()).is_none(), "no instrument was asked for");
        let mut seen = Seen::default();
        let cpu = json!({"interval_s": 2.0, "all": {"event_ratio": null, "run_queue_wait_s": 0.01}});
        seen.latest.insert("cpu", Ok(Arc::new(cpu)));
        seen.latest.insert("locks", Err("no BTF".to_owned()));
        let busy = |cpu, event_ratio| Arc::new(vec![Busy { cpu, event_ratio, procstat_ratio: Some(0.25) }]);
        seen.strips = vec![busy(0, Some(1.0)), busy(0, None), busy(0, Some(0.5))];
        let view = MachineView::of(&seen).unwrap();
        let number =
            |name: &str| view.numbers.iter().find(|(n, _)| *n == name).map(|(_, text)| text.as_str());
        assert_eq!((number("busy by events"), number("run-queue wait")), (Some("-"), Some("5.0 ms/s")));
        let full = json!({"interval_s": 2.0, "all": {"run_queue_wait_s": 29.6}});
        seen.latest.insert("cpu", Ok(Arc::new(full)));
        assert!(machine_numbers(&seen).contains(&("run-queue wait", "14.8 s/s".to_owned())));
        seen.ages_s.insert("cpu", 4);
        assert!(machine_numbers(&seen).contains(&("cpu", "as of 4 s ago".to_owned())));
        assert_eq!((number("lock waits"), view.missing), (None, vec!["locks: no BTF".to_owned()]));
        assert_eq!(view.strips[0].1, "CPU 0: 50 %, /proc 25 %");
        assert_eq!(
            view.strips[0].0.matches("class=\"event\"").count(),
            2,
            "a gap is a gap: {}",
            view.strips[0].0
        );
    }
}
