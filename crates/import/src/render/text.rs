//! Text tables.

use super::{
    Intervals, LockstatView, Means, MpstatView, PlockstatLog, PlockstatView, Runs, Samples, parts,
    push_shortest, push_whole, subject,
};
use crate::error::ImportError;
use crate::solaris::lockstat::{
    self, By, Class, Counts, Judged, Lock, Merits, Percent, Run, Section, Unit, Verdict, judge,
};
use crate::solaris::mpstat::{COLUMNS, Sample, SinceBoot};
use crate::vmstat_s::{Interval, STATES};
use record::missing::Maybe;
use std::io::{self, Write};

/// Prints one line for each sample: the number of CPUs and mpstat's columns.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Mpstat<'w> {
    out: &'w mut dyn Write,
    view: MpstatView,
    headed: bool,
    means: Means,
    /// Buffer of the current line: allocated once, written with one call for each line.
    text: String,
    number: String,
}

impl<'w> Mpstat<'w> {
    /// Creates a table on `out`.
    pub fn new(out: &'w mut dyn Write, view: MpstatView) -> Self {
        Self { out, view, headed: false, means: Means::default(), text: String::new(), number: String::new() }
    }

    fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.headed, true) {
            return Ok(());
        }
        if self.view.times {
            write!(self.out, "{:<19} ", "at")?;
        }
        if self.view.by_set {
            write!(self.out, "SET ")?;
        }
        writeln!(self.out, "CPUs minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl")
    }

    /// Prints a line: the cells in mpstat's widths, wider if they need it, and a remark.
    fn line(
        &mut self,
        at: &str,
        set: Option<i32>,
        first: &str,
        cells: &[Option<f64>; COLUMNS.len()],
        remark: &str,
    ) -> io::Result<()> {
        const WIDTHS: [usize; COLUMNS.len()] = [4, 3, 4, 5, 4, 4, 4, 4, 4, 4, 5, 4, 3, 3, 3];
        let (text, number) = (&mut self.text, &mut self.number);
        text.clear();
        if self.view.times {
            pad(text, at, 19, Side::Right);
            text.push(' ');
        }
        if self.view.by_set {
            pad(text, &set.map_or_else(|| "-".into(), |set| set.to_string()), 3, Side::Left);
            text.push(' ');
        }
        pad(text, first, 4, Side::Left);
        for (cell, width) in cells.iter().zip(WIDTHS) {
            text.push(' ');
            number.clear();
            match cell {
                Some(value) => push_shortest(number, *value),
                None => number.push('-'),
            }
            pad(text, number, width, Side::Left);
        }
        text.push_str(remark);
        text.push('\n');
        self.out.write_all(text.as_bytes())
    }
}

/// Side that is padded with blanks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Appends `cell`, padded with blanks to `width`. `fmt` would take most of the time of a large log.
fn pad(text: &mut String, cell: &str, width: usize, side: Side) {
    let blanks = std::iter::repeat_n(' ', width.saturating_sub(cell.len()));
    if side == Side::Left {
        text.extend(blanks);
        text.push_str(cell);
    } else {
        text.push_str(cell);
        text.extend(blanks);
    }
}

impl Samples for Mpstat<'_> {
    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.head()?;
        if self.view.mean {
            self.means.take(sample, self.view.rates, self.view.boot);
        }
        let at = match &sample.at {
            Some(at) if self.view.times => at.to_string(),
            _ => "-".into(),
        };
        for (set, part) in parts(sample, &self.view) {
            let mut cpus = String::new();
            push_whole(&mut cpus, part.cpus);
            self.line(&at, set, &cpus, &part.values, mark(sample))?;
            if self.view.errors {
                self.line(&at, set, "+-", &part.errors.map(Some), "")?;
            }
        }
        if self.view.name_full {
            for row in sample.saturated(self.view.full_pct) {
                let [.., usr, sys, wt, idl] = row.values;
                let what = subject(row);
                writeln!(self.out, "full: {what} {} (usr {usr} sys {sys} wt {wt} idl {idl})", row.id)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        if !self.view.mean {
            return Ok(());
        }
        self.head()?;
        match self.means.end() {
            Some((samples, _, means)) => {
                let remark = format!("  of {samples} {}", if samples == 1 { "sample" } else { "samples" });
                self.line("", None, "mean", &means, &remark)
            }
            None => writeln!(self.out, "mean: only the sample since boot; --boot includes it"),
        }
    }
}

