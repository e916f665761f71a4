//! Throughput against the number of workers, at a terminal.

use std::io::{self, Write};

use analysis::Comparisons;
use record::bakeoff::Bakeoff;

use super::{Style, paragraph};
use crate::concurrency::{name, sentences};
use crate::names::Names;

/// Configurations that are printed.
const SHOWN: usize = 6;

/// Writes a paragraph for each configuration; nothing for a bake-off without numbers of workers.
pub(super) fn concurrency(
    out: &mut dyn Write,
    bakeoff: &Bakeoff,
    comparisons: &Comparisons,
    style: Style,
) -> io::Result<()> {
    let names = Names::of(comparisons);
    for of in analysis::concurrency::concurrency(bakeoff, comparisons).iter().take(SHOWN) {
        let text = format!("{} with {}: {}", name(of, &names), of.factor, sentences(of).join(" "));
        paragraph(out, &text, 0, style)?;
    }
    Ok(())
}
