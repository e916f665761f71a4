//! Counts of failed tries.

/// Failed tries by what a caller can do about them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Transient, a retry may succeed: deadlock, lock wait, serialization.
    pub transient: u64,
    /// The connection broke or could not be opened.
    pub connection: u64,
    /// The server refused the statement, or the command failed.
    pub application: u64,
    /// The response was wrong.
    pub verify: u64,
    /// Timeout before the complete response arrived. Response and service time of the event are lower bounds.
    pub timeout: u64,
}

impl ErrorCounts {
    /// Sum over all classes.
    pub fn all(&self) -> u64 {
        self.transient + self.connection + self.application + self.verify + self.timeout
    }
}
