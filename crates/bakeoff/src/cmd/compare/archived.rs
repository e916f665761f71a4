//! Archived runs against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use analysis::sides::{Side, Sided, sides};
use analysis::{Rules, is_answered};
use archive::{Archive, Filter, PartOf};
use record::run::{RunId, RunKind};
use report::differing::{Properties, Subjects, differing, unlike};

use super::args::Args;
use super::{commands, shown};
use crate::cmd::gates::{self, Told};
use crate::cmd::{Global, experiment, print_json, profiled};
use crate::confine::Reader;
use crate::exit::Exit;
use crate::{cmd, screen};

/// Seed of the permutation test if there are too many divisions to try: the verdict of the same runs is the
/// same.
const SEED: u64 = 1;
/// The default of `--rope`.
#[cfg(feature = "serve")]
const ROPE: f64 = 0.01;
/// Accepted rate of any false verdict.
const ALPHA: f64 = 0.05;

/// One side, with what its runs have in common.
struct Loaded {
    side: Side,
    runs: Vec<RunId>,
    properties: Properties,
    subjects: Subjects,
}

pub(super) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if args.runs.len() > 1 {
        args.check_of_sides()?;
    }
    let files = args.outputs.files().chain(args.command.exports());
    let reader = files.fold(Reader::default(), |reader, file| reader.writes_file(Some(&file.path)));
    global.confine(reader, "compare", args.verbose)?;
    let archive = global.archive()?;
    if let [one] = &args.runs[..] {
        return alone(&archive, one, args, global, out);
    }
    let loaded = args.runs.iter().map(|text| load(&archive, text)).collect::<anyhow::Result<Vec<_>>>()?;
    refuse_repeated(&loaded)?;
    let reference = reference(args, &loaded)?;
    if !args.force {
        refuse_unlike(&loaded)?;
    }
    let (all, properties) = apart(loaded);
    let rules = Rules { rope_ratio: args.rope, alpha: ALPHA, seed: SEED };
    let sided = sides(&all, reference, rules, &args.gates);
    refuse_nothing_in_common(&all, reference)?;
    let differing = differing(&properties);
    let printed = if global.json {
        print_json(out, &report::json::sides(&all, &differing, reference, &sided))
    } else {
        report::text::sides(out, &all, &differing, &sided, screen::style()).map_err(Into::into)
    };
    let written = write_files(args, &all, &sided);
    let of_pairs = if trouble(&all, &sided).is_none() { Exit::Good } else { Exit::Inconclusive };
    let exit = gates::exit_of(&sided.gates).unwrap_or(of_pairs);
    gates::ended(exit, [printed, out.flush().map_err(Into::into), written])
}

/// The document of runs against the first one.
#[cfg(feature = "serve")]
pub(crate) fn document(archive: &Archive, ids: &[RunId]) -> anyhow::Result<serde_json::Value> {
    let load_one = |id: &RunId| load(archive, &id.to_string());
    let mut loaded = ids.iter().map(load_one).collect::<anyhow::Result<Vec<_>>>()?;
    refuse_repeated(&loaded)?;
    refuse_unlike(&loaded)?;
    // A sentence names a side as lists do.
    for (loaded, name) in loaded.iter_mut().zip(archive.short_names(ids)?) {
        loaded.side.name = name;
    }
    let (all, properties) = apart(loaded);
    refuse_nothing_in_common(&all, 0)?;
    let rules = Rules { rope_ratio: ROPE, alpha: ALPHA, seed: SEED };
    Ok(report::json::sides(&all, &differing(&properties), 0, &sides(&all, 0, rules, &[])))
}

fn apart(loaded: Vec<Loaded>) -> (Vec<Side>, Vec<(String, Properties)>) {
    let pair = |loaded: Loaded| {
        let named = (loaded.side.name.clone(), loaded.properties);
        (loaded.side, named)
    };
    loaded.into_iter().map(pair).unzip()
}

