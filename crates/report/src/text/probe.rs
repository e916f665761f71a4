//! The latency probe beside a fleet's load, in words.

use std::fmt::Write as _;
use std::io::{self, Write};

use record::histogram::QUANTILES;
use record::load::OfProbe;

use super::{Style, Tint, labelled};
use crate::number::{count, latency};

/// Writes the line of a probe, with label and text in these columns.
pub(super) fn probe(
    out: &mut dyn Write,
    probe: Option<&OfProbe>,
    (left, indent): (usize, usize),
    style: Style,
) -> io::Result<()> {
    let Some(of) = probe else { return Ok(()) };
    let (text, is_bad) = in_words(of);
    labelled(out, (&format!("{:left$}probe", ""), is_bad.then_some(Tint::Bad)), &text, indent, style)
}

/// The probe in a sentence, and whether its numbers are missing or not valid.
pub(crate) fn in_words(of: &OfProbe) -> (String, bool) {
    let name = format!("{} on {} at {}/s", of.agent, of.host, of.per_s);
    let record = match &of.record {
        Ok(record) => record,
        Err(missing) => return (format!("{name}: no numbers: {missing}"), true),
    };
    let mut text = format!("{name}: {} of {} done", count(record.counts.done), count(record.counts.planned));
    if let Ok(Some(summary)) = record.response_summary() {
        for (place, (quantile, _)) in QUANTILES.iter().enumerate() {
            if let Some(ns) = summary.quantile_ns(place).filter(|_| ["p50", "p99"].contains(quantile)) {
                let mark = summary.bound(quantile).mark();
                write!(text, ", {quantile} {mark}{}", latency(ns as f64)).expect("a string");
            }
        }
        let mark = summary.bound("max").mark();
        write!(text, ", max {mark}{}", latency(summary.max_ns as f64)).expect("a string");
    }
    let failures: Vec<&str> = record.verdict.failures().map(|check| check.text.as_str()).collect();
    if !failures.is_empty() {
        let state = record.verdict.state.word();
        write!(text, "; {state}: {}", failures.join("; ")).expect("a string");
    }
    (text, !failures.is_empty())
}
