//! What a target must be able to do to be driven. A new driver is one file here and one line in [`SCHEMES`].
//!
//! A driver is what all workers share: the target, read and understood. Each worker has a [`Connection`] of its own,
//! made and used on its own thread, one event at a time.

pub(crate) mod cache;
pub mod dd;
pub(crate) mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub(crate) mod hosts;
mod http;
pub(crate) mod null;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod readers;
pub(crate) mod sql;

use std::borrow::Cow;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use record::clock::Clock;
use record::load::{LoadSettings, Workload};
use record::missing::Maybe;
use record::target::Target;

use crate::conduct::dataset::{Cache, Store};
use crate::net::address::ServerAddress;
use crate::schedule::random::Random;

/// Every kind of target there is.
pub(crate) const SCHEMES: &[&Scheme] = &[
    &sql::sqlite::SCHEME,
    &sql::mysql::SCHEME,
    &sql::postgres::SCHEME,
    &cache::memcached::SCHEME,
    &cache::memcached::TLS_SCHEME,
    &cache::memcached::UNIX_SCHEME,
    &cache::redis::SCHEME,
    &cache::redis::TLS_SCHEME,
    &cache::redis::UNIX_SCHEME,
    &http::SCHEME,
    &http::TLS_SCHEME,
    &exec::SCHEME,
    &null::SCHEME,
];

/// A kind of target.
pub(crate) struct Scheme {
    /// What stands before the colon.
    pub(crate) name: &'static str,
    /// How it is written.
    pub(crate) form: &'static str,
    /// What its events can do; the first is what they do where nobody says.
    pub(crate) workloads: &'static [Workload],
    /// Judges the form of a target, without connecting; the problem says what to write instead.
    pub(crate) check: fn(&Target) -> Result<(), String>,
    /// Where its server takes connections; `None` if it has none, or the target is none.
    pub(crate) address: fn(&LoadSettings) -> Option<ServerAddress>,
    /// The driver of a target whose form is good.
    pub(crate) open: fn(&LoadSettings) -> Result<Arc<dyn Driver>, Failure>,
}

/// A target, read and understood; shared by all workers.
pub(crate) trait Driver: Send + Sync {
    /// Opens one worker's connection, ready for its first event.
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure>;

    /// Looks at the target before any worker does: whether it is there and what it calls itself.
    fn look(&self, cut: &Cut) -> Result<Look, Failure>;

    /// So many connections will be made before the load begins.
    fn expect(&self, _connections: u32) {}

    /// The operations inside an event; empty where it has none.
    fn operations(&self) -> Vec<OperationShare>;

    /// The ways in which events that end well are told apart, such as hits and misses; empty where there is one.
    fn outcomes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The cache that has to be filled and settled before the load, on a connection of its own; `None` where there is
    /// none.
    fn cache(&self, _: &Cut) -> Result<Option<Box<dyn Cache>>, Failure> {
        Ok(None)
    }

    /// Whether an event is a command, which starts with the priority that this process had.
    fn starts_commands(&self) -> bool {
        false
    }

    /// Sockets that this many connections take in this process.
    fn sockets(&self, connections: u32) -> u32 {
        connections
    }

    /// How one thread drives many connections; `None` where each connection needs a thread of its own.
    fn multiplex(&self) -> Option<&dyn crate::net::Multiplex> {
        None
    }
}

/// What a first look at a target found.
pub(crate) struct Look {
    /// What the server calls itself.
    pub(crate) version: Maybe<String>,
    /// Where its data set is kept; `None` where it has none.
    pub(crate) store: Option<Box<dyn Store>>,
}

/// One operation and how often an event does it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperationShare {
    /// As in records and files: no blanks, no commas.
    pub(crate) name: Cow<'static, str>,
    /// On average; `None` where only the events themselves decide.
    pub(crate) per_event: Option<f64>,
    /// At most, in one event.
    pub(crate) per_event_max: u32,
}

