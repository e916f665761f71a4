//! kill -9 at any moment: nothing is lost, nothing counts twice.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archive::{Archive, Filter, PartOf};
use record::bakeoff::TrialState;
use record::clock::{Clock as _, Monotonic};
use record::run::{RunId, RunState};

/// How often: as often as `BAKEOFF_KILLS` says, for a night (`scripts/torture`).
fn kills_wanted() -> u64 {
    std::env::var("BAKEOFF_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

/// Two configurations, two cells, two blocks, with a server behind a wrapper, and a helper of it that leaves group and
/// session: each would outlive us if it could.
const PLAN: &str = r#"
schema = 1
title  = "Killed"
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
target  = "sqlite:{scratch}/bench.db?journal_mode=wal&synchronous=off"
rows    = 100
threads = "{threads}"
[server]
command = "sh -c 'setsid sleep 1000 & sh -c \"touch {scratch}/ready; exec sleep 1000\"; wait'"
ready   = "test -e {scratch}/ready"
[phases]
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
"#;

/// The example that stands beside this test's own binary.
fn conduct(arguments: &[&str]) -> Command {
    let here = std::env::current_exe().expect("a test knows where it is");
    let examples = here.ancestors().nth(2).expect("target/PROFILE/deps/test").join("examples");
    let mut command = Command::new(examples.join("conduct"));
    command.args(arguments).stdout(Stdio::piped());
    command
}

/// Starts it and yields the bake-off's name once it has one.
fn begin(arguments: &[&str]) -> (Child, RunId) {
    let mut child = conduct(arguments).spawn().expect("cargo builds examples for tests");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped"))
        .read_line(&mut line)
        .expect("its output is text");
    (child, line.trim().parse().unwrap_or_else(|_| panic!("`{line}` is no name")))
}

/// Moments spread over 0 to 0.9 s, by a fixed multiplier: the same in every run of the test.
fn moment(k: u64) -> Duration {
    Duration::from_millis((k * k * 7_919 + k * 131) % 900)
}

fn sleep(time: Duration) {
    let until_ns = Monotonic.now_ns() + u64::try_from(time.as_nanos()).expect("a few seconds");
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
}

/// Processes whose working folder is, or was, one of `folders`: servers of the bake-off and what they started.
fn living_in(folders: &[PathBuf]) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten().map(|e| e.path());
    let is_in = |cwd: PathBuf| folders.iter().any(|folder| cwd.starts_with(folder));
    processes.filter(|p| std::fs::read_link(p.join("cwd")).is_ok_and(is_in)).collect()
}

/// The scratch folders that a bake-off made, by its journal.
fn scratches_of(archive: &str, id: RunId) -> Vec<PathBuf> {
    let journal = std::fs::read_to_string(format!("{archive}/bakeoffs/{id}/events.jsonl"));
    let journal = journal.expect("a bake-off has a journal");
    let folder = |line: &str| Some(line.split_once("\"folder\":\"")?.1.split_once('"')?.0.into());
    journal.lines().filter_map(folder).collect()
}

#[test]
fn killed_at_any_moment_every_trial_is_sealed_exactly_once_and_nothing_is_left() {
    let wanted = kills_wanted();
    let folder = tempfile::tempdir().unwrap();
    let (dir, plan) = (folder.path().join("archive"), folder.path().join("plan.toml"));
    std::fs::write(&plan, PLAN).unwrap();
    let (dir, plan) = (dir.to_str().unwrap(), plan.to_str().unwrap());

    // One bake-off after the other is killed and resumed and killed again, until all kills are spent.
    let (mut kills, mut moments) = (0, (0..).map(moment));
    let mut bakeoffs = Vec::new();
    while kills < wanted {
        let (mut child, id) = begin(&["run", dir, plan]);
        bakeoffs.push(id);
        loop {
            sleep(moments.next().unwrap());
            let was_over = child.try_wait().unwrap().is_some();
            // Every third time the server behind the wrapper dies just before.
            let servers = living_in(&scratches_of(dir, id));
            if let Some(server) = servers.last().filter(|_| kills % 3 == 2 && !was_over) {
                let pid = server.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
                // It may have ended just now.
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid.unwrap()),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
            child.kill().unwrap();
            child.wait().unwrap();
            if was_over {
                break;
            }
            kills += 1;
            (child, _) = begin(&["resume", dir, &id.to_string()]);
            if kills == wanted {
                assert!(child.wait().unwrap().success());
                let scratches = scratches_of(dir, id);
                assert!(!scratches.is_empty());
                assert!(
                    scratches.iter().all(|folder| !folder.exists()),
                    "nothing is left of the scratch folders"
                );
                assert_eq!(living_in(&scratches), Vec::<PathBuf>::new(), "no server is left");
                break;
            }
        }
    }

    let archive = Archive::open(Path::new(dir)).unwrap();
    let mut abandoned = 0;
    for id in &bakeoffs {
        let bakeoff = archive.bakeoff(*id).unwrap();
        // On a busy machine every trial may be INVALID.
        assert!(
            matches!(bakeoff.header.state, RunState::Sealed | RunState::Invalid),
            "{:?}",
            bakeoff.header.state
        );
        for trial in &bakeoff.trials {
            let of_trial = bakeoff.attempts.iter().filter(|a| a.trial == trial.index);
            let kept: Vec<_> =
                of_trial.filter(|a| matches!(a.state, TrialState::Sealed | TrialState::Invalid)).collect();
            assert_eq!(kept.len(), 1, "trial {} of {id} is measured exactly once", trial.index);
        }
        abandoned += bakeoff.attempts_that_ended(TrialState::Abandoned);
        // Each abandoned attempt has its end in the journal, once.
        let journal = std::fs::read_to_string(format!("{dir}/bakeoffs/{id}/events.jsonl")).unwrap();
        let ends = journal.matches("\"step\":\"trial-abandoned\"").count();
        assert_eq!(ends, bakeoff.attempts_that_ended(TrialState::Abandoned), "{journal}");
        // Every run that the archive holds of this bake-off is an attempt of it.
        let filter = Filter { part_of: PartOf::Bakeoff(*id), ..Filter::default() };
        assert_eq!(archive.list(&filter).unwrap().len(), bakeoff.trials.len());
    }
    assert!(abandoned > 0, "at least one kill hit a trial");
    let before = archive.list(&Filter::default()).unwrap();
    for verified in archive.verify(&[]).unwrap() {
        assert!(verified.problems.is_empty(), "{verified:?}");
    }
    assert_eq!(archive.reindex().unwrap().same, Some(true));
    assert_eq!(archive.list(&Filter::default()).unwrap(), before);
    println!("{wanted} kills over {} bake-offs, {abandoned} attempts abandoned", bakeoffs.len());
}
