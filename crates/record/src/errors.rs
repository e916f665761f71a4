//! Tries that failed, counted.

/// Tries that failed, by what a caller can do about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// May pass when tried again: deadlock, lock wait, serialization.
    pub transient: u64,
    /// The connection broke or could not be made.
    pub connection: u64,
    /// The server refused the statement, or the command failed.
    pub application: u64,
    /// The answer was wrong.
    pub verify: u64,
    /// No whole answer came within the time-out. The response and the service time of the event are known from below.
    pub timeout: u64,
}

impl ErrorCounts {
    /// Of all classes.
    pub fn all(&self) -> u64 {
        self.transient + self.connection + self.application + self.verify + self.timeout
    }
}
