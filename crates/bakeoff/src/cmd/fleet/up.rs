//! `bakeoff fleet up`: agents on other machines.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use ::fleet::launch::account::{Account, Accounts, OfHost, SCHEMA, fresh_name, shared_out};
use ::fleet::launch::kubernetes::{Pods, manifests};
use ::fleet::launch::lines::{Lines, ServerWord, srun, unit};
use ::fleet::launch::order::{HostAnswer, HostOrder, StartAgents, VERSION};
use ::fleet::launch::ssh;
use ::fleet::{Server, seed_in};
use anyhow::Context as _;
use serde_json::json;

use super::down;
use super::options::{no_server, state};
use crate::cmd::agent::{address, address_file, of_fleet};
use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number of agents [default: one for each host of ssh, else 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    agents: Option<u32>,

    /// ssh:HOST,HOST starts the agents; systemd, kubernetes and srun print a unit, manifests or a command
    /// line that does
    #[arg(long, value_name = "WHERE", value_parser = place)]
    on: Place,

    /// NATS server, as the agents reach it: `tls://HOST:PORT`, or `{file:PATH}` [default: `$NATS_URL`; it or
    /// the file may contain a password]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// File with the seed of the agents' nkey; {agent} in its name stands for an agent's name
    #[arg(long, value_name = "FILE")]
    nkey: Option<PathBuf>,

    /// Certificates that the agents trust besides the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Name of the fleet; its agents are NAME-1, NAME-2, ... [default: a new one]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The program on the agents' machines [default: `bakeoff` by ssh and in an image, else this one]
    #[arg(long, value_name = "PATH")]
    program: Option<String>,

    /// With ssh: configuration file of ssh, in place of the user's
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,

    /// With kubernetes: image with the program
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// With kubernetes: CPUs that each agent requests [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Option<u32>,

    /// With kubernetes: memory of each agent in MiB [default: 512]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    memory: Option<u32>,

    /// With kubernetes: also an observer on each node, which records all instruments, an hour at a time; it
    /// has the rights that this takes
    #[arg(long)]
    observers: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff fleet up -n 4 --on ssh:gen1,gen2 --server tls://lab.example:4222 --nkey agents.nk
  bakeoff fleet up -n 4 --on ssh:gen1,gen2 --server tls://lab.example:4222 --nkey 'keys/{agent}.nk' --name lab
  bakeoff fleet up -n 8 --on kubernetes --image lab.example/bakeoff --server tls://lab.example:4222 --nkey agents.nk | kubectl apply -f -
  bakeoff fleet up -n 4 --on systemd --server tls://lab.example:4222 --nkey /etc/bakeoff/agents.nk
  bakeoff fleet up -n 64 --on srun --server tls://lab.example:4222 --nkey agents.nk";

/// Place of a fleet's agents.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Ssh(Vec<String>),
    Systemd,
    Kubernetes,
    Srun,
}

fn place(text: &str) -> Result<Place, String> {
    if let Some(hosts) = text.strip_prefix("ssh:") {
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        return match hosts.iter().find(|host| !ssh::is_host(host)) {
            Some(host) => Err(format!("`{host}` is not a host for ssh: expected ssh:HOST,HOST")),
            None => Ok(Place::Ssh(hosts)),
        };
    }
    match text {
        "systemd" => Ok(Place::Systemd),
        "kubernetes" => Ok(Place::Kubernetes),
        "srun" => Ok(Place::Srun),
        _ => Err("expected ssh:HOST,HOST, systemd, kubernetes or srun".to_owned()),
    }
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    refuse_without_effect(args)?;
    let name = args.name.clone().map_or_else(|| fresh_name().map_err(of_fleet), Ok)?;
    let url = address(args.server.as_deref())?.ok_or_else(no_server)?;
    // What an agent would refuse is refused before anything is started.
    let nkey = args.nkey.as_deref().map(|path| key_of(path, &format!("{name}-1")));
    let is_read_here = matches!(args.on, Place::Ssh(_) | Place::Kubernetes);
    if is_read_here || nkey.as_ref().is_none_or(|path| path.exists()) {
        Server::new(&url, nkey.as_deref(), args.ca.as_deref()).map_err(of_fleet)?;
    }
    match &args.on {
        Place::Ssh(hosts) => by_ssh(args, hosts, &name, &url, global, out),
        Place::Kubernetes => in_kubernetes(args, &name, &url, global, out),
        Place::Systemd | Place::Srun => as_lines(args, &name, &url, global, out),
    }
}

