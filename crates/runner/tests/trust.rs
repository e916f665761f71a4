//! Limits of a plan: secrets are never stored, levels are never executed, one bake-off at a time has the
//! machine, and an archive that another user wrote is not trusted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use archive::Archive;
use bakeoff_runner::{Options, RunnerError, resume, run};
use load::Stop;
use record::bakeoff::TrialState;
use record::run::{RunId, RunState};

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

const PLAN: &str = r#"
schema = 1
title  = "What a plan may reach"
[design]
blocks = 1
[load]
target = "null:"
rate   = 1000
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
"#;

/// Returns a command for the example in the same target directory as this test.
fn conduct(arguments: &[&str]) -> Command {
    let here = std::env::current_exe().expect("a test knows where it is");
    let examples = here.ancestors().nth(2).expect("target/PROFILE/deps/test").join("examples");
    let mut command = Command::new(examples.join("conduct"));
    command.args(arguments);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns every file below `folder`, logs decompressed.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "zst") {
                let unpacked =
                    Command::new("zstd").arg("-dc").arg(&path).output().expect("zstd is installed");
                assert!(unpacked.status.success(), "{}", path.display());
                found.push((path, unpacked.stdout));
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found
}

#[test]
fn a_secret_that_a_plan_refers_to_reaches_the_server_and_nothing_that_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, plan, file) =
        (folder.path().join("archive"), folder.path().join("plan.toml"), folder.path().join("secret"));
    std::fs::write(&file, "hush; 'file\n").unwrap();
    let text = format!(
        r#"{PLAN}
[server]
command = "sh -c 'echo given $1 $FROM_FILE; test ${{{{#1}}}}-${{{{#FROM_FILE}}}} = 11-11 && touch {{scratch}}/ready; exec sleep 1000' sh {{env:T_PW}}"
ready = "test -e {{scratch}}/ready"
[server.env]
FROM_FILE = "{{file:{0}}}"
[values.of_secret_count]
run = "echo {{env:T_PW}} and {{file:{0}}}; test -e {1}/pass && echo 1"
"#,
        file.display(),
        folder.path().display()
    );
    std::fs::write(&plan, &text).unwrap();
    let (archive, plan) = (dir.to_str().unwrap(), plan.to_str().unwrap());

    let refused = conduct(&["run", archive, plan]).env_remove("T_PW").output().unwrap();
    assert!(!refused.status.success() && said(&refused).contains("{env:T_PW}"), "{}", said(&refused));

    // The value fails, and its output contains the secrets.
    let failed = conduct(&["run", archive, plan]).env("T_PW", "hush env 77").output().unwrap();
    let said_of = said(&failed);
    assert!(!failed.status.success(), "{said_of}");
    assert!(said_of.contains("{env:T_PW} and {file:"), "{said_of}");
    assert!(!said_of.contains("hush"), "{said_of}");
    for (path, bytes) in contents(&dir) {
        assert!(!String::from_utf8_lossy(&bytes).contains("hush"), "{}", path.display());
    }
    let logs = contents(&dir).into_iter().filter(|(path, _)| path.ends_with("plan.toml"));
    let stored: Vec<String> = logs.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    assert_eq!(stored, [text], "the archive has the plan as it was written");
}

#[test]
fn the_log_of_a_server_has_the_reference_for_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, file) = (folder.path().join("archive"), folder.path().join("secret"));
    std::fs::write(&file, "hush77\n").unwrap();
    let text = format!(
        "{PLAN}\n[server]\ncommand = \"sh -c 'echo with {{file:{}}}; touch {{scratch}}/ready; exec sleep 1000'\"\nready = \"test -e {{scratch}}/ready\"\n",
        file.display()
    );
    let archive = Archive::open(&dir).unwrap();
    let outcome = run(&plan::read(&text, "test.toml").unwrap(), &archive, &BESIDE, &Stop::new(), &mut |_| {});
    assert_eq!(outcome.unwrap().planned, 0);
    let all = contents(&dir);
    let log = all.iter().find(|(path, _)| path.ends_with("server.log.zst")).expect("it is stored");
    assert_eq!(String::from_utf8_lossy(&log.1), format!("with {{file:{}}}\n", file.display()));
    assert!(all.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains("hush77")));
}

