//! Fleets of real agents on a real NATS server: exact sums, and everything killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use bakeoff_fleet as fleet;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bakeoff_fleet::{Agent, Fleet, FleetError, Spools, Told, conduct};
use futures_util::StreamExt as _;
use load::{Event, Share, Stop};
use record::agents::FleetSettings;
use record::histogram::Histogram;
use record::load::{Counts, LoadRecord};
use record::series::{HistogramSlice, LatencyKind};
use record::verdict::Validity;
use serde_json::{Value, json};
use support::{Member, Nats, read, serve, words};

/// A record, with what the agents keep.
type Conducted = Result<(LoadRecord, Spools), FleetError>;

/// The record of a load by `agents` agents, and its intervals; `on_interval` is called at each.
fn conducted(
    nats: &fleet::Server,
    agents: u32,
    text: &str,
    mut on_interval: impl FnMut(&Stop),
) -> (Conducted, Vec<HistogramSlice>) {
    let (stop, words) = (Stop::new(), words(text));
    let meant = read(&words).unwrap();
    let run = format!("run-{}", std::thread::current().name().unwrap_or("of-a-thread").len())
        + &words[..5].join("-").replace(':', "-");
    let patience = Duration::from_secs(if text.starts_with("10 ") { 1 } else { 10 });
    let lead = Duration::from_millis(500);
    let asked = FleetSettings::of(agents);
    let fleet = Fleet { server: nats, asked, run, words, meant, patience, lead, stop: &stop };
    let mut slices = Vec::new();
    let record = conduct(&fleet, &mut |told| match told {
        Told::Load(Event::Interval(_)) => on_interval(&stop),
        Told::Load(Event::IntervalClosed(closed)) => slices.extend_from_slice(closed),
        Told::Note(line) => eprintln!("conductor: {line}"),
        Told::Load(_) | Told::Watched(_) => {}
    });
    (record, slices)
}

/// The record of such a load, which is stored.
fn play(
    nats: &fleet::Server,
    agents: u32,
    text: &str,
    mut on_interval: impl FnMut(),
) -> (Result<LoadRecord, FleetError>, Vec<HistogramSlice>) {
    let (record, slices) = conducted(nats, agents, text, |_| on_interval());
    let record = record.map(|(record, spools)| {
        spools.release();
        record
    });
    (record, slices)
}

/// The sum of all intervals of one kind.
fn sum(slices: &[HistogramSlice], kind: LatencyKind) -> Histogram {
    let of_kind = slices.iter().filter(|slice| slice.kind == kind && slice.operation.is_empty());
    of_kind.fold(Histogram::new(), |mut sum, slice| {
        sum.add(&slice.histogram.expand());
        sum
    })
}

/// Whether a check that only a fleet has holds.
fn holds(record: &LoadRecord, name: &str) -> bool {
    let check = record.verdict.checks.iter().find(|check| check.name == name);
    check.unwrap_or_else(|| panic!("no check {name}: {:?}", record.verdict)).ok
}

/// Asserts what must hold for every record of a fleet, and returns the sum of its agents' counts.
fn assert_sums(record: &LoadRecord, slices: &[HistogramSlice]) {
    let mut counts = Counts::default();
    for agent in &record.agents {
        assert!(agent.counts.balance(), "{agent:?}");
        counts.planned += agent.counts.planned;
        counts.done += agent.counts.done;
        counts.failed += agent.counts.failed;
        counts.skipped += agent.counts.skipped;
        counts.unfinished += agent.counts.unfinished;
        counts.retries += agent.counts.retries;
    }
    assert_eq!(counts, record.counts);
    assert!(record.counts.balance());
    for (kind, whole) in [
        (LatencyKind::Response, record.response.as_ref().ok().map(|h| &h.known)),
        (LatencyKind::Service, Some(&record.service.known)),
        (LatencyKind::Lateness, record.lateness.as_ref().ok()),
    ] {
        if let Some(whole) = whole {
            assert!(
                sum(slices, kind).buckets().eq(whole.buckets()),
                "{kind:?} is not the sum of its intervals"
            );
        }
    }
    if let Ok(response) = &record.response {
        assert_eq!(response.merged().count(), record.counts.planned - record.counts.skipped);
    }
}

