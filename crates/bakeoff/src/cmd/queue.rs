//! `bakeoff queue`: the queue of a `bakeoff serve`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use record::clock::{Clock as _, Monotonic};
use record::printable::printable;
use serde_json::Value;
use serve::{Client, Server};

use crate::cmd::serve::of_server;
use crate::cmd::{Global, print_json};
use crate::exit::{EndsWith as _, Exit};
use crate::screen::Screen;
use crate::{signals, text_file};

/// Submit plans to a `bakeoff serve --queue`, and follow them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    /// The server: unix:PATH, http://127.0.0.1:PORT or https://HOST:PORT; default: `$BAKEOFF_SERVER`, else
    /// the archive's server
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,

    /// File with a token; default: the token in `$BAKEOFF_TOKEN`
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Certificate authority (CA) of the server, in PEM; default: the system's
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Add a plan to the queue
    #[command(after_help = "Example:\n  bakeoff queue submit plan.toml --priority 5 --wait")]
    Submit {
        /// The plan
        plan: PathBuf,
        /// Priority from -100 to 100; higher runs earlier
        #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-100..=100))]
        priority: i32,
        /// Earliest start, such as 2026-11-25T22:00:00Z; without a zone, by this machine's clock
        #[arg(long, value_name = "TIME", value_parser = crate::moment::in_utc)]
        not_before: Option<String>,
        /// Name besides your own, such as that of a CI job
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Wait for its end, as `queue wait` does
        #[arg(long)]
        wait: bool,
    },
    /// List the entries: running, waiting in their order, paused, ended
    #[command(after_help = "Example:\n  bakeoff queue list")]
    List,
    /// Show one entry
    #[command(after_help = "Example:\n  bakeoff queue show 8c1fe2")]
    Show {
        /// Id of the entry or of its run, or a unique prefix or suffix of one
        id: String,
    },
    /// Wait until an entry has ended or was stopped; the exit code is that of its bake-off
    #[command(after_help = "Example:\n  bakeoff queue wait 8c1fe2")]
    Wait {
        /// Id of the entry or of its run, or a unique prefix or suffix of one
        id: String,
    },
    /// Stop an entry for good
    #[command(after_help = "Example:\n  bakeoff queue cancel 8c1fe2")]
    Cancel {
        /// Id of the entry or of its run, or a unique prefix or suffix of one
        id: String,
    },
    /// Pause an entry after the trial that is being measured, in slices after the block
    #[command(after_help = "Example:\n  bakeoff queue pause 8c1fe2")]
    Pause {
        /// Id of the entry or of its run, or a unique prefix or suffix of one
        id: String,
    },
    /// Put a paused entry back in the queue
    #[command(after_help = "Example:\n  bakeoff queue resume 8c1fe2")]
    Resume {
        /// Id of the entry or of its run, or a unique prefix or suffix of one
        id: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  bakeoff queue submit plan.toml --priority 5 --wait
  bakeoff queue list
  bakeoff queue --server https://lab.example:8420 --ca lab.pem --token-file token submit plan.toml";

/// Interval between two questions of `wait`.
const ASK_EVERY_NS: u64 = 500_000_000;
/// Time for which `wait` bears a server that does not answer: it may be starting again.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let client = client(args, global)?;
    match &args.what {
        What::Submit { plan, priority, not_before, by, wait } => {
            let text = text_file::read(plan, text_file::PLAN_BYTES_MAX);
            let text = text.with_context(|| format!("reading {}", plan.display())).ends_with(Exit::Usage)?;
            let entry =
                client.submit(&text, *priority, not_before.as_deref(), by.as_deref()).map_err(of_server)?;
            if *wait {
                Screen::new().line(&format!("submitted {}", word(&entry, "id")));
                return self::wait(&client, &word(&entry, "id"), global, out);
            }
            show(&entry, global, out)
        }
        What::List => {
            let document = client.entries().map_err(of_server)?;
            if global.json {
                print_json(out, &document)?;
            } else {
                list(&document, out)?;
            }
            Ok(Exit::Good)
        }
        What::Show { id } => show(&client.entry(id).map_err(of_server)?, global, out),
        What::Wait { id } => wait(&client, id, global, out),
        What::Cancel { id } => show(&client.act(id, "cancel").map_err(of_server)?, global, out),
        What::Pause { id } => show(&client.act(id, "pause").map_err(of_server)?, global, out),
        What::Resume { id } => show(&client.act(id, "resume").map_err(of_server)?, global, out),
    }
}

