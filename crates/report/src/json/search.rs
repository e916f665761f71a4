//! `bakeoff.search/1`: the highest rate that meets an objective.

use record::missing::{Maybe, Missing};
use record::search::{Answer, Probe, ProbeEnd, SearchRecord, Try};
use serde_json::Value;

use super::object::Object;

/// The document of a search: its answer, the answer's interval, the numbers (from 1) of the tries that
/// contradict it, and every run.
pub fn search(search: &SearchRecord) -> Value {
    let unknown = |why: &str| -> Maybe<f64> { Err(Missing::because(why)) };
    let (word, kept, broken) = match &search.answer {
        Answer::Found { rate_per_s, broken_at_per_s } => ("found", Ok(*rate_per_s), Ok(*broken_at_per_s)),
        Answer::Unreachable { at_per_s } => {
            ("unreachable", unknown("no try kept the promise"), Ok(*at_per_s))
        }
        Answer::TooShort { .. } => {
            ("too-short", unknown("no try kept the promise"), unknown("the tries are too short"))
        }
        Answer::GeneratorLimit { kept_per_s, .. } => {
            let (word, why) = match search.probes.last() {
                Some(Probe { end: ProbeEnd::Invalid, .. }) => ("invalid", "runs were INVALID"),
                _ => ("generator-limit", "the generator was the bottleneck"),
            };
            (word, kept_per_s.ok_or_else(|| Missing::because("no try kept the promise")), unknown(why))
        }
        Answer::Unsettled { kept, broken } => {
            let rate = |tried: &Option<Try>, why: &str| {
                tried.map(|tried| tried.rate_per_s).ok_or_else(|| Missing::because(why))
            };
            ("unsettled", rate(kept, "no try kept the promise"), rate(broken, "no try broke the promise"))
        }
        Answer::Changed { kept, broken, .. } => ("changed", Ok(kept.rate_per_s), Ok(broken.rate_per_s)),
        Answer::Stopped => ("stopped", unknown("the search was stopped"), unknown("the search was stopped")),
    };
    Object::default()
        .with("schema", "bakeoff.search/1")
        .with("target", search.target.masked())
        .with("promise", search.promise.to_string())
        .with("answer", word)
        .maybe("rate_per_s", kept)
        .maybe("broken_at_per_s", broken)
        .with("contradicting_tries", search.contradicting())
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
