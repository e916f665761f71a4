//! Each import as a table, as CSV and as JSON.
//!
//! A table keeps the columns of the tool that printed the input. JSON is a stable format: its names carry
//! units, and a missing value is `null` with its reason in `missing`.

pub mod csv;
pub mod json;
pub mod text;

use crate::error::{ImportError, Note};
use crate::solaris::lockstat::{By, Machine, Run, THREADS_MAX, UTIL_MAX};
use crate::solaris::mpstat::{Aggregate, COLUMNS, Rates, Row, Sample, Subject, aggregate};
use crate::solaris::plockstat;
use crate::vmstat_s::Interval;
use std::io;

/// Receives the blocks of an mpstat log, one by one.
pub trait Samples {
    /// Takes the next block.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn sample(&mut self, sample: &Sample) -> io::Result<()>;

    /// Called at the end of the log, with the `error` that ended it early, if any.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// Receives the runs of a lockstat log, one by one.
pub trait Runs {
    /// Takes the next run.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn run(&mut self, run: &Run) -> io::Result<()>;

    /// Called at the end of the log, with the `error` that ended it early, if any.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// Receives the intervals between snapshots, one by one.
pub trait Intervals {
    /// Takes the next interval.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn interval(&mut self, interval: &Interval) -> io::Result<()>;

    /// Called at the end of the log, with the `error` that ended it early, if any.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// Selects what to show of an mpstat log.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct MpstatView {
    /// Method that combines the rates of CPUs.
    pub rates: Rates,
    /// A CPU counts as full from this utilization on, in percent.
    pub full_pct: f64,
    /// Whether to name the full CPUs below each sample.
    pub name_full: bool,
    /// Whether to show the error bound of each value.
    pub errors: bool,
    /// Whether to show the mean over the samples at the end.
    pub mean: bool,
    /// Whether samples that average since boot count in that mean.
    pub boot: bool,
    /// Whether to show the dates.
    pub times: bool,
    /// Whether to print a line for each processor set instead of one for all.
    pub by_set: bool,
}

/// Selects what to show of a lockstat log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockstatView {
    /// Facts about the machine that the log does not contain.
    pub machine: Machine,
    /// Attribute by which rows are grouped; `None` shows each row.
    pub by: Option<By>,
    /// Whether to draw the histograms.
    pub histograms: bool,
    /// Whether to print the stacks.
    pub stacks: bool,
}

/// A whole plockstat log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlockstatLog {
    /// Sections in the order read.
    pub sections: Vec<plockstat::Section>,
    /// Notes on lost records.
    pub lost: Vec<Note>,
}

/// Selects what to show of a plockstat log, and adds facts that the log does not contain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlockstatView {
    /// Number of CPUs of the machine.
    pub cpus: Option<u32>,
    /// Time that plockstat watched, in seconds.
    pub elapsed_s: Option<f64>,
    /// Whether to draw the histograms.
    pub histograms: bool,
    /// Whether to print the stacks.
    pub stacks: bool,
}

impl PlockstatView {
    /// Returns costs that no machine can have, each with its line: more CPU time than the CPUs have, or more
    /// threads than fit.
    pub fn impossible(&self, log: &PlockstatLog) -> Vec<crate::Note> {
        let Some(elapsed_s) = self.elapsed_s else { return Vec::new() };
        let util = |total_ns: f64| self.cpus.map(|cpus| total_ns / (1e9 * elapsed_s * f64::from(cpus)));
        let is_over = |util: &f64| *util > UTIL_MAX;
        let of_row = |kind: plockstat::Kind, lock: &plockstat::Lock| {
            let threads = lock.total_ns() / (1e9 * elapsed_s);
            let text = match util(lock.total_ns()).filter(|_| kind.is_cpu()).filter(is_over) {
                Some(util) => self.util_sentence(util),
                None if threads > THREADS_MAX => {
                    format!("{threads:.3e} threads at once: the time, the count or the elapsed time is wrong")
                }
                None => return None,
            };
            Some(crate::Note { line: lock.line, text })
        };
        let rows = || log.sections.iter().flat_map(|s| s.locks.iter().map(move |lock| (s.kind, lock)));
        let mut found: Vec<crate::Note> = rows().filter_map(|(kind, lock)| of_row(kind, lock)).collect();
        let spun_ns = rows().filter(|(kind, _)| kind.is_cpu()).map(|(_, lock)| lock.total_ns()).sum();
        if let Some(total) = util(spun_ns).filter(is_over).filter(|_| found.is_empty()) {
            let line = rows().next().map_or(1, |(_, lock)| lock.line);
            found.push(crate::Note { line, text: format!("in all, {}", self.util_sentence(total)) });
        }
        found
    }

