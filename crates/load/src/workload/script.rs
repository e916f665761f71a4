//! Scripts of SQL statements, in pgbench's language, on any SQL target.
//!
//! An event runs one script, drawn by weight. Its variables begin unset, or as the command line defines them.
//! All random values depend on the event's number: an event that is retried does the same.

mod expression;
mod parse;
mod position;
mod value;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use record::load::{ScriptFile, ScriptSettings};

use self::expression::{Expression, Scene};
use self::parse::{Command, Keep, Names};
use self::position::{Problem, SourcePosition};
use self::value::Value;
use crate::connection::{Failure, FailureClass, Laps, OperationShare};
use crate::schedule::random::Random;
use crate::workload::statement::VALUE_BYTES_MAX;
use crate::workload::statement::{Execute, Parameter, ResultRow, StatementText, Turn};

/// The compiled scripts of a load.
#[derive(Debug)]
pub(crate) struct Scripts {
    each: Vec<Script>,
    weights: u64,
    statements: Vec<StatementText>,
    /// Script and position of each statement.
    places: Vec<(usize, SourcePosition)>,
    operations: Vec<OperationShare>,
    names: Vec<String>,
    /// Values of the variables at the start of an event.
    defined: Vec<Option<Value>>,
    /// `:scale`, if it is the size of the tables of pgbench's own scripts.
    scale: Option<Scale>,
    seed: u64,
}

/// Number of rows of `pgbench_branches`.
///
/// # Source
///
/// pgbench takes this number for its own scripts, and ignores `-s` beside them; only `-D scale=N` replaces
/// it.
#[derive(Debug)]
struct Scale {
    slot: usize,
    /// The number, after it was read from the server.
    branches: OnceLock<i64>,
}

/// Names of pgbench's own scripts.
const SCRIPTS_OF_PGBENCH: [&str; 3] = ["builtin-tpcb-like", "builtin-simple-update", "builtin-select-only"];

#[derive(Debug)]
struct Script {
    name: String,
    weight: u32,
    steps: Vec<(SourcePosition, Step)>,
    /// The operation that spans the whole script, if there are several scripts.
    span: Option<usize>,
}

#[derive(Debug)]
enum Step {
    Set {
        slot: usize,
        to: Expression,
    },
    Sql {
        statement: usize,
        operation: usize,
        parameters: Vec<(SourcePosition, usize)>,
        keep: Keep,
    },
    Sleep {
        amount: Expression,
        unit_ns: u64,
    },
    /// Jumps to a later step if the condition is not true.
    Unless {
        condition: Expression,
        to: usize,
    },
    Jump {
        to: usize,
    },
}

/// Statements with more parameters than this allocate memory for them.
const PARAMETERS_INLINE: usize = 16;

impl Scripts {
    /// Compiles the scripts; an error names file, line and column.
    pub(crate) fn new(settings: &ScriptSettings, seed: u64) -> Result<Self, String> {
        if settings.files.is_empty() {
            return Err("no script is given: add --script FILE".to_owned());
        }
        let mut names = Names::default();
        let mut slots: Vec<usize> = settings.defines.iter().map(|(name, _)| names.slot(name)).collect();
        let is_of_pgbench = |file: &ScriptFile| SCRIPTS_OF_PGBENCH.contains(&file.name.as_str());
        let is_given = settings.defines.iter().any(|(name, _)| name == "scale");
        let scale = (!is_given && settings.files.iter().any(is_of_pgbench))
            .then(|| Scale { slot: names.slot("scale"), branches: OnceLock::new() });
        slots.extend(scale.as_ref().map(|scale| scale.slot));
        let mut scripts = Self {
            each: Vec::new(),
            weights: settings.files.iter().map(|f| u64::from(f.weight)).sum(),
            statements: Vec::new(),
            places: Vec::new(),
            operations: Vec::new(),
            names: Vec::new(),
            defined: Vec::new(),
            scale,
            seed,
        };
        if scripts.weights == 0 {
            return Err("every script has a weight of 0: none would run".to_owned());
        }
        let mut stems = BTreeSet::new();
        for file in &settings.files {
            let problem = |problem: Problem| problem.in_file(&file.name);
            let written = parse::parse(&file.text, &mut names).map_err(problem)?;
            if written.commands.is_empty() {
                return Err(format!(
                    "{}: the script is empty: it has neither a statement nor a command",
                    file.name
                ));
            }
            if let Some((at, name)) = written.quoted.iter().find(|(_, name)| names.find(name).is_some()) {
                return Err(problem(at.problem(format!(
                    "`:{name}` inside quotes is not replaced, unlike in pgbench: join texts instead, as in \
                     'user' || :{name}, or CONCAT('user', :{name}) on MySQL"
                ))));
            }
            check_variables(&written.commands, &names, &slots).map_err(problem)?;
            let stem = unused_stem(&file.name, &mut stems);
            let span = (settings.files.len() > 1).then(|| scripts.add_operation(&stem, 1));
            let steps = scripts.compile(written.commands, &stem).map_err(problem)?;
            scripts.each.push(Script { name: file.name.clone(), weight: file.weight, steps, span });
        }
        scripts.defined = vec![None; names.0.len()];
        for (slot, (_, value)) in slots.into_iter().zip(&settings.defines) {
            let text = Value::Text(value.clone());
            scripts.defined[slot] = Some(text.number(SourcePosition::START).unwrap_or(text));
        }
        scripts.names = names.0;
        Ok(scripts)
    }

