//! Comma-separated values (RFC 4180): a header with units in its names, then one line for each record. A
//! missing value is an empty cell.

use super::{
    Intervals, LockstatView, MpstatView, PlockstatLog, PlockstatView, Runs, Samples, parts, subject,
};
use crate::error::ImportError;
use crate::solaris::lockstat::{By, Counts, Judged, Run, Unit, group, judge};
use crate::solaris::mpstat::{COLUMNS, Sample};
use crate::vmstat_s::{Interval, STATES};
use record::csv::write_row;
use record::missing::Maybe;
use std::borrow::Cow;
use std::io::{self, Write};

/// Prints one line for each sample or, if the view names full CPUs, for each full CPU.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Mpstat<'w> {
    out: &'w mut dyn Write,
    view: MpstatView,
    headed: bool,
}

impl<'w> Mpstat<'w> {
    /// Creates a table on `out`.
    pub fn new(out: &'w mut dyn Write, view: MpstatView) -> Self {
        Self { out, view, headed: false }
    }

    fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.headed, true) {
            return Ok(());
        }
        let mut names = vec!["at".to_owned(), "since_boot".into()];
        if self.view.name_full {
            names.extend(["subject", "id", "busy_pct"].map(str::to_owned));
        } else if self.view.by_set {
            names.push("set".into());
        }
        if !self.view.name_full {
            names.push("cpus".into());
        }
        names.extend(COLUMNS.map(str::to_owned));
        if self.view.errors && !self.view.name_full {
            names.extend(COLUMNS.map(|name| format!("{name}_error")));
        }
        write_row(self.out, names.into_iter().map(Cow::Owned))
    }

    fn full(&mut self, sample: &Sample, head: &[String; 2]) -> io::Result<()> {
        for row in sample.saturated(self.view.full_pct) {
            let what = [subject(row).to_owned(), row.id.to_string(), row.busy_pct().to_string()];
            let values = (0..COLUMNS.len()).map(|column| {
                if sample.columns.has(column) { row.values[column].to_string() } else { String::new() }
            });
            write_row(self.out, head.iter().cloned().chain(what).chain(values).map(Cow::Owned))?;
        }
        Ok(())
    }
}

impl Samples for Mpstat<'_> {
    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.head()?;
        let at = sample.at.as_ref().map(ToString::to_string).unwrap_or_default();
        let head = [at, sample.since_boot.is_some().to_string()];
        if self.view.name_full {
            return self.full(sample, &head);
        }
        for (set, part) in parts(sample, &self.view) {
            let mut cells = head.to_vec();
            if self.view.by_set {
                cells.push(set.map(|set| set.to_string()).unwrap_or_default());
            }
            cells.push(part.cpus.to_string());
            cells.extend(part.values.iter().map(|value| value.map(exact).unwrap_or_default()));
            if self.view.errors {
                cells.extend(part.errors.map(exact));
            }
            write_row(self.out, cells.into_iter().map(Cow::Owned))?;
        }
        Ok(())
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        self.head()
    }
}

/// Prints one line for each row of lockstat.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Lockstat<'w> {
    out: &'w mut dyn Write,
    view: LockstatView,
    runs: u64,
}

impl<'w> Lockstat<'w> {
    /// Creates a table on `out`.
    pub fn new(out: &'w mut dyn Write, view: LockstatView) -> Self {
        Self { out, view, runs: 0 }
    }

    /// Prints one line for each pair of lock and caller.
    fn rows(&mut self, run: &Run) -> io::Result<()> {
        const NAMES: [&str; 14] = [
            "run",
            "event",
            "kind",
            "lock",
            "caller",
            "count",
            "count_per_s",
            "nsec_mean",
            "spins_mean",
            "threads",
            "cpu_util_ratio",
            "tainted",
            "histogram",
            "stack",
        ];
        if self.runs == 0 {
            write_row(self.out, NAMES.into_iter().map(Cow::Borrowed))?;
        }
        self.runs += 1;
        let judged = judge(run, &self.view.machine);
        let tainted = is_tainted(run, &judged, &self.view);
        for verdict in judged.verdicts {
            let (section, lock) = (verdict.section, verdict.lock);
            let rates = section.counts == Counts::PerSecond;
            let mean = lock.mean_time().map(exact).unwrap_or_default();
            let spins = section.unit == Unit::Spins;
            let either = |here: bool, value: String| if here { value } else { String::new() };
            let cells = [
                self.runs.to_string(),
                section.event.name.to_string(),
                section.event.class.name().into(),
                lock.lock.clone(),
                lock.caller.clone(),
                either(!rates, lock.count.to_string()),
                either(rates, lock.count.to_string()),
                either(!spins, mean.clone()),
                either(spins, mean),
                maybe(&verdict.merits.threads),
                maybe(&verdict.merits.cpu_util_ratio),
                tainted.to_string(),
                bins(&lock.histogram),
                lock.stack.join(" "),
            ];
            write_row(self.out, cells.into_iter().map(Cow::Owned))?;
        }
        Ok(())
    }

