//! What the instruments beside the CPU's saw of a run.

use std::collections::BTreeMap;

use crate::block_io::IoInterval;
use crate::locks::{LockInterval, UserLockInterval};
use crate::missing::Missing;
use crate::nic::NicInterval;

/// Interval by interval; empty where nobody looked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instruments {
    /// The block devices.
    pub io: Vec<IoInterval>,
    /// The network interfaces.
    pub nic: Vec<NicInterval>,
    /// The locks of the kernel, by caller.
    pub locks: Vec<LockInterval>,
    /// The locks of programs.
    pub ulocks: Vec<UserLockInterval>,
    /// Instruments that were asked for and could not be had, by name.
    pub missing: BTreeMap<String, Missing>,
}

impl Instruments {
    /// Whether nothing was seen and nothing was asked for.
    pub fn is_empty(&self) -> bool {
        let Self { io, nic, locks, ulocks, missing } = self;
        io.is_empty() && nic.is_empty() && locks.is_empty() && ulocks.is_empty() && missing.is_empty()
    }
}
