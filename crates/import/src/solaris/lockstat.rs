//! lockstat of Solaris 8 and 10, illumos and FreeBSD: the locks that threads waited for, spun on or held, the
//! callers, and the times.
//!
//! lockstat does not print the most useful number: the share of the machine that a lock costs. [`judge`]
//! computes it if the log allows it. Time blocked is waiting and not CPU time, time held is work, and Solaris
//! 8 and 10 print a spin as iterations of a loop, which are not a time.
//!
//! All options are supported except `-I`: its events are not those of a lock, and are skipped with a note.
//! `-b` (no time), `-h` and `-s` (histograms, stacks), `-R` (rates), `-g` (every function on the stack is
//! charged), `-w` and `-W` (hottest caller, hottest lock), `-c`, `-k`, `-P`, `-D`, `-p` (no header, totals)
//! and `-T` (a trace).
//!
//! # Source
//!
//! illumos-gate, `usr/src/cmd/lockstat/lockstat.c`, and the same file in FreeBSD; lockstat(8).

mod cells;
mod event;
mod judge;
mod line;
mod parser;
mod section;

pub use event::{Class, Event};
pub use judge::{By, Group, Judged, Machine, Merits, Verdict, group, judge};
pub(crate) use judge::{THREADS_MAX, UTIL_MAX};
pub(crate) use line::is_section;
pub use parser::read;

use crate::error::Note;
use std::io;

/// Output of one run of the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Line at which it begins.
    pub line: u64,
    /// Form of the output.
    pub form: Form,
    /// Seconds that the tool watched, if the form contains them.
    pub elapsed_s: Option<f64>,
    /// One for each kind of event, as read.
    pub sections: Vec<Section>,
    /// Notes on lost records. If there are any, every number is a lower bound.
    pub lost: Vec<Note>,
}

/// Form of a run's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Tables with titles.
    Tables,
    /// `-D 0`: a line for each kind of event.
    Counts,
    /// `-p`: a line for each lock, without titles.
    Parsable,
    /// `-T`: a line for each event.
    Trace,
}

/// Events of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Line at which it begins.
    pub line: u64,
    /// Kind of the events.
    pub event: Event,
    /// Number of all events; `None` if the form does not contain it.
    pub events: Option<u64>,
    /// Unit of [`Lock::count`].
    pub counts: Counts,
    /// Unit of the times, as printed.
    pub unit: Unit,
    /// Base of the percentages.
    pub percent: Percent,
    /// `-W`: each row sums up all locks and names the hottest.
    pub hottest_lock: bool,
    /// `-w`: each row sums up all callers and names the hottest.
    pub hottest_caller: bool,
    /// The rows.
    pub locks: Vec<Lock>,
}

/// Unit of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Events.
    Events,
    /// `-R`: events per second, truncated to a whole number.
    PerSecond,
}

/// Unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nsec,
    /// Nanoseconds, assumed: every lockstat since illumos prints them, but the form does not name a unit.
    NsecAssumed,
    /// Iterations of a spin loop, which are not a time.
    Spins,
    /// Not timed (`-b`, or a trace of DTrace's lockstat).
    Untimed,
}

/// Base of the percentages of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percent {
    /// The number of events.
    Count,
    /// `-P`: the time.
    Time,
    /// `-g`: the number of events, each charged to every function on its stack. Rows overlap.
    Generated,
    /// The form has no percentages, or they fit more than one base.
    Unknown,
}

/// One row: a lock and its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// Line of the row.
    pub line: u64,
    /// Events, or events per second, depending on [`Section::counts`].
    pub count: u64,
    /// Share as printed, in percent.
    pub share_pct: Option<u64>,
    /// Mean reference count: 1.00 in Solaris 8, 0.00 since DTrace.
    pub references: Option<f64>,
    /// Name or address of the lock. May contain blanks (FreeBSD), may be empty.
    pub lock: String,
    /// Name of the calling function, with its offset.
    pub caller: String,
    /// Duration of the events.
    pub time: Time,
    /// Bins as printed: bound and count. Since DTrace the bound is the upper one, exclusive.
    pub histogram: Vec<(u64, u64)>,
    /// Callers of the caller, innermost first.
    pub stack: Vec<String>,
}

/// Duration of events, in the section's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Not measured.
    Unmeasured,
    /// Mean of an event, truncated to a whole number.
    Mean(u64),
    /// Total of all events (`-p`, `-T`).
    Total(u64),
}

/// Result of the parser.
#[derive(Debug)]
pub enum Found<'a> {
    /// A complete run.
    Run(&'a Run),
    /// A remark for the reader.
    Note(Note),
}

/// Receiver of the results. An error that it returns ends the import.
pub type Sink<'s> = dyn FnMut(Found<'_>) -> io::Result<()> + 's;

impl Section {
    /// Returns the number of events in the rows and in the title, if the rows hold fewer: `-D` truncated the
    /// table.
    ///
    /// `None` if the table is complete, or if this is unknown (rates, overlapping rows, no rows, no title).
    pub fn cut(&self) -> Option<(u64, u64)> {
        let (shown, events) = self.shown_of()?;
        Some((u64::try_from(shown).ok()?, events)).filter(|(shown, events)| shown < events)
    }

    /// Reports rows that hold more events than their title, which cannot be true.
    pub(crate) fn surplus(&self) -> Option<Note> {
        let (shown, events) = self.shown_of().filter(|(shown, events)| *shown > u128::from(*events))?;
        let text = format!(
            "{}: the rows hold {shown} events, more than the {events} of their title",
            self.event.name
        );
        Some(Note { line: self.line, text })
    }

    /// Returns the events of the rows and of the title, if the rows are parts of it.
    fn shown_of(&self) -> Option<(u128, u64)> {
        let rows = !self.locks.is_empty();
        let comparable = rows && self.counts == Counts::Events && self.percent != Percent::Generated;
        let events = self.events.filter(|_| comparable)?;
        Some((self.locks.iter().map(|lock| u128::from(lock.count)).sum(), events))
    }
}

impl Lock {
    /// Returns the time of all events, in the section's unit; `None` if it was not measured or `count` is a
    /// rate.
    pub fn total_time(&self, counts: Counts) -> Option<f64> {
        match (self.time, counts) {
            (Time::Mean(mean), Counts::Events) => Some(self.count as f64 * mean as f64),
            (Time::Total(total), Counts::Events) => Some(total as f64),
            _ => None,
        }
    }

    /// Returns the mean time of an event, in the section's unit.
    pub fn mean_time(&self) -> Option<f64> {
        match self.time {
            Time::Unmeasured => None,
            Time::Mean(mean) => Some(mean as f64),
            Time::Total(total) => (self.count > 0).then(|| total as f64 / self.count as f64),
        }
    }
}
