//! The server under test: started, checked for readiness and identity, stopped.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use load::{Stop, StopLevel};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use plan::{Ready, ServerSpec, StopSignal};
use probes::process_time;

use crate::listener::{Address, TRY_TIMEOUT};
use crate::log::Log;
use crate::process::{Placement, Process, Waited, wait_for};
use crate::workspace::Workspace;

/// Time limit for libraries to be mapped, for a server that executes another program when it is ready.
const PRELOAD_PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for the server's address to answer after a trial.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Maximum size of a server's log for one trial: the archive reads no more of a file.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Reason that the server is not available.
#[derive(Debug)]
pub(crate) enum ServerFailure {
    /// The server did not start, ended, or was not ready in time.
    Failed(String),
    /// The user requested to stop.
    Stopped,
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    spec: ServerSpec,
    log: Log,
    /// Offset in its log up to which it was handed out.
    log_read_bytes: u64,
}

impl Server {
    /// Starts the server.
    ///
    /// - `folder`: its working directory.
    /// - `log`: name of its log.
    /// - `addresses`: addresses of the series' loads, besides `ready`. No process may answer there yet.
    pub(crate) fn start(
        spec: ServerSpec,
        (folder, log): (Arc<OwnedFd>, &str),
        workspace: &Workspace,
        addresses: &[Address],
        stop: &Stop,
    ) -> Result<Self, ServerFailure> {
        refuse_another(&spec, workspace, addresses, stop)?;
        let log = workspace.log(log).map_err(|e| failed(format!("cannot create its log: {e}")))?;
        let mut command = workspace.command(&spec.command.program);
        command.args(&spec.command.arguments).envs(spec.environment.iter().cloned());
        let placement = Placement {
            cpus: spec.cpus.clone(),
            scheduler: spec.scheduler,
            nice: spec.nice,
            memory: spec.memory,
            mem: spec.mem.clone(),
            folder: Some(folder),
            ..workspace.placement()
        };
        let process = Process::start(command, &placement, &log).map_err(|e| {
            let user = workspace.user();
            failed(format!("cannot start `{}` as user {user}: {e}", spec.command.program))
        })?;
        Ok(Self { process, spec, log, log_read_bytes: 0 })
    }

    /// Waits until it accepts connections. Checks that it preloads the libraries of the plan and is the
    /// process that answers.
    pub(crate) fn wait_until_ready(
        &self,
        workspace: &Workspace,
        addresses: &[Address],
        stop: &Stop,
    ) -> Result<(), ServerFailure> {
        let log = workspace.log("ready.log").map_err(|e| failed(format!("cannot create a log: {e}")))?;
        let waited = wait_for(self.spec.ready_timeout, stop, || {
            self.has_ended() || is_ready(&self.spec.ready, workspace, &log, stop)
        });
        if self.has_ended() {
            return Err(failed(format!("it ended before it was ready{}", self.last_words())));
        }
        match waited {
            Waited::Done => {}
            Waited::Stopped => return Err(ServerFailure::Stopped),
            Waited::TimedOut => {
                return Err(failed(format!(
                    "it was not ready within {:?}{}",
                    self.spec.ready_timeout,
                    self.last_words()
                )));
            }
        }
        self.check_preload()?;
        let ready = Address::of_ready(&self.spec.ready);
        for address in ready.iter().chain(addresses) {
            if let Some(stranger) = address.stranger(&workspace.members()) {
                return Err(failed(stranger));
            }
        }
        Ok(())
    }

    /// Describes an address of the load at which the server no longer answers: a wrapper may outlive the
    /// server. `None` if it answers at all.
    ///
    /// - `addresses`: addresses of the load; if empty, `ready` is checked.
    pub(crate) fn lost(&self, workspace: &Workspace, addresses: &[Address]) -> Option<String> {
        let ready = Address::of_ready(&self.spec.ready).filter(|_| addresses.is_empty());
        let mut stranger = None;
        // A busy server may accept a connection only after the load has ended.
        let waited = wait_for(ANSWER_PATIENCE, &Stop::new(), || {
            let members = workspace.members();
            stranger = addresses.iter().chain(&ready).find_map(|address| address.stranger(&members));
            stranger.is_none()
        });
        let why = stranger.filter(|_| waited != Waited::Done)?;
        Some(format!("{why}{}", self.last_words()))
    }

