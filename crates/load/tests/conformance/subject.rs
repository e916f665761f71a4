//! The server of a driver under test, and what can be done to it.

use record::load::LoadSettings;

/// A server, a command, or nothing.
pub(crate) trait Subject: Send + Sync {
    /// A load on it of 4 workers and 200 events a second, as short and as light as its driver can do.
    fn settings(&self) -> LoadSettings;

    /// Events that have reached it so far, by its own account; `None` if it keeps none.
    fn served(&self) -> Option<u64>;

    /// Stops it from answering, without closing connections; false if that is impossible.
    fn freeze(&self) -> bool {
        false
    }

    /// Reverts [`Self::freeze`].
    fn thaw(&self) {}

    /// Whether it can be killed and restarted.
    fn can_crash(&self) -> bool {
        false
    }

    /// Kills it as a crash would.
    fn crash(&mut self) {}

    /// Restarts it after a crash, and waits until it answers.
    fn restart(&mut self) {}

    /// A load with events that fail transiently while a [`Self::hindrance`] lives.
    fn hindered(&self) -> Option<LoadSettings> {
        None
    }

    /// Blocks that load.
    fn hindrance(&self) -> Hindrance {
        Hindrance(None)
    }

    /// A load with a known number of wrong answers: as many must be found.
    fn wrong_answers(&self) -> Option<LoadSettings> {
        None
    }
}

/// An obstacle to a load; dropping it removes it.
pub(crate) struct Hindrance(pub(crate) Option<Box<dyn FnOnce() + Send>>);

impl Drop for Hindrance {
    fn drop(&mut self) {
        if let Some(clear) = self.0.take() {
            clear();
        }
    }
}
