//! The result of a pilot: where the noise comes from, and what the plan needs.

use std::io::{self, Write};

use analysis::noise::Noise;
use analysis::power::POWER;

use crate::noise::{Cost, Wanted, aim, design, designs, head, not_counted, parts};
use crate::number::{percent, significant, span};

/// Writes the parts of the noise, what the plan's own blocks find, and designs that find a difference as
/// large as its region of practical equivalence beyond it; the cheapest last.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn noise(out: &mut dyn Write, noise: &Noise, cost: &Cost, wanted: &Wanted) -> io::Result<()> {
    let Wanted { blocks, trial_s, goal } = wanted;
    writeln!(out, "{}:", head(noise))?;
    for [part, share, why] in parts(noise) {
        writeln!(out, "  {part:<16}{share:>8}  {why}")?;
    }
    let own = format!("the plan's {blocks} blocks with phases of {}", span(*trial_s));
    match noise.found(*trial_s, *blocks, goal) {
        Some(found) => writeln!(
            out,
            "{own} find a difference of {} % beyond the ROPE ({}) with a power of {:.0} %; a single interval is \
             +-{} %",
            significant(found * 100.0),
            percent(goal.beyond),
            POWER * 100.0,
            significant(noise.half_width(*trial_s, *blocks, goal.alpha) * 100.0)
        )?,
        None => writeln!(out, "{own} allow no claim")?,
    }
    let mut found = designs(noise, goal);
    found.sort_by(|a, b| cost.of(b).total_cmp(&cost.of(a)));
    if found.is_empty() {
        return writeln!(
            out,
            "no design of at most 1,000 blocks finds {}: reduce the noise first",
            aim(goal)
        );
    }
    writeln!(out, "to find {}; the last is the shortest:", aim(goal))?;
    for one in &found {
        writeln!(out, "  {}, {}", design(one), cost.told(one))?;
    }
    writeln!(out, "{}", not_counted(noise))
}
