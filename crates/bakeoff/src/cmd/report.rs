//! `bakeoff report`: the page of a bake-off or of a load.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use record::run::RunId;
use serde_json::json;

use crate::cmd::runs::{find, show};
use crate::cmd::{Global, experiment, print_json};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::whole_file;

/// Write the page of a bake-off or of a load: one offline file, HTML or Markdown
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A whole name, a beginning that only it has, or `latest`
    run: String,

    /// Where to: a name that ends in .html or .md; without it, Markdown on standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Of a scale or dder run: also hold it against this one
    #[arg(long, value_name = "RUN")]
    compare: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Html,
    Markdown,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json && args.output.is_none() {
        return show(&args.run, global, out);
    }
    let form = args.output.as_deref().map_or(Ok(Form::Markdown), form_of)?;
    let archive = global.archive()?;
    let id = find(&archive, &args.run)?;
    let page = if archive.is_bakeoff(id) {
        let bakeoff = archive.bakeoff(id)?;
        if experiment::is_kind(bakeoff.header.kind) {
            let other =
                args.compare.as_deref().map(|text| experiment::find(&archive, text, bakeoff.header.kind));
            let page = experiment::page(&bakeoff, other.transpose()?.as_ref(), matches!(form, Form::Html));
            return write(args, &page, id, global, out);
        }
        refuse_compare(args, id)?;
        let comparisons = analysis::compare(&bakeoff);
        match form {
            Form::Html => report::html::page(&bakeoff, &comparisons),
            Form::Markdown => report::markdown::page(&bakeoff, &comparisons),
        }
    } else {
        refuse_compare(args, id)?;
        let run = archive.run(id)?;
        match form {
            Form::Html => report::html::load(&run),
            Form::Markdown => report::markdown::load(&run),
        }
    };
    write(args, &page, id, global, out)
}

fn refuse_compare(args: &Args, id: RunId) -> anyhow::Result<()> {
    if args.compare.is_none() {
        return Ok(());
    }
    Err(Exit::Usage.with(format!("--compare: {id} is no scale or dder run")))
}

fn write(args: &Args, page: &str, id: RunId, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &args.output {
        None => out.write_all(page.as_bytes())?,
        Some(path) => {
            whole_file::write(path, page.as_bytes())
                .with_context(|| format!("writing {}", path.display()))?;
            if global.json {
                print_json(
                    out,
                    &json!({"schema": "bakeoff.report/1", "run": id.to_string(), "wrote": path}),
                )?;
            } else {
                Screen::new().line(&format!("wrote {}", path.display()));
            }
        }
    }
    Ok(Exit::Good)
}

fn form_of(path: &Path) -> anyhow::Result<Form> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "htm") => Ok(Form::Html),
        Some("md" | "markdown") => Ok(Form::Markdown),
        _ => Err(Exit::Usage.with(format!("{}: a page's name ends in .html or .md", path.display()))),
    }
}
