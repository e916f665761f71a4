//! Environment of the processes of one series: a scratch folder, a control group or a mark, an account,
//! variables.
//!
//! Everything that a series leaves behind is in its workspace. Closing the workspace ends and removes it, in
//! this process or in the one that resumes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use archive::{JournalEvent, Step};
use nix::unistd::{Pid, Uid, geteuid};
use record::bakeoff::Levels;

use crate::account::{self, Account};
use crate::control_group::{self, ControlGroup, Limits};
use crate::error::RunnerError;
use crate::log::Log;
use crate::process::{Placement, Process};
use crate::random;
use crate::scratch::{self, Left, Scratch};
use crate::strays::{Strays, VARIABLE};

/// Variables that a process inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// PATH, HOME, LANG, TMPDIR.
    Little,
    /// All variables of this process.
    Everything,
}

/// Names of a workspace that does not exist yet: they are written to the journal first.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    folder: PathBuf,
    control_group: Option<PathBuf>,
    mark: String,
    account: Option<Account>,
}

impl Layout {
    /// Returns new names, which cannot be guessed.
    pub(crate) fn fresh(account: Option<Account>) -> Self {
        let mark = random::token();
        Self { folder: scratch::path_of(&mark), control_group: ControlGroup::place(&mark), mark, account }
    }

    /// Returns the line of the journal.
    pub(crate) fn step(&self) -> Step {
        let owner = self.account.map_or(geteuid(), |account| account.uid);
        Step::Workspace {
            folder: self.folder.display().to_string(),
            owner: owner.as_raw(),
            control_group: self.control_group.as_ref().map(|path| path.display().to_string()),
            mark: self.mark.clone(),
        }
    }
}

/// Means to find the processes of a workspace again.
#[derive(Debug)]
enum Enclosure {
    Group(Arc<ControlGroup>),
    Marked(Strays),
}

/// Workspace of the processes of one series; closed when dropped.
#[derive(Debug)]
pub(crate) struct Workspace {
    scratch: Scratch,
    enclosure: Enclosure,
    mark: String,
    account: Option<Account>,
    inherit: Inherit,
    levels: Vec<(String, String)>,
    is_closed: bool,
}

impl Workspace {
    /// Creates it, empty.
    ///
    /// - `levels`: become `BAKEOFF_NAME` in the environment of every process.
    pub(crate) fn open(layout: Layout, inherit: Inherit, levels: &Levels) -> Result<Self, RunnerError> {
        let Layout { folder, control_group, mark, account } = layout;
        let scratch = Scratch::make(&folder, account)?;
        let group = control_group.and_then(|path| ControlGroup::make(path).ok());
        let enclosure = match group {
            Some(group) => Enclosure::Group(Arc::new(group)),
            None => Enclosure::Marked(Strays::begin(&mark, account.map(|a| a.uid.as_raw()))),
        };
        let levels = levels.iter().map(|(name, level)| (variable(name), level.clone())).collect();
        Ok(Self { scratch, enclosure, mark, account, inherit, levels, is_closed: false })
    }

    /// Adds variables to the environment of every process.
    pub(crate) fn add_variables(&mut self, variables: &[(String, String)]) {
        self.levels.extend_from_slice(variables);
    }

    /// Returns the scratch folder.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the control group of its processes; `None` if none could be created.
    pub(crate) fn control_group(&self) -> Option<&Arc<ControlGroup>> {
        match &self.enclosure {
            Enclosure::Group(group) => Some(group),
            Enclosure::Marked(_) => None,
        }
    }

    /// Limits its processes; before the first of them starts.
    pub(crate) fn limit(&mut self, limits: &Limits) -> Result<(), String> {
        match &mut self.enclosure {
            _ if *limits == Limits::default() => Ok(()),
            Enclosure::Group(group) => {
                Arc::get_mut(group).ok_or("its processes have started already")?.limit(limits)
            }
            Enclosure::Marked(_) => {
                Err("a limit needs a control group, which this user cannot create: run as root".to_owned())
            }
        }
    }

