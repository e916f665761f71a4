//! Result of a successful event.

/// Result of a successful event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Index of the operation.
    pub(crate) operation: usize,
    /// Index of the outcome.
    pub(crate) outcome: Option<usize>,
    /// Hits and misses of an event with several keys; such an event has no other outcome.
    pub(crate) keys: Option<Keys>,
}

/// Keys of one event, by the first two of its target's outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) found: u64,
    pub(crate) missed: u64,
}
