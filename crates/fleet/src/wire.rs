//! Messages between conductor and agents, and the sum that seals a plan.
//!
//! | subject | what |
//! |---|---|
//! | `bakeoff.hello` | The conductor asks which agents are there. |
//! | `INBOX.ID` | Each agent's answer; INBOX is the subject that the question names for answers. |
//! | `bakeoff.agent.ID` | Orders to one agent, each answered at the subject that the order names. |
//! | `bakeoff.RUN.beat.ID` | An agent is alive, ten times a second; `conductor` is the conductor's echo. |
//! | `bakeoff.RUN.slice.ID`, `bakeoff.RUN.end.ID` | Intervals and end, in a stream of `JetStream`. |
//!
//! The subject, which a server can reserve for one key, names the speaker; the message never does.

use std::collections::BTreeMap;

use archive::documents::SliceForm;
use load::Share;
use record::agents::{FleetSettings, OnLoss};
use record::load::LoadSettings;
use record::replay::Logged;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::meant::{Meant, Sent};

/// Version of these messages, together with the program's: both must be equal.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/7");
pub(crate) const HELLO: &str = "bakeoff.hello";
/// The name in place of an agent's for the conductor's own beats.
pub(crate) const CONDUCTOR: &str = "conductor";

/// The system's source of bytes that cannot be guessed.
pub(crate) const RANDOM: &str = "/dev/urandom";

pub(crate) fn orders(agent: &str) -> String {
    format!("bakeoff.agent.{agent}")
}

/// Beginning of the subjects at which a member gets answers.
pub(crate) fn inbox(member: &str) -> String {
    format!("_INBOX.{member}")
}

/// Subject of an agent's answer to a hello.
///
/// - `reply`: the one that the hello names.
pub(crate) fn greeting(reply: &str, agent: &str) -> String {
    format!("{reply}.{agent}")
}

pub(crate) fn beat(run: &str, agent: &str) -> String {
    format!("bakeoff.{run}.beat.{agent}")
}

pub(crate) fn slice(run: &str, agent: &str) -> String {
    format!("bakeoff.{run}.slice.{agent}")
}

pub(crate) fn end(run: &str, agent: &str) -> String {
    format!("bakeoff.{run}.end.{agent}")
}

pub(crate) fn stream(run: &str) -> String {
    format!("bakeoff-{run}")
}

/// An agent's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) agent: String,
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) cpus: u32,
    /// The run that it is busy with.
    pub(crate) busy: Option<String>,
    /// The agent's process: two with one name are not one agent. Empty in older versions.
    #[serde(default)]
    pub(crate) epoch: String,
    /// Labels by which a load chooses its agents.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// Weight of the agent's share.
    #[serde(default = "one")]
    pub(crate) weight: u32,
    /// Whether the agent observes its machine and generates no load.
    #[serde(default)]
    pub(crate) observes: bool,
    /// Whether the agent is for probes, and has no share of a load.
    #[serde(default)]
    pub(crate) probes: bool,
}

fn one() -> u32 {
    1
}

/// An order, and the process that is to obey it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addressed {
    /// The process; without it, any with the agent's name, as for the files of one that was started again.
    pub(crate) epoch: Option<String>,
    #[serde(flatten)]
    pub(crate) order: Order,
}

/// Order to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Tell the time.
    Clock,
    /// Build the data set and make the connections.
    Prepare(Plan),
    /// Observe the machine during a load that others generate.
    Watch(Watch),
    /// Begin at this time of the agent's clock, which is known to within `bound_ns`.
    Arm {
        run: String,
        at_ns: u64,
        #[serde(default)]
        bound_ns: u64,
    },
    /// End early.
    Stop { run: String },
    /// Give a part of a file of the spool; the answer is its bytes.
    Read {
        run: String,
        file: SpoolFile,
        offset: u64,
        /// The agent that left the spool on this machine; without it, the agent that is asked.
        #[serde(default)]
        owner: Option<String>,
    },
    /// Everything has arrived: the spool may go.
    Taken {
        run: String,
        #[serde(default)]
        owner: Option<String>,
    },
    /// Tell of the spools that no conductor has collected.
    Left,
}

/// The measured phase of a load, for an agent that observes its machine meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// Name of this order's work: that of the run, and a word that keeps its files apart.
    pub(crate) run: String,
    /// Time from the start of the load to the measured phase.
    pub(crate) lead_ns: u64,
    /// Length of the measured phase.
    pub(crate) time_ns: u64,
    /// Length of an interval.
    pub(crate) interval_ns: u64,
}

