//! kill -9 at any moment: nothing is lost, nothing counts twice.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archive::{Archive, Filter, PartOf};
use record::bakeoff::TrialState;
use record::clock::{Clock as _, Monotonic};
use record::run::{RunId, RunState};

const KILLS: u64 = 20;

/// Two configurations, two cells, two blocks, with a server that would outlive us if it could.
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
command = "sh -c 'touch {scratch}/ready; exec sleep 1000'"
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

/// Processes whose working folder is, or was, under `folder`: servers of the bake-off.
fn living_in(folder: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten().map(|e| e.path());
    processes.filter(|p| std::fs::read_link(p.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))).collect()
}

#[test]
fn killed_at_twenty_moments_every_trial_is_sealed_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, plan) = (folder.path().join("archive"), folder.path().join("plan.toml"));
    std::fs::write(&plan, PLAN).unwrap();
    let (dir, plan) = (dir.to_str().unwrap(), plan.to_str().unwrap());

    // One bake-off after the other is killed and resumed and killed again, until all kills are spent.
    let (mut kills, mut moments) = (0, (0..).map(moment));
    let mut bakeoffs = Vec::new();
    while kills < KILLS {
        let (mut child, id) = begin(&["run", dir, plan]);
        bakeoffs.push(id);
        loop {
            sleep(moments.next().unwrap());
            let was_over = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            if was_over {
                break;
            }
            kills += 1;
            let scratch = std::env::temp_dir().join(format!("bakeoff-{id}"));
            (child, _) = begin(&["resume", dir, &id.to_string()]);
            if kills == KILLS {
                assert!(child.wait().unwrap().success());
                assert!(!scratch.exists(), "nothing is left of the scratch folder");
                assert_eq!(living_in(&scratch), Vec::<PathBuf>::new(), "no server is left");
                break;
            }
        }
    }

    let archive = Archive::open(Path::new(dir)).unwrap();
    let mut abandoned = 0;
    for id in &bakeoffs {
        let bakeoff = archive.bakeoff(*id).unwrap();
        assert_eq!(bakeoff.header.state, RunState::Sealed);
        for trial in &bakeoff.trials {
            let of_trial = bakeoff.attempts.iter().filter(|a| a.trial == trial.index);
            let kept: Vec<_> =
                of_trial.filter(|a| matches!(a.state, TrialState::Sealed | TrialState::Invalid)).collect();
            assert_eq!(kept.len(), 1, "trial {} of {id} is measured exactly once", trial.index);
        }
        abandoned += bakeoff.attempts_that_ended(TrialState::Abandoned);
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
    println!("{KILLS} kills over {} bake-offs, {abandoned} attempts abandoned", bakeoffs.len());
}
