//! An event that was taken from the schedule.

/// An event that a worker has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Number of its random stream.
    pub(crate) chance: u64,
    /// Due time; in a closed loop, the time at which it was taken.
    pub(crate) due_ns: u64,
    pub(crate) is_measured: bool,
    /// Number of the row that `due_ns` comes from.
    pub(crate) version: usize,
}
