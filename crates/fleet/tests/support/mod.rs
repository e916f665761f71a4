//! A NATS server, agents and loads for tests.

#![allow(dead_code, reason = "each test program uses a part of it, and not the same one")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bakeoff_fleet::{self as fleet, Agent, Meant, Observing, Server};
use load::Stop;
use record::agents::Observation;
use record::clock::{Clock as _, Monotonic};
use record::load::rules::default_workload;
use record::load::{
    Arrivals, ClientSettings, DataCheck, LoadSettings, Loop, OltpSettings, OpenLoop, PreparePolicy,
    ScriptSettings,
};
use record::missing::Missing;
use record::replay::{Logged, Method, Replay, ReplaySource};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::series::Sample;
use record::target::Target;

/// A NATS server on a free loopback port and a scratch folder; killed when dropped.
pub(crate) struct Nats {
    child: Child,
    program: PathBuf,
    port: u16,
    dir: tempfile::TempDir,
    /// Password of the user `fleet`, if the server requires one.
    password: Option<&'static str>,
    /// Configuration of users and their permissions; empty if it has none.
    users: String,
}

impl Nats {
    /// `None`, and a line that says so, if there is no server to start.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None, "")
    }

    /// A server that requires a password, so agents tell of their spools.
    pub(crate) fn start_with_password() -> Option<Self> {
        Self::start_with(Some("hunter2"), "")
    }

    /// A server with a configuration of users.
    pub(crate) fn start_with_users(users: &str) -> Option<Self> {
        Self::start_with(None, users)
    }

    fn start_with(password: Option<&'static str>, users: &str) -> Option<Self> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&folders)
            .chain(["/usr/sbin".into()])
            .map(|folder| folder.join("nats-server"))
            .find(|file| file.is_file());
        let Some(program) = program else {
            println!("skipped: no nats-server is installed (apt-get install nats-server)");
            return None;
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let users = users.to_owned();
        let child = Self::spawn(&program, port, dir.path(), password, &users);
        let nats = Self { child, program, port, dir, password, users };
        nats.await_listening();
        Some(nats)
    }

    fn spawn(program: &Path, port: u16, dir: &Path, password: Option<&str>, users: &str) -> Child {
        let mut command = Command::new(program);
        command.args(password.iter().flat_map(|password| ["--user", "fleet", "--pass", password]));
        if !users.is_empty() {
            let path = dir.join("users.conf");
            std::fs::write(&path, users).unwrap();
            command.arg("-c").arg(path);
        }
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn await_listening(&self) {
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again after it was killed.
    ///
    /// - `on_an_empty_disk`: without the streams that it had.
    pub(crate) fn restart(&mut self, on_an_empty_disk: bool) {
        if on_an_empty_disk {
            std::fs::remove_dir_all(self.dir.path()).unwrap();
            std::fs::create_dir(self.dir.path()).unwrap();
        }
        self.child = Self::spawn(&self.program, self.port, self.dir.path(), self.password, &self.users);
        self.await_listening();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The server, as a user of the configuration.
    pub(crate) fn server_of(&self, user: &str) -> Server {
        let url = format!("nats://{user}:{user}-secret@127.0.0.1:{}", self.port);
        Server::new(&url, None, None).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        let user = self.password.map_or_else(String::new, |password| format!("fleet:{password}@"));
        format!("nats://{user}127.0.0.1:{}", self.port)
    }

    pub(crate) fn server(&self) -> Server {
        Server::new(&self.url(), None, None).unwrap()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent on a thread of this process.
pub(crate) struct Member {
    stop: &'static Stop,
    id: String,
    thread: Option<JoinHandle<()>>,
    pub(crate) spool: tempfile::TempDir,
}

impl Member {
    pub(crate) fn start(server: Server, id: &str) -> Self {
        Self::start_as(server, id, &[], 1)
    }

    /// An agent with labels and a weight.
    pub(crate) fn start_as(
        server: Server,
        id: &str,
        labels: &[(&'static str, &'static str)],
        weight: u32,
    ) -> Self {
        Self::start_with(server, id, Traits { labels: labels.to_vec(), weight, observe: None, probes: false })
    }

    /// An agent that observes.
    pub(crate) fn observing(server: Server, id: &str, observe: &'static Observing) -> Self {
        let observe = Some(observe);
        Self::start_with(server, id, Traits { labels: Vec::new(), weight: 1, observe, probes: false })
    }

    /// An agent for probes.
    pub(crate) fn probing(server: Server, id: &str) -> Self {
        Self::start_with(server, id, Traits { labels: Vec::new(), weight: 1, observe: None, probes: true })
    }

    fn start_with(server: Server, id: &str, traits: Traits) -> Self {
        let spool = tempfile::tempdir().unwrap();
        let (folder, name) = (spool.path().to_owned(), id.to_owned());
        let stop: &'static Stop = Box::leak(Box::new(Stop::new()));
        let thread = thread::spawn(move || serve_with(&server, &name, &traits, folder, stop));
        Self { stop, id: id.to_owned(), thread: Some(thread), spool }
    }

    /// Asks the agent to end, as a signal does.
    pub(crate) fn stop(&self) {
        self.stop.request();
    }

    /// Runs of which the agent keeps the intervals.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        runs_in(&self.spool.path().join(&self.id))
    }
}

/// Folders of the runs that an agent keeps.
pub(crate) fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take()
            && !thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// Observes in vain until its window ends: a number at each of its ends.
#[expect(clippy::unnecessary_wraps, reason = "the form of every observation")]
pub(crate) fn window(window: &fleet::Window, stop: &Stop) -> Result<Observation, String> {
    let end_ns = |at_ns: u64| at_ns.saturating_sub(Monotonic.now_ns());
    while end_ns(window.until_ns) > 0 && !stop.is_requested() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sample = |t_ms: i64, value: f64| Sample {
        t_ms,
        host: "".into(),
        name: "cpu_not_idle_ratio".into(),
        labels: "cpu=1".into(),
        value,
    };
    let length_ms = i64::try_from((window.until_ns - window.from_ns) / 1_000_000).unwrap();
    let numbers = vec![sample(0, 0.25), sample(length_ms, f64::NAN), sample(length_ms, 0.5)];
    let missing = [("power".to_owned(), Missing::because("no zone"))].into();
    Ok(Observation { numbers, missing })
}

/// Traits of an agent.
struct Traits {
    labels: Vec<(&'static str, &'static str)>,
    weight: u32,
    observe: Option<&'static Observing>,
    probes: bool,
}

/// Serves as an agent until `stop`.
pub(crate) fn serve(server: &Server, id: &str, spool: PathBuf, stop: &Stop) {
    let traits = Traits { labels: Vec::new(), weight: 1, observe: None, probes: false };
    serve_with(server, id, &traits, spool, stop);
}

fn serve_with(server: &Server, id: &str, traits: &Traits, spool: PathBuf, stop: &Stop) {
    let labels = traits.labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let agent = Agent {
        server,
        id: id.into(),
        host: "here".into(),
        labels: labels.collect(),
        weight: traits.weight,
        spool,
        read: &|words, _| read(words),
        observe: traits.observe,
        probes: traits.probes,
        stop,
        on_ready: &|| {},
    };
    fleet::serve(&agent, &mut |line| eprintln!("{id}: {line}")).unwrap();
}

/// Requests of a log, in a place that differs wherever it is read.
#[derive(Debug)]
struct Log {
    requests: Vec<String>,
    _place: tempfile::TempDir,
}

impl ReplaySource for Log {
    fn read(&self, number: u64, path: &mut Vec<u8>) -> Result<Logged, String> {
        *path = self.requests[usize::try_from(number).unwrap()].clone().into_bytes();
        Ok(Logged { method: Method::Get, status: None })
    }
}

/// Whether the reading of the word `long` goes on.
pub(crate) static READS: AtomicBool = AtomicBool::new(true);

/// A load of `null:`: what the words `RATE|closed ARRIVALS THREADS MILLISECONDS EVENTS|all [LOG|long]` mean.
pub(crate) fn read(words: &[String]) -> Result<Meant, String> {
    let (words, log) = words.split_at(words.len().min(5));
    let [rate, arrivals, threads, ms, events] = words else { return Err("no words of a test".into()) };
    let mut http = HttpSettings::plain();
    match log.first().map(String::as_str) {
        None => {}
        Some("long") => {
            while READS.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        Some(log) => {
            let text = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
            let requests: Vec<String> = text.lines().map(str::to_owned).collect();
            http.replay = Some(Replay {
                log: log.to_owned(),
                speed: 1.0,
                requests: requests.len() as u64,
                methods: vec![Method::Get],
                left_out: 0,
                path_bytes_max: 1,
                source: Some(Arc::new(Log { requests, _place: tempfile::tempdir().unwrap() })),
            });
        }
    }
    let pace = match rate.parse() {
        Ok(per_s) => {
            let arrivals = Arrivals::parse(arrivals).unwrap();
            Loop::Open(OpenLoop { arrivals, ..OpenLoop::plain(per_s) })
        }
        Err(_) => Loop::CLOSED,
    };
    let target = Target::new("null:");
    let settings = LoadSettings {
        workload: default_workload(&target, |_| false),
        target,
        oltp: OltpSettings::usual(),
        scripts: ScriptSettings::default(),
        kv: KvSettings::usual(),
        http,
        exec: ExecSettings::plain(),
        verify: false,
        prepare: PreparePolicy::Auto,
        check: DataCheck::Quick,
        answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
        threads: threads.parse().unwrap(),
        connections: None,
        pace,
        warmup: Duration::from_millis(100),
        time: Duration::from_millis(ms.parse().unwrap()),
        events_max: events.parse().ok(),
        interval: Duration::from_millis(200),
        retries_max: 0,
        drain: Duration::from_millis(200),
        seed: 7,
        draws: 0,
        connects_at_once: 8,
        errors_ratio_max: 0.0,
        ramp_up: Duration::ZERO,
        ramp_down: Duration::ZERO,
        client: ClientSettings::PLAIN,
    };
    Ok(Meant { settings, recorded: Arc::from([]) })
}

/// The words of such a load.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
