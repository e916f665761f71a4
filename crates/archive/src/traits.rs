//! Machine, targets and factors of runs, for the filters of a list. The index holds them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Fact with the name of a machine.
pub(crate) const MACHINE: &str = "host.name";

/// Machine, targets and factors of a run or bake-off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traits {
    /// Name of the machine, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Targets that were measured, in lower case, passwords masked.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub targets: BTreeSet<String>,
    /// Factors of a bake-off, with their levels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, BTreeSet<String>>,
}
