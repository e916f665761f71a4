//! The state of one worker's thread that the conductor reads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::connection::Cut;
use crate::measure::client::Scheduled;

/// The state of one worker's thread that the conductor reads.
#[derive(Default)]
pub(crate) struct WorkerState {
    /// Own schedule: this worker's next slot.
    pub(super) next_own: AtomicU64,
    /// Kernel id of the worker's thread.
    pub(crate) thread_id: AtomicI32,
    /// The kernel's account of the thread at its end.
    pub(crate) scheduled: OnceLock<Option<Scheduled>>,
    /// Cuts the worker's connection.
    pub(crate) cut: Cut,
}

impl WorkerState {
    /// The thread's id, and the kernel's account of the thread at its end.
    pub(crate) fn thread(&self) -> (i32, &OnceLock<Option<Scheduled>>) {
        (self.thread_id.load(Ordering::SeqCst), &self.scheduled)
    }
}
