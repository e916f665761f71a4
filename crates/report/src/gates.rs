//! Gates in words, and in the forms that continuous integration reads.

pub mod github;
pub mod junit;

use analysis::{GateComparison, GateOutcome, GateResult};
use record::gate::{Gate, GateRule, OnInconclusive};

use crate::number::{change_interval_of, change_of, metric_ends, metric_value};
use crate::words::{at, configuration, plural};

/// `p99 <= 20ms`.
pub(crate) fn name(gate: &Gate) -> String {
    gate.to_string()
}

/// One comparison as a clause: `mimalloc at threads=4: -20.1 % [-21.3 %, -18.9 %], 6 blocks: fail`.
pub(crate) fn comparison(result: &GateResult, of: &GateComparison) -> String {
    let gate = &result.gate;
    let why = of.why.as_ref().map_or(String::new(), |why| format!(" ({})", why.reason));
    format!(
        "{}{}: {}, {}: {}{why}",
        configuration(&of.configuration),
        at(&of.levels),
        measured(gate, of),
        plural(of.blocks, result.unit.word()),
        of.outcome.word(),
    )
}

/// The value of a comparison with its interval; `at least` if it has no upper end.
pub(crate) fn measured(gate: &Gate, of: &GateComparison) -> String {
    let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
    let value = |value: f64| {
        if is_relative { change_of(gate.metric, value) } else { metric_value(gate.metric, value) }
    };
    match (&of.value, &of.low, &of.high) {
        (Ok(middle), Ok(low), Ok(high)) if is_relative => {
            format!("{} {}", change_of(gate.metric, *middle), change_interval_of(gate.metric, *low, *high))
        }
        (Ok(middle), Ok(low), Ok(high)) => {
            let (low, high) = metric_ends(gate.metric, (*low, *high));
            format!("{} [{low}, {high}]", value(*middle))
        }
        (_, Ok(low), Err(_)) => format!("at least {}", value(*low)),
        _ => "no value".to_owned(),
    }
}

/// The result of a gate with what decides it: the first comparison that fails, else that is inconclusive.
pub(crate) fn reason(result: &GateResult) -> String {
    let of = |outcome| result.comparisons.iter().filter(move |c| c.outcome == outcome);
    let all = result.comparisons.len();
    if all == 0 {
        return "nothing to compare".to_owned();
    }
    let Some(first) = of(result.found).next().filter(|_| result.found != GateOutcome::Pass) else {
        return if all == 1 {
            comparison(result, &result.comparisons[0])
        } else {
            format!("all {} pass", plural(all, "comparison"))
        };
    };
    let more = of(result.found).count() - 1;
    let more = if more == 0 { String::new() } else { format!("; {more} more of {all}") };
    format!("{}{more}", comparison(result, first))
}

/// `fail`, or `fail (inconclusive counts as fail)`.
pub(crate) fn outcome(result: &GateResult) -> String {
    if result.found == result.outcome {
        return result.outcome.word().to_owned();
    }
    let effect = match result.gate.on_inconclusive {
        OnInconclusive::Fail => "fails",
        OnInconclusive::Pass => "passes",
        OnInconclusive::Inconclusive => "is inconclusive",
    };
    format!("{} (inconclusive, which {effect} according to the plan)", result.outcome.word())
}

/// The answer in a line: `PASS: 2 of 2 gates`, or `FAIL: 1 of 2 gates: p99 <= 20ms: ...`. `None` without
/// gates.
pub fn answer(results: &[GateResult]) -> Option<String> {
    let worst = worst(results)?;
    let of = |outcome| results.iter().filter(move |r| r.outcome == outcome);
    let count = of(worst).count();
    let counted = format!("{count} of {}", plural(results.len(), "gate"));
    let word = worst.word().to_uppercase();
    let first = of(worst).next()?;
    Some(match worst {
        GateOutcome::Pass => format!("{word}: {counted}"),
        _ => format!("{word}: {counted}: {}: {}", name(&first.gate), reason(first)),
    })
}

/// The worst outcome of the gates: fail before inconclusive before pass. `None` without gates.
pub fn worst(results: &[GateResult]) -> Option<GateOutcome> {
    let order = [GateOutcome::Fail, GateOutcome::Inconclusive, GateOutcome::Pass];
    order.into_iter().find(|outcome| results.iter().any(|r| r.outcome == *outcome))
}

/// Number of gates with this outcome.
fn count(results: &[GateResult], outcome: GateOutcome) -> usize {
    results.iter().filter(|r| r.outcome == outcome).count()
}
