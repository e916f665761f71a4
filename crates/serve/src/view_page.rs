//! Pages: the values that the templates show. Askama escapes every text.

use std::sync::OnceLock;

use archive::{Action, Entry, QueueState, TrialStanding, Wish};
use askama::Template;
use axum::http::StatusCode;
use record::bakeoff::TrialState;
use record::run::RunState;
use serde_json::Value;

use crate::listing::Row;
use crate::monitor::{Now, Running};
use crate::view::{moment, span};

/// Squares of an order that are drawn.
const SQUARES_MAX: usize = 600;
/// Entries of the queue on its page.
const ENTRIES_MAX: usize = 100;
/// Reasons of INVALID trials on the monitor.
const REASONS_MAX: usize = 3;
/// Size of a chart, in its own units.
const CHART: (f64, f64) = (640.0, 110.0);

/// A state of a moment, with its forms, each rendered once for all viewers.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) now: Now,
    reader: OnceLock<String>,
    runner: OnceLock<String>,
    document: OnceLock<String>,
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
    pub(crate) fn document(&self) -> &str {
        self.document.get_or_init(|| self.now.document().to_string())
    }
}

/// Text of a page.
pub(crate) fn text(page: &impl Template) -> String {
    page.render().expect("templates write to a String")
}

/// A page that says one thing.
pub(crate) fn message(status: StatusCode, text: &str) -> String {
    let title = status.canonical_reason().unwrap_or("Error");
    self::text(&MessagePage { here: "", title, text })
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    here: &'a str,
    title: &'a str,
    text: &'a str,
}

#[derive(Template)]
#[template(path = "login.html")]
pub(crate) struct LoginPage {
    pub(crate) here: &'static str,
    pub(crate) wrong: bool,
}

#[derive(Template)]
#[template(path = "home.html")]
pub(crate) struct HomePage<'a> {
    pub(crate) here: &'static str,
    pub(crate) has_queue: bool,
    pub(crate) now: &'a str,
    pub(crate) at: String,
}

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage<'a> {
    running: Vec<RunningView>,
    entries: Vec<EntryView>,
    more: usize,
    holder: &'a Option<String>,
    trouble: &'a Option<String>,
    may_run: bool,
    csrf: &'a str,
}

impl<'a> NowPage<'a> {
    fn of(now: &'a Now, may_run: bool, csrf: &'a str) -> Self {
        let entries = now.entries.iter().zip(&now.expected).take(ENTRIES_MAX);
        Self {
            running: now.running.iter().map(RunningView::of).collect(),
            entries: entries.map(|(entry, at)| EntryView::of(entry, *at)).collect(),
            more: now.entries.len().saturating_sub(ENTRIES_MAX),
            holder: &now.holder,
            trouble: &now.trouble,
            may_run,
            csrf,
        }
    }
}

