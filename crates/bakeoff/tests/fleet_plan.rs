//! Bake-offs of which a fleet generates the load.

#![cfg(feature = "fleet")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::{Ended, Lab, assert_balanced};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const PLAN: &str = r#"
schema = 1
title  = "Two numbers of threads"
[factors.threads]
values    = ["2", "4"]
reference = "2"
level     = "whole-plot"
[design]
blocks = 2
[load]
target   = "null:"
rate     = 600
arrivals = "poisson"
threads  = "{threads}"
drain    = "200ms"
[fleet]
agents = 2
[phases]
warm-up = { min = "100ms" }
measure = { time = "800ms", interval = "200ms" }
"#;

/// A lab with a plan; `None` without a NATS server.
fn lab(plan: &str) -> Option<Lab> {
    let is_installed = Path::new("/usr/sbin/nats-server").exists()
        || Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_installed {
        println!("skipped: no nats-server is installed");
        return None;
    }
    let lab = Lab::new();
    fs::write(lab.path("plan.toml"), plan).unwrap();
    fs::create_dir(lab.path("tmp")).unwrap();
    Some(lab)
}

/// A command without a NATS server of the environment.
fn command(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.command(words);
    command.env_remove("NATS_URL").env("TMPDIR", lab.path("tmp")).env("XDG_STATE_HOME", lab.path("state"));
    command
}

fn run(lab: &Lab) -> Ended {
    let plan = lab.path("plan.toml");
    Ended::of(command(lab, &["run", plan.to_str().unwrap(), "--beside-others", "--json"]).output().unwrap())
}

/// The loads of all trials in the archive.
fn loads(lab: &Lab) -> Vec<Value> {
    let runs = fs::read_dir(lab.path("archive/runs")).unwrap().flatten().map(|run| run.file_name());
    let ids = runs.map(|name| name.into_string().unwrap()).filter(|name| !name.starts_with('.'));
    ids.map(|id| lab.json(&["runs", "show", &id])).collect()
}

#[test]
fn every_trial_has_its_agents_and_the_events_of_one_machine() {
    let Some(with) = lab(PLAN) else { return };
    let ended = run(&with);
    assert!(matches!(ended.code, Some(0 | 3)), "{}{}", ended.out, ended.err);
    let alone = lab(&PLAN.replace("[fleet]\nagents = 2\n", "")).unwrap();
    let of_one = run(&alone);
    assert!(matches!(of_one.code, Some(0 | 3)), "{}{}", of_one.out, of_one.err);
    let planned = |lab: &Lab| {
        let mut all: Vec<u64> = loads(lab).iter().map(|load| load["planned"].as_u64().unwrap()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(planned(&with).len(), 4, "{}", ended.err);
    assert_eq!(planned(&with), planned(&alone), "the same schedules have the same events");
    for load in loads(&with) {
        assert_balanced(&load);
        let agents = load["agents"].as_array().unwrap();
        assert_eq!(agents.len(), 2, "{load}");
        for name in ["planned", "done", "failed", "skipped", "unfinished"] {
            let sum: u64 = agents.iter().map(|agent| agent[name].as_u64().unwrap()).sum();
            assert_eq!(load[name], sum, "{name}");
        }
        assert!(agents.iter().all(|agent| agent["lost"] == false && agent["slices"] == 4), "{load}");
    }
    // What the agents kept is gone, with the server that bakeoff started.
    let left: Vec<PathBuf> = fs::read_dir(with.path("tmp")).unwrap().flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let page = with.path("page.html");
    let id = loads(&with)[0]["run"].as_str().unwrap().to_owned();
    let report = with.run(&["report", &id, "-o", page.to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "{}", report.err);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("2 agents: a1 on "), "the page discloses the fleet");
    assert_eq!(with.run(&["runs", "verify"]).code, Some(0));
}

/// The CPUs are watched during the measured phase, and not while the agents wait for their start.
#[test]
fn the_instruments_of_a_trial_watch_its_measured_phase() {
    let Some(lab) = lab(&PLAN.replace("blocks = 2", "blocks = 1")) else { return };
    let ended = run(&lab);
    assert!(matches!(ended.code, Some(0 | 3)), "{}{}", ended.out, ended.err);
    let archive = archive::Archive::open(&lab.path("archive")).unwrap();
    for run in fs::read_dir(lab.path("archive/runs")).unwrap().flatten() {
        let id = run.file_name().into_string().unwrap();
        let run = archive.run(id.parse().unwrap()).unwrap();
        let seconds: f64 = run.cpu.iter().map(record::cpu::CpuInterval::seconds).sum();
        // The agents wait for a second before they start, and warm up.
        assert!((0.7..1.4).contains(&seconds), "{seconds} s of 0.8 s");
    }
}

#[test]
fn a_probe_stands_apart_in_the_run() {
    let asked = "agents = 2\nprobe = 50";
    let plan = PLAN.replace("agents = 2", asked).replace("blocks = 2", "blocks = 1");
    let Some(lab) = lab(&plan) else { return };
    let ended = run(&lab);
    assert!(matches!(ended.code, Some(0 | 3)), "{}{}", ended.out, ended.err);
    let archive = archive::Archive::open(&lab.path("archive")).unwrap();
    let ids = fs::read_dir(lab.path("archive/runs")).unwrap().flatten().map(|run| run.file_name());
    let ids: Vec<String> = ids.map(|name| name.into_string().unwrap()).collect();
    let ids: Vec<&String> = ids.iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(ids.len(), 2, "{}", ended.err);
    for id in ids {
        let run = archive.run(id.parse().unwrap()).unwrap();
        let load = run.load.as_ref().unwrap();
        assert_eq!(load.agents.len(), 2, "a probe has no share");
        let probe = load.probe.as_ref().unwrap().record.as_ref().unwrap();
        assert_eq!(probe.counts.planned, 40, "50/s for 0.8 s");
    }
    for load in loads(&lab) {
        assert_balanced(&load);
        let sum: u64 =
            load["agents"].as_array().unwrap().iter().map(|a| a["planned"].as_u64().unwrap()).sum();
        assert_eq!((&load["planned"], &load["probe"]["planned"]), (&sum.into(), &40.into()), "{load}");
        assert!(load["probe"]["response_ns"]["p50"].is_number(), "{}", load["probe"]);
        let page = lab.path("page.html");
        let id = load["run"].as_str().unwrap();
        let report = lab.run(&["report", id, "-o", page.to_str().unwrap()]);
        assert_eq!(report.code, Some(0), "{}", report.err);
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("The probe, apart from the load: p1 on "), "the page has the probe");
    }
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
}

/// A NATS server and two agents.
struct Dev {
    child: Child,
    url: String,
}

impl Dev {
    fn start(lab: &Lab) -> Self {
        let mut command = command(lab, &["fleet", "dev", "-n", "2"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("NATS_URL=")?.1.to_owned()));
        Self { child, url: url.expect("it prints the address") }
    }

    /// Processes of the agents.
    fn agents(&self) -> Vec<Pid> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let is_agent = |pid: &&str| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"agent")
        };
        children.split_whitespace().filter(is_agent).map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Whether an agent has stored an interval of a load.
