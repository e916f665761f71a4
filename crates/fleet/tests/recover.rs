//! Runs of which the conductor died, collected from the spools of their agents.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff_fleet::{
    self as fleet, Fleet, FleetError, Incomplete, Recovered, Told, conduct, recover, survey,
};
use load::{Event, Stop};
use record::agents::{FleetSettings, Watched};
use record::histogram::Histogram;
use record::load::LoadRecord;
use record::series::{HistogramSlice, LatencyKind};
use record::verdict::Validity;
use serde_json::Value;
use support::{Member, Nats, read, runs_in, serve, window, words};

const RUN: &str = "run-of-a-dead-conductor";
/// Longer than the collection waits for answers.
const LOAD: &str = "400 period 2 4000 all";

/// The test program, started again with one test.
fn again(test: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_conductor_for_other_tests() {
    let Ok(url) = std::env::var("CONDUCTOR_URL") else { return };
    let server = fleet::Server::new(&url, None, None).unwrap();
    let stop = Stop::new();
    let words = words(LOAD);
    let alone = FleetSettings::of(2);
    let asked = match std::env::var("CONDUCTOR_HELPERS") {
        Ok(_) => FleetSettings { observers: 1, probe_per_s: Some(20.0), ..alone },
        Err(_) => alone,
    };
    let fleet = Fleet {
        server: &server,
        asked,
        run: RUN.to_owned(),
        meant: read(&words).unwrap(),
        words,
        patience: Duration::from_secs(10),
        lead: Duration::from_millis(500),
        stop: &stop,
    };
    let (_record, spools) = conduct(&fleet, &mut |_| {}).unwrap();
    // It dies before it has stored the run.
    std::mem::forget(spools);
}

#[test]
fn an_agent_for_other_tests() {
    let Ok(url) = std::env::var("FLEET_URL") else { return };
    let server = fleet::Server::new(&url, None, None).unwrap();
    let spool = std::env::var_os("FLEET_SPOOL").unwrap();
    serve(&server, &std::env::var("FLEET_ID").unwrap(), spool.into(), &Stop::new());
}

fn agent_process(nats: &Nats, id: &str, spool: &Path) -> Child {
    let spool = spool.to_string_lossy();
    again(
        "an_agent_for_other_tests",
        &[("FLEET_URL", &nats.url()), ("FLEET_ID", id), ("FLEET_SPOOL", &spool)],
    )
}

/// Whether an agent has an interval on disk.
fn has_begun(spool: &Path) -> bool {
    let lines = runs_in(spool).first().and_then(|run| std::fs::read(run.join("slices.jsonl")).ok());
    lines.is_some_and(|lines| !lines.is_empty())
}

fn await_that(is_true: impl Fn() -> bool) {
    while !is_true() {
        thread::sleep(Duration::from_millis(10));
    }
}

fn collected(nats: &Nats, incomplete: Incomplete) -> Result<(Recovered, Vec<HistogramSlice>), FleetError> {
    let mut slices = Vec::new();
    let recovered = recover(&nats.server(), RUN, incomplete, &Stop::new(), &mut |told, _| {
        if let Told::Load(Event::IntervalClosed(closed)) = told {
            slices.extend_from_slice(closed);
        }
    })?;
    Ok((recovered, slices))
}

/// Checks what holds of every record: sums of agents, and of intervals.
fn assert_sums(record: &LoadRecord, slices: &[HistogramSlice]) {
    let counts = record.counts;
    assert!(counts.balance(), "{counts:?}");
    let sum = |of: fn(&record::load::Counts) -> u64| {
        record.agents.iter().map(|agent| of(&agent.counts)).sum::<u64>()
    };
    assert_eq!(
        (sum(|c| c.planned), sum(|c| c.done), sum(|c| c.unfinished)),
        (counts.planned, counts.done, counts.unfinished)
    );
    let of_intervals =
        slices.iter().filter(|slice| slice.kind == LatencyKind::Response && slice.operation.is_empty());
    let of_intervals = of_intervals.fold(Histogram::new(), |mut sum, slice| {
        sum.add(&slice.histogram.expand());
        sum
    });
    assert!(of_intervals.buckets().eq(record.response.as_ref().unwrap().known.buckets()));
}

fn failed(record: &LoadRecord) -> Vec<&str> {
    record.verdict.failures().map(|check| check.name).filter(|name| OF_A_FLEET.contains(name)).collect()
}

/// Checks that depend on the collection, not on the machine that the test has.
const OF_A_FLEET: [&str; 4] = ["agents", "slices", "slice-sums", "clock-bound"];

#[test]
fn a_run_whose_conductor_is_killed_is_collected_whole_and_once() {
    let Some(nats) = Nats::start_with_password() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let mut conductor = again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &nats.url())]);
    let of = |member: &Member, id: &str| member.spool.path().join(id);
    await_that(|| has_begun(&of(&members[0], "a1")) && has_begun(&of(&members[1], "a2")));
    conductor.kill().unwrap();
    conductor.wait().unwrap();
    let busy = collected(&nats, Incomplete::Accept).map(drop).unwrap_err().to_string();
    assert!(busy.contains("still plays"), "{busy}");
    await_that(|| members.iter().all(|member| member.kept()[0].join("end.json").exists()));

    let seen = survey(&nats.server(), Duration::from_secs(1), &Stop::new()).unwrap();
    assert_eq!(seen.iter().map(|seen| seen.agent.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);
    for seen in &seen {
        let left = seen.left.as_ref().unwrap();
        assert_eq!((left.len(), left[0].run.as_str(), left[0].has_end), (1, RUN, true), "{seen:?}");
        // One kernel has one clock.
        let (offset_ns, bound_ns) = seen.clock.unwrap();
        assert!(offset_ns.unsigned_abs() <= bound_ns && seen.cpus > 0 && seen.is_same_version, "{seen:?}");
    }
    let (Recovered { record, spools, anchor }, slices) = collected(&nats, Incomplete::Refuse).unwrap();
    assert_eq!((record.counts.planned, record.agents.len()), (1_600, 2));
    assert_eq!(failed(&record), [""; 0], "{:?}", record.verdict);
    assert_sums(&record, &slices);
    assert!(record.measured_from_ns > 0 && anchor.unix_ns > 1_700_000_000_000_000_000);
    for agent in &record.agents {
        let clock = agent.clock.as_ref().unwrap();
        assert!(
            clock.offset_ns.unsigned_abs() <= clock.bound_ns && agent.missing_slices.is_empty(),
            "{agent:?}"
        );
    }
    // Nothing is removed before the record is stored: a collector that dies here loses nothing.
    drop(spools);
    assert!(members.iter().all(|member| member.kept().len() == 1));
    let (again, _) = collected(&nats, Incomplete::Refuse).unwrap();
    assert_eq!((again.record.counts, again.record.response), (record.counts, record.response));
    again.spools.release();
    assert!(members.iter().all(|member| member.kept().is_empty()));
    let none = collected(&nats, Incomplete::Accept).map(drop).unwrap_err().to_string();
    assert!(none.contains("no agent that answers has a spool"), "{none}");
}

