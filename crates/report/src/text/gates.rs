//! The gates of a bake-off at a terminal; the last line is the answer.

use std::io::{self, Write};

use analysis::{GateOutcome, GateResult};

use super::table::{Align, Table};
use super::{Style, Tint, paragraph, tinted};
use crate::gates::{answer, name, outcome, reason};

/// Writes a line for each gate, and the answer. Without gates it writes nothing.
pub(super) fn gates(out: &mut dyn Write, results: &[GateResult], style: Style) -> io::Result<()> {
    let Some(answer) = answer(results) else { return Ok(()) };
    gate_table(out, results, style)?;
    writeln!(out)?;
    paragraph(out, &answer, 0, style)
}

/// Writes a line for each gate, without the answer. Without gates it writes nothing.
pub(super) fn gate_table(out: &mut dyn Write, results: &[GateResult], style: Style) -> io::Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", tinted("gates", Tint::Strong, style))?;
    let table = Table::default().column("gate", Align::Left, 0).column("result", Align::Left, 0);
    let mut table = table.column("reason", Align::Left, 1);
    for result in results {
        let tint = match result.outcome {
            GateOutcome::Pass => Tint::Good,
            GateOutcome::Fail => Tint::Bad,
            GateOutcome::Inconclusive => Tint::Doubt,
        };
        table.row(vec![(name(&result.gate), None), (outcome(result), Some(tint)), (reason(result), None)]);
    }
    table.write(out, style)
}
