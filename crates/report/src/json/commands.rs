//! `bakeoff.compare/1`: commands against each other.

use analysis::Estimate;
use analysis::commands::{CommandPair, Results, Span, Summary};
use record::bakeoff::Metric;
use record::commands::{Comparison, Peak};
use record::missing::{Maybe, Missing};
use record::run::{RunHeader, RunId};
use serde_json::{Value, json};

use super::object::Object;
use crate::number::plain;
use crate::text::{commands_answer, pair_sentence};

/// The document; `run` is present if the comparison is archived.
pub fn commands(run: Option<RunId>, header: &RunHeader, comparison: &Comparison, results: &Results) -> Value {
    let rules = &comparison.rules;
    let mut document = Object::default()
        .with("schema", "bakeoff.compare/1")
        .with("run", run.map(|id| id.to_string()))
        .with("title", header.title.clone())
        .with("state", header.state.word())
        .with("reference", Comparison::letter(comparison.reference))
        .with("alpha", rules.alpha)
        .with("level", 1.0 - rules.alpha)
        .with("rope_ratio", rules.rope_ratio)
        .with("seed", rules.seed)
        .with("rounds", results.rounds)
        .with("rounds_planned", comparison.rounds_planned)
        .with("family_size", results.pairs.len())
        .with("settings", json!(comparison.settings))
        .with(
            "commands",
            (0..comparison.commands.len()).map(|i| command(comparison, results, i)).collect::<Vec<_>>(),
        )
        .with("pairs", results.pairs.iter().map(|p| pair(comparison, results, p)).collect::<Vec<_>>())
        .with("gates", super::gates::gates(&results.gates))
        .with("answer", commands_answer(header, comparison, results));
    if let Some(reason) = &header.reason {
        document = document.with("reason", reason.clone());
    }
    document.finish()
}

fn command(comparison: &Comparison, results: &Results, i: usize) -> Value {
    let (compared, summary) = (&comparison.commands[i], &results.summaries[i]);
    Object::default()
        .with("name", Comparison::letter(i))
        .with("command", compared.text.clone())
        .with("parameters", json!(compared.parameters))
        .maybe("time", summary.time.clone().map(span))
        .maybe("cpu_s", summary.cpu.clone().map(|(user, system)| user + system))
        .maybe("user_s", summary.cpu.clone().map(|(user, _)| user))
        .maybe("system_s", summary.cpu.clone().map(|(_, system)| system))
        .maybe("cpu_by_events_s", summary.cpu_by_events.clone())
        .maybe("instructions", summary.instructions.clone())
        .maybe("max_memory_bytes", memory(summary))
        .with("max_memory_at_most_bytes", memory_bound(summary))
        .maybe("faults", summary.faults.clone())
        .with("rounds", results.rounds)
        .with("rounds_with_processes_left", summary.left)
        .with("rounds_failed", summary.failed)
        .finish()
}

fn span(span: Span) -> Value {
    let interval = || span.interval.ok_or_else(|| Missing::because("an interval needs at least 2 rounds"));
    Object::default()
        .with("mean_s", span.mean)
        .maybe("low_s", interval().map(|(low, _)| low))
        .maybe("high_s", interval().map(|(_, high)| high))
        .finish()
}

fn memory(summary: &Summary) -> Maybe<f64> {
    match summary.memory.clone()? {
        Peak::Bytes(bytes) => Ok(bytes),
        Peak::AtMost(_) => Err(Missing::because(
            "the kernel's peak may be that of the process before it executed the command",
        )),
    }
}

fn memory_bound(summary: &Summary) -> Option<f64> {
    match &summary.memory {
        Ok(Peak::AtMost(bytes) | Peak::Bytes(bytes)) if bytes.is_finite() => Some(*bytes),
        _ => None,
    }
}

fn pair(comparison: &Comparison, results: &Results, pair: &CommandPair) -> Value {
    let times = |i: usize| results.summaries[i].time.clone().map(|span| span.mean);
    with_estimate(Object::default(), Metric::Time, &pair.estimate)
        .with("a", Comparison::letter(pair.a))
        .with("b", Comparison::letter(pair.b))
        .with("a_command", comparison.commands[pair.a].text.clone())
        .with("b_command", comparison.commands[pair.b].text.clone())
        .with("metric", Metric::Time.word())
        .with("unit", Metric::Time.unit())
        .with("level", 1.0 - comparison.rules.alpha)
        .maybe("a_mean", times(pair.a))
        .maybe("b_mean", times(pair.b))
        .with("blocks", results.rounds)
        .maybe("blocks_needed", pair.rounds_needed.clone())
        .with("family", results.pairs.len())
        .with("verdict", pair.verdict.word())
        .with("answer", pair_sentence(comparison, results, pair))
        .finish()
}

/// The ratio with its interval and tests.
pub(super) fn with_estimate(object: Object, metric: Metric, of: &Maybe<Estimate>) -> Object {
    let estimate = |get: fn(&Estimate) -> f64| of.as_ref().map(get).map_err(Clone::clone);
    let ratio = |get: fn(&Estimate) -> f64| estimate(get).map(|value| plain(metric, value));
    let object = match of.as_ref().ok().and_then(|e| e.neighbors) {
        Some(neighbors) => object.with("correlation_of_neighbors", neighbors),
        None => object,
    };
    let object = match of.as_ref().ok().and_then(|e| e.unclear) {
        Some(unclear) => object.with("unclear_correlation_of_neighbors", unclear),
        None => object,
    };
    object
        .maybe("ratio", ratio(|e| e.ratio))
        .maybe("low", ratio(|e| e.low))
        .maybe("high", ratio(|e| e.high))
        .maybe("low_adjusted", ratio(|e| e.low_adjusted))
        .maybe("high_adjusted", ratio(|e| e.high_adjusted))
        .maybe("low_equivalence", ratio(|e| e.low_equivalence))
        .maybe("high_equivalence", ratio(|e| e.high_equivalence))
        .maybe("p", estimate(|e| e.p))
        .maybe("p_adjusted", estimate(|e| e.p_adjusted))
        .maybe("p_distribution_free", estimate(|e| e.sign_flip.p))
        .maybe("hodges_lehmann_ratio", ratio(|e| e.hodges_lehmann))
        .maybe("sd_ln", estimate(|e| e.sd_ln))
        .maybe("degrees_of_freedom", estimate(|e| e.df))
}
