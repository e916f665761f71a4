//! Gates in words, and in the forms that continuous integration reads.

pub mod github;
pub mod junit;

use analysis::{GateComparison, GateOutcome, GateResult, limit_of_gate};
use record::gate::{Gate, GateRule, OnInconclusive};

use crate::number::{change_interval_beside, change_of, metric_ends_beside, metric_value};
use crate::words::{at, configuration, plural};

/// `p99 <= 20ms`.
pub(crate) fn name(gate: &Gate) -> String {
    gate.to_string()
}

/// One comparison as a clause: `mimalloc at threads=4: -20.1 % [-21.3 %, -18.9 %], 6 blocks: fail`.
pub(crate) fn comparison(result: &GateResult, of: &GateComparison) -> String {
    let why = of.why.as_ref().map_or(String::new(), |why| format!(" ({})", why.reason));
    format!("{}: {}{why}", numbers(result, of), of.outcome.word())
}

/// The same clause below the outcome of its gate, which it does not repeat.
fn evidence(result: &GateResult, of: &GateComparison) -> String {
    if result.found != result.outcome || of.outcome != result.outcome {
        return comparison(result, of);
    }
    let why = of.why.as_ref().map_or(String::new(), |why| format!(": {}", why.reason));
    format!("{}{why}", numbers(result, of))
}

/// `mimalloc at threads=4: -20.1 % [-21.3 %, -18.9 %], 6 blocks`.
fn numbers(result: &GateResult, of: &GateComparison) -> String {
    format!(
        "{}{}: {}, {}",
        configuration(&of.configuration),
        at(&of.levels),
        measured(&result.gate, of),
        plural(of.blocks, result.unit.word()),
    )
}

/// The value of a comparison with its interval; `at least` if it has no upper end.
pub(crate) fn measured(gate: &Gate, of: &GateComparison) -> String {
    let is_relative = matches!(gate.rule, GateRule::NotWorseBy { .. });
    let value = |value: f64| {
        if is_relative { change_of(gate.metric, value) } else { metric_value(gate.metric, value) }
    };
    let (limit, _) = limit_of_gate(gate);
    match (&of.value, &of.low, &of.high) {
        (Ok(middle), Ok(low), Ok(high)) if is_relative => {
            let interval = change_interval_beside(gate.metric, limit, *low, *high);
            format!("{} {interval}", change_of(gate.metric, *middle))
        }
        (Ok(middle), Ok(low), Ok(high)) => {
            let (low, high) = metric_ends_beside(gate.metric, limit, (*low, *high));
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
            evidence(result, &result.comparisons[0])
        } else {
            format!("all {} pass", plural(all, "comparison"))
        };
    };
    let more = of(result.found).count() - 1;
    let more = if more == 0 { String::new() } else { format!("; {more} more of {all}") };
    format!("{}{more}", evidence(result, first))
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

#[cfg(test)]
mod tests {
    use record::command::CommandEnd;
    use record::commands::{Compared, Comparison, Peak, Phase, Round, Rules, Turn};
    use record::missing::Missing;

    use super::*;

    fn comparison(gate: &str, times: &[[f64; 2]]) -> Comparison {
        let turn = |(command, time_s): (usize, &f64)| Turn {
            command,
            t_ms: 0,
            end: CommandEnd::Code(0),
            time_s: *time_s,
            user_s: *time_s,
            system_s: 0.0,
            events_s: Err(Missing::because("not measured")),
            instructions: Err(Missing::because("not measured")),
            memory: Peak::Bytes(1e6),
            minor_faults: 0,
            major_faults: 0,
            left: 0,
        };
        let round = |(number, times): (u32, &[f64; 2])| Round {
            number,
            phase: Phase::Measured,
            turns: times.iter().enumerate().map(turn).collect(),
        };
        let compared = || Compared { text: "x".into(), parameters: [].into() };
        let gates = vec![Gate::read_of_commands(gate).expect("a gate")];
        Comparison {
            commands: vec![compared(), compared()],
            reference: 0,
            rules: Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1, gates },
            rounds_planned: 8,
            settings: [].into(),
            rounds: (1..).zip(times).map(round).collect(),
        }
    }

    /// `+4.9 %` as 1.049, `1.05x` as 1.05, `99.1ms` as 0.0991.
    fn number(text: &str) -> f64 {
        let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(text.len());
        let value: f64 = text[..end].parse().expect(text);
        match text[end..].trim() {
            "%" => 1.0 + value / 100.0,
            "x" | "s" => value,
            "ms" => value / 1e3,
            "us" => value / 1e6,
            unit => panic!("{unit}"),
        }
    }

    #[test]
    fn a_decided_gate_never_contradicts_its_interval() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let gates = [
            ("time not worse by 5%", 1.05),
            ("time not worse by 12.5%", 1.125),
            ("time not worse by 99.5%", 1.995),
            ("time <= 100ms", 0.1),
            ("time <= 100.25ms", 0.100_25),
        ];
        let (mut decided, mut near) = (0, 0);
        for i in 0..1_000 {
            let (gate, limit) = gates[i % gates.len()];
            let (off, spread) = (0.2 * (next() - 0.5).powi(3), 0.05 * next().powi(4));
            let scale = if limit < 1.0 { 1.0 } else { 0.2 };
            let mut round = || [scale, scale * limit * (off + spread * (next() - 0.5)).exp()];
            let times: Vec<[f64; 2]> = (0..8).map(|_| round()).collect();
            let result = analysis::commands::commands(&comparison(gate, &times), None).gates.remove(0);
            let of = result.comparisons.last().expect("B");
            let is_at = |end: &record::missing::Maybe<f64>| {
                (end.clone().expect("it is known") / limit).ln().abs() < 1e-6
            };
            if is_at(&of.low) || is_at(&of.high) {
                continue;
            }
            let text = measured(&result.gate, of);
            let (_, interval) = text.split_once(" [").expect(&text);
            let (low, high) = interval.trim_end_matches(']').split_once(", ").expect(&text);
            let (low, high) = (number(low), number(high));
            match of.outcome {
                GateOutcome::Pass => assert!(high < limit, "{gate}: pass: {text}"),
                GateOutcome::Fail => assert!(low > limit, "{gate}: fail: {text}"),
                GateOutcome::Inconclusive => continue,
            }
            decided += 1;
            near += usize::from((low / limit - 1.0).abs().min((high / limit - 1.0).abs()) < 0.005);
        }
        assert!(decided > 300 && near > 30, "{decided} {near}");
    }

    #[test]
    fn values_are_counted_in_the_units_that_they_are() {
        let times = [[1.0, 1.0], [1.0, 1.01], [1.0, 0.99], [1.0, 1.0]];
        let mut result =
            analysis::commands::commands(&comparison("time not worse by 5%", &times), None).gates.remove(0);
        let text = reason(&result);
        assert!(
            text.contains(", 4 rounds: ") && text.contains("too few rounds for a gate: 4 of 6"),
            "{text}"
        );
        result.unit = analysis::Replicate::Run;
        assert!(reason(&result).contains(", 4 runs: "), "{}", reason(&result));
    }
}
