//! Profiles in runs: they read back, damage is found, and runs without any are as readable as before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "this program uses a part of it")]
mod example;

use std::fs;
use std::path::PathBuf;

use bakeoff_archive::{Archive, ArchiveError, Format};
use example::{Dice, profile};
use record::profile::ProfileKind;
use record::run::Run;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

struct Kept {
    _folder: tempfile::TempDir,
    archive: Archive,
    run: Run,
    at: PathBuf,
}

/// A run with a profile of each kind, which have stacks.
fn kept() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let mut dice = Dice(3);
    let mut run = example::run(&mut dice);
    let mut taken = |kind| loop {
        let taken = profile::profile(&mut dice, kind);
        if taken.profile.stacks.len() > 3 {
            return taken;
        }
    };
    run.instruments.profiles = ProfileKind::ALL.iter().map(|kind| taken(*kind)).collect();
    let at = archive.begin(&run.header).unwrap().seal(&run).unwrap();
    Kept { _folder: folder, archive, run, at }
}

impl Kept {
    fn problems(&self) -> Vec<String> {
        let verified = self.archive.verify(&[self.run.header.id]).unwrap();
        verified[0].problems.iter().map(|p| format!("{}: {}", p.path.display(), p.what)).collect()
    }

    /// Changes the manifest and gives it the right checksum, as a stranger can.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let path = self.at.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        let text = manifest.to_string();
        fs::write(&path, &text).unwrap();
        let digits: Vec<String> = Sha256::digest(&text).iter().map(|b| format!("{b:02x}")).collect();
        fs::write(self.at.join("manifest.sha256"), format!("{}  manifest.json\n", digits.concat())).unwrap();
    }
}

#[test]
fn profiles_read_back_equal_whatever_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut run = example::run(&mut dice);
        run.instruments.profiles = profile::profiles(&mut dice);
        archive.begin(&run.header).unwrap().seal(&run).unwrap();
        assert_eq!(archive.run(run.header.id).unwrap().instruments, run.instruments, "seed {seed}");
        let drawn = archive.run_for_drawing(run.header.id, 100).unwrap();
        assert_eq!(drawn.instruments.profiles, run.instruments.profiles, "seed {seed}");
    }
    let verified = archive.verify(&[]).unwrap();
    assert!(verified.len() == 60 && verified.iter().all(|found| found.problems.is_empty()), "{verified:?}");
}

#[test]
fn a_damaged_or_missing_file_of_stacks_is_found() {
    let kept = kept();
    assert_eq!(kept.problems(), [""; 0]);
    for name in ["profile.jsonl.zst", "off-cpu.jsonl.zst"] {
        let path = kept.at.join(name);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(kept.problems()[0].contains(name), "{:?}", kept.problems());
        assert!(matches!(kept.archive.run(kept.run.header.id), Err(ArchiveError::Damaged { .. })));
        fs::remove_file(&path).unwrap();
        assert!(kept.problems()[0].contains(name), "{:?}", kept.problems());
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(kept.problems(), [""; 0]);
}

#[test]
fn stacks_that_do_not_add_up_and_two_profiles_of_a_kind_are_damage() {
    for (field, what) in
        [("total_ns", "sums"), ("count", "sums"), ("stacks", "sums"), ("kind", "two profiles")]
    {
        let kept = kept();
        kept.change(|manifest| {
            let other = manifest["profiles"][1][field].clone();
            let changed = if field == "kind" { other } else { json!(7) };
            manifest["profiles"][0][field] = changed;
        });
        let problems = kept.problems();
        assert!(problems.len() == 1 && problems[0].contains(what), "{field}: {problems:?}");
    }
    // A manifest that does not list the file of a profile with stacks.
    let kept = kept();
    fs::remove_file(kept.at.join("profile.jsonl.zst")).unwrap();
    kept.change(|manifest| {
        manifest["files"].as_array_mut().unwrap().retain(|file| file["name"] != "profile.jsonl.zst");
    });
    assert!(kept.problems()[0].contains("sums"), "{:?}", kept.problems());
}

#[test]
fn a_run_without_profiles_reads_as_before() {
    let kept = kept();
    for name in ["profile.jsonl.zst", "off-cpu.jsonl.zst"] {
        fs::remove_file(kept.at.join(name)).unwrap();
    }
    kept.change(|manifest| {
        let is_other = |file: &Value| {
            !["profile.jsonl.zst", "off-cpu.jsonl.zst"].map(Value::from).contains(&file["name"])
        };
        manifest["files"].as_array_mut().unwrap().retain(is_other);
        manifest.as_object_mut().unwrap().remove("profiles");
    });
    assert_eq!(kept.problems(), [""; 0]);
    let mut expected = kept.run.clone();
    expected.instruments.profiles.clear();
    assert_eq!(kept.archive.run(kept.run.header.id).unwrap(), expected);
}

#[test]
fn an_export_has_every_stack() {
    let kept = kept();
    let mut out = Vec::new();
    kept.archive.export(kept.run.header.id, Format::Json, &mut out).unwrap();
    let document: Value = serde_json::from_slice(&out).unwrap();
    let stacks = document["stacks"].as_array().unwrap();
    assert_eq!(stacks.len(), 2);
    for (found, taken) in stacks.iter().zip(&kept.run.instruments.profiles) {
        assert_eq!(found["kind"], taken.profile.kind.word());
        assert_eq!(found["stacks"].as_array().unwrap().len(), taken.profile.stacks.len());
    }
}
