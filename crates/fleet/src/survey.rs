//! The agents that answer now: machine, clock, work, and the spools that no conductor has collected.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use load::Stop;

use crate::conductor::office;
use crate::error::FleetError;
use crate::server::Server;
use crate::wire::{self, Answer, Hello, LeftSpool, Order};

/// Agents that are asked at the same time: more would wait for each other, which widens the clocks' bounds.
const AT_ONCE: usize = 16;

/// An agent that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Name of the agent.
    pub agent: String,
    /// Name of its machine.
    pub host: String,
    /// Version of the program, with that of its messages.
    pub version: String,
    /// Whether a conductor of this version accepts it.
    pub is_same_version: bool,
    /// Number of CPUs that it may use.
    pub cpus: u32,
    /// Labels by which a load chooses its agents.
    pub labels: BTreeMap<String, String>,
    /// Weight of its share of a load.
    pub weight: u32,
    /// Whether it observes its machine and generates no load.
    pub observes: bool,
    /// Whether it is for probes, and has no share of a load.
    pub probes: bool,
    /// The run that it plays.
    pub busy: Option<String>,
    /// The other clock less ours, and the bound of the error, in nanoseconds; `None` if it could not be read.
    pub clock: Option<(i64, u64)>,
    /// Spools that no conductor has collected, or the reason that they are unknown.
    pub left: Result<Vec<Left>, String>,
    /// Spools beyond the longest list.
    pub more_left: u64,
}

/// A run in a spool that no conductor has collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The agent that played it.
    pub owner: String,
    /// The run.
    pub run: String,
    /// Length of its intervals.
    pub bytes: u64,
    /// Whether the agent played to its end.
    pub has_end: bool,
}

/// Asks all agents; those that share a name are all there.
///
/// - `patience`: time for answers.
///
/// # Errors
///
/// The server cannot be reached.
pub fn survey(server: &Server, patience: Duration, stop: &Stop) -> Result<Vec<Seen>, FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|e| FleetError::Program { program: "the runtime".into(), text: e.to_string() })?;
    runtime.block_on(async {
        let client = server.connect(wire::CONDUCTOR).await?;
        let hellos = office::hellos(server, &client, patience, stop, &|_| false).await?;
        let seen = stream::iter(&hellos).map(|hello| seen(&client, hello));
        Ok(seen.buffered(AT_ONCE).collect().await)
    })
}

async fn seen(client: &async_nats::Client, hello: &Hello) -> Seen {
    let clock = office::offset(client, hello).await.map(|offset| (offset.ns, offset.bound_ns));
    let (left, more_left) = match office::ask(client, hello, Order::Left).await {
        Ok(Answer::Left { spools, more, .. }) => (Ok(spools.into_iter().map(Left::from).collect()), more),
        Ok(Answer::Refused { why }) => (Err(why), 0),
        Ok(_) => (Err("an answer to another order".to_owned()), 0),
        Err(error) => (Err(error.to_string()), 0),
    };
    let Hello { agent, host, version, cpus, busy, epoch: _, labels, weight, observes, probes } =
        hello.clone();
    Seen {
        agent,
        host,
        is_same_version: version == wire::VERSION,
        version,
        cpus,
        labels,
        weight,
        observes,
        probes,
        busy,
        clock,
        left,
        more_left,
    }
}

impl From<LeftSpool> for Left {
    fn from(LeftSpool { owner, run, bytes, has_end }: LeftSpool) -> Self {
        Self { owner, run, bytes, has_end }
    }
}
