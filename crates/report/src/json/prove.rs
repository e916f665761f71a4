//! `bakeoff.prove/1`: instruments against known truths.

use record::proof::Proof;
use record::run::RunId;
use serde_json::{Value, json};

use super::object::Object;

/// The document of one run's proofs; `run` is present if the run is archived.
pub fn prove(run: Option<RunId>, proofs: &[Proof]) -> Value {
    json!({
        "schema": "bakeoff.prove/1",
        "run": run.map(|id| id.to_string()),
        "proofs": proofs.iter().map(proof).collect::<Vec<_>>(),
    })
}

fn proof(proof: &Proof) -> Value {
    let object = Object::default()
        .with("subject", proof.subject.clone())
        .with("instrument", proof.instrument.clone())
        .with("ours", proof.ours)
        .with("workload", proof.workload.clone())
        .maybe("truth", proof.truth.clone())
        .maybe("found", proof.found.clone())
        .maybe("error", proof.error())
        .with("limit", proof.limit)
        .with("unit", proof.unit.word())
        .maybe("cost", proof.cost_ratio.clone())
        .with("verdict", proof.verdict().word());
    match &proof.remark {
        Some(remark) => object.with("remark", remark.clone()).finish(),
        None => object.finish(),
    }
}
