//! Orders to one machine, and its answers.

use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use crate::wire;

/// Order to a machine.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum HostOrder {
    /// Start agents.
    Start(StartAgents),
    /// End the agents of an earlier order.
    End {
        /// The key of that order.
        key: String,
    },
}

/// Agents to start on one machine.
#[derive(Clone, Serialize, Deserialize)]
pub struct StartAgents {
    /// Version of the program that gives the order.
    pub version: String,
    /// Name of this order: a new one each time.
    pub key: String,
    /// Names of the agents.
    pub agents: Vec<String>,
    /// Address of the NATS server, which may contain a password.
    pub url: String,
    /// Seed of each agent's `NKey`, in the order of their names; empty without keys.
    pub nkeys: Vec<String>,
    /// Certificates to trust besides the system's (PEM).
    pub ca: Option<String>,
}

impl std::fmt::Debug for HostOrder {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (verb, key) = match self {
            Self::Start(start) => ("start", &start.key),
            Self::End { key } => ("end", key),
        };
        write!(f, "{verb} {key}")
    }
}

impl std::fmt::Debug for StartAgents {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartAgents")
            .field("key", &self.key)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

/// Answer of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// The machine's name.
    pub host: String,
    /// Each agent of the order.
    pub agents: Vec<AgentState>,
}

/// An agent after an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// Name of the agent.
    pub agent: String,
    /// Number of the process.
    pub pid: u32,
    /// Fate of the agent.
    pub state: State,
    /// Runs in its spool that no conductor has collected.
    #[serde(default)]
    pub left: Vec<String>,
}

/// Fate of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waits for loads.
    Started,
    /// Ended by the order.
    Ended,
    /// Had ended before.
    Gone,
    /// Still runs.
    Remains,
}

impl State {
    /// Word in documents and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ended => "ended",
            Self::Gone => "had ended before",
            Self::Remains => "still runs",
        }
    }
}

/// Version of the program and of its messages.
pub const VERSION: &str = wire::VERSION;

impl HostOrder {
    /// Checks the names, which become names of files.
    ///
    /// # Errors
    ///
    /// [`FleetError::Unfit`].
    pub fn check(&self) -> Result<(), FleetError> {
        let (key, agents) = match self {
            Self::Start(start) => (&start.key, start.agents.as_slice()),
            Self::End { key } => (key, &[][..]),
        };
        let wrong = std::iter::once(key).chain(agents).find(|name| !wire::is_name(name));
        if let Some(name) = wrong {
            return Err(FleetError::Unfit(format!("invalid name {name}: use letters, digits, - and _")));
        }
        if let Self::Start(start) = self
            && start.version != wire::VERSION
        {
            let text = format!("version {} is installed, version {} is needed", wire::VERSION, start.version);
            return Err(FleetError::Unfit(text));
        }
        if let Self::Start(start) = self
            && !start.nkeys.is_empty()
            && start.nkeys.len() != start.agents.len()
        {
            return Err(FleetError::Unfit("there must be a key for each agent".to_owned()));
        }
        Ok(())
    }
}
