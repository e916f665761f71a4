//! Reasons that readers see: clients with the role `read`, and the receiver of the webhook.
//!
//! A reason of an error is a line of a process's output, or has paths of this server. Both belong to clients
//! that may run plans. Others get fixed texts.

use archive::{Entry, QueueState};

/// Reason of a pause that no user asked for.
pub(crate) const STOPPED: &str = "its process was stopped by a signal, or by the plan's time budget";
/// Reason of the failure of an entry with too many kills in a row.
pub(crate) const KILLED: &str = "its process was killed three times";
/// Beginning of the reason of an entry with an unreadable bake-off; the error follows it.
pub(crate) const UNREAD: &str = "its bake-off cannot be read";
/// Trouble with a process that has no handler for the request to end after its trial.
pub(crate) const UNHEARD: &str = "the process of an older bakeoff cannot stop after a trial: it goes on to the end of its bake-off, \
                                  unless its entry is cancelled";
/// Reason that the entries of a queue are not listed; the trouble has the error.
pub(crate) const UNLISTED: &str = "the queue cannot be read";
/// Trouble, for readers.
const TROUBLE: &str = "a file of the archive cannot be read or written; the role `run` sees which";
/// Reason of an entry with another text, for readers.
const WITHHELD: &str = "the role `run` sees the reason";

/// Reason of an entry's state.
pub(crate) fn of_entry(entry: &Entry, may_run: bool) -> Option<String> {
    let reason = entry.reason.as_deref()?;
    if may_run {
        return Some(reason.to_owned());
    }
    if let (QueueState::Failed, Some(code)) = (entry.state, entry.exit_code)
        && !reason.starts_with(UNREAD)
    {
        return Some(format!("its process ended with code {code}"));
    }
    let fixed = [STOPPED, KILLED, UNREAD].into_iter().find(|fixed| reason.starts_with(fixed));
    Some(fixed.unwrap_or(WITHHELD).to_owned())
}

/// Error that keeps a queue from going on.
pub(crate) fn of_trouble(trouble: Option<&str>, may_run: bool) -> Option<&str> {
    trouble.map(|text| if may_run || text == UNHEARD { text } else { TROUBLE })
}
