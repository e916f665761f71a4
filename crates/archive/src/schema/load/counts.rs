//! Outcomes of events, as stored in the manifest.

use record::load::Counts;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EventCounts {
    planned: u64,
    done: u64,
    failed: u64,
    skipped: u64,
    unfinished: u64,
    retries: u64,
}

impl EventCounts {
    pub(super) fn of(counts: Counts) -> Self {
        let Counts { planned, done, failed, skipped, unfinished, retries } = counts;
        Self { planned, done, failed, skipped, unfinished, retries }
    }
}

impl From<EventCounts> for Counts {
    fn from(form: EventCounts) -> Self {
        let EventCounts { planned, done, failed, skipped, unfinished, retries } = form;
        Self { planned, done, failed, skipped, unfinished, retries }
    }
}
