//! `bakeoff report`: the page of one run or of several bake-offs, and the check of a page.

mod made;
mod proofread;
mod view;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archive::{Archive, whole_file};
use record::run::{RunId, RunKind};
use report::Form;
use serde_json::json;

pub(crate) use self::made::{Made, form_of, made};
use self::view::Viewer;
use crate::cmd::runs::{find_of, show};
use crate::cmd::{Global, print_json};
use crate::confine::Reader;
use crate::exit::Exit;
use crate::screen::Screen;

/// Write the page of a run, or of several bake-offs: one offline file, HTML or Markdown
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = clap::ArgGroup::new("what").required(true).multiple(true).args(["run", "compare", "verify"])
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Args {
    /// Short name, id, its unique prefix, or `latest`
    run: Option<String>,

    /// File to write: a name that ends in .html or .md; without it, Markdown on standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Put these bake-offs on one page, or two scale or dder runs
    #[arg(long, value_name = "RUN", num_args = 1..)]
    compare: Vec<String>,

    /// Show the page in a browser ($BROWSER, else xdg-open); without -o it is NAME.html here
    #[arg(long)]
    open: bool,

    /// Write nothing: compare every number of this page with the archive
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "compare", "output", "open", "identify"])]
    verify: Option<PathBuf>,

    /// Include the host's name, the command lines of the kernel and of bakeoff, and full home paths
    #[arg(long)]
    identify: bool,

    /// Also report which sandbox features this kernel lacks
    #[arg(short, long)]
    verbose: bool,

    /// Compare even with a run of another command, other units or other CPUs, and report the differences
    #[arg(long, requires = "compare")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff report latest -o page.html
  bakeoff report latest --open
  bakeoff report latest                             Markdown, on standard output
  bakeoff report --compare 8c1fe2 9d02aa -o both.html    several bake-offs on one page
  bakeoff report --verify page.html                 each number of a page against the archive";

/// Kinds of runs that have a page; `latest` is the newest of these.
const HAVE_PAGES: [RunKind; 5] =
    [RunKind::Bakeoff, RunKind::Load, RunKind::Scale, RunKind::Dder, RunKind::Compare];

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if let Some(page) = &args.verify {
        return proofread::run(page, args.verbose, global, out);
    }
    let names: Vec<&String> = args.run.iter().chain(&args.compare).collect();
    if global.json && args.output.is_none() && !args.open {
        if names.len() > 1 {
            let what =
                "--json of several runs needs -o FILE: `bakeoff compare --json` prints their comparison";
            return Err(Exit::Usage.with(what));
        }
        if args.identify {
            return Err(Exit::Usage.with("--identify has no effect on --json: it is for pages"));
        }
    }
    if let [name] = names[..]
        && global.json
        && args.output.is_none()
        && !args.open
    {
        return show(name, report::text::Detail::Brief, global, out);
    }
    // Only the archive knows the name of a page that the user did not name.
    let own_name = || {
        Ok::<_, anyhow::Error>(PathBuf::from(format!("{}.html", global.short_name(found(names[0], global)?))))
    };
    let path = match &args.output {
        Some(path) => Some(path.clone()),
        None if args.open => Some(own_name()?),
        None => None,
    };
    let form = path.as_deref().map_or(Ok(Form::Markdown), form_of)?;
    // A confined process starts no program: the viewer waits for the page.
    let viewer = path.as_deref().filter(|_| args.open).map(Viewer::waiting).transpose()?;
    global.confine(Reader::default().writes_file(path.as_deref()), "report", args.verbose)?;
    let archive = global.archive()?;
    let ids = ids(&archive, &names)?;
    if args.force && archive.header(ids[0])?.kind == RunKind::Bakeoff {
        let what = "--force has no effect on bake-offs: their page compares none with another";
        return Err(Exit::Usage.with(what));
    }
    let page = made(&archive, &ids, Made { identify: args.identify, force: args.force, form })?;
    write(path.as_deref(), &page, &ids, global, out)?;
    if let (Some(viewer), Some(path)) = (viewer, &path) {
        viewer.show(path);
    }
    Ok(Exit::Good)
}

fn found(name: &str, global: &Global) -> anyhow::Result<RunId> {
    find_of(&global.archive()?, name, &HAVE_PAGES)
}

/// The runs of these names; `latest` among the others is of the first one's kind.
fn ids(archive: &Archive, names: &[&String]) -> anyhow::Result<Vec<RunId>> {
    let Some((first, others)) = names.split_first() else { return Ok(Vec::new()) };
    let first = find_of(archive, first, &HAVE_PAGES)?;
    let kind = if archive.is_bakeoff(first) { archive.header(first)?.kind } else { RunKind::Load };
    let mut ids = vec![first];
    for name in others {
        ids.push(find_of(archive, name, &[kind])?);
    }
    Ok(ids)
}

fn write(
    path: Option<&Path>,
    page: &str,
    ids: &[RunId],
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(out.write_all(page.as_bytes())?) };
    whole_file::write(path, page.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    if global.json {
        let runs: Vec<String> = ids.iter().map(ToString::to_string).collect();
        return print_json(
            out,
            &json!({"schema": "bakeoff.report/1", "run": runs[0], "runs": runs, "wrote": path}),
        );
    }
    Screen::new().line(&format!("wrote {}", path.display()));
    Ok(())
}
