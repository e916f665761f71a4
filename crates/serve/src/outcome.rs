//! State of an entry of the queue with its verdict: an entry that is done may be INVALID.

use archive::{Entry, QueueState, Wish};

/// Word and tone of an entry: green only if its verdict is known and good.
pub(crate) fn outcome(entry: &Entry) -> (&'static str, &'static str) {
    match (entry.state, entry.wish, entry.exit_code) {
        (_, Some(Wish::Pause), _) => ("running, stops after this trial or block", "doubt"),
        (_, Some(Wish::Cancel), _) => ("running, being cancelled", "doubt"),
        (QueueState::Done, _, Some(0)) => ("done", "good"),
        (QueueState::Done, _, Some(1)) => ("done, a gate failed", "bad"),
        (QueueState::Done, _, Some(3)) => ("done, INVALID", "bad"),
        (QueueState::Done, _, Some(4)) => ("done, inconclusive", "doubt"),
        (QueueState::Done, _, Some(5)) => ("done, the server failed", "bad"),
        // The process that read the verdict was killed, or could not write it.
        (QueueState::Done, ..) => ("done, no verdict", "doubt"),
        (QueueState::Failed, ..) => (QueueState::Failed.word(), "bad"),
        (QueueState::Running, ..) => (QueueState::Running.word(), "doubt"),
        (state, ..) => (state.word(), "even"),
    }
}
