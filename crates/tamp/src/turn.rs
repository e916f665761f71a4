//! Workers that finish in any order take their turn in order.

use crate::placer::Stopped;
use std::sync::{Condvar, Mutex, PoisonError};

/// What is passed on from turn to turn, and whose turn it is.
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

    /// Waits for turn `number`, uses the baton, passes it on.
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

    /// No turn comes any more.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.passed.notify_all();
    }
}
