//! Runs and bake-offs that this process added to archives, or continued.
//!
//! A command that shares its results afterwards must not share those of other processes, which may finish in
//! the same archive meanwhile.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use record::run::RunId;

static WRITTEN: Mutex<BTreeSet<RunId>> = Mutex::new(BTreeSet::new());

/// Remembers a run or bake-off.
pub(crate) fn note(id: RunId) {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
}

/// Runs and bake-offs that this process wrote, in any archive.
pub fn written_here() -> BTreeSet<RunId> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
