//! Crash safety: a writer killed at any moment leaves a readable archive without half-written data.
//!
//! The writers are this test program, started again; the test kills them with SIGKILL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod example;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bakeoff_archive::{Archive, ArchiveError, Filter, JournalEvent, Step};
use example::Dice;
use record::bakeoff::TrialState;
use record::run::{RunId, RunState};

const ARCHIVE: &str = "BAKEOFF_TEST_ARCHIVE";
const SEED: &str = "BAKEOFF_TEST_SEED";
const BAKEOFF: &str = "BAKEOFF_TEST_BAKEOFF";

/// Starts this program as the named writer.
fn start(writer: &str, archive: &Path, seed: u64, bakeoff: Option<RunId>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", writer]).env(ARCHIVE, archive).env(SEED, seed.to_string());
    command.envs(bakeoff.map(|id| (BAKEOFF, id.to_string())));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Arguments of a writer; `None` in the test run itself.
fn told() -> Option<(Archive, u64)> {
    let archive = Archive::open(Path::new(&std::env::var_os(ARCHIVE)?)).unwrap();
    Some((archive, std::env::var(SEED).unwrap().parse().unwrap()))
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Writes runs forever.
#[test]
fn writer_of_runs() {
    let Some((archive, seed)) = told() else { return };
    let mut dice = Dice(seed);
    loop {
        let mut run = example::run(&mut dice);
        run.load = Some(example::load(&mut dice));
        let mut writer = archive.begin(&run.header).unwrap();
        writer.add_file("server.log", &mut &b"a line\n".repeat(5_000)[..]).unwrap();
        writer.seal(&run).unwrap();
    }
}

/// Conducts a bake-off of trials that measure nothing, from its current state.
#[test]
fn writer_of_a_bakeoff() {
    let Some((archive, seed)) = told() else { return };
    let id: RunId = std::env::var(BAKEOFF).unwrap().parse().unwrap();
    let mut dice = Dice(seed);
    let mut journal = archive.journal(id).unwrap();
    let bakeoff = archive.bakeoff(id).unwrap();
    for trial in &bakeoff.trials {
        let attempts: Vec<_> = bakeoff.attempts.iter().filter(|a| a.trial == trial.index).collect();
        if attempts.iter().any(|a| a.state == TrialState::Sealed) {
            continue;
        }
        let attempt = u32::try_from(attempts.len()).unwrap() + 1;
        let event = |step| JournalEvent {
            at_unix_ns: 1,
            at_monotonic_ns: 1,
            series: Some(trial.series),
            trial: Some(trial.index),
            attempt: Some(attempt),
            step,
        };
        journal.append(&event(Step::TrialWarming)).unwrap();
        journal.append(&event(Step::TrialMeasuring)).unwrap();
        let mut run = example::run(&mut dice);
        run.header.bakeoff = Some(id);
        archive.begin(&run.header).unwrap().seal(&run).unwrap();
        journal.append(&event(Step::TrialSealed { run: run.header.id })).unwrap();
    }
    journal.say(Step::BakeoffDone).unwrap();
}

fn assert_clean(archive: &Archive) {
    for found in archive.verify(&[]).unwrap() {
        assert_eq!(found.problems, [], "{}", found.path.display());
    }
    let dump = archive.index_dump().unwrap();
    let reindexed = archive.reindex().unwrap();
    assert_eq!(reindexed.same, Some(true));
    assert!(reindexed.damaged.is_empty());
    assert_eq!(archive.index_dump().unwrap(), dump);
}

#[test]
fn two_writers_killed_at_any_moment_leave_whole_runs_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let archive = Archive::open(&dir).unwrap();
    let mut dice = Dice(21);
    for round in 0..20 {
        let children = [0, 1].map(|i| start("writer_of_runs", &dir, 1000 + round * 2 + i, None));
        let before = archive.list(&Filter::default()).unwrap().len();
        // Waits for at least one run of each, then for a random moment within the time of some writes.
        while archive.list(&Filter::default()).unwrap().len() < before + 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(dice.below(40_000)));
        children.into_iter().for_each(kill);
        let archive = Archive::open(&dir).unwrap();
        for folder in ["runs", "bakeoffs"] {
            for entry in std::fs::read_dir(dir.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(name.parse::<RunId>().is_ok(), "{name} was left in round {round}");
            }
        }
        for listed in archive.list(&Filter::default()).unwrap() {
            assert_ne!(listed.header.state, RunState::Running, "its writer is dead");
            assert_eq!(archive.run(listed.header.id).unwrap().header, listed.header);
        }
    }
    assert_clean(&archive);
}

