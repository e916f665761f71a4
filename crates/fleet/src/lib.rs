//! One load from many machines: agents, each with its share of the schedule, and the conductor that merges
//! what they measured.
//!
//! NATS carries the messages, but the truth is elsewhere: an agent appends each interval to a file and syncs
//! it before it publishes it, and the conductor reads from that file, after the end, what did not arrive. So
//! nothing is lost if the server dies, nothing counts twice, and what stays missing makes the run INVALID.
//!
//! | module | subject |
//! |---|---|
//! | [`Server`] | The NATS server: address, credentials, what is refused. |
//! | `wire` | Messages, and the sum that seals a plan. |
//! | `clock` | The offset of two clocks from round trips. Pure. |
//! | `presence` | Which agents are lost. Pure. |
//! | `spool`, `received` | The intervals on the agent's disk and on the conductor's. |
//! | `agent`, `job` | One member of a fleet, and its part in one load. |
//! | `conductor`, `merge` | The load as a whole. |
//! | `dev` | A fleet on this machine, to try it. |

mod agent;
mod clock;
mod conductor;
mod dev;
mod error;
mod job;
mod merge;
mod presence;
mod received;
mod server;
mod spool;
mod wire;

use std::sync::Arc;

use record::load::LoadSettings;

pub use agent::{Agent, serve};
pub use conductor::{Fleet, Told, conduct};
pub use dev::Dev;
pub use error::FleetError;
pub use server::Server;

/// A load as a command line means it on this machine.
#[derive(Debug, Clone)]
pub struct Meant {
    /// Settings of the whole load.
    pub settings: LoadSettings,
    /// Due times of recorded arrivals; empty for all others.
    pub recorded: Arc<[u64]>,
}

/// Reads a command line.
pub type ReadWords = dyn Fn(&[String]) -> Result<Meant, String> + Send + Sync;
