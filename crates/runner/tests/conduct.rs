//! Bake-offs from end to end: on the null driver and SQLite, with servers that live, die or never start.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use archive::{Archive, JournalEvent, Step};
use bakeoff_runner::{Event, Options, Outcome, RunnerError, resume, run};
use load::Stop;
use plan::Plan;
use record::bakeoff::TrialState::{self, Abandoned, Failed, Invalid, Sealed};
use record::bakeoff::{Bakeoff, Trial};
use record::clock::WallAnchor;
use record::load::Phase;
use record::run::{RunId, RunState};
use record::series::Sample;

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

const NULL: &str = r#"
schema = 1
title  = "Nothing under two names"
[factors.name]
values    = ["one", "other"]
reference = "one"
level     = "whole-plot"
[factors.threads]
values = [1, 2]
level  = "sub-plot"
[design]
blocks = 2
[load]
target  = "null:"
threads = "{threads}"
rate    = 1000
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[observe]
instruments = ["cpu", "io"]
"#;

fn plan(text: &str) -> Plan {
    plan::read(text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the number of measured trials. On a busy machine one may be INVALID, which also means that it was
/// measured.
fn measured(outcome: &Outcome) -> u32 {
    outcome.sealed + outcome.invalid
}

/// Returns the ends of the attempts, with invalid ones as sealed.
fn states(bakeoff: &Bakeoff) -> Vec<(u32, TrialState)> {
    let state = |state| if state == Invalid { Sealed } else { state };
    bakeoff.attempts.iter().map(|a| (a.trial, state(a.state))).collect()
}

/// Returns the scratch folders in a bake-off's journal.
fn scratches_of(archive: &Archive, id: RunId) -> Vec<PathBuf> {
    let journal = archive.dir().join(format!("bakeoffs/{id}/events.jsonl"));
    let journal = std::fs::read_to_string(journal).expect("a bake-off has a journal");
    let folder = |line: &str| Some(line.split_once("\"folder\":\"")?.1.split_once('"')?.0.into());
    let folders: Vec<PathBuf> = journal.lines().filter_map(folder).collect();
    assert!(!folders.is_empty(), "{journal}");
    folders
}

fn check_scratches_are_gone(archive: &Archive, id: RunId) {
    for folder in scratches_of(archive, id) {
        assert!(!folder.exists(), "{} is left", folder.display());
    }
}

/// Checks properties of every finished bake-off.
fn check_whole(archive: &Archive, outcome: &Outcome) -> Bakeoff {
    assert_eq!(outcome.planned, 0, "it came to its end: {outcome:?}");
    let bakeoff = archive.bakeoff(outcome.id).expect("it reads back");
    // On a busy machine every trial may be INVALID, and then the bake-off has no result.
    let expected = match (outcome.sealed, outcome.invalid) {
        (0, 1..) => RunState::Invalid,
        _ => RunState::Sealed,
    };
    assert_eq!((outcome.state, bakeoff.header.state), (expected, expected), "{outcome:?}");
    let mut kept: BTreeMap<u32, u32> = BTreeMap::new();
    for attempt in &bakeoff.attempts {
        if matches!(attempt.state, Sealed | Invalid) {
            *kept.entry(attempt.trial).or_default() += 1;
            let run = attempt.run.as_ref().expect("a measured attempt has its run");
            assert_eq!(run.header.bakeoff, Some(outcome.id));
            assert_eq!(run.header.labels["trial"], attempt.trial.to_string());
            assert!(run.load.as_ref().expect("it drove a load").counts.balance());
        }
    }
    assert!(kept.values().all(|n| *n == 1), "no trial is measured twice: {kept:?}");
    assert_eq!(kept.len(), measured(outcome) as usize);
    check_scratches_are_gone(archive, outcome.id);
    bakeoff
}

#[test]
fn every_trial_is_measured_once_in_the_order_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan(NULL);
    let mut ended = Vec::new();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Ended { trial, .. } = event {
            ended.push(trial.index);
        }
    })
    .unwrap();
    assert_eq!(ended, (0..8).collect::<Vec<_>>());
    let bakeoff = check_whole(&archive, &outcome);
    assert_eq!(bakeoff.trials, plan.trials());
    assert_eq!(bakeoff.attempts.len(), 8);
    assert!(bakeoff.exploratory);
    assert!(bakeoff.environment.fact("observe.cpu").is_some());
    assert!(bakeoff.environment.facts.contains_key("observe.io"), "what is not seen is missing, not absent");
    for (trial, attempt) in bakeoff.trials.iter().zip(&bakeoff.attempts) {
        let run = attempt.run.as_ref().unwrap();
        assert_eq!(run.load.as_ref().unwrap().settings.threads.to_string(), trial.levels["threads"]);
        assert_eq!(run.header.labels["name"], trial.levels["name"]);
        assert!(!run.cpu.is_empty(), "the CPUs were watched");
    }
}