#[test]
fn an_agent_of_the_same_machine_answers_for_one_that_died_and_the_run_is_invalid_by_name() {
    let Some(nats) = Nats::start_with_password() else { return };
    let spool = tempfile::tempdir().unwrap();
    let mut victim = agent_process(&nats, "victim", spool.path());
    let member = Member::start(nats.server(), "a1");
    let mut conductor = again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &nats.url())]);
    await_that(|| has_begun(&spool.path().join("victim")));
    for process in [&mut conductor, &mut victim] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    await_that(|| member.kept()[0].join("end.json").exists());

    // Its machine has no agent: it may have a whole share.
    let missing = collected(&nats, Incomplete::Refuse).map(drop).unwrap_err().to_string();
    assert!(missing.contains("shares 2 of 2") && missing.contains("--incomplete"), "{missing}");
    let (Recovered { record, .. }, slices) = collected(&nats, Incomplete::Accept).unwrap();
    assert_eq!((record.verdict.state, record.counts.planned), (Validity::Invalid, 1_600));
    let share = &record.agents[1];
    assert_eq!((share.agent.as_str(), share.counts.done, share.counts.unfinished), ("share-2", 0, 800));
    assert_sums(&record, &slices);

    let (server, folder) = (nats.server(), spool.path().to_owned());
    let stop: &'static Stop = Box::leak(Box::new(Stop::new()));
    let next = thread::spawn(move || serve(&server, "next", folder, stop));
    await_that(|| spool.path().join("next").exists());
    let (Recovered { record, spools, .. }, slices) = loop {
        // The agent may still be connecting.
        match collected(&nats, Incomplete::Refuse) {
            Err(FleetError::Unfit(_)) => {}
            found => break found.unwrap(),
        }
    };
    assert_eq!(record.verdict.state, Validity::Invalid);
    let check = record.verdict.checks.iter().find(|check| check.name == "agents").unwrap();
    assert!(check.text.contains("agent victim sent no final report"), "{}", check.text);
    let victim = record.agents.iter().find(|agent| agent.agent == "victim").unwrap();
    assert!(victim.counts.done > 0 && victim.counts.unfinished > 0 && victim.slices > 0, "{victim:?}");
    assert_eq!((victim.counts.planned, record.counts.planned), (800, 1_600));
    assert_sums(&record, &slices);
    spools.release();
    assert!(member.kept().is_empty(), "everything of it has arrived");
    assert_eq!(runs_in(&spool.path().join("victim")).len(), 1, "it has no end: a person may look at it");
    stop.request();
    next.join().unwrap();
}

