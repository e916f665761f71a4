//! A start that others decide: a load that is connected waits at the line for the time to begin.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::control::stop::Stop;

/// Interval at which a waiting load checks for a stop.
const POLL: Duration = Duration::from_millis(20);

/// The line at which a connected load waits for its start.
#[derive(Debug, Clone, Default)]
pub struct StartLine(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    is_ready: bool,
    at_ns: Option<u64>,
    first: Option<FirstStart>,
}

/// The first event of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstStart {
    /// Due time of the first event on `CLOCK_MONOTONIC`; in a closed loop the time at which it was taken.
    pub due_ns: u64,
    /// Earliest actual start of an event.
    pub start_ns: u64,
}

impl StartLine {
    /// Whether the load is connected and its schedule laid out.
    pub fn is_ready(&self) -> bool {
        self.lock().is_ready
    }

    /// Lets the load begin at `at_ns` on `CLOCK_MONOTONIC`.
    pub fn go(&self, at_ns: u64) {
        self.lock().at_ns = Some(at_ns);
        self.0.1.notify_all();
    }

    /// The first event, once the load has ended.
    pub fn first(&self) -> Option<FirstStart> {
        self.lock().first
    }

    /// Waits for the start on `CLOCK_MONOTONIC`; `None` if a stop comes first.
    pub fn wait(&self, stop: &Stop) -> Option<u64> {
        let mut state = self.lock();
        state.is_ready = true;
        while state.at_ns.is_none() {
            if stop.is_requested() {
                return None;
            }
            state = self.0.1.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.at_ns
    }

    pub(crate) fn note_first(&self, first: Option<FirstStart>) {
        self.lock().first = first;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
