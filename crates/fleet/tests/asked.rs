//! Agents as a load asks for them: by label, with weights, and with losses that are accepted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bakeoff_fleet::{self as fleet, Fleet, FleetError, Told, conduct};
use load::{Event, Share, Stop};
use record::agents::{FleetSettings, Observation, OnLoss, Watched};
use record::load::LoadRecord;
use record::missing::Missing;
use record::verdict::Validity;
use support::{Member, Nats, read, serve, window, words};

/// Plays a load with the agents that are asked for; `on_interval` is called at each interval.
fn play(
    nats: &Nats,
    words: (&str, &str),
    asked: &FleetSettings,
    on_interval: impl FnMut(),
) -> Result<LoadRecord, FleetError> {
    conducted(nats, words, asked, on_interval, &mut |_| {})
}

fn play_and_tell(
    nats: &Nats,
    words: (&str, &str),
    asked: &FleetSettings,
    on_watched: &mut dyn FnMut(&Watched),
) -> Result<LoadRecord, FleetError> {
    conducted(nats, words, asked, || {}, on_watched)
}

fn conducted(
    nats: &Nats,
    (run, text): (&str, &str),
    asked: &FleetSettings,
    mut on_interval: impl FnMut(),
    on_watched: &mut dyn FnMut(&Watched),
) -> Result<LoadRecord, FleetError> {
    let words = words(text);
    let fleet = Fleet {
        server: &nats.server(),
        asked: asked.clone(),
        run: run.to_owned(),
        meant: read(&words).unwrap(),
        words,
        patience: Duration::from_secs(if run == "absent" { 1 } else { 10 }),
        lead: Duration::from_millis(500),
        stop: &Stop::new(),
    };
    let (record, spools) = conduct(&fleet, &mut |told| match told {
        Told::Load(Event::Interval(_)) => on_interval(),
        Told::Note(line) => eprintln!("conductor: {line}"),
        Told::Watched(watched) => on_watched(watched),
        Told::Load(_) => {}
    })?;
    spools.release();
    Ok(record)
}

fn placed(agents: u32, place: &[(&str, &str)]) -> FleetSettings {
    let place = place.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    FleetSettings { place: place.collect(), ..FleetSettings::of(agents) }
}

#[test]
fn a_load_takes_the_agents_that_have_its_labels() {
    let Some(nats) = Nats::start() else { return };
    let start = |id, labels: &[_]| Member::start_as(nats.server(), id, labels, 1);
    let _members = [
        start("a1", &[("rack", "a")]),
        start("a2", &[("rack", "b"), ("kind", "gen")]),
        start("a3", &[("rack", "a"), ("kind", "gen")]),
        start("a4", &[]),
    ];
    let text = "400 period 2 400 all";
    let record = play(&nats, ("placed", text), &placed(2, &[("rack", "a")]), || {}).unwrap();
    let taken: Vec<&str> = record.agents.iter().map(|agent| agent.agent.as_str()).collect();
    assert_eq!(taken, ["a1", "a3"]);
    assert_eq!(record.counts.planned, 160);
    // One agent of two has both labels: the fleet takes no other in its place, and says what each lacks.
    let absent = play(&nats, ("absent", text), &placed(2, &[("rack", "a"), ("kind", "gen")]), || {});
    let why = absent.unwrap_err().to_string();
    assert!(why.contains("1 of 2 agents are ready"), "{why}");
    assert!(why.contains("a1 lacks the label kind=gen") && why.contains("rack=b, not rack=a"), "{why}");
}

#[test]
fn weights_share_out_the_events_of_one_machine() {
    let Some(nats) = Nats::start() else { return };
    let weights = [1, 4, 2];
    let _members: Vec<Member> = (1..)
        .zip(weights)
        .map(|(n, weight)| Member::start_as(nats.server(), &format!("a{n}"), &[], weight))
        .collect();
    for (number, text) in
        ["2100 poisson 9 700 all", "1500 ramp:500-2500 7 600 all", "closed period 7 5000 1001"]
            .into_iter()
            .enumerate()
    {
        let record = play(&nats, (&format!("w{number}"), text), &FleetSettings::of(3), || {}).unwrap();
        let meant = read(&words(text)).unwrap();
        let planned =
            |share: Share| load::planned(&meant.settings, &meant.recorded, share, meant.settings.time);
        let whole = planned(Share::whole(&meant.settings)).unwrap_or(1_001);
        assert_eq!(record.counts.planned, whole, "{text}");
        assert_eq!(record.agents.iter().map(|agent| agent.counts.planned).sum::<u64>(), whole, "{text}");
        for ((index, agent), weight) in (0..).zip(&record.agents).zip(weights) {
            assert_eq!(agent.weight, weight);
            let own = Share::weighted(index, &weights, &meant.settings).unwrap();
            assert!(planned(own).is_none_or(|own| own == agent.counts.planned), "{text}: {agent:?}");
            let part = whole as f64 * f64::from(weight) / 7.0;
            assert!((agent.counts.planned as f64 - part).abs() <= 2.0, "{text}: {agent:?} of {part}");
        }
        for name in ["agents", "slices", "slice-sums", "clock-bound"] {
            let check = record.verdict.checks.iter().find(|check| check.name == name).unwrap();
            assert!(check.ok, "{text}: {check:?}");
        }
        let odd = record.verdict.failures().find(|check| check.name == "offered-rate");
        assert!(odd.is_none(), "{text}: {odd:?}");
    }
    let few = play(&nats, ("few", "100 period 3 100 all"), &FleetSettings::of(3), || {});
    let why = few.unwrap_err().to_string();
    assert!(why.contains("by weight") && why.contains("--threads"), "{why}");
}

