//! Positions in a script, and errors there.

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl SourcePosition {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    pub(super) fn problem(self, text: impl Into<String>) -> Problem {
        Problem { at: self, text: text.into() }
    }
}

/// An error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) at: SourcePosition,
    pub(super) text: String,
}

impl Problem {
    /// The error as reported: `transfer.sql:3:12: unknown variable ...`.
    pub(super) fn in_file(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.at.line, self.at.column, self.text)
    }
}
