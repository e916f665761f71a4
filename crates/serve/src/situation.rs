//! The next step for an entry of the queue, from its bake-off on disk and the end of its last process. Pure,
//! but for the reading of the bake-off.

use archive::{Archive, ArchiveError, QueueState, Standing, Wish};
use record::bakeoff::TrialState;
use record::run::{RunId, RunState};

/// Processes of one entry that may be killed in a row, without an end of the bake-off.
const DEATHS_MAX: u32 = 3;
/// Exit code of a process that its user stopped.
pub(crate) const INTERRUPTED: i32 = 130;
/// Exit code of a process that could not do its work here.
const CANNOT_HERE: i32 = 6;

/// State of a bake-off on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Situation {
    /// The archive does not have it.
    NotBegun,
    /// A living process conducts it.
    Held {
        /// Process id, according to the journal.
        pid: Option<u32>,
    },
    /// A process left it before its end.
    Left {
        /// Whether the process did so in order.
        in_order: bool,
    },
    /// Every trial has its end.
    Over,
}

/// Command of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `bakeoff run`.
    Run,
    /// `bakeoff resume`.
    Resume,
}

/// End of the last process of the entry that this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// None yet.
    Nothing,
    /// A process of an earlier server, or of a user.
    Watched,
    /// A process that this server started.
    Own {
        verb: Verb,
        /// `None` if a signal killed it.
        code: Option<i32>,
    },
}

impl Last {
    /// Exit code of the process, if it is known.
    pub(crate) fn code(self) -> Option<i32> {
        if let Self::Own { code, .. } = self { code } else { None }
    }
}

/// Next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Start a process.
    Start(Verb),
    /// Wait for the process that has it.
    Watch(Option<u32>),
    /// Leave the entry to the next server.
    Leave,
    /// Record its end, or its pause.
    End(QueueState, Why),
}

/// Reason of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A user asked for it, or it is done.
    Wanted,
    /// Something else stopped its process: a signal, or the plan's budget of time.
    Stopped,
    /// The process ended with an error, which its output describes.
    Error,
    /// The process was killed too often.
    Killed,
}

/// Reads the state of a bake-off.
pub(crate) fn situation(archive: &Archive, run: RunId) -> Result<Situation, ArchiveError> {
    if !archive.is_bakeoff(run) {
        return Ok(Situation::NotBegun);
    }
    let standing = archive.standing(run)?;
    Ok(match standing.header.state {
        _ if standing.is_held => Situation::Held { pid: standing.pid },
        _ if standing.is_over() => Situation::Over,
        state => Situation::Left { in_order: state == RunState::Interrupted },
    })
}

/// Trials of a bake-off that have ended; 0 if it cannot be read.
pub(crate) fn ended_trials(archive: &Archive, run: RunId) -> u32 {
    let of = |standing: Standing| -> usize {
        [TrialState::Sealed, TrialState::Invalid, TrialState::Failed].map(|s| standing.count(s)).iter().sum()
    };
    archive.standing(run).map_or(0, |standing| u32::try_from(of(standing)).unwrap_or(u32::MAX))
}

/// The next step.
///
/// - `is_leaving`: whether this server ends.
/// - `deaths`: processes of this entry that were killed in a row.
pub(crate) fn next(
    situation: Situation,
    wish: Option<Wish>,
    last: Last,
    is_leaving: bool,
    deaths: u32,
) -> Next {
    let verb = match situation {
        Situation::Over => return over(wish, last, is_leaving, deaths),
        Situation::Held { pid } => return Next::Watch(pid),
        Situation::NotBegun => Verb::Run,
        Situation::Left { .. } => Verb::Resume,
    };
    match wish {
        Some(Wish::Cancel) => return Next::End(QueueState::Cancelled, Why::Wanted),
        Some(Wish::Pause) => return Next::End(QueueState::Paused, Why::Wanted),
        None if is_leaving => return Next::Leave,
        None => {}
    }
    let is_left_in_order = situation == Situation::Left { in_order: true };
    match last {
        Last::Watched if is_left_in_order => Next::End(QueueState::Paused, Why::Stopped),
        Last::Own { code: Some(INTERRUPTED), .. } => Next::End(QueueState::Paused, Why::Stopped),
        // A process of an earlier server began it in between.
        Last::Own { verb: Verb::Run, code: Some(CANNOT_HERE) } if verb == Verb::Resume => Next::Start(verb),
        Last::Own { code: Some(_), .. } => Next::End(QueueState::Failed, Why::Error),
        // A machine that goes down takes its server with it: the next one knows only the number.
        Last::Nothing | Last::Watched | Last::Own { code: None, .. } if deaths >= DEATHS_MAX => {
            Next::End(QueueState::Failed, Why::Killed)
        }
        Last::Nothing | Last::Watched | Last::Own { code: None, .. } => Next::Start(verb),
    }
}

