//! Pages and documents of runs, as `bakeoff report` and `bakeoff runs show --json` write them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use archive::{Archive, ArchiveError};
use record::bakeoff::Bakeoff;
use record::commands::Comparison;
use record::missing::Missing;
use record::run::{Run, RunId, RunKind};
use report::Form;
use report::identity::Hidden;
use report::provenance::{Provenance, Repeat};
use serde_json::Value;

/// Pages in memory. Each has at most about 1.5 MB.
const PAGES_MAX: usize = 16;

/// Pages that were rendered last.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pages: Mutex<VecDeque<(RunId, u64, Arc<str>)>>,
}

const LOCK: &str = "no thread panics with this lock";

impl Cache {
    /// The page of a run: from memory if the run has not changed, else rendered.
    pub(crate) fn page(&self, archive: &Archive, id: RunId) -> Result<Arc<str>, ArchiveError> {
        let stamp = stamp(archive, id);
        let found = {
            let pages = self.pages.lock().expect(LOCK);
            pages.iter().find(|(of, at, _)| (*of, *at) == (id, stamp)).map(|(.., page)| page.clone())
        };
        if let Some(page) = found {
            return Ok(page);
        }
        let page: Arc<str> = page(archive, id)?.into();
        let mut pages = self.pages.lock().expect(LOCK);
        pages.retain(|(of, ..)| *of != id);
        pages.push_front((id, stamp, page.clone()));
        pages.truncate(PAGES_MAX);
        Ok(page)
    }

    /// Forgets the page of a run.
    pub(crate) fn forget(&self, id: RunId) {
        self.pages.lock().expect(LOCK).retain(|(of, ..)| *of != id);
    }
}

/// A number that differs when the run has changed: runs never do, and the journal of a bake-off grows.
fn stamp(archive: &Archive, id: RunId) -> u64 {
    std::fs::metadata(archive.bakeoff_dir(id).join("events.jsonl")).map_or(0, |found| found.len())
}

/// The page of a run as `bakeoff report` writes it.
pub(crate) fn page(archive: &Archive, id: RunId) -> Result<String, ArchiveError> {
    let (page, kind, repeat, hidden) = if archive.is_bakeoff(id) {
        let mut bakeoff = archive.bakeoff(id)?;
        let hidden = Hidden::in_bakeoff(&mut bakeoff);
        (page_of(&bakeoff), bakeoff.header.kind, Repeat::bakeoff(&bakeoff), hidden)
    } else {
        let mut run = archive.run_for_drawing(id, report::PLACES_MAX)?;
        let hidden = Hidden::in_run(&mut run);
        (page_of_run(&run), run.header.kind, Repeat::run(&run), hidden)
    };
    let provenance = Provenance {
        runs: vec![id.to_string()],
        kind: kind.word().to_owned(),
        identify: false,
        written_by: env!("CARGO_PKG_VERSION").to_owned(),
        repeat,
    };
    let page = provenance.put_into(&report::render(&page, Form::Html), Form::Html);
    Ok(hidden.from_page(&page))
}

fn page_of_run(run: &Run) -> report::page::Page {
    match Comparison::read(run) {
        Some(Ok(comparison)) => {
            let results = analysis::commands::of_run(&run.header, &comparison);
            report::page::commands(run, &comparison, &results)
        }
        _ => report::page::load(run),
    }
}

fn page_of(bakeoff: &Bakeoff) -> report::page::Page {
    match bakeoff.header.kind {
        RunKind::Scale => report::page::scale(bakeoff, &analysis::scale::scale(bakeoff), None),
        RunKind::Dder => report::page::sweep(bakeoff, &analysis::sweep::sweep(bakeoff), &[]),
        _ => report::page::bakeoff(bakeoff, &analysis::compare(bakeoff)),
    }
}

/// The document of a run as `bakeoff runs show --json` prints it.
pub(crate) fn document(archive: &Archive, id: RunId) -> Result<Value, ArchiveError> {
    if archive.is_bakeoff(id) {
        let bakeoff = archive.bakeoff(id)?;
        return Ok(match bakeoff.header.kind {
            RunKind::Scale => report::json::scale(&bakeoff, &analysis::scale::scale(&bakeoff), None),
            RunKind::Dder => report::json::sweep(&bakeoff, &analysis::sweep::sweep(&bakeoff), &[]),
            _ => report::json::run(&bakeoff, &analysis::compare(&bakeoff)),
        });
    }
    let run = archive.run_for_drawing(id, report::PLACES_MAX)?;
    if let Some(Ok(comparison)) = Comparison::read(&run) {
        let results = analysis::commands::of_run(&run.header, &comparison);
        return Ok(report::json::commands(Some(id), &run.header, &comparison, &results));
    }
    Ok(match &run.load {
        Some(record) => {
            report::json::load(Some(id), record, &analysis::machine(record, &run.cpu), &run.throttled)
        }
        None => report::json::recorded(&run),
    })
}

/// The numbers of a run for a comparison, without its intervals.
pub(crate) fn brief(archive: &Archive, id: RunId) -> Result<Value, ArchiveError> {
    if archive.is_bakeoff(id) {
        return document(archive, id);
    }
    let Some(record) = archive.load_result(id)? else { return document(archive, id) };
    let machine = analysis::machine(&record, std::iter::empty::<record::cpu::CpuInterval>());
    let throttled = Err(Missing::because("not part of a comparison"));
    Ok(report::json::load(Some(id), &record, &machine, &throttled))
}
