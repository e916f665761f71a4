//! Archived runs side by side, and the machines of the archive.

use std::collections::{BTreeMap, BTreeSet};

use archive::Archive;
use record::bakeoff::{Metric, Scale};
use record::environment::Environment;
use record::histogram::Bound;
use record::missing::Missing;
use record::run::{RunHeader, RunId, RunKind};
use serde_json::{Value, json};

use crate::listing::Snapshot;
use crate::printer::{PrintError, Printer};
use crate::view::duration;
use crate::view_page::{Cell, Column, ComparePage, HostView, Judged, state_of};

/// Runs of a comparison.
pub(crate) const RUNS_MIN: usize = 2;
pub(crate) const RUNS_MAX: usize = 8;
/// Runs in which machines are looked for, newest first.
const LOOKED_MAX: usize = 100;

/// Numbers of a load that stand in the table: path in the document, name, and form.
const NUMBERS: [(&[&str], &str, Form); 14] = [
    (&["target"], "target", Form::Text),
    (&["workload"], "workload", Form::Text),
    (&["threads"], "threads", Form::Count),
    (&["offered_per_s"], "offered", Form::Rate),
    (&["achieved_per_s"], "done", Form::Rate),
    (&["done"], "events done", Form::Count),
    (&["failed"], "failed", Form::Count),
    (&["skipped"], "skipped", Form::Count),
    (&["unfinished"], "unfinished", Form::Count),
    (&["response_ns", "p50"], "response p50", Form::Span),
    (&["response_ns", "p99"], "response p99", Form::Span),
    (&["service_ns", "p50"], "service p50", Form::Span),
    (&["service_ns", "p99"], "service p99", Form::Span),
    (&["lateness_ns", "p99"], "lateness p99", Form::Span),
];

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Count,
    Rate,
    Span,
}

/// Parts of the runs in their order; one half is read in a second thread, because eight runs in one took
/// over 200 ms.
fn in_halves<T: Send, E: Send>(
    ids: &[RunId],
    read: impl Fn(RunId) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let all = |ids: &[RunId]| ids.iter().map(|id| read(*id)).collect::<Result<Vec<_>, _>>();
    let (first, second) = ids.split_at(ids.len() / 2);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| all(first));
        let second = all(second);
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
    });
    Ok(first?.into_iter().chain(second?).collect())
}

/// The part of a run that a comparison shows.
struct Part {
    header: RunHeader,
    /// Numbers of the whole run, without those of intervals.
    document: Value,
    machine: Environment,
}

impl Part {
    fn read(printer: &dyn Printer, archive: &Archive, id: RunId) -> Result<Self, PrintError> {
        let mut part = if archive.is_bakeoff(id) {
            let (header, machine) = (archive.header(id)?, archive.environment(id)?);
            Self { header, document: printer.document(archive, id)?, machine }
        } else {
            // The manifest has all of it, and is read once.
            let run = archive.run_summary(id)?;
            let document = match &run.load {
                None => printer.document(archive, id)?,
                Some(record) => {
                    let machine = analysis::machine(record, std::iter::empty::<record::cpu::CpuInterval>());
                    let throttled = Err(Missing::because("not part of a comparison"));
                    report::json::load(Some(id), record, &machine, &throttled)
                }
            };
            Self { header: run.header, document, machine: run.environment }
        };
        // As on the pages of runs: nothing that identifies a machine or its user.
        report::identity::hide_in_environment(&mut part.machine);
        Ok(part)
    }
}

/// Runs that are held against each other.
pub(crate) struct Compared {
    parts: Vec<Part>,
    /// The judgement of bake-offs against the first one, or the reason that it is missing; `None` for other
    /// runs, which one measurement cannot tell apart.
    judged: Option<Result<Value, String>>,
}

impl Compared {
    /// Reads the runs.
    pub(crate) fn read(printer: &dyn Printer, archive: &Archive, ids: &[RunId]) -> Result<Self, PrintError> {
        let parts = in_halves(ids, |id| Part::read(printer, archive, id))?;
        let are_bakeoffs = parts.iter().all(|part| part.header.kind == RunKind::Bakeoff);
        let judged = are_bakeoffs.then(|| {
            printer.compare(archive, ids).map_err(|why| match why {
                PrintError::Unfit { why } => why,
                // Its paths are those of this server.
                PrintError::Archive(_) => "a run cannot be read".to_owned(),
            })
        });
        Ok(Self { parts, judged })
    }

    fn headers(&self) -> impl Iterator<Item = &RunHeader> {
        self.parts.iter().map(|part| &part.header)
    }

    /// Facts that differ, each with its value on every machine; `None` where it is unknown.
    fn differing(&self) -> Vec<(String, Vec<Option<String>>)> {
        let names: BTreeSet<&String> = self.parts.iter().flat_map(|part| part.machine.facts.keys()).collect();
        let values = |name: &String| -> Vec<Option<String>> {
            self.parts.iter().map(|part| part.machine.fact(name).map(str::to_owned)).collect()
        };
        let all = names.into_iter().map(|name| (name.clone(), values(name)));
        all.filter(|(_, values)| values.windows(2).any(|pair| pair[0] != pair[1])).collect()
    }