#[test]
fn a_damaged_interval_makes_the_run_invalid_by_name_and_takes_nothing_from_the_other_agents() {
    let Some(nats) = Nats::start_with_password() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &nats.url())]).wait().unwrap();
    await_that(|| members.iter().all(|member| member.kept()[0].join("end.json").exists()));
    let path = members[1].kept()[0].join("slices.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let second = text.lines().nth(1).unwrap();
    std::fs::write(&path, text.replacen(second, &"garbage".repeat(9), 1)).unwrap();
    let (Recovered { record, spools, .. }, slices) = collected(&nats, Incomplete::Refuse).unwrap();
    assert_eq!(record.verdict.state, Validity::Invalid);
    let check = record.verdict.checks.iter().find(|check| check.name == "slices").unwrap();
    assert!(!check.ok && check.text.contains("agent a2"), "{check:?}");
    let of_intervals =
        slices.iter().filter(|slice| slice.kind == LatencyKind::Response && slice.operation.is_empty());
    let of_intervals: u64 = of_intervals.map(|slice| slice.histogram.count()).sum();
    let of_a2 = of_intervals.checked_sub(record.agents[0].counts.done).unwrap();
    assert!((1..record.agents[1].counts.done).contains(&of_a2), "{of_a2} before the damage");
    spools.release();
    assert!(members[0].kept().is_empty() && members[1].kept().len() == 1, "a person may look at it");
}

#[test]
fn a_collection_that_is_interrupted_stores_and_removes_nothing() {
    let Some(nats) = Nats::start_with_password() else { return };
    let member = Member::start(nats.server(), "a1");
    let stop = Stop::new();
    stop.request();
    let stopped = recover(&nats.server(), RUN, Incomplete::Accept, &stop, &mut |_, _| {});
    assert!(matches!(stopped, Err(FleetError::Interrupted)), "{stopped:?}");
    drop(member);
}

#[test]
fn a_machine_that_was_started_again_has_another_clock() {
    let Some(nats) = Nats::start_with_password() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let mut conductor = again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &nats.url())]);
    conductor.wait().unwrap();
    await_that(|| members.iter().all(|member| member.kept()[0].join("end.json").exists()));
    let change = |member: &Member, name: &str, value: Value| {
        let path = member.kept()[0].join("start.json");
        let mut start: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        start[name] = value;
        std::fs::write(path, start.to_string()).unwrap();
    };
    change(&members[1], "boot", "of an earlier start".into());
    let (Recovered { record, .. }, slices) = collected(&nats, Incomplete::Refuse).unwrap();
    assert_eq!(failed(&record), ["clock-bound"], "{:?}", record.verdict);
    assert!(record.agents[0].clock.is_ok() && record.agents[1].clock.is_err());
    assert_sums(&record, &slices);
    // Shares that no fleet has are refused, and take no memory.
    for (name, value) in
        [("of", u64::from(u32::MAX)), ("of", 0), ("index", 7), ("index", 0), ("start_ns", u64::MAX)]
    {
        let before = std::fs::read(members[1].kept()[0].join("start.json")).unwrap();
        change(&members[1], name, value.into());
        let found = collected(&nats, Incomplete::Accept);
        assert_eq!(found.is_err(), name != "start_ns", "{name} {value}");
        std::fs::write(members[1].kept()[0].join("start.json"), before).unwrap();
    }
}

