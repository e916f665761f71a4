//! The page of runs, with what it carries about them.

use std::path::Path;

use archive::Archive;
use record::run::{RunId, RunKind};
use report::Form;
use report::identity::Hidden;
use report::page::Member;
use report::provenance::{Provenance, Repeat};

use crate::cmd::{experiment, profiled};
use crate::exit::Exit;

/// The way a page is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Whether it names the machine.
    pub(crate) identify: bool,
    /// Whether runs that differ in more than the machine are compared.
    pub(crate) force: bool,
    /// Form of its text.
    pub(crate) form: Form,
}

/// The page of these runs, with its provenance.
pub(crate) fn made(archive: &Archive, ids: &[RunId], how: Made) -> anyhow::Result<String> {
    let (page, kind, repeat, hidden) = match ids {
        [id] if !archive.is_bakeoff(*id) => of_run(archive, *id, how)?,
        [first, rest @ ..] if archive.is_bakeoff(*first) => of_bakeoffs(archive, *first, rest, how)?,
        _ => return Err(Exit::Usage.with("--compare: a load has a page of its own; bake-offs can share one")),
    };
    let provenance = Provenance {
        runs: ids.iter().map(ToString::to_string).collect(),
        kind: kind.word().to_owned(),
        identify: how.identify,
        written_by: env!("CARGO_PKG_VERSION").to_owned(),
        repeat,
    };
    let page = provenance.put_into(&page, how.form);
    Ok(if how.identify { page } else { hidden.from_page(&page) })
}

type Parts = (String, RunKind, Repeat, Hidden);

fn of_run(archive: &Archive, id: RunId, how: Made) -> anyhow::Result<Parts> {
    let mut run = archive.run_for_drawing(id, report::PLACES_MAX)?;
    let hidden = if how.identify { Hidden::default() } else { Hidden::in_run(&mut run) };
    let page = match run.header.kind {
        RunKind::Compare => crate::cmd::compare::page(&run)?,
        _ => report::page::load(&run),
    };
    let page = report::render(&page, how.form);
    Ok((page, run.header.kind, Repeat::run(&run), hidden))
}

fn of_bakeoffs(archive: &Archive, first: RunId, rest: &[RunId], how: Made) -> anyhow::Result<Parts> {
    let mut hidden = Hidden::default();
    let mut bakeoffs = Vec::new();
    for id in [first].iter().chain(rest) {
        let Some(mut bakeoff) = archive.is_bakeoff(*id).then(|| archive.bakeoff(*id)).transpose()? else {
            return Err(
                Exit::Usage.with(format!("--compare: {id} is a single run; bake-offs can share a page"))
            );
        };
        if !how.identify {
            hidden.also(Hidden::in_bakeoff(&mut bakeoff));
        }
        bakeoffs.push(bakeoff);
    }
    let kind = bakeoffs[0].header.kind;
    if let Some(other) = bakeoffs.iter().find(|b| b.header.kind != kind) {
        let (id, of) = (other.header.id, other.header.kind.word());
        return Err(
            Exit::Usage.with(format!("--compare: {id} is a {of} run, and {first} a {} run", kind.word()))
        );
    }
    let page = match &bakeoffs[..] {
        [this, others @ ..] if experiment::is_kind(kind) => {
            let other = match others {
                [] => None,
                [other] => Some(other),
                _ => {
                    return Err(Exit::Usage.with(format!("--compare: a page holds two {} runs", kind.word())));
                }
            };
            if let [other] = rest {
                // The archived runs, with the facts that their page hides: the comparison needs them.
                let (this, other) = (archive.bakeoff(first)?, archive.bakeoff(*other)?);
                let plan = runner::archived_plan(&this).map_err(crate::cmd::run::of_runner)?;
                experiment::comparable(&plan, &this.environment.facts, None, &other, how.force)?;
            }
            experiment::page(this, other)
        }
        [bakeoff] => {
            let comparisons = profiled::compare(archive, bakeoff)?;
            let stacks = profiled::stacks(archive, &comparisons)?;
            report::page::bakeoff_with(bakeoff, &comparisons, &stacks)
        }
        several => {
            let comparisons: Vec<_> = several.iter().map(analysis::compare).collect();
            let names: Vec<String> = several.iter().map(|b| b.header.id.to_string()).collect();
            let all = several.iter().zip(&comparisons).zip(&names);
            let members: Vec<Member<'_>> = all
                .map(|((bakeoff, comparisons), name)| Member { name: name.as_str(), bakeoff, comparisons })
                .collect();
            report::page::several(&members)
        }
    };
    Ok((report::render(&page, how.form), kind, Repeat::bakeoff(&bakeoffs[0]), hidden))
}

/// The form of the page for a file name.
pub(crate) fn form_of(path: &Path) -> anyhow::Result<Form> {
    let unknown = || Exit::Usage.with(format!("{}: a page's name ends in .html or .md", path.display()));
    Form::of_path(path).ok_or_else(unknown)
}
