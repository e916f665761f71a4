//! `bakeoff report`: the page of a bake-off or of a load.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archive::whole_file;
use record::run::{RunId, RunKind};
use report::Form;
use report::identity::Hidden;
use serde_json::json;

use crate::cmd::runs::{find_of, show};
use crate::cmd::{Global, experiment, print_json};
use crate::confine::Reader;
use crate::exit::Exit;
use crate::screen::Screen;

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

    /// Also the host's name, the kernel's and our own command line, and whole home paths: left out of pages otherwise
    #[arg(long)]
    identify: bool,

    /// Say also which of the fences around reading what others wrote this kernel lacks
    #[arg(short, long)]
    verbose: bool,

    /// Compare with a run of another command, other units, or other CPUs anyway, and say what differs
    #[arg(long, requires = "compare")]
    force: bool,
}

/// Kinds of runs that have a page; `latest` is the newest of these.
const HAVE_PAGES: [RunKind; 5] =
    [RunKind::Bakeoff, RunKind::Load, RunKind::Scale, RunKind::Dder, RunKind::Compare];

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json && args.output.is_none() {
        return show(&args.run, report::text::Detail::Brief, global, out);
    }
    let form = args.output.as_deref().map_or(Ok(Form::Markdown), form_of)?;
    global.confine(Reader::default().writes_file(args.output.as_deref()), "report", args.verbose)?;
    let archive = global.archive()?;
    let id = find_of(&archive, &args.run, &HAVE_PAGES)?;
    let mut hidden = Hidden::default();
    let page = if archive.is_bakeoff(id) {
        let mut bakeoff = archive.bakeoff(id)?;
        if !args.identify {
            hidden = Hidden::in_bakeoff(&mut bakeoff);
        }
        if experiment::is_kind(bakeoff.header.kind) {
            let other =
                args.compare.as_deref().map(|text| experiment::find(&archive, text, bakeoff.header.kind));
            let mut other = other.transpose()?;
            if let Some(other) = &other {
                // The archived run, with the facts that its page hides: the comparison needs them.
                let this = archive.bakeoff(id)?;
                let plan = runner::archived_plan(&this).map_err(crate::cmd::run::of_runner)?;
                experiment::comparable(&plan, &this.environment.facts, None, other, args.force)?;
            }
            if let Some(other) = other.as_mut().filter(|_| !args.identify) {
                hidden.also(Hidden::in_bakeoff(other));
            }
            let page = report::render(&experiment::page(&bakeoff, other.as_ref()), form);
            return write(args, &page, &hidden, id, global, out);
        }
        refuse_compare(args, id)?;
        let comparisons = analysis::compare(&bakeoff);
        report::render(&report::page::bakeoff(&bakeoff, &comparisons), form)
    } else {
        refuse_compare(args, id)?;
        let mut run = archive.run_for_drawing(id, report::PLACES_MAX)?;
        if !args.identify {
            hidden = Hidden::in_run(&mut run);
        }
        let page = if run.header.kind == RunKind::Compare {
            crate::cmd::compare::page(&run)?
        } else {
            report::page::load(&run)
        };
        report::render(&page, form)
    };
    write(args, &page, &hidden, id, global, out)
}

fn refuse_compare(args: &Args, id: RunId) -> anyhow::Result<()> {
    if args.compare.is_none() {
        return Ok(());
    }
    Err(Exit::Usage.with(format!("--compare: {id} is not a scale or dder run")))
}

fn write(
    args: &Args,
    page: &str,
    hidden: &Hidden,
    id: RunId,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let page = if args.identify { page.to_owned() } else { hidden.from_page(page) };
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

/// The form of the page for a file name.
pub(crate) fn form_of(path: &Path) -> anyhow::Result<Form> {
    let unknown = || Exit::Usage.with(format!("{}: a page's name ends in .html or .md", path.display()));
    Form::of_path(path).ok_or_else(unknown)
}