#[test]
fn four_agents_play_the_events_of_one_machine_and_their_sums_are_exact() {
    let Some(nats) = Nats::start() else { return };
    let members: Vec<Member> = (1..=4).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    for text in ["2000 poisson 8 600 all", "1500 ramp:500-2500 5 600 all"] {
        let (record, slices) = conducted(&nats.server(), 4, text, |_| {});
        let (record, spools) = record.unwrap();
        // Nothing is stored yet.
        assert!(members.iter().all(|member| member.kept().len() == 1), "{text}");
        spools.release();
        let meant = read(&words(text)).unwrap();
        let whole = Share::whole(&meant.settings);
        let planned = load::planned(&meant.settings, &meant.recorded, whole, meant.settings.time).unwrap();
        assert_eq!(record.counts.planned, planned, "{text}");
        for (index, agent) in (0..).zip(&record.agents) {
            let share = Share::new(index, 4, &meant.settings).unwrap();
            let own = load::planned(&meant.settings, &meant.recorded, share, meant.settings.time);
            assert_eq!(Some(agent.counts.planned), own, "{text}: {agent:?}");
            assert_eq!((agent.slices, agent.missing_slices.as_slice()), (3, &[][..]));
            assert!(agent.clock.is_ok() && agent.start_skew_ns.is_ok() && agent.lost_at_s.is_none());
        }
        assert_sums(&record, &slices);
        for name in ["agents", "slices", "slice-sums", "clock-bound"] {
            assert!(holds(&record, name), "{:?}", record.verdict);
        }
        let at: Vec<u64> = slices.iter().map(|slice| slice.from_ns).collect();
        assert!(at.is_sorted() && at.last() == Some(&400_000_000), "{at:?}");
    }
    for member in &members {
        assert_eq!(member.kept(), Vec::<std::path::PathBuf>::new(), "what was taken is removed");
    }
}

#[test]
fn a_number_of_events_of_a_closed_loop_is_exact() {
    let Some(nats) = Nats::start() else { return };
    let _members: Vec<Member> = (1..=3).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let (record, slices) = play(&nats.server(), 3, "closed period 4 5000 1001", || {});
    let record = record.unwrap();
    assert_eq!((record.counts.planned, record.counts.done), (1_001, 1_001));
    let of_each: Vec<u64> = record.agents.iter().map(|agent| agent.counts.done).collect();
    assert_eq!(of_each, [334, 334, 333]);
    assert_sums(&record, &slices);
}

/// An agent that is a separate process: this test, started again.
fn agent_process(nats: &Nats, id: &str, spool: &std::path::Path) -> Child {
    again(
        "an_agent_for_other_tests",
        &[("FLEET_URL", &nats.url()), ("FLEET_ID", id), ("FLEET_SPOOL", &spool.to_string_lossy())],
    )
}

