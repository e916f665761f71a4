//! A comparison of commands, measured now or read from the archive, on its way to the reader.

use std::io::Write;

use analysis::commands::{Results, of_run};
use record::commands::Comparison;
use record::missing::Missing;
use record::run::{Run, RunHeader, RunId};
use report::text::Detail;

use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen;

/// Prints an archived comparison, as the command that measured it did.
pub(crate) fn print(
    run: &Run,
    id: RunId,
    detail: Detail,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (comparison, results) = judged(run)?;
    print_results(&run.header, &comparison, &results, Some(id), detail, global, out)
}

/// An archived comparison with its results.
pub(super) fn judged(run: &Run) -> anyhow::Result<(Comparison, Results)> {
    let comparison = read(run)?;
    let results = of_run(&run.header, &comparison);
    Ok((comparison, results))
}

/// The comparison of an archived run.
fn read(run: &Run) -> anyhow::Result<Comparison> {
    let missing = || Missing::because("the run is of another kind");
    Comparison::read(run).unwrap_or_else(|| Err(missing())).map_err(|why| {
        Exit::Bad.with(format!("cannot read {} as a comparison of commands: {why}", run.header.id))
    })
}

/// The page of an archived comparison.
pub(crate) fn page(run: &Run) -> anyhow::Result<report::page::Page> {
    let (comparison, results) = judged(run)?;
    Ok(report::page::commands(run, &comparison, &results))
}

pub(super) fn print_results(
    header: &RunHeader,
    comparison: &Comparison,
    results: &Results,
    id: Option<RunId>,
    detail: Detail,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if global.json {
        print_json(out, &report::json::commands(id, header, comparison, results))?;
    } else {
        let name = id.map(|id| global.short_name(id));
        let style = (detail, screen::style());
        report::text::commands(out, header, comparison, results, name.as_deref(), style)?;
    }
    Ok(out.flush()?)
}
