//! The other side of a driver under test, and what can be done to it.

use record::load::LoadSettings;

/// A server, a command, or nothing.
pub(crate) trait Subject: Send + Sync {
    /// A load on it of 4 workers and 200 events a second, as short and as light as its driver can do.
    fn settings(&self) -> LoadSettings;

    /// Events that have reached it so far, by its own account; `None` where it keeps none.
    fn served(&self) -> Option<u64>;

    /// Stops it from answering, connections and all staying as they are; false where that cannot be done.
    fn freeze(&self) -> bool {
        false
    }

    /// Ends what [`Self::freeze`] began.
    fn thaw(&self) {}

    /// Whether it can be killed and started again.
    fn can_crash(&self) -> bool {
        false
    }

    /// Kills it as a crash would.
    fn crash(&mut self) {}

    /// Starts it again after a crash, and waits until it answers.
    fn restart(&mut self) {}

    /// A load whose events fail, in a way that passes, while a [`Self::hindrance`] lives.
    fn hindered(&self) -> Option<LoadSettings> {
        None
    }

    /// Gets in the way of that load.
    fn hindrance(&self) -> Hindrance {
        Hindrance(None)
    }

    /// A load some of whose answers are wrong, and known to be: as many as are wrong must be found.
    fn wrong_answers(&self) -> Option<LoadSettings> {
        None
    }
}

/// Something in the way of a load; dropping it clears the way.
pub(crate) struct Hindrance(pub(crate) Option<Box<dyn FnOnce() + Send>>);

impl Drop for Hindrance {
    fn drop(&mut self) {
        if let Some(clear) = self.0.take() {
            clear();
        }
    }
}
