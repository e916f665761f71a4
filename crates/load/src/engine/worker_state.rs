//! What one worker's thread shows the conductor.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::connection::Cut;
use crate::measure::client::Scheduled;

/// What one worker's thread shows the conductor.
#[derive(Default)]
pub(crate) struct WorkerState {
    /// Own schedule: this worker's next slot.
    pub(super) next_own: AtomicU64,
    /// Its thread.
    pub(crate) thread_id: AtomicI32,
    /// The kernel's account of its thread when it ended.
    pub(crate) scheduled: OnceLock<Option<Scheduled>>,
    /// How its connection is cut.
    pub(crate) cut: Cut,
}

impl WorkerState {
    /// Its thread, and the kernel's account of the thread when it ended.
    pub(crate) fn thread(&self) -> (i32, &OnceLock<Option<Scheduled>>) {
        (self.thread_id.load(Ordering::SeqCst), &self.scheduled)
    }
}