fn mark(sample: &Sample) -> &'static str {
    match (sample.since_boot, sample.cut) {
        (Some(SinceBoot::First), _) => "  since boot",
        (Some(SinceBoot::Changed | SinceBoot::OtherCpus), _) => "  since boot: the CPUs changed",
        (None, true) => "  cut",
        (None, false) => "",
    }
}

/// Prints the cost of each lock, one table for each run.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Lockstat<'w> {
    out: &'w mut dyn Write,
    view: LockstatView,
    runs: u64,
}

impl<'w> Lockstat<'w> {
    /// Creates tables on `out`.
    pub fn new(out: &'w mut dyn Write, view: LockstatView) -> Self {
        Self { out, view, runs: 0 }
    }

    /// Returns the heading: shares of the machine if the number of its CPUs is known, else CPUs.
    fn heading(&self) -> &'static str {
        if self.view.machine.cpus.is_some() { " CPU-util" } else { "     CPUs" }
    }

    fn cost(&self, merits: &Merits, class: Class) -> String {
        let cost = if self.view.machine.cpus.is_some() || !class.is_cpu() {
            &merits.cpu_util_ratio
        } else {
            &merits.threads
        };
        cost.as_ref().map_or_else(|_| "-".into(), |cost| format!("{cost:.3}"))
    }

    fn total(&self, judged: &Judged<'_>) -> String {
        if self.view.machine.cpus.is_some() {
            return judged.total.as_ref().map_or_else(|_| "-".into(), |total| format!("{total:.3}"));
        }
        // Without the number of CPUs a share is unknown, but the sum in CPUs is known.
        let overlap = judged.verdicts.iter().any(|verdict| verdict.section.percent == Percent::Generated);
        let spun = judged.verdicts.iter().filter(|verdict| verdict.section.event.class.is_cpu());
        let sum: Maybe<f64> = spun.clone().map(|verdict| verdict.merits.threads.clone()).sum();
        match sum {
            Ok(sum) if !overlap && spun.count() > 0 => format!("{sum:.3}"),
            _ => "-".into(),
        }
    }

    fn each(&mut self, judged: &Judged<'_>) -> io::Result<()> {
        writeln!(self.out, "{}  {:<20} Caller", self.heading(), "Lock")?;
        for verdict in &judged.verdicts {
            let cost = self.cost(&verdict.merits, verdict.section.event.class);
            let Lock { lock, caller, .. } = verdict.lock;
            let remark = remark(verdict.section, verdict.lock, &verdict.merits);
            writeln!(self.out, "{cost:>9}  {lock:<20} {caller}{remark}")?;
            self.details(verdict)?;
        }
        writeln!(self.out, "{:>9}  {:<20} TOTAL", self.total(judged), "TOTAL")
    }

    fn details(&mut self, verdict: &Verdict<'_>) -> io::Result<()> {
        if self.view.stacks {
            stack(self.out, &verdict.lock.stack)?;
        }
        if self.view.histograms {
            let unit = if verdict.section.unit == Unit::Spins { "turns" } else { "nsec" };
            histogram(self.out, unit, &verdict.lock.histogram)?;
        }
        Ok(())
    }

    fn groups(&mut self, run: &Run, judged: &Judged<'_>, by: By) -> io::Result<()> {
        let name = match by {
            By::Lock => "Lock",
            By::Caller => "Caller",
            By::Kind => "Kind",
        };
        writeln!(self.out, "{}    threads      count  {name}", self.heading())?;
        for group in lockstat::group(run, judged, by) {
            let cost = self.cost(&group.merits, group.event.class);
            let threads = group.merits.threads.as_ref().map_or_else(|_| "-".into(), |n| format!("{n:.3}"));
            let of = match by {
                By::Kind => format!("({})", group.event.class.name()),
                By::Lock | By::Caller => format!("({})", group.event.name),
            };
            writeln!(self.out, "{cost:>9}  {threads:>9}  {:>9}  {} {of}", group.count, group.name)?;
        }
        writeln!(self.out, "{:>9}  {:>9}  {:>9}  TOTAL", self.total(judged), "", "")
    }
}

