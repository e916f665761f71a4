//! An event that was taken from the schedule.

/// An event that a worker has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// What its chance follows from.
    pub(crate) chance: u64,
    /// When it is due; in a closed loop, when it was taken.
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// Number of the row that says so.
    pub(crate) version: usize,
}
