//! The archive in use: every run reads back, whatever happens in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod example;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_archive::{Archive, ArchiveError, Filter, Format, JournalEvent, Step};
use example::Dice;
use record::bakeoff::TrialState;
use record::clock::WallAnchor;
use record::load::{Loop, Think};
use record::run::{Run, RunId, RunState};
use record::target::Target;

fn archive() -> (tempfile::TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    (folder, archive)
}

fn keep(archive: &Archive, run: &Run) -> PathBuf {
    archive.begin(&run.header).unwrap().seal(run).unwrap()
}

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn about(trial: u32, attempt: u32, step: Step) -> JournalEvent {
    let (at_unix_ns, at_monotonic_ns) = (1_700_000_000_000_000_000, 5);
    JournalEvent {
        at_unix_ns,
        at_monotonic_ns,
        series: Some(1),
        trial: Some(trial),
        attempt: Some(attempt),
        step,
    }
}

/// A run as a bake-off has it.
fn lean_of(run: &Run) -> Run {
    let mut run = run.clone();
    if let Some(load) = &mut run.load {
        let kind = load.latency_kind();
        load.slices.retain(|slice| slice.is_of_events(kind));
    }
    for sample in run.cpu.iter_mut().flat_map(|interval| &mut interval.cpus) {
        *sample = record::cpu::CpuSample {
            event_ratio: sample.event_ratio.clone(),
            not_idle_ratio: sample.not_idle_ratio.clone(),
            unaccounted_ratio: sample.unaccounted_ratio.clone(),
            stolen_ratio: sample.stolen_ratio.clone(),
            run_queue_wait_ns: sample.run_queue_wait_ns.clone(),
            ..record::cpu::CpuSample::without_values(sample.cpu, "")
        };
    }
    run.instruments.nic.clear();
    run.instruments.locks.clear();
    run.instruments.ulocks.clear();
    run
}

#[test]
fn every_run_reads_back_equal() {
    let (_folder, archive) = archive();
    for seed in 0..60 {
        let run = example::run(&mut Dice(seed));
        keep(&archive, &run);
        assert_eq!(archive.run(run.header.id).unwrap(), run, "seed {seed}");
        assert_eq!(archive.header(run.header.id).unwrap(), run.header);
    }
    let verified = archive.verify(&[]).unwrap();
    assert_eq!(verified.len(), 60);
    for found in verified {
        assert_eq!(found.problems, [], "{}", found.path.display());
    }
}

#[test]
fn a_bakeoff_is_put_together_from_its_files() {
    let (_folder, archive) = archive();
    let mut dice = Dice(7);
    let planned = example::bakeoff(&mut dice, 2);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    assert_eq!(archive.bakeoff(id).unwrap().attempts, []);
    assert_eq!(archive.bakeoff(id).unwrap().header.state, RunState::Abandoned, "nobody has begun it");

    let mut journal = archive.journal(id).unwrap();
    assert!(matches!(archive.journal(id), Err(ArchiveError::Busy { .. })));
    assert!(matches!(archive.remove(id), Err(ArchiveError::Busy { .. })));
    let mut run = example::run(&mut dice);
    run.header.bakeoff = Some(id);
    keep(&archive, &run);
    journal.append(&about(0, 1, Step::TrialWarming)).unwrap();
    journal.append(&about(0, 1, Step::TrialMeasuring)).unwrap();
    journal.append(&about(0, 1, Step::TrialSealed { run: run.header.id })).unwrap();
    journal.append(&about(1, 1, Step::TrialWarming)).unwrap();
    journal.append(&about(1, 1, Step::TrialFailed { reason: "no server".into() })).unwrap();
    journal.append(&about(2, 1, Step::TrialWarming)).unwrap();

    let running = archive.bakeoff(id).unwrap();
    assert_eq!(running.header.state, RunState::Running);
    assert_eq!(running.attempts.len(), 2, "the third is being measured");
    let listed = archive.list(&Filter::default()).unwrap();
    let states: Vec<_> = listed.iter().filter(|l| l.header.id == id).map(|l| l.header.state).collect();
    assert_eq!(states, [RunState::Running]);

    drop(journal);
    let mut dead = archive.bakeoff_whole(id).unwrap();
    assert_eq!(dead.header.state, RunState::Abandoned);
    let told: Vec<_> = dead.attempts.iter().map(|a| (a.trial, a.state, a.run.is_some())).collect();
    assert_eq!(
        told,
        [(0, TrialState::Sealed, true), (1, TrialState::Failed, false), (2, TrialState::Abandoned, false)]
    );
    assert_eq!(dead.attempts[0].run.as_ref(), Some(&run));
    assert_eq!(dead.sealed().count(), 1);
    let lean = archive.bakeoff(id).unwrap().attempts[0].run.clone().unwrap();
    assert_eq!(lean, lean_of(&run));
    dead.attempts.clear();
    dead.header.reason = None;
    assert_eq!(dead, planned);

    let mut journal = archive.journal(id).unwrap();
    journal.say(Step::BakeoffDone).unwrap();
    drop(journal);
    assert_eq!(archive.header(id).unwrap().state, RunState::Sealed);
    assert_eq!(archive.find("latest").unwrap(), id, "a trial's run is not what a user started last");
    assert_eq!(archive.runs_of(id).unwrap(), [run.header.id]);
    assert!(matches!(archive.remove(run.header.id), Err(ArchiveError::PartOfBakeoff { .. })));
    assert!(archive.verify(&[id]).unwrap()[0].problems.is_empty());
    archive.remove(id).unwrap();
    assert!(archive.list(&Filter::default()).unwrap().is_empty());
    assert!(files(&archive.dir().join("runs")).is_empty());
}