struct RunningView {
    id: String,
    title: String,
    done: usize,
    trials: usize,
    sealed: usize,
    invalid: usize,
    failed: usize,
    step: String,
    invalid_reasons: Vec<String>,
    numbers: Option<Vec<(&'static str, String)>>,
    chart: String,
    squares: Vec<(&'static str, String)>,
    notes: Vec<String>,
    log: Option<String>,
}

impl RunningView {
    fn of(running: &Running) -> Self {
        let standing = &running.standing;
        let count = |state| standing.count(state);
        let (sealed, invalid, failed) =
            (count(TrialState::Sealed), count(TrialState::Invalid), count(TrialState::Failed));
        let bad = standing.trials.iter().rev().filter(|told| told.state == TrialState::Invalid);
        let reasons = bad.filter_map(|told| Some(format!("{}: {}", name(told), told.reason.as_ref()?)));
        let is_short = standing.trials.len() <= SQUARES_MAX;
        Self {
            id: standing.header.id.to_string(),
            title: standing.header.title.clone(),
            done: sealed + invalid + failed,
            trials: standing.trials.len(),
            sealed,
            invalid,
            failed,
            step: running.step.clone(),
            invalid_reasons: reasons.take(REASONS_MAX).collect(),
            numbers: running.intervals.last().map(numbers),
            chart: chart(&running.intervals),
            squares: if is_short { standing.trials.iter().map(square).collect() } else { Vec::new() },
            notes: running.notes.clone(),
            log: running.log.clone(),
        }
    }
}

fn name(told: &TrialStanding) -> String {
    let levels: Vec<String> =
        told.trial.levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
    format!("block {} {}", told.trial.block, levels.join(" "))
}

fn square(told: &TrialStanding) -> (&'static str, String) {
    let word = if told.is_current { "measuring" } else { told.state.word() };
    (word, format!("{}: {word}", name(told)))
}

/// Numbers of an interval for people. A number that is missing reads `-`.
fn numbers(interval: &Value) -> Vec<(&'static str, String)> {
    let rate = |name: &str| interval[name].as_f64().map_or("-".to_owned(), |per_s| format!("{per_s:.1}/s"));
    let latency = |name: &str| interval["latency_ns"][name].as_u64().map_or("-".to_owned(), duration);
    let count = |name: &str| interval[name].as_u64().map_or("-".to_owned(), |n| n.to_string());
    vec![
        ("offered", rate("offered_per_s")),
        ("done", rate("achieved_per_s")),
        ("p50", latency("p50")),
        ("p99", latency("p99")),
        ("max", latency("max")),
        ("backlog", count("backlog")),
        ("errors", count("errors")),
    ]
}

/// A span of nanoseconds with three digits: `0.41 ms`.
pub(crate) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..100_000 => (ns as f64 / 1e3, "\u{b5}s"),
        100_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        v if v < 1.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Rate and p99 over the last intervals as a drawing. An interval without the number breaks its line.
fn chart(intervals: &[Value]) -> String {
    let values = |read: &dyn Fn(&Value) -> Option<f64>| intervals.iter().map(read).collect::<Vec<_>>();
    let done = values(&|interval| interval["achieved_per_s"].as_f64());
    let offered = values(&|interval| interval["offered_per_s"].as_f64());
    let p99 = values(&|interval| interval["latency_ns"]["p99"].as_f64());
    let most = |all: &[Option<f64>]| all.iter().flatten().copied().fold(0.0, f64::max);
    let (rate_max, p99_max) = (most(&done).max(most(&offered)), most(&p99));
    if intervals.len() < 2 || rate_max <= 0.0 {
        return String::new();
    }
    let lines = [("offered", &offered, rate_max), ("done", &done, rate_max), ("p99", &p99, p99_max)];
    let drawn: String = lines.iter().map(|(class, all, top)| polylines(class, all, *top)).collect();
    let (width, height) = CHART;
    let label = format!("done up to {rate_max:.1}/s, p99 up to {}", duration(whole(p99_max)));
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"The last {} intervals: {label}\">\
         {drawn}<text x=\"2\" y=\"10\">{label} (p99 is the other line)</text></svg>",
        intervals.len()
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds that were whole numbers"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
}

fn polylines(class: &str, values: &[Option<f64>], top: f64) -> String {
    if top <= 0.0 {
        return String::new();
    }
    let (width, height) = CHART;
    let step = width / (values.len() - 1) as f64;
    let mut lines = Vec::new();
    let mut line = Vec::new();
    for (i, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                let (x, y) = (i as f64 * step, (height - 2.0) - value / top * (height - 18.0));
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

/// An entry of the queue on a page.
pub(crate) struct EntryView {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) by: String,
    pub(crate) priority: i32,
    pub(crate) state: String,
    pub(crate) tone: &'static str,
    pub(crate) reason: String,
    pub(crate) start: String,
    pub(crate) least: String,
    pub(crate) run: Option<String>,
    pub(crate) run_short: String,
    pub(crate) actions: Vec<&'static str>,
}

impl EntryView {
    /// - `expected`: start of one that waits.
    pub(crate) fn of(entry: &Entry, expected: Option<u64>) -> Self {
        let state = match entry.wish {
            None => entry.state.word().to_owned(),
            Some(Wish::Pause) => "running, stops after this trial".to_owned(),
            Some(Wish::Cancel) => "running, is being cancelled".to_owned(),
        };
        let start = match (entry.started_unix_ns, expected) {
            (Some(at), _) => moment(at),
            (None, Some(at)) => format!("about {}", moment(at)),
            (None, None) => "-".to_owned(),
        };
        Self {
            id: entry.id.to_string(),
            title: entry.title.clone(),
            by: entry.by.clone(),
            priority: entry.priority,
            state,
            tone: tone_of(entry.state),
            reason: entry.reason.clone().unwrap_or_default(),
            start,
            least: span(entry.estimate_s),
            run: entry.run.map(|run| run.to_string()),
            run_short: entry.run.map(|run| run.short(6).to_lowercase()).unwrap_or_default(),
            actions: actions(entry).into_iter().map(Action::word).collect(),
        }
    }
}

fn tone_of(state: QueueState) -> &'static str {
    match state {
        QueueState::Done => "good",
        QueueState::Failed => "bad",
        QueueState::Running => "doubt",
        _ => "even",
    }
}

fn actions(entry: &Entry) -> Vec<Action> {
    match (entry.state, entry.wish) {
        (QueueState::Waiting, _) | (QueueState::Running, None) => vec![Action::Pause, Action::Cancel],
        (QueueState::Running, Some(Wish::Pause)) => vec![Action::Cancel],
        (QueueState::Paused, _) => vec![Action::Resume, Action::Cancel],
        _ => Vec::new(),
    }
}

#[derive(Template)]
#[template(path = "entry.html")]
pub(crate) struct EntryPage<'a> {
    pub(crate) here: &'static str,
    pub(crate) entry: EntryView,
    pub(crate) submitted: String,
    pub(crate) sha256: &'a str,
    pub(crate) plan: &'a str,
    pub(crate) output: &'a str,
    pub(crate) may_run: bool,
    pub(crate) can_prioritize: bool,
    pub(crate) csrf: &'a str,
}

/// A run on a page.
pub(crate) struct RowView {
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) title: String,
    pub(crate) kind: &'static str,
    pub(crate) state: &'static str,
    pub(crate) tone: &'static str,
    pub(crate) started: String,
    pub(crate) labels: String,
}