impl OperationShare {
    /// An operation that every event does `per_event` times.
    pub(crate) fn always(name: &'static str, per_event: u32) -> Self {
        Self { name: name.into(), per_event: Some(per_event.into()), per_event_max: per_event }
    }
}

/// One worker's way to the target. Made and used on one thread.
pub(crate) trait Connection {
    /// Does one event, once; timed from the outside.
    fn run(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Failure>;

    /// Looks, without waiting, what became of it between two events.
    ///
    /// - `has_rested`: its worker has slept since the last event.
    fn idle(&mut self, _has_rested: bool) -> Idle {
        Idle::Stands
    }
}

/// What became of a connection between two events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Idle {
    Stands,
    /// The server has closed it, as servers of this kind do with what is not in use: no failure, but the next event needs
    /// another.
    Closed,
    /// It broke, or the server has ended it.
    Lost(Failure),
}

/// One try of one event.
pub(crate) struct Attempt<'a> {
    /// The event's own chance: the same at each try.
    pub(crate) random: Random,
    /// Where operations are timed.
    pub(crate) laps: &'a mut Laps,
}

/// Stamps between the operations of an event, in room made beforehand.
pub(crate) struct Laps {
    clock: Arc<dyn Clock + Send + Sync>,
    /// Whether the run has given up its connection.
    is_cut: Arc<AtomicBool>,
    start_ns: u64,
    last_ns: u64,
    taken: Vec<(usize, u64)>,
    outcomes: [(usize, u64); 2],
}

impl Laps {
    /// Room for the operations of one event.
    pub(crate) fn new(
        clock: Arc<dyn Clock + Send + Sync>,
        operations: &[OperationShare],
        is_cut: Arc<AtomicBool>,
    ) -> Self {
        let room = operations.iter().map(|o| o.per_event_max as usize).sum();
        Self {
            clock,
            is_cut,
            start_ns: 0,
            last_ns: 0,
            taken: Vec::with_capacity(room),
            outcomes: [(0, 0); 2],
        }
    }

    /// Begins a try at `start_ns`.
    pub(crate) fn begin(&mut self, start_ns: u64) {
        self.taken.clear();
        self.outcomes = [(0, 0); 2];
        (self.start_ns, self.last_ns) = (start_ns, start_ns);
    }

    /// Ends an operation: number `operation` of [`Driver::operations`]; the next one begins.
    pub(crate) fn end_operation(&mut self, operation: usize) {
        assert!(self.taken.len() < self.taken.capacity(), "more operations than the driver announced");
        let now_ns = self.clock.now_ns();
        self.taken.push((operation, now_ns - self.last_ns));
        self.last_ns = now_ns;
    }

    /// Notes how the event ended.
    pub(crate) fn note_outcome(&mut self, answer: &crate::net::Answer) {
        self.outcomes = match (answer.keys, answer.outcome) {
            (Some(crate::net::Keys { found, missed }), _) => [(0, found), (1, missed)],
            (None, Some(outcome)) => [(outcome, 1), (0, 0)],
            (None, None) => [(0, 0); 2],
        };
    }

    /// What was noted: numbers of [`Driver::outcomes`], and how often each was.
    pub(crate) fn outcomes(&self) -> [(usize, u64); 2] {
        self.outcomes
    }

    /// Ends an operation that spans the others, from the beginning of the try to the end of the last of them.
    pub(crate) fn end_span(&mut self, operation: usize) {
        assert!(self.taken.len() < self.taken.capacity(), "more operations than the driver announced");
        self.last_ns = self.end_ns();
        self.taken.push((operation, self.last_ns - self.start_ns));
    }

    /// Ends a rest, within the event; no operation lasted meanwhile.
    pub(crate) fn rested(&mut self) {
        self.last_ns = self.clock.now_ns();
    }

    /// Waits, within the event; no operation lasts meanwhile.
    pub(crate) fn rest(&mut self, for_ns: u64) {
        let until_ns = self.clock.now_ns().saturating_add(for_ns);
        loop {
            let now_ns = self.clock.now_ns();
            self.last_ns = now_ns;
            if now_ns >= until_ns || self.is_cut.load(Ordering::SeqCst) {
                return;
            }
            self.clock.sleep_until_ns(until_ns.min(now_ns + REST_SLICE_NS));
        }
    }

