//! A search for the highest rate that meets an objective: a line for each run, and the answer.

use std::io::{self, Write};

use record::search::{Answer, Probe, ProbeEnd, SearchRecord, Try};

use super::table::{Align, Table};
use super::{Style, Tint, labelled, tinted};
use crate::number::rate;

/// Writes the answer and the runs that it rests on.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn search(out: &mut dyn Write, search: &SearchRecord, style: Style) -> io::Result<()> {
    let (said, tint) = answer(search);
    writeln!(out, "{}", tinted(&said, tint, style))?;
    writeln!(out)?;
    labelled(out, ("target", None), &search.target.masked(), 10, style)?;
    labelled(out, ("promise", None), &search.promise.to_string(), 10, style)?;
    writeln!(out)?;
    let mut table = Table::default()
        .column("try", Align::Right, 0)
        .column("offered/s", Align::Right, 0)
        .column("achieved/s", Align::Right, 2)
        .column("for", Align::Left, 3)
        .column("promise", Align::Left, 0)
        .column("found", Align::Elastic, 1);
    for (number, probe) in (1_usize..).zip(&search.probes) {
        table.row(vec![
            (number.to_string(), None),
            (rate(probe.rate_per_s), None),
            (rate(probe.achieved_per_s), None),
            (probe.stage.word().to_owned(), None),
            (probe.end.word().to_owned(), Some(tint_of(probe.end))),
            (probe.found.clone(), None),
        ]);
    }
    table.write(out, style)
}

/// One run of the search in words, printed as it ends.
pub fn probe(number: usize, probe: &Probe) -> String {
    let Probe { rate_per_s, end, stage, found, .. } = probe;
    format!("{number}: {} {} ({}): {found}", per_second(*rate_per_s), end.word(), stage.word())
}

/// A rate in the form that a user writes: `497.53/s`.
pub fn per_second(per_s: f64) -> String {
    format!("{}/s", rate(per_s))
}

fn answer(search: &SearchRecord) -> (String, Tint) {
    let promise = &search.promise;
    let last = search.probes.last().map(|probe| probe.end);
    let limit = without_evidence(search);
    match &search.answer {
        Answer::Found { rate_per_s, broken_at_per_s } => (
            format!(
                "{promise} holds up to {}, confirmed by three more tries; it was broken at {}{}",
                per_second(*rate_per_s),
                per_second(*broken_at_per_s),
                against(search)
            ),
            Tint::Good,
        ),
        Answer::Unreachable { at_per_s } => (
            format!(
                "{promise} cannot be reached: it was broken even at {}, and at a lower rate a try has too few events to tell{}",
                per_second(*at_per_s),
                against(search)
            ),
            Tint::Bad,
        ),
        Answer::TooShort { at_per_s } => (
            format!(
                "cannot tell: at {}, the lowest rate that a try of this length can judge, {promise} held and only the rate was \
                 missed; use a longer --time{}",
                per_second(*at_per_s),
                against(search)
            ),
            Tint::Doubt,
        ),
        Answer::GeneratorLimit { kept_per_s: Some(kept), .. } if last == Some(ProbeEnd::Kept) => (
            format!(
                "{promise} holds at {}; no higher rate is tried, so the target's limit is unknown{}",
                per_second(*kept),
                against(search)
            ),
            Tint::Doubt,
        ),
        Answer::GeneratorLimit { kept_per_s: Some(kept), at_per_s } => {
            let later = if kept >= at_per_s { "later" } else { "then" };
            let text = format!(
                "{promise} held at {}; {later}, at {}, {limit}, so the target's limit is unknown{}",
                per_second(*kept),
                per_second(*at_per_s),
                against(search)
            );
            (text, Tint::Doubt)
        }
        Answer::GeneratorLimit { kept_per_s: None, at_per_s } => (
            format!("cannot tell: no try kept {promise}, and at {} {limit}", per_second(*at_per_s)),
            Tint::Doubt,
        ),
        Answer::Unsettled { kept, broken } => (unsettled(search, *kept, *broken), Tint::Doubt),
        Answer::Changed { kept, broken, again } => {
            let lower = if broken.number == again.number {
                String::new()
            } else {
                format!(" at {} and", at(*broken))
            };
            let text = format!(
                "INVALID: the target or its machine changed during the search: {promise} held at {}, and was broken later{lower} at {}",
                at(*kept),
                at(*again)
            );
            (text, Tint::Bad)
        }
        Answer::Stopped => ("stopped before there was an answer".to_owned(), Tint::Doubt),
    }
}

