//! The server under test: its start, its readiness, its stop.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::Levels;
use record::command_line;

use crate::places::Places;
use crate::template::{Templated, of_instance, text_of};

#[derive(Debug, Clone)]
pub(crate) struct ServerPlan {
    pub(crate) command: Templated<Command>,
    pub(crate) ready: Templated<Ready>,
    pub(crate) ready_timeout: Duration,
    pub(crate) stop: StopSignal,
    pub(crate) stop_timeout: Duration,
    pub(crate) instances: Templated<u32>,
    pub(crate) cpus: Option<Places>,
    /// Memory nodes.
    pub(crate) mem: Option<Places>,
    pub(crate) nice: Templated<i32>,
    pub(crate) memory: MemoryLayout,
    pub(crate) cpu_max: Option<f64>,
    pub(crate) memory_max: Option<u64>,
    /// Texts of configuration files, by name.
    pub(crate) files: Vec<(String, Templated<String>)>,
    pub(crate) scheduler: Templated<Scheduler>,
    pub(crate) user: Option<String>,
    pub(crate) inherit_env: bool,
    pub(crate) environment: Vec<EnvPlan>,
}

/// Environment variable, and its configurations: `None` for all, else a factor and its value.
#[derive(Debug, Clone)]
pub(crate) struct EnvPlan {
    pub(crate) only: Option<(String, String)>,
    pub(crate) name: String,
    pub(crate) value: Templated<String>,
}

/// CPUs of the threads that generate the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCpus {
    /// The CPUs, in rising order.
    pub cpus: Vec<u32>,
    /// Whether each thread is bound to one of them, in turn, instead of to all.
    pub pinned: bool,
}

/// Start and stop of the server of one series, everything resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Program and arguments.
    pub command: Command,
    /// Variables added to the environment, by name.
    pub environment: Vec<(String, String)>,
    /// Condition for readiness.
    pub ready: Ready,
    /// Time after which a server that is not ready has failed.
    pub ready_timeout: Duration,
    /// Signal that stops it.
    pub stop: StopSignal,
    /// Time after which a server that has not ended is killed.
    pub stop_timeout: Duration,
    /// CPUs that it is bound to; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// Memory nodes that its memory comes from; `None`: all.
    pub mem: Option<Vec<u32>>,
    /// Scheduling class.
    pub scheduler: Scheduler,
    /// Nice value.
    pub nice: i32,
    /// Layout of its memory.
    pub memory: MemoryLayout,
    /// Files to write into the folder of the instance: name and text.
    pub files: Vec<(String, String)>,
}

/// Program and arguments, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program: a path, or a name that is searched in `PATH`.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
}

/// Condition for the readiness of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// A Unix socket accepts a connection.
    Socket(String),
    /// A TCP port accepts a connection.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A command for `sh -c` exits with 0.
    Command(String),
}

/// Signal that stops a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// Scheduling class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// The kernel's default.
    Other,
    /// Batch work (`SCHED_BATCH`).
    Batch,
    /// First in, first out, at this priority.
    Fifo(u8),
    /// Round robin, at this priority.
    RoundRobin(u8),
}

/// Layout of the memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLayout {
    /// Addresses of code, stack and heap.
    pub address_space: AddressSpace,
    /// Transparent huge pages.
    pub huge_pages: HugePages,
}

impl MemoryLayout {
    /// Layout that the system chooses.
    pub const OF_SYSTEM: Self = Self { address_space: AddressSpace::Random, huge_pages: HugePages::System };
}

/// Addresses of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSpace {
    /// The system's setting, usually random for each process.
    Random,
    /// The same for each start of a program.
    Fixed,
}

/// Transparent huge pages of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// The system's setting.
    System,
    /// None.
    Never,
}

impl ServerPlan {
    /// One instance of the server of one configuration.
    ///
    /// - `number`: from 1 to `instances`.
    /// - `scratch`: folder of the instance.
    pub(crate) fn of(&self, levels: &Levels, scratch: &Path, number: u32, instances: u32) -> ServerSpec {
        let (scratch, levels) = (text_of(scratch), &of_instance(levels, number));
        let places = |all: Option<&Places>| Some(all?.of(levels, &scratch, number, instances));
        let applies = |e: &&EnvPlan| match &e.only {
            None => true,
            Some((factor, value)) => levels.get(factor) == Some(value),
        };
        let environment = self.environment.iter().filter(applies);
        ServerSpec {
            command: self.command.of(levels, &scratch),
            environment: environment.map(|e| (e.name.clone(), e.value.of(levels, &scratch))).collect(),
            ready: self.ready.of(levels, &scratch),
            ready_timeout: self.ready_timeout,
            stop: self.stop,
            stop_timeout: self.stop_timeout,
            cpus: places(self.cpus.as_ref()),
            mem: places(self.mem.as_ref()),
            scheduler: self.scheduler.of(levels, &scratch),
            nice: self.nice.of(levels, &scratch),
            memory: self.memory,
            files: self.files.iter().map(|(name, text)| (name.clone(), text.of(levels, &scratch))).collect(),
        }
    }
}

impl Command {
    /// Splits a command line into words, after placeholders were replaced: a factor's value may contain
    /// several.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = command_line::split(text)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }
}