    pub(crate) fn statements(&self) -> &[StatementText] {
        &self.statements
    }

    /// Reads the size of pgbench's tables, if a script needs it.
    ///
    /// - `ask`: sends a query, and returns the number in its answer.
    pub(crate) fn read_scale(&self, ask: impl FnOnce(&str) -> Result<u64, Failure>) -> Result<(), Failure> {
        let Some(scale) = &self.scale else { return Ok(()) };
        let wrong = |why: &str| {
            let text = format!(
                "cannot read the scale from pgbench_branches: {why}; build the tables with `pgbench -i`, or give \
                 --define scale=N"
            );
            Failure::new(FailureClass::Configuration, text)
        };
        let branches =
            ask("SELECT count(*) FROM pgbench_branches").map_err(|failure| match failure.class {
                FailureClass::Application | FailureClass::Configuration => wrong(&failure.text),
                _ => failure,
            })?;
        let branches = i64::try_from(branches).ok().filter(|branches| *branches > 0);
        let branches = branches.ok_or_else(|| wrong("it has no rows"))?;
        scale.branches.get_or_init(|| branches);
        Ok(())
    }

    /// The size of pgbench's tables, if it was read.
    pub(crate) fn scale(&self) -> Option<i64> {
        self.scale.as_ref()?.branches.get().copied()
    }

    pub(crate) fn operations(&self) -> Vec<OperationShare> {
        self.operations.clone()
    }

    /// Adds the statement's position to a failure, if the statement may be the cause.
    pub(crate) fn placed(&self, statement: usize, failure: Failure) -> Failure {
        if matches!(failure.class, FailureClass::Connection | FailureClass::Machine) {
            return failure;
        }
        let (script, at) = self.places[statement];
        let text = at.problem(failure.text).in_file(&self.each[script].name);
        Failure { text, ..failure }
    }

    /// Adds an operation with a unique name: two statements may begin on one line.
    fn add_operation(&mut self, wanted: &str, per_event_max: u32) -> usize {
        let is_taken = |name: &str| self.operations.iter().any(|o| o.name == name);
        let others = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(others);
        let name = names.find(|name| !is_taken(name)).expect("there are more numbers than statements");
        self.operations.push(OperationShare { name: name.into(), per_event: None, per_event_max });
        self.operations.len() - 1
    }