#[test]
fn a_line_that_was_cut_off_is_healed_when_the_journal_is_opened() {
    let (_folder, archive) = archive();
    let planned = example::bakeoff(&mut Dice(8), 1);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    archive.journal(id).unwrap().append(&about(0, 1, Step::TrialWarming)).unwrap();
    let path = archive.dir().join(format!("bakeoffs/{id}/events.jsonl"));
    let whole = fs::read(&path).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"{"at_unix_ns":17,"at_mono"#).unwrap();
    assert_eq!(archive.bakeoff(id).unwrap().attempts.len(), 1, "reading does not need it healed");
    assert_eq!(archive.verify(&[id]).unwrap()[0].problems.len(), 1);
    let journal = archive.journal(id).unwrap();
    assert_eq!(journal.healed_bytes(), 25);
    assert!(fs::read(&path).unwrap().starts_with(&whole));
    drop(journal);
    assert!(archive.verify(&[id]).unwrap()[0].problems.is_empty());
}

#[test]
fn no_password_reaches_any_file() {
    let (_folder, archive) = archive();
    let mut dice = Dice(9);
    let mut run = example::run(&mut dice);
    let mut load = example::load(&mut dice);
    let url = "mysql://app:hunter2@localhost/bench?password=hunter2";
    load.settings.target = Target::new(url);
    load.error_samples = vec![format!("cannot connect to {url}")];
    run.load = Some(load);
    run.header.command = format!("bakeoff load {url} --rate 5");
    run.header.title = format!("load {url}");
    run.header.labels.insert("target".into(), url.into());
    keep(&archive, &run);
    let mut planned = example::bakeoff(&mut dice, 1);
    planned.plan_text = format!("[load]\ntarget = \"{url}\"\n[server.env]\nMYSQL_PWD = \"hunter2\"\n");
    planned.header.command = format!("bakeoff run x.toml # {url}");
    archive.create_bakeoff(&planned).unwrap();
    archive.list(&Filter::default()).unwrap();
    let mut all = files(archive.dir());
    all.retain(|f| !f.ends_with(".index.lock") && !f.ends_with(".folders.lock"));
    assert!(all.len() > 8, "{all:?}");
    let mut exported = Vec::new();
    for (_, format) in Format::ALL {
        archive.export(run.header.id, format, &mut exported).unwrap();
    }
    let holds = |bytes: &[u8]| bytes.windows(7).any(|w| w == b"hunter2");
    assert!(!holds(&exported));
    for path in all {
        let bytes = fs::read(&path).unwrap();
        assert!(!holds(&bytes), "{}", path.display());
        if path.extension().is_some_and(|e| e == "zst") {
            let mut content = Vec::new();
            std::io::copy(&mut tamp::Reader::new(&bytes[..], 1), &mut content).unwrap();
            assert!(!holds(&content), "{}", path.display());
        }
    }
    let again = archive.run(run.header.id).unwrap().load.unwrap();
    assert_eq!(again.settings.target.expose(), "mysql://app:***@localhost/bench?password=***");
}

