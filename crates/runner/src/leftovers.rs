//! What a process that was killed left behind: its server, and its scratch folder.
//!
//! A server dies with the thread that started it, by the kernel's hand, unless it changed its user. For that case its
//! pid and its start are noted beside its scratch folder as soon as it has them; a pid alone may be somebody else's
//! by now, a name always may.

use std::fs;
use std::io;
use std::path::Path;

use record::run::RunId;

use crate::error::RunnerError;
use crate::process::Identity;
use crate::scratch::Scratch;

const NOTE: &str = "server";

/// Notes the server that runs now.
pub(crate) fn note(root: &Path, server: Identity) -> io::Result<()> {
    fs::write(root.join(NOTE), format!("{} {}\n", server.pid, server.started_ticks))
}

/// Ends and removes what a dead process left of that bake-off; says what it did.
///
/// Only the holder of the bake-off's journal may call this: then no living process works on it.
pub(crate) fn clear(id: RunId) -> Result<Option<String>, RunnerError> {
    let root = Scratch::place(id);
    if !root.exists() {
        return Ok(None);
    }
    let mut done = format!("removed {}, which the process before left", root.display());
    if let Some(server) = noted(&root).filter(|server| server.is_alive()) {
        if !server.kill_group() {
            return Err(RunnerError::NotFit {
                problems: vec![format!("the server of the process before, pid {}, does not die", server.pid)],
            });
        }
        done = format!("killed the server that the process before left, pid {}; {done}", server.pid);
    }
    fs::remove_dir_all(&root).map_err(|source| RunnerError::Scratch { path: root, source })?;
    Ok(Some(done))
}

fn noted(root: &Path) -> Option<Identity> {
    let text = fs::read_to_string(root.join(NOTE)).ok()?;
    let (pid, started_ticks) = text.trim().split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, started_ticks: started_ticks.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use record::clock::WallAnchor;

    use super::*;
    use crate::process::{Placement, Process};

    #[test]
    fn a_server_that_was_left_is_killed_and_its_folder_removed() {
        let id = RunId::fresh(WallAnchor::now());
        let scratch = Scratch::make(id).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut server = Process::start(command, &Placement::ANYWHERE, &scratch.root().join("log")).unwrap();
        note(scratch.root(), server.identity().unwrap()).unwrap();
        // Reaps the server when it is killed, as init does for a real orphan.
        let reaper = std::thread::spawn(move || {
            while !server.has_ended() {
                std::thread::yield_now();
            }
            server.finish().unwrap()
        });
        let said = clear(id).unwrap().unwrap();
        assert!(said.contains("killed the server"), "{said}");
        assert!(!scratch.root().exists());
        assert!(!reaper.join().unwrap().success());
        assert_eq!(clear(id).unwrap(), None);
    }

    #[test]
    fn somebody_elses_process_with_the_same_pid_is_left_alone() {
        let id = RunId::fresh(WallAnchor::now());
        let scratch = Scratch::make(id).unwrap();
        let me = Identity::of(std::process::id().cast_signed()).unwrap();
        note(scratch.root(), Identity { started_ticks: me.started_ticks + 1, ..me }).unwrap();
        let said = clear(id).unwrap().unwrap();
        assert!(!said.contains("killed"), "{said}");
    }
}
