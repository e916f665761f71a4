//! Throughput of a bake-off against the number of workers.

use analysis::Comparisons;
use analysis::concurrency::{Concurrency, Evidence, Step, concurrency};
use record::bakeoff::Bakeoff;
use serde_json::{Value, json};

use super::object::Object;
use super::scale::fit;

/// The scaling of every configuration; `None` for a bake-off without numbers of workers.
pub(super) fn scaling(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Value> {
    let all = concurrency(bakeoff, comparisons);
    (!all.is_empty()).then(|| all.iter().map(one).collect())
}

fn one(of: &Concurrency) -> Value {
    json!({
        "factor": of.factor,
        "a": of.a,
        "levels": of.levels,
        "steps": of.steps.iter().map(step).collect::<Vec<_>>(),
        "fit": fit(&of.scaling, "workers"),
        "evidence": of.evidence.iter().map(evidence).collect::<Vec<_>>(),
    })
}

fn step(step: &Step) -> Value {
    let interval = step.throughput.clone().and_then(|(_, interval)| interval);
    Object::default()
        .with("workers", step.workers)
        .maybe("throughput_per_s", step.throughput.clone().map(|(mean, _)| mean))
        .maybe("low_per_s", interval.clone().map(|(low, _)| low))
        .maybe("high_per_s", interval.map(|(_, high)| high))
        .maybe("efficiency_ratio", step.efficiency.clone())
        .maybe("cpu_per_event_s", step.cpu_per_event_s.clone())
        .maybe("lock_cpu_ratio", step.lock_cpu_ratio.clone())
        .maybe("busy_ratio", step.busy_ratio.clone())
        .maybe("waiting_threads", step.waiting.clone())
        .with("blocks", step.blocks.len())
        .finish()
}

fn evidence(of: &Evidence) -> Value {
    Object::default()
        .with("clue", of.clue.word())
        .with("fewest", of.ends.0)
        .with("most", of.ends.1)
        .with("change", of.change)
        .maybe("low", of.interval.clone().map(|(low, _)| low))
        .maybe("high", of.interval.clone().map(|(_, high)| high))
        .finish()
}