/// Reason that the last tries gave no evidence.
fn without_evidence(search: &SearchRecord) -> String {
    let is_unclear = |probe: &&Probe| matches!(probe.end, ProbeEnd::Unclear | ProbeEnd::Invalid);
    let row: Vec<&Probe> = search.probes.iter().rev().take_while(is_unclear).collect();
    let invalid = row.iter().filter(|probe| probe.end == ProbeEnd::Invalid).count();
    let count = row.len();
    match invalid {
        0 => format!("the generator was the bottleneck in {count} tries in a row"),
        _ if invalid == count => format!("{count} tries in a row were INVALID"),
        _ => format!("{count} tries in a row were INVALID, or the generator was the bottleneck"),
    }
}

/// A rate and the number of its try.
fn at(tried: Try) -> String {
    format!("{} (try {})", per_second(tried.rate_per_s), tried.number)
}

fn unsettled(search: &SearchRecord, kept: Option<Try>, broken: Option<Try>) -> String {
    let (promise, tries) = (&search.promise, search.probes.len());
    match (kept, broken) {
        (Some(kept), Some(broken)) if broken.rate_per_s <= kept.rate_per_s => format!(
            "not settled: tries contradict each other: {promise} held at {} and was broken at {}",
            at(kept),
            at(broken)
        ),
        (Some(kept), Some(broken)) => format!(
            "not settled after {tries} tries: {promise} held at {} and was broken at {}",
            at(kept),
            at(broken)
        ),
        (Some(kept), None) => {
            format!("not settled after {tries} tries: {promise} held at {}, and no try broke it", at(kept))
        }
        (None, Some(broken)) => {
            format!(
                "not settled after {tries} tries: {promise} was broken at {}, and no try kept it",
                at(broken)
            )
        }
        (None, None) => format!("not settled after {tries} tries: none was conclusive"),
    }
}

/// A clause that names the tries that contradict the answer, if any: the lowest rate that broke the
/// objective, and the highest that met it.
fn against(search: &SearchRecord) -> String {
    let tries: Vec<(usize, &Probe)> =
        search.contradicting().into_iter().map(|number| (number, &search.probes[number - 1])).collect();
    let of_end = |end| tries.iter().filter(move |(_, probe)| probe.end == end);
    let by_rate = |a: &&(usize, &Probe), b: &&(usize, &Probe)| a.1.rate_per_s.total_cmp(&b.1.rate_per_s);
    let named = |word, found: Option<&(usize, &Probe)>| {
        found.map(|(number, probe)| format!("{word} at {} (try {number})", per_second(probe.rate_per_s)))
    };
    let broken = named("broken", of_end(ProbeEnd::Broken).min_by(by_rate));
    let kept = named("kept", of_end(ProbeEnd::Kept).max_by(by_rate));
    let named: Vec<String> = broken.into_iter().chain(kept).collect();
    match &named[..] {
        [] => String::new(),
        named => {
            let count = tries.len();
            let speak = if count == 1 { "1 try contradicts" } else { &format!("{count} tries contradict") };
            format!("; {speak} this: {}", named.join(", "))
        }
    }
}

fn tint_of(end: ProbeEnd) -> Tint {
    match end {
        ProbeEnd::Kept => Tint::Good,
        ProbeEnd::Broken => Tint::Bad,
        ProbeEnd::Unclear | ProbeEnd::Invalid => Tint::Doubt,
    }
}

#[cfg(test)]
mod tests {
    use record::search::{Promise, Stage};
    use record::target::Target;

    use super::*;

    const KEPT: ProbeEnd = ProbeEnd::Kept;
    const BROKEN: ProbeEnd = ProbeEnd::Broken;
    const UNCLEAR: ProbeEnd = ProbeEnd::Unclear;
    const INVALID: ProbeEnd = ProbeEnd::Invalid;

    /// The text for tries that ended in this way.
    fn said(tries: &[(f64, ProbeEnd)], told: Answer) -> String {
        let probe = |(rate_per_s, end): &(f64, ProbeEnd)| Probe {
            rate_per_s: *rate_per_s,
            stage: Stage::Ramp,
            end: *end,
            found: String::new(),
            achieved_per_s: *rate_per_s,
            run: None,
        };
        let search = SearchRecord {
            target: Target::new("null:"),
            promise: Promise::parse("p99<1ms").unwrap(),
            probes: tries.iter().map(probe).collect(),
            answer: told,
        };
        answer(&search).0
    }