/// One run that is a comparison by itself, a bake-off or commands: its result, its files and its exit code
/// are those of the command that measured it.
fn alone(
    archive: &Archive,
    text: &str,
    args: &Args,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let one = || Exit::Usage.with(format!("`{text}` is one side, and a comparison needs two"));
    if text.contains(',') || text.contains('=') {
        return Err(one());
    }
    let id = cmd::runs::find(archive, text)?;
    match archive.header(id)?.kind {
        RunKind::Compare => {
            args.check_of_stored(true)?;
            let run = archive.run(id)?;
            let (comparison, results) = shown::judged(&run)?;
            let (header, detail) = (&run.header, commands::detail(args));
            let printed = shown::print_results(header, &comparison, &results, Some(id), detail, global, out);
            let written = commands::write_files(args, header, &comparison, &results);
            gates::ended(commands::exit_of(header, &results), [printed, written])
        }
        RunKind::Bakeoff => {
            args.check_of_stored(false)?;
            let bakeoff = archive.bakeoff(id)?;
            let comparisons = profiled::compare(archive, &bakeoff)?;
            let printed = cmd::run::print(&bakeoff, &comparisons, global, out);
            let written = args.outputs.write_bakeoff(&bakeoff, &comparisons);
            gates::ended(cmd::run::exit_of_stored(&bakeoff, &comparisons), [printed, written])
        }
        _ => Err(one()),
    }
}

/// The runs that a word of the command line names.
fn load(archive: &Archive, text: &str) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded {
        side: Side { name: text.to_owned(), ..Side::default() },
        runs: ids(archive, text)?,
        properties: Properties::default(),
        subjects: Subjects::default(),
    };
    for id in loaded.runs.clone() {
        if archive.is_bakeoff(id) {
            let bakeoff = archive.bakeoff(id)?;
            if experiment::is_kind(bakeoff.header.kind) {
                return Err(Exit::Usage.with(format!(
                    "{id} is a {} run: compare it with `bakeoff report {id} --compare OTHER`",
                    bakeoff.header.kind.word()
                )));
            }
            loaded.side.add_bakeoff(&bakeoff);
            loaded.properties.add_bakeoff(&bakeoff);
            loaded.subjects.add_bakeoff(&bakeoff);
        } else {
            if archive.header(id)?.kind == RunKind::Import {
                return Err(Exit::Usage.with(format!(
                    "{id} is an imported history: `bakeoff history` finds the changes in it; `compare` takes loads, \
                     recorded commands, comparisons and bake-offs"
                )));
            }
            let run = archive.run_for_drawing(id, report::PLACES_MAX)?;
            loaded.side.add_run(&run);
            loaded.properties.add_run(&run);
            loaded.subjects.add_run(&run);
        }
    }
    Ok(loaded)
}

fn ids(archive: &Archive, text: &str) -> anyhow::Result<Vec<RunId>> {
    if let Some((name, value)) = text.split_once('=') {
        let filter = Filter {
            labels: vec![(name.to_owned(), Some(value.to_owned()))],
            part_of: PartOf::Nothing,
            ..Filter::default()
        };
        let mut found: Vec<RunId> =
            archive.list(&filter)?.into_iter().map(|listed| listed.header.id).collect();
        found.reverse();
        if found.is_empty() {
            return Err(
                Exit::Usage.with(format!("no run has the label {text}: `bakeoff runs list` shows labels"))
            );
        }
        return Ok(found);
    }
    let find = |name: &str| {
        cmd::runs::find(archive, name).map_err(|error| {
            let hint = if name.contains(' ') { "; commands come after `--`" } else { "" };
            Exit::Usage.with(format!("{error:#}{hint}"))
        })
    };
    text.split(',').map(find).collect()
}

fn reference(args: &Args, loaded: &[Loaded]) -> anyhow::Result<usize> {
    let Some(wanted) = &args.reference else { return Ok(0) };
    loaded.iter().position(|side| side.side.name == *wanted).ok_or_else(|| {
        let names: Vec<&str> = loaded.iter().map(|side| side.side.name.as_str()).collect();
        Exit::Usage.with(format!("--reference {wanted}: expected one of {}", names.join(", ")))
    })
}

