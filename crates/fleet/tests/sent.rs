//! A load without a command line: its settings travel, as those of a trial do.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::time::Duration;

use bakeoff_fleet::{Fleet, FleetError, Meant, Told, conduct};
use futures_util::StreamExt as _;
use load::{Event, Share, Stop};
use record::agents::FleetSettings;
use record::clock::{Clock as _, Monotonic};
use record::load::{LoadRecord, Phase, ScriptFile};
use serde_json::{Value, json};
use support::{Member, Nats, read, words};

/// Plays a load of which the agents know only the settings; tells each event with the time.
fn play(
    nats: &Nats,
    run: &str,
    meant: &Meant,
    on_event: &mut dyn FnMut(u64, &Event),
) -> Result<LoadRecord, FleetError> {
    let fleet = Fleet {
        server: &nats.server(),
        asked: FleetSettings::of(2),
        run: run.to_owned(),
        words: Vec::new(),
        meant: meant.clone(),
        patience: Duration::from_secs(10),
        lead: Duration::from_millis(500),
        stop: &Stop::new(),
    };
    let (record, spools) = conduct(&fleet, &mut |told| {
        if let Told::Load(event) = told {
            on_event(Monotonic.now_ns(), event);
        }
    })?;
    spools.release();
    Ok(record)
}

/// Events of a load with one generator; `None` for a closed loop.
fn planned(meant: &Meant) -> Option<u64> {
    let whole = Share::whole(&meant.settings);
    load::planned(&meant.settings, &meant.recorded, whole, meant.settings.time)
}

#[test]
fn agents_play_settings_as_they_play_the_words_of_the_same_load() {
    let Some(nats) = Nats::start() else { return };
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    for (number, text) in ["777.7 poisson 4 600 all", "900 ramp:300-1500 3 600 all", "closed x 2 300 5000"]
        .into_iter()
        .enumerate()
    {
        let meant = read(&words(text)).unwrap();
        let record = play(&nats, &format!("s{number}"), &meant, &mut |_, _| {}).unwrap();
        assert_eq!(record.agents.len(), 2, "{text}");
        assert!(record.agents.iter().all(|agent| agent.lost_at_s.is_none()), "{text}: {:?}", record.agents);
        let sum: u64 = record.agents.iter().map(|agent| agent.counts.planned).sum();
        assert_eq!(record.counts.planned, planned(&meant).unwrap_or(5_000), "{text}");
        assert_eq!(record.counts.planned, sum, "{text}");
    }
}

/// Instruments on the conductor's machine would otherwise measure the wait for the start too, and never end.
#[test]
fn the_measured_phase_is_told_when_it_begins_and_when_it_ends() {
    let Some(nats) = Nats::start() else { return };
    let _members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let meant = read(&words("500 period 2 700 all")).unwrap();
    let mut told: Vec<(u64, &str, u64)> = Vec::new();
    play(&nats, "phases", &meant, &mut |now_ns, event| match event {
        Event::PhaseStarts { phase: Phase::Measure, at_ns } => told.push((now_ns, "begins", *at_ns)),
        Event::MeasureEnds => told.push((now_ns, "ends", 0)),
        _ => {}
    })
    .unwrap();
    assert_eq!(told.iter().map(|(_, what, _)| *what).collect::<Vec<_>>(), ["begins", "ends"]);
    let (begun_ns, at_ns, ended_ns) = (told[0].0, told[0].2, told[1].0);
    assert!(begun_ns >= at_ns, "told {} ns before the phase", at_ns - begun_ns);
    assert!(ended_ns >= at_ns + 700_000_000, "told {} ns after the beginning", ended_ns - at_ns);
}

#[test]
fn settings_that_do_not_arrive_as_they_are_are_not_sent() {
    let Some(nats) = Nats::start() else { return };
    let members: Vec<Member> = (1..=2).map(|n| Member::start(nats.server(), &format!("a{n}"))).collect();
    let good = read(&words("500 period 2 700 all")).unwrap();
    // The archive's form masks it; it is sent beside the form.
    let mut header = good.clone();
    header.settings.http.headers = vec!["Authorization: Bearer s3cret".to_owned()];
    let record = play(&nats, "header", &header, &mut |_, _| {}).unwrap();
    assert_eq!(Some(record.counts.planned), planned(&good));
    let mut masked = good.clone();
    masked.settings.exec.environment = vec![("DB_PASSWORD".to_owned(), "s3cret".to_owned())];
    let mut script = good.clone();
    script.settings.scripts.files =
        vec![ScriptFile { name: "x.lua".into(), text: "function event() end".into(), weight: 1 }];
    for (run, meant) in [("masked", masked), ("script", script)] {
        let error = play(&nats, run, &meant, &mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains("fleet cannot"), "{run}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert!(members.iter().all(|member| member.kept().is_empty()));
}

/// Gives a plan, and returns why the agent refuses it.
fn refusal(nats: &Nats, plan: &Value) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(nats.url()).await.unwrap();
        let run = plan["run"].as_str().unwrap();
        let mut beats = client.subscribe(format!("bakeoff.{run}.beat.a1")).await.unwrap();
        while client.request("bakeoff.agent.a1", plan.to_string().into()).await.is_err() {
            // The agent may still be connecting.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        loop {
            let beat: Value = serde_json::from_slice(&beats.next().await.unwrap().payload).unwrap();
            match beat["state"].as_str().unwrap() {
                "refused" => return beat["why"].as_str().unwrap().to_owned(),
                state => assert_eq!(state, "preparing", "{beat}"),
            }
        }
    })
}

#[test]
fn settings_from_anyone_are_harmless_or_refused() {
    let Some(nats) = Nats::start() else { return };
    let member = Member::start(nats.server(), "a1");
    let form = |text: &str| archive::documents::of_settings(&read(&words(text)).unwrap().settings);
    let plan = |run: &str, target: &str, settings: &Value| {
        json!({"order": "prepare", "run": run, "words": [], "index": 0, "of": 1, "sha256": "00",
               "settings": {"target": target, "settings": settings}})
    };
    let good = form("10 period 1 100 all");
    let greedy = |change: fn(&mut record::load::LoadSettings)| {
        let mut settings = read(&words("10 period 1 100 all")).unwrap().settings;
        change(&mut settings);
        archive::documents::of_settings(&settings)
    };
    let awake = greedy(|settings| settings.client.keep_awake = true);
    for (asked, why) in [
        // The sum is another one: everything else was accepted.
        (plan("r1", "null:", &good), "was changed"),
        (plan("r2", "http://192.0.2.1/", &good), "loads only null:"),
        (plan("r3", "exec:touch planted", &good), "loads only null:"),
        (plan("r4", "null:", &form("10 period 1 3600001 all")), "at most an hour"),
        (plan("r5", "null:", &awake), "takes the machine from its other users"),
        (plan("r6", "null:", &json!({})), "missing field"),
    ] {
        let found = refusal(&nats, &asked);
        assert!(found.contains(why), "{asked}: {found}");
    }
    assert!(member.kept().is_empty());
}
