//! The engine of a load: the state that workers and conductor share, the workers' loops, and the ledger of events.

mod backoff;
mod hand;
mod hands;
pub(crate) mod ledger;
pub(crate) mod loops;
mod post;
mod rates;
mod samples;
mod shared;
mod taking;
mod timeline;

pub(crate) use self::hand::Begun;
pub(crate) use self::post::Post;
pub(crate) use self::shared::Engine;
pub(crate) use self::timeline::Timeline;