    /// Returns the value of [`VARIABLE`] in the environment of its processes.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Returns its processes.
    pub(crate) fn members(&self) -> Vec<Pid> {
        match &self.enclosure {
            Enclosure::Group(group) => group.members(),
            Enclosure::Marked(marked) => marked.members(),
        }
    }

    /// Returns the user that its processes run as.
    pub(crate) fn user(&self) -> Uid {
        self.account.map_or(geteuid(), |account| account.uid)
    }

    /// Returns a command for a program with the environment of the workspace. Its folder is in
    /// [`Self::placement`].
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if self.inherit == Inherit::Little {
            command.env_clear().envs(self.little());
        } else if self.account.is_some() {
            command.env("HOME", self.folder());
        }
        command.envs(self.levels.iter().cloned()).env(VARIABLE, &self.mark);
        command
    }

    /// Returns a command for a script of `sh`.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.command("sh");
        command.args(["-c", script]);
        command
    }

    /// Returns the placement: the scratch folder, all CPUs, the default scheduling class.
    pub(crate) fn placement(&self) -> Placement {
        let folder = Some(self.scratch.folder().clone());
        Placement {
            account: self.account,
            group: self.control_group().cloned(),
            folder,
            ..Placement::ANYWHERE
        }
    }

    /// Starts a command that [`Self::command`] or [`Self::shell`] returned.
    pub(crate) fn start(&self, command: Command, log: &Log) -> io::Result<Process> {
        Process::start(command, &self.placement(), log)
    }

    /// Creates a folder directly in the folder, for the account of its processes. Returns its descriptor: a
    /// process of that account may put another folder, or a link, in its place.
    pub(crate) fn make_folder(&self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        let name = path.strip_prefix(self.folder()).ok().map(Path::as_os_str);
        let name = name.filter(|name| !name.as_encoded_bytes().contains(&b'/'));
        let name = name.ok_or(io::ErrorKind::InvalidInput)?;
        scratch::make_folder_in(self.scratch.folder(), name, self.account).map(Arc::new)
    }

    /// Returns the descriptor of the folder.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.scratch.folder().clone()
    }

    /// Writes a file for the account of its processes into an open folder.
    pub(crate) fn write_file(&self, folder: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
        let log = Log::make(folder, name, self.account)?;
        io::Write::write_all(&mut log.file()?, text.as_bytes())
    }

    /// Creates a log in the folder.
    pub(crate) fn log(&self, name: &str) -> io::Result<Log> {
        Log::make(self.scratch.folder(), name, self.account)
    }

    /// Ends every process and removes the folder. Returns notes about that.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.is_closed = true;
        let mut notes = Vec::new();
        if let Err(why) = self.end_processes() {
            notes.push(why);
        }
        let Self { scratch, enclosure, account, .. } = self;
        let removed = scratch.remove(|| {
            let _ = end(enclosure, *account);
        });
        if let Err(e) = removed {
            let folder = scratch.path().display();
            notes.push(format!("cannot remove the scratch folder {folder}: {e}"));
        }
        notes
    }

    /// Ends every process of the series that runs, and keeps the folder.
    pub(crate) fn empty(&self) -> Result<(), String> {
        match &self.enclosure {
            Enclosure::Group(group) => group.empty().map(drop),
            Enclosure::Marked(marked) => marked.end().map(drop),
        }
    }

    fn end_processes(&self) -> Result<(), String> {
        end(&self.enclosure, self.account)
    }

    fn little(&self) -> Vec<(&'static str, OsString)> {
        let kept = ["PATH", "LANG", "HOME", "TMPDIR"].into_iter();
        let mut kept: Vec<_> = kept.filter_map(|name| Some((name, std::env::var_os(name)?))).collect();
        if self.account.is_some() {
            // Those of the caller are not for another user.
            kept.retain(|(name, _)| !matches!(*name, "HOME" | "TMPDIR"));
            kept.extend([("HOME", self.folder().into()), ("TMPDIR", self.folder().into())]);
        }
        kept
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.is_closed {
            self.close();
        }
    }
}

