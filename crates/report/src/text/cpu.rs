//! The CPUs at a terminal, an interval at a time, in the manner of vmstat.

use std::io::{self, Write};

use record::cpu::{CpuInterval, CpuSample, UNSURE_NS};
use record::missing::Maybe;

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::number::{count, percent, percent_digits};

type Ratio = fn(&CpuSample) -> Maybe<f64>;

/// The columns of shares: head, how expendable, and where the value is.
const RATIOS: [(&str, u8, Ratio); 7] = [
    ("event %", 0, |s| s.event_ratio.clone()),
    ("tick-before %", 5, |s| s.tick_before_ratio.clone()),
    ("tick-after %", 6, |s| s.tick_after_ratio.clone()),
    ("sampled %", 4, |s| s.sampled_ratio.clone()),
    ("not-idle %", 0, |s| s.not_idle_ratio.clone()),
    ("/proc %", 0, |s| s.procstat_busy_ratio.clone()),
    ("unacc %", 0, |s| s.unaccounted_ratio.clone()),
];

/// One interval: a row for each CPU and one for all, then a line for each saturated CPU.
///
/// `event %` is busy by context switches, `/proc %` what `/proc/stat` says, `unacc %` what `/proc/stat` did not book.
/// Columns that no CPU has a value for are left out; why is said once, below the first interval.
///
/// - `start_ns`: start of the first interval, from which the time shown counts.
///
/// # Errors
///
/// Those of `out`.
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
    for sample in interval.cpus.iter().filter(|s| s.saturated()) {
        paragraph(out, &saturated(sample), 2, style)?;
    }
    let counts = interval.lost.iter().filter(|(reason, n)| **n > 0 && *reason != UNSURE_NS);
    let counts: Vec<String> = counts.map(|(reason, n)| format!("{} {reason}", count(*n))).collect();
    if !counts.is_empty() {
        let unsure = percent(interval.unsure_ratio());
        let text = format!("lost: {}; at most {unsure} of the time is on the wrong side", counts.join(", "));
        paragraph(out, &text, 2, style)?;
    }
    if interval.from_ns <= start_ns { missing(out, interval, style) } else { Ok(()) }
}

fn table(interval: &CpuInterval) -> Table {
    let shown: Vec<&(&str, u8, Ratio)> = RATIOS
        .iter()
        .filter(|(name, _, of)| {
            // Where events are seen, what is not idle adds nothing but doubt.
            let redundant = *name == "not-idle %" && interval.cpus.iter().all(|s| s.event_ratio.is_ok());
            !redundant && interval.cpus.iter().any(|s| of(s).is_ok())
        })
        .collect();
    let has_switches = interval.cpus.iter().any(|s| s.switches.is_ok());
    let has_top = interval.cpus.iter().any(|s| s.top.is_ok());
    let head = Table::default().column("CPU", Align::Right, 0);
    let mut table =
        shown.iter().fold(head, |t, (name, expendable, _)| t.column(*name, Align::Right, *expendable));
    if has_switches {
        table = table.column("sw/s", Align::Right, 2);
    }
    if has_top {
        table = table.column("hottest thread", Align::Elastic, 3);
    }
    let per_s = |n: Maybe<u64>| {
        n.map_or("-".to_owned(), |n| crate::number::significant_4(n as f64 / interval.seconds()))
    };
    for sample in &interval.cpus {
        let mut row = vec![(sample.cpu.to_string(), None)];
        let tint = sample.saturated().then_some(Tint::Bad);
        row.extend(shown.iter().map(|(_, _, of)| (ratio_cell(of(sample)), tint)));
        row.extend(has_switches.then(|| (per_s(sample.switches.clone()), None)));
        row.extend(has_top.then(|| (hottest(sample).unwrap_or_default(), None)));
        table.row(row);
    }
    let strong = Some(Tint::Strong);
    let mut row = vec![("all".to_owned(), strong)];
    row.extend(shown.iter().map(|(_, _, of)| (ratio_cell(interval.mean(of)), strong)));
    let switches: Maybe<u64> = interval.cpus.iter().map(|s| s.switches.clone()).sum();
    row.extend(has_switches.then(|| (per_s(switches), strong)));
    row.extend(has_top.then(|| (String::new(), None)));
    table.row(row);
    table
}

fn ratio_cell(ratio: Maybe<f64>) -> String {
    ratio.map_or("-".to_owned(), percent_digits)
}

/// `mariadbd/4711 97.1 %`.
fn hottest(sample: &CpuSample) -> Option<String> {
    let top = sample.top.as_ref().ok()?;
    Some(format!("{}/{} {}", top.comm, top.tid, percent(top.ratio)))
}

fn saturated(sample: &CpuSample) -> String {
    let busy = sample.busy_ratio().map_or(String::new(), |r| format!(", {} busy", percent(r)));
    let by = match &sample.top {
        Ok(top) => format!(": {} (pid {}, thread {}) ran {}", top.comm, top.pid, top.tid, percent(top.ratio)),
        Err(missing) => format!(": by which thread is unknown ({missing})"),
    };
    format!("CPU {} is saturated{busy}{by}", sample.cpu)
}

/// Why whole columns are not there, each reason once.
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
