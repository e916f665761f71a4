//! The workers' loops: one thread for each connection in an open or closed loop, or one thread for many
//! connections.

pub(crate) mod closed;
pub(crate) mod event_loop;
pub(crate) mod open;
pub(crate) mod worker;
