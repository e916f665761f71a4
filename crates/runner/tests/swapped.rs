//! `resume` of a bake-off runs what the user was shown, although another user replaces its files meanwhile,
//! and no file of a copy that the user was not shown.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use archive::{Archive, Step};
use bakeoff_runner::{Options, RunnerError, resume, run};
use load::Stop;
use record::run::RunId;

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};
const TRUSTED: Options = Options { trust: |_| true, ..BESIDE };

const PLAN: &str = r#"
schema = 1
title  = "What a copy may reach"
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

thread_local! {
    /// Commands that were shown to the user.
    static SHOWN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Two bake-offs: while the user reads, the files of the first replace those of the second.
    static SWAP: RefCell<Option<(PathBuf, PathBuf)>> = const { RefCell::new(None) };
}

/// Agrees, after another user has replaced the files of the bake-off by others that match each other.
const SWAPPED: Options = Options {
    trust: |foreign| {
        SHOWN.with_borrow_mut(|shown| shown.clone_from(&foreign.commands));
        let (from, to) = SWAP.take().expect("the question is asked once");
        for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        true
    },
    ..BESIDE
};

/// An interrupted bake-off.
fn interrupted(dir: &Path, text: &str, file: &str, id: Option<RunId>) -> (Archive, RunId) {
    let archive = Archive::open(dir).unwrap();
    let stop = Stop::new();
    stop.request();
    let plan = plan::read(text, file).unwrap_or_else(|e| panic!("{e}"));
    let id = run(&plan, &archive, &Options { id, ..BESIDE }, &stop, &mut |_| {}).unwrap().id;
    (archive, id)
}

/// An interrupted bake-off; all users may write its order.
fn shared(dir: &Path, text: &str, file: &str, id: Option<RunId>) -> (Archive, RunId) {
    let (archive, id) = interrupted(dir, text, file, id);
    let order = archive.bakeoff_dir(id).join("order.json");
    std::fs::set_permissions(order, std::fs::Permissions::from_mode(0o606)).unwrap();
    (archive, id)
}

/// Resumes the bake-off of `text` while the files of that of `other` replace its files.
fn resumed_while_swapped(
    folder: &Path,
    file: &str,
    text: &str,
    between: impl FnOnce(),
    other: &str,
) -> RunnerError {
    let (archive, id) = shared(&folder.join("one"), text, file, None);
    between();
    let (swapped, _) = shared(&folder.join("other"), other, file, Some(id));
    SWAP.set(Some((swapped.bakeoff_dir(id), archive.bakeoff_dir(id))));
    resume(&archive, id, &SWAPPED, &Stop::new(), &mut |_| {}).unwrap_err()
}

#[test]
fn the_commands_and_levels_that_were_shown_are_the_ones_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let (approved, swapped) = (folder.path().join("approved"), folder.path().join("swapped"));
    let touch = |what: &Path| {
        // A key and a value in spellings that a search for words would miss.
        let text = "[values.planted_count]\n\"r\\u0075n\" = \"\"\"\nsh -c {arm}; echo 1\"\"\"\n";
        let arm = format!("[factors.arm]\nvalues = [\"touch {}\"]\nlevel = \"whole-plot\"\n", what.display());
        format!("{PLAN}\n{arm}{text}")
    };
    let refused = resumed_while_swapped(folder.path(), "x", &touch(&approved), || (), &touch(&swapped));
    assert!(matches!(refused, RunnerError::Swapped { .. }), "{refused}");
    let shown = SHOWN.take();
    for line in [
        "values.planted_count.run = \"sh -c {arm}; echo 1\"".to_owned(),
        format!("factors.arm.values[1] = \"touch {}\"", approved.display()),
    ] {
        assert!(shown.contains(&line), "{line}: {shown:?}");
    }
    assert!(!approved.exists() && !swapped.exists());
    // The control: unchanged files run.
    let (archive, id) = shared(&folder.path().join("third"), &touch(&approved), "x", None);
    assert_eq!(resume(&archive, id, &TRUSTED, &Stop::new(), &mut |_| {}).unwrap().planned, 0);
    assert!(approved.exists());
}

