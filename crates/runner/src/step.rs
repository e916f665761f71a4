//! A command of the plan: setup, prepare, or a value of a trial.

use load::Stop;
use plan::Step;

use crate::log::Log;
use crate::process::Waited;
use crate::workspace::Workspace;

/// Reason that a command did not succeed.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// The command failed, also in its last attempt.
    Failed(String),
    /// The user requested to stop.
    Stopped,
}

/// Runs a command with `sh` in the workspace, with the retries that the plan allows.
pub(crate) fn run(name: &str, step: &Step, workspace: &Workspace, stop: &Stop) -> Result<(), StepFailure> {
    logged(name, step, workspace, stop, &|| Ok(())).map(drop)
}

/// Variant of [`run`] before the series has a server: ends what a failed try left behind before the next one.
/// It would be among the server's processes.
pub(crate) fn run_before_servers(
    name: &str,
    step: &Step,
    workspace: &Workspace,
    stop: &Stop,
) -> Result<(), StepFailure> {
    logged(name, step, workspace, stop, &|| workspace.empty()).map(drop)
}

/// Variant of [`run`] that returns the last number that the command printed.
pub(crate) fn number(
    name: &str,
    step: &Step,
    workspace: &Workspace,
    stop: &Stop,
) -> Result<f64, StepFailure> {
    // A new log: output of the previous trial must not count for this one.
    let log = logged(name, step, workspace, stop, &|| Ok(()))?;
    let failed = |why: String| StepFailure::Failed(format!("{name}: {why}"));
    let said = log.text().map_err(|e| failed(format!("its output cannot be read: {e}")))?;
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let number = last.parse().ok().filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| failed(format!("its last line of output, `{last}`, is not a number")))
}

/// - `clear`: clears up after a failed try; its error ends the tries.
fn logged(
    name: &str,
    step: &Step,
    workspace: &Workspace,
    stop: &Stop,
    clear: &dyn Fn() -> Result<(), String>,
) -> Result<Log, StepFailure> {
    let log = workspace.log(&format!("{name}.log"));
    let log = log.map_err(|e| StepFailure::Failed(format!("{name}: cannot create its log: {e}")))?;
    let mut tries = 0;
    loop {
        match once(step, workspace, &log, stop) {
            Ok(()) => return Ok(log),
            Err(StepFailure::Failed(_)) if tries < step.retries => {
                tries += 1;
                clear().map_err(|why| StepFailure::Failed(format!("{name}: {why}")))?;
            }
            Err(StepFailure::Failed(why)) => {
                return Err(StepFailure::Failed(format!("{name}: {why}{}", log.last_words())));
            }
            Err(StepFailure::Stopped) => return Err(StepFailure::Stopped),
        }
    }
}

fn once(step: &Step, workspace: &Workspace, log: &Log, stop: &Stop) -> Result<(), StepFailure> {
    let failed = |why: String| Err(StepFailure::Failed(why));
    let mut process = match workspace.start(workspace.shell(&step.command), log) {
        Ok(process) => process,
        Err(e) => return failed(format!("cannot start sh: {e}")),
    };
    let waited = process.wait(step.timeout, stop);
    match (waited, process.finish()) {
        (Waited::Stopped, _) => Err(StepFailure::Stopped),
        (Waited::TimedOut, _) => failed(format!("did not end within {:?}", step.timeout)),
        (Waited::Done, Ok(status)) if status.success() => Ok(()),
        (Waited::Done, Ok(status)) => failed(format!("ended with {status}")),
        (Waited::Done, Err(e)) => failed(format!("its exit status is unknown: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use record::bakeoff::Levels;

    use super::*;
    use crate::workspace::{Inherit, Layout};

    fn workspace() -> Workspace {
        Workspace::open(Layout::fresh(None), Inherit::Little, &Levels::new()).unwrap()
    }

    fn step(command: &str, retries: u32) -> Step {
        Step { command: command.into(), timeout: Duration::from_mins(1), retries }
    }

    #[test]
    fn a_command_that_fails_once_passes_with_a_retry_and_says_why_without() {
        let folder = workspace();
        let script = "test -e seen || { touch seen; echo not yet; exit 3; }";
        let stop = Stop::new();
        let Err(StepFailure::Failed(why)) = run("setup", &step(script, 0), &folder, &stop) else {
            panic!("it fails the first time")
        };
        assert_eq!(why, "setup: ended with exit status: 3; it said: not yet");
        std::fs::remove_file(folder.folder().join("seen")).unwrap();
        assert!(run("setup", &step(script, 1), &folder, &stop).is_ok());
    }

    #[test]
    fn the_number_that_a_command_says_last_is_its_value_and_without_one_it_has_failed() {
        let folder = workspace();
        let number = |command| number("size_bytes", &step(command, 0), &folder, &Stop::new());
        assert!(matches!(number("echo packed; echo ' -4.5e3 '; echo"), Ok(-4500.0)));
        for (command, found) in [("echo 1 KB", "1 KB"), ("echo inf", "inf"), ("true", "")] {
            let Err(StepFailure::Failed(why)) = number(command) else { panic!("`{command}` says no number") };
            assert_eq!(why, format!("size_bytes: its last line of output, `{found}`, is not a number"));
        }
        assert!(matches!(number("echo 3; exit 1"), Err(StepFailure::Failed(_))));
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_at_its_time_or_by_its_user() {
        let folder = workspace();
        let slow = Step { timeout: Duration::from_millis(20), ..step("sleep 1000", 0) };
        let Err(StepFailure::Failed(why)) = run("setup", &slow, &folder, &Stop::new()) else {
            panic!("it is not done in time")
        };
        assert_eq!(why, "setup: did not end within 20ms; it said nothing");
        let stop = Stop::new();
        stop.request();
        let end = run("setup", &step("sleep 1000", 5), &folder, &stop);
        assert!(matches!(end, Err(StepFailure::Stopped)));
    }

    /// The first try leaves a process outside of its group, which the second one must not meet.
    #[test]
    fn what_a_failed_try_of_setup_left_behind_is_ended_before_the_next() {
        let _alone = crate::strays::alone();
        let folder = workspace();
        let script = "test -e seen || { touch seen; setsid sh -c 'while :; do sleep 1; done' & sleep 100; }";
        let slow = Step { timeout: Duration::from_millis(200), ..step(script, 1) };
        assert!(run_before_servers("setup", &slow, &folder, &Stop::new()).is_ok());
        assert_eq!(folder.members(), []);
    }
}
