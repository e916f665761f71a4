//! Missing is not zero: a value that we lack says why.

use std::fmt;

/// Why a value is not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Missing {
    /// A clause that reads after "missing:", lower case, no full stop: `the kernel has no BTF`.
    pub reason: String,
}

/// A value, or the reason why there is none.
pub type Maybe<T> = Result<T, Missing>;

impl Missing {
    /// A missing value with its reason.
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
