//! A Lua state that runs a script.

use std::io::{IsTerminal as _, stderr, stdout};
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mlua::{Function, LightUserData, Lua, Table, Value};
use record::clock::{Clock as _, Monotonic};
use record::printable::printable_block;

use crate::connection::{Cut, Failure, FailureClass};
use crate::lua::calls::{ADDRESSES, Calls};
use crate::lua::context::{Context, Counts};
use crate::lua::link::DRY_STATEMENTS_MAX;
use crate::lua::machine::Machine;
use crate::lua::options::{Declared, Kind, OptionValue, OptionValues, usual};
use crate::lua::program::{Failed, Modules, Output, Program, named_forms};
use crate::schedule::clock::to_ns;

const PRELUDE: &str = include_str!("prelude.lua");

/// A dry event that takes longer waits for something that a look does not bring about.
const DRY_TIME_MAX: Duration = Duration::from_secs(10);

/// The version of sysbench of which the interface is.
const VERSION: &str = "1.0.20";

/// Messages by which a script's error shows that a statement or a connection has failed.
const SQL_ERRORS: [&str; 3] = ["SQL error, errno = ", "SQL API error", "connection creation failed"];

/// A Lua state with the script loaded.
// The order matters: functions are dropped before Lua, and Lua before the connections that it owns lose
// their context.
pub(crate) struct State {
    event: Function,
    interface: Table,
    machine: Machine,
    /// Percentile of the latency that report hooks get.
    pub(crate) percentile: f64,
    pub(crate) calls: Box<Calls>,
}

/// Failure of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptError {
    /// The text is not Lua.
    Syntax(String),
    /// An option has a value that it cannot have.
    Options(String),
    /// A statement or a connection failed; the text has the place in the script.
    Sql(Failure),
    /// The script has an error; the text has the place in the script and the traceback.
    Script(String),
}

/// The position of a state.
#[derive(Clone, Default)]
pub(crate) struct Seat {
    /// Number of the thread.
    pub(crate) thread: usize,
    /// Cuts of the connections that the script opens.
    pub(crate) cuts: Arc<Mutex<Vec<Cut>>>,
    /// Whether the script prints nothing.
    pub(crate) is_silent: bool,
}

/// Ending of an event.
pub(crate) enum Ended {
    Well,
    /// The script ends its thread.
    Stop,
    /// The event begins again.
    Restart(String),
    Failed(ScriptError),
}

/// The values that report hooks get.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) threads: u32,
    pub(crate) interval_s: f64,
    pub(crate) total_s: f64,
    pub(crate) events: f64,
    /// Differences over the interval.
    pub(crate) counts: Counts,
    pub(crate) latency_pct_s: f64,
    /// Minimum, maximum, mean and sum; only at the end.
    pub(crate) latency_s: Option<[f64; 4]>,
    /// Events that wait, and events in progress; only in an open loop.
    pub(crate) queue: Option<(u64, u64)>,
}

impl State {
    /// Loads the script into a new state and sets its options.
    pub(crate) fn new(program: &Program, seat: &Seat) -> Result<Self, ScriptError> {
        let (state, outcome) = Self::load(program, seat)?;
        outcome?;
        let mut declared = state.declared()?;
        let is_declared = |option: &Declared| declared.iter().any(|d| d.is_named(&option.name));
        let is_declared_by_script = declared.iter().any(|option| option.is_named("db-ps-mode"));
        let usual: Vec<Declared> = usual().into_iter().filter(|option| !is_declared(option)).collect();
        declared.extend(usual);
        for (name, _) in &program.given {
            if !declared.iter().any(|option| option.is_named(name)) {
                let text = format!("{} has no option '--{name}'", program.name);
                return Err(ScriptError::Options(text));
            }
        }
        let mut values = OptionValues::of(&declared, &program.given).map_err(ScriptError::Options)?;
        if !is_declared_by_script {
            values.set_prepared(program.is_prepared).map_err(ScriptError::Options)?;
        }
        for (name, value) in &program.common.0 {
            values.push(name, value.clone());
        }
        let mut state = state;
        state.calls.context.laws = values.laws().map_err(ScriptError::Options)?;
        state.percentile = values.percentile().map_err(ScriptError::Options)?;
        let driver = program.server.as_ref().map_or("", |server| server.driver());
        state.calls.context.ignored = values.ignored(driver);
        state.set_options(&values).map_err(of_lua)?;
        Ok(state)
    }

