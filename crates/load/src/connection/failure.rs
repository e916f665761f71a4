//! Failed attempts, with their class and remedy.

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// The server's message; for an error of the configuration, with advice.
    pub(crate) text: String,
    /// Whether a transient failure may be retried: false if the server may have executed a request that is
    /// not idempotent.
    pub(crate) may_repeat: bool,
    /// Index into [`crate::driver::Driver::outcomes`], if an answer with an outcome arrived.
    pub(crate) outcome: Option<usize>,
    /// Index into [`crate::driver::Driver::operations`] of the operation that timed out.
    pub(crate) operation: Option<usize>,
}

/// Class of a failed attempt, by its remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// Retry.
    Transient,
    /// Reconnect, then retry.
    Connection,
    /// Send the request on another connection: the server has not started it, and starts nothing more on this
    /// one. Counts neither as an error nor as a retry.
    Unprocessed,
    /// None: this event has failed.
    Application,
    /// None: the answer was wrong.
    Verify,
    /// None: the event exceeded its time limit. Its connection is not used again, because the answer may
    /// still arrive.
    Timeout,
    /// The user must change the configuration.
    Configuration,
    /// A resource of this machine is exhausted.
    Machine,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), may_repeat: true, outcome: None, operation: None }
    }
}
