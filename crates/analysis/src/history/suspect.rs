//! Facts that are new with a change: the machine's settings, versions, the plan, labels.

use std::collections::{BTreeMap, BTreeSet};

use super::point::Point;

/// A fact that differs between the last value before a change and the first one after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Name of the fact.
    pub what: String,
    /// Value before; `None` if there was none.
    pub before: Option<String>,
    /// Value after; `None` if the fact is absent.
    pub after: Option<String>,
}

/// Facts that the first value after a change has and no value before it had.
///
/// A fact that is the same in all values before, and the same in all values after, comes first; a fact that
/// differs in every run, such as a commit, comes last.
///
/// - `before`, `after`: values of the levels on both sides; at least one each.
pub(super) fn suspects(before: &[Point], after: &[Point]) -> Vec<Suspect> {
    let (Some(last), Some(first)) = (before.last(), after.first()) else { return Vec::new() };
    let names: BTreeSet<&String> = last.facts.keys().chain(first.facts.keys()).collect();
    let value = |facts: &BTreeMap<String, String>, name: &str| facts.get(name).cloned();
    let mut found: Vec<(usize, Suspect)> = Vec::new();
    for name in names {
        let new = value(&first.facts, name);
        if before.iter().any(|point| value(&point.facts, name) == new) {
            continue;
        }
        let distinct = |points: &[Point]| {
            points.iter().map(|p| p.facts.get(name.as_str())).collect::<BTreeSet<_>>().len()
        };
        let what = Suspect { what: name.clone(), before: value(&last.facts, name), after: new };
        found.push((distinct(before) + distinct(after), what));
    }
    found.sort_by_key(|(values, _)| *values);
    found.into_iter().map(|(_, suspect)| suspect).collect()
}
