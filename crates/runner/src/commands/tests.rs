use std::path::Path;

use record::commands::{Compared, Rules};

use super::*;

/// Comparison of shell scripts, one measured round each, without a lock on the machine for other tests.
fn plan(scripts: &[&str]) -> CommandsPlan {
    let command = |script: &&str| CommandPlan {
        words: ["sh", "-c", script].map(str::to_owned).into(),
        output: Output::Null,
        setup: None,
        prepare: None,
        conclude: None,
        cleanup: None,
    };
    let compared = |script: &&str| Compared { text: (*script).to_owned(), parameters: [].into() };
    CommandsPlan {
        comparison: Comparison {
            commands: scripts.iter().map(compared).collect(),
            reference: 0,
            rules: Rules { rope_ratio: 0.01, alpha: 0.05, seed: 7, gates: Vec::new() },
            rounds_planned: 0,
            settings: [].into(),
            rounds: Vec::new(),
        },
        commands: scripts.iter().map(command).collect(),
        input: None,
        failures: Failures::End,
        warmup: 1,
        rounds: Some(4),
        time: Duration::from_mins(1),
        timeout: Duration::from_mins(1),
        by_events: false,
    }
}

fn conducted(plan: &CommandsPlan, stop: &Stop) -> Result<Conducted, RunnerError> {
    let _alone = strays::alone();
    commands(plan, WallAnchor::now(), true, stop, &|_, fit| fit, &mut |_| {})
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn every_round_has_every_command_once_in_the_order_drawn_and_hooks_surround_each() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let say = |what: &str| format!("echo {what} >> {}", log.display());
    let mut plan = plan(&[&say("a"), &say("b"), &say("c")]);
    for (command, name) in plan.commands.iter_mut().zip(["a", "b", "c"]) {
        command.prepare = Some(say(&format!("before-{name}")));
        command.conclude = Some(say(&format!("after-{name}")));
        command.setup = Some(say(&format!("setup-{name}")));
        command.cleanup = Some(say(&format!("cleanup-{name}")));
    }
    let found = conducted(&plan, &Stop::new()).unwrap();
    let mut expected: Vec<String> = ["a", "b", "c"].map(|name| format!("setup-{name}")).into();
    for number in 1..=5 {
        for command in plan::shuffled(7, number, 3) {
            let name = ["a", "b", "c"][command];
            expected.extend([format!("before-{name}"), name.to_owned(), format!("after-{name}")]);
        }
    }
    expected.extend(["a", "b", "c"].map(|name| format!("cleanup-{name}")));
    assert_eq!(lines(&log), expected);
    assert_eq!(found.comparison.whole_rounds(Phase::Measured).count(), 4);
    assert_eq!(found.comparison.rounds.len(), 5);
    assert_eq!((found.ended, found.comparison.rounds_planned), (None, 4));
}

#[test]
fn the_pilot_fixes_the_number_of_rounds_and_its_rounds_do_not_count() {
    let plan = CommandsPlan { rounds: None, ..plan(&["true", "true"]) };
    let _alone = strays::alone();
    let decide = |pilot: &Comparison, fit: u32| {
        assert_eq!(pilot.whole_rounds(Phase::Pilot).count(), PILOT_ROUNDS as usize);
        assert_eq!(pilot.whole_rounds(Phase::Measured).count(), 0);
        assert!(fit > 9, "a minute is enough for more: {fit}");
        9
    };
    let found = commands(&plan, WallAnchor::now(), true, &Stop::new(), &decide, &mut |_| {}).unwrap();
    assert_eq!(found.comparison.whole_rounds(Phase::Measured).count(), 9);
}

#[test]
fn a_failure_before_the_first_measured_round_is_an_error_and_later_it_ends_the_comparison() {
    let said = |error: RunnerError| error.to_string();
    let error = conducted(&plan(&["true", "echo no disk >&2; exit 3"]), &Stop::new()).unwrap_err();
    assert!(said(error).contains("B ended with exit code 3 in warm-up round 1; it said: no disk"));
    let missing = CommandPlan { words: vec!["no-such-program".into()], ..plan(&["true"]).commands.remove(0) };
    let mut with_missing = plan(&["true", "no-such-program"]);
    with_missing.commands[1] = missing;
    let error = conducted(&with_missing, &Stop::new()).unwrap_err();
    assert!(matches!(error, RunnerError::NoCommand { .. }), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = format!("echo x >> {0}; test $(wc -l < {0}) -lt 4", count.display());
    let found = conducted(&plan(&["true", &script]), &Stop::new()).unwrap();
    assert!(
        matches!(&found.ended, Some(Early::Failed(why)) if why.contains("measured round 3")),
        "{:?}",
        found.ended
    );
    assert_eq!(found.comparison.whole_rounds(Phase::Measured).count(), 2);
    let ignoring = CommandsPlan { failures: Failures::IgnoredCodes(vec![1]), ..plan(&["true", "exit 1"]) };
    assert_eq!(conducted(&ignoring, &Stop::new()).unwrap().ended, None);
}

#[test]
fn a_failing_hook_names_itself() {
    let mut plan = plan(&["true", "true"]);
    plan.commands[1].prepare = Some("echo gone >&2; exit 4".into());
    let error = conducted(&plan, &Stop::new()).unwrap_err().to_string();
    assert!(
        error.contains("--prepare `echo gone >&2; exit 4` ended with exit status: 4; it said: gone"),
        "{error}"
    );
}

#[test]
fn what_a_command_leaves_in_another_session_is_counted_and_ended_and_a_server_of_the_setup_lives() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("server");
    let mut plan = plan(&["true", "setsid sleep 1000 & exit 0"]);
    let server =
        format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &", note.display());
    plan.commands[0].setup = Some(format!("{server} while [ ! -e {} ]; do sleep 0.01; done", note.display()));
    let found = conducted(&plan, &Stop::new()).unwrap();
    let left: u32 = found.comparison.turns_of(1, Phase::Measured).map(|turn| turn.left).sum();
    let pid: i32 = std::fs::read_to_string(&note).unwrap().trim().parse().unwrap();
    let pid = nix::unistd::Pid::from_raw(pid);
    assert_eq!(nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL), Ok(()), "the server lives");
    let _ = nix::sys::wait::waitpid(pid, None);
    assert_eq!(left, 4, "one in each of four rounds");
    assert_eq!(found.comparison.turns_of(0, Phase::Measured).map(|turn| turn.left).sum::<u32>(), 0);
}