fn again(test: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_agent_for_other_tests() {
    let Ok(url) = std::env::var("FLEET_URL") else { return };
    let server = fleet::Server::new(&url, None, None).unwrap();
    serve(
        &server,
        &std::env::var("FLEET_ID").unwrap(),
        std::env::var_os("FLEET_SPOOL").unwrap().into(),
        &Stop::new(),
    );
}

#[test]
fn a_conductor_for_other_tests() {
    let Ok(url) = std::env::var("CONDUCTOR_URL") else { return };
    let server = fleet::Server::new(&url, None, None).unwrap();
    play(&server, 1, "1000 period 2 1500 all", || eprintln!("interval")).0.unwrap();
}

#[test]
fn an_agent_that_is_killed_makes_the_run_invalid_by_name_and_nothing_is_lost_silently() {
    let Some(nats) = Nats::start() else { return };
    let spool = tempfile::tempdir().unwrap();
    let mut victim = agent_process(&nats, "victim", spool.path());
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let mut intervals = 0;
    let text = "900 jitter 3 1600 all";
    let (record, slices) = play(&nats.server(), 3, text, || {
        intervals += 1;
        if intervals == 2 {
            victim.kill().unwrap();
        }
    });
    victim.wait().unwrap();
    let record = record.unwrap();
    assert_eq!(record.verdict.state, Validity::Invalid);
    let check = record.verdict.checks.iter().find(|check| check.name == "agents").unwrap();
    assert!(!check.ok && check.text.contains("agent victim was lost"), "{}", check.text);
    let lost: Vec<_> = record.agents.iter().filter(|agent| agent.lost_at_s.is_some()).collect();
    assert_eq!(lost.iter().map(|agent| agent.agent.as_str()).collect::<Vec<_>>(), ["victim"]);
    // What it had told before is there, once; the rest is unfinished, and named.
    assert!((2..8).contains(&lost[0].slices), "{lost:?}");
    assert_eq!(lost[0].missing_slices, (lost[0].slices..8).collect::<Vec<_>>());
    assert!(lost[0].counts.done > 0 && lost[0].counts.unfinished > 0, "{lost:?}");
    assert_eq!(lost[0].counts.planned, 480);
    assert_eq!(record.counts.planned, 1_440);
    assert_sums(&record, &slices);
    let summary = record.response.as_ref().unwrap().summary().unwrap();
    assert!(summary.lower_bounds.contains(&"p50"), "a third of the events is unknown: {summary:?}");
    // Its spool is still there, and the next agent of this machine says so, whatever its name.
    let left = support::runs_in(&spool.path().join("victim"));
    assert_eq!(left.len(), 1);
    let (server, stop, mut told) = (nats.server(), Stop::new(), Vec::new());
    stop.request();
    let spool = spool.path().to_owned();
    let next = Agent {
        server: &server,
        id: "next".into(),
        host: "here".into(),
        labels: std::collections::BTreeMap::new(),
        weight: 1,
        spool,
        read: &|words, _| read(words),
        observe: None,
        probes: false,
        stop: &stop,
        on_ready: &|| {},
    };
    fleet::serve(&next, &mut |line| told.push(line.to_owned())).unwrap();
    let left = left[0].to_str().unwrap();
    assert!(told.iter().any(|line| line.starts_with(left) && line.contains("left by a run")), "{told:?}");
}

#[test]
fn an_agent_that_ends_early_makes_the_run_invalid_by_name_and_the_rate_is_that_of_the_whole_phase() {
    let Some(nats) = Nats::start() else { return };
    let members: Vec<Member> = (1..=3).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let mut intervals = 0;
    let (record, slices) = play(&nats.server(), 3, "900 jitter 3 1600 all", || {
        intervals += 1;
        if intervals == 2 {
            members[1].stop();
        }
    });
    let record = record.unwrap();
    assert_eq!(intervals, 8, "the intervals of the others are shown");
    assert_eq!(record.verdict.state, Validity::Invalid, "{:?}", record.verdict);
    let check = record.verdict.checks.iter().find(|check| check.name == "agents").unwrap();
    assert!(!check.ok && check.text.contains("2 of 3 agents ran to the end"), "{}", check.text);
    assert!(check.text.contains("agent a2 was stopped"), "{}", check.text);
    // The rest of its share is due, and was not done.
    let of_early = &record.agents[1].counts;
    assert_eq!((record.counts.planned, of_early.planned), (1_440, 480));
    assert!(of_early.done > 0 && of_early.unfinished > 240, "{of_early:?}");
    assert_sums(&record, &slices);
    let (per_s, phase_s) = (record.achieved_per_s, record.measured.as_secs_f64());
    assert!((phase_s - 1.6).abs() < 1e-6, "{phase_s}");
    // Events that ended after the phase are done, and no part of its rate.
    let done = record.counts.done as f64;
    assert!((per_s * phase_s - done).abs() <= 5.0, "{per_s} in {phase_s} s, but {done} were done");
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_no_agent_whether_its_disk_remains_or_not() {
    for on_an_empty_disk in [false, true] {
        let Some(nats) = Nats::start() else { return };
        let server = nats.server();
        let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
        let mut nats = Some(nats);
        let mut returning = None;
        let mut intervals = 0;
        let (record, slices) = play(&server, 2, "1000 period 2 1400 all", || {
            intervals += 1;
            if intervals == 2 {
                let mut nats = nats.take().unwrap();
                nats.kill();
                // Back while the agents still play.
                returning = Some(thread::spawn(move || {
                    thread::sleep(Duration::from_millis(600));
                    nats.restart(on_an_empty_disk);
                    nats
                }));
            }
        });
        let record = record.unwrap();
        let _nats = returning.unwrap().join().unwrap();
        for name in ["agents", "slices", "slice-sums"] {
            assert!(holds(&record, name), "empty disk: {on_an_empty_disk}: {:?}", record.verdict);
        }
        assert_eq!(record.counts.planned, 1_400);
        assert!(record.agents.iter().all(|agent| agent.slices == 7 && agent.lost_at_s.is_none()));
        assert_sums(&record, &slices);
        assert!(members.iter().all(|member| member.kept().is_empty()));
    }
}

#[test]
fn agents_whose_conductor_is_killed_play_to_the_end_and_keep_what_they_measured() {
    let Some(nats) = Nats::start() else { return };
    let member = Member::start(nats.server(), "a1");
    let mut conductor = again("a_conductor_for_other_tests", &[("CONDUCTOR_URL", &nats.url())]);
    let has_a_line = || {
        let lines = member.kept().first().and_then(|run| std::fs::read(run.join("slices.jsonl")).ok());
        lines.is_some_and(|lines| !lines.is_empty())
    };
    while !has_a_line() {
        assert!(conductor.try_wait().unwrap().is_none(), "the conductor ended before the load began");
        thread::sleep(Duration::from_millis(10));
    }
    conductor.kill().unwrap();
    conductor.wait().unwrap();
    let end = loop {
        if let Ok(end) = std::fs::read(member.kept()[0].join("end.json")) {
            break serde_json::from_slice::<Value>(&end).unwrap();
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(end["load"]["counts"]["planned"], 1_500);
    let lines = std::fs::read_to_string(member.kept()[0].join("slices.jsonl")).unwrap();
    assert_eq!((end["slices"].as_u64(), end["bytes"].as_u64()), (Some(8), Some(lines.len() as u64)));
    let numbers: Vec<u64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    // The next load does not wait for the first, and does not remove it.
    let (record, _) = play(&nats.server(), 1, "1000 period 2 300 all", || {});
    assert!(holds(&record.unwrap(), "agents"));
    assert_eq!(member.kept().len(), 1);
}

#[test]
fn a_stop_reaches_the_agents_though_the_server_is_away_when_it_comes() {
    let Some(nats) = Nats::start() else { return };
    let server = nats.server();
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let (mut nats, mut returning, mut intervals) = (Some(nats), None, 0);
    let (record, slices) = conducted(&server, 2, "1000 period 2 10000 all", |stop| {
        intervals += 1;
        if intervals == 2 {
            let mut nats = nats.take().unwrap();
            nats.kill();
            stop.request();
            returning = Some(thread::spawn(move || {
                thread::sleep(Duration::from_millis(600));
                nats.restart(false);
                nats
            }));
        }
    });
    let _nats = returning.unwrap().join().unwrap();
    let (record, _spools) = record.unwrap();
    assert_eq!(record.verdict.state, Validity::Interrupted, "{:?}", record.verdict);
    assert!(record.measured < Duration::from_secs(7), "{:?}", record.measured);
    assert_sums(&record, &slices);
}

#[test]
fn a_stop_at_once_reaches_the_agents_before_the_conductor_ends() {
    let Some(nats) = Nats::start() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let mut intervals = 0;
    let (record, _) = conducted(&nats.server(), 2, "1000 period 2 10000 all", |stop| {
        intervals += 1;
        if intervals == 2 {
            // Two signals within one look of the conductor.
            stop.request();
            stop.request();
        }
    });
    drop(record);
    for member in &members {
        let end = loop {
            if let Ok(end) = std::fs::read(member.kept()[0].join("end.json")) {
                break serde_json::from_slice::<Value>(&end).unwrap();
            }
            thread::sleep(Duration::from_millis(20));
        };
        let planned = end["load"]["counts"]["planned"].as_u64().unwrap();
        assert!(planned < 4_000, "of 5000 events of the whole load, {planned} were due");
    }
}

#[test]
fn two_processes_with_one_name_are_no_agent() {
    let Some(nats) = Nats::start() else { return };
    let _members: Vec<Member> = (1..=2).map(|_| Member::start(nats.server(), "same")).collect();
    // Once the second has answered, the fleet is refused: the conductor looks for two agents.
    let (record, _) = play(&nats.server(), 2, "100 period 2 100 all", || {});
    let text = record.unwrap_err().to_string();
    assert!(text.contains("agent same") && text.contains("give each agent its own --id"), "{text}");
}

#[test]
fn a_log_is_the_same_wherever_it_is_stored_and_another_log_is_not() {
    let Some(nats) = Nats::start() else { return };
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap().to_owned();
    std::fs::write(&path, "/a\n/b\n").unwrap();
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let heard = overheard(&nats, "a1", "prepare");
    let text = format!("1000 period 2 300 all {path}");
    let (record, _) = play(&nats.server(), 2, &text, || {});
    assert!(holds(&record.unwrap(), "agents"));
    // The plan of agent 1 is not one for another share.
    let mut plan = heard.join().unwrap();
    plan["index"] = json!(1);
    let why = refusal(&nats, "a1", &plan);
    assert!(why.contains("does not match its checksum"), "{why}");
    // Nor is it one for another log of the same length.
    plan["index"] = json!(0);
    std::fs::write(&path, "/a\n/c\n").unwrap();
    let why = refusal(&nats, "a1", &plan);
    assert!(why.contains("does not match its checksum"), "{why}");
    // An agent does not wait for longer than a minute.
    std::fs::write(&path, "/a\n/b\n").unwrap();
    assert_eq!(order(&nats, "a1", &plan)["answer"], "done");
    let arm = json!({"order": "arm", "run": plan["run"], "at_ns": u64::MAX / 2});
    let why = loop {
        let answer = order(&nats, "a1", &arm);
        if answer["why"] != "not ready to begin" {
            break answer["why"].to_string();
        }
    };
    assert!(why.contains("more than a minute ahead"), "{why}");
}

#[test]
fn an_agent_answers_before_it_has_read_a_plan() {
    let Some(nats) = Nats::start() else { return };
    let member = Member::start(nats.server(), "a1");
    let plan = json!({"order": "prepare", "run": "r1", "words": ["10", "period", "1", "100", "all", "long"], "index": 0, "of": 1, "sha256": "00"});
    assert_eq!(order(&nats, "a1", &plan)["answer"], "done");
    support::READS.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(refusal(&nats, "a1", &plan).contains("was changed"));
    assert!(member.kept().is_empty());
}

/// The first order of a kind that the agent is given from now on.
fn overheard(nats: &Nats, agent: &str, kind: &'static str) -> thread::JoinHandle<Value> {
    let (url, subject) = (nats.url(), format!("bakeoff.agent.{agent}"));
    let (sender, ready) = std::sync::mpsc::channel();
    let listener = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(url).await.unwrap();
            let mut orders = client.subscribe(subject).await.unwrap();
            client.flush().await.unwrap();
            sender.send(()).unwrap();
            while let Some(message) = orders.next().await {
                let order: Value = serde_json::from_slice(&message.payload).unwrap();
                if order["order"] == kind {
                    return order;
                }
            }
            panic!("no {kind}");
        })
    });
    ready.recv().unwrap();
    listener
}