    /// The end of the last operation, or now where the event has none.
    pub(crate) fn end_ns(&self) -> u64 {
        if self.taken.is_empty() { self.clock.now_ns() } else { self.last_ns }
    }

    /// Each operation's number and service time.
    pub(crate) fn taken(&self) -> &[(usize, u64)] {
        &self.taken
    }
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// In the server's words, and where it is a configuration, what to do.
    pub(crate) text: String,
    /// Whether a class that may pass is a reason to try again: false where the server may have done already what must not
    /// be done twice.
    pub(crate) may_repeat: bool,
    /// Number of the outcome, of those of [`Driver::outcomes`], where an answer came that has one.
    pub(crate) outcome: Option<usize>,
    /// Number of the operation that was timed out, of those of [`Driver::operations`].
    pub(crate) operation: Option<usize>,
}

/// What can be done about a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// Try again.
    Transient,
    /// Connect again, then try again.
    Connection,
    /// Ask on another connection: the server has not begun it, and begins nothing more on this one. Neither an error nor a retry.
    Unprocessed,
    /// Nothing: this event has failed.
    Application,
    /// Nothing: the answer was wrong.
    Verify,
    /// Nothing: the event was given up after its time-out. Its connection is not used again, because the answer may still
    /// come.
    Timeout,
    /// The user must change something.
    Configuration,
    /// This machine must change.
    Machine,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), may_repeat: true, outcome: None, operation: None }
    }
}

/// A rest within an event is cut into slices of this, so that a stop is seen.
const REST_SLICE_NS: u64 = 20_000_000;

/// How a hung connection is cut from outside. A clone cuts the same one.
#[derive(Clone, Default)]
pub(crate) struct Cut {
    action: Arc<Mutex<Option<CutAction>>>,
    is_cut: Arc<AtomicBool>,
}

type CutAction = Box<dyn Fn() + Send>;

impl Cut {
    /// Says how to cut the connection that was just made; replaces what was said before. Where the run was given up
    /// meanwhile it is cut at once: nobody comes again to do so.
    pub(crate) fn arm(&self, cut: impl Fn() + Send + 'static) {
        let mut action = self.action.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cut.load(Ordering::SeqCst) {
            cut();
        }
        *action = Some(Box::new(cut));
    }

    /// Arms with a `shutdown(2)` of a socket: a blocked read or write returns at once.
    pub(crate) fn arm_socket(&self, socket: OwnedFd) {
        self.arm_socket_and(socket, || {});
    }

    /// The same, and then does something that may not block.
    pub(crate) fn arm_socket_and(&self, socket: OwnedFd, then: impl Fn() + Send + 'static) {
        // Whatever its family: shutdown does not look at addresses.
        let socket = TcpStream::from(socket);
        self.arm(move || {
            // An error says that it is disconnected already.
            let _ = socket.shutdown(Shutdown::Both);
            then();
        });
    }

    /// Whether it was cut, for whoever waits for something else than the connection.
    pub(crate) fn is_cut(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_cut)
    }

    /// There is nothing to cut any more.
    pub(crate) fn disarm(&self) {
        *self.action.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Cuts the connection, where there is one.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        if let Some(cut) = &*self.action.lock().unwrap_or_else(PoisonError::into_inner) {
            cut();
        }
    }
}

/// The kind of target that `target` is.
pub(crate) fn scheme_of(target: &Target) -> Option<&'static Scheme> {
    SCHEMES.iter().copied().find(|s| s.name == target.scheme())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_made_after_the_cut_is_cut_too() {
        let (cut, count) = (Cut::default(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
        let arm = || {
            let count = Arc::clone(&count);
            cut.clone().arm(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            cut.is_cut().load(Ordering::SeqCst)
        };
        assert!(!arm());
        assert_eq!(count.load(Ordering::SeqCst), 0);
        cut.cut();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert!(arm());
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}
