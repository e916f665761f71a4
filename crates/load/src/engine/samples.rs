//! The first message of each class of error, as the server worded it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::connection::FailureClass;

/// The first message of each class of error.
#[derive(Debug, Default)]
pub(crate) struct ErrorSamples {
    /// Whether a class has a message. A failed try reads this without the lock.
    has: [AtomicBool; 5],
    texts: Mutex<[Option<String>; 5]>,
}

impl ErrorSamples {
    /// Stores the message if it is the first of its class.
    pub(crate) fn note<'a>(&self, class: FailureClass, text: impl FnOnce() -> Cow<'a, str>) {
        let has = &self.has[class.index()];
        if has.load(Ordering::Relaxed) {
            return;
        }
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts[class.index()].get_or_insert_with(|| format!("{}: {}", class.word(), text()));
        has.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect()
    }
}

impl FailureClass {
    /// The class under which a failed try is counted.
    fn index(self) -> usize {
        match self {
            Self::Transient => 0,
            Self::Connection | Self::Unprocessed => 1,
            Self::Application | Self::Configuration | Self::Machine => 2,
            Self::Verify => 3,
            Self::Timeout => 4,
        }
    }

    fn word(self) -> &'static str {
        ["transient", "connection", "application", "verify", "timeout"][self.index()]
    }
}