    /// Loads the script into a new state; the second result is how its body ended.
    pub(crate) fn load(
        program: &Program,
        seat: &Seat,
    ) -> Result<(Self, Result<(), ScriptError>), ScriptError> {
        let mut calls = Calls::new(Context {
            random: program.random_of_state(),
            of_event: None,
            laws: crate::lua::laws::Laws::USUAL,
            unique: program.unique(),
            server: program.server.clone(),
            ignored: crate::lua::context::Ignored::Numbers(Vec::new()),
            counters: program.counters(),
            is_prepared: program.is_prepared,
            is_dry: false,
            dry_statements: Rc::default(),
            laps: ptr::null_mut(),
            cuts: Arc::clone(&seat.cuts),
            failure: None,
            misses_table: false,
            text: Vec::new(),
        });
        let address = LightUserData((&raw mut *calls).cast());
        let machine = Machine::new();
        let interface = interface(machine.lua(), program, seat, address).map_err(of_lua)?;
        let event = interface.get("event").map_err(of_lua)?;
        let mut state = Self { event, interface, machine, percentile: 0.0, calls };
        let outcome = state.load_text(program);
        Ok((state, outcome))
    }

    fn load_text(&mut self, program: &Program) -> Result<(), ScriptError> {
        let load: Function = self.interface.get("load").map_err(of_lua)?;
        let arguments = (program.text.as_str(), format!("@{}", program.name));
        let (outcome, text): (String, Option<String>) = load.call(arguments).map_err(of_lua)?;
        match (outcome.as_str(), text) {
            ("loaded", _) => Ok(()),
            ("syntax", Some(text)) => Err(ScriptError::Syntax(text)),
            (_, text) => Err(self.explained(text.unwrap_or_default())),
        }
    }

    /// The options that the script declares.
    pub(crate) fn declared(&self) -> Result<Vec<Declared>, ScriptError> {
        let list: Table = self.call("declared", ()).map_err(|error| match error {
            ScriptError::Script(text) => ScriptError::Options(first_line(&text).to_owned()),
            other => other,
        })?;
        let read = |option: mlua::Result<Table>| -> mlua::Result<Declared> {
            let option = option?;
            Ok(Declared {
                name: option.get("name")?,
                text: option.get("text")?,
                kind: Kind::of_number(option.get("kind")?).unwrap_or(Kind::Text),
                default: option.get("default")?,
            })
        };
        list.sequence_values().map(read).collect::<mlua::Result<_>>().map_err(of_lua)
    }

    fn set_options(&self, values: &OptionValues) -> mlua::Result<()> {
        let table = self.machine.lua().create_table()?;
        for (name, value) in &values.0 {
            match value {
                OptionValue::Switch(is_on) => table.set(name.as_str(), *is_on)?,
                OptionValue::Number(number) => table.set(name.as_str(), *number)?,
                OptionValue::Text(text) => table.set(name.as_str(), text.as_str())?,
                OptionValue::List(list) => table.set(name.as_str(), list.clone())?,
            }
        }
        self.interface.get::<Function>("options")?.call(table)
    }

    /// Calls a global function of the script, if the script has it.
    pub(crate) fn call_global(&mut self, name: &str, thread: Option<usize>) -> Result<(), ScriptError> {
        self.calls.context.failure = None;
        let problem: Option<String> = self.call("call", (name, thread))?;
        problem.map_or(Ok(()), |text| Err(self.explained(text)))
    }

    /// Whether the script has that global function.
    pub(crate) fn defines(&self, name: &str) -> Result<bool, ScriptError> {
        self.call("defines", name)
    }

    /// Form of a command: `parallel`, `serial` or `function`; `None` if it is not.
    pub(crate) fn command_kind(&self, name: &str) -> Result<Option<String>, ScriptError> {
        self.call("command_kind", name)
    }

    /// Names of the script's commands, in order.
    pub(crate) fn commands(&self) -> Result<Vec<String>, ScriptError> {
        self.call("commands", ())
    }

    /// Paths of the modules that the script has loaded, and of those that its functions load later by names
    /// in `text`.
    pub(crate) fn modules(&self, text: &str) -> Result<Vec<String>, ScriptError> {
        self.call("files", text)
    }