#[test]
fn verify_finds_any_changed_byte_and_any_file_that_is_missing_or_too_many() {
    let (_folder, archive) = archive();
    let mut dice = Dice(10);
    let mut run = example::run(&mut dice);
    run.load = Some(example::load(&mut dice));
    let mut writer = archive.begin(&run.header).unwrap();
    writer.add_file("server.log", &mut &b"ready for connections\n"[..]).unwrap();
    let folder = writer.seal(&run).unwrap();
    assert_eq!(archive.file(run.header.id, "server.log").unwrap(), b"ready for connections\n");
    let planned = example::bakeoff(&mut dice, 1);
    archive.create_bakeoff(&planned).unwrap();
    let mut journal = archive.journal(planned.header.id).unwrap();
    journal.append(&about(0, 1, Step::TrialWarming)).unwrap();
    drop(journal);
    let bakeoff = archive.dir().join(format!("bakeoffs/{}", planned.header.id));

    let found = |path: &Path| {
        let all = archive.verify(&[]).unwrap();
        assert_eq!(all.len(), 2);
        all.iter().flat_map(|v| &v.problems).any(|p| p.path == path)
    };
    for path in [files(&folder), files(&bakeoff)].concat() {
        // A checksum file blames the file that it describes.
        let blamed = match path.file_name().unwrap().to_str().unwrap() {
            "manifest.sha256" => path.with_file_name("manifest.json"),
            _ => path.clone(),
        };
        let whole = fs::read(&path).unwrap();
        assert!(!found(&blamed), "{} is whole", path.display());
        let some = [0, whole.len() - 1]
            .into_iter()
            .chain((0..6).map(|_| usize::try_from(dice.next() >> 1).unwrap()));
        for at in some.map(|at| at % whole.len()).collect::<Vec<_>>() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << dice.below(8);
            fs::write(&path, &bytes).unwrap();
            assert!(found(&blamed), "{} byte {at}", path.display());
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(found(&blamed), "{} cut short", path.display());
        fs::remove_file(&path).unwrap();
        assert!(found(&path), "{} removed", path.display());
        fs::write(&path, &whole).unwrap();
        let extra = path.with_file_name("extra");
        fs::write(&extra, "").unwrap();
        assert!(found(&extra));
        fs::remove_file(&extra).unwrap();
    }
    let stray = archive.dir().join("runs/notes.txt");
    fs::write(&stray, "").unwrap();
    let all = archive.verify(&[]).unwrap();
    assert!(all.iter().any(|v| v.id.is_none() && v.path == stray && v.problems.len() == 1));
}

