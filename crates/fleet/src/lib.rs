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
//! | `conductor`, `merge` | The load as a whole, and what agents that only observe saw meanwhile. |
//! | `survey` | The agents that answer now. |
//! | [`launch`] | Starts agents elsewhere, and ends them. |
//! | `dev` | A fleet on this machine, to try it. |

mod agent;
mod clock;
mod conductor;
mod dev;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod job;
pub mod launch;
mod meant;
mod merge;
mod presence;
mod received;
mod server;
mod spool;
mod survey;
mod wire;

pub use agent::{Agent, serve};
pub use conductor::conduct;
pub use conductor::office::{Fleet, Spools, Told};
pub use conductor::recover::{Incomplete, Recovered, recover};
pub use dev::Dev;
pub use error::FleetError;
pub use job::{ONLY_NULL, Observing, Window};
pub use meant::{Meant, ReadWords, Sender};
pub use server::{Server, seed_in};
pub use survey::{Left, Seen, survey};
pub use wire::Helpers;
