//! The false-alarm rate at a terminal.

use std::io::{self, Write};

use analysis::aa::FalseVerdicts;

use super::{Style, ending, paragraph};
use crate::number::{outward, percent, share};
use crate::words::plural;

/// Writes the rate, and as last line whether it keeps its promise.
///
/// - `what`: the judged families: `simulated families`, `bake-offs of the reference against itself`.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn aa(
    out: &mut dyn Write,
    found: &FalseVerdicts,
    what: &str,
    not_judged: u32,
    style: Style,
) -> io::Result<()> {
    let (low, high) = outward(found.interval, percent);
    let text = format!(
        "{} {what}: {} with a false verdict, {} (95 %: {} to {}); promised: at most {}.",
        found.families,
        found.wrong,
        percent(found.rate()),
        low,
        high,
        share(found.limit)
    );
    paragraph(out, &text, 2, style)?;
    if not_judged > 0 {
        let lost = plural(not_judged as usize, "bake-off");
        paragraph(out, &format!("{lost} made no claim, because trials were lost: not counted."), 2, style)?;
    }
    let answer = if found.is_broken() {
        format!("too many false verdicts: {} instead of {}", percent(found.rate()), share(found.limit))
    } else if found.interval.1 <= found.limit {
        format!("the promise of {} is kept: at most {high} are false", share(found.limit))
    } else {
        let rate = percent(found.rate());
        format!("no sign of too many false verdicts: {rate}, and up to {high} are possible")
    };
    ending::answer(out, &answer, style)
}