/// The name of the work of an agent that observes the run.
pub(crate) fn observed(run: &str) -> String {
    format!("{run}-observed")
}

/// The name of the work of a probe beside the run.
pub(crate) fn probed(run: &str) -> String {
    format!("{run}-probe")
}

/// A line of an observing agent's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Seen {
    Number(Number),
    /// A part of the observation that is missing; all of it, if it has no name.
    Missing {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<String>,
        why: String,
    },
}

/// A number that an observing agent measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Number {
    /// Time since the beginning of the measured phase.
    pub(crate) t_ms: i64,
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) labels: String,
    pub(crate) value: f64,
}

/// A file of a run in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SpoolFile {
    Slices,
    End,
    Start,
    Observed,
}

/// A run in a spool that no conductor has collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LeftSpool {
    pub(crate) owner: String,
    pub(crate) run: String,
    pub(crate) bytes: u64,
    /// Whether the account of the end is there.
    pub(crate) has_end: bool,
}

/// A load, and an agent's share of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) run: String,
    /// The command line of the load, from the program's name on.
    pub(crate) words: Vec<String>,
    /// The settings of a load that has no command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<Sent>,
    pub(crate) index: u32,
    pub(crate) of: u32,
    /// Weights of the shares; empty if they are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) weights: Vec<u32>,
    /// Whether a loss makes the run degraded, and not INVALID.
    #[serde(default)]
    pub(crate) accepts_loss: bool,
    /// Agents beside the load.
    #[serde(default)]
    pub(crate) helpers: Helpers,
    /// Sum that [`Seal`] makes.
    pub(crate) sha256: String,
}

impl Plan {
    /// The facts of the fleet that a plan and its seal have.
    pub(crate) fn dealt(&self) -> Dealt {
        let (weights, helpers) = (self.weights.clone(), self.helpers);
        Dealt { of: self.of, weights, accepts_loss: self.accepts_loss, helpers }
    }
}

/// Agents that have no share of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helpers {
    /// Number of agents that observe their machines.
    pub observers: u32,
    /// Whether an agent is a probe.
    pub probe: bool,
}

impl Helpers {
    /// Helpers that the settings name.
    pub fn of(asked: &FleetSettings) -> Self {
        Self { observers: asked.observers, probe: asked.probe_per_s.is_some() }
    }
}

/// A load dealt out to agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dealt {
    pub(crate) of: u32,
    /// Weights of the shares; empty if they are equal.
    pub(crate) weights: Vec<u32>,
    pub(crate) accepts_loss: bool,
    pub(crate) helpers: Helpers,
}

impl Dealt {
    /// - `weights`: one of each agent.
    pub(crate) fn to(weights: &[u32], asked: &FleetSettings) -> Self {
        let are_equal = weights.iter().all(|weight| *weight == weights[0]);
        Self {
            of: u32::try_from(weights.len()).expect("a fleet is small"),
            weights: if are_equal { Vec::new() } else { weights.to_vec() },
            accepts_loss: asked.on_loss == OnLoss::Degraded,
            helpers: Helpers::of(asked),
        }
    }

    /// The share of an agent; `None` if no fleet has it.
    pub(crate) fn share(&self, index: u32, settings: &LoadSettings) -> Option<Share> {
        if self.weights.is_empty() {
            return Share::new(index, self.of, settings);
        }
        let are_all = self.weights.len() == self.of as usize;
        Share::weighted(index, &self.weights, settings).filter(|_| are_all)
    }

    pub(crate) fn weight(&self, index: u32) -> u32 {
        self.weights.get(index as usize).copied().unwrap_or(1)
    }

    pub(crate) fn on_loss(&self) -> OnLoss {
        if self.accepts_loss { OnLoss::Degraded } else { OnLoss::Invalid }
    }
}

/// Longest reason that a member gives.
pub(crate) const WHY_BYTES_MAX: usize = 1 << 10;

/// Answer to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    Clock {
        received_ns: u64,
        sent_ns: u64,
    },
    Left {
        /// Number of the machine's start: a monotonic clock begins anew with it.
        boot: String,
        spools: Vec<LeftSpool>,
        /// Spools beyond the longest list.
        more: u64,
    },
    Done,
    Refused {
        why: String,
    },
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(crate) enum Beat {
    Preparing,
    Ready,
    Running,
    Ended,
    /// The load failed, as it could on one machine.
    Failed {
        why: String,
    },
    /// The agent does not play this plan.
    Refused {
        why: String,
    },
}

