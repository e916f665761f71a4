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
            && scratch::token_of(self.folder) == Some(self.mark)
            && self.control_group.is_none_or(|group| control_group::is_named(group, self.mark))
    }

    /// Whether the folder is where this process makes its own. In another place, as that of a process with
    /// another `TMPDIR`, a live maker could have the same name here: only the folder itself is a proof.
    fn is_here(&self) -> bool {
        self.folder == scratch::path_of(self.mark)
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
            let what = "has another name in the journal than its processes, as in older versions of bakeoff: it is \
                        not removed, and they are not ended; check it";
            let is_there = std::fs::symlink_metadata(folder).is_ok();
            done.extend(is_there.then(|| format!("{} {what}", folder.display())));
            continue;
        }
        let found = Left::open(folder, owner);
        let needs_folder = !is_alone || !named.is_here();
        if matches!(found, Left::Held) || (needs_folder && !matches!(found, Left::Ours(_))) {
            done.extend(found.remove(folder, false));
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
        done.extend(found.remove(folder, true));
    }
    Ok(done)
}

#[cfg(test)]
mod tests;
