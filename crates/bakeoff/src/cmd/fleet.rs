//! `bakeoff fleet`: a fleet on this machine, to try one.

use std::io::Write;

use fleet::Dev;
use record::clock::{Clock as _, Monotonic};
use serde_json::json;

use crate::cmd::agent::of_fleet;
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::signals;

/// Start a NATS server and agents on this machine, to try a fleet
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a NATS server and agents on this machine until Ctrl-C: free loopback port, scratch folder
    #[command(after_help = EXAMPLES)]
    Dev {
        /// Number of agents
        #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
        agents: u32,
    },
}

const EXAMPLES: &str = "\
Examples:
  bakeoff fleet dev -n 4                            in one terminal; it prints the line for the other
  bakeoff load null: --rate 10000 --threads 8 --time 10s --fleet 4 --no-archive";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let Action::Dev { agents } = args.action;
    signals::stop_on_interrupt()?;
    let dev = Dev::start(&std::env::current_exe()?, agents).map_err(of_fleet)?;
    let (processes, server) = dev.processes();
    if global.json {
        let agents: Vec<_> =
            (1..).zip(&processes).map(|(n, pid)| json!({"id": format!("a{n}"), "pid": pid})).collect();
        let document = json!({"schema": "bakeoff.fleet-dev/1", "url": dev.url(), "server_pid": server, "agents": agents});
        print_json(out, &document)?;
    } else {
        writeln!(out, "{agents} agents wait. In another terminal:")?;
        writeln!(out, "  export NATS_URL={}", dev.url())?;
        writeln!(out, "  bakeoff load null: --rate 10000 --threads {} --fleet {agents}", agents.max(4))?;
        writeln!(out, "Ctrl-C ends them.")?;
    }
    out.flush()?;
    signals::wait_until(Monotonic.now_ns().saturating_add(u64::MAX / 4));
    Ok(Exit::Good)
}
