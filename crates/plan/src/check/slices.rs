//! Checks a design in slices: what takes no turns is refused.

use super::checker::Checker;
use crate::error::{Located, Position, Problem, ProblemKind};
use crate::parsed::{Mode, ParsedPlan};
use crate::plan::{Note, Plan};
use crate::reader::Resolved;
use crate::slices::Slices;

/// Key of the instruments, which a plan in slices does not have unless it asks for them, in vain.
const INSTRUMENTS: &str = "observe.instruments";

impl Checker<'_> {
    /// Reads the turns, and fills in their defaults.
    pub(super) fn slices(&mut self, parsed: &mut ParsedPlan) -> Option<Slices> {
        let design = &parsed.design;
        if !design.mode.as_ref().is_some_and(|mode| mode.value == Mode::Slices) {
            if let Some(slice) = &design.slice {
                let kind = ProblemKind::BreaksRule {
                    key: "design.slice".to_owned(),
                    why: "needs `mode = \"slices\"`".to_owned(),
                };
                self.problem(slice.position, kind);
            }
            return None;
        }
        if design.slice.is_none() {
            let (key, value) = ("design.slice".to_owned(), format!("\"{}ms\"", Slices::DEFAULT.as_millis()));
            parsed.resolved.push(Resolved { key, value, written: false });
        }
        let default = |resolved: &&mut Resolved| resolved.key == INSTRUMENTS && !resolved.written;
        if let (Some(resolved), Some(instruments)) =
            (parsed.resolved.iter_mut().find(default), &mut parsed.instruments)
        {
            instruments.value.clear();
            "[]".clone_into(&mut resolved.value);
        }
        let slice = parsed.design.slice.as_ref().map_or(Slices::DEFAULT, |slice: &Located<_>| slice.value);
        Some(Slices { slice, settle: Slices::SETTLE })
    }
}

/// Returns what a plan has that takes no turns; notes how the others take theirs.
pub(super) fn refused(plan: &mut Plan, position: Option<Position>) -> Vec<Problem> {
    let (Some(position), Some(text)) = (position, plan.slices_remark()) else { return Vec::new() };
    plan.remarks.push(Note { position, text });
    let problem = |expected: String| {
        let (key, found) = ("design.mode".to_owned(), "\"slices\"".to_owned());
        Problem { position, kind: ProblemKind::BadValue { key, found, expected } }
    };
    plan.no_slices().into_iter().map(problem).collect()
}