#[test]
fn a_bakeoff_whose_trials_are_all_invalid_is_invalid_here_and_in_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    // One thread that sleeps 50 ms per event cannot do 1000 events per second, on any machine.
    let text = NULL
        .replace("\"null:\"", "\"exec:sleep 0.05\"")
        .replace("values = [1, 2]", "values = [1]")
        .replace("values    = [\"one\", \"other\"]", "values    = [\"one\"]");
    let outcome = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |_| ()).unwrap();
    assert_eq!((outcome.sealed, outcome.invalid, outcome.state), (0, 2, RunState::Invalid));
    assert_eq!(check_whole(&archive, &outcome).header.state, RunState::Invalid);
    // A finished bake-off does not change.
    let again = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| ()).unwrap();
    assert_eq!(again, outcome);
}

#[test]
fn commands_that_run_as_root_are_said_and_recorded() {
    let is_root = nix::unistd::geteuid().is_root();
    let own = if is_root { "root" } else { "the user who ran bakeoff" };
    let conducted = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let mut said = false;
        let outcome = run(&plan(text), &archive, &BESIDE, &Stop::new(), &mut |event| {
            said |= matches!(event, Event::Note(note) if note.contains("run as root"));
        });
        let bakeoff = archive.bakeoff(outcome.unwrap().id).unwrap();
        (said, bakeoff.environment.fact("plan.commands_run_as").unwrap().to_owned())
    };
    // No command is executed.
    assert_eq!(conducted(NULL), (false, own.to_owned()));
    assert_eq!(conducted(&NULL.replace("\"null:\"", "\"exec:true\"")), (is_root, own.to_owned()));
    let (said, run_as) = conducted(with_server(GOOD, "").text());
    assert!(!said && (!is_root || run_as == "an unprivileged user id chosen for the run"), "{run_as}");
}

#[test]
fn a_bakeoff_whose_time_budget_is_used_up_is_left_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    // The phases of the 4 series take 0.96 s; setup alone takes longer than the budget.
    let text = NULL.replace("blocks = 2", "blocks = 2\ntime_budget = \"1s\"");
    let slow = text.replace("[phases]", "[phases]\nsetup = { run = \"sleep 1.1\", timeout = \"1m\" }");
    let mut notes = Vec::new();
    let outcome = run(&plan(&slow), &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Note(note) = event {
            notes.push((*note).to_owned());
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(
        (outcome.state, measured(&outcome), outcome.planned),
        (RunState::Interrupted, 2, 6),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.contains("is used up") && note.contains("1 series")), "{notes:?}");
    // Each resume completes a series.
    for left in [4, 2, 0] {
        let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
        assert_eq!(resumed.planned, left);
    }
}

#[test]
fn each_trial_is_asked_for_its_values_and_one_without_a_number_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let run_with = |command: &str| {
        let text = format!("{NULL}\n[values.of_threads_count]\nrun = \"{command}\"\n");
        let outcome = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |_| ()).unwrap();
        archive.bakeoff(outcome.id).unwrap()
    };
    let bakeoff = run_with("echo of {scratch}; echo {threads}");
    for attempt in bakeoff.attempts {
        let run = attempt.run.expect("it was measured");
        let own: Vec<&Sample> = run.series.iter().filter(|s| s.labels == Sample::OF_TRIAL).collect();
        let [sample] = own[..] else { panic!("one value: {own:?}") };
        assert_eq!(sample.name, "of_threads_count");
        assert_eq!(sample.value.to_string(), run.header.labels["threads"]);
    }
    // The second trial of a series must not get the output of the first.
    let bakeoff = run_with("test -e {scratch}/seen || echo 1; touch {scratch}/seen");
    let failed = bakeoff.attempts.iter().filter(|a| a.state == Failed);
    let reasons: Vec<_> = failed.filter_map(|a| a.reason.as_deref()).collect();
    assert_eq!(
        reasons,
        vec!["of_threads_count: its last line of output, ``, is not a number"; bakeoff.trials.len() / 2]
    );
}

