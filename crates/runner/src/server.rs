//! The server under test: started, known to be ready, stopped.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use load::{Stop, StopLevel};
use nix::sys::signal::Signal;
use plan::{Ready, ServerSpec, StopSignal};

use crate::leftovers;
use crate::process::{Placement, Process, Waited, wait_for};

/// How long one attempt to connect, or one run of the ready command, may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// As much of a log as a message can hold.
const TAIL_BYTES: u64 = 600;

/// Why there is no server.
#[derive(Debug)]
pub(crate) enum ServerFailure {
    /// It did not start, ended, or was not ready in time.
    Failed(String),
    /// The user wants to stop.
    Stopped,
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    spec: ServerSpec,
    log: PathBuf,
    /// How far its log has been handed out.
    log_read_bytes: u64,
}

impl Server {
    /// Starts it.
    ///
    /// - `root`: the bake-off's scratch folder, where its pid is noted.
    /// - `folder`: the series' own, where its log is written and where it runs.
    pub(crate) fn start(spec: ServerSpec, root: &Path, folder: &Path) -> Result<Self, ServerFailure> {
        let log = folder.join("server.log");
        let mut command = Command::new(&spec.command.program);
        command.args(&spec.command.arguments).envs(spec.environment.iter().cloned()).current_dir(folder);
        let placement = Placement { cpus: spec.cpus.clone(), scheduler: spec.scheduler };
        let process = Process::start(command, &placement, &log)
            .map_err(|e| ServerFailure::Failed(format!("`{}` does not start: {e}", spec.command.program)))?;
        // One that has ended already is found out by whoever waits for it to be ready.
        if let Ok(identity) = process.identity() {
            leftovers::note(root, identity)
                .map_err(|e| ServerFailure::Failed(format!("its pid cannot be noted: {e}")))?;
        }
        Ok(Self { process, spec, log, log_read_bytes: 0 })
    }

    /// Waits until it takes connections, and makes sure that it preloads what it should.
    pub(crate) fn wait_until_ready(&self, stop: &Stop) -> Result<(), ServerFailure> {
        let folder = self.log.parent().expect("the log is in the series' folder");
        let waited = wait_for(self.spec.ready_timeout, stop, || {
            self.has_ended() || is_ready(&self.spec.ready, folder, stop)
        });
        if self.has_ended() {
            return Err(ServerFailure::Failed(format!("it ended before it was ready{}", self.last_words())));
        }
        match waited {
            Waited::Done => self.check_preload(),
            Waited::Stopped => Err(ServerFailure::Stopped),
            Waited::TimedOut => Err(ServerFailure::Failed(format!(
                "it was not ready within {:?}{}",
                self.spec.ready_timeout,
                self.last_words()
            ))),
        }
    }

    /// Whether it has ended although nobody asked it to.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// What it wrote since this was last asked.
    pub(crate) fn new_log(&mut self) -> io::Result<impl Read + use<>> {
        let mut file = File::open(&self.log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(self.log_read_bytes))?;
        let new = file.take(end - self.log_read_bytes.min(end));
        self.log_read_bytes = end;
        Ok(new)
    }

    /// Ends it: by its signal, and by SIGKILL where that is not enough. `Err` says what went wrong with that.
    ///
    /// Also a bake-off that is being stopped ends its server cleanly, unless its user asked twice.
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
                "it did not end within {:?} of {:?} and was killed",
                self.spec.stop_timeout,
                signal(self.spec.stop)
            ));
        }
        Ok(())
    }

    /// The last of its log, for a message.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.log)
    }

    /// The loader only warns where it cannot preload a library, and the server runs on without it.
    fn check_preload(&self) -> Result<(), ServerFailure> {
        let preload = self.spec.environment.iter().rfind(|(name, _)| name == "LD_PRELOAD");
        let Some((_, libraries)) = preload else { return Ok(()) };
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process.pid()))
            .map_err(|e| ServerFailure::Failed(format!("its memory map cannot be read: {e}")))?;
        match libraries.split([':', ' ']).filter(|l| !l.is_empty()).find(|l| !is_mapped(&maps, l)) {
            None => Ok(()),
            Some(missing) => {
                let text = format!(
                    "LD_PRELOAD names {missing}, and the server runs without it{}",
                    self.last_words()
                );
                Err(ServerFailure::Failed(text))
            }
        }
    }
}

/// The last of a log, as the end of a sentence.
pub(crate) fn last_words(log: &Path) -> String {
    let tail = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let tail = tail().unwrap_or_default();
    let lines: Vec<&str> = tail.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    match lines[..] {
        [] => "; it said nothing".to_owned(),
        _ => format!("; it said: {}", lines[lines.len().saturating_sub(3)..].join(" | ")),
    }
}

fn is_ready(ready: &Ready, folder: &Path, stop: &Stop) -> bool {
    match ready {
        Ready::Socket(path) => UnixStream::connect(path).is_ok(),
        Ready::Tcp { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs();
            addresses.is_ok_and(|mut all| all.any(|a| TcpStream::connect_timeout(&a, TRY_TIMEOUT).is_ok()))
        }
        Ready::Command(script) => {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder);
            let Ok(mut process) = Process::start(command, &Placement::ANYWHERE, &folder.join("ready.log"))
            else {
                return false;
            };
            process.wait(TRY_TIMEOUT, stop) == Waited::Done && process.finish().is_ok_and(|s| s.success())
        }
    }
}

/// Whether a library is mapped: the kernel shows where its links end, the plan may name any of them.
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
