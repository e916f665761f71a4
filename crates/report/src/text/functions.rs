//! The functions behind the differences of a bake-off, at a terminal.

use std::io::{self, Write};

use analysis::functions::{FunctionDifference, Functions};
use analysis::{Comparisons, Verdict};

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::functions::{
    caveats, change, interval, left_out, method, name, samples, sentence, share_of_time, sides, subject,
    verdict,
};
use crate::names::Names;
use crate::number::latency;
use crate::words::{capital, plural};

/// Pairs that are printed.
const PAIRS: usize = 3;
/// Functions of a pair: clear ones, and in any case the largest.
const CLEAR: usize = 6;
const LARGEST: usize = 3;

/// Writes a table of functions for the pairs with the largest differences; nothing for a bake-off without
/// profiles.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub(super) fn functions(out: &mut dyn Write, comparisons: &Comparisons, style: Style) -> io::Result<()> {
    let profiled = &comparisons.profiled;
    let names = Names::of(comparisons);
    let order = profiled.most_different();
    if !order.is_empty() {
        writeln!(out)?;
    }
    for pair in order.iter().take(PAIRS).map(|i| &profiled.pairs[*i]) {
        let title = format!("{}: {}", capital(&subject(pair)), sides(pair, &names));
        paragraph(out, &title, 2, style)?;
        table(pair).write(out, style)?;
        paragraph(out, &sentence(pair), 0, style)?;
        for line in caveats(pair, &names) {
            paragraph(out, &format!("- {line}"), 2, style)?;
        }
        writeln!(out)?;
    }
    for line in left_out(profiled) {
        paragraph(out, &line, 0, style)?;
    }
    if order.is_empty() {
        return Ok(());
    }
    if order.len() > PAIRS {
        let more = plural(order.len() - PAIRS, "more comparison");
        paragraph(out, &format!("{more} of profiles: --json has all."), 0, style)?;
    }
    paragraph(out, &method(profiled, comparisons.rules.alpha), 0, style)
}

fn table(pair: &Functions) -> Table {
    let mut table = Table::default()
        .column("function", Align::Elastic, 0)
        .column("value", Align::Right, 2)
        .column("reference", Align::Right, 3)
        .column("share %", Align::Right, 5)
        .column("reference %", Align::Right, 6)
        .column("change", Align::Right, 0)
        .column("interval", Align::Right, 1)
        .column("samples", Align::Right, 4)
        .column("time", Align::Left, 0);
    let shown =
        pair.functions.iter().enumerate().filter(|(n, f)| *n < LARGEST || (*n < CLEAR && f.is_clear()));
    for f in std::iter::once(&pair.whole).chain(shown.map(|(_, f)| f)) {
        let [value, reference] = f.ns_per_event.map(latency);
        let [share, of_reference] = f.share.map(share_of_time);
        let cells = [
            name(f),
            value,
            reference,
            share,
            of_reference,
            change(f),
            interval(f).unwrap_or_else(|_| "-".to_owned()),
            samples(f),
        ];
        let mut row: Vec<(String, Option<Tint>)> = cells.map(|cell| (cell, None)).to_vec();
        row.push((verdict(f).to_owned(), Some(tint(f))));
        table.row(row);
    }
    table
}

fn tint(function: &FunctionDifference) -> Tint {
    match function.verdict {
        Verdict::Better => Tint::Good,
        Verdict::Worse => Tint::Bad,
        Verdict::Equivalent => Tint::Strong,
        Verdict::Inconclusive => Tint::Doubt,
    }
}