#[test]
fn the_commit_that_was_shown_is_the_one_that_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let (source, planted) = (folder.path().join("source"), folder.path().join("planted"));
    std::fs::create_dir(&source).unwrap();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a"]).args(words).current_dir(&source);
        let done = git.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let commit = |text: &str| {
        std::fs::write(source.join("text"), text).unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", text]);
    };
    git(&["init", "-q"]);
    commit("approved");
    let first = git(&["rev-parse", "HEAD"]);
    // The build fails: nothing stays in the cache.
    let run = format!("cat ./text >&2; touch {}; false", planted.display());
    let text = PLAN.replace("[load]", &format!("[build]\nsource = \"source\"\nrun = \"{run}\"\n[load]"));
    let file = folder.path().join("plan.toml");
    std::fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    let refused = resumed_while_swapped(folder.path(), file, &text, || commit("swapped"), &text);
    assert!(matches!(refused, RunnerError::Swapped { .. }), "{refused}");
    let shown = SHOWN.take();
    assert!(shown.iter().any(|line| line.contains(&format!("commit {first}"))), "{shown:?}");
    assert!(!planted.exists());
    // The control: the commit that was shown is built.
    git(&["reset", "-q", "--hard", &first]);
    let (archive, id) = shared(&folder.path().join("third"), &text, file, None);
    commit("later");
    let built = resume(&archive, id, &TRUSTED, &Stop::new(), &mut |_| {}).unwrap_err().to_string();
    assert!(built.contains("approved") && planted.exists(), "{built}");
}

/// An interrupted bake-off of a script in Lua that writes `planted` whenever its body runs. The plan is in
/// `folder`, which is a file of the archive `dir` or not.
fn with_script(dir: &Path, folder: &Path, planted: &Path) -> (Archive, RunId) {
    std::fs::create_dir_all(folder).unwrap();
    let script = format!("io.open('{}', 'w'):close()\nfunction event() end\n", planted.display());
    std::fs::write(folder.join("own.lua"), script).unwrap();
    let file = folder.join("plan.toml");
    let text = PLAN.replace("[load]", "[load]\nscript = \"own.lua\"");
    std::fs::write(&file, &text).unwrap();
    let (archive, id) = interrupted(dir, &text, file.to_str().unwrap(), None);
    std::fs::remove_file(planted).expect("the body has run");
    (archive, id)
}

/// Another user's journal names the plan's file; the archive is a copy that this user made.
#[test]
fn a_copy_runs_no_script_of_its_own_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("planted");
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = |path: &Path| up.join(path.strip_prefix("/").unwrap());
    let named = |archive: &Archive, id, path: &Path| {
        archive.journal(id).unwrap().say(Step::PlanFile { path: path.display().to_string() }).unwrap();
    };
    let is_asked = |(archive, id): &(Archive, RunId), plan: &Path| {
        let refused = resume(archive, *id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
        let RunnerError::Untrusted { foreign } = &refused else { panic!("{refused}") };
        assert!(foreign.owner.starts_with("the archive: "), "{refused}");
        let script = std::fs::canonicalize(plan.with_file_name("own.lua")).unwrap();
        let line = format!("load.script = \"{}\" (sha256 ", script.display());
        assert!(foreign.commands.iter().any(|shown| shown.starts_with(&line)), "{:?}", foreign.commands);
        assert!(!planted.exists(), "the body ran");
    };
    let (dir, outside) = (folder.path().join("archive"), folder.path().join("outside"));
    let inside = dir.join("bakeoffs/evil");
    let below = with_script(&dir, &inside, &planted);
    is_asked(&below, &inside.join("plan.toml"));
    // A path that leads there by a link, and one that is relative.
    let own = with_script(&dir, &outside, &planted);
    std::os::unix::fs::symlink(&inside, folder.path().join("link")).unwrap();
    named(&own.0, own.1, &folder.path().join("link/plan.toml"));
    is_asked(&own, &inside.join("plan.toml"));
    let file = outside.join("plan.toml");
    named(&own.0, own.1, &relative(&file));
    is_asked(&own, &file);
    // The controls: the user names the plan, or the journal does, elsewhere.
    let with = Options { plan_file: Some(inside.join("plan.toml")), ..BESIDE };
    assert_eq!(resume(&below.0, below.1, &with, &Stop::new(), &mut |_| {}).unwrap().planned, 0);
    std::fs::remove_file(&planted).unwrap();
    named(&own.0, own.1, &std::fs::canonicalize(&file).unwrap());
    assert_eq!(resume(&own.0, own.1, &BESIDE, &Stop::new(), &mut |_| {}).unwrap().planned, 0);
    assert!(planted.exists());
}

