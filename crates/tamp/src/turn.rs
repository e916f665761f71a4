//! Workers that finish in any order take turns in order.

use crate::placer::Stopped;
use std::sync::{Condvar, Mutex, PoisonError};

/// The shared value, and the number of the next turn.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    state: Mutex<State<T>>,
    passed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    next: u64,
    stopped: bool,
    baton: T,
}

impl<T> Turn<T> {
    pub(crate) fn new(baton: T) -> Self {
        Self { state: Mutex::new(State { next: 0, stopped: false, baton }), passed: Condvar::new() }
    }

    /// Waits for turn `number`, calls `use_it`, starts the next turn.
    pub(crate) fn take<R>(&self, number: u64, use_it: impl FnOnce(&mut T) -> R) -> Result<R, Stopped> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .passed
            .wait_while(state, |state| state.next != number && !state.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Err(Stopped);
        }
        let result = use_it(&mut state.baton);
        state.next += 1;
        drop(state);
        self.passed.notify_all();
        Ok(result)
    }

    /// Ends all turns and wakes the waiting workers.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.passed.notify_all();
    }
}
