//! The gates of a bake-off, with every comparison.

use analysis::{Comparisons, GateOutcome, GateResult};

use super::{Block, Section, Table, Tone, Words};
use crate::gates::{answer, measured, name, outcome};
use crate::number::share;
use crate::words::{configuration, values_of};

/// The section; `None` without gates.
pub(super) fn section(comparisons: &Comparisons) -> Option<Section> {
    let reference = configuration(&comparisons.reference);
    of(&comparisons.gates, comparisons.rules.alpha, &comparisons.conditions, &reference)
}

/// The section for these gates.
///
/// - `conditions`: names of the factors at which the comparisons are made.
pub(super) fn of(
    gates: &[GateResult],
    alpha: f64,
    conditions: &[String],
    reference: &str,
) -> Option<Section> {
    let answer = answer(gates)?;
    let (level, names) = (share(1.0 - alpha), conditions.join(", "));
    let mut blocks = vec![Block::Text(format!(
        "{answer}. Each gate is a decision of its own at {level}; a ratio is against {reference}."
    ))];
    for result in gates {
        let caption = format!("{}: {}", name(&result.gate), outcome(result));
        let unit = format!("#{}s", result.unit.word());
        let mut table =
            Table::new(caption, &["configuration", &names, "result", "#measured", &unit, "reason"]);
        for of in &result.comparisons {
            table.row(vec![
                configuration(&of.configuration).into(),
                values_of(&of.levels, conditions).into(),
                Words::toned(of.outcome.word(), tone(of.outcome)),
                measured(&result.gate, of).into(),
                of.blocks.to_string().into(),
                of.why.as_ref().map_or(String::new(), |why| why.reason.clone()).into(),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    Some(Section { id: "gates", title: "Gates", blocks })
}

fn tone(outcome: GateOutcome) -> Tone {
    match outcome {
        GateOutcome::Pass => Tone::Good,
        GateOutcome::Fail => Tone::Bad,
        GateOutcome::Inconclusive => Tone::Doubt,
    }
}
