//! A fleet on this machine, to try one: a NATS server and agents, on a scratch folder and a free port.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use record::clock::{Clock as _, Monotonic};

use crate::error::{FleetError, of_file};
use crate::wire::{self, Helpers};

/// Time for the server to listen.
const LISTENS_NS: u64 = 10_000_000_000;

/// A NATS server and agents, which end with this value.
#[derive(Debug)]
pub struct Dev {
    server: Child,
    agents: Vec<Child>,
    url: String,
    dir: tempfile::TempDir,
}

impl Dev {
    /// Starts the server and `agents` agents that generate load.
    ///
    /// - `helpers`: agents besides.
    /// - `program`: the program; its command `agent` is an agent.
    ///
    /// # Errors
    ///
    /// There is no `nats-server`, or a program does not start.
    pub fn start(program: &Path, agents: u32, helpers: Helpers) -> Result<Self, FleetError> {
        let nats = find().ok_or_else(|| FleetError::Program {
            program: "nats-server".to_owned(),
            text: "it is not installed: `apt-get install nats-server`, or see https://nats.io/download"
                .to_owned(),
        })?;
        let dir = tempfile::tempdir().map_err(of_file(&std::env::temp_dir()))?;
        let password = wire::random(24).map_err(of_file(Path::new(wire::RANDOM)))?;
        let config = dir.path().join("nats.conf");
        // Other users of this machine must not give orders.
        let text = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{dir}\"\njetstream {{ store_dir: \"{store}\" }}\n\
             authorization {{ user: fleet, password: \"{password}\" }}\n",
            dir = dir.path().display(),
            store = dir.path().join("stream").display(),
        );
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&config);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(of_file(&config))?;
        let log = dir.path().join("nats.log");
        let said = std::fs::File::create(&log).map_err(of_file(&log))?;
        let mut command = Command::new(&nats);
        command.arg("-c").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        // Ctrl-C at a terminal reaches a whole group of processes: this one ends the others in order.
        command.process_group(0);
        // SAFETY: the closure makes one system call, which is safe after fork.
        unsafe {
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
        }
        let failed = |program: &Path| {
            let program = program.display().to_string();
            move |error: std::io::Error| FleetError::Program { program, text: error.to_string() }
        };
        let server = command.spawn().map_err(failed(&nats))?;
        let mut dev = Self { server, agents: Vec::new(), url: String::new(), dir };
        let address = dev.address(&nats, &log)?;
        dev.url = format!("nats://fleet:{password}@{address}");
        let loads = (1..=agents).map(|number| (format!("a{number}"), "load"));
        let observes = (1..=helpers.observers).map(|number| (format!("o{number}"), "observe"));
        let probes = helpers.probe.then(|| ("p1".to_owned(), "probe"));
        for (id, role) in loads.chain(observes).chain(probes) {
            let agent = Command::new(program)
                .args(["agent", "--until-eof", "--id", &id, "--role", role, "--spool"])
                .arg(dev.dir.path().join("spool"))
                .env("NATS_URL", &dev.url)
                .stdin(Stdio::piped())
                .process_group(0)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(failed(program))?;
            dev.agents.push(agent);
        }
        Ok(dev)
    }

    /// Address at which the server listens, from the file that it writes.
    fn address(&mut self, nats: &Path, log: &Path) -> Result<String, FleetError> {
        let ports = self.dir.path().join(format!("nats-server_{}.ports", self.server.id()));
        let deadline_ns = Monotonic.now_ns() + LISTENS_NS;
        loop {
            let text = std::fs::read_to_string(&ports).unwrap_or_default();
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text)
                && let Some(url) = value["nats"][0].as_str()
            {
                return Ok(url.trim_start_matches("nats://").to_owned());
            }
            let has_ended = self.server.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Monotonic.now_ns() > deadline_ns {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it did not start to listen").to_owned();
                return Err(FleetError::Program { program: nats.display().to_string(), text: last });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Keeps the agents' files when this value ends, or no longer, and yields their folder.
    pub fn keep_spools(&mut self, keep: bool) -> PathBuf {
        self.dir.disable_cleanup(keep);
        self.dir.path().join("spool")
    }

    /// Address of the server, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Process of each agent, and of the server.
    pub fn processes(&self) -> (Vec<u32>, u32) {
        (self.agents.iter().map(Child::id).collect(), self.server.id())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Agents end when their standard input does.
        for agent in &mut self.agents {
            drop(agent.stdin.take());
        }
        for agent in &mut self.agents {
            for _ in 0..300 {
                if agent.try_wait().is_ok_and(|status| status.is_some()) {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            let _ = agent.kill();
            let _ = agent.wait();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The program `nats-server`: Debian has it where users do not look.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join("nats-server")).find(|file| file.is_file())
}
