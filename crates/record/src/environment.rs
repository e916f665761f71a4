//! Description of the machine, as a flat list of named facts.
//!
//! A flat list is compared line by line, and a new fact adds one line. A fact that could not be read has a
//! reason.

use std::collections::BTreeMap;

use crate::missing::Maybe;
use crate::proof::Calibration;

/// Facts about a machine at the time of a run, by dotted name: `cpu.model`, `kernel.release`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Name to value, or to the reason why the value is unknown.
    pub facts: BTreeMap<String, Maybe<String>>,
    /// Latest calibration of bakeoff's instruments on this machine, by subject; empty if they were never
    /// calibrated.
    pub calibration: Vec<Calibration>,
}

impl Environment {
    /// Value of the fact `name`; `None` if it is unknown.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name)?.as_deref().ok()
    }

    /// Names of facts that differ or are known on one side only, in alphabetical order.
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
