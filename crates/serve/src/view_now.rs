//! The monitor as a part of a page: what runs, the machine's instruments, and the queue.

use std::sync::Arc;

use archive::{Standing, TrialStanding};
use askama::Template;
use record::bakeoff::TrialState;
use record::histogram::Bound;
use record::load::Phase;
use record::run::{RunHeader, RunKind, RunState};
use serde_json::Value;

use crate::chart::{chart, polylines};
use crate::instruments::{Busy, Seen, lost};
use crate::monitor::{Now, Running};
use crate::reasons;
use crate::view::{Expected, bound, duration, marked, moment, state_of_trial};
use crate::view_page::{EntryView, state_of, text};

/// Squares of an order that are drawn.
const SQUARES_MAX: usize = 600;
/// Reasons of INVALID trials on the monitor.
const REASONS_MAX: usize = 3;
/// Size of the drawing of a CPU.
const STRIP: (f64, f64) = (120.0, 28.0);
/// CPUs that are drawn.
const STRIPS_MAX: usize = 64;

/// Parts of the monitor's page, in their order. Between two of them is a line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Runs,
    Machine,
    Plans,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Runs, Self::Machine, Self::Plans];

    /// The part as text.
    pub(crate) fn html(self, now: &Now, may_run: bool, csrf: &str) -> String {
        match self {
            Self::Runs => text(&RunsPart {
                running: now.running.iter().map(RunningView::of).collect(),
                ended: now.ended.iter().map(EndedView::of).collect(),
                holder: &now.holder,
                trouble: reasons::of_trouble(now.trouble.as_deref(), may_run),
                may_run,
            }),
            Self::Machine => text(&MachinePart { machine: MachineView::of(&now.machine) }),
            Self::Plans => {
                let entries = now.entries.iter().zip(&now.expected);
                text(&PlansPart {
                    entries: entries.map(|(entry, at)| EntryView::of(entry, *at, may_run)).collect(),
                    more: now.not_listed(),
                    unlisted: &now.unlisted,
                    may_run,
                    csrf: if may_run { csrf } else { "" },
                })
            }
        }
    }

    /// Whether the part is the same for two states.
    pub(crate) fn is_same(self, now: &Now, before: &Now) -> bool {
        match self {
            Self::Runs => {
                now.running.len() == before.running.len()
                    && now.running.iter().zip(&before.running).all(|(now, before)| now.is_same(before))
                    && now.ended == before.ended
                    && now.holder == before.holder
                    && now.trouble == before.trouble
            }
            Self::Machine => now.machine.is_same(&before.machine),
            Self::Plans => {
                (Arc::ptr_eq(&now.entries, &before.entries) || now.entries == before.entries)
                    && now.expected.iter().map(minutes).eq(before.expected.iter().map(minutes))
                    && now.not_listed() == before.not_listed()
                    && now.unlisted == before.unlisted
            }
        }
    }
}

/// Expected times as a page shows them.
fn minutes(expected: &Expected) -> [Option<u64>; 2] {
    [expected.start_unix_ns, expected.end_unix_ns].map(|at| at.map(|ns| ns / 60_000_000_000))
}

#[derive(Template)]
#[template(path = "now_runs.html")]
struct RunsPart<'a> {
    running: Vec<RunningView>,
    ended: Vec<EndedView>,
    holder: &'a Option<String>,
    trouble: Option<&'a str>,
    may_run: bool,
}

#[derive(Template)]
#[template(path = "now_machine.html")]
struct MachinePart {
    machine: Option<MachineView>,
}

#[derive(Template)]
#[template(path = "now_plans.html")]
struct PlansPart<'a> {
    entries: Vec<EntryView>,
    more: u64,
    /// Reason that the entries are not known.
    unlisted: &'a Option<String>,
    may_run: bool,
    csrf: &'a str,
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
    log: Option<Arc<str>>,
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
            chart: chart(&running.points),
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
            strips: cpus.iter().take(STRIPS_MAX).enumerate().map(|cpu| strip(cpu, &seen.strips)).collect(),
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
///
/// - `cpu`: its place in most intervals, and its number.
fn strip((place, cpu): (usize, &u64), strips: &[Arc<Vec<Busy>>]) -> (String, String) {
    let is_it = |busy: &&Busy| busy.cpu == *cpu;
    let of = |all: &Arc<Vec<Busy>>| all.get(place).filter(is_it).or_else(|| all.iter().find(is_it)).copied();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::followed::Point;

    fn chart(intervals: &[Value]) -> String {
        super::chart(&intervals.iter().map(Point::of).collect::<Vec<_>>())
    }

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
