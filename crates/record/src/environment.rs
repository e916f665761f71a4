//! What the machine was, as a flat list of named facts.
//!
//! Flat, so that two of them are compared line by line and a new fact is one more line. A fact that could not be
//! read says why.

use std::collections::BTreeMap;

use crate::missing::Maybe;
use crate::proof::Calibration;

/// Facts about a machine at the time of a run, by dotted name: `cpu.model`, `kernel.release`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Name to value, or to the reason why it is not known.
    pub facts: BTreeMap<String, Maybe<String>>,
    /// How our instruments were last proved on it, subject by subject; empty where they never were.
    pub calibration: Vec<Calibration>,
}

impl Environment {
    /// The fact of that name, where it is known.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name)?.as_deref().ok()
    }

    /// Names whose value differs between the two, or is known to one only; in alphabetical order.
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.facts.keys().chain(other.facts.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|n| self.fact(n) != other.fact(n));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::missing::Missing;

    #[test]
    fn facts_differ_by_value_and_by_being_known() {
        let one = Environment {
            facts: [("a".into(), Ok("1".into())), ("b".into(), Ok("2".into())), ("c".into(), Ok("3".into()))]
                .into(),
            calibration: Vec::new(),
        };
        let two = Environment {
            facts: [
                ("a".into(), Ok("1".into())),
                ("b".into(), Ok("5".into())),
                ("c".into(), Err(Missing::because("no permission"))),
            ]
            .into(),
            calibration: Vec::new(),
        };
        assert_eq!(one.differing(&two), ["b", "c"]);
    }
}
