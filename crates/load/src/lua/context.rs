//! The state behind the functions that a script calls: random numbers, counters, connections, the event in
//! progress.

use std::cell::Cell;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::connection::{Cut, Failure, Laps, OperationShare};
use crate::lua::laws::{Laws, Unique};
use crate::lua::server::Server;
use crate::schedule::random::Random;

/// Names of the operations of a script, by the first word of a statement.
pub(crate) const OPERATIONS: [&str; 10] =
    ["select", "insert", "update", "delete", "replace", "begin", "commit", "rollback", "call", "other"];

/// Statements of an event for which there is room from the beginning.
const STATEMENTS_USUAL: u32 = 4_096;

/// The operations as a driver announces them; a script determines how often each occurs.
pub(crate) fn operations() -> Vec<OperationShare> {
    let share = |name: &'static str| OperationShare {
        name: name.into(),
        per_event: None,
        per_event_max: STATEMENTS_USUAL / u32::try_from(OPERATIONS.len()).expect("they are few"),
    };
    OPERATIONS.map(share).into()
}

/// The operation of a statement: an index into [`OPERATIONS`].
pub(crate) fn operation_of(sql: &str) -> usize {
    let word = first_word(sql);
    let is = |name: &&str| word.eq_ignore_ascii_case(name);
    let other = OPERATIONS.len() - 1;
    match word {
        _ if word.eq_ignore_ascii_case("start") => operation("begin"),
        _ if word.eq_ignore_ascii_case("end") => operation("commit"),
        // A common table expression reads, unless what follows it writes: only the server knows.
        _ if word.eq_ignore_ascii_case("with") => operation("select"),
        _ => OPERATIONS.iter().position(is).unwrap_or(other),
    }
}

fn operation(name: &str) -> usize {
    OPERATIONS.iter().position(|n| *n == name).expect("a name of the list")
}

/// The first word, after blanks, parentheses and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        rest = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("--").or(rest.strip_prefix('#')) {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else {
            break;
        };
    }
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    &rest[..end]
}

/// Kinds of statements by their answer, as sysbench counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Other = 0,
    Read = 1,
    Write = 2,
    Error = 4,
    Reconnect = 5,
}

/// Counts of one thread. Only the thread writes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    other: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    errors: AtomicU64,
    reconnects: AtomicU64,
    /// Rows of bulk inserts, those of them that no server has taken, and those when the thread's events were
    /// over.
    rows: AtomicU64,
    rows_waiting: AtomicU64,
    rows_late: OnceLock<u64>,
    before_events: OnceLock<Counts>,
    is_in_event: AtomicBool,
}

/// Counts of all threads at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) other: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) errors: u64,
    pub(crate) reconnects: u64,
    /// Rows of bulk inserts, and those of them that no server had taken, at most until the end of the events.
    pub(crate) rows: u64,
    pub(crate) rows_waiting: u64,
}