/// The next step if every trial has its end. The exit code has the verdict of the gates: if the process that
/// measured the last trial was not ours, or was killed, another one reads the verdict; it measures nothing.
fn over(wish: Option<Wish>, last: Last, is_leaving: bool, deaths: u32) -> Next {
    let is_known = match last {
        // It came too late: another process measured.
        Last::Own { verb: Verb::Run, code } => code.is_some_and(|code| code != CANNOT_HERE),
        Last::Own { verb: Verb::Resume, code } => code.is_some(),
        Last::Nothing | Last::Watched => false,
    };
    match (is_known, is_leaving) {
        (false, true) => Next::Leave,
        // A pause does not stop a process that measures nothing.
        (false, false) if wish != Some(Wish::Cancel) && deaths < DEATHS_MAX => Next::Start(Verb::Resume),
        _ => Next::End(QueueState::Done, Why::Wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Situation = Situation::Left { in_order: false };
    const STOPPED: Situation = Situation::Left { in_order: true };

    fn own(verb: Verb, code: Option<i32>) -> Last {
        Last::Own { verb, code }
    }

    #[test]
    fn a_new_server_begins_or_resumes_or_waits_and_never_does_two() {
        let of = |situation| next(situation, None, Last::Nothing, false, 0);
        assert_eq!(of(Situation::NotBegun), Next::Start(Verb::Run));
        assert_eq!(of(LEFT), Next::Start(Verb::Resume));
        assert_eq!(
            of(STOPPED),
            Next::Start(Verb::Resume),
            "the server that stopped it wanted to go on later"
        );
        assert_eq!(of(Situation::Held { pid: Some(7) }), Next::Watch(Some(7)));
    }

    #[test]
    fn what_is_over_is_done_with_its_exit_code_whatever_was_wished() {
        let done = Next::End(QueueState::Done, Why::Wanted);
        let of = |wish, last, is_leaving, deaths| next(Situation::Over, wish, last, is_leaving, deaths);
        for last in [own(Verb::Run, Some(1)), own(Verb::Resume, Some(5)), own(Verb::Resume, Some(6))] {
            for wish in [None, Some(Wish::Pause), Some(Wish::Cancel)] {
                assert_eq!([of(wish, last, true, 9), of(wish, last, false, 0)], [done, done], "{last:?}");
            }
        }
        // The end of the gates is not known: a process reads it from the archive.
        for last in [Last::Nothing, Last::Watched, own(Verb::Run, None), own(Verb::Run, Some(6))] {
            for wish in [None, Some(Wish::Pause)] {
                assert_eq!(of(wish, last, false, 0), Next::Start(Verb::Resume), "{last:?} {wish:?}");
                assert_eq!(of(wish, last, true, 0), Next::Leave, "{last:?} {wish:?}");
                assert_eq!(of(wish, last, false, 3), done, "a process that dies of it is not tried for ever");
            }
            assert_eq!(of(Some(Wish::Cancel), last, false, 0), done);
        }
    }

    #[test]
    fn a_wish_is_fulfilled_before_anything_is_started() {
        for situation in [Situation::NotBegun, LEFT, STOPPED] {
            for last in [Last::Nothing, own(Verb::Run, Some(130)), own(Verb::Run, None), Last::Watched] {
                let of = |wish| next(situation, Some(wish), last, false, 0);
                assert_eq!(of(Wish::Cancel), Next::End(QueueState::Cancelled, Why::Wanted));
                assert_eq!(of(Wish::Pause), Next::End(QueueState::Paused, Why::Wanted));
            }
        }
    }

    #[test]
    fn an_error_ends_the_entry_and_a_kill_repeats_it_a_few_times() {
        assert_eq!(
            next(LEFT, None, own(Verb::Resume, Some(5)), false, 0),
            Next::End(QueueState::Failed, Why::Error)
        );
        assert_eq!(
            next(Situation::NotBegun, None, own(Verb::Run, Some(6)), false, 0),
            Next::End(QueueState::Failed, Why::Error)
        );
        assert_eq!(next(LEFT, None, own(Verb::Run, None), false, 2), Next::Start(Verb::Resume));
        assert_eq!(
            next(LEFT, None, own(Verb::Run, None), false, 3),
            Next::End(QueueState::Failed, Why::Killed)
        );
        assert_eq!(next(LEFT, None, Last::Nothing, false, 2), Next::Start(Verb::Resume));
        assert_eq!(
            next(LEFT, None, Last::Nothing, false, 3),
            Next::End(QueueState::Failed, Why::Killed),
            "the machine went down three times"
        );
        assert_eq!(next(STOPPED, None, own(Verb::Run, Some(130)), true, 0), Next::Leave);
        assert_eq!(
            next(STOPPED, None, own(Verb::Run, Some(130)), false, 0),
            Next::End(QueueState::Paused, Why::Stopped)
        );
    }

    #[test]
    fn a_process_that_came_too_late_is_not_an_error() {
        let late = own(Verb::Run, Some(6));
        assert_eq!(next(Situation::Held { pid: Some(7) }, None, late, false, 0), Next::Watch(Some(7)));
        assert_eq!(next(LEFT, None, late, false, 0), Next::Start(Verb::Resume));
    }
}
