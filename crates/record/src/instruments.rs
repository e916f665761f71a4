//! What the instruments beside the CPU's saw of a run.

use std::collections::BTreeMap;

use crate::block_io::IoInterval;
use crate::missing::Missing;
use crate::nic::NicInterval;

/// Interval by interval; empty where nobody looked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instruments {
    /// The block devices.
    pub io: Vec<IoInterval>,
    /// The network interfaces.
    pub nic: Vec<NicInterval>,
    /// Instruments that were asked for and could not be had, by name.
    pub missing: BTreeMap<String, Missing>,
}

impl Instruments {
    /// Whether nothing was seen and nothing was asked for.
    pub fn is_empty(&self) -> bool {
        let Self { io, nic, missing } = self;
        io.is_empty() && nic.is_empty() && missing.is_empty()
    }
}
