//! lockstat of Solaris 8 and 10, illumos and FreeBSD: which lock was waited for, spun on or held, by whom, how long.
//!
//! The text hides the number that matters: how much of the machine a lock costs. [`judge`] computes it, and only where
//! it can be computed: time blocked is waiting and not CPU, time held is work, and what Solaris 8 and 10 print for a
//! spin are iterations of a loop and no time at all.
//!
//! Told apart are the forms of all options but `-I`, whose events are no lock's and are left out with a note:
//! `-b` (no time), `-h` and `-s` (histograms, stacks), `-R` (rates), `-g` (every function on the stack is charged),
//! `-w` and `-W` (hottest caller, hottest lock), `-c`, `-k`, `-P`, `-D`, `-p` (no header, totals) and `-T` (a trace).
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

/// All that one run of the tool printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The line it begins at.
    pub line: u64,
    /// How it was printed.
    pub form: Form,
    /// How long the tool watched, where the form tells.
    pub elapsed_s: Option<f64>,
    /// One a kind of event, as read.
    pub sections: Vec<Section>,
    /// Why records were lost: if any were, every number is a lower bound.
    pub lost: Vec<Note>,
}

/// How a run was printed.
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

/// One kind of event.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The line it begins at.
    pub line: u64,
    /// What happened.
    pub event: Event,
    /// How many events there were in all; `None` where the form does not tell.
    pub events: Option<u64>,
    /// What [`Lock::count`] counts.
    pub counts: Counts,
    /// The unit of the times, as printed.
    pub unit: Unit,
    /// What the percentages are of.
    pub percent: Percent,
    /// `-W`: each row sums up all locks and names the hottest.
    pub hottest_lock: bool,
    /// `-w`: each row sums up all callers and names the hottest.
    pub hottest_caller: bool,
    /// The rows.
    pub locks: Vec<Lock>,
}

/// What a count counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Events.
    Events,
    /// `-R`: events a second, cut to a whole number.
    PerSecond,
}

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nsec,
    /// Nanoseconds, as every lockstat since illumos prints them: the form itself does not tell.
    NsecAssumed,
    /// Turns of a spin loop: no time.
    Spins,
    /// Nothing was timed (`-b`, or a trace of DTrace's lockstat).
    Untimed,
}

/// What the percentages of a section are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percent {
    /// The number of events.
    Count,
    /// `-P`: the time.
    Time,
    /// `-g`: the number of events, each charged to every function on its stack. Rows overlap.
    Generated,
    /// The form has none, or they do not tell.
    Unknown,
}

/// One row: a lock and who called.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The line of the row.
    pub line: u64,
    /// Events, or events a second: [`Section::counts`] says which.
    pub count: u64,
    /// The share as printed, in percent.
    pub share_pct: Option<u64>,
    /// The mean reference count: 1.00 in Solaris 8, 0.00 since DTrace.
    pub references: Option<f64>,
    /// The lock's name or address. May hold blanks (FreeBSD), may be empty.
    pub lock: String,
    /// The caller.
    pub caller: String,
    /// How long it took.
    pub time: Time,
    /// Bins as printed: the bound and the count. Since DTrace the bound is the upper one, and not part of the bin.
    pub histogram: Vec<(u64, u64)>,
    /// Callers of the caller, innermost first.
    pub stack: Vec<String>,
}

/// How long events took, in the section's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Not measured.
    Unmeasured,
    /// Per event, cut to a whole number.
    Mean(u64),
    /// All events together (`-p`, `-T`).
    Total(u64),
}

/// What is found, as it is found.
#[derive(Debug)]
pub enum Found<'a> {
    /// A complete run.
    Run(&'a Run),
    /// Something a reader should know.
    Note(Note),
}

/// Receives what is found; an error of its own ends the import.
pub type Sink<'s> = dyn FnMut(Found<'_>) -> io::Result<()> + 's;

impl Section {
    /// Events that the rows hold, and that the title promises, where the rows hold fewer: `-D` has cut the table.
    ///
    /// `None` where nothing is cut, or where it cannot be told (rates, overlapping rows, no rows, no title).
    pub fn cut(&self) -> Option<(u64, u64)> {
        let (shown, events) = self.shown_of()?;
        Some((u64::try_from(shown).ok()?, events)).filter(|(shown, events)| shown < events)
    }

    /// Why the rows cannot be true: they hold more events than their title.
    pub(crate) fn surplus(&self) -> Option<Note> {
        let (shown, events) = self.shown_of().filter(|(shown, events)| *shown > u128::from(*events))?;
        let text = format!(
            "{}: the rows hold {shown} events, more than the {events} of their title",
            self.event.name
        );
        Some(Note { line: self.line, text })
    }

    /// Events of the rows, and of the title, if the rows are parts of it.
    fn shown_of(&self) -> Option<(u128, u64)> {
        let rows = !self.locks.is_empty();
        let comparable = rows && self.counts == Counts::Events && self.percent != Percent::Generated;
        let events = self.events.filter(|_| comparable)?;
        Some((self.locks.iter().map(|lock| u128::from(lock.count)).sum(), events))
    }
}

impl Lock {
    /// The time of all events together, in the section's unit; `None` if it was not measured or `count` is a rate.
    pub fn total_time(&self, counts: Counts) -> Option<f64> {
        match (self.time, counts) {
            (Time::Mean(mean), Counts::Events) => Some(self.count as f64 * mean as f64),
            (Time::Total(total), Counts::Events) => Some(total as f64),
            _ => None,
        }
    }

    /// The time of one event, in the section's unit.
    pub fn mean_time(&self) -> Option<f64> {
        match self.time {
            Time::Unmeasured => None,
            Time::Mean(mean) => Some(mean as f64),
            Time::Total(total) => (self.count > 0).then(|| total as f64 / self.count as f64),
        }
    }
}