    /// Compiles commands to steps, with jumps in place of `\if`.
    fn compile(
        &mut self,
        commands: Vec<(SourcePosition, Command)>,
        stem: &str,
    ) -> Result<Vec<(SourcePosition, Step)>, Problem> {
        let mut steps: Vec<(SourcePosition, Step)> = Vec::new();
        let mut open: Vec<Branches> = Vec::new();
        let digits = commands.last().map_or(1, |(last, _)| last.line.to_string().len());
        for (at, command) in commands {
            match command {
                Command::Set { slot, to } => steps.push((at, Step::Set { slot, to })),
                Command::Sleep { amount, unit_ns } => steps.push((at, Step::Sleep { amount, unit_ns })),
                Command::Sql { text, parameters, keep } => {
                    let operation = self.add_operation(&operation_name(stem, at, digits, &text), 1);
                    self.statements.push(text);
                    self.places.push((self.each.len(), at));
                    let statement = self.statements.len() - 1;
                    steps.push((at, Step::Sql { statement, operation, parameters, keep }));
                }
                Command::If(condition) => {
                    open.push(Branches { at, condition_at: Some(steps.len()), ends: Vec::new() });
                    steps.push((at, Step::Unless { condition, to: 0 }));
                }
                Command::ElseIf(condition) => {
                    let branches = open.last_mut().ok_or_else(|| at.problem("\\elif without \\if"))?;
                    branches.next(at, &mut steps)?;
                    branches.condition_at = Some(steps.len());
                    steps.push((at, Step::Unless { condition, to: 0 }));
                }
                Command::Else => {
                    let branches = open.last_mut().ok_or_else(|| at.problem("\\else without \\if"))?;
                    branches.next(at, &mut steps)?;
                }
                Command::EndIf => {
                    let branches = open.pop().ok_or_else(|| at.problem("\\endif without \\if"))?;
                    branches.close(&mut steps);
                }
            }
        }
        match open.pop() {
            Some(branches) => Err(branches.at.problem("this \\if is not closed: \\endif is missing")),
            None => Ok(steps),
        }
    }
}

/// An open `\if`.
struct Branches {
    at: SourcePosition,
    /// Step with the condition of the current branch; `None` after `\else`.
    condition_at: Option<usize>,
    /// Jumps to the end of `\endif`.
    ends: Vec<usize>,
}

impl Branches {
    /// Ends a branch and begins the next.
    fn next(&mut self, at: SourcePosition, steps: &mut Vec<(SourcePosition, Step)>) -> Result<(), Problem> {
        let condition_at =
            self.condition_at.take().ok_or_else(|| at.problem("only \\endif can follow \\else"))?;
        self.ends.push(steps.len());
        steps.push((at, Step::Jump { to: 0 }));
        let here = steps.len();
        jump(&mut steps[condition_at].1, here);
        Ok(())
    }

    fn close(self, steps: &mut [(SourcePosition, Step)]) {
        let here = steps.len();
        for from in self.condition_at.into_iter().chain(self.ends) {
            jump(&mut steps[from].1, here);
        }
    }
}

fn jump(step: &mut Step, here: usize) {
    match step {
        Step::Unless { to, .. } | Step::Jump { to } => *to = here,
        _ => unreachable!("only jumps are mended"),
    }
}

/// Checks that every variable that is read can have a value: from the command line, a `\set`, or an answer.
fn check_variables(
    commands: &[(SourcePosition, Command)],
    names: &Names,
    defined: &[usize],
) -> Result<(), Problem> {
    let keeps = |c: &Command| matches!(c, Command::Sql { keep, .. } if *keep != Keep::Nothing);
    // Only the server knows the names of an answer's columns.
    if commands.iter().any(|(_, c)| keeps(c)) {
        return Ok(());
    }
    let mut known: BTreeSet<usize> = defined.iter().copied().collect();
    let check = |known: &BTreeSet<usize>, at: SourcePosition, slot: usize| {
        let name = &names.0[slot];
        let problem = || {
            at.problem(format!(
                "unknown variable `{name}`: set it first with \\set, or with --define {name}=VALUE"
            ))
        };
        if known.contains(&slot) { Ok(()) } else { Err(problem()) }
    };
    for (_, command) in commands {
        match command {
            Command::Sql { parameters, .. } => {
                parameters.iter().try_for_each(|(at, slot)| check(&known, *at, *slot))?;
            }
            Command::Set { to: e, .. }
            | Command::Sleep { amount: e, .. }
            | Command::If(e)
            | Command::ElseIf(e) => {
                e.each_variable(&mut |at, slot| check(&known, at, slot))?;
            }
            Command::Else | Command::EndIf => {}
        }
        if let Command::Set { slot, .. } = command {
            known.insert(*slot);
        }
    }
    Ok(())
}

/// Name of a script in records: the file name without directories and extension.
fn unused_stem(name: &str, used: &mut BTreeSet<String>) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let plain: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    let mut stem = plain.clone();
    let mut number = 1;
    while !used.insert(stem.clone()) {
        number += 1;
        stem = format!("{plain}-{number}");
    }
    stem
}

