//! The agents of a fleet: what each of several generators did of one load.

use std::collections::BTreeMap;

use crate::counts::Counts;
use crate::missing::{Maybe, Missing};
use crate::series::Sample;

/// Consequence of a lost part of a fleet's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// The run is INVALID.
    Invalid,
    /// The run is degraded: its numbers are shown, and no verdict rests on them.
    Degraded,
}

impl OnLoss {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Invalid, Self::Degraded];

    /// Word in plans and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Degraded => "degraded",
        }
    }

    /// Value of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|on_loss| on_loss.word() == word)
    }
}

/// A fleet, as a plan or a command line asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSettings {
    /// Number of agents that generate the load.
    pub agents: u32,
    /// Consequence of a lost agent, or of intervals that stay missing.
    pub on_loss: OnLoss,
    /// Labels that an agent must have to be taken.
    pub place: BTreeMap<String, String>,
    /// Number of agents that observe their machine during the load, such as that of the server.
    pub observers: u32,
    /// Events per second of a latency probe; `None` without one.
    pub probe_per_s: Option<f64>,
}

impl FleetSettings {
    /// A fleet of any agents, in which a loss makes the run INVALID.
    pub fn of(agents: u32) -> Self {
        Self { agents, on_loss: OnLoss::Invalid, place: BTreeMap::new(), observers: 0, probe_per_s: None }
    }
}

/// Numbers of a machine over a window of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Numbers over time, in milliseconds since the beginning of the window.
    pub numbers: Vec<Sample>,
    /// Parts that are missing, with the reason: instruments by name, or [`Observation::START`] and
    /// [`Observation::REST`].
    pub missing: BTreeMap<String, Missing>,
}

impl Observation {
    /// The beginning of the window, if the instruments began late.
    pub const START: &str = "start";
    /// Numbers beyond the largest size of an observation.
    pub const REST: &str = "rest";
}

/// Observation of an agent's machine during the measured phase of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Name of the agent.
    pub agent: String,
    /// Machine that the agent observed.
    pub host: String,
    /// Begin of the measured phase on this machine's clock.
    pub measured_from_ns: u64,
    /// Observation of the measured phase.
    pub seen: Maybe<Observation>,
}

/// First word of the names of an observing agent's missing parts in a run.
const OBSERVER: &str = "observer ";

/// Whether a name of something missing in a run is that of an observing agent, or of a part of its
/// observation.
pub fn is_of_observer(name: &str) -> bool {
    name.starts_with(OBSERVER)
}

impl Watched {
    /// Name of the whole observation, or of a part of it, among what is missing in a run.
    pub fn name_of(&self, part: Option<&str>) -> String {
        let part = part.map_or_else(String::new, |part| format!(": {part}"));
        format!("{OBSERVER}{} on {}{part}", self.agent, self.host)
    }
}

/// Longest name and longest value of a label.
const LABEL_BYTES_MAX: usize = 64;

/// Name and value of an agent's label, `NAME=VALUE`; `None` for another form, or for more than 64
/// bytes.
pub fn label(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let is_good =
        |part: &str| (1..=LABEL_BYTES_MAX).contains(&part.len()) && !part.chars().any(char::is_control);
    (is_good(name) && is_good(value)).then(|| (name.to_owned(), value.to_owned()))
}

/// Part of one agent in the measured phase. The record holds the sums over all agents.
#[derive(Debug, Clone, PartialEq)]
pub struct OfAgent {
    /// Name of the agent.
    pub agent: String,
    /// Machine that the agent ran on.
    pub host: String,
    /// Weight of its share: agents with twice the weight have twice the events.
    pub weight: u32,
    /// Outcomes of its events. A lost agent's events of unknown outcome are unfinished.
    pub counts: Counts,
    /// Offset of its clock from the conductor's; missing if the agent was lost before or after the load.
    pub clock: Maybe<ClockOffset>,
    /// Time from its first event's due time, or in a closed loop from the start of the load, to that event's
    /// start.
    pub start_skew_ns: Maybe<i64>,
    /// Intervals that arrived.
    pub slices: u64,
    /// Numbers of the intervals that did not, from 0.
    pub missing_slices: Vec<u64>,
    /// Time at which it was declared lost, in seconds since the start of the measured phase.
    pub lost_at_s: Option<f64>,
}

/// The clock of an agent against that of the conductor, before and after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The agent's clock less the conductor's, before the load.
    pub offset_ns: i64,
    /// The true offset lies within this distance of [`Self::offset_ns`], before and after the load.
    pub bound_ns: u64,
    /// Change of the offset over the load.
    pub drift_ns: i64,
}
