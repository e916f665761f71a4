//! Missing is not zero: a missing value has a reason.

use std::fmt;

/// Reason for a missing value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Missing {
    /// Clause that follows "missing:", lower case, no full stop: `the kernel has no BTF`.
    pub reason: String,
}

/// A value, or the reason why it is missing.
pub type Maybe<T> = Result<T, Missing>;

impl Missing {
    /// Missing value with its reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Missing {}
