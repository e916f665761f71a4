//! `bakeoff.scale/1`: one copy against many.

use analysis::scale::{Level, Scale, Versus};
use analysis::usl::{Fitted, Scaling};
use record::bakeoff::Bakeoff;
use record::missing::Maybe;
use serde_json::{Value, json};

use super::object::Object;

/// The document of a scale run and of its comparison with another.
pub fn scale(bakeoff: &Bakeoff, scale: &Scale, versus: Option<&Versus>) -> Value {
    let object = Object::default()
        .with("schema", "bakeoff.scale/1")
        .with("run", bakeoff.header.id.to_string())
        .with("state", bakeoff.header.state.word())
        .with("rounds", bakeoff.blocks)
        .maybe("cpus", scale.cpus.clone())
        .with("levels", scale.levels.iter().map(level).collect::<Vec<_>>())
        .with("fit", fit(&scale.scaling, "copies"))
        .maybe("seduction", scale.seduction.clone())
        .with("caveats", json!(scale.caveats))
        .maybe("throttled", super::throttled::of_all(bakeoff));
    match versus {
        Some(versus) => object.with("compared", compared(versus)).finish(),
        None => object.finish(),
    }
}

fn level(level: &Level) -> Value {
    let interval = level.work_per_s.clone().and_then(|(_, interval)| interval);
    Object::default()
        .with("copies", level.copies)
        .maybe("work_per_s", level.work_per_s.clone().map(|(work, _)| work))
        .maybe("work_per_s_interval", interval.map(|(low, high)| json!([low, high])))
        .maybe("per_copy_per_s", level.per_copy_per_s.clone())
        .maybe("efficiency", level.efficiency.clone())
        .maybe("fairness_ratio", level.fairness.clone())
        .maybe("cpu_s_per_run", level.cpu_s_per_run.clone())
        .maybe("cpus_per_copy", level.cpus_per_copy.clone())
        .maybe("busy_ratio", level.busy_ratio.clone())
        .maybe("others_ratio", level.others_ratio.clone())
        .maybe("saturated_cpus", level.saturated.clone())
        .with("n", level.rounds.len())
        .with("invalid", json!(level.invalid))
        .finish()
}

/// - `unit`: name of the number of things at the peak.
pub(super) fn fit(scaling: &Scaling, unit: &str) -> Value {
    let cliff = scaling.cliff.as_ref().map(
        |c| json!({"at": c.at, "next": c.next, "left_ratio": c.left_ratio, "allowed_ratio": c.allowed_ratio}),
    );
    Object::default()
        .with("laws", scaling.laws.iter().map(law).collect::<Vec<_>>())
        .maybe("chosen", scaling.chosen.clone().map(analysis::usl::Law::word))
        .maybe(
            "peak",
            scaling.peak.clone().map(|(at, (low, high))| json!({unit: at, "low": low, "high": high})),
        )
        .with("cliff", cliff.unwrap_or(Value::Null))
        .with("retrograde", scaling.retrograde)
        .with("slow_tail", scaling.slow_tail)
        .finish()
}

fn law(fitted: &Fitted) -> Value {
    let of = |value: f64, place: usize| {
        let end = |of: fn(&(f64, f64)) -> f64| fitted.intervals.clone().map(|all| of(&all[place]));
        Object::default()
            .with("value", value)
            .maybe("low", end(|interval| interval.0))
            .maybe("high", end(|interval| interval.1))
            .finish()
    };
    Object::default()
        .with("law", fitted.law.word())
        .with("lambda", of(fitted.curve.lambda, 0))
        .with("sigma", of(fitted.curve.sigma, 1))
        .with("kappa", of(fitted.curve.kappa, 2))
        .maybe("aicc", fitted.aicc.clone())
        .maybe("lack_of_fit_p", fitted.lack_of_fit_p.clone())
        .finish()
}

fn compared(versus: &Versus) -> Value {
    let ratio = |r: &Maybe<analysis::scale::Ratio>| {
        r.clone().map(|r| json!({"ratio": r.ratio, "low": r.low, "high": r.high}))
    };
    Object::default()
        .maybe("one_copy", ratio(&versus.one))
        .maybe("all_copies", ratio(&versus.all))
        .with("sentence", versus.sentence.clone())
        .finish()
}
