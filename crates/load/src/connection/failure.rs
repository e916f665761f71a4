//! A try that failed, and what can be done about it.

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// In the server's words, and where it is a configuration, what to do.
    pub(crate) text: String,
    /// Whether a class that may pass is a reason to try again: false where the server may have done already
    /// what must not be done twice.
    pub(crate) may_repeat: bool,
    /// Number of the outcome, of those of [`crate::driver::Driver::outcomes`], where an answer came that has
    /// one.
    pub(crate) outcome: Option<usize>,
    /// Number of the operation that was timed out, of those of [`crate::driver::Driver::operations`].
    pub(crate) operation: Option<usize>,
}

/// Remedy for a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// Try again.
    Transient,
    /// Connect again, then try again.
    Connection,
    /// Ask on another connection: the server has not begun it, and begins nothing more on this one. Neither
    /// an error nor a retry.
    Unprocessed,
    /// Nothing: this event has failed.
    Application,
    /// Nothing: the answer was wrong.
    Verify,
    /// Nothing: the event was given up after its time-out. Its connection is not used again, because the
    /// answer may still come.
    Timeout,
    /// The user must change something.
    Configuration,
    /// A resource of this machine is missing.
    Machine,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), may_repeat: true, outcome: None, operation: None }
    }
}
