//! Processes that commands of ours started, found by descent and by a mark in their environment.
//!
//! The process group of a command is killed with it. A process that called `setsid` or `setpgid` is in
//! another group, and would answer for the next server or run on into the next level. Two methods find it
//! without a control group. This process is the subreaper of its descendants, so a process that changes its
//! group and session is still one of its children. When this process dies, the mark remains. A process that
//! clears its environment *and* outlives this process is not found; only a control group finds it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use load::Stop;
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, geteuid, getpid, getsid};
use probes::process_time;

use crate::pidfd;
use crate::process::{Process, Stat, Waited, wait_for};

/// Environment variable that marks a process, also within a control group.
pub(crate) const VARIABLE: &str = "BAKEOFF_SERIES";
/// Time limit for killed processes to disappear, which needs the kernel to free their memory.
const PATIENCE: Duration = Duration::from_mins(1);

/// Makes this process the subreaper of its descendants.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Kills the rest of a process's group and waits until all of it is gone. Once the leader has ended, this
/// process is the parent of the others.
pub(crate) fn end_group(leader: &mut Process) -> io::Result<ExitStatus> {
    Ok(end_group_and_count(leader)?.0)
}

/// Variant of [`end_group`] that also returns the number of other processes that were alive.
pub(crate) fn end_group_and_count(leader: &mut Process) -> io::Result<(ExitStatus, u32)> {
    let status = leader.finish()?;
    let group = Pid::from_raw(-leader.pid().as_raw());
    let mut killed = 0;
    loop {
        match waitpid(group, None) {
            // One that had ended by itself was a zombie that no parent had waited for.
            Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _)) => killed += 1,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Ok((status, killed)),
        }
    }
}

/// Whether this process has children. If it has reaped all that it started, they are adopted orphans.
///
/// Cheap, as it reads no other process. If the kernel has no such list, the answer is `true`.
pub(crate) fn may_have_orphans() -> bool {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    lists.any(|list| list.map_or(true, |children| !children.trim().is_empty()))
}

/// Processes that are no strays although this process has adopted them: a server that the user started around
/// the measured commands. Many servers clear or overwrite their environment, and with it their mark.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kept {
    /// Process ids, each with its start.
    processes: BTreeSet<(i32, u64)>,
    /// Sessions of these processes: a child that loses its parent is adopted too.
    sessions: BTreeSet<i32>,
}

impl Kept {
    /// Adds all present children of this process, and their sessions. The caller has reaped every process
    /// that it started.
    pub(crate) fn add_adopted(&mut self) {
        if !may_have_orphans() {
            return;
        }
        for (pid, stat) in children() {
            self.processes.insert((pid, stat.started));
            if stat.session != own_session() {
                self.sessions.insert(stat.session);
            }
        }
    }

    fn has(&self, pid: i32, stat: &Stat) -> bool {
        self.processes.contains(&(pid, stat.started)) || self.sessions.contains(&stat.session)
    }
}

fn own_session() -> i32 {
    getsid(None).map_or(0, Pid::as_raw)
}

/// Children of this process, also zombies.
fn children() -> Vec<(i32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = getpid().as_raw();
    pids.filter_map(|pid| Some((pid, Stat::of_any(pid).ok()?)))
        .filter(|(_, stat)| stat.parent == own)
        .collect()
}

/// Processes with one mark, and their descendants.
#[derive(Debug, Clone)]
pub(crate) struct Strays {
    mark: String,
    /// User ids of the processes.
    owners: Vec<u32>,
    /// Whether this process made the mark, so processes that it adopts since then also belong to the series.
    adopts: bool,
    /// Adopted processes that are not of the series.
    kept: Kept,
}

#[derive(Debug)]
struct Listed {
    stat: Stat,
    mark: Option<String>,
}

impl Strays {
    /// Makes this process the subreaper of its descendants, and tracks a new mark.
    ///
    /// - `user`: user id of processes that will carry the mark, besides our own.
    pub(crate) fn begin(mark: &str, user: Option<u32>) -> Self {
        // If this fails, only the mark identifies the processes.
        let _ = adopt();
        Self { adopts: true, ..Self::left(mark, user) }
    }

    /// Tracks the processes that a dead process left.
    pub(crate) fn left(mark: &str, user: Option<u32>) -> Self {
        let owners = [geteuid().as_raw()].into_iter().chain(user).collect();
        Self { mark: mark.to_owned(), owners, adopts: false, kept: Kept::default() }
    }

    /// Leaves these processes alone, unless they have the mark.
    pub(crate) fn except(self, kept: Kept) -> Self {
        Self { kept, ..self }
    }

