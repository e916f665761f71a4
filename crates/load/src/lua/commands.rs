//! What is done with a script outside of a load's events: reading its declarations, its commands, the look at
//! its tables, and the state that reports.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::connection::{Cut, Failure, FailureClass};
use crate::error::LoadError;
use crate::lua::options::{Declared, usual};
use crate::lua::program::{Failed, Modules, Program};
use crate::lua::state::{Ended, NO_DRIVER, Report, ScriptError, Seat, State};

/// Declarations of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declarations {
    /// Options of the script, in the order of their names.
    pub options: Vec<Declared>,
    /// Options that every script has.
    pub usual: Vec<Declared>,
    /// Names of its commands.
    pub commands: Vec<String>,
    /// Paths of the modules that it loads.
    pub modules: Vec<String>,
}

/// Reads the declarations of a script: runs its body without a server, and discards what it prints.
///
/// - `command`: the command that the script is read for, such as `run`.
///
/// # Errors
///
/// The script is not Lua, or its body fails.
pub fn declarations(name: &str, text: &str, command: Option<&str>) -> Result<Declarations, LoadError> {
    declarations_with(name, text, command, Modules::OnDisk)
}

/// Variant of [`declarations`] with the modules that the script may load.
pub(crate) fn declarations_with(
    name: &str,
    text: &str,
    command: Option<&str>,
    modules: Modules,
) -> Result<Declarations, LoadError> {
    let program = Program::to_describe(name, text, command, modules);
    let read = || -> Result<Declarations, ScriptError> {
        let (state, outcome) = State::load(&program, &Seat::default())?;
        match outcome {
            // The options are declared before the body needs a server, as far as it has any.
            Err(ScriptError::Script(text)) if text.contains(NO_DRIVER) => {}
            outcome => outcome?,
        }
        let options = state.declared()?;
        let usual = usual().into_iter().filter(|u| !options.iter().any(|o| o.is_named(&u.name))).collect();
        Ok(Declarations { options, usual, commands: state.commands()?, modules: state.modules(text)? })
    };
    read().map_err(load_error)
}

/// The error of a script outside of a load.
fn load_error(error: ScriptError) -> LoadError {
    match error {
        ScriptError::Syntax(text) | ScriptError::Options(text) => LoadError::ScriptText { text },
        ScriptError::Sql(failure) => LoadError::Script { text: failure.text },
        ScriptError::Script(text) => LoadError::Script { text },
    }
}

/// Result of the look at a script's tables.
pub(crate) enum Looked {
    /// Nothing shows that anything is missing.
    Well,
    /// A table is missing.
    Misses,
}

/// Looks whether the tables of a script exist: initializes a thread, and has the server check the statements
/// of an event without executing them. The state is dropped without `thread_done`, which may write what the
/// event has collected.
pub(crate) fn look(program: &Program, cuts: &Arc<Mutex<Vec<Cut>>>) -> Result<Looked, Failure> {
    let failure = |error: ScriptError| error.failure(program);
    let seat = Seat { cuts: Arc::clone(cuts), is_silent: true, ..Seat::default() };
    let mut state = State::new(program, &seat).map_err(failure)?;
    // Without its command, the script itself has to make what it needs.
    if state.command_kind("prepare").map_err(failure)?.is_none() {
        return Ok(Looked::Well);
    }
    if let Err(error) = state.call_global("thread_init", Some(0)) {
        return match error {
            ScriptError::Sql(_) if state.calls.context.misses_table => Ok(Looked::Misses),
            error => Err(failure(error)),
        };
    }
    Ok(match state.run_dry_event(0) {
        Ended::Failed(ScriptError::Sql(_)) | Ended::Restart(_) if state.calls.context.misses_table => {
            Looked::Misses
        }
        // A script that catches each error repeats the statement that names the table.
        Ended::Failed(_) if state.is_stopped() && state.calls.context.misses_table => Looked::Misses,
        // Without rows, an event may fail in any way: the load will show it.
        _ => Looked::Well,
    })
}