    fn tried(number: usize, rate_per_s: f64) -> Try {
        Try { number, rate_per_s }
    }

    #[test]
    fn an_answer_names_the_tries_that_speak_against_it() {
        let found = Answer::Found { rate_per_s: 200.0, broken_at_per_s: 400.0 };
        let tries = [(200.0, KEPT), (400.0, BROKEN)];
        let plain = "p99<1ms holds up to 200.00/s, confirmed by three more tries; it was broken at 400.00/s";
        assert_eq!(said(&tries, found.clone()), plain);
        let tries = [(100.0, BROKEN), (200.0, BROKEN), (200.0, KEPT), (400.0, KEPT), (400.0, BROKEN)];
        assert_eq!(
            said(&tries, found),
            format!("{plain}; 3 tries contradict this: broken at 100.00/s (try 1), kept at 400.00/s (try 4)")
        );
        let unreachable = said(&[(10.0, KEPT), (10.0, BROKEN)], Answer::Unreachable { at_per_s: 10.0 });
        assert!(unreachable.ends_with("; 1 try contradicts this: kept at 10.000/s (try 1)"), "{unreachable}");
        let short = said(&[(100.0, BROKEN); 2], Answer::TooShort { at_per_s: 100.0 });
        assert!(
            short.starts_with("cannot tell: at 100.00/s, ") && short.ends_with("use a longer --time"),
            "{short}"
        );
    }

    #[test]
    fn tries_that_contradict_each_other_are_named() {
        let changed =
            Answer::Changed { kept: tried(1, 800.0), broken: tried(2, 200.0), again: tried(3, 800.0) };
        let tries = [(800.0, KEPT), (200.0, BROKEN), (800.0, BROKEN)];
        assert_eq!(
            said(&tries, changed),
            "INVALID: the target or its machine changed during the search: p99<1ms held at 800.00/s (try 1), and was broken \
             later at 200.00/s (try 2) and at 800.00/s (try 3)"
        );
        let unsettled = |kept, broken| said(&tries, Answer::Unsettled { kept, broken });
        let (kept, broken) = (Some(tried(1, 800.0)), Some(tried(2, 200.0)));
        assert_eq!(
            unsettled(kept, broken),
            "not settled: tries contradict each other: p99<1ms held at 800.00/s (try 1) and was broken at 200.00/s (try 2)"
        );
        assert_eq!(
            unsettled(None, broken),
            "not settled after 3 tries: p99<1ms was broken at 200.00/s (try 2), and no try kept it"
        );
        assert_eq!(
            unsettled(kept, None),
            "not settled after 3 tries: p99<1ms held at 800.00/s (try 1), and no try broke it"
        );
        assert_eq!(unsettled(None, None), "not settled after 3 tries: none was conclusive");
    }

    #[test]
    fn why_the_last_tries_told_nothing_is_said() {
        let limit = |kept_per_s, at_per_s| Answer::GeneratorLimit { kept_per_s, at_per_s };
        let after = |ends: [ProbeEnd; 3]| {
            let tries = ends.map(|end| (800.0, end));
            said(&[&[(400.0, KEPT)], &tries[..]].concat(), limit(Some(400.0), 800.0))
        };
        let unknown = "so the target's limit is unknown";
        for (ends, why) in [
            ([UNCLEAR; 3], "the generator was the bottleneck in 3 tries in a row"),
            ([INVALID; 3], "3 tries in a row were INVALID"),
            (
                [UNCLEAR, INVALID, UNCLEAR],
                "3 tries in a row were INVALID, or the generator was the bottleneck",
            ),
        ] {
            assert_eq!(after(ends), format!("p99<1ms held at 400.00/s; then, at 800.00/s, {why}, {unknown}"));
        }
        assert_eq!(
            said(&[(400.0, KEPT)], limit(Some(400.0), 400.0)),
            "p99<1ms holds at 400.00/s; no higher rate is tried, so the target's limit is unknown"
        );
        assert_eq!(
            said(&[(10.0, INVALID); 3], limit(None, 10.0)),
            "cannot tell: no try kept p99<1ms, and at 10.000/s 3 tries in a row were INVALID"
        );
    }
}
