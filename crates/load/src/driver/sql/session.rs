//! Sessions with SQL servers: code shared by blocking and multiplexed connections.
//!
//! A server's [`Protocol`] writes requests and reads answers, and has no socket. With one thread per
//! connection, a [`Session`] waits for each answer; a thread with many connections has an [`Execution`] for
//! each, in a [`Conversation`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use record::clock::Monotonic;
use record::load::LoadSettings;
use socket2::Socket;

use crate::connection::Answer;
use crate::connection::{Connection, Failure, FailureClass, Idle, Laps};
use crate::net::held;
use crate::net::tls::Secured;
use crate::net::{CONNECT_TIMEOUT, Dialogue, Go, Parsed, Wire, no_answer, within};
use crate::schedule::random::Random;
use crate::workload::sql::{Execution, Sql, Work, Worker};
use crate::workload::statement::{Parameter, ResultRow, Turn};

/// Writes the requests of a session and reads their answers.
pub(super) trait Protocol: Send {
    /// Whether a statement can be executed.
    fn is_ready(&self, statement: usize) -> bool;

    /// Makes the statement ready; blocks.
    fn make_ready(&mut self, statement: usize, wire: &mut Wire) -> Result<(), Failure>;

    /// Writes the request that executes a statement; replaces the content of `request`.
    fn write(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        request: &mut Vec<u8>,
    ) -> Result<(), Failure>;

    /// Writes the request that rolls back the transaction; replaces the content of `request`.
    fn write_rollback(&mut self, request: &mut Vec<u8>);

    /// Reads the next part of the answer to the last request; stores its last row if one is wanted.
    ///
    /// Returns the number of bytes consumed, and the result at the end of the answer.
    ///
    /// - `is_end`: the server has closed its side.
    fn hear(
        &mut self,
        input: &[u8],
        is_end: bool,
        wanted: Option<&mut ResultRow>,
    ) -> (usize, Option<Result<(), Failure>>);

    /// Reads unrequested input: returns the number of bytes consumed, and a failure if the connection is
    /// unusable.
    fn hear_unasked(&mut self, input: &[u8]) -> (usize, Option<Failure>);

    /// Whether a transaction is open, according to the server's last answer.
    fn is_in_transaction(&self) -> bool;

    /// Whether a transaction may be open after a failure.
    fn may_be_in_transaction(&self) -> bool;

    /// Called when the running statement is abandoned.
    fn give_up(&self) {}
}

/// The sessions of a load.
pub(super) struct Sessions {
    pub(super) work: Arc<Work>,
    pub(super) is_prepared: bool,
    /// Length limit of a message or row.
    pub(super) answer_bytes_max: usize,
}

/// Length limit of a message or row. All connections together may hold a multiple of it.
pub(super) fn answer_bytes_max(settings: &LoadSettings) -> usize {
    let bytes = usize::try_from(settings.answer_bytes_max).unwrap_or(usize::MAX);
    held::allow(bytes);
    bytes
}

impl Sessions {
    pub(super) fn new(settings: &LoadSettings) -> Result<Self, Failure> {
        let work = Arc::new(Work::new(settings)?);
        let answer_bytes_max = answer_bytes_max(settings);
        Ok(Self { work, is_prepared: settings.oltp.prepared, answer_bytes_max })
    }

    /// A connection for its own thread, from a new session. All statements are prepared before an event needs
    /// them: the time for that is not service, also after an outage.
    pub(super) fn connection<P: Protocol + 'static>(
        &self,
        mut protocol: P,
        mut wire: Wire,
    ) -> Result<Box<dyn Connection>, Failure> {
        self.make_ready(&mut protocol, &mut wire)?;
        wire.settle()?;
        let session = Session { protocol, wire, request: Vec::new() };
        Ok(Box::new(Worker::new(session, Arc::clone(&self.work))))
    }

    /// Variant of [`Self::connection`] for a thread with many connections, which cannot block to prepare a
    /// statement.
    pub(super) fn conversation<P: Protocol + 'static>(
        &self,
        mut protocol: P,
        mut wire: Wire,
    ) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        self.make_ready(&mut protocol, &mut wire)?;
        let is_cut = Arc::new(AtomicBool::new(false));
        let conversation = Conversation {
            protocol,
            execution: Execution::of(&self.work),
            laps: Laps::new(Arc::new(Monotonic), &self.work.operations(), is_cut),
            work: Arc::clone(&self.work),
            stage: Stage::Turn,
        };
        let (socket, tls) = wire.into_parts()?;
        match tls {
            None => Ok((socket, Box::new(conversation))),
            Some(tls) => Ok((socket, Box::new(Secured::standing(tls, Box::new(conversation))))),
        }
    }

    fn make_ready(&self, protocol: &mut impl Protocol, wire: &mut Wire) -> Result<(), Failure> {
        (0..self.work.statements().len()).try_for_each(|statement| {
            // Each preparation has the time limit of a login.
            let late = |within| Failure::new(FailureClass::Connection, no_answer(within));
            within(wire, CONNECT_TIMEOUT, late, |wire| protocol.make_ready(statement, wire))
                .map_err(|failure| self.work.placed(statement, failure))
        })
    }
}

/// A session that blocks for its answers.
struct Session<P> {
    protocol: P,
    wire: Wire,
    /// Buffer for a request.
    request: Vec<u8>,
}

