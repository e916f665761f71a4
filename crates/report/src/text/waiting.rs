//! Interrupts and run-queue waits: time by kind of interrupt, and a histogram of waits.

use std::collections::BTreeMap;
use std::io::{self, Write};

use record::cpu::{CpuInterval, InterruptSample};

use super::Style;
use super::table::{Align, Table};
use crate::number::{count, latency, percent_digits};

/// Writes a row for each kind of interrupt, by time, with its share of each printed CPU.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn interrupts(
    out: &mut dyn Write,
    kinds: &[InterruptSample],
    interval: &CpuInterval,
    style: Style,
) -> io::Result<()> {
    let mut table = ["CPU", "interrupt", "% of its time"]
        .into_iter()
        .zip([Align::Right, Align::Left, Align::Right])
        .fold(Table::default(), |table, (name, align)| table.column(name, align, 0));
    let mut rows: Vec<&InterruptSample> =
        kinds.iter().filter(|k| interval.cpus.iter().any(|c| c.cpu == k.cpu)).collect();
    rows.sort_by_key(|k| (std::cmp::Reverse(k.ns), k.cpu));
    for kind in rows.into_iter().take(ROWS_MAX) {
        let share = kind.ns as f64 * 1e-9 / interval.seconds();
        table.row(vec![
            (kind.cpu.to_string(), None),
            (kind.kind.to_owned(), None),
            (percent_digits(share), None),
        ]);
    }
    table.write(out, style)
}

/// Maximum number of kinds; `--json` lists all.
const ROWS_MAX: usize = 20;

/// Writes a row for each power of two that has waits.
///
/// - `waits`: number of waits in each power of two, by lower bound in nanoseconds.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn waits(out: &mut dyn Write, waits: &BTreeMap<u64, u64>, style: Style) -> io::Result<()> {
    let mut table =
        Table::default().column("waited at least", Align::Right, 0).column("waits", Align::Right, 0);
    for (from_ns, n) in waits {
        table.row(vec![(latency(*from_ns as f64), None), (count(*n), None)]);
    }
    table.write(out, style)
}
