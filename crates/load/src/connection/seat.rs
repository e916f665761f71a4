//! The number of the worker that runs on this thread.

use std::cell::Cell;

thread_local! {
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// Sets the number of this thread's worker.
pub(crate) fn take(worker: usize) {
    WORKER.set(worker);
}

/// The number of this thread's worker; 0 on a thread without a worker.
#[cfg_attr(not(feature = "lua"), expect(dead_code, reason = "only scripts in Lua know their worker"))]
pub(crate) fn worker() -> usize {
    WORKER.get()
}
