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

/// Reads a command line.
pub type ReadWords = dyn Fn(&[String]) -> Result<Meant, String> + Send + Sync;