#[test]
fn a_changed_byte_is_an_error_on_reading_too() {
    let (_folder, archive) = archive();
    let mut dice = Dice(11);
    let mut run = example::run(&mut dice);
    run.load = Some(example::load(&mut dice));
    let folder = keep(&archive, &run);
    for name in ["manifest.json", "latency.hlog.zst"] {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 4;
        fs::write(&path, bytes).unwrap();
        match archive.run(run.header.id) {
            Err(ArchiveError::Damaged { path: found, .. }) => assert_eq!(found, path),
            other => panic!("{name}: {other:?}"),
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(archive.run(run.header.id).is_ok());
}

/// SQLite has no checksums: a flipped bit in a text makes another text.
#[test]
fn a_flipped_bit_in_the_index_lists_no_run_as_another() {
    let (_folder, archive) = archive();
    let mut dice = Dice(31);
    for _ in 0..4 {
        let mut run = example::run(&mut dice);
        run.header.labels = [("mode".to_owned(), "wal".to_owned())].into();
        run.header.title = "a title of some length".to_owned();
        keep(&archive, &run);
    }
    let listed = archive.list(&Filter::default()).unwrap();
    let index = archive.dir().join("index.sqlite");
    let whole = fs::read(&index).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for at in used.into_iter().step_by(61) {
        for name in ["index.sqlite-wal", "index.sqlite-shm"] {
            let _ = fs::remove_file(archive.dir().join(name));
        }
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << dice.below(7);
        fs::write(&index, bytes).unwrap();
        assert_eq!(archive.list(&Filter::default()).unwrap(), listed, "byte {at}");
    }
}

#[test]
fn an_index_that_is_missing_old_or_damaged_is_built_anew_and_is_the_same() {
    let (_folder, archive) = archive();
    let mut dice = Dice(12);
    for _ in 0..20 {
        let mut run = example::run(&mut dice);
        run.header.labels = [("m".to_owned(), "1".to_owned())].into();
        keep(&archive, &run);
    }
    let mut planned = example::bakeoff(&mut dice, 1);
    planned.header.labels.clear();
    archive.create_bakeoff(&planned).unwrap();
    let mut journal = archive.journal(planned.header.id).unwrap();
    journal.append(&about(0, 1, Step::TrialWarming)).unwrap();
    let dump = archive.index_dump().unwrap();
    assert_eq!(dump.matches("\n\"01").count(), 21 + 20, "{dump}");
    assert_eq!(archive.reindex().unwrap().same, Some(true));
    let index = archive.dir().join("index.sqlite");

    fs::remove_file(&index).unwrap();
    assert_eq!(archive.index_dump().unwrap(), dump, "missing");
    fs::write(&index, "this is no database, and long enough to be taken for one: ".repeat(100)).unwrap();
    assert_eq!(archive.index_dump().unwrap(), dump, "no database");
    fs::write(&index, "").unwrap();
    assert_eq!(archive.index_dump().unwrap(), dump, "empty");
    let db = rusqlite::Connection::open(&index).unwrap();
    db.execute_batch("DROP TABLE run; CREATE TABLE run (other); PRAGMA user_version = 0;").unwrap();
    drop(db);
    assert_eq!(archive.index_dump().unwrap(), dump, "another version");
    let db = rusqlite::Connection::open(&index).unwrap();
    db.execute_batch("DROP TABLE label").unwrap();
    drop(db);
    assert_eq!(archive.index_dump().unwrap(), dump, "a table is gone");
    let mut bytes = fs::read(&index).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&index, bytes).unwrap();
    assert_eq!(archive.index_dump().unwrap(), dump, "pages overwritten");
    let db = rusqlite::Connection::open(&index).unwrap();
    db.execute_batch("UPDATE run SET title = 'lies'").unwrap();
    drop(db);
    let reindexed = archive.reindex().unwrap();
    assert_eq!((reindexed.same, reindexed.entries), (Some(false), 21));
    assert_eq!(archive.index_dump().unwrap(), dump);
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(archive.index_dump().unwrap(), dump, "no index can be written: one in memory will do");
}

#[test]
fn the_index_follows_folders_that_come_and_go() {
    let (_folder, archive) = archive();
    let (_other_folder, other) = self::archive();
    let run = example::run(&mut Dice(13));
    let folder = keep(&other, &run);
    let here = archive.dir().join("runs").join(run.header.id.to_string());
    assert!(archive.list(&Filter::default()).unwrap().is_empty());
    fs::rename(folder, &here).unwrap();
    assert_eq!(archive.list(&Filter::default()).unwrap()[0].header, run.header);
    fs::write(here.join("manifest.json"), "{}").unwrap();
    fs::remove_file(archive.dir().join("index.sqlite")).unwrap();
    assert!(archive.list(&Filter::default()).unwrap().is_empty());
    let damage = archive.damage().unwrap();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].path, here);
    fs::remove_dir_all(&here).unwrap();
    assert!(archive.damage().unwrap().is_empty());
    assert!(other.list(&Filter::default()).unwrap().is_empty());
}

#[test]
fn a_run_from_a_clock_at_2100_is_not_the_latest_for_the_next_seventy_years() {
    let (_folder, archive) = archive();
    let mut dice = Dice(2100);
    let mut at = |anchor: WallAnchor| {
        let mut run = example::run(&mut dice);
        run.header.anchor = anchor;
        run.header.id = RunId::fresh(anchor);
        keep(&archive, &run);
        run.header.id
    };
    let now = WallAnchor::now();
    let future = at(WallAnchor { unix_ns: 4_102_444_800_000_000_000, ..now });
    assert_eq!(archive.find("latest").unwrap(), future, "there is no other");
    let run = at(now);
    assert_eq!(archive.find("latest").unwrap(), run);
}

