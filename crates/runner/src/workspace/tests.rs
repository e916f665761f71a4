use std::time::Duration;

use load::Stop;

use super::*;
use crate::process::{Stat, Waited, wait_for};

const LONG: Duration = Duration::from_mins(2);

fn journal(layout: &Layout) -> Vec<JournalEvent> {
    vec![crate::ledger::event(Some(1), None, 1, layout.step())]
}

/// Starts a process that leaves its group, session and parent, and ignores the signals that can be
/// ignored.
fn escaped(workspace: &Workspace) -> i32 {
    let script = "setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >pid.new; mv pid.new pid; \
                  while :; do sleep 1000; done' & exit 0";
    let log = workspace.log("log").unwrap();
    let mut process = workspace.start(workspace.shell(script), &log).unwrap();
    assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
    let pid = workspace.folder().join("pid");
    assert_eq!(wait_for(LONG, &Stop::new(), || pid.exists()), Waited::Done);
    process.finish().unwrap();
    std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()
}

fn check_closes(layout: Layout) {
    let mut workspace = Workspace::open(layout, Inherit::Little, &Levels::new()).unwrap();
    let pid = escaped(&workspace);
    assert!(workspace.members().contains(&Pid::from_raw(pid)));
    assert_eq!(workspace.close(), Vec::<String>::new());
    assert!(Stat::of(pid).is_err(), "the process that escaped is dead");
    assert!(!workspace.folder().exists());
}

fn check_cleared(layout: Layout, is_alone: bool) {
    let journal = journal(&layout);
    let workspace = Workspace::open(layout, Inherit::Little, &Levels::new()).unwrap();
    let (pid, folder) = (escaped(&workspace), workspace.folder().to_owned());
    let said = clear(&journal, true).unwrap().join("; ");
    assert!(said.contains("a process that lives holds") && !said.contains("killed"), "{said}");
    assert!(Stat::of(pid).is_ok() && folder.exists());
    // As after kill -9: the workspace is not closed.
    workspace.scratch.let_go();
    std::mem::forget(workspace);
    let said = clear(&journal, is_alone).unwrap().join("; ");
    assert!(said.contains("killed") && said.contains("removed"), "{said}");
    assert!(Stat::of(pid).is_err() && !folder.exists());
    assert_eq!(clear(&journal, is_alone).unwrap(), Vec::<String>::new());
}

#[test]
fn closing_ends_what_left_group_session_and_parent() {
    let _alone = crate::strays::alone();
    check_closes(Layout::fresh(None));
    check_closes(Layout { control_group: None, ..Layout::fresh(None) });
    check_closes(Layout::fresh(crate::account::choose(None).unwrap()));
}

#[test]
fn a_file_of_an_instance_goes_into_its_folder_although_a_link_stands_in_its_place() {
    let _alone = crate::strays::alone();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("x"), "precious").unwrap();
    let layout = Layout { control_group: None, ..Layout::fresh(None) };
    let workspace = Workspace::open(layout, Inherit::Little, &Levels::new()).unwrap();
    let (path, moved) = (workspace.folder().join("2"), workspace.folder().join("moved"));
    let open = workspace.make_folder(&path).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
    workspace.write_file(&open, "x", "text").unwrap();
    assert_eq!(std::fs::read_to_string(moved.join("x")).unwrap(), "text");
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("x")).unwrap(), "precious");
    assert!(workspace.make_folder(&path.join("below")).is_err(), "only directly in the folder");
}

#[test]
fn what_a_dead_process_left_is_ended_by_what_the_journal_says() {
    let _alone = crate::strays::alone();
    check_cleared(Layout::fresh(None), true);
    check_cleared(Layout { control_group: None, ..Layout::fresh(None) }, false);
    // It had another `TMPDIR`.
    let elsewhere = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(elsewhere.path(), open).unwrap();
    let there = |layout: Layout| {
        let folder = elsewhere.path().join(layout.folder.file_name().unwrap());
        Layout { folder, ..layout }
    };
    check_cleared(there(Layout::fresh(None)), true);
    check_cleared(there(Layout { control_group: None, ..Layout::fresh(None) }), false);
    check_cleared(there(Layout::fresh(crate::account::choose(None).unwrap())), true);
}

