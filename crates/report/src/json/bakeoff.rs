//! `bakeoff.run/1` and `bakeoff.compare/1`: a bake-off and its verdicts.

use std::collections::BTreeMap;

use analysis::families::{Family, FamilySubject};
use analysis::growth::Growth;
use analysis::observing::{self, ObservingCost};
use analysis::{Comparisons, Estimate, FallenOut, LeftOut, Pair, Slope};
use record::bakeoff::{Attempt, Bakeoff, CONTROL_ARM, Metric, Scale, Trial, TrialState};
use record::hosts::OfHost;
use record::missing::Maybe;
use record::warm_up::JudgedCourse;
use serde_json::{Map, Value, json};

use super::object::Object;
use crate::claim::flags;
use crate::words::configuration;

/// The document of a bake-off: the outcome of its cells and attempts, and every verdict.
pub fn run(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Value {
    let attempts = bakeoff.attempts_by_trial();
    let of = |trial: &Trial| attempts.get(&trial.index).map_or(&[][..], Vec::as_slice);
    let ends: Vec<TrialState> = bakeoff.trials.iter().map(|t| end(of(t))).collect();
    let cells = |state| ends.iter().filter(|end| **end == state).count();
    let mut document = json!({
        "schema": "bakeoff.run/1",
        "bakeoff": bakeoff.header.id.to_string(),
        "title": bakeoff.header.title,
        "state": bakeoff.header.state.word(),
        "exploratory": comparisons.exploratory,
        "cells": {
            "planned": bakeoff.trials.len(),
            "sealed": cells(TrialState::Sealed),
            "invalid": cells(TrialState::Invalid),
            "failed": cells(TrialState::Failed),
            "abandoned": cells(TrialState::Abandoned),
            "damaged": cells(TrialState::Damaged),
            "not_begun": cells(TrialState::Planned),
        },
        "attempts": {
            "made": bakeoff.attempts.len(),
            "sealed": bakeoff.attempts_that_ended(TrialState::Sealed),
            "invalid": bakeoff.attempts_that_ended(TrialState::Invalid),
            "failed": bakeoff.attempts_that_ended(TrialState::Failed),
            "abandoned": bakeoff.attempts_that_ended(TrialState::Abandoned),
            "damaged": bakeoff.attempts_that_ended(TrialState::Damaged),
        },
        "comparisons": pairs(comparisons),
        "not_judged": comparisons.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "fallen_out": comparisons.fallen_out.iter().map(fallen_out).collect::<Vec<_>>(),
        "slopes": comparisons.slopes.iter().map(slope).collect::<Vec<_>>(),
        "observing": observing::costs(bakeoff).iter().map(observing_cost).collect::<Vec<_>>(),
        "trials": bakeoff.trials.iter().map(|t| trial(t, of(t))).collect::<Vec<_>>(),
        "gates": super::gates::gates(&comparisons.gates),
        "families": families(bakeoff, comparisons),
        "noise": analysis::noise::noise(bakeoff).map_or(Vec::new(), |noise| super::noise::sources(&noise)),
    });
    if bakeoff.judge.sequential {
        let of = |of: &analysis::sequential::Dropped| json!({"arm": of.arm, "after_block": of.after_block, "metric": of.metric.word()});
        document["dropped"] = comparisons.dropped.iter().map(of).collect();
    }
    put_scaling(&mut document, bakeoff, comparisons);
    put_profiles(&mut document, comparisons);
    if let Some(knees) = super::knee::all(bakeoff, comparisons) {
        document["knees"] = knees;
    }
    super::throttled::put(&mut document, super::throttled::of_all(bakeoff));
    document
}

/// Adds the scaling laws, if a factor sets the number of workers.
fn put_scaling(document: &mut Value, bakeoff: &Bakeoff, comparisons: &Comparisons) {
    if let Some(scaling) = super::concurrency::scaling(bakeoff, comparisons) {
        document["scaling"] = scaling;
    }
}

/// Adds the functions behind the differences, if trials have profiles.
fn put_profiles(document: &mut Value, comparisons: &Comparisons) {
    if let Some(profiles) = super::functions::profiles(&comparisons.profiled, comparisons.rules.alpha) {
        document["profiles"] = profiles;
    }
}

/// Outcome of a trial: that of the attempt that measured it, or of the last one.
fn end(attempts: &[&Attempt]) -> TrialState {
    let measured = |state: TrialState| attempts.iter().map(|a| a.state).find(|s| *s == state);
    measured(TrialState::Sealed)
        .or_else(|| measured(TrialState::Invalid))
        .or_else(|| attempts.last().map(|a| a.state))
        .unwrap_or(TrialState::Planned)
}

/// One trial: its state and reason, and how its warm-up went.
fn trial(trial: &Trial, attempts: &[&Attempt]) -> Value {
    let state = end(attempts);
    let last = attempts.iter().rfind(|a| a.state == state);
    let run = last.and_then(|a| a.run.as_ref());
    let mut document = json!({
        "trial": trial.index,
        "block": trial.block,
        "series": trial.series,
        "levels": trial.levels,
        "state": state.word(),
        "reason": last.and_then(|a| a.reason.clone()),
        "run": run.map(|run| run.header.id.to_string()),
        "control_arm": run.is_some_and(|run| run.header.labels.contains_key(CONTROL_ARM)),
        "flags": run.map(|run| flags(run).collect::<BTreeMap<_, _>>()).unwrap_or_default(),
    });
    if let Some(load) = run.and_then(|run| run.load.as_ref()).filter(|load| !load.hosts.is_empty()) {
        let measured_s = load.measured.as_secs_f64();
        let host = |host: &OfHost| {
            json!({
                "host": host.host,
                "connections": host.connections,
                "done": host.done,
                "failed": host.failed,
                "done_per_s": host.done as f64 / measured_s,
            })
        };
        document["instances"] = load.hosts.iter().map(host).collect();
    }
    if let Some(warm_up) = run.and_then(|run| run.warm_up.as_ref()) {
        let metric =
            |m: &JudgedCourse| json!({"metric": m.metric, "class": m.course.word(), "evidence": m.evidence});
        document["warm_up"] = json!({
            "class": warm_up.course.word(),
            "took_s": warm_up.took_s,
            "batch_s": warm_up.batch_s,
            "batches": warm_up.batches,
            "metrics": warm_up.metrics.iter().map(metric).collect::<Vec<_>>(),
        });
    }
    let places = run.map(analysis::placement::places).unwrap_or_default();
    if places != analysis::placement::Places::default() {
        document["placement"] = json!({"client": places.client, "server": places.server});
    }
    if let Some(run) = run.filter(|run| analysis::memory_trends::was_asked_for(run)) {
        document["memory_trend"] = memory_trend(&analysis::memory_trends::memory_trend(run));
    }
    if let Some(turns) = run.and_then(|run| run.turns) {
        document["turns"] = json!({
            "count": turns.count,
            "slice_s": turns.slice.as_secs_f64(),
            "settle_s": turns.settle.as_secs_f64(),
            "series": turns.series,
        });
    }
    document
}

/// The growth of the server's memory over a trial, or `null` with the reason.
fn memory_trend(trend: &Maybe<Growth>) -> Value {
    let part = |of: fn(&Growth) -> f64| trend.as_ref().map(of).map_err(Clone::clone);
    Object::default()
        .maybe("bytes_per_s", part(|growth| growth.per_s))
        .maybe("low_bytes_per_s", part(|growth| growth.low))
        .maybe("high_bytes_per_s", part(|growth| growth.high))
        .finish()
}

fn observing_cost(cost: &ObservingCost) -> Value {
    let plain = |value: f64| crate::number::plain(cost.metric, value);
    Object::default()
        .with("metric", cost.metric.word())
        .with("pairs", cost.pairs)
        .maybe("ratio", cost.ratio.clone().map(plain))
        .maybe("low", cost.interval.clone().map(|(low, _)| plain(low)))
        .maybe("high", cost.interval.clone().map(|(_, high)| plain(high)))
        .finish()
}

fn families(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Value {
    let of = |family: &Family| {
        let object = Object::default().with("family", family.subject.word());
        let object = match family.subject {
            FamilySubject::Gate(gate) => object.with("gate", gate.to_string()),
            FamilySubject::Metrics | FamilySubject::Functions => object,
        };
        object.with("comparisons", family.comparisons).with("false_ratio_max", family.rate).finish()
    };
    analysis::families::families(bakeoff, comparisons).iter().map(of).collect()
}

/// The document of the verdicts alone.
pub fn compare(comparisons: &Comparisons) -> Value {
    json!({
        "schema": "bakeoff.compare/1",
        "alpha": comparisons.rules.alpha,
        "rope_ratio": comparisons.rules.rope_ratio,
        "exploratory": comparisons.exploratory,
        "family_size": comparisons.pairs.len(),
        "pairs": pairs(comparisons),
        "not_judged": comparisons.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "fallen_out": comparisons.fallen_out.iter().map(fallen_out).collect::<Vec<_>>(),
        "slopes": comparisons.slopes.iter().map(slope).collect::<Vec<_>>(),
    })
}

fn left_out(out: &LeftOut) -> Value {
    json!({
        "a": configuration(&out.a),
        "levels": out.levels,
        "metric": out.metric.word(),
        "reason": out.why.reason,
    })
}

fn fallen_out(of: &FallenOut) -> Value {
    json!({
        "arm": configuration(&of.arm),
        "levels": of.arm,
        "invalid": of.invalid,
        "failed": of.failed,
        "damaged": of.damaged,
        "redone": of.redone,
        "of": of.of,
    })
}

fn slope(slope: &Slope) -> Value {
    let ns = |seconds: f64| seconds * 1e9;
    Object::default()
        .with("metric", Metric::CpuPerEvent.word())
        .with("arm", configuration(&slope.arm))
        .with("levels", json!(slope.levels))
        .maybe("value_ns", slope.value_s.clone().map(ns))
        .maybe("low_ns", slope.interval_s.clone().map(|(low, _)| ns(low)))
        .maybe("high_ns", slope.interval_s.clone().map(|(_, high)| ns(high)))
        .maybe("background_ratio", slope.background_ratio.clone())
        .maybe("theil_sen_ns", slope.robust_s.clone().map(ns))
        .maybe("theil_sen_low_ns", slope.robust_interval_s.clone().map(|(low, _)| ns(low)))
        .maybe("theil_sen_high_ns", slope.robust_interval_s.clone().map(|(_, high)| ns(high)))
        .finish()
}

fn pairs(comparisons: &Comparisons) -> Vec<Value> {
    comparisons.pairs.iter().map(pair).collect()
}

fn pair(pair: &Pair) -> Value {
    let plain = |value: f64| crate::number::plain(pair.metric, value);
    let estimate = |of: fn(&Estimate) -> f64| pair.estimate.as_ref().map(of).map_err(Clone::clone);
    let ratio = |of: fn(&Estimate) -> f64| estimate(of).map(plain);
    let blocks: Map<String, Value> =
        pair.blocks.iter().map(|(block, ratio)| (block.to_string(), json!(plain(*ratio)))).collect();
    Object::default()
        .with("a", configuration(&pair.a))
        .with("b", configuration(&pair.b))
        .with("a_levels", json!(pair.a))
        .with("b_levels", json!(pair.b))
        .with("levels", json!(pair.levels))
        .with("metric", pair.metric.word())
        .with("scale", if pair.metric.scale() == Scale::Points { "points" } else { "ratio" })
        .with("n", pair.n())
        .with("block_ratios", blocks)
        .maybe("ratio", ratio(|e| e.ratio))
        .maybe("low", ratio(|e| e.low))
        .maybe("high", ratio(|e| e.high))
        .maybe("low_adjusted", ratio(|e| e.low_adjusted))
        .maybe("high_adjusted", ratio(|e| e.high_adjusted))
        .maybe("low_equivalence", ratio(|e| e.low_equivalence))
        .maybe("high_equivalence", ratio(|e| e.high_equivalence))
        .maybe("p", estimate(|e| e.p))
        .maybe("p_adjusted", estimate(|e| e.p_adjusted))
        .maybe("p_sign_flip", estimate(|e| e.sign_flip.p))
        .maybe("sign_flip_exact", pair.estimate.as_ref().map(|e| e.sign_flip.exact).map_err(Clone::clone))
        .maybe("hodges_lehmann_ratio", ratio(|e| e.hodges_lehmann))
        .maybe("blocks_needed", pair.blocks_needed.clone())
        .maybe("a_mean", pair.means.clone().map(|m| plain(m.0)))
        .maybe("b_mean", pair.means.clone().map(|m| plain(m.1)))
        .with("open_ratio", pair.open_ratio)
        .maybe("degrees_of_freedom", estimate(|e| e.df))
        .with("verdict", pair.verdict.word())
        .finish()
}
