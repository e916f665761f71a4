//! `bakeoff.runs/1`: what the archive holds.

use record::missing::Missing;
use record::run::RunHeader;
use serde_json::{Value, json};

use super::object::Object;
use crate::number::rfc3339;

/// The document of a list of runs and bake-offs, in the order given.
pub fn runs<'a>(headers: impl IntoIterator<Item = &'a RunHeader>) -> Value {
    json!({
        "schema": "bakeoff.runs/1",
        "runs": headers.into_iter().map(listed).collect::<Vec<_>>(),
    })
}

/// One entry of it.
pub fn listed(header: &RunHeader) -> Value {
    let bakeoff = header.bakeoff.map(|id| id.to_string());
    let object = Object::default()
        .with("run", header.id.to_string())
        .with("kind", header.kind.word())
        .with("state", header.state.word())
        .with("started", rfc3339(header.anchor.unix_ns))
        .with("title", header.title.clone())
        .with("labels", json!(header.labels))
        .maybe("bakeoff", bakeoff.ok_or_else(|| Missing::because("it belongs to no bake-off")));
    match &header.reason {
        Some(reason) => object.with("reason", reason.clone()).finish(),
        None => object.finish(),
    }
}