/// Refuses options that have no effect on the chosen place.
fn refuse_without_effect(args: &Args) -> anyhow::Result<()> {
    let is_ssh = matches!(args.on, Place::Ssh(_));
    let is_kubernetes = args.on == Place::Kubernetes;
    let given = [
        ("--ssh-config", "ssh", args.ssh_config.is_some(), is_ssh),
        ("--image", "kubernetes", args.image.is_some(), is_kubernetes),
        ("--cpus", "kubernetes", args.cpus.is_some(), is_kubernetes),
        ("--memory", "kubernetes", args.memory.is_some(), is_kubernetes),
        ("--observers", "kubernetes", args.observers, is_kubernetes),
    ];
    if let Some((option, place, ..)) =
        given.iter().find(|(.., is_given, has_effect)| *is_given && !has_effect)
    {
        return Err(Exit::Usage.with(format!("{option} is only for --on {place}")));
    }
    let has_many_keys = args.nkey.as_deref().is_some_and(|path| path.to_string_lossy().contains("{agent}"));
    if has_many_keys && matches!(args.on, Place::Kubernetes | Place::Srun) {
        let text =
            "these agents share one key: they get their names when they start; give a file without {agent}";
        return Err(Exit::Usage.with(text));
    }
    Ok(())
}

/// File of an agent's key.
fn key_of(path: &Path, agent: &str) -> PathBuf {
    path.to_str().map_or_else(|| path.to_owned(), |text| text.replace("{agent}", agent).into())
}

fn seed(path: &Path) -> anyhow::Result<String> {
    let seed = seed_in(path).map_err(of_fleet)?;
    seed.ok_or_else(|| Exit::Usage.with(format!("{}: no seed (a line that begins with S)", path.display())))
}

fn certificates(args: &Args) -> anyhow::Result<Option<String>> {
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    args.ca.as_ref().map(read).transpose()
}

fn by_ssh(
    args: &Args,
    hosts: &[String],
    name: &str,
    url: &str,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let agents = args.agents.map_or(hosts.len(), |agents| agents as usize);
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let account = Account {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        server: Server::new(
            url,
            args.nkey.as_deref().map(|p| key_of(p, &format!("{name}-1"))).as_deref(),
            None,
        )
        .map_err(of_fleet)?
        .shown(),
        program: args.program.clone().unwrap_or_else(|| "bakeoff".to_owned()),
        ssh_config: args.ssh_config.as_ref().map(absolute).transpose()?,
        hosts: shared_out(name, &fresh_name().map_err(of_fleet)?, agents, hosts),
    };
    let ca = certificates(args)?;
    let mut orders = Vec::new();
    for of_host in &account.hosts {
        let keys = |path: &PathBuf| of_host.agents.iter().map(|agent| seed(&key_of(path, agent))).collect();
        orders.push(HostOrder::Start(StartAgents {
            version: VERSION.to_owned(),
            key: of_host.key.clone(),
            agents: of_host.agents.clone(),
            url: url.to_owned(),
            nkeys: args.nkey.as_ref().map_or_else(|| Ok(Vec::new()), keys)?,
            ca: ca.clone(),
        }));
    }
    let accounts = Accounts::of(&state()?);
    accounts.create(&account).map_err(of_fleet)?;
    let answers = down::give(&account, &orders);
    let failed: Vec<String> =
        answers.iter().filter_map(|a| a.as_ref().err()).map(ToString::to_string).collect();
    if !failed.is_empty() {
        let mut screen = Screen::new();
        let left = down::end(&accounts, account, &mut |line| screen.line(&line))?;
        let text = failed.join("; ");
        return Err(Exit::CannotHere.with(match left {
            0 => format!("{text}; no agent was left"),
            _ => format!("{text}; on {left} hosts agents may run: `bakeoff fleet down {name}` ends them"),
        }));
    }
    let answers: Vec<HostAnswer> = answers.into_iter().filter_map(Result::ok).collect();
    print(name, &account.hosts, &answers, global, out)?;
    Ok(Exit::Good)
}

fn print(
    name: &str,
    hosts: &[OfHost],
    answers: &[HostAnswer],
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let both = || hosts.iter().zip(answers);
    if global.json {
        let hosts: Vec<_> = both()
            .map(|(of, answer)| json!({"host": of.host, "name": answer.host, "agents": answer.agents}))
            .collect();
        let document = json!({"schema": "bakeoff.fleet-up/1", "fleet": name, "hosts": hosts});
        return print_json(out, &document);
    }
    let count: usize = answers.iter().map(|answer| answer.agents.len()).sum();
    writeln!(out, "fleet {name}: {count} agents wait for loads")?;
    for (of_host, answer) in both() {
        let agents: Vec<&str> = answer.agents.iter().map(|agent| agent.agent.as_str()).collect();
        writeln!(out, "  {} ({}): {}", of_host.host, answer.host, agents.join(", "))?;
    }
    Ok(writeln!(out, "`bakeoff fleet down {name}` ends them.")?)
}