/// Name of an operation: `transfer:07-begin` in a script of up to 99 lines, so names sort as lines do.
fn operation_name(stem: &str, at: SourcePosition, digits: usize, text: &StatementText) -> String {
    let text = text.with_marks(|_| String::new());
    let verb: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    format!("{stem}:{:0digits$}-{}", at.line, verb.to_ascii_lowercase())
}

/// A script in progress, statement by statement.
#[derive(Debug)]
pub(crate) struct ScriptExecution {
    random: Random,
    script: usize,
    /// Index of the next step.
    next: usize,
    variables: Vec<Option<Value>>,
    /// The last row that was wanted.
    row: ResultRow,
    /// Index of the step with that answer.
    kept: Option<usize>,
    /// Index of the last statement.
    statement: usize,
}

impl ScriptExecution {
    pub(crate) fn new() -> Self {
        let (variables, row) = (Vec::new(), ResultRow::default());
        Self { random: Random::of(0, 0), script: 0, next: 0, variables, row, kept: None, statement: 0 }
    }

    /// Begins a script, drawn by weight.
    pub(crate) fn begin(&mut self, scripts: &Scripts, mut random: Random) {
        let mut drawn = random.below(scripts.weights);
        let chosen = scripts.each.iter().position(|script| {
            let is_it = drawn < script.weight.into();
            drawn = drawn.saturating_sub(script.weight.into());
            is_it
        });
        self.script = chosen.expect("the draw is below the sum of the weights");
        (self.random, self.next, self.kept) = (random, 0, None);
        self.variables.clear();
        self.variables.extend_from_slice(&scripts.defined);
        if let Some(scale) = &scripts.scale {
            self.variables[scale.slot] = scale.branches.get().map(|branches| Value::Integer(*branches));
        }
    }

    /// Destination of the awaited answer's last row; `None` if the row is not used.
    pub(crate) fn wanted(&mut self) -> Option<&mut ResultRow> {
        self.kept.map(|_| &mut self.row)
    }

    /// Adds the position of the last statement to a failure.
    pub(crate) fn placed(&self, scripts: &Scripts, failure: Failure) -> Failure {
        scripts.placed(self.statement, failure)
    }

    /// Continues to the next statement or pause, after the answer to the previous one.
    pub(crate) fn turn(&mut self, scripts: &Scripts, ask: &mut Execute<'_>) -> Result<Turn, Failure> {
        let script = &scripts.each[self.script];
        let wrong = |p: Problem| Failure::new(FailureClass::Application, p.in_file(&script.name));
        if let Some(step) = self.kept.take() {
            self.keep(scripts, &script.steps[step]).map_err(wrong)?;
        }
        while let Some((at, step)) = script.steps.get(self.next) {
            self.next += 1;
            let mut scene = Scene {
                variables: &self.variables,
                names: &scripts.names,
                random: &mut self.random,
                seed: scripts.seed,
            };
            match step {
                Step::Set { slot, to } => {
                    let value = to.value(&mut scene).map_err(wrong)?;
                    self.variables[*slot] = Some(value);
                }
                Step::Unless { condition, to } => {
                    if !condition.is_true(&mut scene).map_err(wrong)? {
                        self.next = *to;
                    }
                }
                Step::Jump { to } => self.next = *to,
                Step::Sleep { amount, unit_ns } => {
                    let amount = amount.value(&mut scene).and_then(|v| v.real(*at)).map_err(wrong)?;
                    return Ok(Turn::Rest { for_ns: nanoseconds(amount, *unit_ns) });
                }
                Step::Sql { statement, operation, parameters, keep } => {
                    self.kept = (*keep != Keep::Nothing).then_some(self.next - 1);
                    self.statement = *statement;
                    self.ask(scripts, (*statement, parameters), ask).map_err(|failed| match failed {
                        Failed::Here(problem) => wrong(problem),
                        Failed::There(failure) => scripts.placed(*statement, failure),
                    })?;
                    return Ok(Turn::Asked { operation: *operation });
                }
            }
        }
        Ok(Turn::Over)
    }

