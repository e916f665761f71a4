//! Processes that a copy started and that left its group: found, ended, counted.
//!
//! A copy's group is killed with the copy. A process that called `setsid` or `setpgid` is in another group, and would work
//! on into later levels. Two things find it. The kernel makes us the parent of every descendant whose own parent has ended
//! (`PR_SET_CHILD_SUBREAPER`), and each copy has a mark in its environment, which its descendants inherit.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getsid};

/// The variable that carries the mark of a level.
pub(crate) const MARK: &str = "BAKEOFF_LEVEL";
/// Rounds of looking: what is started while others are ended is found in the next.
const ROUNDS_MAX: usize = 100;

/// From now on, what our descendants leave behind becomes our child.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Waits for what is left of a group whose leader has ended and that was killed: we are its parent now.
pub(crate) fn bury_group(leader: Pid) {
    let group = Pid::from_raw(-leader.as_raw());
    while matches!(waitpid(group, None), Ok(_) | Err(Errno::EINTR)) {}
}

/// Ends every process that has the mark, or that left our session and is our child now; yields how many were alive.
pub(crate) fn end(mark: &str) -> usize {
    let mut ended = 0;
    for _ in 0..ROUNDS_MAX {
        let found = find(Path::new("/proc"), mark);
        if found.is_empty() {
            break;
        }
        for stray in &found {
            ended += usize::from(stray.is_alive);
            // It may have ended just now, which is what is asked for.
            let _ = kill(stray.pid, Signal::SIGKILL);
        }
        for stray in &found {
            // One that is not our child has a parent that was found too, and becomes ours in the next round.
            if stray.is_ours {
                while waitpid(stray.pid, None) == Err(Errno::EINTR) {}
            } else {
                let _ = waitpid(stray.pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive);
            }
        }
    }
    ended
}

#[derive(Debug)]
struct Stray {
    pid: Pid,
    /// Whether we are its parent.
    is_ours: bool,
    is_alive: bool,
}

fn find(proc: &Path, mark: &str) -> Vec<Stray> {
    let (own, own_session) = (getpid().as_raw(), getsid(None).map_or(0, Pid::as_raw));
    let wanted = format!("{MARK}={mark}");
    let one = |pid: i32| {
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        let (_, behind) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        let (parent, session) = (fields.get(1)?.parse::<i32>().ok()?, fields.get(3)?.parse::<i32>().ok()?);
        let is_alive = !matches!(*fields.first()?, "Z" | "X");
        let has_mark = || {
            let environment = fs::read(proc.join(pid.to_string()).join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        let is_ours = parent == own;
        // What we start ourselves stays in our session.
        let has_left = is_ours && session != own_session;
        (pid != own && (has_left || (is_alive && has_mark()))).then(|| Stray {
            pid: Pid::from_raw(pid),
            is_ours,
            is_alive,
        })
    };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| one(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Tests share a process, and one must not end what another started: each holds this while it has strays.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process::Stat;

    #[test]
    fn what_left_its_group_is_ended_also_with_an_empty_environment() {
        let _alone = alone();
        adopt().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mark, note) = (format!("test-{}", std::process::id()), folder.path().join("pid"));
        // Two that leave the session, one of them without the mark; and one that has children.
        let script = "setsid sleep 1001 & \
                      setsid env -i sh -c 'echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 1002' \"$0\" & \
                      setsid sh -c 'sleep 1003 & sleep 1004' &";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(&note).env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(shell.status().unwrap().success());
        let sleepers = || find(Path::new("/proc"), &mark).iter().filter(|stray| stray.is_alive).count();
        // The shell has ended; those that it started may not have left its session yet.
        while sleepers() < 5 || !note.exists() {
            std::thread::yield_now();
        }
        let unmarked: i32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        assert!(Stat::of(unmarked).is_ok());
        assert!(end(&mark) >= 5);
        assert_eq!(find(Path::new("/proc"), &mark).len(), 0);
        assert!(Stat::of(unmarked).is_err());
        assert_eq!(end(&mark), 0);
    }
}
