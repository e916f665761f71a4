//! Archives from another user: their content is damage or data, and never leads outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod example;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use bakeoff_archive::{Archive, ArchiveError, Filter, Step};
use example::Dice;
use nix::unistd::{Gid, Uid, chown, geteuid};
use record::run::{Run, RunId};
use sha2::{Digest as _, Sha256};

struct Stranger {
    folder: tempfile::TempDir,
    archive: Archive,
    run: Run,
}

/// An archive with one run that has a load and CPU intervals.
fn stranger() -> Stranger {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    let mut seeds = 0..;
    let run = loop {
        let run = example::run(&mut Dice(seeds.next().unwrap()));
        if run.load.is_some() && !run.cpu.is_empty() {
            break run;
        }
    };
    archive.begin(&run.header).unwrap().seal(&run).unwrap();
    Stranger { folder, archive, run }
}

impl Stranger {
    fn id(&self) -> RunId {
        self.run.header.id
    }

    fn at(&self, name: &str) -> PathBuf {
        self.archive.dir().join("runs").join(self.id().to_string()).join(name)
    }

    /// Writes a manifest with its checksum, as in an honest archive.
    fn put_manifest(&self, text: &str) {
        put(&self.at("manifest.json"), text.as_bytes());
        put(&self.at("manifest.sha256"), format!("{}  manifest.json\n", sum(text.as_bytes())).as_bytes());
    }

    fn manifest(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.at("manifest.json")).unwrap()).unwrap()
    }

    /// Replaces a stored file, and its entry in the manifest.
    fn put_file(&self, name: &str, bytes: &[u8], unpacked_bytes: Option<u64>) {
        put(&self.at(name), bytes);
        let mut manifest = self.manifest();
        let files = manifest["files"].as_array_mut().unwrap();
        let file = files.iter_mut().find(|f| f["name"] == name).unwrap();
        *file = serde_json::json!({
            "name": name, "bytes": bytes.len(), "sha256": sum(bytes), "unpacked_bytes": unpacked_bytes,
        });
        self.put_manifest(&manifest.to_string());
    }

    fn damage(&self) -> String {
        match self.archive.run(self.id()) {
            Err(ArchiveError::Damaged { what, .. }) => what,
            Err(ArchiveError::Unreadable { source, .. }) => source.to_string(),
            other => panic!("a crafted run is damage: {other:?}"),
        }
    }

    fn problems(&self) -> String {
        let verified = self.archive.verify(&[self.id()]).unwrap();
        assert!(!verified[0].problems.is_empty(), "a crafted run has a problem");
        let told: Vec<String> =
            verified[0].problems.iter().map(|p| format!("{}: {}", p.path.display(), p.what)).collect();
        told.join("\n")
    }
}

fn put(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

fn sum(bytes: &[u8]) -> String {
    let digits: Vec<String> = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    digits.concat()
}

fn packed(fill: &[u8], times: usize) -> Vec<u8> {
    let mut writer =
        tamp::Writer::new(Vec::new(), &tamp::Options::zst(tamp::Level::new(3).unwrap())).unwrap();
    (0..times).for_each(|_| writer.write_all(fill).unwrap());
    writer.finish().unwrap()
}

#[test]
fn names_that_lead_outside_are_damage() {
    for name in
        ["../../../../../../etc/passwd", "/etc/passwd", "..", ".", "", "a/b", "cpu.jsonl.zst/", "a\u{1b}[2J"]
    {
        let stranger = stranger();
        let passwd = fs::read("/etc/passwd").unwrap();
        let mut manifest = stranger.manifest();
        let file = serde_json::json!({"name": name, "bytes": passwd.len(), "sha256": sum(&passwd)});
        manifest["files"].as_array_mut().unwrap().push(file);
        stranger.put_manifest(&manifest.to_string());
        assert!(stranger.damage().contains("not a plain file name"), "{name:?}");
        assert!(stranger.problems().contains("not a plain file name"), "{name:?}");
    }
}

#[test]
fn what_unpacks_to_more_than_it_may_is_damage() {
    // Lines for the readers that read line by line, and one line without an end.
    let bombs = [packed(&vec![b'#'; 1 << 20], 129), packed("{}\n".repeat(1 << 19).as_bytes(), 129)];
    assert!(bombs.iter().all(|bomb| bomb.len() < 1 << 20));
    let files = stranger().manifest()["files"].clone();
    let names = files.as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap().to_owned());
    let packed: Vec<String> =
        names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "zst")).collect();
    assert!(packed.len() > 1, "{packed:?}");
    for name in packed {
        for bomb in &bombs {
            for (unpacked_bytes, why) in [
                (None, "the limit for a file of its size"),
                (Some(1000), "more than the expected 1000 bytes"),
            ] {
                let stranger = stranger();
                stranger.put_file(&name, bomb, unpacked_bytes);
                // A reader of lines may stop before, at the first line.
                let (damage, problems) = (stranger.damage(), stranger.problems());
                let is_lines = name.contains(".jsonl") || name.contains(".hlog");
                assert!(is_lines || damage.contains(why), "{name}: {damage}");
                assert!(is_lines || problems.contains(why), "{name}: {problems}");
            }
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kib < 300 << 10, "{kib} KiB");
}