#[test]
fn a_run_is_seen_as_running_until_it_is_sealed_or_given_up() {
    let (_folder, archive) = archive();
    let run = example::run(&mut Dice(15));
    let writer = archive.begin(&run.header).unwrap();
    let listed = archive.list(&Filter::default()).unwrap();
    assert_eq!((listed[0].header.id, listed[0].header.state), (run.header.id, RunState::Running));
    assert!(matches!(archive.run(run.header.id), Err(ArchiveError::NotFound { .. })));
    assert!(matches!(archive.begin(&run.header), Err(ArchiveError::Busy { .. })));
    assert!(Archive::open(archive.dir()).unwrap().sweep().unwrap().folders.is_empty(), "its writer lives");
    assert!(archive.verify(&[]).unwrap().is_empty());
    writer.discard();
    assert!(files(&archive.dir().join("runs")).is_empty());
    assert!(archive.list(&Filter::default()).unwrap().is_empty());
    keep(&archive, &run);
    assert!(matches!(archive.begin(&run.header), Err(ArchiveError::Exists { .. })));
    archive.remove(run.header.id).unwrap();
    assert!(matches!(archive.remove(run.header.id), Err(ArchiveError::NotFound { .. })));
}

#[test]
fn an_archive_that_cannot_be_made_or_is_not_there_is_said_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Archive::open_existing(folder.path()), Err(ArchiveError::NoArchive { .. })));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Archive::open(&file.join("archive")).unwrap_err();
    assert!(matches!(error, ArchiveError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("file/archive"), "{error}");
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    fs::remove_dir(archive.dir().join("runs")).unwrap();
    fs::write(archive.dir().join("runs"), "").unwrap();
    let run = example::run(&mut Dice(16));
    assert!(matches!(archive.begin(&run.header), Err(ArchiveError::Unwritable { .. })));
}

/// Changes a manifest as its writer would, with the right checksum.
fn rewrite(folder: &Path, change: impl Fn(&str) -> String) {
    let path = folder.join("manifest.json");
    let text = change(&fs::read_to_string(&path).unwrap());
    fs::write(&path, text).unwrap();
    let sum =
        std::process::Command::new("sha256sum").arg("manifest.json").current_dir(folder).output().unwrap();
    fs::write(folder.join("manifest.sha256"), sum.stdout).unwrap();
}

#[test]
fn a_closed_loop_is_stored_without_what_only_open_ones_have_and_read_without_it() {
    let (_folder, archive) = archive();
    let mut dice = Dice(21);
    let mut run = example::run(&mut dice);
    let mut load = example::load(&mut dice);
    let open_only = ["\"arrivals\"", "\"schedule\"", "\"late\"", "\"spin_budget_ratio\"", "\"fifo\""];
    load.settings.pace = example::load::open(&mut dice, 500.0);
    run.load = Some(load.clone());
    let folder = keep(&archive, &run);
    // Earlier versions wrote all of them for closed loops too.
    rewrite(&folder, |text| {
        for field in open_only {
            assert!(text.contains(field), "{field}");
        }
        let mut old: serde_json::Value = serde_json::from_str(text).unwrap();
        old["load"]["settings"]["rate"] = serde_json::json!({"kind": "max"});
        old["load"]["settings"]["think"] = "exp:2s".into();
        old.to_string()
    });
    let closed = Loop::Closed { think: Think::Exponential(Duration::from_secs(2)) };
    let read = archive.run(run.header.id).unwrap().load.unwrap();
    assert_eq!(read.settings.pace, closed);

    let mut again = example::run(&mut dice);
    load.settings.pace = closed.clone();
    again.load = Some(load);
    let folder = keep(&archive, &again);
    rewrite(&folder, |text| {
        for field in open_only {
            assert!(!text.contains(field), "{field}");
        }
        text.to_owned()
    });
    assert_eq!(archive.run(again.header.id).unwrap().load.unwrap().settings.pace, closed);
}

#[test]
fn an_open_loop_without_its_schedule_is_damage() {
    let (_folder, archive) = archive();
    let mut dice = Dice(22);
    let mut run = example::run(&mut dice);
    let mut load = example::load(&mut dice);
    load.settings.pace = example::load::open(&mut dice, 500.0);
    run.load = Some(load);
    let folder = keep(&archive, &run);
    rewrite(&folder, |text| text.replacen("\"arrivals\"", "\"arrived\"", 1));
    let error = archive.run(run.header.id).unwrap_err();
    assert!(error.to_string().contains("arrivals is missing, but an open loop needs it"), "{error}");
}

