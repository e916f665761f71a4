//! The side of a machine: starts agents, stores which processes they are, and ends exactly those.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use serde::{Deserialize, Serialize};

use super::order::{AgentState, HostAnswer, HostOrder, StartAgents, State};
use super::process::{self, Found, Known};
use crate::error::{FleetError, of_file};
use crate::spool::{make_private, write_private};

/// Time for an agent to reach the NATS server.
const READY_NS: u64 = 20_000_000_000;
const AGENTS: &str = "agents.json";
/// Mark of a key for which nothing may be started any more.
const ENDED: &[u8] = b"ended\n";
/// Mark of a key that was started in vain.
const FAILED: &[u8] = b"failed\n";

/// An agent that was started here.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Started {
    agent: String,
    process: Known,
}

/// The machine of this process.
#[derive(Debug)]
pub struct Host<'a> {
    /// Name of the machine.
    pub name: String,
    /// Folder for the state of the program's user.
    pub state: &'a Path,
    /// The program; its command `agent` is an agent.
    pub program: &'a Path,
}

impl Host<'_> {
    /// Obeys an order.
    ///
    /// # Errors
    ///
    /// An agent does not start; then none of the order runs. Or the machine's files cannot be used.
    pub fn obey(&self, order: &HostOrder) -> Result<HostAnswer, FleetError> {
        order.check()?;
        let agents = match order {
            HostOrder::Start(start) => {
                let (_path, mut turn) = self.turn(&start.key)?;
                if turn.metadata().map_or(0, |found| found.len()) > 0 {
                    return Err(FleetError::Unfit(format!("{} was ended before it began", start.key)));
                }
                let started = self.start(start);
                if started.is_err() {
                    let _ = turn.write_all(FAILED);
                }
                started?
            }
            HostOrder::End { key } => {
                let (path, mut turn) = self.turn(key)?;
                let folder = self.folder(key);
                let had_begun = folder.exists() || fs::read(&path).is_ok_and(|mark| mark == FAILED);
                let agents = self.end(&folder)?;
                // The order to start may be on its way still. If it has been obeyed, it does not come again.
                let marked = if had_begun { fs::remove_file(&path) } else { turn.write_all(ENDED) };
                marked.map_err(of_file(&path))?;
                agents
            }
        };
        Ok(HostAnswer { host: self.name.clone(), agents })
    }

    /// Waits for the turn of an order with this key: an end waits until a start is done.
    fn turn(&self, key: &str) -> Result<(PathBuf, File), FleetError> {
        let folder = self.state.join("fleet").join("on-host");
        make_private(&folder).map_err(of_file(&folder))?;
        let path = folder.join(format!("{key}.turn"));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        Ok((path.clone(), locked.map_err(of_file(&path))?))
    }

    fn folder(&self, key: &str) -> PathBuf {
        self.state.join("fleet").join("on-host").join(key)
    }

    fn start(&self, order: &StartAgents) -> Result<Vec<AgentState>, FleetError> {
        let folder = self.folder(&order.key);
        make_private(&folder).map_err(of_file(&folder))?;
        if folder.join(AGENTS).exists() {
            let text = format!("agents of {} were started on {} before", order.key, self.name);
            return Err(FleetError::Unfit(text));
        }
        let started = self.start_all(order, &folder);
        if started.is_err() {
            // Those that have started already.
            let _ = self.end(&folder);
        }
        started
    }

    fn start_all(&self, order: &StartAgents, folder: &Path) -> Result<Vec<AgentState>, FleetError> {
        let store = |name: &str, text: &str| {
            let path = folder.join(name);
            write_private(&path, text.as_bytes()).map_err(of_file(&path))
        };
        store("url", &order.url)?;
        for (agent, nkey) in order.agents.iter().zip(&order.nkeys) {
            store(&format!("{agent}.nk"), nkey)?;
        }
        if let Some(ca) = &order.ca {
            store("ca.pem", ca)?;
        }
        // The path of a socket has a hundred bytes.
        let sockets = tempfile::tempdir().map_err(of_file(&std::env::temp_dir()))?;
        let (mut known, mut waiting) = (Vec::new(), Vec::new());
        for agent in &order.agents {
            let path = sockets.path().join(waiting.len().to_string());
            let socket = UnixDatagram::bind(&path).map_err(of_file(&path))?;
            let mut child = self.spawn(agent, order, folder, &path)?;
            let process = Known::of(child.id()).ok_or_else(|| failed(folder, agent))?;
            known.push(Started { agent: agent.clone(), process });
            let text = serde_json::to_vec(&known).expect("it has no map with keys that are no strings");
            let path = folder.join(AGENTS);
            write_private(&path, &text).map_err(of_file(&path))?;
            // The agent waits for this line: if this process dies before, so does the agent.
            let told = child.stdin.take().map_or(Ok(()), |mut line| line.write_all(b"\n"));
            told.map_err(|_| failed(folder, agent))?;
            waiting.push((agent, child, socket));
        }
        for (agent, child, socket) in &mut waiting {
            await_ready(child, socket).map_err(|()| failed(folder, agent))?;
        }
        let state = |(agent, child, _): (&String, Child, _)| AgentState {
            agent: agent.clone(),
            pid: child.id(),
            state: State::Started,
            left: Vec::new(),
        };
        Ok(waiting.into_iter().map(state).collect())
    }

    /// Starts an agent in its own session, which the end of this one does not reach.
    fn spawn(
        &self,
        agent: &str,
        order: &StartAgents,
        folder: &Path,
        notify: &Path,
    ) -> Result<Child, FleetError> {
        let log = log_of(folder, agent);
        let said =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&log).map_err(of_file(&log))?;
        let mut command = Command::new(self.program);
        command.args(["agent", "--await-line", "--id", agent, "--server"]);
        command.arg(format!("{{file:{}}}", folder.join("url").display()));
        if !order.nkeys.is_empty() {
            command.arg("--nkey").arg(folder.join(format!("{agent}.nk")));
        }
        if order.ca.is_some() {
            command.arg("--ca").arg(folder.join("ca.pem"));
        }
        command.env("NOTIFY_SOCKET", notify).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said);
        // SAFETY: the closure makes one system call, which is safe after fork.
        unsafe {
            command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
        }
        command.spawn().map_err(|error| FleetError::Program {
            program: self.program.display().to_string(),
            text: error.to_string(),
        })
    }

    /// Ends the agents of a folder, and removes it once none of them runs.
    fn end(&self, folder: &Path) -> Result<Vec<AgentState>, FleetError> {
        let path = folder.join(AGENTS);
        let known: Vec<Started> = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| of_file(&path)(e.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(of_file(&path)(error)),
        };
        // All at once: each may take its time.
        let states: Vec<Result<State, String>> = std::thread::scope(|scope| {
            let ends: Vec<_> =
                known.iter().map(|started| scope.spawn(|| end_one(&started.process))).collect();
            ends.into_iter().map(|end| end.join().expect("it does not panic")).collect()
        });
        let mut agents = Vec::new();
        for (Started { agent, process }, state) in known.into_iter().zip(states) {
            let state = state.map_err(|text| FleetError::Absent { agent: agent.clone(), text })?;
            let left = self.left_by(&agent);
            agents.push(AgentState { agent, pid: process.pid, state, left });
        }
        if agents.iter().all(|agent| agent.state != State::Remains) {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(of_file(folder)(error)),
                _ => {}
            }
        }
        Ok(agents)
    }

    /// Runs in the spool of an agent.
    fn left_by(&self, agent: &str) -> Vec<String> {
        let entries = fs::read_dir(self.state.join("agent").join(agent)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

fn end_one(process: &Known) -> Result<State, String> {
    Ok(match process.find()? {
        Found::Gone => State::Gone,
        Found::Runs(process) => process::end(&process),
    })
}

fn log_of(folder: &Path, agent: &str) -> PathBuf {
    folder.join(format!("{agent}.log"))
}

/// Waits for the agent's word that it waits for loads.
fn await_ready(child: &mut Child, socket: &UnixDatagram) -> Result<(), ()> {
    socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(drop)?;
    let deadline_ns = Monotonic.now_ns() + READY_NS;
    let mut message = [0; 64];
    while Monotonic.now_ns() < deadline_ns {
        if let Ok(length) = socket.recv(&mut message)
            && message[..length].starts_with(b"READY=1")
        {
            return Ok(());
        }
        if child.try_wait().map_err(drop)?.is_some() {
            return Err(());
        }
    }
    Err(())
}

/// The error of an agent that does not start, with its last line.
fn failed(folder: &Path, agent: &str) -> FleetError {
    let mut said = String::new();
    // The file is the agent's: its length is not known.
    let _ = File::open(log_of(folder, agent))
        .and_then(|file| io::Read::read_to_string(&mut io::Read::take(file, 64 << 10), &mut said));
    let last = said.lines().last().unwrap_or("it did not reach the NATS server in time");
    FleetError::Absent { agent: agent.to_owned(), text: last.trim_start_matches("bakeoff: ").to_owned() }
}