#[test]
fn a_server_of_the_setup_lives_without_its_mark_and_so_does_what_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("server");
    let mut plan = plan(&["true", "setsid env -i sleep 1000 & exit 0"]);
    // As a daemon that clears its environment. Later it starts a process that loses its parent.
    let server = format!(
        "setsid env -i PATH=$PATH sh -c '(sleep 0.1; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}) & exec sleep 1000' &",
        note.display()
    );
    plan.commands[0].setup = Some(format!("{server} sleep 0.05"));
    plan.commands[0].conclude = Some(format!("while [ ! -e {} ]; do sleep 0.01; done", note.display()));
    let found = conducted(&plan, &Stop::new()).unwrap();
    let pid = nix::unistd::Pid::from_raw(std::fs::read_to_string(&note).unwrap().trim().parse().unwrap());
    let session = nix::unistd::getsid(Some(pid));
    let kill = |pid| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    assert_eq!(session.map(kill), Ok(Ok(())), "the server lives");
    assert_eq!(kill(pid), Ok(()), "and what it started");
    for dead in [session.unwrap(), pid] {
        let _ = nix::sys::wait::waitpid(dead, None);
    }
    let left =
        |command| found.comparison.turns_of(command, Phase::Measured).map(|turn| turn.left).sum::<u32>();
    assert_eq!((left(0), left(1)), (0, 4));
}

#[test]
fn what_a_failed_or_a_hanging_command_leaves_is_ended_too() {
    for script in ["exit 3", "exec sleep 1000"] {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("left");
        let left =
            format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &", note.display());
        let waits = format!("while [ ! -e {} ]; do sleep 0.01; done", note.display());
        let script = format!("{left} {waits}; {script}");
        let plan = CommandsPlan { timeout: Duration::from_secs(1), ..plan(&["true", &script]) };
        assert!(matches!(conducted(&plan, &Stop::new()), Err(RunnerError::Command { .. })));
        let pid = nix::unistd::Pid::from_raw(std::fs::read_to_string(&note).unwrap().trim().parse().unwrap());
        assert_eq!(nix::sys::signal::kill(pid, None), Err(nix::errno::Errno::ESRCH), "{script}");
    }
}

#[test]
fn each_command_is_cleaned_up_also_if_the_cleanup_of_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut plan = plan(&["true", "true", "true"]);
    plan.commands[0].cleanup = Some("exit 1".into());
    plan.commands[1].cleanup = Some(format!("echo b >> {}", log.display()));
    plan.commands[2].cleanup = Some("exit 2".into());
    let found = conducted(&plan, &Stop::new()).unwrap();
    assert!(
        matches!(&found.ended, Some(Early::Failed(why)) if why.contains("exit status: 1")),
        "{:?}",
        found.ended
    );
    assert_eq!(lines(&log), ["b"]);
}

#[test]
fn a_stop_before_the_first_round_measures_nothing_and_still_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut plan = plan(&["true", "true"]);
    plan.commands[0].cleanup = Some(format!("echo cleaned >> {}", log.display()));
    let stop = Stop::new();
    stop.request();
    assert!(matches!(conducted(&plan, &stop), Err(RunnerError::StoppedBefore)));
    assert_eq!(lines(&log), ["cleaned"]);
}

#[test]
fn slow_commands_get_no_pilot_and_what_fits_is_at_least_two_rounds() {
    assert_eq!(fit(Duration::from_mins(1), 40_000_000_000, 40_000_000_000), 2);
    assert_eq!(fit(Duration::from_mins(1), 10_000_000_000, 10_000_000_000), 5);
    assert_eq!(fit(Duration::from_mins(1), 0, 0), ROUNDS_MAX);
    let plan = CommandsPlan { rounds: None, time: Duration::from_millis(1), ..plan(&["true", "true"]) };
    let found = conducted(&plan, &Stop::new()).unwrap();
    assert_eq!(found.comparison.whole_rounds(Phase::Pilot).count(), 0);
    assert_eq!(found.comparison.whole_rounds(Phase::Measured).count(), 2);
}

#[test]
fn a_command_that_ends_after_the_timeout_has_timed_out_even_if_nothing_looked_in_between() {
    let timeout = Duration::from_millis(20);
    let plan = CommandsPlan { timeout, ..plan(&["true", "exec sleep 0.06"]) };
    // The warm-up or the first round meets it.
    let error = conducted(&plan, &Stop::new()).map(|found| found.ended).unwrap_err().to_string();
    assert!(error.contains("did not end within 20ms (--timeout)"), "{error}");
}