#[test]
fn a_copy_reads_no_plan_and_no_repository_of_its_own_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, planted) = (folder.path().join("archive"), folder.path().join("planted"));
    let inside = dir.join("bakeoffs/evil");
    std::fs::create_dir_all(&inside).unwrap();
    for words in [
        &["init", "-q"][..],
        &["-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "a"],
    ] {
        assert!(Command::new("git").args(words).current_dir(&inside).status().unwrap().success());
    }
    let build = format!("[build]\nsource = \".\"\nrun = \"touch {}; false\"\n[load]", planted.display());
    let text = PLAN.replace("[load]", &build);
    let file = inside.join("plan.toml");
    std::fs::write(&file, &text).unwrap();
    let (archive, id) = interrupted(&dir, &text, file.to_str().unwrap(), None);
    let refused = resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, RunnerError::Untrusted { .. }), "{refused}");
    assert!(!planted.exists(), "it was built");
    let with = Options { plan_file: Some(file.clone()), ..BESIDE };
    let built = resume(&archive, id, &with, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(built, RunnerError::Build { .. }) && planted.exists(), "the control: {built}");
    std::fs::remove_file(&planted).unwrap();

    // The archive masks the plan's text: its own file has it.
    let text = format!(
        "{}\n[values.planted_count]\nrun = \"touch {}; echo 1\"\n",
        PLAN.replace("[design]", "question = \"mysql://a:secret@h/b\"\n[design]"),
        planted.display()
    );
    std::fs::write(&file, &text).unwrap();
    let (archive, id) = interrupted(&dir, &text, file.to_str().unwrap(), None);
    let refused = resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, RunnerError::PlanMasked { tried: Some(_), .. }), "{refused}");
    assert!(!planted.exists(), "it ran");
    assert_eq!(resume(&archive, id, &with, &Stop::new(), &mut |_| {}).unwrap().planned, 0, "the control");
    assert!(planted.exists());
}

/// Before the first trial, the archive has no text of a module.
#[test]
fn a_module_that_the_archive_does_not_have_is_not_loaded_unless_the_user_names_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("planted");
    std::fs::write(folder.path().join("module.lua"), "").unwrap();
    let begun = || {
        let (archive, id) = with_script(&folder.path().join("archive"), folder.path(), &planted);
        std::fs::write(folder.path().join("module.lua"), format!("io.open('{}', 'w')", planted.display()))
            .unwrap();
        let script = folder.path().join("own.lua");
        std::fs::write(script, "require('module')\nfunction event() end\n").unwrap();
        (archive, id)
    };
    let (archive, id) = begun();
    let refused = resume(&archive, id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("name the plan by --plan"), "{refused}");
    assert!(!planted.exists(), "the module ran");
    let with = Options { plan_file: Some(folder.path().join("plan.toml")), ..BESIDE };
    assert_eq!(resume(&archive, id, &with, &Stop::new(), &mut |_| {}).unwrap().planned, 0);
    assert!(planted.exists());
}