    /// Returns the live processes of the series.
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.all().into_iter().filter(|(_, stat)| stat.is_alive).map(|(pid, _)| pid).collect()
    }

    /// Kills them, and waits until all are gone. Returns the number of live ones, or an error if some do not
    /// die.
    pub(crate) fn end(&self) -> Result<usize, String> {
        let (mut found, mut killed) = (BTreeMap::new(), 0);
        let waited = wait_for(PATIENCE, &Stop::new(), || {
            let all = self.all();
            for (pid, stat) in &all {
                let is_it = || Stat::of_any(pid.as_raw()).is_ok_and(|now| now.started == stat.started);
                let process = pidfd::kill_if(*pid, is_it);
                let is_new = found.insert((*pid, stat.started), process).is_none();
                killed += usize::from(is_new && stat.is_alive);
            }
            !all.iter().any(|(_, stat)| stat.is_alive)
        });
        if waited != Waited::Done {
            return Err("processes that it started survive SIGKILL".to_owned());
        }
        // Each of them is a zombie now. A process that lost its parent is our child. Another parent reaps its
        // own children, and waiting for those is an error.
        for ((pid, _), process) in &found {
            pidfd::reap(*pid, process.as_ref());
        }
        Ok(killed)
    }

    /// Returns the processes of the series; of the dead, those that this process must reap.
    fn all(&self) -> Vec<(Pid, Stat)> {
        let table = self.processes();
        let (own, own_session) = (getpid().as_raw(), own_session());
        let is_root_of_some = |pid: i32, listed: &Listed| {
            let Stat { parent, session, .. } = listed.stat;
            // Processes that this process starts itself stay in its session.
            let has_left = self.adopts && parent == own && session != own_session;
            let is_ours = listed.mark.is_none() && has_left && !self.kept.has(pid, &listed.stat);
            listed.mark.as_ref() == Some(&self.mark) || is_ours
        };
        let mut members: BTreeSet<i32> = table
            .iter()
            .filter(|(pid, listed)| **pid != own && is_root_of_some(**pid, listed))
            .map(|(pid, _)| *pid)
            .collect();
        // Add unmarked descendants.
        loop {
            let descends = |listed: &Listed| listed.mark.is_none() && members.contains(&listed.stat.parent);
            let more: Vec<i32> = table
                .iter()
                .filter(|(pid, l)| !members.contains(pid) && descends(l))
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                break;
            }
            members.extend(more);
        }
        members.into_iter().map(|pid| (Pid::from_raw(pid), table[&pid].stat)).collect()
    }

    /// Returns the processes of the owners, also zombies.
    fn processes(&self) -> BTreeMap<i32, Listed> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut table = BTreeMap::new();
        for entry in entries {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let is_owned = entry.metadata().is_ok_and(|found| self.owners.contains(&found.uid()));
            if let (true, Ok(stat)) = (is_owned, Stat::of_any(pid)) {
                table.insert(pid, Listed { stat, mark: mark_of(pid) });
            }
        }
        table
    }
}

fn mark_of(pid: i32) -> Option<String> {
    let environment = process_time::bytes(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Lock that a test holds while it has strays: tests share a process, and one must not end processes of
/// another.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::random;

    #[test]
    fn a_process_that_left_group_and_session_is_found_by_its_mark_and_killed() {
        let _alone = alone();
        let mark = random::token();
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let script = format!(
            "mkfifo {0}; setsid sh -c 'echo $$ >{0}; exec sleep 1000 >/dev/null 2>&1' >/dev/null & exec cat {0}",
            fifo.display()
        );
        let said = Command::new("sh").args(["-c", &script]).env(VARIABLE, &mark).output().unwrap();
        let pid: i32 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
        // As a later process sees it: only the mark is known.
        let left = Strays::left(&mark, None);
        assert!(left.members().contains(&Pid::from_raw(pid)));
        assert!(left.end().unwrap() >= 1);
        assert!(Stat::of(pid).is_err(), "it is gone");
        assert_eq!(left.end(), Ok(0));
    }

    #[test]
    fn what_left_its_group_is_ended_also_with_an_empty_environment() {
        let _alone = alone();
        let strays = Strays::begin(&random::token(), None);
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        // Two that leave the session, one of them without the mark; and one that has children.
        let script = "setsid sleep 1001 & \
                      setsid env -i sh -c 'echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 1002' \"$0\" & \
                      setsid sh -c 'sleep 1003 & sleep 1004' &";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(&note).env(VARIABLE, &strays.mark);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        assert!(shell.status().unwrap().success());
        // The shell has ended; its children may not have left its session yet.
        while strays.members().len() < 5 || !note.exists() {
            std::thread::yield_now();
        }
        let unmarked: i32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        assert!(Stat::of(unmarked).is_ok());
        assert!(strays.end().unwrap() >= 5);
        assert_eq!(strays.all().len(), 0, "zombies are reaped too");
        assert!(Stat::of_any(unmarked).is_err());
        assert_eq!(strays.end(), Ok(0));
    }

    #[test]
    fn grandchildren_without_a_mark_are_found_while_their_ancestors_live() {
        let _alone = alone();
        let strays = Strays::left(&random::token(), None);
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // A marked process, its unmarked child, and that child's child.
        let script = r#"env -i sh -c 'sh -c "echo \$\$ >$0; exec sleep 1006" "$0"; :' "$0"; :"#;
        let mut marked = Command::new("sh");
        let mut marked = marked.args(["-c", script]).arg(&fifo).env(VARIABLE, &strays.mark).spawn().unwrap();
        let pid: i32 = fs::read_to_string(&fifo).unwrap().trim().parse().unwrap();
        assert!(strays.members().contains(&Pid::from_raw(pid)), "{:?}", strays.members());
        // The test itself must reap the first of them.
        let reaper = std::thread::spawn(move || marked.wait());
        assert!(strays.end().unwrap() >= 3);
        let _ = reaper.join().unwrap();
        assert!(Stat::of(pid).is_err());
    }

    #[test]
    fn a_process_with_another_mark_is_left_alone() {
        let _alone = alone();
        let other = random::token();
        let mut command = Command::new("setsid");
        let mut child = command.args(["-w", "sleep", "1000"]).env(VARIABLE, &other).spawn().unwrap();
        let pid = child.id().cast_signed();
        // The new environment is visible as soon as the program is executed.
        while mark_of(pid).as_ref() != Some(&other) {
            std::thread::yield_now();
        }
        assert_eq!(Strays::begin(&random::token(), None).end(), Ok(0));
        assert!(Stat::of(pid).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Strays::begin(&other, None).end().is_ok());
    }
}