#[test]
fn within_a_block_a_cell_has_the_same_events_in_every_configuration_and_no_two_cells_have_the_same() {
    let plan = plan(NULL);
    let (mut data, mut events) = (BTreeMap::new(), BTreeMap::new());
    for trial in plan.trials() {
        let settings = plan.load_settings(&trial, Path::new("/s"));
        let threads = trial.levels["threads"].clone();
        // The data set is that of the series, for every trial on it.
        assert_eq!(*data.entry(trial.block).or_insert(settings.seed), settings.seed);
        let of_cell = *events.entry((trial.block, threads)).or_insert(settings.event_seed());
        assert_eq!(of_cell, settings.event_seed(), "one configuration gets other events");
    }
    let apart =
        |seeds: Vec<u64>| seeds.iter().collect::<std::collections::BTreeSet<_>>().len() == seeds.len();
    assert!(apart(data.values().copied().collect()), "each block has its own data: {data:?}");
    assert!(apart(events.values().copied().collect()), "the same events twice on one server: {events:?}");
}

#[test]
fn what_its_user_stops_is_resumed_to_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let stop = Stop::new();
    let mut begun = 0;
    let outcome = run(&plan(NULL), &archive, &BESIDE, &stop, &mut |event| {
        if let Event::Load(load::Event::PhaseStarts { phase: record::load::Phase::Measure, .. }) = event {
            begun += 1;
            if begun == 3 {
                stop.request();
            }
        }
    })
    .unwrap();
    assert_eq!((outcome.state, measured(&outcome), outcome.planned), (RunState::Interrupted, 2, 6));
    check_scratches_are_gone(&archive, outcome.id);
    assert_eq!(archive.bakeoff(outcome.id).unwrap().header.state, RunState::Interrupted);

    let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = check_whole(&archive, &resumed);
    assert_eq!(measured(&resumed), 8);
    let states = states(&bakeoff);
    // Trial 2 was interrupted. It stays as abandoned, and its series is repeated at the end of the block,
    // which is also its original position.
    assert_eq!(states[..4], [(0, Sealed), (1, Sealed), (2, Abandoned), (2, Sealed)]);
    assert_eq!(states.len(), 9);

    let again = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(again, resumed, "there is nothing left to do");
}

#[test]
fn asked_twice_to_stop_it_does_not_wait_for_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let stop = Stop::new();
    let deaf = with_server("trap : TERM; touch {scratch}/ready; while :; do sleep 0.1; done", "");
    let text = deaf.text().replace("stop_timeout  = \"10s\"", "stop_timeout = \"1d\"");
    let outcome = run(&plan(&text), &archive, &BESIDE, &stop, &mut |event| match event {
        Event::Trial(_) | Event::Series { step: "teardown", .. } => stop.request(),
        _ => {}
    })
    .unwrap();
    assert_eq!((outcome.state, outcome.planned), (RunState::Interrupted, 2));
}

#[test]
fn nobody_resumes_what_somebody_conducts() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut tried = None;
    let mut id = None;
    run(&plan(NULL), &archive, &BESIDE, &Stop::new(), &mut |event| match event {
        Event::Started { id: its, .. } => id = Some(*its),
        Event::Trial(_) if tried.is_none() => {
            tried = Some(resume(&archive, id.unwrap(), &BESIDE, &Stop::new(), &mut |_| {}));
        }
        _ => {}
    })
    .unwrap();
    let refused = tried.unwrap().unwrap_err();
    assert!(matches!(refused, RunnerError::Archive(archive::ArchiveError::Busy { .. })), "{refused}");
}

/// Builds a plan with a server: a shell that runs `script`, for one trial of 100 ms in each of two blocks.
fn with_server(script: &str, extra: &str) -> Plan {
    plan(&format!(
        r#"
schema = 1
title  = "With a server"
[design]
blocks = 2
[load]
target = "null:"
rate   = 1000
[server]
command = "sh -c '{script}'"
ready   = "test -e {{scratch}}/ready"
ready_timeout = "10s"
stop_timeout  = "10s"
{extra}
[phases]
prepare = "none"
warm-up = {{ min = "20ms" }}
measure = {{ time = "200ms", interval = "100ms" }}
"#
    ))
}

const GOOD: &str = "echo hello; touch {scratch}/ready; exec sleep 1000";

#[test]
fn each_series_has_its_own_server_and_its_log_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let outcome = run(&with_server(GOOD, ""), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = check_whole(&archive, &outcome);
    assert_eq!(measured(&outcome), 2);
    for attempt in &bakeoff.attempts {
        let id = attempt.run.as_ref().unwrap().header.id;
        assert!(folder.path().join(format!("runs/{id}/server.log.zst")).exists());
    }
}