impl RowView {
    pub(crate) fn of(row: &Row) -> Self {
        let header = &row.header;
        let labels: Vec<String> =
            header.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self {
            id: header.id.to_string(),
            short: row.short.clone(),
            title: header.title.clone(),
            kind: header.kind.word(),
            state: if header.state == RunState::Invalid { "INVALID" } else { header.state.word() },
            tone: match header.state {
                RunState::Sealed => "good",
                RunState::Invalid | RunState::Failed => "bad",
                RunState::Running => "doubt",
                RunState::Interrupted | RunState::Abandoned => "even",
            },
            started: moment(header.anchor.unix_ns),
            labels: labels.join(" "),
        }
    }
}

#[derive(Template)]
#[template(path = "runs.html")]
pub(crate) struct RunsPage {
    pub(crate) here: &'static str,
    pub(crate) text: String,
    pub(crate) label: String,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) kinds: Vec<(&'static str, bool)>,
    pub(crate) states: Vec<(&'static str, bool)>,
    pub(crate) rows: Vec<RowView>,
    pub(crate) found: usize,
    pub(crate) all: usize,
    pub(crate) damaged: usize,
    pub(crate) page: usize,
    pub(crate) pages: usize,
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
}

#[derive(Template)]
#[template(path = "about.html")]
pub(crate) struct AboutPage<'a> {
    pub(crate) here: &'static str,
    pub(crate) row: RowView,
    pub(crate) reason: String,
    pub(crate) command: &'a str,
    pub(crate) may_run: bool,
    pub(crate) csrf: &'a str,
}

/// Head of a column of a comparison.
pub(crate) struct Column {
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) title: String,
}

#[derive(Template)]
#[template(path = "compare.html")]
pub(crate) struct ComparePage {
    pub(crate) here: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<(String, Vec<String>)>,
    pub(crate) verdicts: Vec<(String, Vec<String>)>,
    pub(crate) differing: Vec<(String, Vec<String>)>,
}

/// A machine on a page.
pub(crate) struct HostView {
    pub(crate) name: String,
    pub(crate) cpu: String,
    pub(crate) cpus: String,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) runs: usize,
    pub(crate) last: String,
}

#[derive(Template)]
#[template(path = "hosts.html")]
pub(crate) struct HostsPage {
    pub(crate) here: &'static str,
    pub(crate) looked: usize,
    pub(crate) hosts: Vec<HostView>,
}

#[derive(Template)]
#[template(path = "plan.html")]
pub(crate) struct PlanPage<'a> {
    pub(crate) here: &'static str,
    pub(crate) has_queue: bool,
    pub(crate) may_run: bool,
    pub(crate) csrf: &'a str,
    pub(crate) text: String,
    pub(crate) priority: String,
    pub(crate) not_before: String,
    pub(crate) by: String,
    pub(crate) summary: Option<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) faults: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_number_is_a_dash_and_breaks_its_line() {
        let interval = json!({"achieved_per_s": 5.0, "offered_per_s": null, "latency_ns": null, "backlog": 0, "errors": 0});
        let shown = numbers(&interval);
        assert_eq!((shown[0].1.as_str(), shown[1].1.as_str(), shown[3].1.as_str()), ("-", "5.0/s", "-"));
        let full = |p99: Value| json!({"achieved_per_s": 5.0, "latency_ns": {"p99": p99}});
        let drawn = chart(&[full(json!(1000)), full(Value::Null), full(json!(2000)), full(json!(2000))]);
        assert_eq!(drawn.matches("class=\"p99\"").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("class=\"offered\"").count(), 0, "a closed loop offers nothing: {drawn}");
        assert_eq!(chart(&[]), "");
    }

    #[test]
    fn spans_keep_their_digits() {
        let found: Vec<String> =
            [0, 999, 1_500, 99_900, 410_000, 12_345_678, 1_500_000_000].map(duration).into();
        assert_eq!(found, ["0 ns", "999 ns", "1.5 \u{b5}s", "99.9 \u{b5}s", "0.41 ms", "12.3 ms", "1.5 s"]);
    }

    #[test]
    fn no_text_becomes_a_tag() {
        let evil = "<script>alert(1)</script>\"' onload=x";
        let page = message(StatusCode::NOT_FOUND, evil);
        assert!(!page.contains("<script>alert") && page.contains("&#60;script&#62;alert(1)"), "{page}");
    }
}
