//! An entry of the queue, and the changes of its state that a user may ask for.

use record::run::RunId;

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueState {
    /// Waits for its turn.
    Waiting,
    /// Has begun; its process may be gone, and is then started again.
    Running,
    /// Stopped by a user; continues on request.
    Paused,
    /// Every trial has its end.
    Done,
    /// Cannot be conducted.
    Failed,
    /// Stopped by a user for good.
    Cancelled,
}

impl QueueState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Paused, Self::Done, Self::Failed, Self::Cancelled];

    /// Word in files and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// State of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether the entry never runs again.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Request for a running entry, which its process has not fulfilled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Measure the current trial, in slices the block, to its end, then stop.
    Pause,
    /// Stop at once, for good.
    Cancel,
}

impl Wish {
    /// Word in files and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Cancel => "cancel",
        }
    }

    /// Wish of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Pause, Self::Cancel].into_iter().find(|wish| wish.word() == word)
    }
}

/// Request of a user, or of the queue itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Start it.
    Begin,
    /// Stop it, to continue later.
    Pause,
    /// Continue it.
    Resume,
    /// Stop it for good.
    Cancel,
    /// Change its place among those that wait.
    Prioritize,
}

impl Action {
    /// Word in requests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Prioritize => "prioritize",
        }
    }
}

/// An action that the state of the entry does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} an entry that is {}", action.word(), state.word())]
pub struct Refusal {
    /// The action.
    pub action: Action,
    /// State of the entry.
    pub state: QueueState,
}

/// An entry of the queue, without its plan's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Permanent id.
    pub id: RunId,
    /// Checksum of the plan.
    pub plan_sha256: String,
    /// Title of the plan.
    pub title: String,
    /// Submitter.
    pub by: String,
    /// Higher runs earlier.
    pub priority: i32,
    /// Earliest start.
    pub not_before_unix_ns: Option<u64>,
    /// State.
    pub state: QueueState,
    /// Request that its process has not fulfilled yet.
    pub wish: Option<Wish>,
    /// Bake-off of the entry, from its first beginning on.
    pub run: Option<RunId>,
    /// Least duration according to the plan.
    pub estimate_s: f64,
    /// Time of submission.
    pub submitted_unix_ns: u64,
    /// Time of the first beginning.
    pub started_unix_ns: Option<u64>,
    /// Time of the end.
    pub ended_unix_ns: Option<u64>,
    /// Exit code of its last process; `None` if it is not known.
    pub exit_code: Option<i32>,
    /// Reason of a state that the user did not ask for.
    pub reason: Option<String>,
}

/// Processes of an entry that were started one after the other and did not end in order. A process that lives
/// counts, since its server may not see its end. One that ends a trial begins a new row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deaths {
    /// Processes in the row.
    pub in_a_row: u32,
    /// Trials that had ended before the last of them.
    pub ended: u32,
}

impl Deaths {
    /// Counts a process that is about to start.
    #[must_use]
    pub fn and_a_start(self) -> Self {
        Self { in_a_row: self.in_a_row + 1, ..self }
    }

    /// Counts the end of a process.
    ///
    /// - `ended`: trials of the bake-off that have ended so far.
    pub fn end(&mut self, was_killed: bool, ended: u32) {
        self.in_a_row = match was_killed {
            true if ended > self.ended => 1,
            // One that a user started was not counted before.
            true => self.in_a_row.max(1),
            false => 0,
        };
        self.ended = ended;
    }
}

/// State and wish after an action.
///
/// # Errors
///
/// [`Refusal`] if the state does not allow it.
pub(crate) fn change(
    state: QueueState,
    wish: Option<Wish>,
    action: Action,
) -> Result<(QueueState, Option<Wish>), Refusal> {
    match (action, state) {
        (Action::Pause, QueueState::Waiting) => Ok((QueueState::Paused, None)),
        // A wish to cancel is not taken back: its process may have got the signal.
        (Action::Pause, QueueState::Running) if wish == Some(Wish::Cancel) => Err(Refusal { action, state }),
        (Action::Pause, QueueState::Running) => Ok((state, Some(Wish::Pause))),
        (Action::Resume, QueueState::Paused) => Ok((QueueState::Waiting, None)),
        // A wish to pause is taken back: if its process ends all the same, another one continues.
        (Action::Resume, QueueState::Running) if wish == Some(Wish::Pause) => Ok((state, None)),
        (Action::Cancel, QueueState::Waiting | QueueState::Paused) => Ok((QueueState::Cancelled, None)),
        (Action::Cancel, QueueState::Running) => Ok((state, Some(Wish::Cancel))),
        _ => Err(Refusal { action, state }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_ended_stays_as_it_is() {
        for state in QueueState::ALL.into_iter().filter(|state| state.is_end()) {
            for action in [Action::Begin, Action::Pause, Action::Resume, Action::Cancel, Action::Prioritize] {
                assert_eq!(change(state, None, action), Err(Refusal { action, state }));
            }
        }
    }

    #[test]
    fn a_running_entry_changes_its_state_only_through_its_process() {
        let running = QueueState::Running;
        assert_eq!(change(running, None, Action::Pause), Ok((running, Some(Wish::Pause))));
        assert_eq!(change(running, Some(Wish::Pause), Action::Cancel), Ok((running, Some(Wish::Cancel))));
        assert!(change(running, Some(Wish::Cancel), Action::Pause).is_err());
        assert!(change(running, None, Action::Resume).is_err());
        assert_eq!(change(running, Some(Wish::Pause), Action::Resume), Ok((running, None)));
        assert!(change(running, Some(Wish::Cancel), Action::Resume).is_err());
    }

    #[test]
    fn every_word_reads_back() {
        for state in QueueState::ALL {
            assert_eq!(QueueState::from_word(state.word()), Some(state));
        }
        assert_eq!(
            Wish::from_word("pause").zip(Wish::from_word("cancel")),
            Some((Wish::Pause, Wish::Cancel))
        );
    }

    #[test]
    fn only_kills_without_a_trial_in_between_are_in_a_row() {
        let mut deaths = Deaths::default();
        let mut rows = |ends: &[(bool, u32)]| {
            ends.iter()
                .map(|(was_killed, ended)| {
                    deaths = deaths.and_a_start();
                    deaths.end(*was_killed, *ended);
                    deaths.in_a_row
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(&[(true, 0), (true, 0), (true, 1), (true, 1)]), [1, 2, 1, 2]);
        assert_eq!(
            rows(&[(false, 1), (true, 1), (true, 2), (true, 3)]),
            [0, 1, 1, 1],
            "an end in order is no kill"
        );
        let mut of_a_user = Deaths::default();
        of_a_user.end(true, 0);
        assert_eq!(of_a_user.in_a_row, 1, "no server has started it");
    }
}