    pub(crate) fn document(&self) -> Value {
        let runs = self.parts.iter().map(|part| {
            let mut listed = report::json::listed(&part.header);
            listed["numbers"] = part.document.clone();
            listed
        });
        let differing = self.differing();
        let facts: serde_json::Map<String, Value> =
            differing.into_iter().map(|(name, values)| (name, json!(values))).collect();
        let mut document = json!({
            "schema": "bakeoff.side-by-side/1",
            "runs": runs.collect::<Vec<_>>(),
            "differing_facts": facts,
            "judged": self.judged.as_ref().and_then(|judged| judged.as_ref().ok()),
        });
        let why = match &self.judged {
            None => Some("single runs: only bake-offs are judged"),
            Some(Err(why)) => Some(why.as_str()),
            Some(Ok(_)) => None,
        };
        if let Some(why) = why {
            document["missing"] = json!({"judged": why});
        }
        document
    }

    pub(crate) fn page(&self) -> ComparePage {
        let columns = self.headers().map(|header| Column {
            id: header.id.to_string(),
            short: header.id.short(RunId::SHORT_MIN).to_lowercase(),
            title: header.title.clone(),
        });
        let is_load = |document: &Value| document["schema"] == "bakeoff.load/1";
        let mut rows = vec![
            ("kind".to_owned(), self.headers().map(|h| plain(h.kind.word().to_owned())).collect()),
            ("state".to_owned(), self.headers().map(state_cell).collect()),
        ];
        if self.parts.iter().any(|part| is_load(&part.document)) {
            for (path, name, form) in NUMBERS {
                let of = |part: &Part| plain(cell(&part.document, path, form));
                rows.push((name.to_owned(), self.parts.iter().map(of).collect()));
            }
        }
        let labels: BTreeSet<&String> = self.headers().flat_map(|header| header.labels.keys()).collect();
        for label in labels {
            let value = |header: &RunHeader| header.labels.get(label).cloned();
            let of = |header| plain(value(header).unwrap_or_else(|| "-".to_owned()));
            rows.push((format!("label {label}"), self.headers().map(of).collect()));
        }
        let verdicts = self.parts.iter().filter(|part| part.document["comparisons"].is_array());
        let shown = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let differing = self.differing().into_iter();
        ComparePage {
            here: "/runs",
            columns: columns.collect(),
            judged: self.judged.as_ref().map(|judged| match judged {
                Ok(document) => Judged::of(document),
                Err(why) => Judged { answer: format!("No verdict: {why}"), ..Judged::default() },
            }),
            rows,
            verdicts: verdicts.map(|part| (part.header.title.clone(), verdicts_of(&part.document))).collect(),
            differing: differing.map(|(name, all)| (name, all.into_iter().map(shown).collect())).collect(),
        }
    }
}

fn cell(document: &Value, path: &[&str], form: Form) -> String {
    let value = path.iter().fold(document, |value, name| &value[*name]);
    let is_in = |list: &str| {
        let bounds = document[path[0]][list].as_array().map(Vec::as_slice).unwrap_or_default();
        path.last().is_some_and(|name| bounds.iter().any(|bound| bound.as_str() == Some(*name)))
    };
    let bound = match Bound::of(is_in("lower_bounds"), is_in("upper_bounds")) {
        Bound::Exact => String::new(),
        bound => format!("{} ", bound.mark()),
    };
    let text = match form {
        Form::Text => value.as_str().map(str::to_owned),
        Form::Count => value.as_u64().map(|n| n.to_string()),
        Form::Rate => value.as_f64().map(|per_s| format!("{per_s:.1}/s")),
        Form::Span => value.as_u64().map(duration),
    };
    text.map_or("-".to_owned(), |text| format!("{bound}{text}"))
}

fn plain(text: String) -> Cell {
    Cell { text, tone: "" }
}

/// State of a run, with the reason that it is not a good one.
fn state_cell(header: &RunHeader) -> Cell {
    let (word, tone) = state_of(header.state);
    let reason = header.reason.as_ref().map(|reason| format!(": {reason}"));
    Cell { text: format!("{word}{}", reason.unwrap_or_default()), tone }
}