#[test]
fn a_folder_that_another_user_planted_kills_nothing_and_stays() {
    let layout = Layout { control_group: None, ..Layout::fresh(None) };
    let journal = journal(&layout);
    // A folder with the name in the journal that asks to kill this process.
    std::fs::create_dir(&layout.folder).unwrap();
    std::fs::write(layout.folder.join("server"), format!("{} 1\n", std::process::id())).unwrap();
    let said = clear(&journal, true).unwrap().join("; ");
    assert!(said.contains("is not removed") && !said.contains("killed"), "{said}");
    assert!(layout.folder.exists());
    std::fs::remove_dir_all(&layout.folder).unwrap();
}

/// Another user may have written a journal inside an archive that root has copied.
#[test]
fn a_journal_that_names_what_no_bakeoff_made_ends_and_removes_nothing() {
    let _alone = crate::strays::alone();
    let elsewhere = tempfile::tempdir().unwrap();
    let token = random::token();
    let temporary = std::fs::canonicalize(std::env::temp_dir()).unwrap();
    let (precious, planted) = (elsewhere.path().join("precious"), temporary.join(format!("bakeoff-{token}")));
    for folder in [&precious, &planted] {
        std::fs::create_dir(folder).unwrap();
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    std::fs::write(precious.join("file"), "x").unwrap();
    // A folder that looks like a control group, with a process to kill in it and a link to overwrite.
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    std::fs::write(planted.join("cgroup.procs"), victim.id().to_string()).unwrap();
    std::os::unix::fs::symlink(precious.join("file"), planted.join("cgroup.kill")).unwrap();
    let says = |folder: &Path, control_group: &Path| {
        let step = Step::Workspace {
            folder: folder.display().to_string(),
            owner: geteuid().as_raw(),
            control_group: Some(control_group.display().to_string()),
            mark: token.clone(),
        };
        clear(&[crate::ledger::event(Some(1), None, 1, step)], true).unwrap().join("; ")
    };
    let said = says(&precious, &planted);
    assert_eq!(std::fs::read_to_string(precious.join("file")).unwrap(), "x", "{said}");
    assert!(victim.try_wait().unwrap().is_none(), "{said}");
    assert!(said.contains("is not removed") && !said.contains("killed"), "{said}");
    // The control: a folder with a name of ours.
    assert!(says(&planted, &planted).contains("removed") && !planted.exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// The journal has the folder of a dead process, and the group and the mark of one that lives.
#[test]
fn a_journal_that_mixes_the_names_of_two_workspaces_ends_neither() {
    let _alone = crate::strays::alone();
    let live = Layout::fresh(None);
    let workspace = Workspace::open(live.clone(), Inherit::Little, &Levels::new()).unwrap();
    let pid = escaped(&workspace);
    let mixed = |change: &dyn Fn(&mut Layout)| {
        let mut layout = Layout::fresh(None);
        let dead = Scratch::make(&layout.folder, None).unwrap();
        dead.let_go();
        change(&mut layout);
        for is_alone in [true, false] {
            let said = clear(&journal(&layout), is_alone).unwrap().join("; ");
            assert!(Stat::of(pid).is_ok(), "{said}");
            assert!(said.contains("is not removed") && dead.path().exists(), "{said}");
        }
    };
    mixed(&|layout| layout.mark.clone_from(&live.mark));
    mixed(&|layout| layout.control_group.clone_from(&live.control_group));
    mixed(&|layout| *layout = Layout { folder: layout.folder.clone(), ..live.clone() });
    // The folder is gone, or elsewhere; and a text that no process of ours has as its mark.
    for (folder, mark) in [
        (scratch::path_of(&random::token()), live.mark.clone()),
        (PathBuf::from("/").join(live.folder.file_name().unwrap()), live.mark.clone()),
        (scratch::path_of(""), String::new()),
    ] {
        let layout = Layout { folder, mark, ..live.clone() };
        assert_eq!(clear(&journal(&layout), true).unwrap(), Vec::<String>::new());
        assert!(Stat::of(pid).is_ok());
    }
    // The server has opened its folder to others: the lock counts all the same.
    let open = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&live.folder, mode).unwrap();
    };
    open(0o755);
    assert!(clear(&journal(&live), true).unwrap().join("; ").contains("a process that lives holds"));
    assert!(Stat::of(pid).is_ok());
    // The control: the names of one workspace, after the death of its maker.
    open(0o700);
    workspace.scratch.let_go();
    std::mem::forget(workspace);
    assert!(clear(&journal(&live), true).unwrap().join("; ").contains("killed"));
    assert!(Stat::of(pid).is_err());
}

#[test]
fn a_server_that_moves_its_folder_away_does_not_lead_us_elsewhere() {
    let mut workspace = Workspace::open(Layout::fresh(None), Inherit::Little, &Levels::new()).unwrap();
    let (elsewhere, folder) = (tempfile::tempdir().unwrap(), workspace.folder().to_owned());
    let moved = folder.with_file_name(format!("bakeoff-moved-{}", random::token()));
    std::fs::write(elsewhere.path().join("ready.log"), "precious").unwrap();
    std::fs::write(folder.join("left"), "x").unwrap();
    std::fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
    drop(workspace.log("ready.log"));
    drop(workspace.log("new.log"));
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("ready.log")).unwrap(), "precious");
    assert!(!elsewhere.path().join("new.log").exists());
    assert_eq!(workspace.close(), Vec::<String>::new());
    assert!(elsewhere.path().join("ready.log").exists());
    assert!(!moved.exists() && std::fs::symlink_metadata(&folder).is_err());
}