    /// Executes a command of the script.
    pub(crate) fn run_command(&mut self, name: &str) -> Result<(), ScriptError> {
        self.calls.context.failure = None;
        let problem: Option<String> = self.call("command", name)?;
        problem.map_or(Ok(()), |text| Err(self.explained(text)))
    }

    /// Runs one event. Allocates nothing if it ends well, and one text if it begins again.
    pub(crate) fn run_event(&mut self, thread: usize) -> Ended {
        let (code, text): (i64, Option<mlua::LuaString>) = match self.event.call(thread) {
            Ok(ended) => ended,
            Err(error) => return Ended::Failed(of_lua(error)),
        };
        let text_of =
            |text: Option<mlua::LuaString>| text.map_or_else(String::new, |text| text.to_string_lossy());
        match code {
            0 => Ended::Well,
            1 => Ended::Stop,
            2 => {
                // The text of the last failure has room for that of the script.
                let mut room = self.calls.context.failure.take().map_or_else(String::new, |last| last.text);
                room.clear();
                if let Some(text) = text {
                    room.push_str(&String::from_utf8_lossy(&text.as_bytes()));
                }
                Ended::Restart(room)
            }
            _ => Ended::Failed(self.explained(text_of(text))),
        }
    }

    /// Runs one event; its statements are only checked. The script may wait for rows that never come, and
    /// catch each error: Lua itself ends the event then.
    pub(crate) fn run_dry_event(&mut self, thread: usize) -> Ended {
        self.calls.context.is_dry = true;
        let sent = Rc::clone(&self.calls.context.dry_statements);
        let end_ns = Monotonic.now_ns() + to_ns(DRY_TIME_MAX);
        let is_over = move || sent.get() > DRY_STATEMENTS_MAX || Monotonic.now_ns() > end_ns;
        if let Err(error) = self.machine.stop_if(is_over) {
            return Ended::Failed(of_lua(error));
        }
        let ended = self.run_event(thread);
        self.machine.stop_no_more();
        ended
    }

    /// Whether Lua has ended a dry event.
    pub(crate) fn is_stopped(&self) -> bool {
        self.machine.is_stopped()
    }

    /// Tells the script that its event begins again.
    pub(crate) fn restart(&mut self) -> Result<(), ScriptError> {
        self.calls.context.failure = None;
        let problem: Option<String> = self.call("restart", ())?;
        problem.map_or(Ok(()), |text| Err(self.explained(text)))
    }

    /// Whether the script has a hook of that name.
    pub(crate) fn is_hooked(&self, name: &str) -> Result<bool, ScriptError> {
        self.call("hooked", name)
    }

    /// Calls a report hook.
    pub(crate) fn report(&mut self, hook: &str, report: &Report) -> Result<(), ScriptError> {
        let table = self.report_table(report).map_err(of_lua)?;
        let problem: Option<String> = self.call("hook", (hook, table))?;
        problem.map_or(Ok(()), |text| Err(self.explained(text)))
    }

    /// Ends the list of reports.
    pub(crate) fn end_reports(&self) -> Result<(), ScriptError> {
        self.call("close", ())
    }

    fn report_table(&self, report: &Report) -> mlua::Result<Table> {
        let table = self.machine.lua().create_table()?;
        table.set("threads_running", report.threads)?;
        table.set("time_interval", report.interval_s)?;
        table.set("time_total", report.total_s)?;
        table.set("latency_pct", report.latency_pct_s)?;
        table.set("events", report.events)?;
        let Counts { other, reads, writes, errors, reconnects, .. } = report.counts;
        for (name, value) in [
            ("reads", reads),
            ("writes", writes),
            ("other", other),
            ("errors", errors),
            ("reconnects", reconnects),
        ] {
            table.set(name, value as f64)?;
        }
        if let Some([min, max, mean, sum]) = report.latency_s {
            table.set("latency_min", min)?;
            table.set("latency_max", max)?;
            table.set("latency_avg", mean)?;
            table.set("latency_sum", sum)?;
        }
        if let Some((waiting, running)) = report.queue {
            table.set("queue_length", waiting)?;
            table.set("concurrency", running)?;
        }
        Ok(table)
    }

    fn call<T: mlua::FromLuaMulti>(
        &self,
        name: &str,
        arguments: impl mlua::IntoLuaMulti,
    ) -> Result<T, ScriptError> {
        let function: Function = self.interface.get(name).map_err(of_lua)?;
        function.call(arguments).map_err(of_lua)
    }

