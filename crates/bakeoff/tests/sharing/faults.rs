//! One bad file refuses one run; the others are copied.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::Value;

use super::super::lab::{Ended, Lab};
use super::super::{Two, measure, tree};
use super::{problems, watched};

/// Runs a transfer with `--json`; its code and the part `word` of its document.
fn transfer(lab: &Lab, verb: &str, place: &str) -> (Option<i32>, Value) {
    let ended = watched(lab.command(&["archive", verb, place, "--json"])).ended;
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
    (ended.code, document[format!("{verb}ed")].clone())
}

#[test]
fn a_pipe_a_folder_a_device_and_a_link_in_the_store_refuse_one_run_each() {
    let Some(two) = Two::start() else { return };
    let ids: Vec<String> = (0..5).map(|_| measure(&two.here)).collect();
    assert_eq!(two.push().code, Some(0));
    let at = |n: usize| two.in_store(&ids[n], "hist.parquet");
    for n in 0..4 {
        fs::remove_file(at(n)).unwrap();
    }
    nix::unistd::mkfifo(&at(0), Mode::S_IRWXU).unwrap();
    fs::create_dir(at(1)).unwrap();
    if mknod(&at(2), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).is_err() {
        symlink("/dev/zero", at(2)).unwrap();
    }
    symlink(two.here.path("archive/runs").join(&ids[3]).join("hist.parquet"), at(3)).unwrap();
    let mut bad = ids[..4].to_vec();
    bad.sort();
    let named = |document: &Value| {
        let mut named: Vec<String> = problems(document).into_iter().map(|(id, _)| id).collect();
        named.sort();
        named
    };
    let (code, pulled) = transfer(&two.there, "pull", &two.place);
    assert_eq!((code, named(&pulled)), (Some(1), bad.clone()), "{pulled}");
    assert_eq!(pulled["moved"], serde_json::json!([ids[4]]), "{pulled}");
    two.server.sql("DELETE FROM run");
    let (code, pushed) = transfer(&two.here, "push", &two.place);
    assert_eq!((code, named(&pushed)), (Some(1), bad.clone()), "{pushed}");
    assert_eq!(two.server.sql("SELECT id FROM run"), ids[4]);
    // The same in the archive: a pipe in place of a manifest, and of another file.
    for (n, name) in [(0, "manifest.json"), (1, "hist.parquet")] {
        let file = two.here.path("archive/runs").join(&ids[n]).join(name);
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, Mode::S_IRWXU).unwrap();
    }
    let new = measure(&two.here);
    let (code, pushed) = transfer(&two.here, "push", &two.place);
    assert_eq!((code, named(&pushed)), (Some(1), bad), "{pushed}");
    assert_eq!(pushed["moved"], serde_json::json!([new]), "{pushed}");
}

/// Command run by the unprivileged user 65534, which must be able to read the program and its files.
fn as_nobody(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.command(words);
    command.uid(65_534).gid(65_534).env("HOME", lab.path("")).current_dir(lab.path(""));
    command
}