fn end(enclosure: &Enclosure, account: Option<Account>) -> Result<(), String> {
    let dies_at_once = matches!(enclosure, Enclosure::Group(group) if group.dies_at_once());
    if let (Some(account), false) = (account, dies_at_once) {
        account.end_all();
    }
    match enclosure {
        Enclosure::Group(group) if group.end() => Ok(()),
        Enclosure::Group(group) => Err(control_group::immortal(group.path())),
        Enclosure::Marked(marked) => marked.end().map(drop),
    }
}

/// Names in a line of a journal, which another user may have written.
struct Named<'a> {
    folder: &'a Path,
    owner: u32,
    control_group: Option<&'a Path>,
    mark: &'a str,
}

impl Named<'_> {
    /// Whether all names are those of one workspace, as [`Layout::fresh`] generates them. Otherwise the
    /// folder, with the lock of a maker that lives or not, proves nothing about the group and the mark.
    fn is_one_workspace(&self) -> bool {
        random::is_token(self.mark)
            && self.folder == scratch::path_of(self.mark)
            && self.control_group.is_none_or(|group| control_group::is_named(group, self.mark))
    }
}

/// Returns the variable of a factor: `BAKEOFF_buffer_pool` for `buffer-pool`.
pub(crate) fn variable(factor: &str) -> String {
    format!("BAKEOFF_{}", factor.replace('-', "_"))
}

/// Ends and removes what a dead process left of a bake-off. Returns notes about that.
///
/// Only the holder of the bake-off's journal may call this: then no live process works on it. The actions
/// follow from the journal alone, never from a file that another user could have written. But a stranger may
/// have written the journal, with names of a bake-off that lives: what its process holds is left alone.
///
/// - `is_alone`: whether this process holds the machine for itself. Otherwise only the folder of a step
///   proves that its processes are not those of another bake-off.
///
/// # Errors
///
/// If a process does not die: if it is a server, it would answer for the next one.
pub(crate) fn clear(journal: &[JournalEvent], is_alone: bool) -> Result<Vec<String>, RunnerError> {
    let mut done = Vec::new();
    let left = journal.iter().filter_map(|event| match &event.step {
        Step::Workspace { folder, owner, control_group, mark } => Some(Named {
            folder: Path::new(folder),
            owner: *owner,
            control_group: control_group.as_deref().map(Path::new),
            mark,
        }),
        _ => None,
    });
    let left: Vec<_> = left.collect();
    for (at, named) in left.iter().enumerate() {
        let Named { folder, owner, control_group, mark } = *named;
        if !named.is_one_workspace() {
            let what =
                "has another name than its processes: it is not removed, and they are not ended; check it";
            let is_there = std::fs::symlink_metadata(folder).is_ok();
            done.extend(is_there.then(|| format!("{} {what}", folder.display())));
            continue;
        }
        let found = Left::open(folder, owner);
        if matches!(found, Left::Held) || (!is_alone && !matches!(found, Left::Ours(_))) {
            done.extend(found.remove(folder));
            continue;
        }
        // No journal names another user with processes to end.
        let owner = Some(owner).filter(|owner| account::is_ours_to_clear(*owner));
        // The folder is removed last: if it is gone, the rest is too.
        let may_live = at + 1 == left.len() || !matches!(found, Left::Gone);
        let by_group = control_group.map_or(Ok(0), control_group::end_left);
        let by_mark = if may_live { Strays::left(mark, owner).end() } else { Ok(0) };
        let problems: Vec<String> =
            [&by_group, &by_mark].into_iter().filter_map(|r| r.clone().err()).collect();
        if !problems.is_empty() {
            return Err(RunnerError::NotFit { problems });
        }
        match by_group.unwrap_or(0) + by_mark.unwrap_or(0) {
            0 => {}
            1 => done.push("killed a process that the previous bakeoff left behind".to_owned()),
            n => done.push(format!("killed {n} processes that the previous bakeoff left behind")),
        }
        done.extend(found.remove(folder));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
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
        let (precious, planted) =
            (elsewhere.path().join("precious"), temporary.join(format!("bakeoff-{token}")));
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
            assert!(
                ["PATH", "LANG", "HOME", "TMPDIR"].contains(&name) || name.starts_with("BAKEOFF_"),
                "{name}"
            );
        }
        assert!(environment(Inherit::Everything).contains("CARGO_PKG_NAME="));
    }
}