impl<P: Protocol> Session<P> {
    fn exchange(&mut self, mut wanted: Option<&mut ResultRow>) -> Result<(), Failure> {
        let Self { protocol, wire, request } = self;
        wire.hear_left(false, |input| protocol.hear_unasked(input))?;
        wire.send(request)?;
        wire.hear(|input, is_end| protocol.hear(input, is_end, wanted.as_deref_mut()))?
    }
}

impl<P: Protocol> Sql for Session<P> {
    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        row: Option<&mut ResultRow>,
    ) -> Result<(), Failure> {
        if !self.protocol.is_ready(statement) {
            self.protocol.make_ready(statement, &mut self.wire)?;
        }
        self.protocol.write(statement, parameters, &mut self.request)?;
        self.exchange(row)
    }

    fn roll_back(&mut self) {
        if self.protocol.may_be_in_transaction() {
            self.protocol.write_rollback(&mut self.request);
            // If this fails, so will the next statement, and that failure is recorded.
            let _ = self.exchange(None);
        }
    }

    fn is_in_transaction(&self) -> bool {
        self.protocol.is_in_transaction()
    }

    fn idle(&mut self, has_rested: bool) -> Idle {
        if !has_rested {
            return Idle::Stands;
        }
        let Self { protocol, wire, .. } = self;
        wire.hear_unasked(|input, _| protocol.hear_unasked(input)).map_or_else(Idle::Lost, |()| Idle::Stands)
    }
}

/// A session on a non-blocking socket.
struct Conversation<P> {
    protocol: P,
    work: Arc<Work>,
    execution: Execution,
    laps: Laps,
    stage: Stage,
}

/// State of the event.
enum Stage {
    /// The event continues.
    Turn,
    Rests,
    /// Waits for the answer that ends this operation.
    Asked(usize),
    /// The event has failed; its transaction must be rolled back.
    Failed(Failure),
    /// Waits for the answer to the rollback.
    RolledBack(Failure),
}

impl<P: Protocol> Conversation<P> {
    fn turn(&mut self, out: &mut Vec<u8>) -> Go {
        let Self { protocol, work, execution, .. } = self;
        let turn =
            execution.turn(work, &mut |statement, parameters, _| protocol.write(statement, parameters, out));
        match turn {
            Ok(Turn::Asked { operation }) => {
                self.stage = Stage::Asked(operation);
                Go::Send
            }
            Ok(Turn::Rest { for_ns }) => {
                self.stage = Stage::Rests;
                Go::Rest { for_ns }
            }
            Ok(Turn::Over) => {
                match self.execution.close(&self.work, self.protocol.is_in_transaction(), &mut self.laps) {
                    // The laps hold the operations.
                    Ok(()) => Go::Ended(Ok(Answer { operation: 0, outcome: None, keys: None })),
                    Err(failure) => self.fail(failure, out),
                }
            }
            Err(failure) => self.fail(failure, out),
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<u8>) -> Go {
        if !self.work.rolls_back_after(&failure) || !self.protocol.may_be_in_transaction() {
            return Go::Ended(Err(failure));
        }
        self.protocol.write_rollback(out);
        self.stage = Stage::RolledBack(failure);
        Go::Send
    }
}

impl<P: Protocol> Dialogue for Conversation<P> {
    /// Does nothing: the session was opened with a login.
    fn greet(&mut self, _: &mut Vec<u8>) {}

    fn hear_greeting(&mut self, input: &[u8]) -> Parsed {
        Parsed::garbage(input)
    }

    fn ask(&mut self, random: Random, _: &mut Vec<u8>) {
        self.execution.begin(&self.work, random);
        self.stage = Stage::Turn;
    }

    fn begin(&mut self, start_ns: u64) {
        self.laps.begin(start_ns);
    }

    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed {
        let wanted = if matches!(self.stage, Stage::Asked(_)) { self.execution.wanted() } else { None };
        let (taken, answer) = self.protocol.hear(input, is_end, wanted);
        let Some(answer) = answer else { return Parsed { taken, answer: None } };
        let failure = answer.err();
        self.stage = match (std::mem::replace(&mut self.stage, Stage::Turn), failure) {
            (_, Some(failure)) if failure.class == FailureClass::Connection => {
                return Parsed { taken, answer: Some(Err(failure)) };
            }
            (Stage::Asked(operation), None) => {
                self.laps.end_operation(operation);
                Stage::Turn
            }
            (Stage::Asked(_), Some(failure)) => Stage::Failed(self.execution.placed(&self.work, failure)),
            // If the rollback failed, the next statement reports it.
            (Stage::RolledBack(failure), _) => return Parsed { taken, answer: Some(Err(failure)) },
            _ => return Parsed::garbage(input),
        };
        Parsed { taken, answer: None }
    }

    fn go_on(&mut self, out: &mut Vec<u8>) -> Go {
        match std::mem::replace(&mut self.stage, Stage::Turn) {
            Stage::Turn => self.turn(out),
            Stage::Rests => {
                self.laps.rested();
                self.turn(out)
            }
            Stage::Failed(failure) => self.fail(failure, out),
            waits @ (Stage::Asked(_) | Stage::RolledBack(_)) => {
                self.stage = waits;
                Go::Wait
            }
        }
    }

    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        let (taken, failure) = self.protocol.hear_unasked(input);
        Parsed { taken, answer: failure.map(Err) }
    }

    fn laps(&self) -> Option<&Laps> {
        Some(&self.laps)
    }

    fn give_up(&self) {
        self.protocol.give_up();
    }
}
