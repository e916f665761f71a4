//! Problems of a plan, with their positions.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use record::nearest::nearest;
use record::quantity;

/// Position in the text of a plan; line and column count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its position; a default has the position of its table.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) position: Position,
}

/// Problem of a plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{position}: {kind}")]
pub struct Problem {
    /// Position.
    pub position: Position,
    /// Found and expected text.
    pub kind: ProblemKind,
}

impl ProblemKind {
    /// The problem of a relative gate in a plan in which these cells are not compared.
    pub(crate) fn not_compared(cells: &str) -> Self {
        Self::BadValue {
            key: "gate.rule".to_owned(),
            found: format!("no cell of the reference for {cells}"),
            expected: "an amount, or a plan in which the reference has every cell that others have"
                .to_owned(),
        }
    }
}

impl Problem {
    /// Table and key that an unknown key probably misspells.
    fn misspelled(&self) -> Option<(String, String)> {
        match &self.kind {
            ProblemKind::UnknownKey { table, closest: Some(closest), .. } => {
                Some((table.clone(), closest.clone()))
            }
            _ => None,
        }
    }
}

/// Kind of a problem.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProblemKind {
    /// The text is not TOML.
    #[error("this is not TOML: {message}")]
    Syntax {
        /// Message of the parser.
        message: String,
    },
    /// A key that no plan has.
    #[error("unknown key `{key}` in {table}; {}", suggestion(.closest.as_deref(), .known))]
    UnknownKey {
        /// The key.
        key: String,
        /// Table of the key.
        table: String,
        /// Known key that it probably misspells.
        closest: Option<String>,
        /// Known keys of the table.
        known: Vec<String>,
    },
    /// A required key is missing.
    #[error("`{key}` is missing in {table}: expected {expected}, as in `{key} = {example}`")]
    MissingKey {
        /// The key.
        key: String,
        /// Table that lacks it.
        table: String,
        /// Expected content.
        expected: String,
        /// Example value, as TOML.
        example: String,
    },
    /// A value that the key does not accept.
    #[error("`{key}` is {found}, expected {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// Found value.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// A key of the load that would have no effect, or contradicts another.
    #[error("`{key}` {why}")]
    BreaksRule {
        /// The key.
        key: String,
        /// Rule, as a clause after the key.
        why: String,
    },
    /// A placeholder with an unknown name.
    #[error("`{key}` uses `{{{name}}}`, which is neither `scratch` nor a factor; {}", suggestion(.closest.as_deref(), .known))]
    UnknownPlaceholder {
        /// Key of the value.
        key: String,
        /// Name between the braces.
        name: String,
        /// Known name that it probably misspells.
        closest: Option<String>,
        /// Known names.
        known: Vec<String>,
    },
    /// A placeholder without a closing brace.
    #[error(
        "`{key}` has an unpaired brace: write `{{name}}` for a placeholder, and `{{{{` or `}}}}` for a \
         literal brace"
    )]
    LoneBrace {
        /// Key of the value.
        key: String,
    },
    /// A placeholder at a position in a command line at which its value cannot be quoted.
    #[error(
        "`{key}` has `{{{placeholder}}}` where its value cannot be quoted (in backticks, `${{...}}`, a \
         comment or a here-document, or after a backslash): use the environment variable BAKEOFF_..., or \
         `|raw`"
    )]
    Unquotable {
        /// Key of the value.
        key: String,
        /// Text between the braces.
        placeholder: String,
    },
    /// A secret at a position at which secrets are not allowed.
    #[error("`{key}` refers to the secret `{reference}`: {why}")]
    SecretMisplaced {
        /// Key of the value.
        key: String,
        /// Reference.
        reference: String,
        /// Reason for the refusal.
        why: &'static str,
    },
    /// A placeholder in a value that must be the same for the whole series.
    #[error(
        "`{key}` uses the sub-plot factor `{{{factor}}}`, but {why}; make `{factor}` a whole-plot factor, \
         or do not use it here"
    )]
    SubPlotTooDeep {
        /// Key of the value.
        key: String,
        /// Factor.
        factor: String,
        /// Reason that it cannot vary within a series.
        why: &'static str,
    },
    /// A value that occurs twice in a factor.
    #[error(
        "factor `{factor}` has the value `{value}` twice: each value must be unique, as in [\"a\", \"b\"]"
    )]
    ValueTwice {
        /// Factor.
        factor: String,
        /// Value.
        value: String,
    },
    /// An invalid name of a factor.
    #[error("`{name}` cannot name a factor: {why}")]
    BadFactorName {
        /// Name.
        name: String,
        /// Reason.
        why: &'static str,
    },
    /// An invalid name of a value.
    #[error(
        "`{name}` cannot name a value: use lower-case letters, digits and `_`, and end the name with its \
         unit, one of {}",
        units.join(", ")
    )]
    BadValueName {
        /// Name.
        name: String,
        /// Accepted suffixes.
        units: &'static [&'static str],
    },
    /// A reference that is not one of the values.
    #[error("reference `{reference}` is not a value of factor `{factor}`; {}", suggestion(.closest.as_deref(), .known))]
    ReferenceIsNoValue {
        /// Factor.
        factor: String,
        /// Reference as written.
        reference: String,
        /// Known value that it probably misspells.
        closest: Option<String>,
        /// Values of the factor.
        known: Vec<String>,
    },
    /// An environment for a value that no factor has.
    #[error(
        "[server.env.{name}]: no whole-plot factor has the value `{name}`; {}",
        suggestion(.closest.as_deref(), .known)
    )]
    EnvironmentForNoValue {
        /// Value as written.
        name: String,
        /// Known value that it probably misspells.
        closest: Option<String>,
        /// Known values.
        known: Vec<String>,
    },
    /// An environment for a value that two factors have.
    #[error("[server.env.{value}]: the factors {} all have the value `{value}`; write [server.env.\"{}={value}\"]", .factors.join(" and "), .factors[0])]
    EnvironmentIsAmbiguous {
        /// Value.
        value: String,
        /// Factors that have it.
        factors: Vec<String>,
    },
    /// The time budget of the plan is too small.
    #[error("`time_budget` is {}, but the plan takes at least {}: {made_of}", human(*.budget), human(*.needed))]
    BudgetTooSmall {
        /// Time budget.
        budget: Duration,
        /// Sum of warm-up, measured phases and cool-down.
        needed: Duration,
        /// Calculation of the sum.
        made_of: String,
    },
    /// A gate compares with the reference, and the plan compares nothing.
    #[error("a gate against the reference needs a factor with a `reference` and at least one other value")]
    GateNeedsReference,
    /// The limit of a gate has the unit of another metric.
    #[error(transparent)]
    GateUnit(record::gate::NotAGate),
    /// A gate needs a verdict that the design cannot give.
    #[error(
        "a gate needs a verdict at alpha {alpha}, which takes at least {needed} blocks, but `blocks` is \
         {blocks}; use {needed} blocks, or remove the gate, which makes the plan exploratory"
    )]
    GateNeedsBlocks {
        /// Accepted rate of false alarms.
        alpha: f64,
        /// Planned blocks.
        blocks: u32,
        /// Blocks that a verdict needs.
        needed: u32,
    },
    /// Too many trials.
    #[error("the plan has {trials} trials, more than {limit}; use fewer values or blocks")]
    TooManyTrials {
        /// Cells times blocks.
        trials: u128,
        /// Maximum.
        limit: u32,
    },
}