/// Start of an agent's share, for the collection of a run without a conductor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the time of the start is one of several times")]
pub(crate) struct Start {
    pub(crate) run: String,
    pub(crate) agent: String,
    pub(crate) host: String,
    pub(crate) index: u32,
    pub(crate) of: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) weights: Vec<u32>,
    #[serde(default)]
    pub(crate) accepts_loss: bool,
    #[serde(default)]
    pub(crate) helpers: Helpers,
    pub(crate) boot: String,
    /// The ordered start, on the agent's clock.
    pub(crate) start_ns: u64,
    /// Bound of the conductor's knowledge of that clock.
    pub(crate) bound_ns: u64,
    /// One moment on the agent's monotonic clock and on its wall clock.
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: u64,
    /// Whether the due times are recorded ones.
    pub(crate) is_recorded: bool,
    /// The settings of the whole load, in the archive's form; the target is masked.
    pub(crate) settings: serde_json::Value,
}

/// One interval of one agent: a line of its spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) from_ns: u64,
    pub(crate) for_ns: u64,
    pub(crate) slices: Vec<SliceForm>,
    /// Progress that the interval shows while the load runs.
    pub(crate) shown: Option<Shown>,
}

/// Progress of an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) t_s: f64,
    pub(crate) interval_s: f64,
    pub(crate) offered_per_s: Option<f64>,
    pub(crate) achieved_per_s: f64,
    pub(crate) backlog: u64,
    pub(crate) errors: u64,
    pub(crate) outage: bool,
}

/// An agent's account at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Lines of the spool.
    pub(crate) slices: u64,
    pub(crate) bytes: u64,
    /// Sum of all lines.
    pub(crate) sha256: String,
    pub(crate) first: Option<First>,
    /// The record, in the archive's form.
    pub(crate) load: serde_json::Value,
}

/// The agent's first event, on its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct First {
    pub(crate) due_ns: u64,
    pub(crate) start_ns: u64,
}

impl Start {
    pub(crate) fn dealt(&self) -> Dealt {
        let (weights, helpers) = (self.weights.clone(), self.helpers);
        Dealt { of: self.of, weights, accepts_loss: self.accepts_loss, helpers }
    }
}

/// The sum over everything that the agents must agree on: the words, what they mean on a machine with its
/// files, recorded due times and requests, the run, the number of agents and their weights, and the agent's
/// own number.
#[derive(Debug, Clone)]
pub(crate) struct Seal(Sha256);

impl Seal {
    /// The sum without an agent's number.
    ///
    /// # Errors
    ///
    /// The requests of an access log cannot be read.
    pub(crate) fn new(run: &str, words: &[String], dealt: &Dealt, meant: &Meant) -> Result<Self, String> {
        let mut sum = Sha256::new();
        let mut add = |bytes: &[u8]| {
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        };
        add(VERSION.as_bytes());
        add(run.as_bytes());
        add(format!("{dealt:?}").as_bytes());
        add(&(words.len() as u64).to_le_bytes());
        for word in words {
            add(word.as_bytes());
        }
        let mut settings = meant.settings.clone();
        // Where the requests are stored differs; what they are must not.
        let source =
            settings.http.replay.as_mut().and_then(|replay| Some((replay.requests, replay.source.take()?)));
        add(format!("{settings:?}").as_bytes());
        let mut path = Vec::new();
        if let Some((requests, source)) = source {
            for number in 0..requests {
                let Logged { method, status } = source.read(number, &mut path)?;
                add(method.name().as_bytes());
                add(&status.unwrap_or(0).to_le_bytes());
                add(&path);
            }
        }
        meant.recorded.iter().for_each(|due_ns| sum.update(due_ns.to_le_bytes()));
        Ok(Self(sum))
    }

    /// The sum for agent `index`.
    pub(crate) fn of(&self, index: u32) -> String {
        hex(&self.0.clone().chain_update(index.to_le_bytes()).finalize())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Number of this machine's start.
pub(crate) fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Bytes that cannot be guessed, as text.
///
/// # Errors
///
/// The system gives none.
pub(crate) fn random(bytes: usize) -> std::io::Result<String> {
    let mut found = vec![0; bytes];
    std::io::Read::read_exact(&mut std::fs::File::open(RANDOM)?, &mut found)?;
    Ok(hex(&found))
}

/// Whether a name may stand in a subject and in a path.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// A text of a member, cut to a length in bytes.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

pub(crate) fn bytes<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("no message has a map with keys that are no strings")
}
