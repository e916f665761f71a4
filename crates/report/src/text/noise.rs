//! The result of a pilot: where the noise comes from, and what the plan needs.

use std::io::{self, Write};

use analysis::noise::Noise;

use crate::noise::{Cost, design, designs, head, parts};
use crate::number::{percent, significant, span};

/// Writes the parts of the noise, what the plan's own blocks give, and designs that reach its region of
/// practical equivalence; the cheapest last.
///
/// - `plan`: its blocks, length of a phase in seconds, region and alpha.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn noise(
    out: &mut dyn Write,
    noise: &Noise,
    cost: &Cost,
    (blocks, trial_s, rope_ratio, alpha): (u32, f64, f64, f64),
) -> io::Result<()> {
    writeln!(out, "{}:", head(noise))?;
    for [part, share, why] in parts(noise) {
        writeln!(out, "  {part:<16}{share:>8}  {why}")?;
    }
    if blocks >= 2 {
        let half = noise.half_width(trial_s, blocks, alpha);
        writeln!(
            out,
            "the plan's {blocks} blocks with phases of {} give intervals of +-{} %",
            span(trial_s),
            significant(half * 100.0)
        )?;
    }
    let mut found = designs(noise, rope_ratio, alpha);
    found.sort_by(|a, b| cost.of(b).total_cmp(&cost.of(a)));
    let wanted = percent(rope_ratio);
    if found.is_empty() {
        return writeln!(
            out,
            "no design of at most 1,000 blocks gives intervals of +-{wanted}: reduce the noise first"
        );
    }
    writeln!(out, "for intervals of +-{wanted}, the plan's `rope`; the last is the shortest:")?;
    for one in &found {
        writeln!(out, "  {}, {}", design(one), cost.told(one))?;
    }
    Ok(())
}