#[test]
fn a_file_of_a_later_version_says_so() {
    let (_folder, archive) = archive();
    let run = example::run(&mut Dice(17));
    let folder = keep(&archive, &run);
    rewrite(&folder, |text| text.replace("run-manifest/1", "run-manifest/2"));
    match archive.run(run.header.id) {
        Err(ArchiveError::Newer { found, known, .. }) => {
            assert_eq!((found.as_str(), known), ("bakeoff.run-manifest/2", "bakeoff.run-manifest/1"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn exports_hold_what_was_measured() {
    let (_folder, archive) = archive();
    let mut dice = Dice(18);
    let mut run = example::run(&mut dice);
    let planned = example::bakeoff(&mut dice, 1);
    run.header.bakeoff = Some(planned.header.id);
    let load = example::load(&mut dice);
    let done = load.counts.done;
    run.load = Some(load);
    keep(&archive, &run);
    archive.create_bakeoff(&planned).unwrap();
    let mut journal = archive.journal(planned.header.id).unwrap();
    journal.append(&about(1, 1, Step::TrialSealed { run: run.header.id })).unwrap();
    let export = |id, format| {
        let mut out = Vec::new();
        assert!(archive.export(id, format, &mut out).unwrap());
        out
    };
    let bare = example::bakeoff(&mut dice, 1);
    archive.create_bakeoff(&bare).unwrap();
    assert!(!archive.export(bare.header.id, Format::Csv, &mut Vec::new()).unwrap(), "nothing was measured");
    for id in [run.header.id, planned.header.id] {
        let csv = String::from_utf8(export(id, Format::Csv)).unwrap();
        assert!(csv.starts_with("run,kind,state,bakeoff,trial,"));
        let events = format!(",,localhost,events,fate=done,{}\n", done as f64);
        assert!(csv.contains(&events), "{csv}");
        assert_eq!(csv.contains("allocator=jemalloc"), id == planned.header.id);
        let json: serde_json::Value = serde_json::from_slice(&export(id, Format::Json)).unwrap();
        assert_eq!(json["schema"], "bakeoff.export/1");
        let text = String::from_utf8(export(id, Format::OpenMetrics)).unwrap();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# TYPE bakeoff_events gauge\n"));
        // As many samples as rows, each with the state of its run.
        let state = format!(",run_state=\"{}\"", run.header.state.word());
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples.len(), csv.lines().count() - 1);
        assert!(samples.iter().all(|sample| sample.contains(&state)), "{text}");
        // The kind of a lock or an interface is not that of the run.
        let kinds = csv.lines().filter(|row| row.contains("kind=")).count();
        let told = samples.iter().filter(|sample| sample.contains(",sample_kind=\"")).count();
        assert!(kinds > 0 && told == kinds, "{told} of {kinds}");
        // Values are those of the table, in seconds for its nanoseconds.
        let of = |family: &str, labels: &str| -> f64 {
            let is_it =
                |sample: &&&str| sample.starts_with(&format!("{family}{{")) && sample.contains(labels);
            let found: Vec<&&str> = samples.iter().filter(is_it).collect();
            assert_eq!(found.len(), 1, "{family} {labels}: {text}");
            found[0].rsplit_once("} ").unwrap().1.split(' ').next().unwrap().parse().unwrap()
        };
        let same = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
        assert!(same(of("bakeoff_events", "fate=\"done\""), done as f64));
        let load = run.load.as_ref().unwrap();
        assert!(same(of("bakeoff_achieved_per_second", ""), load.achieved_per_s));
        assert!(same(of("bakeoff_measured_seconds", ""), load.measured.as_secs_f64()));
        if let Ok(Some(summary)) = load.lateness.as_ref().map(record::histogram::Histogram::summary) {
            assert!(same(of("bakeoff_lateness_seconds", "stat=\"mean\""), summary.mean_ns * 1e-9));
            assert!(same(of("bakeoff_lateness_samples", "stat=\"count\""), summary.count as f64));
        }
        assert!(export(id, Format::Parquet).starts_with(b"PAR1"));
    }
}
