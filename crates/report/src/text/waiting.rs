//! What the CPUs did besides running threads, and what threads waited: kinds of interrupts, histogram of waits.

use std::collections::BTreeMap;
use std::io::{self, Write};

use record::cpu::{CpuInterval, InterruptSample};

use super::Style;
use super::table::{Align, Table};
use crate::number::{count, latency, percent_digits};

/// A row for each kind of interrupt, most time first, with its share of the time of each CPU that is shown.
///
/// # Errors
///
/// Those of `out`.
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

/// So many kinds are shown; `--json` lists all.
const ROWS_MAX: usize = 20;

/// A row for each power of two in which a wait fell.
///
/// - `waits`: how many were at least so many nanoseconds long, and less than twice as long.
///
/// # Errors
///
/// Those of `out`.
pub fn waits(out: &mut dyn Write, waits: &BTreeMap<u64, u64>, style: Style) -> io::Result<()> {
    let mut table =
        Table::default().column("waited at least", Align::Right, 0).column("waits", Align::Right, 0);
    for (from_ns, n) in waits {
        table.row(vec![(latency(*from_ns as f64), None), (count(*n), None)]);
    }
    table.write(out, style)
}