#[test]
fn a_bakeoff_killed_at_twenty_moments_ends_with_each_trial_sealed_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    let archive = Archive::open(&dir).unwrap();
    let mut dice = Dice(22);
    let planned = example::bakeoff(&mut dice, 30);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    let events = dir.join(format!("bakeoffs/{id}/events.jsonl"));
    for round in 0..20 {
        let before = std::fs::metadata(&events).unwrap().len();
        let mut child = start("writer_of_a_bakeoff", &dir, 2000 + round, Some(id));
        while std::fs::metadata(&events).unwrap().len() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(dice.below(60_000)));
        kill(child);
        let bakeoff = archive.bakeoff(id).unwrap();
        assert_ne!(bakeoff.header.state, RunState::Running);
        assert!(
            bakeoff.attempts.iter().all(|a| matches!(a.state, TrialState::Sealed | TrialState::Abandoned))
        );
    }
    let mut last = start("writer_of_a_bakeoff", &dir, 3000, Some(id));
    assert!(last.wait().unwrap().success());
    let bakeoff = archive.bakeoff(id).unwrap();
    assert_eq!(bakeoff.header.state, RunState::Sealed);
    let sealed: Vec<u32> = bakeoff.sealed().map(|(trial, _)| trial.index).collect();
    assert_eq!(sealed, (0..60).collect::<Vec<_>>());
    assert_eq!(bakeoff.attempts_that_ended(TrialState::Sealed), 60);
    let abandoned = bakeoff.attempts_that_ended(TrialState::Abandoned);
    assert!(abandoned > 0, "twenty kills hit no trial");
    let runs: BTreeSet<RunId> = bakeoff.sealed().map(|(_, run)| run.header.id).collect();
    assert_eq!(runs.len(), 60);
    assert_clean(&archive);
}

#[test]
fn many_writers_at_once_do_not_hinder_each_other() {
    let (threads, each) = (4_u32, 5_u32);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("archive");
    std::thread::scope(|scope| {
        for i in 0..threads {
            let dir = &dir;
            scope.spawn(move || {
                let archive = Archive::open(dir).unwrap();
                let mut dice = Dice(5000 + u64::from(i));
                for _ in 0..each {
                    let run = example::run(&mut dice);
                    archive.begin(&run.header).unwrap().seal(&run).unwrap();
                    archive.list(&Filter::default()).unwrap();
                    archive.reindex().unwrap();
                }
            });
        }
    });
    let archive = Archive::open_existing(&dir).unwrap();
    assert_eq!(archive.list(&Filter::default()).unwrap().len(), usize::try_from(threads * each).unwrap());
    assert_clean(&archive);
}

/// A small file system, unmounted on drop; `None` if this user may not mount one.
struct Small(tempfile::TempDir);

impl Small {
    fn mounted(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|m| m.status.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn root_a_full_disk_is_one_clear_error_and_leaves_nothing() {
    let Some(disk) = Small::mounted("512k") else {
        println!("skipped: a full disk, because this user may not mount a tmpfs");
        return;
    };
    let archive = Archive::open(&disk.0.path().join("archive")).unwrap();
    let mut dice = Dice(23);
    let mut kept = Vec::new();
    let error = loop {
        let mut run = example::run(&mut dice);
        run.load = Some(example::load(&mut dice));
        match archive.begin(&run.header).and_then(|writer| writer.seal(&run)) {
            Ok(_) => kept.push(run.header.id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ArchiveError::NoSpace { .. }), "{error:?}");
    assert!(error.to_string().starts_with("no space left for "), "{error}");
    for id in &kept {
        archive.run(*id).unwrap();
    }
    let partial: Vec<_> = std::fs::read_dir(archive.dir().join("runs")).unwrap().collect();
    assert_eq!(partial.len(), kept.len());
    assert!(archive.verify(&[]).unwrap().iter().all(|v| v.problems.is_empty()));

    // A journal on a full disk keeps its old end, and continues when there is room.
    archive.remove(kept[0]).unwrap();
    let planned = example::bakeoff(&mut dice, 1);
    archive.create_bakeoff(&planned).unwrap();
    let mut journal = archive.journal(planned.header.id).unwrap();
    let reason = "x".repeat(3_000);
    let event = || JournalEvent {
        at_unix_ns: 1,
        at_monotonic_ns: 1,
        series: None,
        trial: Some(0),
        attempt: Some(1),
        step: Step::TrialFailed { reason: reason.clone() },
    };
    let mut lines = 0;
    let error = loop {
        match journal.append(&event()) {
            Ok(()) => lines += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ArchiveError::NoSpace { .. }), "{error:?}");
    // A run of few events may be smaller than a block: removing all of them makes room.
    kept[1..].iter().for_each(|id| archive.remove(*id).unwrap());
    journal.append(&event()).unwrap();
    drop(journal);
    let text =
        std::fs::read_to_string(archive.dir().join(format!("bakeoffs/{}/events.jsonl", planned.header.id)))
            .unwrap();
    assert_eq!(text.matches("trial-failed").count(), lines + 1);
    assert!(archive.verify(&[planned.header.id]).unwrap()[0].problems.is_empty());
}

#[test]
fn root_an_archive_on_a_disk_that_is_read_only_lists_and_reads() {
    let Some(disk) = Small::mounted("8m") else {
        println!("skipped: a read-only disk, because this user may not mount a tmpfs");
        return;
    };
    let dir = disk.0.path().join("archive");
    let run = example::run(&mut Dice(24));
    Archive::open(&dir).unwrap().begin(&run.header).unwrap().seal(&run).unwrap();
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(disk.0.path()).status().unwrap();
    assert!(remount.success());
    let archive = Archive::open_existing(&dir).unwrap();
    assert_eq!(archive.list(&Filter::default()).unwrap()[0].header, run.header);
    assert_eq!(archive.find("latest").unwrap(), run.header.id);
    assert_eq!(archive.run(run.header.id).unwrap(), run);
    assert!(archive.verify(&[]).unwrap().iter().all(|v| v.problems.is_empty()));
    assert!(matches!(archive.begin(&run.header), Err(ArchiveError::Unwritable { .. })));
    assert!(matches!(Archive::open(&dir), Err(ArchiveError::Unwritable { .. })));
}