#[test]
fn root_a_process_that_forks_and_ends_again_and_again_does_not_outlive_its_series() {
    let _alone = crate::strays::alone();
    let Some(account) = crate::account::choose(None).unwrap() else {
        println!("skipped: not root");
        return;
    };
    let layout = Layout { control_group: None, ..Layout::fresh(Some(account)) };
    let mut workspace = Workspace::open(layout, Inherit::Little, &Levels::new()).unwrap();
    let script = "printf '#!/bin/sh\\n\"$0\" & exit\\n' >comet; chmod 700 comet; setsid ./comet";
    let log = workspace.log("log").unwrap();
    let mut process = workspace.start(workspace.shell(script), &log).unwrap();
    assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
    let lives = || (0..100).any(|_| crate::account::process_owners().contains(&account.uid.as_raw()));
    assert!(lives(), "{}", log.text().unwrap());
    process.finish().unwrap();
    assert_eq!(workspace.close(), Vec::<String>::new());
    assert!(!lives());
}

#[test]
fn processes_get_a_clean_environment_with_the_levels_in_it() {
    // `cargo test` sets this one.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let levels = Levels::from([("buffer-pool".to_owned(), "a; b".to_owned())]);
    let environment = |inherit| {
        let workspace = Workspace::open(Layout::fresh(None), inherit, &levels).unwrap();
        let log = workspace.log("log").unwrap();
        let mut process = workspace.start(workspace.command("env"), &log).unwrap();
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        process.finish().unwrap();
        log.text().unwrap()
    };
    let little = environment(Inherit::Little);
    assert!(little.contains("BAKEOFF_buffer_pool=a; b\n"), "{little}");
    assert!(little.contains("BAKEOFF_SERIES="), "{little}");
    for name in little.lines().filter_map(|line| line.split('=').next()) {
        assert!(["PATH", "LANG", "HOME", "TMPDIR"].contains(&name) || name.starts_with("BAKEOFF_"), "{name}");
    }
    assert!(environment(Inherit::Everything).contains("CARGO_PKG_NAME="));
}