fn verdicts_of(document: &Value) -> Vec<String> {
    let pairs = document["comparisons"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |pair: &Value| {
        let metric = text(&pair["metric"]);
        let is_share = Metric::from_word(&metric).is_some_and(|metric| metric.scale() == Scale::Points);
        let unit = if is_share { "pp" } else { "%" };
        let change = |value: &Value| {
            value.as_f64().map_or("-".to_owned(), |ratio| format!("{:+.1} {unit}", (ratio - 1.0) * 100.0))
        };
        format!(
            "{} against {}, {metric}: {} ({} to {}), {}",
            text(&pair["a"]),
            text(&pair["b"]),
            change(&pair["ratio"]),
            change(&pair["low"]),
            change(&pair["high"]),
            text(&pair["verdict"])
        )
    };
    pairs.iter().map(line).collect()
}

/// Machines of the newest runs: how many runs were looked at, and the machines.
pub(crate) fn machines(archive: &Archive, snapshot: &Snapshot) -> (usize, Vec<HostView>) {
    let mut found: BTreeMap<String, HostView> = BTreeMap::new();
    let looked: Vec<_> = snapshot.rows.iter().take(LOOKED_MAX).collect();
    for row in &looked {
        // An unreadable run is in the list of damage.
        let Ok(machine) = archive.environment(row.header.id) else { continue };
        let fact = |name: &str| machine.fact(name).unwrap_or("unknown").to_owned();
        let host = HostView {
            name: fact("host.name"),
            cpu: fact("cpu.model"),
            cpus: fact("cpu.count"),
            memory: machine.fact("memory.bytes").map_or("unknown".to_owned(), gibibytes),
            kernel: fact("kernel.release"),
            runs: 0,
            last: crate::view::moment(row.header.anchor.unix_ns),
        };
        let key = format!("{}\n{}\n{}\n{}\n{}", host.name, host.cpu, host.cpus, host.memory, host.kernel);
        found.entry(key).or_insert(host).runs += 1;
    }
    (looked.len(), found.into_values().collect())
}

fn gibibytes(bytes: &str) -> String {
    let bytes: Option<f64> = bytes.parse().ok();
    bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} GiB", bytes / f64::from(1 << 30)))
}

/// Document of the machines.
pub(crate) fn machines_document(found: &(usize, Vec<HostView>)) -> Value {
    let host = |host: &HostView| {
        json!({
            "name": host.name, "cpu": host.cpu, "cpus": host.cpus, "memory": host.memory, "kernel": host.kernel,
            "runs": host.runs, "last": host.last,
        })
    };
    json!({"schema": "bakeoff.hosts/1", "looked_at": found.0, "hosts": found.1.iter().map(host).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_missing_or_a_bound_reads_so() {
        let document = json!({
            "offered_per_s": null, "done": 0,
            "response_ns": {"p50": 410_000, "p99": 2_000_000, "lower_bounds": ["p99"]},
            "service_ns": {"p50": 22_500_000, "p99": 1, "lower_bounds": ["p99"], "upper_bounds": ["p50", "p99"]},
        });
        assert_eq!(cell(&document, &["offered_per_s"], Form::Rate), "-");
        assert_eq!(cell(&document, &["done"], Form::Count), "0");
        assert_eq!(cell(&document, &["response_ns", "p50"], Form::Span), "0.41 ms");
        assert_eq!(cell(&document, &["response_ns", "p99"], Form::Span), ">= 2.0 ms");
        assert_eq!(cell(&document, &["service_ns", "p50"], Form::Span), "<= 22.5 ms");
        assert_eq!(cell(&document, &["service_ns", "p99"], Form::Span), "~ 1 ns", "neither bound");
        assert_eq!(cell(&document, &["service_ns", "max"], Form::Span), "-");
    }

    #[test]
    fn a_run_is_read_once_for_a_comparison() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let mut machine = Environment::default();
        machine.facts.insert("large".to_owned(), Ok("x".repeat(200_000)));
        let stored = |title: &str| {
            let anchor = record::clock::WallAnchor::now();
            let header = RunHeader::running(RunKind::Record, anchor, title.to_owned(), String::new());
            let writer = archive.begin(&header).unwrap();
            writer.seal(&record::run::Run::unmeasured(header.clone(), machine.clone())).unwrap();
            header.id
        };
        let ids = [stored("a"), stored("b")];
        let read_bytes = || {
            let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
            counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok())
        };
        let Some(before) = read_bytes() else {
            println!("skipped: this kernel does not count what a thread reads");
            return;
        };
        assert!(Compared::read(&crate::tests::Empty, &archive, &ids).is_ok());
        // Another thread has read the first one.
        let read = read_bytes().unwrap() - before;
        assert!((200_000..300_000).contains(&read), "{read} bytes for one run of 200,000");
    }

    #[test]
    fn a_difference_of_shares_is_in_points() {
        let pair = |metric| json!({"a": "x", "b": "y", "metric": metric, "ratio": 1.05, "low": 1.04, "high": 1.06, "verdict": "worse"});
        let found = verdicts_of(&json!({"comparisons": [pair("lock-cpu"), pair("p99")]}));
        assert_eq!(found[0], "x against y, lock-cpu: +5.0 pp (+4.0 pp to +6.0 pp), worse");
        assert_eq!(found[1], "x against y, p99: +5.0 % (+4.0 % to +6.0 %), worse");
    }
}
