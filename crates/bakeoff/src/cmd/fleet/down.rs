//! `bakeoff fleet down`: ends what `fleet up` started.

use std::io::Write;

use ::fleet::FleetError;
use ::fleet::launch::account::{Account, Accounts};
use ::fleet::launch::order::{HostAnswer, HostOrder, State};
use ::fleet::launch::ssh;
use serde_json::json;

use super::options::state;
use crate::cmd::agent::of_fleet;
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bakeoff fleet down                                the only fleet that `fleet up` started
  bakeoff fleet down lab
Exit code 6: an agent still runs, or a host does not answer; the same command again ends the rest.")]
pub(crate) struct Args {
    /// Name of the fleet [default: the only one]
    name: Option<String>,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let accounts = Accounts::of(&state()?);
    let account = chosen(args.name.as_deref(), accounts.all().map_err(of_fleet)?)?;
    let name = account.name.clone();
    let (mut screen, mut lines) = (Screen::new(), Vec::new());
    let left = end(&accounts, account, &mut |line| {
        if global.json { lines.push(line) } else { screen.line(&line) }
    })?;
    if global.json {
        let document =
            json!({"schema": "bakeoff.fleet-down/1", "fleet": name, "hosts_left": left, "notes": lines});
        print_json(out, &document)?;
    }
    Ok(if left == 0 { Exit::Good } else { Exit::CannotHere })
}

fn chosen(name: Option<&str>, mut accounts: Vec<Account>) -> anyhow::Result<Account> {
    let names: Vec<String> = accounts.iter().map(|account| account.name.clone()).collect();
    let found = match name {
        Some(name) => names.iter().position(|known| known == name),
        None => (names.len() == 1).then_some(0),
    };
    found.map(|index| accounts.swap_remove(index)).ok_or_else(|| {
        Exit::Usage.with(match (name, names.as_slice()) {
            (_, []) => "no fleet runs that `fleet up --on ssh:` started".to_owned(),
            (None, names) => format!("which fleet: {}", names.join(", ")),
            (Some(name), names) => format!("no fleet {name}; there are: {}", names.join(", ")),
        })
    })
}

/// Ends the agents of a fleet; returns the number of hosts on which some may still run, which stay in the
/// account.
pub(super) fn end(
    accounts: &Accounts,
    mut account: Account,
    tell: &mut dyn FnMut(String),
) -> anyhow::Result<usize> {
    let orders: Vec<HostOrder> =
        account.hosts.iter().map(|of_host| HostOrder::End { key: of_host.key.clone() }).collect();
    let answers = give(&account, &orders);
    let mut answers = answers.into_iter();
    account.hosts.retain(|of_host| match answers.next() {
        Some(Ok(answer)) => {
            report(&of_host.host, &answer, tell);
            answer.agents.iter().any(|agent| agent.state == State::Remains)
        }
        Some(Err(error)) => {
            tell(error.to_string());
            true
        }
        None => true,
    });
    accounts.update(&account).map_err(of_fleet)?;
    Ok(account.hosts.len())
}

/// Gives each host its order, to all at once.
pub(super) fn give(account: &Account, orders: &[HostOrder]) -> Vec<Result<HostAnswer, FleetError>> {
    std::thread::scope(|scope| {
        let given = account.hosts.iter().zip(orders).map(|(of_host, order)| {
            let config = account.ssh_config.as_deref();
            scope.spawn(move || ssh::order(&of_host.host, config, &account.program, order))
        });
        let given: Vec<_> = given.collect();
        given.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

fn report(host: &str, answer: &HostAnswer, tell: &mut dyn FnMut(String)) {
    for agent in &answer.agents {
        tell(format!("{host}: agent {} (process {}) {}", agent.agent, agent.pid, agent.state.word()));
        for run in &agent.left {
            tell(format!(
                "{host}: agent {} has left run {run} in its spool: start an agent there, then `bakeoff fleet \
                 collect {run}`",
                agent.agent
            ));
        }
    }
}
