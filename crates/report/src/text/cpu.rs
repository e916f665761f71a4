//! The CPUs at a terminal, one interval at a time, in the manner of vmstat.

use std::io::{self, Write};

use record::cpu::{CpuInterval, CpuSample, UNOWNED_NS};
use record::missing::Maybe;

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::number::{count, latency, percent, percent_digits};

type Ratio = fn(&CpuSample) -> Maybe<f64>;

/// The columns of ratios: head, rank for dropping, and value.
const RATIOS: [(&str, u8, Ratio); 10] = [
    ("event %", 0, |s| s.event_ratio.clone()),
    ("irq %", 3, |s| s.irq_ratio.clone()),
    ("softirq %", 2, |s| s.softirq_ratio.clone()),
    ("tick-before %", 5, |s| s.tick_before_ratio.clone()),
    ("tick-after %", 6, |s| s.tick_after_ratio.clone()),
    ("sampled %", 4, |s| s.sampled_ratio.clone()),
    ("not-idle %", 0, |s| s.not_idle_ratio.clone()),
    ("/proc %", 0, |s| s.procstat_busy_ratio.clone()),
    ("unacc %", 0, |s| s.unaccounted_ratio.clone()),
    ("steal %", 1, |s| s.stolen_ratio.clone()),
];

/// Up to this number of CPUs, each has a row; above it, only the busiest.
const ROWS_MAX: usize = 32;
/// Number of rows for the busiest CPUs.
const ROWS_OF_MANY: usize = 8;

/// Writes one interval: a row for each CPU and one for all, then a line for each saturated CPU, for each CPU
/// with an accounting mismatch, and for each that came or went.
///
/// `event %` is busy time by context switches, `/proc %` is busy time by `/proc/stat`, and `unacc %` is time
/// that `/proc/stat` did not book. A column without any value is left out; the reason is printed once, below
/// the first interval. If there are more than 32 CPUs, only the busiest have a row, and a line gives the
/// distribution of all.
///
/// - `start_ns`: start of the first interval; printed times count from it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn cpu_interval(
    out: &mut dyn Write,
    interval: &CpuInterval,
    start_ns: u64,
    style: Style,
) -> io::Result<()> {
    let until_s = interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let missed = if interval.missed_deadline { ", deadline missed" } else { "" };
    let title =
        format!("{until_s:.1} s, over {:.3} s, by {}{missed}", interval.seconds(), interval.rung.word());
    paragraph(out, &title, 2, style)?;
    table(interval).write(out, style)?;
    if interval.cpus.len() > ROWS_MAX {
        paragraph(out, &spread(interval), 2, style)?;
    }
    let seconds = interval.seconds();
    for sample in &interval.cpus {
        if sample.saturated() {
            paragraph(out, &saturated(sample, seconds), 2, style)?;
        } else if sample.full(seconds) == Ok(true) {
            paragraph(out, &full(sample, seconds), 2, style)?;
        }
    }
    if let Ok(ratio) = &interval.psi_some_ratio
        && *ratio >= NOTED_PRESSURE
    {
        let text =
            format!("some thread of the machine waited for a CPU for {} of the time (PSI)", percent(*ratio));
        paragraph(out, &text, 2, style)?;
    }
    for (cpu, ns) in interval.imbalances() {
        paragraph(out, &imbalance(cpu, ns), 2, style)?;
    }
    came_and_went(out, interval, style)?;
    if let Some(text) = doubt(interval) {
        paragraph(out, &text, 2, style)?;
    }
    if interval.from_ns <= start_ns { missing(out, interval, style) } else { Ok(()) }
}

/// The events that were lost, the switches that the kernel did not show, and the time that they leave
/// uncertain, over all CPUs, with or without a row; `None` without any.
fn doubt(interval: &CpuInterval) -> Option<String> {
    let lost: Vec<String> =
        interval.events_lost().map(|(reason, n)| format!("{} {reason}", count(n))).collect();
    let lost = (!lost.is_empty()).then(|| format!("lost: {}", lost.join(", ")));
    let unseen = interval.switches_unseen();
    let noun = if unseen == 1 { "switch" } else { "switches" };
    let unseen = (unseen > 0).then(|| format!("not shown by the kernel: {} {noun}", count(unseen)));
    let causes: Vec<String> = lost.into_iter().chain(unseen).collect();
    if causes.is_empty() {
        return None;
    }
    let unowned = interval.lost.get(UNOWNED_NS).map(|ns| latency(*ns as f64));
    let unowned = unowned.map(|s| format!(", {s} busy, thread unknown")).unwrap_or_default();
    Some(format!("{}; busy or idle is off by up to {}{unowned}", causes.join("; "), off_by(interval)))
}

/// Upper bound of the time that the CPU accounts attribute to the wrong side.
fn off_by(interval: &CpuInterval) -> String {
    match interval.unsure_ratio() {
        small if small < 0.000_5 => "0.1 % of the time".to_owned(),
        ratio => format!("{} of the time", percent(ratio)),
    }
}