fn client(args: &Args, global: &Global) -> anyhow::Result<Client> {
    let named =
        args.server.clone().or_else(|| std::env::var("BAKEOFF_SERVER").ok().filter(|s| !s.is_empty()));
    if args.ca.is_some() && !named.as_ref().is_some_and(|server| server.starts_with("https:")) {
        return Err(Exit::Usage.with("--ca has no effect without TLS: it is for --server https://..."));
    }
    let server = match named {
        Some(text) => text.parse::<Server>().map_err(of_server)?,
        None => Server::of_archive(&global.archive_folder()?),
    };
    let token = match &args.token_file {
        Some(path) => {
            let text = text_file::read(path, text_file::PLAN_BYTES_MAX);
            let text = text.with_context(|| format!("reading {}", path.display())).ends_with(Exit::Usage)?;
            // The last word of a line of the server's own file, too.
            Some(text.split_whitespace().last().unwrap_or_default().to_owned())
        }
        None => std::env::var("BAKEOFF_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    Client::new(server, token, args.ca.clone()).map_err(of_server)
}

fn word(entry: &Value, name: &str) -> String {
    let text = entry[name].as_str().map_or("-".to_owned(), str::to_owned);
    printable(&text).into_owned()
}

/// State of an entry with its verdict: one that is done may be INVALID.
fn standing(entry: &Value) -> String {
    word(entry, if entry["outcome"].is_string() { "outcome" } else { "state" })
}

/// End of an id, as lists show it.
fn short(id: &str) -> String {
    id.get(id.len().saturating_sub(6)..).unwrap_or(id).to_lowercase()
}

fn list(document: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(entries) = document["entries"].as_array() else {
        writeln!(out, "{}", word(&document["missing"], "entries"))?;
        return Ok(());
    };
    if entries.is_empty() {
        writeln!(out, "the queue is empty")?;
        return Ok(());
    }
    let width = entries.iter().map(|entry| standing(entry).len()).max().unwrap_or(0).max(9);
    writeln!(out, " entry   {:width$}   prio  by          run     title", "state")?;
    for entry in entries {
        writeln!(
            out,
            " {:6}  {:width$}  {:>5}  {:10}  {:6}  {}",
            short(&word(entry, "id")),
            standing(entry),
            entry["priority"].to_string(),
            word(entry, "by"),
            short(&word(entry, "run")),
            word(entry, "title"),
        )?;
    }
    Ok(())
}

fn show(entry: &Value, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if global.json {
        print_json(out, entry)?;
        return Ok(Exit::Good);
    }
    for (name, label) in [
        ("title", "title"),
        ("by", "by"),
        ("not_before", "not before"),
        ("expected_start", "expected"),
        ("run", "run"),
        ("wish", "asked to"),
        ("reason", "reason"),
    ] {
        if entry[name].is_string() {
            writeln!(out, " {label:11} {}", word(entry, name))?;
        }
    }
    writeln!(out, "{} is {}", word(entry, "id"), standing(entry))?;
    Ok(Exit::Good)
}

fn wait(client: &Client, id: &str, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let mut id = id.to_owned();
    let mut answered_ns = Monotonic.now_ns();
    let mut is_slowed = false;
    loop {
        let mut pause_ns = ASK_EVERY_NS;
        match client.entry(&id) {
            Ok(entry) => {
                answered_ns = Monotonic.now_ns();
                if let Some(exit) = end_of(&entry) {
                    show(&entry, global, out)?;
                    if entry["state"] == "paused" {
                        let id = word(&entry, "id");
                        Screen::new().line(&format!("continue with: bakeoff queue resume {id}"));
                    }
                    return Ok(exit);
                }
                // A short name may be that of a later entry, too.
                id = word(&entry, "id");
            }
            Err(error) if error.is_usage() => return Err(of_server(error)),
            // It is there, and the entry goes on.
            Err(error) if let Some(later) = error.later() => {
                answered_ns = Monotonic.now_ns();
                pause_ns = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX).max(ASK_EVERY_NS);
                if !std::mem::replace(&mut is_slowed, true) {
                    Screen::new().line(&format!("still waiting; the server answered: {error}"));
                }
            }
            Err(error) => {
                let silent = Duration::from_nanos(Monotonic.now_ns() - answered_ns);
                if silent > PATIENCE {
                    return Err(of_server(error));
                }
            }
        }
        if !signals::wait_until(Monotonic.now_ns().saturating_add(pause_ns)) {
            Screen::new().line(&format!("the entry continues; wait again with: bakeoff queue wait {id}"));
            return Ok(Exit::Interrupted);
        }
    }
}

/// Exit code for an entry that has ended: that of its process, or of the state of its bake-off. A pause that
/// no user asked for has a reason, and lasts until a user resumes the entry.
fn end_of(entry: &Value) -> Option<Exit> {
    match entry["state"].as_str()? {
        "done" => Some(match (entry["exit_code"].as_i64(), entry["run_state"].as_str()) {
            (Some(0), _) => Exit::Good,
            (Some(1), _) => Exit::Bad,
            (Some(3), _) | (None, Some("invalid")) => Exit::Invalid,
            (Some(4), _) => Exit::Inconclusive,
            (Some(5), _) | (None, Some("failed")) => Exit::ServerFailed,
            // The verdict could not be read or written.
            _ => Exit::CannotHere,
        }),
        "failed" => Some(match entry["exit_code"].as_i64() {
            Some(2) => Exit::Usage,
            Some(5) => Exit::ServerFailed,
            _ => Exit::CannotHere,
        }),
        "cancelled" => Some(Exit::Interrupted),
        "paused" if entry["reason"].is_string() => Some(Exit::Interrupted),
        _ => None,
    }
}