#[test]
fn a_server_that_dies_once_costs_its_series_one_more_server() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    // A folder in which any user of the server may write.
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (asked, died) = (outside.path().join("asked"), outside.path().join("died"));
    // The first one lives until the measured phase of its trial; every other one lives on.
    let script = format!(
        "touch {{scratch}}/ready; if test -e {0}; then exec sleep 1000; fi; \
         until test -e {1}; do sleep 0.01; done; echo ouch; touch {0}; exit 3",
        died.display(),
        asked.display()
    );
    let mut kill_once = |event: &Event<'_>| {
        let Event::Load(load::Event::PhaseStarts { phase: Phase::Measure, .. }) = event else { return };
        std::fs::write(&asked, "").unwrap();
        while !died.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let outcome = run(&with_server(&script, ""), &archive, &BESIDE, &Stop::new(), &mut kill_once).unwrap();
    let bakeoff = check_whole(&archive, &outcome);
    assert_eq!((measured(&outcome), outcome.failed), (2, 0));
    let states = states(&bakeoff);
    assert_eq!(states, [(0, Failed), (0, Sealed), (1, Sealed)]);
    let reason = bakeoff.attempts[0].reason.as_deref().unwrap();
    assert_eq!(reason, "the server ended during the trial; it said: ouch");
}

#[test]
fn a_server_that_never_works_ends_the_bakeoff_after_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut id = None;
    let error =
        run(&with_server("echo no licence; exit 1", ""), &archive, &BESIDE, &Stop::new(), &mut |event| {
            if let Event::Started { id: its, .. } = event {
                id = Some(*its);
            }
        })
        .unwrap_err();
    let RunnerError::BlockFailed { block, reason, .. } = &error else { panic!("{error}") };
    assert_eq!(*block, 1);
    assert_eq!(reason, "the server: it ended before it was ready; it said: no licence");
    assert_eq!(error.class(), load::ErrorClass::Server);
    let bakeoff = archive.bakeoff(id.unwrap()).unwrap();
    assert_eq!(bakeoff.attempts.iter().filter(|a| a.state == Failed).count(), 2);
    check_scratches_are_gone(&archive, id.unwrap());
}

#[test]
fn a_server_that_does_not_heed_its_signal_is_killed_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let deaf = with_server("trap : TERM; touch {scratch}/ready; while :; do sleep 0.1; done", "");
    let text = deaf.text().replace("stop_timeout  = \"10s\"", "stop_timeout = \"50ms\"");
    let mut notes = Vec::new();
    let outcome = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Note(note) = event {
            notes.push((*note).to_owned());
        }
    })
    .unwrap();
    check_whole(&archive, &outcome);
    let told = notes
        .iter()
        .filter(|n| n.contains("did not end within 50ms after SIGTERM, so bakeoff killed it"))
        .count();
    assert_eq!(told, 2, "{notes:?}");
}

#[test]
fn a_library_that_is_not_preloaded_fails_the_server_and_one_that_is_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    // A library that every Debian has and that `sleep` does not use by itself.
    let preload = "[server.env]\nLD_PRELOAD = \"libutil.so.1\"";
    let good = run(&with_server(GOOD, preload), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    check_whole(&archive, &good);

    let drops_it = "touch {scratch}/ready; unset LD_PRELOAD; exec sleep 1000";
    let error =
        run(&with_server(drops_it, preload), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("LD_PRELOAD names libutil.so.1, but the server runs without it"), "{text}");
}

#[test]
fn what_the_machine_lacks_is_told_before_anything_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let lacks = with_server(GOOD, "cpus = [\"1000\"]\n[server.env]\nLD_PRELOAD = \"libno-such.so.9\"");
    let text = lacks.text().replace("command = \"sh ", "command = \"no-such-server ");
    let error = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    let RunnerError::NotFit { problems } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(error.class(), load::ErrorClass::Environment);

    let unknown = NULL.replace("null:", "nul:");
    let error = run(&plan(&unknown), &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert_eq!(error.class(), load::ErrorClass::Usage, "{error}");
    assert!(archive.list(&archive::Filter::default()).unwrap().is_empty());
}

#[test]
fn a_plan_with_a_password_is_not_resumed_with_a_mask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let secret = NULL.replace("title  = \"Nothing", "question = \"mysql://a:secret@h/b\"\ntitle = \"Nothing");
    let stop = Stop::new();
    stop.request();
    let outcome = run(&plan(&secret), &archive, &BESIDE, &stop, &mut |_| {}).unwrap();
    assert_eq!((outcome.state, outcome.planned), (RunState::Interrupted, 8));
    let error = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, RunnerError::PlanMasked { .. }), "{error}");
}

