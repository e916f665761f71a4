//! Energy at a terminal, on one line.

use std::io::{self, Write};

use record::power::EnergySample;

use super::{Style, paragraph};
use crate::number::significant;

/// `energy: package-0 31.2 W (31.2 J), package-0/dram unknown (...)`.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn energy(out: &mut dyn Write, zones: &[EnergySample], style: Style) -> io::Result<()> {
    let one = |zone: &EnergySample| match (&zone.power_w(), &zone.energy_j) {
        (Ok(watts), Ok(joules)) => {
            format!("{} {} W ({} J)", zone.zone, significant(*watts), significant(*joules))
        }
        (Err(why), Ok(joules)) => {
            format!("{} {} J, power unknown ({why})", zone.zone, significant(*joules))
        }
        (_, Err(why)) => format!("{} unknown ({why})", zone.zone),
    };
    let zones: Vec<String> = zones.iter().map(one).collect();
    let text =
        if zones.is_empty() { "unknown (the counters disappeared)".to_owned() } else { zones.join(", ") };
    paragraph(out, &format!("energy: {text}"), 2, style)
}
