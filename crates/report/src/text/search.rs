//! A search for the highest rate that keeps a promise: every run on a line, and the answer.

use std::io::{self, Write};

use record::search::{Answer, Probe, ProbeEnd, SearchRecord};

use super::table::{Align, Table};
use super::{Style, Tint, labelled, tinted};
use crate::number::rate;

/// The answer, and the runs that it rests on.
///
/// # Errors
///
/// Those of `out`.
pub fn search(out: &mut dyn Write, search: &SearchRecord, style: Style) -> io::Result<()> {
    let (said, tint) = answer(search);
    writeln!(out, "{}", tinted(&said, tint, style))?;
    writeln!(out)?;
    labelled(out, ("target", None), &search.target.masked(), 10, style)?;
    labelled(out, ("promise", None), &search.promise.to_string(), 10, style)?;
    writeln!(out)?;
    let mut table = Table::default()
        .column("offered/s", Align::Right, 0)
        .column("achieved/s", Align::Right, 2)
        .column("for", Align::Left, 3)
        .column("promise", Align::Left, 0)
        .column("found", Align::Elastic, 1);
    for probe in &search.probes {
        table.row(vec![
            (rate(probe.rate_per_s), None),
            (rate(probe.achieved_per_s), None),
            (probe.stage.word().to_owned(), None),
            (probe.end.word().to_owned(), Some(tint_of(probe.end))),
            (probe.found.clone(), None),
        ]);
    }
    table.write(out, style)
}

/// One run of it in words, as it ends.
pub fn probe(number: usize, probe: &Probe) -> String {
    let Probe { rate_per_s, end, stage, found, .. } = probe;
    format!("{number}: {} {} ({}): {found}", per_second(*rate_per_s), end.word(), stage.word())
}

/// A rate as a user reads and writes it: `497.53/s`.
pub fn per_second(per_s: f64) -> String {
    format!("{}/s", rate(per_s))
}

fn answer(search: &SearchRecord) -> (String, Tint) {
    let promise = &search.promise;
    let invalid = search.probes.last().is_some_and(|probe| probe.end == ProbeEnd::Invalid);
    let limit = if invalid { "runs were INVALID" } else { "the generator was the limit" };
    match &search.answer {
        Answer::Found { rate_per_s, broken_at_per_s } => (
            format!(
                "{promise} holds up to {}/s, in three more runs too; it was broken at {}/s",
                rate(*rate_per_s),
                rate(*broken_at_per_s)
            ),
            Tint::Good,
        ),
        Answer::Unreachable { at_per_s } => (
            format!(
                "{promise} cannot be reached: it was broken even at {}/s, and at a lower rate a try has too few events to tell",
                rate(*at_per_s)
            ),
            Tint::Bad,
        ),
        Answer::GeneratorLimit { kept_per_s: Some(kept), at_per_s } if kept >= at_per_s => (
            format!(
                "{promise} holds at {}/s, and {}: what the target can do is not known",
                rate(*kept),
                if invalid { "later runs were INVALID" } else { "no higher rate is tried" }
            ),
            Tint::Doubt,
        ),
        Answer::GeneratorLimit { kept_per_s: Some(kept), at_per_s } => (
            format!(
                "{promise} holds at {}/s; at {}/s {limit}, and what the target can do is not known",
                rate(*kept),
                rate(*at_per_s)
            ),
            Tint::Doubt,
        ),
        Answer::GeneratorLimit { kept_per_s: None, at_per_s } => {
            (format!("nothing was found: at {}/s {limit} already", rate(*at_per_s)), Tint::Doubt)
        }
        Answer::Unsettled { kept_per_s, broken_at_per_s } => (
            format!(
                "not settled: {promise} held at {}/s and was broken at {}/s, and runs contradict each other",
                rate(*kept_per_s),
                rate(*broken_at_per_s)
            ),
            Tint::Doubt,
        ),
        Answer::Changed { kept_per_s, broken_at_per_s } => (
            format!(
                "INVALID: the target changed during the search: {promise} held at {}/s before and was broken at {}/s after",
                rate(*kept_per_s),
                rate(*broken_at_per_s)
            ),
            Tint::Bad,
        ),
        Answer::Stopped => ("stopped before there was an answer".to_owned(), Tint::Doubt),
    }
}

fn tint_of(end: ProbeEnd) -> Tint {
    match end {
        ProbeEnd::Kept => Tint::Good,
        ProbeEnd::Broken => Tint::Bad,
        ProbeEnd::Unclear | ProbeEnd::Invalid => Tint::Doubt,
    }
}
