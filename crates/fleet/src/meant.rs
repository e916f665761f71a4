//! A load as a command line means it.

use std::sync::Arc;

use record::load::LoadSettings;

/// A load as a command line means it on this machine.
#[derive(Debug, Clone)]
pub struct Meant {
    /// Settings of the whole load.
    pub settings: LoadSettings,
    /// Due times of recorded arrivals; empty for all others.
    pub recorded: Arc<[u64]>,
}

/// Sender of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A conductor with credentials.
    Conductor,
    /// Any user of this machine.
    Anyone,
}

/// Reads a command line. Of one that anyone may have sent, it opens no file that the line names.
pub type ReadWords = dyn Fn(&[String], Sender) -> Result<Meant, String> + Send + Sync;
