//! One worker's state: its events, and its connections after an outage.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::connection::{Attempt, Connection, Cut, Failure, FailureClass, Idle, seat};
use crate::lua::context::Context;
use crate::lua::program::{Failed, Program};
use crate::lua::state::{Ended, ScriptError, Seat, State};

thread_local! {
    /// The state of a worker of which a connection was lost: the thread continues with it.
    static RESTING: Cell<Option<Resting>> = const { Cell::new(None) };
}

/// A state between two connections.
struct Resting {
    state: State,
    /// Whether the program counts the thread as one with something unsent.
    is_counted: bool,
}

/// A worker with its Lua state.
struct ScriptWorker {
    program: Arc<Program>,
    /// `None` only while it is dropped.
    state: Option<State>,
    thread: usize,
    is_over: bool,
    /// Whether the run was given up.
    is_cut: Arc<AtomicBool>,
}

/// Opens a worker's state, or continues with the one that has lost a connection.
pub(crate) fn open(program: &Arc<Program>, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
    let thread = seat::worker();
    let state = match RESTING.take() {
        Some(mut resting) => {
            if let Err(failure) = resume(program, &mut resting.state) {
                RESTING.set(Some(resting));
                return Err(failure);
            }
            if resting.is_counted {
                program.sends_again();
            }
            resting.state
        }
        None => begin(program, cut, thread)?,
    };
    let program = Arc::clone(program);
    Ok(Box::new(ScriptWorker { program, state: Some(state), thread, is_over: false, is_cut: cut.is_cut() }))
}

/// Reconnects, and tells the script that its event begins again. If a statement of the script fails
/// meanwhile, the next try has other connections.
fn resume(program: &Program, state: &mut State) -> Result<(), Failure> {
    state.calls.revive()?;
    state.restart().map_err(|error| {
        state.calls.lose();
        error.failure(program)
    })
}

fn begin(program: &Program, cut: &Cut, thread: usize) -> Result<State, Failure> {
    let seat = Seat { thread, ..Seat::default() };
    let cuts = Arc::clone(&seat.cuts);
    cut.arm(move || Context::cut_all(&cuts));
    let failure = |error: ScriptError| error.failure(program);
    let mut state = State::new(program, &seat).map_err(failure)?;
    if !state.defines("event").map_err(failure)? {
        let text = format!("{} has no function event()", program.name);
        return Err(failure(ScriptError::Options(text)));
    }
    state.call_global("thread_init", Some(thread)).map_err(failure)?;
    Ok(state)
}

impl Connection for ScriptWorker {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        let Self { program, state: Some(state), thread, is_over, .. } = self else { return Ok(()) };
        state.calls.context.counters.event_begins();
        state.calls.context.begin(&attempt.random, attempt.laps);
        let ended = state.run_event(*thread);
        state.calls.context.end();
        state.calls.context.counters.event_ends();
        // The end of the script is the end of the event, whatever its last statement was.
        attempt.laps.rested();
        let error = match ended {
            Ended::Well => return Ok(()),
            Ended::Stop => {
                program.thread_ends();
                *is_over = true;
                return Ok(());
            }
            Ended::Restart(text) => return Err(restart(program, state, text, is_over)),
            Ended::Failed(error) => error,
        };
        match error {
            ScriptError::Sql(failure) => {
                state.calls.roll_back();
                Err(failure)
            }
            ScriptError::Script(text) | ScriptError::Syntax(text) | ScriptError::Options(text) => {
                *is_over = true;
                program.fail(Failed { text: text.clone(), is_usage: false });
                Err(Failure::new(FailureClass::Application, text))
            }
        }
    }

    fn idle(&mut self, has_rested: bool) -> Idle {
        match &mut self.state {
            Some(state) if has_rested => state.calls.idle(),
            _ => Idle::Stands,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The failure of an event that begins again. The script knows now, unless its connection comes first.
fn restart(program: &Program, state: &mut State, text: String, is_over: &mut bool) -> Failure {
    if state.calls.has_lost() {
        return Failure::new(FailureClass::Connection, text);
    }
    state.calls.roll_back();
    match state.restart() {
        Ok(()) => Failure::new(FailureClass::Transient, text),
        Err(ScriptError::Sql(failure)) => {
            state.calls.roll_back();
            // The event must not begin again without what its hook does.
            match failure.class {
                FailureClass::Transient => Failure::new(FailureClass::Application, failure.text),
                _ => failure,
            }
        }
        Err(error) => {
            *is_over = true;
            let Failure { text, .. } = error.failure(program);
            Failure::new(FailureClass::Application, text)
        }
    }
}

impl Drop for ScriptWorker {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let is_cut = self.is_cut.load(Ordering::SeqCst);
        if state.calls.has_lost() && !is_cut {
            let is_counted = state.calls.has_rows();
            if is_counted {
                self.program.leaves_unsent();
            }
            RESTING.set(Some(Resting { state, is_counted }));
            return;
        }
        state.calls.context.counters.events_are_over();
        let ended = state.call_global("thread_done", Some(self.thread));
        // A failure is reported, such as that of the last rows of an INSERT. If the server is gone, the
        // record of the load stays, and says so.
        let text = match ended {
            Err(ScriptError::Sql(failure)) if failure.class == FailureClass::Connection => {
                if !is_cut {
                    self.program.leaves_unsent();
                }
                return;
            }
            Err(ScriptError::Sql(failure)) => failure.text,
            Err(ScriptError::Script(text)) => text,
            _ => return,
        };
        if !is_cut {
            self.program.fail(Failed { text, is_usage: false });
        }
    }
}
