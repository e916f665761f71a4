//! Code shared by all SQL targets: indexed statements, their values, and the worker that executes them.
//!
//! A workload lists its statements in advance and refers to them by index. The driver marks the parameters,
//! prepares and sends the statements, and reads the answers.

use std::sync::Arc;

use record::load::{LoadSettings, Workload};

use crate::connection::{Attempt, Connection, Failure, FailureClass, Idle, Laps, OperationShare};
use crate::schedule::random::Random;
use crate::workload::oltp::{self, Shape};
use crate::workload::script::{self, Scripts};
use crate::workload::statement::{Execute, Parameter, ResultRow, StatementText, Turn};

/// A connection to an SQL server.
pub(crate) trait Sql {
    /// Executes one statement of the workload, given by index, and reads its answer to the end; stores the
    /// last row if one is wanted.
    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        row: Option<&mut ResultRow>,
    ) -> Result<(), Failure>;

    /// Rolls back the transaction that a failed statement has left open.
    fn roll_back(&mut self);

    /// Whether a transaction is open, according to the server's last answer.
    fn is_in_transaction(&self) -> bool;

    /// See [`Connection::idle`].
    fn idle(&mut self, _has_rested: bool) -> Idle {
        Idle::Stands
    }
}

/// The work of a load's events; shared by all workers.
#[derive(Debug)]
pub(crate) enum Work {
    Oltp(Box<Shape>),
    Script(Scripts),
}

impl Work {
    pub(crate) fn new(settings: &LoadSettings) -> Result<Self, Failure> {
        if settings.workload != Workload::Script {
            return Ok(Self::Oltp(Box::new(Shape::new(settings))));
        }
        let scripts = Scripts::new(&settings.scripts, settings.seed);
        scripts.map(Self::Script).map_err(|text| Failure::new(FailureClass::Configuration, text))
    }

    /// Whether the events use the tables that bakeoff builds.
    pub(crate) fn has_data_set(&self) -> bool {
        matches!(self, Self::Oltp(_))
    }

    /// Every statement, by index.
    pub(crate) fn statements(&self) -> &[StatementText] {
        match self {
            Self::Oltp(shape) => shape.statements(),
            Self::Script(scripts) => scripts.statements(),
        }
    }

    /// See [`Scripts::read_scale`].
    pub(crate) fn read_scale(&self, ask: impl FnOnce(&str) -> Result<u64, Failure>) -> Result<(), Failure> {
        match self {
            Self::Oltp(_) => Ok(()),
            Self::Script(scripts) => scripts.read_scale(ask),
        }
    }

    /// See [`Scripts::scale`].
    pub(crate) fn scale(&self) -> Option<i64> {
        match self {
            Self::Oltp(_) => None,
            Self::Script(scripts) => scripts.scale(),
        }
    }

    /// Adds the statement's position to a failure, if the statement comes from a script.
    pub(crate) fn placed(&self, statement: usize, failure: Failure) -> Failure {
        match self {
            Self::Oltp(_) => failure,
            Self::Script(scripts) => scripts.placed(statement, failure),
        }
    }

    pub(crate) fn operations(&self) -> Vec<OperationShare> {
        match self {
            Self::Oltp(shape) => shape.operations(),
            Self::Script(scripts) => scripts.operations(),
        }
    }

    /// Whether its transactions write; these may lock at their start.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Oltp(shape) => shape.writes(),
            // A script determines how its transactions begin.
            Self::Script(_) => false,
        }
    }

    /// Whether a failure may leave a transaction open on a connection that remains usable.
    pub(crate) fn rolls_back_after(&self, failure: &Failure) -> bool {
        failure.class != FailureClass::Connection
            && match self {
                Self::Oltp(shape) => shape.has_transactions(),
                Self::Script(_) => true,
            }
    }
}

/// An event in progress, statement by statement: it never blocks, so a thread can have many in progress.
#[derive(Debug)]
pub(crate) enum Execution {
    Oltp(Box<oltp::OltpExecution>),
    Script(Box<script::ScriptExecution>),
}

impl Execution {
    /// Creates the state for events of this work.
    pub(crate) fn of(work: &Work) -> Self {
        match work {
            Work::Oltp(_) => Self::Oltp(Box::new(oltp::OltpExecution::new())),
            Work::Script(_) => Self::Script(Box::new(script::ScriptExecution::new())),
        }
    }

