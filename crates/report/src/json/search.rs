//! `bakeoff.search/1`: the highest rate that keeps a promise.

use record::missing::{Maybe, Missing};
use record::search::{Answer, Probe, ProbeEnd, SearchRecord};
use serde_json::Value;

use super::object::Object;

/// The document of a search: its answer, the interval that it lies in, and every run.
pub fn search(search: &SearchRecord) -> Value {
    let unknown = |why: &str| -> Maybe<f64> { Err(Missing::because(why)) };
    let (word, kept, broken) = match &search.answer {
        Answer::Found { rate_per_s, broken_at_per_s } => ("found", Ok(*rate_per_s), Ok(*broken_at_per_s)),
        Answer::Unreachable { at_per_s } => ("unreachable", unknown("it was never kept"), Ok(*at_per_s)),
        Answer::GeneratorLimit { kept_per_s, .. } => {
            let (word, why) = match search.probes.last() {
                Some(Probe { end: ProbeEnd::Invalid, .. }) => ("invalid", "runs were INVALID"),
                _ => ("generator-limit", "the generator was the limit"),
            };
            (word, kept_per_s.ok_or_else(|| Missing::because("it was never kept")), unknown(why))
        }
        Answer::Unsettled { kept_per_s, broken_at_per_s } => {
            ("unsettled", Ok(*kept_per_s), Ok(*broken_at_per_s))
        }
        Answer::Changed { kept_per_s, broken_at_per_s } => ("changed", Ok(*kept_per_s), Ok(*broken_at_per_s)),
        Answer::Stopped => ("stopped", unknown("it was stopped"), unknown("it was stopped")),
    };
    Object::default()
        .with("schema", "bakeoff.search/1")
        .with("target", search.target.masked())
        .with("promise", search.promise.to_string())
        .with("answer", word)
        .maybe("rate_per_s", kept)
        .maybe("broken_at_per_s", broken)
        .with("probes", search.probes.iter().map(probe).collect::<Vec<_>>())
        .finish()
}

fn probe(probe: &Probe) -> Value {
    Object::default()
        .with("rate_per_s", probe.rate_per_s)
        .with("achieved_per_s", probe.achieved_per_s)
        .with("stage", probe.stage.word())
        .with("end", probe.end.word())
        .with("found", probe.found.clone())
        .maybe(
            "run",
            probe.run.map(|id| id.to_string()).ok_or_else(|| Missing::because("the run was not archived")),
        )
        .finish()
}