#[test]
fn a_plan_with_a_secret_written_out_is_resumed_from_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    let text = PLAN.replace("[design]", "question = \"mysql://a:secret@h/b\"\n[design]");
    let file = folder.path().join("plan.toml");
    std::fs::write(&file, &text).unwrap();
    let plan = plan::read(&text, file.to_str().unwrap()).unwrap();
    let stop = Stop::new();
    stop.request();
    let id = run(&plan, &archive, &BESIDE, &stop, &mut |_| {}).unwrap().id;
    assert!(!archive.bakeoff(id).unwrap().plan_text.contains("secret"));

    // The plan's own file has moved.
    let moved = folder.path().join("moved.toml");
    std::fs::rename(&file, &moved).unwrap();
    let refused = resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, RunnerError::PlanMasked { tried: Some(_), .. }), "{refused}");
    // A file with another plan is refused, the one with this plan is accepted.
    let other = folder.path().join("other.toml");
    std::fs::write(&other, PLAN).unwrap();
    let with = |path: &Path| Options { plan_file: Some(path.to_owned()), ..BESIDE };
    let refused = resume(&archive, id, &with(&other), &stop, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, RunnerError::AnotherPlan { .. }), "{refused}");
    let interrupted = resume(&archive, id, &with(&moved), &stop, &mut |_| {}).unwrap();
    assert_eq!(interrupted.state, RunState::Interrupted);
    // A file that another user can write is not read because a journal names it; nor does a pipe block.
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let masked = || resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(masked(), RunnerError::PlanMasked { tried: Some(_), .. }), "{}", masked());
    // Back in its place, it is found without `--plan`.
    std::fs::rename(&moved, &file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o602)).unwrap();
    assert!(matches!(masked(), RunnerError::PlanMasked { tried: Some(_), .. }), "{}", masked());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap().planned, 0);
}

#[test]
fn a_level_is_data_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    let planted = folder.path().join("planted");
    let level = format!("a; touch {0}; $(touch {0}) #", planted.display());
    let text = format!(
        r#"{PLAN}
[factors.arm]
values = ["{level}"]
level  = "whole-plot"
[values.said_count]
run = "test {{arm}} = \"$BAKEOFF_arm\" && test \"{{arm}}\" = \"$BAKEOFF_arm\" && echo 1"
"#
    );
    let plan = plan::read(&text, "test.toml").unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.notes().iter().any(|note| note.text.contains("as one word")), "{:?}", plan.notes());
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = archive.bakeoff(outcome.id).unwrap();
    let reasons: Vec<_> = bakeoff.attempts.iter().filter_map(|a| a.reason.as_deref()).collect();
    assert_eq!(outcome.failed, 0, "{reasons:?}");
    assert!(!planted.exists(), "the level was executed");
}

/// Starts a bake-off in a separate process that measures until `folder/go` exists. Returns it as soon as it
/// measures.
fn begin(folder: &Path, lock: &Path, beside: Option<&str>) -> (Child, RunId) {
    let text = format!(
        "{PLAN}\n[values.waited_count]\nrun = \"touch {0}/measured; until test -e {0}/go; do sleep 0.01; done; echo 1\"\n",
        folder.display()
    );
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, text).unwrap();
    let mut command = conduct(&["run", folder.join("archive").to_str().unwrap(), plan.to_str().unwrap()]);
    command.envs(beside.map(|name| (name, "yes")));
    let mut child = command.env("BAKEOFF_MACHINE_LOCK", lock).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    while !folder.join("measured").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it measured");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (child, line.trim().parse().unwrap())
}

#[test]
fn one_bakeoff_at_a_time_has_the_machine_and_its_death_gives_it_back() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lock = one.path().join("lock");
    let (mut first, _) = begin(one.path(), &lock, None);
    let plan = other.path().join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let arguments = ["run", other.path().to_str().unwrap(), plan.to_str().unwrap()];
    let second = || conduct(&arguments).env("BAKEOFF_MACHINE_LOCK", &lock).output().unwrap();
    let refused = second();
    assert!(!refused.status.success(), "{}", said(&refused));
    let which = format!("process {}, conduct of user ", first.id());
    assert!(said(&refused).contains(&which), "it says which: {}", said(&refused));
    first.kill().unwrap();
    first.wait().unwrap();
    let done = second();
    assert!(done.status.success(), "{}", said(&done));
}

