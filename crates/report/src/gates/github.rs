//! The result of a bake-off for GitHub Actions: a job summary and annotations.

use analysis::{GateOutcome, GateResult};
use record::printable::printable;

use super::{answer, measured, name, outcome, reason};
use crate::markdown::escape;
use crate::words::{configuration, named};

/// Upper limit of a summary, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 64_000;

/// Space for the words that end a cut summary.
const ENDING_BYTES: usize = 200;
/// Longest text from a plan in one place of a summary or an annotation, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;

/// An answer and the gates in Markdown; at most [`SUMMARY_BYTES_MAX`] bytes.
///
/// - `said`: the answer in plain text.
/// - `trouble`: the reason that the measurement is not whole, if it is not.
/// - `table`: Markdown below it; lines that do not fit are left out.
pub fn summary(title: &str, said: &str, trouble: Option<&str>, table: &str, gates: &[GateResult]) -> String {
    let mut rows = vec![format!("## {}\n\n", short(title)), format!("**{}**\n\n", short(said))];
    // The answer may be that reason already.
    rows.extend(
        trouble.filter(|trouble| *trouble != said).map(|trouble| format!("**{}**\n\n", short(trouble))),
    );
    if let Some(answer) = answer(gates) {
        rows.push(format!("**Gates: {}**\n\n", short(&answer)));
        rows.push("| gate | result | reason |\n| --- | --- | --- |\n".to_owned());
        rows.extend(gates.iter().map(|gate| {
            format!(
                "| {} | {} | {} |\n",
                escape(&name(&gate.gate)),
                escape(&outcome(gate)),
                short(&reason(gate))
            )
        }));
        rows.push(
            "\n| gate | configuration | at | measured | result |\n| --- | --- | --- | --- | --- |\n".into(),
        );
        rows.extend(gates.iter().flat_map(comparison_rows));
        rows.push("\n".to_owned());
    }
    rows.extend(table.split_inclusive('\n').map(str::to_owned));
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        if out.len() + row.len() > SUMMARY_BYTES_MAX - ENDING_BYTES {
            let left = rows.len() - i;
            out.push_str(&left_out(left));
            break;
        }
        out += row;
    }
    out
}

fn comparison_rows(result: &GateResult) -> Vec<String> {
    let row = |of: &analysis::GateComparison| {
        format!(
            "| {} | {} | {} | {} | {} |\n",
            escape(&name(&result.gate)),
            short(&configuration(&of.configuration)),
            short(&named(&of.levels)),
            escape(&measured(&result.gate, of)),
            of.outcome.word(),
        )
    };
    result.comparisons.iter().map(row).collect()
}

/// Commands that make the gates visible in a workflow: an error for each that fails, a warning for each that
/// is inconclusive.
///
/// - `trouble`: the reason that the measurement is not whole, if it is not: an error.
///
/// # Source
///
/// GitHub, *Workflow commands for GitHub Actions*; the escapes are those of `actions/toolkit`.
pub fn annotations(trouble: Option<&str>, results: &[GateResult]) -> Vec<String> {
    let line = |result: &GateResult| {
        let command = match result.outcome {
            GateOutcome::Pass => return None,
            GateOutcome::Fail => "error",
            GateOutcome::Inconclusive => "warning",
        };
        let text = format!("{}: {}: {}", name(&result.gate), outcome(result), reason(result));
        Some(format!("::{command} title=bakeoff gate::{}", data(&text)))
    };
    let of_measurement = trouble.map(|trouble| format!("::error title=bakeoff::{}", data(trouble)));
    of_measurement.into_iter().chain(results.iter().filter_map(line)).collect()
}

/// Data of a command: the only characters with a meaning are the percent sign and line ends.
fn data(text: &str) -> String {
    printable(cut(text)).replace('%', "%25")
}

/// Text from a plan, escaped and not longer than its place.
fn short(text: &str) -> String {
    escape(cut(text))
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}

fn left_out(lines: usize) -> String {
    format!("\n{lines} more lines are left out; `bakeoff report` has them all.\n")
}