/// An agent that is a separate process: this test, started again.
fn agent_process(nats: &Nats, id: &str, spool: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["an_agent_for_other_tests", "--exact", "--nocapture"]);
    command.env("FLEET_URL", nats.url()).env("FLEET_ID", id).env("FLEET_SPOOL", spool);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_agent_for_other_tests() {
    let Ok(url) = std::env::var("FLEET_URL") else { return };
    let server = fleet::Server::new(&url, None, None).unwrap();
    let spool = std::env::var_os("FLEET_SPOOL").unwrap();
    serve(&server, &std::env::var("FLEET_ID").unwrap(), spool.into(), &Stop::new());
}

/// The unkind truth: the victim is killed in the middle, and its share is not given to the others.
#[test]
fn a_loss_that_is_accepted_makes_the_run_degraded_and_its_numbers_are_stated() {
    let Some(nats) = Nats::start() else { return };
    for (run, on_loss, state) in
        [("degraded", OnLoss::Degraded, Validity::Degraded), ("invalid", OnLoss::Invalid, Validity::Invalid)]
    {
        let spool = tempfile::tempdir().unwrap();
        let mut victim = agent_process(&nats, "victim", spool.path());
        let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
        let asked = FleetSettings { on_loss, ..FleetSettings::of(3) };
        let mut intervals = 0;
        let record = play(&nats, (run, "900 jitter 3 1600 all"), &asked, || {
            intervals += 1;
            if intervals == 2 {
                victim.kill().unwrap();
            }
        });
        victim.wait().unwrap();
        let record = record.unwrap();
        let lost = record.agents.iter().find(|agent| agent.lost_at_s.is_some()).unwrap();
        assert_eq!((lost.agent.as_str(), lost.counts.planned), ("victim", 480));
        let known = lost.counts.planned - lost.counts.unfinished;
        assert!(known > 0 && known < 480, "{lost:?}");
        for other in record.agents.iter().filter(|agent| agent.lost_at_s.is_none()) {
            assert_eq!((other.counts.planned, other.missing_slices.len()), (480, 0), "{other:?}");
        }
        // The machine of the test may be busy: only the checks of a fleet are this test's.
        let of_others: Vec<_> = record
            .verdict
            .failures()
            .filter(|c| !["agents", "slices", "clock-bound"].contains(&c.name))
            .collect();
        if of_others.is_empty() {
            assert_eq!(record.verdict.state, state, "{:?}", record.verdict);
        }
        let check = |name: &str| record.verdict.checks.iter().find(|check| check.name == name).unwrap();
        let told = &check("agents").text;
        assert!(told.contains(&format!("{known} of its 480 planned events are known")), "{told}");
        assert_eq!(check("clock-bound").ok, on_loss == OnLoss::Degraded, "{:?}", check("clock-bound"));
        drop(members);
    }
}

