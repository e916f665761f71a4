//! Names of configurations and conditions, by what differs between them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Comparisons;
use record::bakeoff::Levels;

use crate::words::{list, named};

/// Values that say nothing without the name of their factor.
const MEANINGLESS_ALONE: [&str; 10] =
    ["on", "off", "yes", "no", "true", "false", "none", "auto", "default", "enabled"];

/// Names of a bake-off's factors and levels.
#[derive(Debug)]
pub(crate) struct Names {
    /// Whether the value alone names the level, for each factor with at least two values.
    alone: BTreeMap<String, bool>,
}

impl Names {
    /// Names for the cells of these comparisons.
    ///
    /// A factor with one value names nothing. A value stands alone if all values of its factor are words, and
    /// if no other factor has any of them.
    pub(crate) fn of(comparisons: &Comparisons) -> Self {
        let mut values: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        let levels = comparisons.cells.iter().map(|cell| &cell.levels);
        for (factor, value) in levels.chain([&comparisons.reference]).flatten() {
            values.entry(factor).or_default().insert(value);
        }
        let differing: Vec<_> = values.into_iter().filter(|(_, values)| values.len() > 1).collect();
        let alone = |factor: &String, own: &BTreeSet<&String>| {
            let elsewhere = differing.iter().any(|(f, all)| *f != factor && !all.is_disjoint(own));
            !elsewhere && own.iter().all(|value| is_word(value))
        };
        Self { alone: differing.iter().map(|(f, own)| ((*f).clone(), alone(f, own))).collect() }
    }

    /// `wal, normal`, `cache=64`: a configuration.
    pub(crate) fn configuration(&self, levels: &Levels) -> String {
        self.joined(levels, '=')
    }

    /// `threads 4`, `threads 4, rate 500`: a condition; empty if there is only one.
    pub(crate) fn condition(&self, levels: &Levels) -> String {
        if levels.keys().any(|factor| self.alone.contains_key(factor)) {
            self.joined(levels, ' ')
        } else {
            String::new()
        }
    }

    /// ` at threads 1 and 2`, ` at 5 of 12 levels`: these of `all` conditions.
    pub(crate) fn place(&self, conditions: &[&Levels], all: usize) -> String {
        let factors: BTreeSet<&String> =
            conditions.iter().flat_map(|c| c.keys()).filter(|f| self.alone.contains_key(*f)).collect();
        let told: Vec<String> = match factors.first() {
            None => return String::new(),
            Some(factor) if factors.len() == 1 && !self.alone[*factor] => {
                let values: Vec<String> = conditions.iter().filter_map(|c| c.get(*factor).cloned()).collect();
                vec![format!("{factor} {}", list(&values))]
            }
            Some(_) => conditions.iter().map(|c| self.condition(c)).collect(),
        };
        if conditions.len() > 4 {
            return format!(" at {} of {all} levels", conditions.len());
        }
        format!(" at {}", list(&told))
    }

    fn joined(&self, levels: &Levels, between: char) -> String {
        let told: Vec<String> = levels
            .iter()
            .filter_map(|(factor, value)| match self.alone.get(factor)? {
                true => Some(value.clone()),
                false => Some(format!("{factor}{between}{value}")),
            })
            .collect();
        match (told.is_empty(), levels.is_empty()) {
            (false, _) => told.join(", "),
            (true, false) => named(levels),
            (true, true) => "all".to_owned(),
        }
    }
}

fn is_word(value: &str) -> bool {
    value.starts_with(char::is_alphabetic)
        && !MEANINGLESS_ALONE.contains(&value.to_ascii_lowercase().as_str())
}
