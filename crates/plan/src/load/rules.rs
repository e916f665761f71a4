//! Rules between the keys of `[load]` in one cell: those of [`record::load::rules`], with the names of keys.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::Levels;
use record::load::PreparePolicy;
use record::load::rules;

use super::LoadKeys;
use super::cell::{Cell, PhaseSettings};
use crate::error::{Problem, ProblemKind};

/// Rules do not depend on the phases.
const ANY_PHASES: PhaseSettings = PhaseSettings {
    prepare: PreparePolicy::Never,
    warmup: Duration::ZERO,
    time: Duration::from_secs(1),
    interval: Duration::from_secs(1),
    seed: 0,
    draws: 0,
    found_per_s: None,
    instances: 1,
};

impl LoadKeys {
    /// First key that breaks a rule in one cell. Requires that every value is valid by itself.
    pub(crate) fn conflict(&self, levels: &Levels) -> Option<Problem> {
        self.rate.as_ref()?;
        let scratch = "/scratch";
        let target = self.target_of(levels, Path::new(scratch), 1);
        // A script in Lua may do without a server.
        let needs_none = self.script_path().is_some() && target.scheme() == "null";
        let is_given = |name: &str| {
            !(needs_none && matches!(name, "script" | "define")) && self.position_of(name).is_some()
        };
        let violation = rules::violation(&target, is_given)
            .or_else(|| self.loop_options(&Cell { levels, scratch }, None).resolved(ANY_PHASES.time).err())
            .or_else(|| self.settings(levels, Path::new(scratch), &ANY_PHASES).violation())?;
        let key = |name: &str| format!("`{name}`");
        let kind =
            ProblemKind::BreaksRule { key: format!("load.{}", violation.setting), why: violation.why(key) };
        Some(Problem { position: self.position_of(violation.setting)?, kind })
    }
}
