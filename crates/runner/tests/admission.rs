//! Trials on a machine that is not fit: they wait, and are then flagged, postponed or refused.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

use std::sync::atomic::{AtomicBool, Ordering};

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, RunnerError, run};
use load::Stop;
use record::bakeoff::{Bakeoff, TrialState};

const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

/// Conducts a plan of two trials with these conditions, beside a thread that keeps a CPU busy.
///
/// - `is_over`: whether a note ends the bake-off.
fn conduct(
    admission: &str,
    is_over: fn(&str) -> bool,
) -> (Result<Outcome, RunnerError>, Bakeoff, Vec<String>) {
    let text = format!(
        "schema = 1\ntitle = \"t\"\n[factors.arm]\nvalues = [\"a\", \"b\"]\nreference = \"a\"\nlevel = \"whole-plot\"\n\
         [design]\nblocks = 1\n[admission]\n{admission}\n[load]\ntarget = \"null:\"\nrate = 1000\n[phases]\n\
         prepare = \"none\"\nwarm-up = {{ min = \"20ms\" }}\nmeasure = {{ time = \"100ms\", interval = \"100ms\" }}\n"
    );
    let plan = plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let (mut id, mut notes) = (None, Vec::new());
    let (stop, is_done) = (Stop::new(), AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let outcome = run(&plan, &archive, &BESIDE, &stop, &mut |event| match event {
            Event::Started { id: its, .. } => id = Some(*its),
            Event::Note(note) => {
                if is_over(note) {
                    stop.request();
                }
                notes.push((*note).to_owned());
            }
            _ => {}
        });
        is_done.store(true, Ordering::Relaxed);
        outcome
    });
    (outcome, archive.bakeoff(id.expect("it began")).unwrap(), notes)
}

fn never(_: &str) -> bool {
    false
}

fn states(bakeoff: &Bakeoff) -> Vec<TrialState> {
    bakeoff.attempts.iter().map(|attempt| attempt.state).collect()
}

/// The fact about admission of each run.
fn facts(bakeoff: &Bakeoff, name: &str) -> Vec<Option<String>> {
    let runs = bakeoff.attempts.iter().filter_map(|attempt| attempt.run.as_ref());
    runs.map(|run| run.environment.fact(name).map(str::to_owned)).collect()
}

#[test]
fn a_trial_on_a_busy_machine_waits_and_is_then_measured_with_its_reason() {
    let (outcome, bakeoff, notes) = conduct("busy = \"0%\"\nwait = \"400ms\"", never);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(states(&bakeoff).len(), 2, "{notes:?}");
    for text in facts(&bakeoff, "trial.flag.admission") {
        let text = text.unwrap();
        assert!(text.starts_with("the machine was not fit within 400ms: other work used"), "{text}");
    }
    for waited in facts(&bakeoff, "trial.admission.waited_s") {
        assert!(waited.unwrap().parse::<f64>().unwrap() >= 0.4);
    }
    assert!(notes.iter().any(|note| note.starts_with("trial 1 waits up to 400ms: other work")), "{notes:?}");
}

#[test]
fn a_machine_within_its_conditions_admits_at_once() {
    let (outcome, bakeoff, notes) = conduct("busy = \"100%\"", never);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(facts(&bakeoff, "trial.admission.waited_s"), [None, None], "{notes:?}");
    assert_eq!(facts(&bakeoff, "trial.flag.admission"), [None, None], "{notes:?}");
}

#[test]
fn a_postponed_trial_is_measured_at_the_end_of_its_block() {
    let (outcome, bakeoff, notes) = conduct("busy = \"0%\"\nwait = \"0s\"\notherwise = \"postpone\"", never);
    assert_eq!(outcome.unwrap().planned, 0, "{notes:?}");
    let failed = bakeoff.attempts.iter().filter(|attempt| attempt.state == TrialState::Failed);
    let reasons: Vec<&str> = failed.map(|attempt| attempt.reason.as_deref().unwrap()).collect();
    assert_eq!((states(&bakeoff).len(), reasons.len()), (4, 2), "{reasons:?}");
    assert!(reasons.iter().all(|why| why.starts_with("postponed: other work used")), "{reasons:?}");
    let flagged = facts(&bakeoff, "trial.flag.admission");
    assert!(flagged.len() == 2 && flagged.iter().all(Option::is_some), "{flagged:?}");
}

#[test]
fn a_full_disk_fails_a_trial_before_it_begins() {
    let (outcome, bakeoff, _) = conduct("busy = \"100%\"\nfree = \"8000000GiB\"\nwait = \"0s\"", never);
    assert!(matches!(outcome, Err(RunnerError::BlockFailed { .. })), "{outcome:?}");
    assert!(bakeoff.attempts.iter().all(|attempt| attempt.run.is_none()));
    let reason = bakeoff.attempts[0].reason.as_deref().unwrap();
    assert!(reason.contains("MiB left"), "{reason}");
}

#[test]
fn a_user_does_not_wait_for_a_machine_that_is_never_fit() {
    let (outcome, bakeoff, notes) =
        conduct("busy = \"0%\"\nwait = \"1h\"", |note| note.starts_with("trial 1 waits"));
    assert_eq!(outcome.unwrap().planned, 2, "{notes:?}");
    assert!(bakeoff.attempts.is_empty());
}