    fn ask(
        &mut self,
        scripts: &Scripts,
        (statement, slots): (usize, &[(SourcePosition, usize)]),
        ask: &mut Execute<'_>,
    ) -> Result<(), Failed> {
        let value_of = |(at, slot): &(SourcePosition, usize)| match &self.variables[*slot] {
            Some(value) => Ok(value.parameter()),
            None => Err(Failed::Here(at.problem(format!("`{}` is not set here", scripts.names[*slot])))),
        };
        let mut inline = [Parameter::Null; PARAMETERS_INLINE];
        let many;
        let parameters = if let Some(inline) = inline.get_mut(..slots.len()) {
            for (parameter, slot) in inline.iter_mut().zip(slots) {
                *parameter = value_of(slot)?;
            }
            &*inline
        } else {
            many = slots.iter().map(value_of).collect::<Result<Vec<_>, _>>()?;
            &many[..]
        };
        let wanted = self.kept.map(|_| {
            // An answer without rows leaves the row of an earlier answer as it is.
            self.row.clear();
            &mut self.row
        });
        ask(statement, parameters, wanted).map_err(Failed::There)
    }

    /// Sets the variables named after the columns of the answer; discards the rest of the answer.
    fn keep(&mut self, scripts: &Scripts, step: &(SourcePosition, Step)) -> Result<(), Problem> {
        let kept = self.set_variables(scripts, step);
        self.row.values.clear();
        kept
    }

    fn set_variables(
        &mut self,
        scripts: &Scripts,
        (at, step): &(SourcePosition, Step),
    ) -> Result<(), Problem> {
        let prefix = match step {
            Step::Sql { keep: Keep::OneRow { .. }, .. } if self.row.rows != 1 => {
                return Err(at.problem(format!("\\gset needs one row, but the answer has {}", self.row.rows)));
            }
            Step::Sql { keep: Keep::OneRow { prefix } | Keep::LastRow { prefix }, .. } => prefix,
            _ => unreachable!("only answers are kept"),
        };
        for (name, value) in self.row.names.iter().zip(&mut self.row.values) {
            let is_called = |known: &String| known.strip_prefix(prefix.as_str()) == Some(name);
            // Columns that no script reads are skipped.
            if let Some(slot) = scripts.names.iter().position(is_called) {
                if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
                    let mib = VALUE_BYTES_MAX >> 20;
                    return Err(
                        at.problem(format!("`{name}` is longer than the limit of a variable, {mib} MiB"))
                    );
                }
                self.variables[slot] = Some(value.take().map_or(Value::Null, Value::Text));
            }
        }
        Ok(())
    }

    /// Finishes a script: fails if a transaction is open, and ends the operation that spans the script.
    pub(crate) fn close(
        &self,
        scripts: &Scripts,
        is_in_transaction: bool,
        laps: &mut Laps,
    ) -> Result<(), Failure> {
        let script = &scripts.each[self.script];
        if is_in_transaction {
            let name = &script.name;
            let text =
                format!("{name}: the script ends inside a transaction: end it with COMMIT or ROLLBACK");
            return Err(Failure::new(FailureClass::Application, text));
        }
        if let Some(span) = script.span {
            laps.end_span(span);
        }
        Ok(())
    }
}

enum Failed {
    Here(Problem),
    There(Failure),
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn nanoseconds(amount: f64, unit_ns: u64) -> u64 {
    (amount.max(0.0) * unit_ns as f64) as u64
}

/// Number of trial evaluations after which a standalone expression that always fails is refused.
const TRIES: u64 = 64;

/// A standalone expression, without variables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Formula(Expression);

impl Formula {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut names = Names::default();
        let expression = parse::expression(text, &mut names).map_err(|problem| problem.text)?;
        if !names.0.is_empty() {
            return Err(format!("variables such as `:{}` are not supported here", names.0[0]));
        }
        let formula = Self(expression);
        // An expression that always fails is refused now; one that fails for some draws fails in the events
        // that draw them.
        let mut tries = (0..TRIES).map(|n| formula.write(&mut Random::of(0, n), &mut Vec::new()));
        let fails = tries.try_fold(String::new(), |_, tried| tried.err());
        fails.map_or(Ok(formula), Err)
    }

    /// Writes its value.
    pub(crate) fn write(&self, random: &mut Random, out: &mut Vec<u8>) -> Result<(), String> {
        let mut scene = Scene { variables: &[], names: &[], random, seed: 0 };
        let value = self.0.value(&mut scene).map_err(|problem| problem.text)?;
        value.write(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
