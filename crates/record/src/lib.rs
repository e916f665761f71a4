//! Vocabulary of a performance lab: runs, loads, measurements.
//!
//! Everything upstream (plan, load, probes, import) uses these types; everything downstream (archive,
//! analysis, report) reads them. This crate opens no file and no socket. It serializes nothing either: a
//! serialized form is a promise, and the crates at the edges make those.

pub mod agents;
pub mod arrivals;
pub mod bakeoff;
pub mod block_io;
pub mod cgroup;
pub mod clock;
pub mod command;
pub mod command_line;
pub mod commands;
mod compact;
mod counts;
pub mod cpu;
pub mod csv;
pub mod environment;
pub mod errors;
pub mod event;
pub mod gate;
pub mod histogram;
pub mod hosts;
pub mod instruments;
pub mod labels;
pub mod limits;
pub mod load;
pub mod locks;
pub mod loops;
mod masking;
pub mod memory;
pub mod metric;
pub mod missing;
pub mod nearest;
pub mod nic;
pub mod power;
pub mod printable;
pub mod profile;
pub mod proof;
pub mod quantity;
pub mod replay;
pub mod requests;
pub mod resources;
pub mod run;
pub mod search;
pub mod series;
pub mod server_cpu;
pub mod target;
pub mod tcp_peers;
pub mod turns;
pub mod unit;
pub mod verdict;
pub mod warm_up;