fn measures(lab: &Lab) -> bool {
    let below = |folder: PathBuf| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let spools = below(lab.path("tmp")).into_iter().map(|scratch| scratch.join("spool"));
    let runs = spools.flat_map(below).flat_map(below);
    let sizes = runs.map(|run| fs::metadata(run.join("slices.jsonl")).map_or(0, |file| file.len()));
    sizes.into_iter().any(|bytes| bytes > 0)
}

/// Begins the bake-off of a lab with agents, and returns when its first trial measures.
fn begun(lab: &Lab, dev: &Dev) -> Child {
    let plan = lab.path("plan.toml");
    let mut command = command(lab, &["run", plan.to_str().unwrap(), "--beside-others", "--json"]);
    command.env("NATS_URL", &dev.url).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !measures(lab) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it measured");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_trial_that_loses_an_agent_is_invalid_and_names_it() {
    let long = PLAN.replace("800ms", "2s").replace("blocks = 2", "blocks = 1");
    let Some(lab) = lab(&long) else { return };
    let dev = Dev::start(&lab);
    let child = begun(&lab, &dev);
    kill(dev.agents()[0], Signal::SIGKILL).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert!(!matches!(ended.code, Some(0)), "{}", ended.out);
    let loads = loads(&lab);
    assert_eq!(loads.len(), 1, "the other trial has too few agents: {}", ended.err);
    assert_balanced(&loads[0]);
    let lost: Vec<&Value> =
        loads[0]["agents"].as_array().unwrap().iter().filter(|a| a["lost"] == true).collect();
    assert_eq!(lost.len(), 1, "{}", loads[0]);
    let words = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("invalid: ") && words.contains("1 of 2 agents ran to the end: agent a"),
        "{words}"
    );
    assert!(words.contains("is LOST") && words.contains("1 of 2 agents are ready"), "{words}");
}

