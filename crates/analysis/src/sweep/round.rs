//! One round of a sweep.

use std::collections::BTreeMap;

/// Measurements of one round of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// Seconds since the first round began, size, time of a call.
    pub(super) points: Vec<(f64, u64, f64)>,
    pub(super) references: Vec<(f64, f64)>,
    /// Probe values by name: end of the window, and the value.
    pub(super) windows: BTreeMap<String, Vec<(f64, f64)>>,
}