#[test]
fn without_credentials_an_agent_does_not_tell_of_its_spools() {
    let Some(nats) = Nats::start() else { return };
    let member = Member::start(nats.server(), "a1");
    std::fs::create_dir_all(member.spool.path().join("dead/run1")).unwrap();
    await_that(|| member.spool.path().join("a1").exists());
    let seen = loop {
        let seen = survey(&nats.server(), Duration::from_millis(500), &Stop::new()).unwrap();
        if !seen.is_empty() {
            break seen;
        }
    };
    assert!(seen[0].left.as_ref().unwrap_err().contains("without credentials"), "{seen:?}");
    assert!(seen[0].clock.is_some());
}

/// Collects, and also returns what observers measured.
fn collected_with_observers(
    nats: &Nats,
    incomplete: Incomplete,
) -> Result<(Recovered, Vec<Watched>), FleetError> {
    let mut watched = Vec::new();
    let recovered = recover(&nats.server(), RUN, incomplete, &Stop::new(), &mut |told, _| match told {
        Told::Watched(of) => watched.push(Watched::clone(of)),
        Told::Note(line) => eprintln!("collector: {line}"),
        Told::Load(_) => {}
    })?;
    Ok((recovered, watched))
}

/// Nothing can be added to a run that is stored: the numbers of agents beside the load are collected with it,
/// or the collection is refused.
#[test]
fn observers_and_the_probe_of_a_killed_conductor_are_collected_with_the_run() {
    let Some(nats) = Nats::start_with_password() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let observer = Member::observing(nats.server(), "o1", &window);
    let probe = Member::probing(nats.server(), "p1");
    let url = nats.url();
    let mut conductor =
        again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &url), ("CONDUCTOR_HELPERS", "1")]);
    let of = |member: &Member, id: &str| member.spool.path().join(id);
    await_that(|| has_begun(&of(&members[0], "a1")) && has_begun(&of(&probe, "p1")));
    conductor.kill().unwrap();
    conductor.wait().unwrap();
    let all = || members.iter().chain([&observer, &probe]);
    await_that(|| members.iter().all(|member| member.kept()[0].join("end.json").exists()));
    // The observer, which may be looking up names, is waited for too.
    await_that(|| all().all(|member| member.kept()[0].join("end.json").exists()));
    let (collected, watched) = loop {
        match collected_with_observers(&nats, Incomplete::Refuse) {
            Err(FleetError::Unfit(why)) if why.contains("still plays") => {}
            found => break found.unwrap(),
        }
    };
    let Recovered { record, spools, .. } = collected;
    assert_eq!((record.counts.planned, record.agents.len()), (1_600, 2));
    assert_eq!(failed(&record), [""; 0], "{:?}", record.verdict);
    let Watched { agent, host, measured_from_ns, seen } = &watched[0];
    assert_eq!((watched.len(), agent.as_str(), host.as_str()), (1, "o1", "here"));
    assert_eq!(*measured_from_ns, record.measured_from_ns);
    let seen = seen.as_ref().unwrap();
    let numbers: Vec<(i64, f64)> = seen.numbers.iter().map(|s| (s.t_ms, s.value)).collect();
    assert_eq!((numbers, seen.missing.len()), (vec![(0, 0.25), (4_000, 0.5)], 1));
    let own = record.probe.as_ref().unwrap();
    assert_eq!((own.agent.as_str(), own.per_s), ("p1", 20.0));
    let own = own.record.as_ref().unwrap();
    assert_eq!((own.counts.planned, own.response.as_ref().unwrap().merged().count()), (80, 80));
    // Nothing is removed before the record is stored.
    drop(spools);
    assert!(all().all(|member| member.kept().len() == 1));

    // The observer's machine is away: the run would lose its numbers.
    drop(observer);
    let refused = collected_with_observers(&nats, Incomplete::Refuse).map(drop).unwrap_err().to_string();
    assert!(refused.contains("1 of 1 observers") && refused.contains("--incomplete"), "{refused}");
    let (Recovered { record, spools, .. }, watched) =
        collected_with_observers(&nats, Incomplete::Accept).unwrap();
    assert_eq!((failed(&record), watched.len()), (vec![], 1), "an observer has no part in the verdict");
    let why = watched[0].seen.as_ref().unwrap_err();
    assert!(why.reason.contains("no agent that answers has its spool"), "{why}");
    spools.release();
    assert!(members.iter().chain([&probe]).all(|member| member.kept().is_empty()));
}