/// Executes a command of a script; in parallel, if the script allows it.
///
/// - `program`: the script, loaded for this command.
pub(crate) fn execute(program: &Program, cuts: &Arc<Mutex<Vec<Cut>>>) -> Result<(), LoadError> {
    let seat = |thread| Seat { thread, cuts: Arc::clone(cuts), is_silent: false };
    let mut state = State::new(program, &seat(0)).map_err(load_error)?;
    let Some(name) = &program.command else { return Ok(()) };
    let kind = state.command_kind(name).map_err(load_error)?;
    let Some(kind) = kind else {
        let commands = state.commands().map_err(load_error)?;
        let has = if commands.is_empty() { "none".to_owned() } else { commands.join(", ") };
        let text = format!("{} has no command '{name}': its commands are {has}", program.name);
        return Err(LoadError::ScriptText { text });
    };
    if kind != "parallel" || program.threads == 1 {
        return state.run_command(name).map_err(load_error);
    }
    let failed: Mutex<Option<ScriptError>> = Mutex::new(None);
    thread::scope(|scope| {
        for thread in 0..program.threads as usize {
            let (failed, seat) = (&failed, seat(thread));
            scope.spawn(move || {
                let done = State::new(program, &seat).and_then(|mut state| state.run_command(name));
                if let Err(error) = done {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), |error| Err(load_error(error)))
}

/// The state beside those of the workers: it has `init`, `done` and the report hooks. It lives on its own
/// thread, since it may wait for a server.
pub(crate) struct Reporter {
    asks: Sender<Ask>,
    answers: Receiver<Result<Hooks, Failure>>,
}

/// The report hooks that a script has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hooks {
    pub(crate) intermediate: bool,
    pub(crate) cumulative: bool,
    /// Percentile of the latency that they get.
    pub(crate) percentile: f64,
}

enum Ask {
    Report(&'static str, Report),
    Done,
}

impl Reporter {
    /// Starts the thread, which loads the script and calls `init`. Its answer comes by [`Self::answer`].
    pub(crate) fn start(program: Arc<Program>, cuts: Arc<Mutex<Vec<Cut>>>) -> Result<Self, LoadError> {
        let (asks, asked) = mpsc::channel();
        let (told, answers) = mpsc::channel();
        let body = move || {
            // The server may be hostile.
            let _ = confine::capabilities::keep_files();
            let seat = Seat { cuts, ..Seat::default() };
            let begun = begin_reports(&program, &seat);
            let mut state = match begun {
                Ok((state, hooks)) => {
                    let _ = told.send(Ok(hooks));
                    state
                }
                Err(error) => return drop(told.send(Err(error.failure(&program)))),
            };
            for ask in asked {
                let (done, is_last) = match ask {
                    Ask::Report(hook, report) => (state.report(hook, &report), false),
                    Ask::Done => (state.end_reports().and_then(|()| state.call_global("done", None)), true),
                };
                let answer = done.map(|()| Hooks::default()).map_err(|error| {
                    let failure = error.failure(&program);
                    program.fail(Failed { text: failure.text.clone(), is_usage: false });
                    failure
                });
                // There is no receiver any more if the run was left behind.
                if told.send(answer).is_err() || is_last {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("load-script".to_owned()).spawn(body);
        spawned.map_err(|source| LoadError::Thread { source })?;
        Ok(Self { asks, answers })
    }

    /// Waits for the answer to the last request; `None` if `is_over` says so before.
    pub(crate) fn answer(&self, is_over: &dyn Fn() -> bool) -> Option<Result<Hooks, Failure>> {
        const POLL: std::time::Duration = std::time::Duration::from_millis(20);
        loop {
            match self.answers.recv_timeout(POLL) {
                Ok(answer) => return Some(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let text = "the script's main thread has ended";
                    return Some(Err(Failure::new(FailureClass::Machine, text)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if is_over() => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The answer to a request, if it is there.
    pub(crate) fn answered(&self) -> Option<Result<Hooks, Failure>> {
        self.answers.try_recv().ok()
    }

    /// Has a hook called.
    pub(crate) fn report(&self, hook: &'static str, report: Report) {
        let _ = self.asks.send(Ask::Report(hook, report));
    }

    /// Has `done` called.
    pub(crate) fn done(&self) {
        let _ = self.asks.send(Ask::Done);
    }
}

fn begin_reports(program: &Program, seat: &Seat) -> Result<(State, Hooks), ScriptError> {
    let mut state = State::new(program, seat)?;
    state.call_global("init", None)?;
    if !state.defines("event")? {
        let text = format!("{}: cannot find the function event()", program.name);
        return Err(ScriptError::Options(text));
    }
    let hooks = Hooks {
        intermediate: state.is_hooked("report_intermediate")?,
        cumulative: state.is_hooked("report_cumulative")?,
        percentile: state.percentile,
    };
    Ok((state, hooks))
}