fn in_kubernetes(
    args: &Args,
    name: &str,
    url: &str,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    refuse_loopback(args, url)?;
    let image = args.image.clone().ok_or_else(|| Exit::Usage.with("--on kubernetes needs --image IMAGE"))?;
    if global.json {
        return Err(Exit::Usage.with("the manifests are YAML: --json has no effect on them"));
    }
    if std::io::stdout().is_terminal() {
        return Err(Exit::Usage.with(
            "the manifests contain the key, which a terminal would show: pipe them to `kubectl apply -f -`",
        ));
    }
    let pods = Pods {
        name: name.to_owned(),
        agents: args.agents.unwrap_or(1),
        image,
        program: args.program.clone().unwrap_or_else(|| "bakeoff".to_owned()),
        url: url.to_owned(),
        nkey: args.nkey.as_deref().map(seed).transpose()?,
        ca: certificates(args)?,
        cpus: args.cpus.unwrap_or(1),
        memory_mib: args.memory.unwrap_or(512),
        observers: args.observers,
    };
    write!(out, "{}", manifests(&pods).map_err(of_fleet)?)?;
    let also = if args.observers { format!(" daemonset/{name}-observer") } else { String::new() };
    Screen::new().line(&format!(
        "start: `kubectl apply -f -` with these manifests as input; end: `kubectl delete job/{name} secret/{name}{also}`"
    ));
    Ok(Exit::Good)
}

fn as_lines(
    args: &Args,
    name: &str,
    url: &str,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    if args.on == Place::Srun {
        refuse_loopback(args, url)?;
    }
    if global.json {
        return Err(Exit::Usage.with("--json has no effect on a unit or a line for srun"));
    }
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if !is_name {
        return Err(Exit::Usage.with(format!("invalid fleet name {name}: use letters, digits, - and _")));
    }
    let absolute = |path: &Path| {
        let path = std::path::absolute(path)?.to_str().map(str::to_owned);
        path.context("the path is not UTF-8")
    };
    let given = args.server.clone().or_else(|| std::env::var("NATS_URL").ok()).unwrap_or_default();
    let server = match address_file(&given) {
        Some(path) => ServerWord::File(absolute(path)?),
        None if url.contains('@') => {
            return Err(Exit::Usage.with(
                "the text would show the password of $NATS_URL: write the address to a file and give --server {file:PATH}",
            ));
        }
        None => ServerWord::Address(url.to_owned()),
    };
    let program = match &args.program {
        Some(program) => program.clone(),
        None => absolute(&std::env::current_exe()?)?,
    };
    let path = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
    let agents = args.agents.unwrap_or(1);
    let lines = Lines {
        name: name.to_owned(),
        agents,
        program,
        server,
        nkey: path(&args.nkey)?,
        ca: path(&args.ca)?,
    };
    let mut screen = Screen::new();
    if args.on == Place::Srun {
        writeln!(out, "{}", srun(&lines))?;
        screen.line("the files must exist on each node; Ctrl-C twice, or `scancel`, ends the agents");
    } else {
        write!(out, "{}", unit(&lines))?;
        screen.line(&format!(
            "store it as /etc/systemd/system/{name}@.service; start: `systemctl start {name}@{{1..{agents}}}`; end: \
             `systemctl stop '{name}@*'`"
        ));
    }
    Ok(Exit::Good)
}

/// Refuses a server that the agents, which are on other machines, cannot reach.
fn refuse_loopback(args: &Args, url: &str) -> anyhow::Result<()> {
    let server =
        Server::new(url, args.nkey.as_deref().filter(|path| path.exists()), None).map_err(of_fleet)?;
    if server.is_loopback() {
        let text =
            format!("{}: the agents run on other machines, which cannot reach this address", server.shown());
        return Err(Exit::Usage.with(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_launcher_with_its_hosts() {
        assert_eq!(place("ssh:a,u@b"), Ok(Place::Ssh(vec!["a".to_owned(), "u@b".to_owned()])));
        assert_eq!(place("srun"), Ok(Place::Srun));
        for wrong in ["ssh:", "ssh:a,", "ssh:-oProxyCommand=x", "ssh:a b", "docker", ""] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
