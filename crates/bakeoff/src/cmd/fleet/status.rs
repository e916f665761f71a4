//! `bakeoff fleet status`: the agents that answer, and those that should.

use std::io::Write;
use std::time::Duration;

use ::fleet::launch::account::Accounts;
use ::fleet::{Left, Seen, survey};
use record::printable::printable;
use record::quantity;
use serde_json::{Value, json};

use super::options::{ServerOptions, state};
use crate::cmd::agent::of_fleet;
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::signals;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bakeoff fleet status
  bakeoff fleet status --server tls://lab.example:4222 --nkey lead.nk
Exit code 1: no agent answers, or one does not that `fleet up` has started.")]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerOptions,

    /// Time for answers
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::duration)]
    time: Duration,
}

/// An agent of `fleet up` that does not answer.
struct Silent {
    agent: String,
    fleet: String,
    host: String,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let server = args.server.server()?;
    signals::stop_on_interrupt()?;
    let seen = survey(&server, args.time, &signals::STOP).map_err(of_fleet)?;
    let mut silent = Vec::new();
    let accounts = Accounts::of(&state()?).all().map_err(of_fleet)?;
    for account in accounts.iter().filter(|account| account.server == server.shown()) {
        for of_host in &account.hosts {
            let absent = of_host.agents.iter().filter(|agent| seen.iter().all(|seen| seen.agent != **agent));
            silent.extend(absent.map(|agent| Silent {
                agent: agent.clone(),
                fleet: account.name.clone(),
                host: of_host.host.clone(),
            }));
        }
    }
    if global.json {
        let silent: Vec<_> =
            silent.iter().map(|s| json!({"agent": s.agent, "fleet": s.fleet, "on": s.host})).collect();
        let agents: Vec<_> = seen.iter().map(document).collect();
        let document = json!({
            "schema": "bakeoff.fleet-status/1", "server": server.shown(), "agents": agents, "silent": silent,
        });
        print_json(out, &document)?;
    } else {
        print(&seen, &silent, &server.shown(), out)?;
    }
    Ok(if seen.is_empty() || !silent.is_empty() { Exit::Bad } else { Exit::Good })
}

fn document(seen: &Seen) -> Value {
    let left = |left: &Left| json!({"agent": left.owner, "run": left.run, "bytes": left.bytes, "ended": left.has_end});
    json!({
        "id": seen.agent,
        "host": seen.host,
        "version": seen.version,
        "fits": seen.is_same_version,
        "cpus": seen.cpus,
        "labels": seen.labels,
        "weight": seen.weight,
        "role": role(seen),
        "run": seen.busy,
        "clock": seen.clock.map(|(offset_ns, bound_ns)| json!({"offset_ns": offset_ns, "bound_ns": bound_ns})),
        "left": seen.left.as_ref().ok().map(|all| all.iter().map(left).collect::<Vec<_>>()),
        "left_missing": seen.left.as_ref().err(),
        "more_left": seen.more_left,
    })
}

fn role(seen: &Seen) -> &'static str {
    match (seen.observes, seen.probes) {
        (true, _) => "observe",
        (false, true) => "probe",
        (false, false) => "load",
    }
}

fn print(seen: &[Seen], silent: &[Silent], server: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let width =
        |name: &str, of: &dyn Fn(&Seen) -> usize| seen.iter().map(of).max().unwrap_or(0).max(name.len());
    let agents = width("agent", &|seen| seen.agent.len());
    let hosts = width("host", &|seen| seen.host.len());
    if !seen.is_empty() {
        writeln!(out, "{:agents$}  {:hosts$}  CPUs  clock offset        run", "agent", "host")?;
    }
    for seen in seen {
        let clock = seen.clock.map_or_else(
            || "unknown".to_owned(),
            |(ns, bound_ns)| format!("{} +- {}", signed(ns), span(bound_ns)),
        );
        let run = seen.busy.as_deref().unwrap_or("-");
        writeln!(out, "{:agents$}  {:hosts$}  {:4}  {clock:18}  {run}", seen.agent, seen.host, seen.cpus)?;
        let labels = seen.labels.iter().filter(|(name, value)| *name != "host" || **value != seen.host);
        let mut more: Vec<String> =
            labels.map(|(name, value)| format!("{}={}", printable(name), printable(value))).collect();
        more.extend((role(seen) != "load").then(|| format!("role {}", role(seen))));
        more.extend((seen.weight != 1).then(|| format!("weight {}", seen.weight)));
        if !more.is_empty() {
            writeln!(out, "  {}", more.join(", "))?;
        }
        if !seen.is_same_version {
            writeln!(out, "  has version {}, which does not fit this one", seen.version)?;
        }
        match &seen.left {
            Err(why) => writeln!(out, "  spools unknown: {why}")?,
            Ok(left) => left.iter().try_for_each(|left| writeln!(out, "  {}", of_left(left)))?,
        }
        if seen.more_left > 0 {
            writeln!(out, "  and {} more", seen.more_left)?;
        }
    }
    for Silent { agent, fleet, host } in silent {
        writeln!(out, "{agent} of fleet {fleet} on {host} does not answer")?;
    }
    let count = quantity::plural(seen.len() as u64, "agent");
    Ok(writeln!(out, "{count} at {server}")?)
}

fn of_left(left: &Left) -> String {
    let end = if left.has_end { "played to its end" } else { "without its end" };
    format!(
        "left by {}: run {}, {} bytes, {end}; `bakeoff fleet collect {}`",
        left.owner, left.run, left.bytes, left.run
    )
}

fn span(ns: u64) -> String {
    // Bounds in a network are tens of microseconds; offsets of clocks may be days.
    if ns < 10_000_000 { format!("{:.1} us", ns as f64 / 1e3) } else { quantity::span(ns as f64 / 1e9) }
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, span(ns.unsigned_abs()))
}