impl Ready {
    /// Parses `socket:PATH`, `tcp:HOST:PORT`, or a command.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("socket:") {
            return (!path.is_empty()).then(|| Self::Socket(path.to_owned()));
        }
        if let Some(address) = text.strip_prefix("tcp:") {
            let (host, port) = address.rsplit_once(':')?;
            let port = port.parse().ok().filter(|&port| port > 0)?;
            return (!host.is_empty()).then(|| Self::Tcp { host: host.to_owned(), port });
        }
        Some(Self::Command(text.to_owned()))
    }
}

impl StopSignal {
    /// Parses `SIGTERM`, `SIGINT`, `SIGQUIT`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "SIGTERM" => Some(Self::Term),
            "SIGINT" => Some(Self::Int),
            "SIGQUIT" => Some(Self::Quit),
            _ => None,
        }
    }
}

impl AddressSpace {
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "random" => Some(Self::Random),
            "fixed" => Some(Self::Fixed),
            _ => None,
        }
    }
}

impl HugePages {
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "system" => Some(Self::System),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

impl Scheduler {
    /// Parses `other`, `batch`, `fifo:10`, `rr:10`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let priority = |text: &str| text.parse().ok().filter(|p| (1..=99).contains(p));
        match text.split_once(':') {
            None if text == "other" => Some(Self::Other),
            None if text == "batch" => Some(Self::Batch),
            Some(("fifo", p)) => priority(p).map(Self::Fifo),
            Some(("rr", p)) => priority(p).map(Self::RoundRobin),
            _ => None,
        }
    }

    /// Class of a word: `other`, `batch`, `fifo:10`, `rr:10`; the inverse of its text.
    pub fn from_word(text: &str) -> Option<Self> {
        Self::read(text)
    }
}

impl std::fmt::Display for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Batch => f.write_str("batch"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

/// Parses `0`, `0-3`, `0,2,8-11`: CPUs in rising order, each once.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_MAX || cpus.last().is_some_and(|&before| before >= first) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Capacity of the C library's CPU sets.
const CPUS_MAX: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_rise_and_name_each_cpu_once() {
        assert_eq!(cpu_list("0,2,8-11"), Some(vec![0, 2, 8, 9, 10, 11]));
        assert_eq!(cpu_list("3"), Some(vec![3]));
        for text in ["", "a", "3-1", "1,1", "2,1", "0-", "0-99999"] {
            assert_eq!(cpu_list(text), None, "{text}");
        }
    }

    #[test]
    fn forms_with_a_grammar_of_their_own_are_read() {
        assert_eq!(Ready::read("socket:/s"), Some(Ready::Socket("/s".into())));
        assert_eq!(Ready::read("tcp:::1:3306"), Some(Ready::Tcp { host: "::1".into(), port: 3306 }));
        assert_eq!(Ready::read("tcp:h:0"), None);
        assert_eq!(Ready::read("ping -c1 h"), Some(Ready::Command("ping -c1 h".into())));
        assert_eq!(Scheduler::read("fifo:10"), Some(Scheduler::Fifo(10)));
        assert_eq!(Scheduler::read("fifo:0"), None);
    }

    fn plan(rest: &str) -> Result<crate::Plan, String> {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[design]\nblocks = 6\n[load]\ntarget = \"redis://h:1\"\n\
             [phases]\nmeasure = {{ time = \"1s\" }}\n{rest}"
        );
        crate::read(&text, "plan.toml").map_err(|errors| errors.to_string())
    }

    const SERVER: &str = "[server]\ncommand = \"s\"\nready = \"tcp:h:1\"\n";

    #[test]
    fn threads_of_the_load_and_memory_of_the_server_have_places() {
        let placed =
            plan(&format!("[client]\ncpus = \"1,3\"\npin = true\n{SERVER}mem = [\"0-1\"]\n")).unwrap();
        assert_eq!(placed.client(), Some(&ClientCpus { cpus: vec![1, 3], pinned: true }));
        let spec = placed.servers(&Levels::new(), Path::new("/s")).remove(0);
        assert_eq!((spec.mem, spec.cpus), (Some(vec![0, 1]), None));
        let free = plan(SERVER).unwrap();
        assert!(free.client().is_none() && free.servers(&Levels::new(), Path::new("/s"))[0].mem.is_none());
        for (rest, problem) in [
            ("[client]\ncpus = \"3-1\"\n".to_owned(), "cpus"),
            ("[client]\npin = true\n".to_owned(), "cpus"),
            (format!("{SERVER}mem = [\"a\"]\n"), "a list of nodes"),
            (format!("{SERVER}mem = [\"0\", \"1\"]\n"), "one list for each of the 1 instances"),
            ("[client]\ncpus = \"0\"\n[fleet]\nagents = 1\n".to_owned(), "no `[client]`"),
        ] {
            let error = plan(&rest).unwrap_err();
            assert!(error.contains(problem), "{rest}: {error}");
        }
    }

    #[test]
    fn commands_of_a_load_have_no_cpus_of_their_client() {
        let text = "schema = 1\ntitle = \"t\"\n[design]\nblocks = 6\n[load]\ntarget = \"exec:true\"\n[client]\ncpus = \
                    \"0\"\n[phases]\nmeasure = { time = \"1s\" }\n";
        let error = crate::read(text, "plan.toml").unwrap_err().to_string();
        assert!(error.contains("exec:"), "{error}");
    }
}
