//! Drivers over an [`Exchange`]: one thread per connection, or many connections on one thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;

use super::exchange::{Exchange, open, open_for};
use super::interface::{Driver, Look};
use crate::connection::{Attempt, Connection, Cut, Failure, Idle, OperationShare};
use crate::net::{Dialogue, Multiplex, Opening, Talk, closed};
use crate::workload::tables::Cache;

/// Driver with one thread per connection, over an [`Exchange`].
pub(crate) struct Net<E>(pub(crate) Arc<E>);

struct Blocking(Talk);

impl<E: Exchange + 'static> Driver for Net<E> {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        Ok(Box::new(Blocking(open(&*self.0, cut)?)))
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        self.0.look(&mut open_for(&*self.0, self.0.look_dialogue()?, cut)?)
    }

    fn operations(&self) -> Vec<OperationShare> {
        self.0.operations()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        self.0.outcomes()
    }

    fn cache(&self, cut: &Cut) -> Result<Option<Box<dyn Cache>>, Failure> {
        Ok(self.0.cache(open(&*self.0, cut)?))
    }

    fn multiplex(&self) -> Option<&dyn Multiplex> {
        Some(self)
    }
}

impl<E: Exchange + 'static> Multiplex for Net<E> {
    fn open(&self, cut: &Cut) -> Result<(Socket, Box<dyn Dialogue>), Failure> {
        open(&*self.0, cut)?.into_parts()
    }

    fn begin_open(&self, attempt: usize) -> Result<Opening, Failure> {
        let dialogue = self.0.dialogue()?;
        Ok(Opening::Connecting(self.0.endpoint().begin_connect(attempt)?, dialogue))
    }

    fn cannot_connect(&self, error: &io::Error) -> Failure {
        self.0.endpoint().cannot_connect(error)
    }

    fn closes_idle(&self) -> bool {
        self.0.closes_idle()
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }
}

impl Connection for Blocking {
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure> {
        let answer = self.0.exchange(attempt.random.clone());
        if let Ok(answer) = &answer {
            attempt.laps.end_operation(answer.operation);
            attempt.laps.note_outcome(answer);
        }
        answer.map(drop)
    }

    fn has_heard(&self) -> bool {
        self.0.has_heard()
    }

    fn idle(&mut self, has_rested: bool) -> Idle {
        if !has_rested && !self.0.closes_idle {
            return Idle::Stands;
        }
        match self.0.look_idle() {
            Ok(()) => Idle::Stands,
            // A reset is a loss: the server, or what lies between, broke it.
            Err(failure) if self.0.closes_idle && (failure == closed() || self.0.closes()) => Idle::Closed,
            Err(failure) => Idle::Lost(failure),
        }
    }
}
