//! The agents of a fleet at a terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use record::load::OfAgent;

use super::{Style, Tint, labelled};
use crate::number::{count, latency, span};

/// Writes a line for each agent, with labels and texts in these columns.
pub(super) fn agents(
    out: &mut dyn Write,
    agents: &[OfAgent],
    (left, indent): (usize, usize),
    style: Style,
) -> io::Result<()> {
    for of in agents {
        let mut text = format!(
            "{} on {}: {} of {} done",
            of.agent,
            of.host,
            count(of.counts.done),
            count(of.counts.planned)
        );
        match &of.clock {
            Ok(clock) => write!(text, ", clock +-{}", latency(clock.bound_ns as f64)).expect("a string"),
            Err(missing) => write!(text, ", clock unknown: {missing}").expect("a string"),
        }
        if let Ok(skew_ns) = &of.start_skew_ns {
            write!(text, ", started {} late", latency((*skew_ns).max(0) as f64)).expect("a string");
        }
        if let Some(at_s) = of.lost_at_s {
            write!(text, ", LOST {} into the measured phase", span(at_s.max(0.0))).expect("a string");
        }
        if !of.missing_slices.is_empty() {
            write!(text, ", {} intervals missing", of.missing_slices.len()).expect("a string");
        }
        let is_bad = of.lost_at_s.is_some() || !of.missing_slices.is_empty();
        labelled(out, (&format!("{:left$}agent", ""), is_bad.then_some(Tint::Bad)), &text, indent, style)?;
    }
    Ok(())
}