#[test]
fn a_lock_file_that_is_another_file_too_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, file, lock) =
        (folder.path().join("plan.toml"), folder.path().join("precious"), folder.path().join("lock"));
    std::fs::write(&plan, PLAN).unwrap();
    std::fs::write(&file, "precious").unwrap();
    std::fs::hard_link(&file, &lock).unwrap();
    std::fs::hard_link(&file, folder.path().join("lock.present")).unwrap();
    let arguments = ["run", folder.path().to_str().unwrap(), plan.to_str().unwrap()];
    let done = conduct(&arguments).env("BAKEOFF_MACHINE_LOCK", &lock).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn two_bakeoffs_at_once_are_both_marked_whichever_began_first() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
    for folder in [&a, &b, &c] {
        std::fs::create_dir(folder).unwrap();
    }
    let is_marked = |folder: &Path, id: RunId| {
        let bakeoff = Archive::open(&folder.join("archive")).unwrap().bakeoff(id).unwrap();
        let run = bakeoff.attempts[0].run.as_ref().expect("it was measured");
        run.header.labels.contains_key("beside-others")
    };
    let end = |folder: &Path, mut child: Child| {
        std::fs::write(folder.join("go"), "").unwrap();
        assert!(child.wait().unwrap().success());
    };
    let (first, first_id) = begin(&a, &lock, None);
    let (second, second_id) = begin(&b, &lock, Some("BESIDE"));
    end(&a, first);
    assert!(is_marked(&a, first_id), "the first had the machine for itself only in the beginning");

    // The second continues, and a third one needs the machine for itself.
    let plan = c.join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let arguments = ["run", c.to_str().unwrap(), plan.to_str().unwrap()];
    let refused = conduct(&arguments).env("BAKEOFF_MACHINE_LOCK", &lock).output().unwrap();
    assert!(!refused.status.success(), "{}", said(&refused));
    let expected = format!("process {}", second.id());
    assert!(said(&refused).contains(&expected), "it names the other one: {}", said(&refused));
    end(&b, second);
    assert!(is_marked(&b, second_id));

    let (third, third_id) = begin(&c, &lock, None);
    end(&c, third);
    assert!(!is_marked(&c, third_id));
}

#[test]
fn a_bakeoff_beside_others_is_marked_in_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan::read(PLAN, "test.toml").unwrap();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    let bakeoff = archive.bakeoff(outcome.id).unwrap();
    assert_eq!(bakeoff.header.labels["beside-others"], "yes");
    let run = bakeoff.attempts[0].run.as_ref().unwrap();
    assert_eq!(run.header.labels["beside-others"], "yes");
    assert!(run.environment.facts.contains_key("trial.busy_before_ratio"));
}

#[test]
fn root_what_another_user_owns_is_not_run_unasked() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    let planted = folder.path().join("planted");
    let text = format!("{PLAN}\n[values.planted_count]\nrun = \"touch {}; echo 1\"\n", planted.display());
    let stop = Stop::new();
    stop.request();
    let id = run(&plan::read(&text, "x").unwrap(), &archive, &BESIDE, &stop, &mut |_| {}).unwrap().id;
    let file = archive.bakeoff_dir(id).join("plan.toml");
    let refused = || resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
    assert!(matches!(refused(), RunnerError::Untrusted { .. }), "{}", refused());
    assert!(refused().to_string().contains(&format!("touch {}", planted.display())), "{}", refused());
    // Nor a file that all users or a group may write.
    std::os::unix::fs::chown(&file, Some(0), Some(65_534)).unwrap();
    for mode in [0o606, 0o660] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(refused(), RunnerError::Untrusted { .. }), "{}", refused());
    }
    assert!(!planted.exists());
    let trusted = Options { trust: |_| true, ..BESIDE };
    let outcome = resume(&archive, id, &trusted, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(outcome.planned, 0);
    assert!(planted.exists());
    let states: Vec<_> = archive.bakeoff(id).unwrap().attempts.iter().map(|a| a.state).collect();
    assert!(states.iter().all(|s| matches!(s, TrialState::Sealed | TrialState::Invalid)), "{states:?}");
}