/// Refuses a run that is named twice: as two values of a side it would be evidence without a measurement,
/// and on two sides it would compare a run with itself.
fn refuse_repeated(loaded: &[Loaded]) -> anyhow::Result<()> {
    let mut sides: BTreeMap<RunId, usize> = BTreeMap::new();
    for (i, side) in loaded.iter().enumerate() {
        for id in &side.runs {
            let Some(other) = sides.insert(*id, i) else { continue };
            let (other, name) = (&loaded[other], &side.side.name);
            let what = if std::ptr::eq(other, side) {
                format!("{id} is twice in the side {name}: give each run once")
            } else if other.runs == side.runs {
                let names = if other.side.name == *name {
                    format!("both are {name}")
                } else {
                    format!("{} and {name}", other.side.name)
                };
                format!("two sides are the same runs: {names}")
            } else {
                format!("{id} is in the sides {} and {name}: give each run once", other.side.name)
            };
            return Err(Exit::Usage.with(what));
        }
    }
    Ok(())
}

/// Refuses sides that measured different things.
fn refuse_unlike(loaded: &[Loaded]) -> anyhow::Result<()> {
    let sides: Vec<(&str, &Subjects)> =
        loaded.iter().map(|loaded| (loaded.side.name.as_str(), &loaded.subjects)).collect();
    match unlike(&sides) {
        None => Ok(()),
        Some(why) => Err(Exit::Usage.with(format!("{why}. --force compares them anyway"))),
    }
}

/// Refuses a side that has no metric under a condition of the reference.
fn refuse_nothing_in_common(all: &[Side], reference: usize) -> anyhow::Result<()> {
    let has = |side: &Side| -> BTreeSet<(String, &str)> {
        side.observations.iter().map(|one| (one.condition.clone(), one.metric.word())).collect()
    };
    let known = has(&all[reference]);
    let others = || all.iter().enumerate().filter(|(i, _)| *i != reference).map(|(_, side)| side);
    // A side with failed runs may have nothing, and the caveats say why.
    if others().any(|side| !side.lost.is_empty() || !has(side).is_disjoint(&known))
        || !all[reference].lost.is_empty()
    {
        return Ok(());
    }
    let told = |side: &Side| {
        let metrics: BTreeSet<&str> = has(side).into_iter().map(|(_, metric)| metric).collect();
        let metrics = metrics.into_iter().collect::<Vec<_>>().join(", ");
        format!("{} has {}", side.name, if metrics.is_empty() { "none" } else { &metrics })
    };
    let told: Vec<String> = all.iter().map(told).collect();
    Err(Exit::Usage.with(format!(
        "the sides have no metric in common under one condition: {}. Compare runs of one kind of load, or the same \
         commands",
        told.join("; ")
    )))
}

/// Reason that the comparison is not whole: a side has lost runs, or no value can be judged.
fn trouble(all: &[Side], sided: &Sided) -> Option<String> {
    let lost = all
        .iter()
        .find_map(|side| Some(format!("{} claims nothing, because {}", side.name, side.lost.first()?)));
    lost.or_else(|| {
        let is_judged = sided.pairs.iter().any(|pair| pair.estimate.is_ok());
        (!is_judged).then(|| report::text::sides_answer(all, sided))
    })
}

fn write_files(args: &Args, all: &[Side], sided: &Sided) -> anyhow::Result<()> {
    let names: Vec<&str> = all.iter().map(|side| side.name.as_str()).collect();
    let answer = report::text::sides_answer(all, sided);
    args.outputs.write(&Told {
        title: &names.join(" against "),
        header: None,
        answer: &answer,
        trouble: trouble(all, sided).as_deref(),
        table: "",
        is_decided: is_answered(sided.pairs.iter().map(|pair| pair.verdict)),
        gates: &sided.gates,
    })
}