impl Counters {
    /// Counts a row of a bulk insert.
    pub(crate) fn add_row(&self) {
        for of in [&self.rows, &self.rows_waiting] {
            of.store(of.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Counts rows of one connection as sent.
    pub(crate) fn rows_are_sent(&self, rows: u64) {
        let waiting = self.rows_waiting.load(Ordering::Relaxed);
        self.rows_waiting.store(waiting - rows, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, counter: Counter) {
        let of = match counter {
            Counter::Other => &self.other,
            Counter::Read => &self.reads,
            Counter::Write => &self.writes,
            Counter::Error => &self.errors,
            Counter::Reconnect => &self.reconnects,
        };
        of.store(of.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts the rows that wait as late: the thread's events are over.
    pub(crate) fn events_are_over(&self) {
        self.rows_late.get_or_init(|| self.rows_waiting.load(Ordering::Relaxed));
    }

    /// Begins an event. Keeps the counts before the first one: those of `thread_init`.
    pub(crate) fn event_begins(&self) {
        self.is_in_event.store(true, Ordering::Relaxed);
        self.before_events.get_or_init(|| {
            let mut counts = Counts::default();
            self.add_to(&mut counts);
            counts
        });
    }

    pub(crate) fn event_ends(&self) {
        self.is_in_event.store(false, Ordering::Relaxed);
    }

    /// Whether the thread runs an event at the moment.
    pub(crate) fn is_in_event(&self) -> bool {
        self.is_in_event.load(Ordering::Relaxed)
    }

    /// Adds the counts before the first event; all counts if none has begun.
    pub(crate) fn add_before_events_to(&self, counts: &mut Counts) {
        let Some(before) = self.before_events.get() else { return self.add_to(counts) };
        counts.other += before.other;
        counts.reads += before.reads;
        counts.writes += before.writes;
        counts.errors += before.errors;
        counts.reconnects += before.reconnects;
        counts.rows += before.rows;
        counts.rows_waiting += before.rows_waiting;
    }

    pub(crate) fn add_to(&self, counts: &mut Counts) {
        counts.other += self.other.load(Ordering::Relaxed);
        counts.reads += self.reads.load(Ordering::Relaxed);
        counts.writes += self.writes.load(Ordering::Relaxed);
        counts.errors += self.errors.load(Ordering::Relaxed);
        counts.reconnects += self.reconnects.load(Ordering::Relaxed);
        counts.rows += self.rows.load(Ordering::Relaxed);
        let waiting = || self.rows_waiting.load(Ordering::Relaxed);
        counts.rows_waiting += self.rows_late.get().copied().unwrap_or_else(waiting);
    }
}

/// Errors that a script may ignore: its event begins again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ignored {
    All,
    Numbers(Vec<i32>),
}

impl Ignored {
    /// Reads numbers, or `all`; `None` if an element is neither.
    pub(crate) fn of(list: &[String]) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let all = list.iter().map(|text| match text.trim() {
            "all" => Some(None),
            text => number(text).map(Some),
        });
        let numbers: Option<Vec<i32>> = all.collect::<Option<Vec<_>>>()?.into_iter().collect();
        Some(numbers.map_or(Self::All, Self::Numbers))
    }

    fn has(&self, errno: i32) -> bool {
        match self {
            Self::All => true,
            Self::Numbers(numbers) => numbers.contains(&errno),
        }
    }
}

/// State that the functions of a Lua state share. Its address stays the same while the state lives.
pub(crate) struct Context {
    pub(crate) random: Random,
    /// The numbers of the last event, from its beginning.
    pub(crate) of_event: Option<Random>,
    pub(crate) laws: Laws,
    pub(crate) unique: Arc<Unique>,
    pub(crate) server: Option<Arc<dyn Server>>,
    pub(crate) ignored: Ignored,
    pub(crate) counters: Arc<Counters>,
    /// Whether statements are prepared on the server.
    pub(crate) is_prepared: bool,
    /// Statements are checked by the server, and not executed.
    pub(crate) is_dry: bool,
    /// Number of statements that were only checked.
    pub(crate) dry_statements: Rc<Cell<u32>>,
    /// Timer of the event in progress; null outside of events.
    pub(crate) laps: *mut Laps,
    /// Cuts of the open connections.
    pub(crate) cuts: Arc<Mutex<Vec<Cut>>>,
    /// The last failure that the script was told of.
    pub(crate) failure: Option<Failure>,
    /// Whether a statement has named a table that does not exist.
    pub(crate) misses_table: bool,
    /// Buffer for texts that a function returns.
    pub(crate) text: Vec<u8>,
}

impl Context {
    /// Begins a try of an event.
    ///
    /// - `random`: the numbers of the event. A further try of the same event continues with other numbers, as
    ///   in
    ///   sysbench: a script that ignores duplicate keys relies on it.
    pub(crate) fn begin(&mut self, random: &Random, laps: &mut Laps) {
        if self.of_event.as_ref() != Some(random) {
            self.of_event = Some(random.clone());
            self.random = random.clone();
        }
        self.laps = ptr::from_mut(laps);
        self.failure = None;
    }

    pub(crate) fn end(&mut self) {
        self.laps = ptr::null_mut();
    }

    /// Begins the timing of a statement: the script's own work belongs to no operation.
    pub(crate) fn begin_statement(&mut self) {
        // SAFETY: `begin` stores a reference that outlives the event, and `end` removes it.
        if let Some(laps) = unsafe { self.laps.as_mut() } {
            laps.rested();
        }
    }

    pub(crate) fn end_statement(&mut self, operation: usize) {
        // SAFETY: as above.
        if let Some(laps) = unsafe { self.laps.as_mut() } {
            laps.end_operation_of_many(operation);
        }
    }

    pub(crate) fn ignores(&self, errno: i32) -> bool {
        self.ignored.has(errno)
    }

    /// Cuts of connections, for the cut of the worker.
    pub(crate) fn cut_all(cuts: &Mutex<Vec<Cut>>) {
        for cut in cuts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            cut.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word() {
        for (sql, name) in [
            ("SELECT 1", "select"),
            (" \n(select 1) union (select 2)", "select"),
            ("/* a select */ Update t SET a = 1", "update"),
            ("-- delete\n# x\nINSERT INTO t VALUES (1)", "insert"),
            ("BEGIN", "begin"),
            ("START TRANSACTION READ ONLY", "begin"),
            ("COMMIT;", "commit"),
            ("end", "commit"),
            ("selection", "other"),
            ("/* never ended", "other"),
            ("", "other"),
        ] {
            assert_eq!(OPERATIONS[operation_of(sql)], name, "{sql}");
        }
    }
}
