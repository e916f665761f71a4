//! `bakeoff.runs/1`: the contents of the archive.

use analysis::Series;
use record::missing::Missing;
use record::run::{Run, RunHeader};
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

/// The document of a run without a load: its entry, and five numbers for each of its series.
pub fn recorded(run: &Run) -> Value {
    let mut value = listed(&run.header);
    value["schema"] = json!("bakeoff.recorded/1");
    super::throttled::put(&mut value, super::throttled::throttled(&run.throttled));
    let analysis::AllSeries { series, note } = analysis::series(run);
    value["series"] = series.iter().map(summary).collect();
    if let Some(note) = note {
        value["series_note"] = json!(note);
    }
    value
}

fn summary(series: &Series) -> Value {
    json!({
        "name": series.name.as_str(),
        "host": series.host.as_str(),
        "labels": series.labels,
        "count": series.points.len(),
        "mean": series.mean,
        "min": series.min,
        "max": series.max,
    })
}

/// The entry of one run.
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
