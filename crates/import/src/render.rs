//! Each import as a table for people, as CSV and as JSON.
//!
//! These forms are the imports' own: a table keeps the columns of the tool that it came from. JSON is a promise: its
//! names carry units, and what is missing is `null` with its reason in `missing`.

pub mod csv;
pub mod json;
pub mod text;

use crate::error::{ImportError, Note};
use crate::solaris::lockstat::{By, Machine, Run, THREADS_MAX, UTIL_MAX};
use crate::solaris::mpstat::{Aggregate, COLUMNS, Rates, Row, Sample, Subject, aggregate};
use crate::solaris::plockstat;
use crate::vmstat_s::Interval;
use std::io;

/// Receives the blocks of an mpstat log as they come.
pub trait Samples {
    /// Takes the next block.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn sample(&mut self, sample: &Sample) -> io::Result<()>;

    /// The log has ended, too early if there is an `error`.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// Receives the runs of a lockstat log as they come.
pub trait Runs {
    /// Takes the next run.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn run(&mut self, run: &Run) -> io::Result<()>;

    /// The log has ended, too early if there is an `error`.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// Receives what happened between snapshots, as they come.
pub trait Intervals {
    /// Takes the next interval.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn interval(&mut self, interval: &Interval) -> io::Result<()>;

    /// The log has ended, too early if there is an `error`.
    ///
    /// # Errors
    ///
    /// What writing answers.
    fn end(&mut self, error: Option<&ImportError>) -> io::Result<()>;
}

/// What of an mpstat log is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct MpstatView {
    /// How rates become one number.
    pub rates: Rates,
    /// A CPU counts as full from this share on, in percent.
    pub full_pct: f64,
    /// Name the full CPUs below each sample.
    pub name_full: bool,
    /// Show how far each value can be off.
    pub errors: bool,
    /// Show the mean over the samples at the end.
    pub mean: bool,
    /// Let samples that average since boot count in that mean.
    pub boot: bool,
    /// Show the dates.
    pub times: bool,
    /// A line for each processor set instead of one for all.
    pub by_set: bool,
}

/// What of a lockstat log is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockstatView {
    /// What the text does not tell.
    pub machine: Machine,
    /// What rows are put together by; `None` shows each.
    pub by: Option<By>,
    /// Draw the histograms.
    pub histograms: bool,
    /// Print the stacks.
    pub stacks: bool,
}

/// All that a plockstat log holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlockstatLog {
    /// As read.
    pub sections: Vec<plockstat::Section>,
    /// Why records were lost.
    pub lost: Vec<Note>,
}

/// What of a plockstat log is shown, and what it does not tell itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlockstatView {
    /// How many CPUs the machine had.
    pub cpus: Option<u32>,
    /// How long plockstat watched.
    pub elapsed_s: Option<f64>,
    /// Draw the histograms.
    pub histograms: bool,
    /// Print the stacks.
    pub stacks: bool,
}

impl PlockstatView {
    /// Costs that no machine can have, each with its line: more CPU time than there are CPUs, more threads than fit.
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
            "CPU-util {util:.3} is more than all of {cpus} CPUs: the number of CPUs (-n) or the elapsed time is wrong"
        )
    }
}

/// A number as short as reading it back allows, but with at least one decimal: `7.0`, `114.25`.
///
/// What does not end within ten decimals (a third) is rounded to six: the input was rounded to none.
pub fn shortest(value: f64) -> String {
    let mut text = String::new();
    push_shortest(&mut text, value);
    text
}

/// Adds what [`shortest`] gives.
pub(crate) fn push_shortest(text: &mut String, value: f64) {
    // Most cells are small whole numbers, and those need no search for the shortest digits.
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

/// Adds the digits of `number`, without the formatting machinery, which would take most of the time of a large log.
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

/// The sum of the samples that count in a mean, column by column.
///
/// The last sample is held back, for a live log may hand it on again with more rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Means {
    samples: u64,
    sums: [f64; COLUMNS.len()],
    known: [u64; COLUMNS.len()],
    cpus: f64,
    last: Option<Aggregate>,
}

impl Means {
    /// Takes a sample; one that averages since boot counts only with `boot`, one that is cut never.
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

    /// How many samples count, the mean number of CPUs and the mean of each column; `None` if no sample counts.
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

/// The sample as one row, or as one for each processor set.
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

/// What a row is about, in a word.
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
