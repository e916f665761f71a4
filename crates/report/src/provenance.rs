//! The data that a page carries about itself: the runs behind it, to compare its numbers with the
//! archive, and the plan, so that the bake-off can be repeated.
//!
//! HTML holds it in a script element of type JSON, which no browser runs; Markdown holds it in a comment.

use std::collections::BTreeMap;

use record::bakeoff::Bakeoff;
use record::environment::Environment;
use record::run::{Run, RunKind};
use serde_json::{Value, json};

use crate::Form;
use crate::identity::is_left_out;

const SCHEMA: &str = "bakeoff.page/1";
/// Text before and after the JSON in HTML and in Markdown.
const HTML: [&str; 2] = ["<script type=\"application/json\" id=\"provenance\">", "</script>\n"];
const MARKDOWN: [&str; 2] = ["\n<!-- provenance: ", " -->\n"];
const BODY_END: &str = "</body>\n</html>\n";

/// The runs behind a page, and what is needed to repeat them.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// Ids of the runs or bake-offs, in the page's order.
    pub runs: Vec<String>,
    /// Kind of the runs.
    pub kind: String,
    /// Whether the page shows what identifies the machine.
    pub identify: bool,
    /// Version of the program that wrote the page.
    pub written_by: String,
    /// The means to repeat the first run.
    pub repeat: Repeat,
}

/// The means to repeat a run, as far as a page may show them.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// Title of the run.
    pub title: String,
    /// Version of the program that measured it.
    pub measured_by: String,
    /// Versions of the servers.
    pub servers: Vec<String>,
    /// Command line; `None` if the page leaves it out.
    pub command: Option<String>,
    /// Plan of a bake-off, and its checksum in the archive.
    pub plan: Option<Plan>,
    /// Known facts of the machine.
    pub facts: BTreeMap<String, String>,
}

/// A plan on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Text of the plan, perhaps with names left out.
    pub text: String,
    /// Checksum of the archived plan.
    pub sha256: String,
}

/// A page without readable provenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoProvenance {
    /// None: another program or an older version wrote the page.
    Absent,
    /// One that cannot be read.
    Damaged,
}

impl std::fmt::Display for NoProvenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Absent => "the page does not name its runs: it is from another program, or from an older version of bakeoff",
            Self::Damaged => "cannot read the run data in the page: the page was changed",
        })
    }
}

impl Repeat {
    /// The means to repeat a bake-off, a scale or a dder run.
    pub fn bakeoff(bakeoff: &Bakeoff) -> Self {
        let mut servers: Vec<String> = bakeoff
            .sealed()
            .filter_map(|(_, run)| run.load.as_ref()?.server_version.as_deref().ok())
            .map(str::to_owned)
            .collect();
        servers.sort_unstable();
        servers.dedup();
        // The plan of an experiment is in its options; only that of a bake-off is a file of the user.
        let is_file = bakeoff.header.kind == RunKind::Bakeoff;
        Self {
            title: bakeoff.header.title.clone(),
            measured_by: bakeoff.header.tool_version.clone(),
            servers,
            command: command(&bakeoff.header.command),
            plan: is_file
                .then(|| Plan { text: bakeoff.plan_text.clone(), sha256: bakeoff.plan_sha256.clone() }),
            facts: facts(&bakeoff.environment),
        }
    }

    /// The means to repeat a single run.
    pub fn run(run: &Run) -> Self {
        let server = run.load.as_ref().and_then(|load| load.server_version.as_deref().ok());
        Self {
            title: run.header.title.clone(),
            measured_by: run.header.tool_version.clone(),
            servers: server.map(str::to_owned).into_iter().collect(),
            command: command(&run.header.command),
            plan: None,
            facts: facts(&run.environment),
        }
    }
}

fn command(written: &str) -> Option<String> {
    (!is_left_out(written)).then(|| written.to_owned())
}

fn facts(environment: &Environment) -> BTreeMap<String, String> {
    let known = environment.facts.iter().filter_map(|(name, value)| Some((name, value.as_ref().ok()?)));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The same JSON in printable ASCII: a terminal that shows the page finds no order in a title.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
            continue;
        }
        text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
    }
    text
}

impl Provenance {
    /// The page with this at its end.
    pub fn put_into(&self, page: &str, form: Form) -> String {
        let text = escaped(&self.document().to_string());
        match form {
            Form::Html => {
                let [before, after] = HTML;
                // No text can end the element, or begin a comment in it.
                let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
                let body = page.strip_suffix(BODY_END).unwrap_or(page);
                format!("{body}{before}{text}{after}{BODY_END}")
            }
            Form::Markdown => {
                let [before, after] = MARKDOWN;
                let text = text.replace("--", "-\\u002d").replace('<', "\\u003c").replace('>', "\\u003e");
                format!("{page}{before}{text}{after}")
            }
        }
    }