/// CPUs with a row, in order of their numbers.
fn shown_rows(interval: &CpuInterval) -> Vec<&CpuSample> {
    let mut rows: Vec<&CpuSample> = interval.cpus.iter().collect();
    if rows.len() <= ROWS_MAX {
        return rows;
    }
    rows.sort_by(|a, b| {
        let busy = |s: &CpuSample| s.busy_ratio().unwrap_or(-1.0);
        busy(b).total_cmp(&busy(a)).then(a.cpu.cmp(&b.cpu))
    });
    rows.truncate(ROWS_OF_MANY);
    rows.sort_by_key(|s| s.cpu);
    rows
}

/// Number of CPUs in each range of utilization.
fn spread(interval: &CpuInterval) -> String {
    let busy: Vec<f64> = interval.cpus.iter().filter_map(|s| s.busy_ratio().ok()).collect();
    let between = |low: f64, high: f64| busy.iter().filter(|r| (low..high).contains(*r)).count();
    let saturated = interval.cpus.iter().filter(|s| s.saturated()).count();
    let unknown = interval.cpus.len() - busy.len();
    let mut parts = vec![
        format!("{} under 10 %", between(f64::NEG_INFINITY, 0.1)),
        format!("{} from 10 to 50 %", between(0.1, 0.5)),
        format!("{} from 50 to 90 %", between(0.5, 0.9)),
        format!("{} over 90 %", between(0.9, f64::INFINITY)),
    ];
    parts.extend((unknown > 0).then(|| format!("{unknown} unknown")));
    format!(
        "of {} CPUs the {ROWS_OF_MANY} busiest are shown; busy: {}; {saturated} saturated (--cpus LIST shows others)",
        interval.cpus.len(),
        parts.join(", ")
    )
}

fn table(interval: &CpuInterval) -> Table {
    let shown: Vec<&(&str, u8, Ratio)> = RATIOS
        .iter()
        .filter(|(name, _, of)| {
            // With events, `not-idle %` adds only uncertainty.
            let redundant = *name == "not-idle %" && interval.cpus.iter().all(|s| s.event_ratio.is_ok());
            // Steal is 0 except on a virtual machine that shares its CPUs; any steal is printed.
            let nothing = *name == "steal %" && interval.cpus.iter().all(|s| of(s).is_ok_and(|r| r < 0.0005));
            !redundant && !nothing && interval.cpus.iter().any(|s| of(s).is_ok())
        })
        .collect();
    let has_waits = interval.cpus.iter().any(|s| s.run_queue_wait_ns.is_ok());
    let has_switches = interval.cpus.iter().any(|s| s.switches.is_ok());
    let has_cycles = interval.cpus.iter().any(|s| per_cycle(s).is_ok());
    let has_top = interval.cpus.iter().any(|s| s.top.is_ok());
    let head = Table::default().column("CPU", Align::Right, 0);
    let mut table =
        shown.iter().fold(head, |t, (name, expendable, _)| t.column(*name, Align::Right, *expendable));
    if has_waits {
        table = table.column("waiting", Align::Right, 1);
    }
    if has_switches {
        table = table.column("sw/s", Align::Right, 2);
    }
    if has_cycles {
        table = table.column("instr/cycle", Align::Right, 7);
    }
    if has_top {
        table = table.column("hottest thread", Align::Elastic, 3);
    }
    let per_s = |n: Maybe<u64>| {
        n.map_or("-".to_owned(), |n| crate::number::significant_4(n as f64 / interval.seconds()))
    };
    let seconds = interval.seconds();
    let unbalanced: Vec<u32> = interval.imbalances().map(|(cpu, _)| cpu).collect();
    for sample in shown_rows(interval) {
        let mark = if unbalanced.contains(&sample.cpu) { "!" } else { "" };
        let mut row = vec![(format!("{}{mark}", sample.cpu), (!mark.is_empty()).then_some(Tint::Bad))];
        let tint = sample.saturated().then_some(Tint::Bad);
        row.extend(shown.iter().map(|(_, _, of)| (ratio_cell(of(sample)), tint)));
        row.extend(has_waits.then(|| (waiting_cell(sample.waiting(seconds)), waiting_tint(sample, seconds))));
        row.extend(has_switches.then(|| (per_s(sample.switches.clone()), None)));
        row.extend(
            has_cycles.then(|| (per_cycle(sample).map_or("-".to_owned(), |r| format!("{r:.2}")), None)),
        );
        row.extend(has_top.then(|| (hottest(sample).unwrap_or_default(), None)));
        table.row(row);
    }
    let strong = Some(Tint::Strong);
    let mut row = vec![("all".to_owned(), strong)];
    row.extend(shown.iter().map(|(_, _, of)| (ratio_cell(interval.mean(of)), strong)));
    let waiting: Maybe<f64> = interval.cpus.iter().map(|s| s.waiting(seconds)).sum();
    row.extend(has_waits.then(|| (waiting_cell(waiting), strong)));
    let switches: Maybe<u64> = interval.cpus.iter().map(|s| s.switches.clone()).sum();
    row.extend(has_switches.then(|| (per_s(switches), strong)));
    row.extend(has_cycles.then(|| (String::new(), None)));
    row.extend(has_top.then(|| (String::new(), None)));
    table.row(row);
    table
}