#[test]
fn an_observing_agent_has_the_measured_phase_as_its_window_and_takes_no_share() {
    let Some(nats) = Nats::start_with_password() else { return };
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let observer = Member::observing(nats.server(), "o1", &window);
    let asked = FleetSettings { observers: 1, ..FleetSettings::of(2) };
    let mut told = Vec::new();
    let record = play_and_tell(&nats, ("watched", "400 period 2 600 all"), &asked, &mut |watched| {
        told.push(watched.clone());
    })
    .unwrap();
    assert_eq!((record.agents.len(), record.counts.planned), (2, 240));
    assert_eq!(told.len(), 1);
    let Watched { agent, host, measured_from_ns, seen } = &told[0];
    assert_eq!((agent.as_str(), host.as_str()), ("o1", "here"));
    assert!(*measured_from_ns > 0);
    let Observation { numbers, missing } = seen.as_ref().unwrap();
    assert!(numbers.iter().all(|s| &*s.host == "here" && &*s.labels == "cpu=1"));
    let numbers: Vec<(i64, f64)> = numbers.iter().map(|s| (s.t_ms, s.value)).collect();
    assert_eq!(numbers, [(0, 0.25), (600, 0.5)], "a value that is no number is left out");
    assert_eq!((missing.len(), missing["power"].reason.as_str()), (1, "no zone"));
    assert!(observer.kept().is_empty(), "what was taken is removed");
    // It does not take part in a load, and the load says what lacks.
    let few = FleetSettings { observers: 2, ..FleetSettings::of(2) };
    let why = play(&nats, ("absent", "400 period 2 600 all"), &few, || {}).unwrap_err().to_string();
    assert!(why.contains("1 of 2 observers are ready"), "{why}");
    let many = play(&nats, ("absent", "400 period 3 600 all"), &FleetSettings::of(3), || {});
    let why = many.unwrap_err().to_string();
    assert!(why.contains("2 of 3 agents are ready (o1 observes)"), "{why}");
}

fn fails(_: &fleet::Window, _: &Stop) -> Result<Observation, String> {
    Err("no instruments".to_owned())
}

/// The unkind truth: the instruments fail. The load is whole, and the numbers are missing, with the reason.
#[test]
fn an_observer_that_fails_costs_its_numbers_and_not_the_load() {
    let Some(nats) = Nats::start_with_password() else { return };
    let _member = Member::start(nats.server(), "a1");
    let observer = Member::observing(nats.server(), "o1", &fails);
    let asked = FleetSettings { observers: 1, ..FleetSettings::of(1) };
    let mut told = Vec::new();
    let record = play_and_tell(&nats, ("unwatched", "400 period 2 600 all"), &asked, &mut |watched| {
        told.push(watched.clone());
    })
    .unwrap();
    assert_eq!(record.counts.planned, 240);
    assert!(record.verdict.checks.iter().find(|check| check.name == "agents").unwrap().ok);
    assert_eq!(told[0].seen, Err(Missing::because("no instruments")));
    assert!(observer.kept().is_empty(), "a failure that was told is removed");
}

#[test]
fn without_credentials_nothing_is_observed() {
    let Some(nats) = Nats::start() else { return };
    let _member = Member::start(nats.server(), "a1");
    let _observer = Member::observing(nats.server(), "o1", &window);
    let asked = FleetSettings { observers: 1, ..FleetSettings::of(1) };
    let why = play(&nats, ("anyone", "400 period 2 600 all"), &asked, || {}).unwrap_err().to_string();
    assert!(why.contains("without credentials, an agent observes nothing"), "{why}");
}

#[test]
fn a_probe_has_its_own_events_and_percentiles_and_is_in_no_sum() {
    let Some(nats) = Nats::start() else { return };
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let prober = Member::probing(nats.server(), "p1");
    let asked = FleetSettings { probe_per_s: Some(50.0), ..FleetSettings::of(2) };
    let text = "400 poisson 2 1000 all";
    let record = play(&nats, ("probed", text), &asked, || {}).unwrap();
    let meant = read(&words(text)).unwrap();
    let whole =
        load::planned(&meant.settings, &meant.recorded, Share::whole(&meant.settings), meant.settings.time);
    assert_eq!(Some(record.counts.planned), whole, "its events are not in the totals");
    assert_eq!(record.agents.iter().map(|a| a.agent.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);
    let response = record.response.as_ref().unwrap();
    assert_eq!(Some(response.merged().count()), whole, "nor in the distributions");
    let probe = record.probe.as_ref().unwrap();
    assert_eq!((probe.agent.as_str(), probe.host.as_str(), probe.per_s), ("p1", "here", 50.0));
    let own = probe.record.as_ref().unwrap();
    assert_eq!((own.counts.planned, own.settings.threads), (50, 1));
    assert_eq!(own.response.as_ref().unwrap().merged().count(), 50);
    assert!(own.verdict.checks.len() > 5 && own.agents.is_empty(), "{:?}", own.verdict);
    assert_ne!(own.settings.seed, record.settings.seed);
    // The same phase, by one clock.
    let apart = own.measured_from_ns.abs_diff(record.measured_from_ns);
    assert!(apart < 50_000_000, "{apart} ns apart");
    assert!(prober.kept().is_empty(), "what was taken is removed");
    // Without an agent for it, the load does not begin; and such an agent takes no share.
    drop(prober);
    let why = play(&nats, ("absent", text), &asked, || {}).unwrap_err().to_string();
    assert!(why.contains("no agent for the probe is ready"), "{why}");
}
