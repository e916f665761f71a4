//! Problems and remarks that checks collect.

use crate::error::{Position, Problem, ProblemKind};
use crate::plan::Note;

/// Collector of a plan's problems and remarks.
pub(super) struct Checker<'a> {
    pub(super) problems: &'a mut Vec<Problem>,
    pub(super) remarks: Vec<Note>,
    pub(super) unsupported: Vec<Note>,
}

impl Checker<'_> {
    pub(super) fn problem(&mut self, position: Position, kind: ProblemKind) {
        self.problems.push(Problem { position, kind });
    }

    pub(super) fn remark(&mut self, position: Position, text: impl Into<String>) {
        self.remarks.push(Note { position, text: text.into() });
    }
}