    /// Begins an event with its random generator.
    pub(crate) fn begin(&mut self, work: &Work, random: Random) {
        match (self, work) {
            (Self::Oltp(execution), Work::Oltp(_)) => execution.begin(random),
            (Self::Script(execution), Work::Script(scripts)) => execution.begin(scripts, random),
            _ => unreachable!("{OF_ITS_WORK}"),
        }
    }

    /// Continues to the next step, after the answer to the previous statement.
    pub(crate) fn turn(&mut self, work: &Work, ask: &mut Execute<'_>) -> Result<Turn, Failure> {
        match (self, work) {
            (Self::Oltp(execution), Work::Oltp(shape)) => {
                let asked = execution.ask(shape, ask)?;
                Ok(asked.map_or(Turn::Over, |operation| Turn::Asked { operation }))
            }
            (Self::Script(execution), Work::Script(scripts)) => execution.turn(scripts, ask),
            _ => unreachable!("{OF_ITS_WORK}"),
        }
    }

    /// Destination of the awaited answer's last row; `None` if the row is not used.
    pub(crate) fn wanted(&mut self) -> Option<&mut ResultRow> {
        match self {
            Self::Oltp(_) => None,
            Self::Script(execution) => execution.wanted(),
        }
    }

    /// Adds the position of the last statement to a failure, if the statement comes from a script.
    pub(crate) fn placed(&self, work: &Work, failure: Failure) -> Failure {
        match (self, work) {
            (Self::Script(execution), Work::Script(scripts)) => execution.placed(scripts, failure),
            _ => failure,
        }
    }

    /// Finishes an event; see [`script::ScriptExecution::close`].
    pub(crate) fn close(&self, work: &Work, is_in_transaction: bool, laps: &mut Laps) -> Result<(), Failure> {
        match (self, work) {
            (Self::Script(execution), Work::Script(scripts)) => {
                execution.close(scripts, is_in_transaction, laps)
            }
            _ => Ok(()),
        }
    }
}

const OF_ITS_WORK: &str = "a course is made for its work";

/// Performs one event.
pub(crate) fn run(
    session: &mut impl Sql,
    work: &Work,
    execution: &mut Execution,
    attempt: &mut Attempt<'_>,
) -> Result<(), Failure> {
    execution.begin(work, attempt.random.clone());
    let result = loop {
        let turn = execution
            .turn(work, &mut |statement, parameters, row| session.execute(statement, parameters, row));
        match turn {
            Ok(Turn::Asked { operation }) => attempt.laps.end_operation(operation),
            Ok(Turn::Rest { for_ns }) => attempt.laps.rest(for_ns),
            Ok(Turn::Over) => break execution.close(work, session.is_in_transaction(), attempt.laps),
            Err(failure) => break Err(failure),
        }
    };
    if let Err(failure) = &result
        && work.rolls_back_after(failure)
    {
        session.roll_back();
    }
    result
}

/// A worker: a session and its current event.
pub(crate) struct Worker<S> {
    session: S,
    work: Arc<Work>,
    execution: Execution,
}

impl<S: Sql> Worker<S> {
    pub(crate) fn new(session: S, work: Arc<Work>) -> Self {
        let execution = Execution::of(&work);
        Self { session, work, execution }
    }
}

impl<S: Sql> Connection for Worker<S> {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        run(&mut self.session, &self.work, &mut self.execution, attempt)
    }

    fn idle(&mut self, has_rested: bool) -> Idle {
        self.session.idle(has_rested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::statement::Quoting;

    #[test]
    fn a_statement_reads_the_same_with_marks_and_with_values() {
        let pieces = ["INSERT INTO t VALUES (", ", ", ", ", ", ", ")"].map(str::to_owned).to_vec();
        let statement = StatementText::new(&pieces);
        assert_eq!(statement.with_marks(|n| format!("${n}")), "INSERT INTO t VALUES ($1, $2, $3, $4)");
        let mut sql = String::new();
        let values =
            [Parameter::Integer(-7), Parameter::Real(0.5), Parameter::Null, Parameter::Text("a'b\\c")];
        statement.write_values(&values, Quoting::Standard, &mut sql);
        assert_eq!(sql, "INSERT INTO t VALUES (-7, 5e-1, NULL, 'a''b\\c')");
        statement.write_values(&values, Quoting::Backslash, &mut sql);
        assert_eq!(sql, "INSERT INTO t VALUES (-7, 5e-1, NULL, 'a''b\\\\c')");
    }
}