/// A bake-off of a script in Lua, interrupted after `trials` of its two trials. The script writes `planted`
/// whenever its body runs.
fn with_script(folder: &Path, beside: &Path, trials: u32) -> (Archive, RunId, PathBuf) {
    let archive = Archive::open(&folder.join("archive")).unwrap();
    let planted = folder.join("planted");
    let script = format!("io.open('{}', 'w'):close()\nfunction event() end\n", planted.display());
    std::fs::write(beside.join("own.lua"), script).unwrap();
    let text = PLAN.replace("blocks = 1", "blocks = 2").replace("[load]", "[load]\nscript = \"own.lua\"");
    let file = beside.join("plan.toml");
    std::fs::write(&file, &text).unwrap();
    let stop = Stop::new();
    let mut left = trials;
    let mut on_event = |event: &bakeoff_runner::Event<'_>| match event {
        bakeoff_runner::Event::Started { .. } if left == 0 => stop.request(),
        bakeoff_runner::Event::Ended { .. } => {
            left -= 1;
            if left == 0 {
                stop.request();
            }
        }
        _ => {}
    };
    let plan = plan::read(&text, file.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run(&plan, &archive, &BESIDE, &stop, &mut on_event).unwrap();
    assert_eq!(outcome.state, RunState::Interrupted);
    std::fs::remove_file(&planted).expect("the body has run");
    (archive, outcome.id, planted)
}

fn resumed(archive: &Archive, id: RunId, options: &Options) -> Result<bakeoff_runner::Outcome, RunnerError> {
    resume(archive, id, options, &Stop::new(), &mut |_| {})
}

#[test]
fn a_script_that_another_user_can_write_is_not_run_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    // As `cp -r` of another user's archive leaves it: the copy is this user's, and its journal names a plan
    // in a folder that the other user writes.
    let (archive, id, planted) = with_script(folder.path(), &shared, 0);
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    let script = std::fs::canonicalize(shared.join("own.lua")).unwrap();
    let refused = resumed(&archive, id, &BESIDE).unwrap_err();
    let RunnerError::Untrusted { foreign } = &refused else { panic!("{refused}") };
    let sum = plan::sha256(&std::fs::read_to_string(&script).unwrap());
    let line = format!("load.script = \"{}\" (sha256 {sum})", script.display());
    assert!(foreign.commands.contains(&line), "{:?}", foreign.commands);
    assert!(!planted.exists(), "the body ran");
    // The script runs if the user names the plan, or trusts the list.
    for options in [
        Options { plan_file: Some(shared.join("plan.toml")), ..BESIDE },
        Options { trust: |_| true, ..BESIDE },
    ] {
        let (archive, id, planted) = with_script(&folder.path().join("again"), &shared, 0);
        assert_eq!(resumed(&archive, id, &options).unwrap().planned, 0);
        assert!(planted.exists());
        std::fs::remove_dir_all(folder.path().join("again")).unwrap();
    }
}

#[test]
fn a_script_that_has_changed_is_refused_before_its_body_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, id, planted) = with_script(folder.path(), folder.path(), 1);
    let script = folder.path().join("own.lua");
    let before = std::fs::read_to_string(&script).unwrap();
    std::fs::write(&script, format!("{before}\n-- another one\n")).unwrap();
    let refused = resumed(&archive, id, &BESIDE).unwrap_err();
    assert!(matches!(refused, RunnerError::AnotherScript { .. }), "{refused}");
    assert!(!planted.exists(), "the body ran");
    std::fs::write(&script, before).unwrap();
    assert_eq!(resumed(&archive, id, &BESIDE).unwrap().planned, 0);
    assert!(planted.exists());
}

/// An interrupted bake-off with a command that writes `planted`.
fn interrupted(folder: &Path, name: &str, planted: &Path) -> (Archive, RunId) {
    let archive = Archive::open(&folder.join(name)).unwrap();
    let text = format!("{PLAN}\n[values.planted_count]\nrun = \"touch {}; echo 1\"\n", planted.display());
    let stop = Stop::new();
    stop.request();
    let id = run(&plan::read(&text, "x").unwrap(), &archive, &BESIDE, &stop, &mut |_| {}).unwrap().id;
    (archive, id)
}

