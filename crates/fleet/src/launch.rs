//! Launchers of a fleet: start agents elsewhere, keep exact account of them, and end them.
//!
//! An order travels to a machine as a document on the standard input of `bakeoff fleet on-host`, never on a
//! command line, which other users can read. That process starts the agents, and stores the process number
//! and start time of each before it lets it begin. Only a process with both is ended later.

pub mod account;
pub mod host;
pub mod kubernetes;
pub mod lines;
pub mod order;
mod process;
pub mod ssh;