fn give_to_nobody(path: &Path) {
    chown(path, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_without_permission_refuses_one_run_and_modes_follow_the_folder() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: needs root, to be another user");
    }
    let Some(two) = Two::start() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_bakeoff"));
    if !program.ancestors().skip(1).all(|at| fs::metadata(at).unwrap().permissions().mode() & 1 == 1) {
        return println!("skipped: other users cannot run {}", program.display());
    }
    for lab in [&two.here, &two.there] {
        give_to_nobody(&lab.path(""));
    }
    give_to_nobody(&two.here.path("store"));
    let run = |lab: &Lab, words: &[&str]| Ended::of(as_nobody(lab, words).output().unwrap());
    let measure = || {
        let words =
            ["load", "null:", "--warmup", "0s", "--events", "10", "--threads", "1", "--observe", "none"];
        let ended = run(&two.here, &[&words[..], &["--json"]].concat());
        let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
        document["run"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = (0..3).map(|_| measure()).collect();
    let ended = run(&two.here, &["archive", "push", &two.place]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for (path, _) in tree(&two.here.path("store")) {
        let path = two.here.path("store").join(path);
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    for folder in [two.here.path("store/runs"), two.here.path("store/runs").join(&ids[0])] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    let closed = |path: &Path| {
        chown(path, Some(0), Some(0)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    };
    closed(&two.in_store(&ids[0], "hist.parquet"));
    closed(two.in_store(&ids[1], "x").parent().unwrap());
    let ended = run(&two.there, &["archive", "pull", &two.place, "--json"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    let pulled = serde_json::from_str::<Value>(&ended.out).unwrap()["pulled"].clone();
    assert_eq!(pulled["moved"], serde_json::json!([ids[2]]), "{pulled}");
    assert!(problems(&pulled).iter().all(|(_, what)| what.contains("Permission denied")), "{pulled}");
    // A folder and a file of the archive: the first is not even listed.
    two.server.sql("DELETE FROM run");
    let own = two.here.path("archive/runs");
    closed(&own.join(&ids[0]).join("manifest.json"));
    let late = measure();
    closed(&own.join(&ids[1]).join("manifest.json"));
    closed(&own.join(&late));
    fs::remove_file(two.here.path("archive/index.sqlite")).unwrap();
    let ended = run(&two.here, &["archive", "push", &two.place, "--json"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    let pushed = serde_json::from_str::<Value>(&ended.out).unwrap()["pushed"].clone();
    assert_eq!((problems(&pushed).len(), &pushed["moved"]), (3, &serde_json::json!([ids[2]])), "{pushed}");
    // A store of a group.
    let group = two.here.path("group");
    fs::create_dir(&group).unwrap();
    give_to_nobody(&group);
    fs::set_permissions(&group, Permissions::from_mode(0o2770)).unwrap();
    two.server.sql("DELETE FROM run; UPDATE bakeoff_archive SET is_bound = false");
    let place = two.server.place(&format!("file://{}", group.display()));
    assert_eq!(run(&two.here, &["archive", "push", &place, &ids[2]]).code, Some(0));
    let folder = group.join("runs").join(&ids[2]);
    assert_eq!((mode(&folder), mode(&folder.join("hist.parquet"))), (0o2770, 0o640));
}

#[test]
fn files_that_are_in_the_store_already_are_synced() {
    let Some(two) = Two::start() else { return };
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("skipped: strace is not installed (apt-get install strace)");
    }
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    // As after a kill between the files and the row.
    two.server.sql("DELETE FROM run");
    let log = two.here.path("strace");
    let push = two.here.command(&["archive", "push", &two.place]);
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&log).arg(push.get_program());
    command.args(push.get_args()).env("BAKEOFF_ARCHIVE", two.here.path("archive"));
    let ended = Ended::of(command.output().unwrap());
    if ended.err.contains("ptrace") {
        return println!("skipped: {}", ended.err);
    }
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let log = fs::read_to_string(log).unwrap();
    let run = two.here.path("store/runs").join(&id);
    let synced = |path: &Path| log.lines().any(|line| line.contains(&format!("<{}>)", path.display())));
    for name in ["manifest.json", "manifest.sha256", "hist.parquet", "latency.hlog.zst"] {
        assert!(synced(&run.join(name)), "{name}: {log}");
    }
    for folder in [&*run, run.parent().unwrap(), &two.here.path("store")] {
        assert!(synced(folder), "{}: {log}", folder.display());
    }
}

#[test]
fn a_value_that_postgresql_refuses_refuses_one_run() {
    let Some(two) = Two::start() else { return };
    let words = ["load", "null:", "--warmup", "0s", "--events", "10", "--threads", "1", "--observe", "none"];
    two.here.run(&[&words[..], &["--title", "bad"]].concat());
    let good = measure(&two.here);
    two.server.sql("ALTER TABLE run ADD CHECK (title <> 'bad')");
    let ended = two.push();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    assert_eq!(two.server.sql("SELECT id FROM run"), good);
}
