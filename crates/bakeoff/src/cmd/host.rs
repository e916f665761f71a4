//! `bakeoff host`: this machine as a table, and machines side by side.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use archive::whole_file;
use record::environment::Environment;
use record::missing::Missing;
use report::text::Facts;
use serde_json::{Value, json};

use crate::cmd::report::form_of;
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::{self, Screen};
use crate::text_file;

/// Show the facts of a machine: processor, caches, NUMA, memory, kernel, mitigations; or compare several
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show one machine; by default this one
    #[command(
        after_help = "Examples:\n  bakeoff host show\n  bakeoff host show --json > here.json\n  bakeoff host show latest"
    )]
    Show {
        /// Archived run, or a file from `bakeoff host show --json`; by default this machine
        host: Option<String>,

        /// Write a page to this file instead; its name ends in .html or .md
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,

        /// With -o: include the host's name and the kernel's command line
        #[arg(long, requires = "output")]
        identify: bool,
    },
    /// Show the facts in which machines differ, side by side
    #[command(
        after_help = "Examples:\n  bakeoff host compare here db7.json\n  bakeoff host compare --all 8c1fe2 9d02aa"
    )]
    Compare {
        /// Machines: each an archived run, a file from `bakeoff host show --json`, or `here` for this machine
        #[arg(required = true, num_args = 2.., value_name = "HOST")]
        hosts: Vec<String>,

        /// Show equal facts too
        #[arg(long)]
        all: bool,

        /// Write a page to this file instead; its name ends in .html or .md
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,

        /// With -o: include the hosts' names and the kernels' command lines
        #[arg(long, requires = "output")]
        identify: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  bakeoff host
  ssh db7 bakeoff host show --json > db7.json; bakeoff host compare here db7.json
  bakeoff host compare 01ARZ 01BX5 -o hosts.html      the machines of two runs";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let here = ["here".to_owned()];
    let (names, output, identify): (&[String], _, _) = match &args.what {
        None => (&here, None, false),
        Some(What::Show { host, output, identify }) => {
            (host.as_ref().map_or(&here[..], std::slice::from_ref), output.as_deref(), *identify)
        }
        Some(What::Compare { hosts, output, identify, .. }) => (hosts, output.as_deref(), *identify),
    };
    let facts = match &args.what {
        Some(What::Compare { all: false, .. }) => Facts::Differing,
        _ => Facts::All,
    };
    let mut environments: Vec<Environment> =
        names.iter().map(|name| named(name, global)).collect::<anyhow::Result<_>>()?;
    if output.is_some() && !identify {
        environments.iter_mut().for_each(report::identity::hide_in_environment);
    }
    let hosts: Vec<(String, &Environment)> =
        names.iter().zip(&environments).map(|(name, e)| (title(name, e), e)).collect();
    if let Some(path) = output {
        return page(path, &hosts, global, out);
    }
    if global.json {
        let document = match &hosts[..] {
            [(_, only)] => report::json::host(only),
            _ => report::json::hosts(&hosts),
        };
        print_json(out, &document)?;
    } else {
        report::text::hosts(out, &hosts, facts, screen::style())?;
    }
    Ok(Exit::Good)
}

fn page(
    path: &Path,
    hosts: &[(String, &Environment)],
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let text = report::render(&report::page::hosts(hosts), form_of(path)?);
    whole_file::write(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    if global.json {
        print_json(out, &json!({"schema": "bakeoff.report/1", "wrote": path}))?;
    } else {
        Screen::new().line(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Good)
}

/// Reads this machine, the machine of a file, or that of a run.
fn named(name: &str, global: &Global) -> anyhow::Result<Environment> {
    if name == "here" {
        return Ok(probes::environment::read(Path::new("/")));
    }
    if Path::new(name).is_file() {
        let text = text_file::read(name.as_ref(), text_file::DOCUMENT_BYTES_MAX);
        let text = text.with_context(|| format!("reading {name}"))?;
        return of_document(&text).map_err(|why| Exit::Usage.with(format!("{name}: {why}")));
    }
    // The name of a run has none of these characters.
    if name.contains(['/', '.']) {
        return Err(Exit::Usage.with(format!("there is no file {name}")));
    }
    let archive = global.archive().with_context(|| format!("{name} is not a file; looking for a run"))?;
    let id = crate::cmd::runs::find(&archive, name)?;
    Ok(archive.environment(id)?)
}

fn of_document(text: &str) -> Result<Environment, String> {
    let document: Value = serde_json::from_str(text).map_err(|e| format!("not JSON ({e})"))?;
    if document["schema"] != "bakeoff.host/1" {
        return Err("not a bakeoff.host/1 document: write it with `bakeoff host show --json`".into());
    }
    let entries = |name: &str| document[name].as_object().into_iter().flatten();
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let known = entries("facts").map(|(name, value)| (name.clone(), Ok(text_of(value))));
    let missing =
        entries("facts_missing").map(|(name, why)| (name.clone(), Err(Missing::because(text_of(why)))));
    Ok(Environment { facts: known.chain(missing).collect(), calibration: Vec::new() })
}

fn title(name: &str, environment: &Environment) -> String {
    let host = environment.fact("host.name").unwrap_or("unknown");
    if name == "here" { format!("{host} (here)") } else { format!("{host} ({name})") }
}