#[test]
fn nothing_is_written_before_the_user_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, id) = interrupted(folder.path(), "archive", &folder.path().join("planted"));
    let of = archive.bakeoff_dir(id);
    // A torn line, and a damaged file that has a copy: `resume` mends both.
    let journal = of.join("events.jsonl");
    let torn = [std::fs::read(&journal).unwrap(), b"{\"torn".to_vec()].concat();
    std::fs::write(&journal, torn).unwrap();
    std::fs::write(of.join("env.json"), "{}").unwrap();
    std::fs::set_permissions(of.join("plan.toml"), std::fs::Permissions::from_mode(0o606)).unwrap();
    let before = contents(&of);
    let refused = resumed(&archive, id, &BESIDE).unwrap_err();
    assert!(matches!(refused, RunnerError::Untrusted { .. }), "{refused}");
    assert!(contents(&of) == before, "resume wrote before it asked");
    assert_eq!(resumed(&archive, id, &Options { trust: |_| true, ..BESIDE }).unwrap().planned, 0);
}

#[test]
fn what_another_user_can_put_in_place_of_an_archive_is_not_run_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let (open, planted) = (folder.path().join("open"), folder.path().join("planted"));
    std::fs::create_dir(&open).unwrap();
    let (archive, id) = interrupted(&open, "archive", &planted);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let is_refused = |archive: &Archive| {
        let refused = resumed(archive, id, &BESIDE).unwrap_err();
        assert!(matches!(refused, RunnerError::Untrusted { .. } | RunnerError::Archive(_)), "{refused}");
        assert!(!planted.exists());
    };
    is_refused(&archive);
    // A link of this user's own into that folder, through which the archive is found.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(open.join("archive"), &link).unwrap();
    match Archive::open(&link) {
        Ok(archive) => is_refused(&archive),
        // Root does not even write there.
        Err(why) => assert!(why.to_string().contains("another user"), "{why}"),
    }
    // The other user swaps the archive while it is read and checked.
    let (swapped, is_over) = (open.join("other"), std::sync::atomic::AtomicBool::new(false));
    std::os::unix::fs::symlink("nowhere", &swapped).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for (from, to) in
                    [("archive", "third"), ("other", "archive"), ("archive", "other"), ("third", "archive")]
                {
                    let _ = std::fs::rename(open.join(from), open.join(to));
                }
            }
        });
        for _ in 0..50 {
            is_refused(&archive);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // The control: in a folder of this user it is resumed, also through a link of the user.
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(resumed(&Archive::open(&link).unwrap(), id, &BESIDE).unwrap().planned, 0);
    assert!(planted.exists());
}

#[test]
fn a_repository_that_another_user_can_write_is_not_built_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let (shared, planted) = (folder.path().join("shared"), folder.path().join("planted"));
    std::fs::create_dir(&shared).unwrap();
    for words in [
        &["init", "-q"][..],
        &["-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "a"],
    ] {
        assert!(Command::new("git").args(words).current_dir(&shared).status().unwrap().success());
    }
    let build = format!("[build]\nsource = \".\"\nrun = \"touch {} {{build}}/x\"\n[load]", planted.display());
    let text = PLAN.replace("[load]", &build);
    let file = shared.join("plan.toml");
    std::fs::write(&file, &text).unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    let stop = Stop::new();
    stop.request();
    let plan = plan::read(&text, file.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let id = run(&plan, &archive, &BESIDE, &stop, &mut |_| {}).unwrap().id;
    assert!(!planted.exists());
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = resumed(&archive, id, &BESIDE).unwrap_err();
    let RunnerError::Untrusted { foreign } = &refused else { panic!("{refused}") };
    assert!(foreign.commands.iter().any(|line| line.starts_with("build.run")), "{:?}", foreign.commands);
    assert!(!planted.exists(), "it was built");
    // For root, git's filters would run as root: the list of commands does not tell.
    if nix::unistd::geteuid().is_root() {
        let refused = resumed(&archive, id, &Options { trust: |_| true, ..BESIDE }).unwrap_err().to_string();
        assert!(refused.contains("root does not build from") && refused.contains("any user"), "{refused}");
        assert!(!planted.exists(), "it was built");
    }
}
