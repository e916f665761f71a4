//! Archived runs against each other at a terminal: what differs between them first, then the numbers; the
//! last line is the answer.

use std::io::{self, Write};

use analysis::sides::{Side, SidePair, Sided};
use analysis::{GateOutcome, Verdict, is_answered};
use record::bakeoff::Metric;

use super::gates::gate_table;
use super::table::{Align, Table};
use super::{Style, Tint, ending, paragraph, tinted};
use crate::answer::{Compared, Unit, sentence};
use crate::differing::Difference;
use crate::gates;
use crate::number::{change_interval_of, change_of, metric_value, share};
use crate::words::plural;

/// Writes what differs between the sides, a row for each pair, the gates, and the answer.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn sides(
    out: &mut dyn Write,
    sides: &[Side],
    differing: &[Difference],
    sided: &Sided,
    style: Style,
) -> io::Result<()> {
    if differing.is_empty() {
        paragraph(
            out,
            "The sides do not differ in machine, settings or version, as far as the archive knows.",
            2,
            style,
        )?;
    } else {
        writeln!(out, "{}", tinted("what differs", Tint::Strong, style))?;
        for difference in differing {
            paragraph(out, &format!("  {}", difference.text()), 4, style)?;
        }
    }
    for caveat in &sided.caveats {
        paragraph(out, caveat, 2, style)?;
    }
    writeln!(out)?;
    if !sided.pairs.is_empty() {
        table(sides, sided).write(out, style)?;
    }
    gate_table(out, &sided.gates, style)?;
    ending::answer(out, &answer(sides, sided), style)
}

/// The answer: of the gates if one does not pass; of the pairs, the worst and the best one.
pub fn answer(sides: &[Side], sided: &Sided) -> String {
    let of_pairs = match &told(sided)[..] {
        [] => "cannot tell: the sides have no metric in common that can be judged".to_owned(),
        told => {
            let sentence = |pair: &&SidePair| {
                let at =
                    if pair.condition.is_empty() { String::new() } else { format!(" at {}", pair.condition) };
                format!("{}{at}", pair_sentence(sides, sided, pair))
            };
            told.iter().map(sentence).chain(others(sided, told.len())).collect::<Vec<_>>().join("; ")
        }
    };
    match gates::answer(&sided.gates).filter(|_| gates::worst(&sided.gates) != Some(GateOutcome::Pass)) {
        Some(of_gates) => format!("{of_gates}; {of_pairs}"),
        None => of_pairs,
    }
}

/// The pairs besides those that the answer names, with the number of undecided ones. Without a claim it
/// counts the undecided of all: one metric that is equivalent says nothing about the others.
fn others(sided: &Sided, told: usize) -> Option<String> {
    let all = sided.pairs.len();
    let undecided = sided.pairs.iter().filter(|pair| pair.verdict == Verdict::Inconclusive).count();
    if undecided > 0 && all > 1 && !is_answered(sided.pairs.iter().map(|pair| pair.verdict)) {
        return Some(format!("{undecided} of {} cannot be told", plural(all, "comparison")));
    }
    let rest = all - told;
    let of_rest = match undecided {
        0 => String::new(),
        n if n < rest => format!(", {n} undecided"),
        _ if rest == 1 => ", undecided".to_owned(),
        _ => ", all undecided".to_owned(),
    };
    (rest > 0).then(|| format!("{}{of_rest}", plural(rest, "more comparison")))
}

/// The pairs that the answer names: of each claim the metric that a user feels most and the largest
/// difference, the bad news first; without a claim the first pair that is undecided, if there is one.
fn told(sided: &Sided) -> Vec<&SidePair> {
    let size = |pair: &SidePair| pair.estimate.as_ref().map_or(0.0, |estimate| estimate.ratio.ln().abs());
    let most = |verdict: Verdict| {
        let such = sided.pairs.iter().filter(|pair| pair.verdict == verdict);
        such.min_by(|a, b| rank(a).1.cmp(&rank(b).1).then(size(b).total_cmp(&size(a))))
    };
    let claims: Vec<&SidePair> = [Verdict::Worse, Verdict::Better].into_iter().filter_map(most).collect();
    if claims.is_empty() {
        sided.pairs.iter().min_by_key(|pair| rank(pair)).into_iter().collect()
    } else {
        claims
    }
}

/// Order of pairs for the answer: claims first, then doubts, and of those the metric that a user feels.
fn rank(pair: &SidePair) -> (u8, u8, usize) {
    let verdict = match pair.verdict {
        Verdict::Better | Verdict::Worse => 0,
        Verdict::Inconclusive => 1,
        Verdict::Equivalent => 2,
    };
    let metric = match pair.metric {
        Metric::Throughput | Metric::Time => 0,
        Metric::P99 | Metric::P999 => 1,
        Metric::CpuPerEvent | Metric::Cpu => 2,
        Metric::LockCpu | Metric::IoPerEvent | Metric::MemoryGrowth | Metric::EnergyPerEvent => 3,
    };
    (verdict, metric, pair.a)
}

/// The sentence of a pair.
pub(crate) fn pair_sentence(sides: &[Side], sided: &Sided, pair: &SidePair) -> String {
    let compared = Compared {
        a: &sides[pair.a].name,
        b: &sides[pair.b].name,
        metric: pair.metric,
        estimate: &pair.estimate,
        verdict: pair.verdict,
        needed: &pair.runs_needed,
        have: u32::try_from(pair.n.0.min(pair.n.1)).unwrap_or(u32::MAX),
    };
    sentence(&compared, (1.0 - sided.rules.alpha, sided.rules.rope_ratio), Unit::Runs)
}

fn table(sides: &[Side], sided: &Sided) -> Table {
    let mut table = Table::default()
        .column("side", Align::Elastic, 0)
        .column("at", Align::Elastic, 5)
        .column("metric", Align::Left, 0)
        .column("value", Align::Right, 3)
        .column("reference", Align::Right, 4)
        .column("change", Align::Right, 0)
        .column(format!("{} interval", share(1.0 - sided.rules.alpha)), Align::Right, 1)
        .column("runs", Align::Right, 2)
        .column("verdict", Align::Left, 0);
    for pair in &sided.pairs {
        let value = |of: &record::missing::Maybe<f64>| {
            of.as_ref().map_or_else(|_| "-".to_owned(), |value| metric_value(pair.metric, *value))
        };
        let estimate =
            |of: &dyn Fn(&analysis::Estimate) -> String| pair.estimate.as_ref().map_or("-".to_owned(), of);
        table.row(vec![
            (sides[pair.a].name.clone(), None),
            (pair.condition.clone(), None),
            (pair.metric.word().to_owned(), None),
            (value(&pair.means.0), None),
            (value(&pair.means.1), None),
            (estimate(&|e| change_of(pair.metric, e.ratio)), None),
            (estimate(&|e| change_interval_of(pair.metric, e.low, e.high)), None),
            (format!("{} / {}", pair.n.0, pair.n.1), None),
            (pair.verdict.word().to_owned(), Some(super::bakeoff::verdict_tint(pair.verdict))),
        ]);
    }
    table
}
