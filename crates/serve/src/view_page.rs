//! Pages: the values that the templates show. Askama escapes every text.

use archive::{Action, Entry, QueueState, Wish};
use askama::Template;
use axum::http::StatusCode;
use record::printable::printable_block;
use record::run::RunState;
use serde_json::Value;

use crate::listing::Row;
use crate::outcome::outcome;
use crate::reasons;
use crate::view::{Expected, moment, span};

/// Text of a page.
pub(crate) fn text(page: &impl Template) -> String {
    unseen(&page.render().expect("templates write to a String").replace("\r\n", "\n"))
}

/// Writes out the characters of a page that reorder its text or are invisible, as on the command line. A
/// text that a reader edits stays as it is.
fn unseen(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(begin) = rest.find("<textarea") {
        let end = rest[begin..].find("</textarea>").map_or(rest.len(), |end| begin + end);
        out.push_str(&printable_block(&rest[..begin]));
        out.push_str(&rest[begin..end]);
        rest = &rest[end..];
    }
    out.push_str(&printable_block(rest));
    out
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
    /// Whether the reader has a session that can be ended.
    pub(crate) has_session: bool,
    pub(crate) csrf: &'a str,
}

/// An entry of the queue on a page.
pub(crate) struct EntryView {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) by: String,
    pub(crate) priority: i32,
    pub(crate) state: &'static str,
    pub(crate) tone: &'static str,
    pub(crate) reason: String,
    pub(crate) start: String,
    pub(crate) end: String,
    pub(crate) least: String,
    pub(crate) run: Option<String>,
    pub(crate) run_short: String,
    pub(crate) actions: Vec<&'static str>,
}

impl EntryView {
    /// - `expected`: of one that waits or runs.
    /// - `may_run`: whether it is for a client that may run plans.
    pub(crate) fn of(entry: &Entry, expected: Expected, may_run: bool) -> Self {
        let (state, tone) = outcome(entry);
        let time = |is: Option<u64>, expected: Option<u64>| match (is, expected) {
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
            tone,
            reason: reasons::of_entry(entry, may_run).unwrap_or_default(),
            start: time(entry.started_unix_ns, expected.start_unix_ns),
            end: time(entry.ended_unix_ns, expected.end_unix_ns),
            least: span(entry.estimate_s),
            run: entry.run.map(|run| run.to_string()),
            run_short: entry.run.map(|run| run.short(6).to_lowercase()).unwrap_or_default(),
            actions: actions(entry).into_iter().map(Action::word).collect(),
        }
    }
}

fn actions(entry: &Entry) -> Vec<Action> {
    match (entry.state, entry.wish) {
        (QueueState::Waiting, _) | (QueueState::Running, None) => vec![Action::Pause, Action::Cancel],
        (QueueState::Running, Some(Wish::Pause)) | (QueueState::Paused, _) => {
            vec![Action::Resume, Action::Cancel]
        }
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
    pub(crate) tags: Vec<String>,
    pub(crate) has_note: bool,
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
            state: state_of(header.state).0,
            tone: state_of(header.state).1,
            started: moment(header.anchor.unix_ns),
            labels: labels.join(" "),
            tags: row.note.tags.iter().cloned().collect(),
            has_note: !row.note.text.is_empty(),
        }
    }
}

/// Word and tone of a run's state.
pub(crate) fn state_of(state: RunState) -> (&'static str, &'static str) {
    match state {
        RunState::Sealed => (state.word(), "good"),
        RunState::Invalid => ("INVALID", "bad"),
        RunState::Failed => (state.word(), "bad"),
        RunState::Running => (state.word(), "doubt"),
        RunState::Interrupted | RunState::Abandoned => (state.word(), "even"),
    }
}

#[derive(Template)]
#[template(path = "runs.html")]
pub(crate) struct RunsPage {
    pub(crate) here: &'static str,
    pub(crate) text: String,
    pub(crate) label: String,
    pub(crate) tag: String,
    pub(crate) machine: String,
    pub(crate) target: String,
    pub(crate) factor: String,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) kinds: Vec<(&'static str, bool)>,
    pub(crate) states: Vec<(&'static str, bool)>,
    pub(crate) verdicts: Vec<(&'static str, bool)>,
    pub(crate) rows: Vec<RowView>,
    pub(crate) found: usize,
    pub(crate) all: usize,
    /// Age of the list, if it is not of this moment.
    pub(crate) age: Option<String>,
    pub(crate) damaged: usize,
    /// Runs that may match, but were not read.
    pub(crate) unread: usize,
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
    /// Tags and note that another user has stored meanwhile.
    pub(crate) changed: Option<(String, String)>,
    /// Version of the stored note.
    pub(crate) version: String,
    /// Separated by blanks.
    pub(crate) tags: String,
    pub(crate) note: String,
    pub(crate) may_run: bool,
    pub(crate) may_remove: bool,
    pub(crate) csrf: &'a str,
}

/// Head of a column of a comparison.
pub(crate) struct Column {
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) title: String,
}

/// A cell of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: &'static str,
}

/// Bake-offs against the first one, on a page.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) answer: String,
    pub(crate) caveats: Vec<String>,
    /// Verdict and sentence of each pair.
    pub(crate) pairs: Vec<(String, String)>,
}

impl Judged {
    /// - `document`: of `bakeoff.compare/1`.
    pub(crate) fn of(document: &Value) -> Self {
        let list = |name: &str| document[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let sentence = |pair: &Value| match pair["condition"].as_str() {
            None | Some("") => text(&pair["answer"]),
            Some(condition) => format!("{}, at {condition}", text(&pair["answer"])),
        };
        Self {
            answer: text(&document["answer"]),
            caveats: list("caveats").iter().map(text).collect(),
            pairs: list("pairs").iter().map(|pair| (text(&pair["verdict"]), sentence(pair))).collect(),
        }
    }
}

#[derive(Template)]
#[template(path = "compare.html")]
pub(crate) struct ComparePage {
    pub(crate) here: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) judged: Option<Judged>,
    pub(crate) rows: Vec<(String, Vec<Cell>)>,
    pub(crate) verdicts: Vec<(String, Vec<String>)>,
    pub(crate) differing: Vec<(String, Vec<String>)>,
}

/// The answer to a comparison of too few or too many runs.
#[derive(Template)]
#[template(path = "uncompared.html")]
pub(crate) struct UncomparedPage<'a> {
    pub(crate) here: &'static str,
    pub(crate) why: &'a str,
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
    /// Id of the entry that this form submits, however often it is sent.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) priority: String,
    pub(crate) not_before: String,
    pub(crate) by: String,
    pub(crate) summary: Option<String>,
    pub(crate) runs: Vec<String>,
    pub(crate) settings: Vec<String>,
    pub(crate) faults: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_tag() {
        let evil = "<script>alert(1)</script>\"' onload=x";
        let page = message(StatusCode::NOT_FOUND, evil);
        assert!(!page.contains("<script>alert") && page.contains("&#60;script&#62;alert(1)"), "{page}");
    }
}