#[test]
fn what_unpacks_to_less_than_it_should_is_damage() {
    let stranger = stranger();
    let mut manifest = stranger.manifest();
    let files = manifest["files"].as_array_mut().unwrap();
    let file = files.iter_mut().find(|f| f["name"] == "cpu.jsonl.zst").unwrap();
    file["unpacked_bytes"] = (file["unpacked_bytes"].as_u64().unwrap() + 1).into();
    stranger.put_manifest(&manifest.to_string());
    assert!(stranger.damage().contains("bytes, expected"), "{}", stranger.damage());
}

#[test]
fn links_pipes_and_devices_are_not_files_of_a_run() {
    for name in ["manifest.json", "manifest.sha256", "cpu.jsonl.zst", "latency.hlog.zst"] {
        let stranger = stranger();
        let elsewhere = stranger.folder.path().join("elsewhere");
        fs::rename(stranger.at(name), &elsewhere).unwrap();
        symlink(&elsewhere, stranger.at(name)).unwrap();
        assert!(stranger.damage().contains("it is a symbolic link"), "{name}");
        assert!(stranger.problems().contains("it is a symbolic link"), "{name}");
        fs::remove_file(stranger.at(name)).unwrap();
        nix::unistd::mkfifo(&stranger.at(name), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(stranger.damage().contains("not a regular file"), "{name}");
        fs::remove_file(stranger.at(name)).unwrap();
        symlink("/dev/zero", stranger.at(name)).unwrap();
        assert!(stranger.damage().contains("it is a symbolic link"), "{name}");
        assert!(stranger.archive.list(&Filter::default()).is_ok());
    }
}

#[test]
fn a_file_larger_than_its_manifest_says_is_not_read() {
    let stranger = stranger();
    // Sparse: 1 TiB of zeros on no disk.
    fs::File::options().write(true).open(stranger.at("cpu.jsonl.zst")).unwrap().set_len(1 << 40).unwrap();
    assert!(stranger.damage().contains("larger than"));
    assert!(stranger.problems().contains("expected"));
    let document = fs::File::options().write(true).open(stranger.at("manifest.json")).unwrap();
    document.set_len(1 << 40).unwrap();
    assert!(stranger.damage().contains("larger than"));
}

#[test]
fn documents_nested_without_end_are_damage() {
    let stranger = stranger();
    let deep = "[".repeat(100_000);
    for text in [deep.clone(), format!(r#"{{"schema":"bakeoff.run-manifest/1","environment":{deep}"#)] {
        stranger.put_manifest(&text);
        assert!(stranger.damage().contains("recursion limit") || !stranger.damage().is_empty());
    }
    // Unknown fields stay in memory until the end: each number takes 32 bytes.
    stranger
        .put_manifest(&format!(r#"{{"schema":"bakeoff.run-manifest/1","x":[{}0]}}"#, "0,".repeat(5 << 20)));
    assert!(stranger.damage().contains("the limit of a document"));
    let stranger = self::stranger();
    stranger.put_file("cpu.jsonl.zst", &packed(format!("{{\"x\":{deep}\n").as_bytes(), 1), None);
    assert!(!stranger.damage().is_empty());
}

#[test]
fn a_journal_that_names_a_run_twice_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut dice = Dice(7);
    let planned = example::bakeoff(&mut dice, 2);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    let mut run = example::run(&mut dice);
    run.header.bakeoff = Some(id);
    archive.begin(&run.header).unwrap().seal(&run).unwrap();
    let mut journal = archive.journal(id).unwrap();
    for attempt in [1, 2] {
        let event = bakeoff_archive::JournalEvent {
            at_unix_ns: 0,
            at_monotonic_ns: 0,
            series: Some(1),
            trial: Some(0),
            attempt: Some(attempt),
            step: Step::TrialInvalid { run: run.header.id, reason: "once more".into() },
        };
        journal.append(&event).unwrap();
    }
    drop(journal);
    let told = archive.bakeoff(id).unwrap_err().to_string();
    assert!(told.contains("names run") && told.contains("twice"), "{told}");
}

#[test]
fn an_order_of_more_trials_than_a_plan_can_have_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let planned = example::bakeoff(&mut Dice(9), 1);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    let path = archive.bakeoff_dir(id).join("order.json");
    let mut order: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for trials in [50_000, 50_001] {
        let trial =
            |i| serde_json::json!({"trial": i, "block": 1, "series": 1, "position": 1, "levels": {"a": "b"}});
        order["trials"] = (0..trials).map(trial).collect();
        let text = order.to_string();
        put(&path, text.as_bytes());
        put(&path.with_extension("sha256"), format!("{}  order.json\n", sum(text.as_bytes())).as_bytes());
        let read = archive.bakeoff(id).map(|bakeoff| bakeoff.trials.len()).map_err(|why| why.to_string());
        match trials {
            50_000 => assert_eq!(read, Ok(50_000)),
            _ => assert!(read.as_ref().is_err_and(|why| why.contains("limit 50000")), "{read:?}"),
        }
    }
}

#[test]
fn a_journal_that_is_another_file_s_second_name_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let planned = example::bakeoff(&mut Dice(8), 1);
    let id = planned.header.id;
    archive.create_bakeoff(&planned).unwrap();
    let (path, own) = (archive.bakeoff_dir(id).join("events.jsonl"), folder.path().join("own"));
    std::fs::write(&own, "a line without an end").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(&own, &path).unwrap();
    assert!(archive.journal(id).unwrap_err().to_string().contains("one name"));
    assert_eq!(std::fs::read(&own).unwrap(), b"a line without an end");
}

#[test]
fn an_index_from_elsewhere_is_built_anew() {
    for sql in [
        // A trigger that would run with the next indexed run.
        "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END;",
        // Columns of other types, and more of them.
        "DROP TABLE run; CREATE TABLE run (id BLOB, kind REAL, more TEXT); INSERT INTO run VALUES (x'00', 1.5, 'x');",
        "DROP TABLE damage; CREATE VIEW damage AS SELECT 1.5 AS path, 2 AS what;",
        "INSERT INTO label VALUES ('nothing', 'a', 'b');",
    ] {
        let stranger = stranger();
        let index = stranger.archive.dir().join("index.sqlite");
        stranger.archive.list(&Filter::default()).unwrap();
        let db = rusqlite::Connection::open(&index).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
        drop(db);
        let again = Archive::open(stranger.archive.dir()).unwrap();
        let mut dice = Dice(77);
        let other = example::run(&mut dice);
        again.begin(&other.header).unwrap().seal(&other).unwrap();
        assert_eq!(again.list(&Filter::default()).unwrap().len(), 2, "{sql}");
        again.reindex().unwrap();
        assert_eq!(again.list(&Filter::default()).unwrap().len(), 2, "{sql}");
    }
}

#[test]
fn an_index_that_is_a_link_is_replaced() {
    let stranger = stranger();
    let (index, victim) =
        (stranger.archive.dir().join("index.sqlite"), stranger.folder.path().join("victim"));
    for content in [Some("precious"), None] {
        let _ = (fs::remove_file(&index), fs::remove_file(&victim));
        if let Some(content) = content {
            fs::write(&victim, content).unwrap();
        }
        symlink(&victim, &index).unwrap();
        assert_eq!(stranger.archive.list(&Filter::default()).unwrap().len(), 1);
        assert_eq!(fs::read_to_string(&victim).ok().as_deref(), content);
    }
    let lock = stranger.archive.dir().join(".index.lock");
    fs::remove_file(&lock).unwrap();
    symlink(stranger.folder.path().join("made"), &lock).unwrap();
    assert_eq!(stranger.archive.list(&Filter::default()).unwrap().len(), 1);
    assert!(!stranger.folder.path().join("made").exists(), "a lock file was made through a link");
}

#[test]
fn an_index_with_a_pipe_or_a_foreign_journal_beside_it_is_built_anew() {
    for end in ["-journal", "-wal", "-shm"] {
        let stranger = stranger();
        stranger.archive.list(&Filter::default()).unwrap();
        let beside = stranger.archive.dir().join(format!("index.sqlite{end}"));
        let _ = fs::remove_file(&beside);
        nix::unistd::mkfifo(&beside, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(stranger.archive.list(&Filter::default()).unwrap().len(), 1, "{end}");
        assert!(fs::symlink_metadata(&beside).map_or(true, |found| found.is_file()), "{end}");
    }
    // A journal can name a file that SQLite removes after replaying the journal.
    let stranger = stranger();
    stranger.archive.list(&Filter::default()).unwrap();
    let journal = stranger.archive.dir().join("index.sqlite-journal");
    fs::write(&journal, [0; 600]).unwrap();
    assert_eq!(stranger.archive.list(&Filter::default()).unwrap().len(), 1);
    assert!(!journal.exists());
}

#[test]
fn an_index_that_gives_a_bakeoff_other_runs_has_none_of_them_removed() {
    let stranger = stranger();
    let bakeoff = example::bakeoff(&mut Dice(3), 2);
    stranger.archive.create_bakeoff(&bakeoff).unwrap();
    stranger.archive.list(&Filter::default()).unwrap();
    let db = rusqlite::Connection::open(stranger.archive.dir().join("index.sqlite")).unwrap();
    let (run, of) = (stranger.id().to_string(), bakeoff.header.id.to_string());
    assert_eq!(db.execute("UPDATE run SET bakeoff = ?2 WHERE id = ?1", [run, of]).unwrap(), 1);
    drop(db);
    stranger.archive.remove(bakeoff.header.id).unwrap();
    assert!(stranger.archive.run(stranger.id()).is_ok(), "a run of no bake-off was removed");
}

#[test]
fn folders_and_files_are_for_their_owner_alone() {
    let stranger = stranger();
    let mut journal_of = example::bakeoff(&mut Dice(3), 2);
    journal_of.attempts.clear();
    stranger.archive.create_bakeoff(&journal_of).unwrap();
    let mut running = stranger.archive.begin(&example::run(&mut Dice(9)).header).unwrap();
    running.add_file("server.log", &mut &b"a secret"[..]).unwrap();
    let (mut folders, mut seen) = (vec![stranger.archive.dir().to_owned()], 0);
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            folder.display()
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            seen += 1;
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
    assert!(seen > 10, "{seen} files");
}

#[test]
fn root_reads_another_users_archive_and_writes_nothing_in_it() {
    if !geteuid().is_root() {
        return eprintln!("skipped: only root meets another user's archive so");
    }
    let stranger = stranger();
    let dir = stranger.archive.dir();
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm", ".index.lock", ".folders.lock"] {
        let _ = fs::remove_file(dir.join(name));
        symlink(stranger.folder.path().join(format!("made-{name}")), dir.join(name)).unwrap();
    }
    chown(dir, Some(Uid::from_raw(65_534)), Some(Gid::from_raw(65_534))).unwrap();
    assert_eq!(stranger.archive.list(&Filter::default()).unwrap().len(), 1);
    assert!(stranger.archive.run(stranger.id()).is_ok());
    assert!(matches!(Archive::open(dir), Err(ArchiveError::OfAnother { .. })));
    assert!(Archive::open_trusted(dir).is_err(), "even then it follows no link");
    assert!(matches!(stranger.archive.remove(stranger.id()), Err(ArchiveError::OfAnother { .. })));
    assert!(stranger.archive.begin(&example::run(&mut Dice(5)).header).is_err());
    let made: Vec<_> =
        fs::read_dir(stranger.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(made, ["archive"], "nothing was made through a link");
}
