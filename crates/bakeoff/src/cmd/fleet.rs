//! `bakeoff fleet`: starts fleets, shows their agents, ends them, and collects runs without a conductor.

mod collect;
mod down;
mod options;
mod status;
mod up;

use std::io::{Read as _, Write};

use ::fleet::launch::host::Host;
use ::fleet::launch::order::HostOrder;
use ::fleet::{Dev, Helpers};
use record::clock::{Clock as _, Monotonic};
use serde_json::json;

use self::options::state;
use crate::cmd::agent::{host, of_fleet};
use crate::cmd::{Global, print_json};
use crate::exit::{EndsWith as _, Exit};
use crate::signals;

/// Start the agents of a fleet, show those that answer, end them, collect a run without a conductor
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start agents on other machines by ssh, or print what starts them with systemd, Kubernetes or Slurm
    Up(up::Args),
    /// List the agents that answer: machine, version, clock, work, and spools that no conductor collected
    Status(status::Args),
    /// End what `fleet up` started by ssh
    Down(down::Args),
    /// Store a run of which the conductor died, from the spools of its agents
    Collect(collect::Args),
    /// Run a NATS server and agents on this machine until Ctrl-C: free loopback port, scratch folder
    #[command(after_help = EXAMPLES)]
    Dev {
        /// Number of agents
        #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
        agents: u32,
    },
    /// Obey an order on standard input: the other end of `fleet up` and `fleet down`
    #[command(hide = true, after_help = "Examples:\n  bakeoff fleet on-host")]
    OnHost,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff fleet dev -n 4                            in one terminal; it prints the line for the other
  bakeoff load null: --rate 10000 --threads 8 --time 10s --fleet 4 --no-archive";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Up(args) => up::run(args, global, out),
        Action::Status(args) => status::run(args, global, out),
        Action::Down(args) => down::run(args, global, out),
        Action::Collect(args) => collect::run(args, global, out),
        Action::Dev { agents } => dev(*agents, global, out),
        Action::OnHost => on_host(out),
    }
}

/// Longest order.
const ORDER_BYTES_MAX: u64 = 4 << 20;

fn on_host(out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    std::io::stdin().take(ORDER_BYTES_MAX).read_to_end(&mut text)?;
    let order: HostOrder = serde_json::from_slice(&text).ends_with(Exit::Usage)?;
    let (state, program) = (state()?, std::env::current_exe()?);
    let host = Host { name: host(), state: &state, program: &program };
    let answer = host.obey(&order).map_err(of_fleet)?;
    print_json(out, &serde_json::to_value(answer)?)?;
    Ok(Exit::Good)
}

fn dev(agents: u32, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    let dev = Dev::start(&std::env::current_exe()?, agents, Helpers::default()).map_err(of_fleet)?;
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