/// Gives a plan, and returns why the agent refuses it.
fn refusal(nats: &Nats, agent: &str, plan: &Value) -> String {
    let answer = order(nats, agent, plan);
    if answer["answer"] == "refused" {
        return answer["why"].as_str().unwrap().to_owned();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(nats.url()).await.unwrap();
        let subject = format!("bakeoff.{}.beat.{agent}", plan["run"].as_str().unwrap());
        let mut beats = client.subscribe(subject).await.unwrap();
        loop {
            let beat: Value = serde_json::from_slice(&beats.next().await.unwrap().payload).unwrap();
            match beat["state"].as_str().unwrap() {
                "refused" => return beat["why"].as_str().unwrap().to_owned(),
                state => assert_eq!(state, "preparing", "{beat}"),
            }
        }
    })
}

/// Gives an order as any program could that may speak to the server.
fn order(nats: &Nats, agent: &str, order: &Value) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(nats.url()).await.unwrap();
        loop {
            let asked = client.request(format!("bakeoff.agent.{agent}"), order.to_string().into()).await;
            // The agent may still be connecting.
            if let Ok(answer) = asked {
                return serde_json::from_slice(&answer.payload).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

#[test]
fn orders_that_are_not_the_conductors_are_refused() {
    let Some(nats) = Nats::start() else { return };
    let member = Member::start(nats.server(), "a1");
    let plan = |words: &[&str], run: &str, sha256: &str| json!({"order": "prepare", "run": run, "words": words, "index": 0, "of": 1, "sha256": sha256});
    let good = ["10", "period", "1", "100", "all"];
    for (asked, why) in [
        (plan(&good, "r1", "00"), "was changed"),
        (plan(&["rm", "-rf"], "r1", "00"), "no words of a test"),
        (plan(&["10", "period", "1", "3600001", "all"], "r1", "00"), "at most an hour"),
        // With its warm-up and its drain, which the test's words have.
        (plan(&["10", "period", "1", "3599800", "all"], "r1", "00"), "at most an hour"),
        (plan(&["10", "period", "1", "3599700", "all"], "r1", "00"), "was changed"),
        (plan(&good, "../r1", "00"), "invalid run name"),
        (json!({"order": "arm", "run": "r2", "at_ns": 1}), "not in run"),
        (json!({"order": "taken", "run": "r2"}), "not in run"),
        (json!({"order": "explode"}), "invalid order"),
    ] {
        let found = refusal(&nats, "a1", &asked);
        assert!(found.contains(why), "{asked}: {found}");
    }
    assert!(member.kept().is_empty());
}

#[test]
fn a_fleet_that_is_too_small_or_too_large_says_what_would_do() {
    let Some(nats) = Nats::start() else { return };
    let _member = Member::start(nats.server(), "a1");
    let (record, _) = play(&nats.server(), 2, "10 period 2 100 all", || {});
    let text = record.unwrap_err().to_string();
    assert!(text.contains("1 of 2 agents") && text.contains("bakeoff agent --server"), "{text}");
    let (record, _) = play(&nats.server(), 3, "10 period 2 100 all", || {});
    assert!(record.unwrap_err().to_string().contains("--threads 3"));
}