    /// Whether it has ended without being asked to.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Returns the id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid().as_raw().unsigned_abs()
    }

    /// Returns the processes that accept its connections; all of its processes if it listens at no known
    /// address.
    pub(crate) fn listeners(&self, workspace: &Workspace, addresses: &[Address]) -> Vec<Pid> {
        let members = workspace.members();
        let ready = Address::of_ready(&self.spec.ready);
        let listeners: Vec<Pid> =
            ready.iter().chain(addresses).flat_map(|address| address.listeners(&members)).collect();
        if listeners.is_empty() { members } else { listeners }
    }

    /// Returns the output since the last call; if it is long, its beginning and end.
    pub(crate) fn new_log(&mut self) -> io::Result<impl io::Read + use<>> {
        let new = self.log.since(self.log_read_bytes)?;
        self.log_read_bytes = new.end();
        new.shortened(LOG_BYTES_MAX)
    }

    /// Ends it by its signal, then by SIGKILL if necessary. `Err` describes a problem.
    ///
    /// An interrupted bake-off also ends its server cleanly, unless the user requested it twice.
    pub(crate) fn end(mut self, stop: &Stop) -> Result<(), String> {
        let ended_before = self.has_ended();
        if !ended_before {
            self.process.ask(signal(self.spec.stop));
        }
        let is_over = || self.has_ended() || stop.level() == StopLevel::Now;
        let waited = wait_for(self.spec.stop_timeout, &Stop::new(), is_over);
        let status = self.process.finish().map_err(|e| e.to_string())?;
        if ended_before {
            return Err(format!("it ended by itself, with {status}{}", self.last_words()));
        }
        if waited == Waited::TimedOut {
            return Err(format!(
                "it did not end within {:?} after {:?}, so bakeoff killed it",
                self.spec.stop_timeout,
                signal(self.spec.stop)
            ));
        }
        Ok(())
    }

    /// Returns the last part of its log, for a message.
    pub(crate) fn last_words(&self) -> String {
        self.log.last_words()
    }

    /// Checks that the libraries are mapped: if the loader cannot preload one, it only warns, and the server
    /// runs without it.
    fn check_preload(&self) -> Result<(), ServerFailure> {
        let preload = self.spec.environment.iter().rfind(|(name, _)| name == "LD_PRELOAD");
        let Some((_, libraries)) = preload else { return Ok(()) };
        let path = format!("/proc/{}/maps", self.process.pid());
        let mut missing = Ok(None);
        // A server that reports readiness and then executes another program has no map for a moment.
        let _ = wait_for(PRELOAD_PATIENCE, &Stop::new(), || {
            let maps = process_time::text(&path);
            let names = || libraries.split([':', ' ']).filter(|name| !name.is_empty());
            missing = maps.map(|maps| names().find(|name| !is_mapped(&maps, name)));
            matches!(missing, Ok(None)) || self.has_ended()
        });
        match missing.map_err(|e| failed(format!("cannot read its memory map: {e}")))? {
            None => Ok(()),
            Some(missing) => Err(failed(format!(
                "LD_PRELOAD names {missing}, but the server runs without it{}",
                self.last_words()
            ))),
        }
    }
}

fn failed(why: String) -> ServerFailure {
    ServerFailure::Failed(why)
}

/// Checks that no process answers at the server's addresses before it is started.
fn refuse_another(
    spec: &ServerSpec,
    workspace: &Workspace,
    addresses: &[Address],
    stop: &Stop,
) -> Result<(), ServerFailure> {
    let ready = Address::of_ready(&spec.ready);
    if let Some(address) = ready.iter().chain(addresses).find(|address| address.answers()) {
        return Err(failed(format!("another server already answers at {address}")));
    }
    if let Ready::Command(script) = &spec.ready {
        let log = workspace.log("ready.log").map_err(|e| failed(format!("cannot create a log: {e}")))?;
        if is_ready(&spec.ready, workspace, &log, stop) {
            return Err(failed(format!(
                "`{script}` (ready) succeeds before the server starts: another server answers, or the \
                 command does not test the server"
            )));
        }
    }
    Ok(())
}

fn is_ready(ready: &Ready, workspace: &Workspace, log: &Log, stop: &Stop) -> bool {
    match ready {
        Ready::Command(script) => {
            let Ok(mut process) = workspace.start(workspace.shell(script), log) else { return false };
            process.wait(TRY_TIMEOUT, stop) == Waited::Done && process.finish().is_ok_and(|s| s.success())
        }
        Ready::Socket(_) | Ready::Tcp { .. } => Address::of_ready(ready).is_some_and(|a| a.answers()),
    }
}

/// Whether a library is mapped. The kernel shows the path with links resolved; the plan may name any link.
fn is_mapped(maps: &str, library: &str) -> bool {
    let name = Path::new(library).file_name().unwrap_or(library.as_ref());
    maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..]))).any(|mapped| {
        let beside = mapped.with_file_name(name);
        beside == mapped || fs::canonicalize(&beside).is_ok_and(|target| target == mapped)
    })
}

fn signal(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Term => Signal::SIGTERM,
        StopSignal::Int => Signal::SIGINT,
        StopSignal::Quit => Signal::SIGQUIT,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_library_is_mapped_under_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("libx.so.4.5");
        fs::write(&real, "").unwrap();
        symlink("libx.so.4.5", folder.path().join("libx.so.4")).unwrap();
        let real = fs::canonicalize(&real).unwrap();
        let maps =
            format!("7f00-7f01 r-xp 00000000 fe:00 123   {}\n7f02-7f03 rw-p 0 00:00 0\n", real.display());
        assert!(is_mapped(&maps, "libx.so.4"));
        assert!(is_mapped(&maps, "libx.so.4.5"));
        assert!(is_mapped(&maps, &folder.path().join("libx.so.4").display().to_string()));
        assert!(!is_mapped(&maps, "libx.so.5"));
        assert!(!is_mapped("", "libx.so.4"));
    }
}