    /// Reads it from a page.
    ///
    /// # Errors
    ///
    /// The page has none, or one that cannot be read.
    pub fn of_page(page: &str) -> Result<Self, NoProvenance> {
        let (text, _) = split(page).ok_or(NoProvenance::Absent)?;
        let document: Value = serde_json::from_str(text).map_err(|_| NoProvenance::Damaged)?;
        Self::of_document(&document).ok_or(NoProvenance::Damaged)
    }

    fn document(&self) -> Value {
        let Repeat { title, measured_by, servers, command, plan, facts } = &self.repeat;
        json!({
            "schema": SCHEMA,
            "runs": self.runs,
            "kind": self.kind,
            "identify": self.identify,
            "written_by": self.written_by,
            "title": title,
            "measured_by": measured_by,
            "servers": servers,
            "command": command,
            "plan": plan.as_ref().map(|plan| json!({"text": plan.text, "sha256": plan.sha256})),
            "facts": facts,
        })
    }

    fn of_document(document: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| value.as_array()?.iter().map(text).collect::<Option<Vec<String>>>();
        if document["schema"] != SCHEMA {
            return None;
        }
        let plan = &document["plan"];
        let plan = match plan {
            Value::Null => None,
            plan => Some(Plan { text: text(&plan["text"])?, sha256: text(&plan["sha256"])? }),
        };
        let facts = document["facts"].as_object()?.iter();
        Some(Self {
            runs: texts(&document["runs"])?,
            kind: text(&document["kind"])?,
            identify: document["identify"].as_bool()?,
            written_by: text(&document["written_by"])?,
            repeat: Repeat {
                title: text(&document["title"])?,
                measured_by: text(&document["measured_by"])?,
                servers: texts(&document["servers"])?,
                command: text(&document["command"]),
                plan,
                facts: facts
                    .map(|(name, value)| Some((name.clone(), text(value)?)))
                    .collect::<Option<_>>()?,
            },
        })
    }
}

/// The JSON of a page, and the page without it; `None` if the page has none.
pub(crate) fn split(page: &str) -> Option<(&str, String)> {
    [HTML, MARKDOWN].iter().find_map(|[before, after]| {
        // The last one: text of the page cannot stand behind it.
        let at = page.rfind(before)?;
        let rest = &page[at + before.len()..];
        let end = rest.find(after)?;
        Some((&rest[..end], format!("{}{}", &page[..at], &rest[end + after.len()..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance() -> Provenance {
        Provenance {
            runs: vec!["01ARZ3NDEKTSV4RRFFQ69G5FAV".into()],
            kind: "bakeoff".into(),
            identify: false,
            written_by: "0.1.0".into(),
            repeat: Repeat {
                title: "</script> --> <!-- a & b".into(),
                measured_by: "0.1.0".into(),
                servers: vec!["10.11".into()],
                command: None,
                plan: Some(Plan { text: "title = \"x\" # --\n".into(), sha256: "00".into() }),
                facts: [("kernel.release".to_owned(), "6.1".to_owned())].into(),
            },
        }
    }

    #[test]
    fn a_page_carries_it_and_is_whole_without_it() {
        let html = format!("<html>text{BODY_END}");
        for (page, form) in [(html.as_str(), Form::Html), ("# text\n", Form::Markdown)] {
            let with = provenance().put_into(page, form);
            assert_eq!(Provenance::of_page(&with), Ok(provenance()), "{with}");
            let (text, without) = split(&with).unwrap();
            assert_eq!(without, page);
            assert!(!text.contains('<') && !text.contains("-->"), "{text}");
        }
    }

    #[test]
    fn another_page_has_none_and_a_changed_one_is_damaged() {
        assert_eq!(Provenance::of_page("<html></html>"), Err(NoProvenance::Absent));
        let with = provenance().put_into(&format!("x{BODY_END}"), Form::Html);
        for (found, instead) in
            [("bakeoff.page/1", "bakeoff.page/9"), ("\"runs\":[", "\"runs\":[1,"), ("{", "")]
        {
            let changed = with.replacen(found, instead, 1);
            assert_eq!(Provenance::of_page(&changed), Err(NoProvenance::Damaged), "{changed}");
        }
    }
}
