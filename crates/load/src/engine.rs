//! The engine of a load: the state that workers and conductor share, the workers' loops, and the ledger of
//! events.

mod alone;
mod backoff;
mod connection_slot;
mod in_flight;
pub(crate) mod ledger;
pub(crate) mod loops;
mod rates;
mod samples;
mod shared;
mod stops;
mod taking;
mod timeline;
mod worker_state;

pub(crate) use self::connection_slot::Begun;
pub(crate) use self::shared::Engine;
pub(crate) use self::stops::STOP_NS_MIN;
#[cfg(test)]
pub(crate) use self::stops::Stops;
pub(crate) use self::timeline::Timeline;
pub(crate) use self::worker_state::WorkerState;
