//! The processes of a series where no control group can be made: by descent, and by a mark in their environment.
//!
//! This process adopts what its descendants leave behind (it is their subreaper), so that a process that changes group
//! and session is still one of its children. When this process dies, the mark remains. A process that clears its
//! environment *and* outlives this process is not found: that takes a control group.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use load::Stop;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, geteuid, getpid};

use crate::process::{Stat, Waited, wait_for};

/// The variable that marks a process, also within a control group.
pub(crate) const VARIABLE: &str = "BAKEOFF_SERIES";
/// Killed processes are gone when the kernel has torn down their memory.
const PATIENCE: Duration = Duration::from_mins(1);

/// The processes with one mark, and their descendants.
#[derive(Debug)]
pub(crate) struct Marked {
    mark: String,
    /// Whose processes they are.
    owners: Vec<u32>,
    /// Whether this process made the mark, so that what it adopts since then is of the series too.
    adopts: bool,
}

#[derive(Debug)]
struct Listed {
    stat: Stat,
    mark: Option<String>,
}

impl Marked {
    /// Adopts, from now on, what descendants of this process leave behind.
    ///
    /// - `user`: whose processes will carry the mark, besides our own.
    pub(crate) fn begin(mark: &str, user: Option<u32>) -> Self {
        // Without it, only the mark is left to find processes by.
        let _ = prctl::set_child_subreaper(true);
        Self { adopts: true, ..Self::left(mark, user) }
    }

    /// What a dead process left.
    pub(crate) fn left(mark: &str, user: Option<u32>) -> Self {
        let owners = [geteuid().as_raw()].into_iter().chain(user).collect();
        Self { mark: mark.to_owned(), owners, adopts: false }
    }

    /// The processes of the series.
    pub(crate) fn members(&self) -> Vec<Pid> {
        let table = self.processes();
        let own = getpid().as_raw();
        let own_session = Stat::of(own).map_or(0, |stat| stat.session);
        let marked = |pid: i32| table.get(&pid).is_some_and(|p| p.mark.as_ref() == Some(&self.mark));
        let is_member = |pid: i32, listed: &Listed| {
            let Stat { parent, session, .. } = listed.stat;
            // Without any mark, a child of a member, or a child of ours that has left our session.
            let unmarked = || marked(parent) || (self.adopts && parent == own && session != own_session);
            marked(pid) || (listed.mark.is_none() && unmarked())
        };
        let found = table.iter().filter(|(pid, listed)| **pid != own && is_member(**pid, listed));
        found.map(|(pid, _)| Pid::from_raw(*pid)).collect()
    }

    /// Kills them, and waits until none is left; yields how many there were, or that some do not die.
    pub(crate) fn end(&self) -> Result<usize, String> {
        let mut killed = 0;
        let waited = wait_for(PATIENCE, &Stop::new(), || {
            let members = self.members();
            killed = killed.max(members.len());
            for pid in &members {
                let _ = kill(*pid, Signal::SIGKILL);
                // Ours if it was adopted; otherwise this is an error, and it is reaped elsewhere.
                let _ = waitpid(*pid, Some(WaitPidFlag::WNOHANG));
            }
            members.is_empty()
        });
        match waited {
            Waited::Done => Ok(killed),
            _ => Err("processes that it started do not die".to_owned()),
        }
    }

    /// The living processes of the owners.
    fn processes(&self) -> BTreeMap<i32, Listed> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut table = BTreeMap::new();
        for entry in entries {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let is_owned = entry.metadata().is_ok_and(|found| self.owners.contains(&found.uid()));
            if let (true, Ok(stat)) = (is_owned, Stat::of(pid)) {
                table.insert(pid, Listed { stat, mark: mark_of(pid) });
            }
        }
        table
    }
}

fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::random;

    #[test]
    fn a_process_that_left_group_and_session_is_found_by_its_mark_and_killed() {
        let _alone = crate::strays::alone();
        let mark = random::token();
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let script = format!(
            "mkfifo {0}; setsid sh -c 'echo $$ >{0}; exec sleep 1000 >/dev/null 2>&1' >/dev/null & exec cat {0}",
            fifo.display()
        );
        let said = Command::new("sh").args(["-c", &script]).env(VARIABLE, &mark).output().unwrap();
        let pid: i32 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
        // As a later process sees it: nothing but the mark is known.
        let left = Marked::left(&mark, None);
        assert!(left.members().contains(&Pid::from_raw(pid)));
        assert!(left.end().unwrap() >= 1);
        assert!(Stat::of(pid).is_err(), "it is gone");
        assert_eq!(left.end(), Ok(0));
    }
}