fn per_cycle(sample: &CpuSample) -> Maybe<f64> {
    let (instructions, cycles) = (sample.instructions.clone()?, sample.cycles.clone()?);
    Ok(instructions as f64 / cycles.max(1) as f64)
}

fn imbalance(cpu: u32, ns: i64) -> String {
    let ms = ns as f64 * 1e-6;
    let what = if ns < 0 { "unaccounted" } else { "accounted twice" };
    format!("CPU {cpu}: busy and idle do not add up: {:.3} ms {what}; do not trust its row", ms.abs())
}

/// Writes the CPUs that lack a value which others have, once per reason.
fn came_and_went(out: &mut dyn Write, interval: &CpuInterval, style: Style) -> io::Result<()> {
    if interval.cpus.iter().all(|s| s.event_ratio.is_err()) {
        return Ok(());
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for sample in &interval.cpus {
        let Err(why) = &sample.event_ratio else { continue };
        match reasons.iter_mut().find(|(r, _)| *r == why.reason) {
            Some((_, cpus)) => cpus.push(sample.cpu.to_string()),
            None => reasons.push((&why.reason, vec![sample.cpu.to_string()])),
        }
    }
    for (reason, cpus) in reasons {
        let of = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        paragraph(out, &format!("{of} {}: {reason}", cpus.join(", ")), 2, style)?;
    }
    Ok(())
}

fn ratio_cell(ratio: Maybe<f64>) -> String {
    ratio.map_or("-".to_owned(), percent_digits)
}

/// `mariadbd/4711 97.1 %`.
fn hottest(sample: &CpuSample) -> Option<String> {
    let top = sample.top.as_ref().ok()?;
    Some(format!("{}/{} {}", top.comm, top.tid, percent(top.ratio)))
}

/// Mean number of waiting threads.
fn waiting_cell(waiting: Maybe<f64>) -> String {
    waiting.map_or("-".to_owned(), |n| format!("{n:.2}"))
}

fn waiting_tint(sample: &CpuSample, seconds: f64) -> Option<Tint> {
    (sample.full(seconds) == Ok(true)).then_some(Tint::Bad)
}

/// Least pressure that is printed.
const NOTED_PRESSURE: f64 = 0.1;

/// Mean number of threads that waited for the CPU, in words.
fn waited(sample: &CpuSample, seconds: f64) -> String {
    match sample.waiting(seconds) {
        // A thread that a quota holds counts too while others have its CPU, and a wait counts when it ends.
        Ok(n) if n >= 0.005 => format!("{n:.2} threads waited for it or for their quota on average"),
        Ok(_) => "hardly any wait for it ended".to_owned(),
        Err(why) => format!("whether threads waited is unknown ({why})"),
    }
}

fn full(sample: &CpuSample, seconds: f64) -> String {
    let busy = sample.busy_ratio().map_or(String::new(), |r| format!(", at {} busy", percent(r)));
    format!("CPU {} is full{busy}: {}", sample.cpu, waited(sample, seconds))
}

/// Time of interrupts in words, if it exceeds that of the busiest thread.
pub fn by_interrupts(sample: &CpuSample) -> Option<String> {
    let (irq, softirq) = (sample.irq_ratio.clone().ok()?, sample.softirq_ratio.clone().ok()?);
    let top = sample.top.as_ref().map_or(0.0, |top| top.ratio);
    (irq + softirq > top)
        .then(|| format!("softirqs used {} and interrupts {}", percent(softirq), percent(irq)))
}

fn saturated(sample: &CpuSample, seconds: f64) -> String {
    let busy = sample.busy_ratio().map_or(String::new(), |r| format!(", {} busy", percent(r)));
    let by = match &sample.top {
        Ok(top) => format!("{} (pid {}, thread {}) ran {}", top.comm, top.pid, top.tid, percent(top.ratio)),
        Err(missing) => format!("by which thread is unknown ({missing})"),
    };
    let by = by_interrupts(sample).unwrap_or(by);
    let full = if sample.full(seconds) == Ok(true) { " and full" } else { "" };
    format!("CPU {} is saturated{full}{busy}: {by}; {}", sample.cpu, waited(sample, seconds))
}

/// Writes the reason for each missing column, once per reason.
fn missing(out: &mut dyn Write, interval: &CpuInterval, style: Style) -> io::Result<()> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, _, of) in RATIOS.iter().filter(|(_, _, of)| !interval.cpus.iter().any(|s| of(s).is_ok())) {
        let Some(reason) = interval.cpus.iter().find_map(|s| of(s).err()) else { continue };
        match reasons.iter_mut().find(|(r, _)| *r == reason.reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason.reason, vec![name])),
        }
    }
    for (reason, names) in reasons {
        let names: Vec<&str> = names.iter().map(|n| n.trim_end_matches(" %")).collect();
        paragraph(out, &format!("missing: {} ({reason})", names.join(", ")), 2, style)?;
    }
    Ok(())
}