/// All problems of a plan: at least one, in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanErrors {
    name: String,
    problems: Vec<Problem>,
}

impl PlanErrors {
    pub(crate) fn new(name: &str, mut problems: Vec<Problem>) -> Self {
        assert!(!problems.is_empty(), "a plan without a problem is a plan");
        // A key that is missing because it is misspelled is one problem, not two.
        let misspelled: Vec<_> = problems.iter().filter_map(Problem::misspelled).collect();
        problems.retain(|problem| match &problem.kind {
            ProblemKind::MissingKey { key, table, .. } => !misspelled.contains(&(table.clone(), key.clone())),
            _ => true,
        });
        problems.sort_by_key(|p| p.position);
        let mut seen = Vec::new();
        problems.retain(|problem| {
            let new = !seen.contains(problem);
            seen.extend(new.then(|| problem.clone()));
            new
        });
        Self { name: name.to_owned(), problems }
    }

    /// Problems.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", self.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

/// Start positions of the lines of a text.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// Number of characters before each block of the text: a line may be as long as the whole plan.
    before: Vec<usize>,
}

/// Length of a block, in bytes.
const BLOCK: usize = 1 << 10;

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let blocks = text.as_bytes().chunks(BLOCK);
        let sums = blocks.scan(0, |sum, block| {
            *sum += characters(block);
            Some(*sum)
        });
        Self { text, starts, before: std::iter::once(0).chain(sums).collect() }
    }

    fn characters_before(&self, at: usize) -> usize {
        let block = at / BLOCK;
        self.before[block] + characters(&self.text.as_bytes()[block * BLOCK..at])
    }

    /// Position of the start of a span of bytes.
    pub(crate) fn position(&self, span: &Range<usize>) -> Position {
        let at = span.start.min(self.text.len());
        let line = self.starts.partition_point(|&start| start <= at);
        let column = self.characters_before(at) - self.characters_before(self.starts[line - 1]) + 1;
        Position { line, column }
    }
}

/// Number of characters that begin in these bytes of UTF-8.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Most known names of a message.
const KNOWN_MAX: usize = 50;

/// Known names for a message; of many, the first.
pub(crate) fn some_of<'a>(known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut known = known.into_iter().map(str::to_owned);
    let mut some: Vec<String> = known.by_ref().take(KNOWN_MAX).collect();
    some.extend(known.next().map(|_| "...".to_owned()));
    some
}

/// Known name that `found` probably misspells.
pub(crate) fn closest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(found, known).map(str::to_owned)
}

fn suggestion(closest: Option<&str>, known: &[String]) -> String {
    match closest {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}

/// The duration as people say it.
pub(crate) fn human(time: Duration) -> String {
    quantity::span(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let lines = Lines::of("a\nüb = 1\n");
        assert_eq!(lines.position(&(0..1)), Position { line: 1, column: 1 });
        assert_eq!(lines.position(&(2..3)), Position { line: 2, column: 1 });
        assert_eq!(lines.position(&(4..5)), Position { line: 2, column: 2 });
        assert_eq!(lines.position(&(99..99)), Position { line: 3, column: 1 });
        let long = format!("a\n{}x", "ü".repeat(10_000));
        let lines = Lines::of(&long);
        for letter in [0, 1, 511, 512, 5_000, 10_000] {
            assert_eq!(lines.position(&(2 + 2 * letter..99_999)), Position { line: 2, column: letter + 1 });
        }
    }
}
