//! The vocabulary of a performance lab: what a run is, what was offered, what was seen.
//!
//! Everything upstream (plan, load, probes, import) speaks these types; everything downstream (archive, analysis,
//! report) reads them. Nothing here opens a file or a socket. Nothing here is serialised either: the forms on disk
//! and on paper are promises, and those are made at the edges.

pub mod arrivals;
pub mod bakeoff;
pub mod block_io;
pub mod cgroup;
pub mod clock;
pub mod command;
pub mod command_line;
pub mod cpu;
pub mod csv;
pub mod environment;
pub mod errors;
pub mod event;
pub mod histogram;
pub mod hosts;
pub mod instruments;
pub mod limits;
pub mod load;
pub mod locks;
pub mod loops;
mod masking;
pub mod memory;
pub mod missing;
pub mod nic;
pub mod power;
pub mod printable;
pub mod profile;
pub mod proof;
pub mod quantity;
pub mod requests;
pub mod run;
pub mod search;
pub mod series;
pub mod server_cpu;
pub mod target;
pub mod tcp_peers;
pub mod verdict;