/// The trial stands on the page and is named; no verdict rests on it.
#[test]
fn a_trial_whose_loss_is_accepted_is_degraded_and_named_on_the_page() {
    let long = PLAN.replace("800ms", "2s").replace("blocks = 2", "blocks = 1");
    let Some(lab) = lab(&long.replace("agents = 2", "agents = 2\non_loss = \"degraded\"")) else { return };
    let dev = Dev::start(&lab);
    let child = begun(&lab, &dev);
    kill(dev.agents()[0], Signal::SIGKILL).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    let loads = loads(&lab);
    assert_eq!(loads.len(), 1, "the other trial has too few agents: {}", ended.err);
    assert_balanced(&loads[0]);
    let words = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("is LOST: the run is degraded"), "{words}");
    let checks = loads[0]["verdict"]["checks"].as_array().unwrap();
    let is_lost = |check: &&Value| ["agents", "slices"].contains(&check["name"].as_str().unwrap());
    if checks.iter().filter(|check| check["ok"] == false).any(|check| !is_lost(&check)) {
        println!("not judged: this machine is too busy: {}", loads[0]["verdict"]);
        return;
    }
    assert_eq!(loads[0]["verdict"]["state"], "degraded", "{}", loads[0]["verdict"]);
    assert!(words.contains("degraded: 1 of 2 agents ran to the end: agent a"), "{words}");
    assert!(words.contains("planned events are known"), "{words}");
    assert!(lab.run(&["runs", "list"]).out.contains(" degraded "), "the list names it");
    let page = lab.path("page.html");
    let report = lab.run(&["report", "latest", "-o", page.to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "{}", report.err);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Disturbed, degraded: 1 of 1 runs"), "the page names it");
}

#[test]
fn a_bakeoff_whose_conductor_was_killed_is_resumed_with_the_same_agents() {
    let Some(lab) = lab(PLAN) else { return };
    let dev = Dev::start(&lab);
    let mut child = begun(&lab, &dev);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut resume = command(&lab, &["resume", "latest", "--beside-others", "--json"]);
    let ended = Ended::of(resume.env("NATS_URL", &dev.url).output().unwrap());
    assert!(matches!(ended.code, Some(0 | 3)), "{}{}", ended.out, ended.err);
    let loads = loads(&lab);
    assert_eq!(loads.len(), 4, "{}", ended.err);
    for load in &loads {
        assert_balanced(load);
        assert_eq!(load["agents"].as_array().unwrap().len(), 2, "{load}");
    }
    // The agents keep what the killed trial measured, until someone asks for it.
    let mut status = command(&lab, &["fleet", "status", "--json"]);
    let status = Ended::of(status.env("NATS_URL", &dev.url).output().unwrap());
    let status: Value = serde_json::from_str(&status.out).unwrap();
    let all = status["agents"].as_array().unwrap();
    let left: Vec<&Value> = all.iter().flat_map(|agent| agent["left"].as_array().unwrap()).collect();
    assert!(!left.is_empty() && left.iter().all(|spool| spool["run"] == left[0]["run"]), "{status}");
    assert!(!loads.iter().any(|load| load["run"] == left[0]["run"]), "{status}");
}

#[test]
fn a_fleet_that_cannot_be_asked_is_refused_before_anything_is_measured() {
    let Some(lab) = lab(PLAN) else { return };
    let plan = lab.path("plan.toml");
    let plan = plan.to_str().unwrap();
    let checked = lab.run(&["plan", "check", plan]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    let said = checked.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("a fleet of 2 generates the load"), "{said}");
    let mut off_host = command(&lab, &["run", plan, "--beside-others"]);
    let ended = Ended::of(off_host.env("NATS_URL", "nats://192.0.2.1").output().unwrap());
    assert_eq!((ended.code, ended.err.contains("TLS")), (Some(2), true), "{}", ended.err);
    fs::write(lab.path("plan.toml"), PLAN.replace("blocks = 2", "blocks = 6")).unwrap();
    let ended = Ended::of(command(&lab, &["aa", plan, "--beside-others"]).output().unwrap());
    assert!(ended.code != Some(0) && ended.err.contains("a fleet generates its load"), "{}", ended.err);
    assert!(
        !lab.path("archive/bakeoffs").exists()
            || fs::read_dir(lab.path("archive/bakeoffs")).unwrap().count() == 0
    );
    // A plan without a fleet does not ask for the server of the environment.
    fs::write(
        lab.path("plan.toml"),
        PLAN.replace("[fleet]\nagents = 2\n", "").replace("blocks = 2", "blocks = 1"),
    )
    .unwrap();
    let mut alone = command(&lab, &["run", plan, "--beside-others"]);
    let ended = Ended::of(alone.env("NATS_URL", "nats://192.0.2.1").output().unwrap());
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
}