    /// Prints one line for each group (`--by`).
    fn groups(&mut self, run: &Run, by: By) -> io::Result<()> {
        let name = match by {
            By::Lock => Some("lock"),
            By::Caller => Some("caller"),
            By::Kind => None,
        };
        if self.runs == 0 {
            let names = ["run", "event", "kind"].into_iter().chain(name);
            let values = ["count", "count_per_s", "threads", "cpu_util_ratio", "tainted"];
            write_row(self.out, names.chain(values).map(Cow::Borrowed))?;
        }
        self.runs += 1;
        let judged = judge(run, &self.view.machine);
        let tainted = is_tainted(run, &judged, &self.view);
        for group in group(run, &judged, by) {
            let count = group.count.to_string();
            let (count, rate) = match group.counts(run) {
                Counts::Events => (count, String::new()),
                Counts::PerSecond => (String::new(), count),
            };
            let head = [self.runs.to_string(), group.event.name.to_string(), group.event.class.name().into()];
            let merits = [maybe(&group.merits.threads), maybe(&group.merits.cpu_util_ratio)];
            let cells = head.into_iter().chain(name.map(|_| group.name.to_owned()));
            let cells = cells.chain([count, rate]).chain(merits).chain([tainted.to_string()]);
            write_row(self.out, cells.map(Cow::Owned))?;
        }
        Ok(())
    }
}

/// Whether records were lost, or a cost exceeds what any machine can have.
fn is_tainted(run: &Run, judged: &Judged<'_>, view: &LockstatView) -> bool {
    !run.lost.is_empty() || !judged.impossible(&view.machine).is_empty()
}

impl Runs for Lockstat<'_> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        match self.view.by {
            Some(by) => self.groups(run, by),
            None => self.rows(run),
        }
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a plockstat log, one line for each row.
///
/// # Errors
///
/// Errors of the output.
pub fn plockstat(out: &mut dyn Write, log: &PlockstatLog, view: &PlockstatView) -> io::Result<()> {
    const NAMES: [&str; 11] = [
        "event",
        "kind",
        "lock",
        "caller",
        "count",
        "nsec_mean",
        "nsec_total",
        "threads",
        "tainted",
        "histogram",
        "stack",
    ];
    write_row(out, NAMES.into_iter().map(Cow::Borrowed))?;
    let tainted = !log.lost.is_empty() || !view.impossible(log).is_empty();
    for section in &log.sections {
        for lock in &section.locks {
            let threads = view.elapsed_s.map(|s| exact(lock.total_ns() / (1e9 * s))).unwrap_or_default();
            let cells = [
                section.kind.title().to_owned(),
                section.kind.name().into(),
                lock.lock.clone(),
                lock.caller.clone(),
                lock.count.to_string(),
                lock.nsec_mean.to_string(),
                exact(lock.total_ns()),
                threads,
                tainted.to_string(),
                bins(&lock.histogram),
                lock.stack.join(" "),
            ];
            write_row(out, cells.into_iter().map(Cow::Owned))?;
        }
    }
    Ok(())
}

/// Prints one line for each interval.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Vmstat<'w> {
    out: &'w mut dyn Write,
    headed: bool,
}

impl<'w> Vmstat<'w> {
    /// Creates a table on `out`.
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out, headed: false }
    }
}

impl Intervals for Vmstat<'_> {
    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        const NAMES: [&str; 14] = [
            "at",
            "elapsed_s",
            "user_ratio",
            "system_ratio",
            "idle_ratio",
            "wait_ratio",
            "stolen_ratio",
            "busy_ratio",
            "unaccounted_ratio",
            "user_ticks",
            "system_ticks",
            "idle_ticks",
            "wait_ticks",
            "stolen_ticks",
        ];
        if !std::mem::replace(&mut self.headed, true) {
            write_row(self.out, NAMES.into_iter().map(Cow::Borrowed))?;
        }
        let mut cells = vec![
            interval.at.as_ref().map(ToString::to_string).unwrap_or_default(),
            maybe(&interval.elapsed_s),
        ];
        cells.extend(STATES.map(|(_, part)| maybe(&interval.ratio(part))));
        cells.extend([maybe(&interval.busy_ratio()), maybe(&interval.unaccounted_ratio)]);
        cells.extend(
            STATES.map(|(_, part)| interval.ticks.as_ref().map(|t| part(t).to_string()).unwrap_or_default()),
        );
        write_row(self.out, cells.into_iter().map(Cow::Owned))?;
        Ok(())
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the shortest text that reads back as the same number.
fn exact(value: f64) -> String {
    format!("{value:?}")
}

fn maybe(value: &Maybe<f64>) -> String {
    value.as_ref().map(|value| exact(*value)).unwrap_or_default()
}

/// Formats bins as `128:11857 256:40017`.
fn bins(histogram: &[(u64, u64)]) -> String {
    let bins: Vec<String> = histogram.iter().map(|(bound, count)| format!("{bound}:{count}")).collect();
    bins.join(" ")
}