    fn util_sentence(&self, util: f64) -> String {
        let cpus = self.cpus.unwrap_or(0);
        format!(
            "CPU-util {util:.3} exceeds all {cpus} CPUs: the number of CPUs (-n) or the elapsed time is wrong"
        )
    }
}

/// Formats a number as short as reading it back allows, with at least one decimal: `7.0`, `114.25`.
///
/// A value that needs more than ten decimals (a third) is rounded to six; the tools print fewer.
pub fn shortest(value: f64) -> String {
    let mut text = String::new();
    push_shortest(&mut text, value);
    text
}

/// Appends the result of [`shortest`].
pub(crate) fn push_shortest(text: &mut String, value: f64) {
    // Most cells are small whole numbers, which need no search for the shortest digits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the next line tells whether it fits"
    )]
    let whole = value as u32;
    if f64::from(whole).to_bits() == value.to_bits() {
        push_whole(text, whole);
        text.push_str(".0");
        return;
    }
    let exact = format!("{value:?}");
    let decimals = exact.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if decimals <= 10 && !exact.contains('e') {
        text.push_str(&exact);
        return;
    }
    let rounded = format!("{value:.6}");
    let trimmed = rounded.trim_end_matches('0');
    text.push_str(trimmed);
    if trimmed.ends_with('.') {
        text.push('0');
    }
}

/// Appends the digits of `number` without `fmt`, which would take most of the time of a large log.
pub(crate) fn push_whole(text: &mut String, mut number: u32) {
    let mut digits = ['0'; 10];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = char::from_digit(number % 10, 10).expect("below ten");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(&digits[begin..]);
}

/// Sums of the samples that count in a mean, by column.
///
/// Holds back the last sample, since a live log may replace it with one that has more rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Means {
    samples: u64,
    sums: [f64; COLUMNS.len()],
    known: [u64; COLUMNS.len()],
    cpus: f64,
    last: Option<Aggregate>,
}

impl Means {
    /// Adds a sample. One that averages since boot counts only with `boot`, a truncated one never.
    pub(crate) fn take(&mut self, sample: &Sample, rates: Rates, boot: bool) {
        if !sample.replaces_previous {
            self.settle();
        }
        let counts = !sample.cut && (boot || sample.since_boot.is_none());
        self.last = counts.then(|| sample.aggregate(rates));
    }

    fn settle(&mut self) {
        let Some(last) = self.last.take() else { return };
        self.samples += 1;
        self.cpus += f64::from(last.cpus);
        for (column, value) in last.values.into_iter().enumerate() {
            if let Some(value) = value {
                self.sums[column] += value;
                self.known[column] += 1;
            }
        }
    }

    /// Returns the number of samples that count, the mean number of CPUs and the mean of each column; `None`
    /// if no sample counts.
    pub(crate) fn end(&mut self) -> Option<(u64, f64, [Option<f64>; COLUMNS.len()])> {
        self.settle();
        if self.samples == 0 {
            return None;
        }
        let mut means = [None; COLUMNS.len()];
        for (column, mean) in means.iter_mut().enumerate() {
            *mean = (self.known[column] > 0).then(|| self.sums[column] / self.known[column] as f64);
        }
        Some((self.samples, self.cpus / self.samples as f64, means))
    }
}

/// Returns the sample as one row, or as one row for each processor set.
pub(crate) fn parts(sample: &Sample, view: &MpstatView) -> Vec<(Option<i32>, Aggregate)> {
    if !view.by_set {
        return vec![(None, sample.aggregate(view.rates))];
    }
    let set_of = |row: &Row| match row.subject {
        Subject::Set => i32::try_from(row.id).ok(),
        Subject::Cpu => row.set,
    };
    let mut sets: Vec<Option<i32>> = sample.rows.iter().map(set_of).collect();
    sets.sort_unstable();
    sets.dedup();
    let one = |set| {
        (set, aggregate(sample.rows.iter().filter(|row| set_of(row) == set), sample.columns, view.rates))
    };
    sets.into_iter().map(one).collect()
}

/// Returns the word for a row's subject.
pub(crate) fn subject(row: &Row) -> &'static str {
    match row.subject {
        Subject::Cpu => "CPU",
        Subject::Set => "set",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, text) in [
            (7.0, "7.0"),
            (114.25, "114.25"),
            (70.0 / 256.0, "0.2734375"),
            (1.0 / 1024.0, "0.0009765625"),
            (100.0 / 3.0, "33.333333"),
            (2.0 / 3.0, "0.666667"),
            (0.0, "0.0"),
            (1e20, "100000000000000000000.0"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }
}