#[test]
fn a_run_that_was_whole_when_its_process_died_is_adopted_and_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let stop = Stop::new();
    let outcome = run(&plan(NULL), &archive, &BESIDE, &stop, &mut |event| {
        if let Event::Ended { trial: Trial { index: 1, .. }, .. } = event {
            stop.request();
        }
    })
    .unwrap();
    assert_eq!(measured(&outcome), 2);

    // Remains of a process that dies between a run's last rename and its line in the journal.
    let bakeoff = archive.bakeoff(outcome.id).unwrap();
    let mut orphan = bakeoff.attempts[1].run.clone().unwrap();
    orphan.header.id = RunId::fresh(WallAnchor::now());
    orphan.header.state = RunState::Sealed;
    orphan.header.reason = None;
    orphan.header.labels.insert("trial".into(), "2".into());
    let mut journal = archive.journal(outcome.id).unwrap();
    let warming = JournalEvent {
        at_unix_ns: 0,
        at_monotonic_ns: 0,
        series: Some(2),
        trial: Some(2),
        attempt: Some(1),
        step: Step::TrialWarming,
    };
    journal.append(&warming).unwrap();
    drop(journal);
    archive.begin(&orphan.header).unwrap().seal(&orphan).unwrap();

    let mut begun = Vec::new();
    let resumed = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Trial(trial) = event {
            begun.push(trial.index);
        }
    })
    .unwrap();
    assert_eq!(begun, [3, 4, 5, 6, 7]);
    let bakeoff = check_whole(&archive, &resumed);
    assert_eq!(measured(&resumed), 8);
    assert_eq!(bakeoff.attempts[2].run.as_ref().unwrap().header.id, orphan.header.id);
    assert_eq!(bakeoff.attempts.len(), 8);
}

#[test]
fn a_password_that_setup_prints_reaches_no_file_and_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let setup = "[phases]\nsetup = { run = \"echo no way to mysql://app:hush77@h/db; exit 1\" }";
    let text = NULL.replace("[phases]", setup).replace("hush77", "hush$((70+7))");
    let mut told = Vec::new();
    let error = run(&plan(&text), &archive, &BESIDE, &Stop::new(), &mut |event| {
        told.push(format!("{event:?}"));
    })
    .unwrap_err();
    assert!(error.to_string().contains("mysql://app:***@h/db"), "{error}");
    assert!(!format!("{error:?}{told:?}").contains("hush77"), "{error:?} {told:?}");
    let mut folders = vec![folder.path().to_owned()];
    let mut files = 0;
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(6).any(|w| w == b"hush77"), "{}", path.display());
        }
    }
    assert!(files >= 5, "{files}");
}

#[test]
fn a_trial_is_in_the_archive_before_it_rests() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let stop = Stop::new();
    let rests = plan(&NULL.replace("[phases]", "[phases]\ncooldown = \"1h\""));
    let outcome = run(&rests, &archive, &BESIDE, &stop, &mut |event| {
        if let Event::Ended { .. } = event {
            stop.request();
        }
    })
    .unwrap();
    assert_eq!((measured(&outcome), outcome.planned), (1, 7));
    let journal =
        std::fs::read_to_string(folder.path().join(format!("bakeoffs/{}/events.jsonl", outcome.id))).unwrap();
    let at = |step: &str| {
        journal.find(&format!("\"step\":\"{step}\"")).unwrap_or_else(|| panic!("{step}: {journal}"))
    };
    let end = if outcome.invalid == 1 { "trial-invalid" } else { "trial-sealed" };
    assert!(at("trial-warming") < at("trial-measuring"), "{journal}");
    assert!(at("trial-measuring") < at(end) && at(end) < at("trial-cooldown"), "{journal}");
    assert_eq!(archive.bakeoff(outcome.id).unwrap().attempts.len(), 1);
}

#[test]
fn that_a_plan_with_a_secret_needs_its_own_file_is_said_before_it_starts() {
    let warned = |text: &str| plan(text).notes().iter().any(|note| note.text.contains("looks like a secret"));
    assert!(!warned(NULL));
    assert!(warned(
        &NULL.replace("title  = \"Nothing", "question = \"mysql://a:secret@h/b\"\ntitle = \"Nothing")
    ));
    assert!(!warned(
        &NULL.replace("title  = \"Nothing", "question = \"mysql://a:{env:PW}@h/b\"\ntitle = \"Nothing")
    ));
}
