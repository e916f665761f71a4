//! Drivers: one file or folder for each kind of target, and the list of them in `registry.rs`.

mod blocking;
pub(crate) mod cache;
pub mod dd;
mod exchange;
pub(crate) mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub(crate) mod hosts;
mod http;
mod interface;
pub(crate) mod null;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod readers;
mod registry;
pub(crate) mod sql;

pub(crate) use self::blocking::Net;
pub(crate) use self::exchange::Exchange;
pub(crate) use self::interface::{Driver, Look, Scheme};
pub(crate) use self::registry::{SCHEMES, scheme_of};
