//! How an event that ended well ended.

/// The end of an event that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of the operation that it was.
    pub(crate) operation: usize,
    /// Number of the outcome.
    pub(crate) outcome: Option<usize>,
    /// Hits and misses, if it has several keys; then there is no other outcome.
    pub(crate) keys: Option<Keys>,
}

/// Keys of one event, by the first two of its target's outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) found: u64,
    pub(crate) missed: u64,
}