impl Runs for Lockstat<'_> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.runs += 1;
        if self.runs > 1 {
            writeln!(self.out)?;
        }
        for lost in &run.lost {
            writeln!(self.out, "TAINTED: records were lost, so each number is a lower bound ({lost})")?;
        }
        let judged = judge(run, &self.view.machine);
        match self.view.by {
            Some(by) => self.groups(run, &judged, by)?,
            None if run.sections.iter().all(|section| section.locks.is_empty()) => {
                self.groups(run, &judged, By::Kind)?;
            }
            None => self.each(&judged)?,
        }
        Ok(())
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        Ok(())
    }
}

/// Explains a row without CPU-util, and gives the values that it has. Empty for a row with CPU-util.
fn remark(section: &Section, lock: &Lock, merits: &Merits) -> String {
    let events = match section.counts {
        Counts::Events => format!("{} events", lock.count),
        Counts::PerSecond => format!("{} events a second", lock.count),
    };
    let threads = merits.threads.as_ref().ok();
    match (section.event.class, section.unit, threads) {
        (Class::Spin | Class::Thread, _, Some(_)) => String::new(),
        (Class::Block, _, Some(threads)) => format!("  (blocked: {threads:.3} threads waiting)"),
        (Class::Hold, _, Some(threads)) => format!("  (held by {threads:.3} threads)"),
        (_, Unit::Spins, None) => {
            let turns = lock.mean_time().unwrap_or(0.0);
            format!("  ({events} of {turns:.0} turns of the spin loop: no time)")
        }
        (_, Unit::Untimed, None) => format!("  ({events}: {}, not timed)", section.event.name),
        (_, Unit::Nsec | Unit::NsecAssumed, None) => {
            let mean = lock.mean_time().unwrap_or(0.0);
            format!("  ({events} of {mean:.0} ns: {})", section.event.name)
        }
        (Class::Interrupt | Class::Error | Class::Other, ..) => {
            format!("  ({events}: {})", section.event.name)
        }
    }
}

/// Returns remarks for the reader of the table: reasons why numbers are missing, assumed or lower bounds.
pub fn lockstat_remarks(run: &Run, view: &LockstatView) -> Vec<String> {
    let judged = judge(run, &view.machine);
    let mut remarks = Vec::new();
    let any = |unit| run.sections.iter().any(|section| section.event.class.is_cpu() && section.unit == unit);
    let timed = run.sections.iter().any(|section| section.unit != Unit::Untimed);
    if let (Err(missing), true) = (&judged.elapsed_s, timed) {
        remarks.push(missing.reason.clone());
    }
    if view.machine.cpus.is_none() && any(Unit::Nsec) {
        remarks
            .push("shown is the number of spinning CPUs; give -n NCPU for the share of the machine".into());
    }
    if any(Unit::NsecAssumed) {
        remarks.push(
            "this output form has no unit: spin times are read as nanoseconds, as illumos and FreeBSD print \
             them; Solaris 8 and 10 print turns of a loop"
                .into(),
        );
    }
    if any(Unit::Spins) && view.machine.spin_ns.is_none() {
        remarks.push(
            "spins are counted in turns of a loop, not in time: CPU-util is unknown (--spin-ns sets the time \
             of a turn)"
                .into(),
        );
    }
    if run.sections.iter().any(|section| section.counts == Counts::PerSecond) {
        remarks.push("rates were truncated to whole numbers (-R): each CPU-util is a lower bound".into());
    }
    if run.sections.iter().any(|section| section.percent == Percent::Generated) {
        remarks.push(
            "an event is charged to every function on its stack (-g): rows overlap and have no sum".into(),
        );
    }
    remarks
}

fn stack(out: &mut dyn Write, frames: &[String]) -> io::Result<()> {
    frames.iter().try_for_each(|frame| writeln!(out, "{:>32}{frame}", ""))
}