    /// The error of a script: that of its last statement, if that is the reason.
    fn explained(&mut self, text: String) -> ScriptError {
        let is_sql = SQL_ERRORS.iter().any(|marker| text.contains(marker));
        match self.calls.context.failure.take() {
            Some(failure) if is_sql => {
                let place = first_line(&text);
                let class = if self.calls.has_lost() { FailureClass::Connection } else { failure.class };
                // The message is in the text if the script was given it.
                let message = failure.text.split(" (").next().unwrap_or_default();
                let text = if place.contains(message) {
                    place.to_owned()
                } else {
                    format!("{place}: {}", failure.text)
                };
                ScriptError::Sql(Failure { class, text, ..failure })
            }
            _ => ScriptError::Script(text),
        }
    }
}

fn interface(lua: &Lua, program: &Program, seat: &Seat, calls: LightUserData) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    for (name, address) in ADDRESSES {
        native.set(*name, LightUserData(address.cast_mut()))?;
    }
    let facts = lua.create_table()?;
    let here = Path::new(".");
    let variable = |name: &str| std::env::var(name).ok();
    let (path, native_path) = program.path(here, variable);
    facts.set("path", path)?;
    facts.set("cpath", native_path)?;
    let home = variable("HOME");
    facts.set("unsearched", program.unsearched(here, home.as_deref()))?;
    let grounds = program.grounds(here, home.as_deref());
    facts.set("is_planted", lua.create_function(move |_, path: String| Ok(grounds.is_planted(&path)))?)?;
    let named = [variable("LUA_PATH"), variable("LUA_CPATH")].map(Option::unwrap_or_default);
    let named = named.iter().flat_map(|path| named_forms(path)).map(|form| (form, true));
    facts.set("named", lua.create_table_from(named)?)?;
    if let Modules::Known { texts, otherwise } = &program.modules {
        facts.set("modules", lua.create_table_from(texts.iter().map(|(name, text)| (&**name, &**text)))?)?;
        facts.set("otherwise", *otherwise)?;
    }
    facts.set("tid", seat.thread)?;
    facts.set("version", VERSION)?;
    facts.set("version_string", concat!("sysbench 1.0.20 (bakeoff ", env!("CARGO_PKG_VERSION"), ")"))?;
    facts.set("script", program.name.as_str())?;
    facts.set("command", program.command.as_deref())?;
    let output = if seat.is_silent { Output::Nowhere } else { program.output };
    facts.set("output", output.word())?;
    facts.set("terminals", lua.create_sequence_from([stdout().is_terminal(), stderr().is_terminal()])?)?;
    let printable =
        |_: &Lua, text: mlua::LuaString| Ok(printable_block(&text.to_string_lossy()).into_owned());
    facts.set("printable", lua.create_function(printable)?)?;
    facts.set("driver", program.server.as_ref().map(|server| server.driver()))?;
    facts.set("no_driver", NO_DRIVER)?;
    let words = lua.create_sequence_from(program.words())?;
    words.raw_set(0, "sysbench")?;
    facts.set("argv", words)?;
    let prelude: Function = lua.load(PRELUDE).set_name("=bakeoff").into_function()?;
    match prelude.call((native, calls, facts))? {
        Value::Table(interface) => Ok(interface),
        _ => unreachable!("the prelude returns its functions"),
    }
}

/// Error of a script that asks for SQL without a server.
pub(crate) const NO_DRIVER: &str = "no SQL server: use a mysql:// or postgres:// target";

pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// An error that Lua itself reports: no memory, or an error outside of the script.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn of_lua(error: mlua::Error) -> ScriptError {
    ScriptError::Script(error.to_string())
}

impl ScriptError {
    /// The failure that stops a load before it begins.
    pub(crate) fn failure(self, program: &Program) -> Failure {
        match self {
            Self::Sql(failure) => failure,
            Self::Syntax(text) | Self::Options(text) => {
                program.fail(Failed { text: text.clone(), is_usage: true });
                Failure::new(FailureClass::Configuration, text)
            }
            Self::Script(text) => {
                program.fail(Failed { text: text.clone(), is_usage: false });
                Failure::new(FailureClass::Configuration, text)
            }
        }
    }
}