fn histogram(out: &mut dyn Write, unit: &str, bins: &[(u64, u64)]) -> io::Result<()> {
    const BAR: u64 = 40;
    let most = bins.iter().map(|bin| bin.1).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    writeln!(out, "{unit:>21} count")?;
    for &(bound, count) in bins {
        let length = u128::from(count) * u128::from(BAR) / u128::from(most);
        let bar = "#".repeat(usize::try_from(length).expect("at most BAR"));
        let gap = if bar.is_empty() { "" } else { " " };
        writeln!(out, "{bound:>21} |{bar}{gap}{count}")?;
    }
    Ok(())
}

/// Prints a plockstat log, one table for each kind.
///
/// # Errors
///
/// Errors of the output.
pub fn plockstat(out: &mut dyn Write, log: &PlockstatLog, view: &PlockstatView) -> io::Result<()> {
    for lost in &log.lost {
        writeln!(out, "TAINTED: records were lost, so each number is a lower bound ({lost})")?;
    }
    for (i, section) in log.sections.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", section.kind.title())?;
        let share = match (section.kind.is_cpu(), view.elapsed_s, view.cpus) {
            (true, Some(elapsed_s), Some(cpus)) => Some((" CPU-util", 1e9 * elapsed_s * f64::from(cpus))),
            (_, Some(elapsed_s), _) => Some(("  threads", 1e9 * elapsed_s)),
            (_, None, _) => None,
        };
        let (heading, ns_per_unit) = share.unwrap_or(("  seconds", 1e9));
        writeln!(out, "{heading}      Count      nsec  {:<28} Caller", "Lock")?;
        let mut sum_ns = 0.0;
        let mut count = 0u64;
        for lock in &section.locks {
            let total_ns = lock.total_ns();
            sum_ns += total_ns;
            count = count.saturating_add(lock.count);
            let cost = total_ns / ns_per_unit;
            writeln!(
                out,
                "{cost:>9.3}  {:>9}  {:>8}  {:<28} {}",
                lock.count, lock.nsec_mean, lock.lock, lock.caller
            )?;
            if view.stacks {
                stack(out, &lock.stack)?;
            }
            if view.histograms {
                histogram(out, "nsec", &lock.histogram)?;
            }
        }
        writeln!(out, "{:>9.3}  {count:>9}  {:>8}  {:<28} TOTAL", sum_ns / ns_per_unit, "", "TOTAL")?;
    }
    Ok(())
}

/// Prints utilization in percent, one line for each interval.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Vmstat<'w> {
    out: &'w mut dyn Write,
    counters: bool,
    headed: bool,
}

impl<'w> Vmstat<'w> {
    /// Creates a table on `out`. With `counters`, the increase of every other counter follows each line.
    pub fn new(out: &'w mut dyn Write, counters: bool) -> Self {
        Self { out, counters, headed: false }
    }
}

impl Intervals for Vmstat<'_> {
    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        if !std::mem::replace(&mut self.headed, true) {
            writeln!(
                self.out,
                "  %user %system   %idle   %wait %stolen   %busy          ticks  elapsed_s %unaccounted"
            )?;
        }
        if let Some(contradiction) = &interval.contradiction {
            writeln!(self.out, "IMPOSSIBLE: {contradiction}")?;
        }
        for (_, part) in STATES {
            write!(self.out, "{:>7} ", percent(&interval.ratio(part)))?;
        }
        let ticks = interval.ticks.as_ref().map_or_else(|_| "-".into(), |ticks| ticks.sum().to_string());
        let elapsed = interval.elapsed_s.as_ref().map_or_else(|_| "-".into(), |s| format!("{s:.3}"));
        write!(self.out, "{:>7} {ticks:>14} {elapsed:>10} ", percent(&interval.busy_ratio()))?;
        write!(self.out, "{:>12}", percent(&interval.unaccounted_ratio))?;
        match interval.busy_ratio() {
            Ok(_) => writeln!(self.out)?,
            Err(missing) => writeln!(self.out, "  missing: {missing}")?,
        }
        if self.counters {
            for (name, rose) in &interval.counters {
                let rose = rose.as_ref().map_or_else(|_| "-".into(), ToString::to_string);
                writeln!(self.out, "{rose:>20} {name}")?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _error: Option<&ImportError>) -> io::Result<()> {
        Ok(())
    }
}

fn percent(ratio: &Maybe<f64>) -> String {
    ratio.as_ref().map_or_else(|_| "-".into(), |ratio| format!("{:.3}", 100.0 * ratio))
}
