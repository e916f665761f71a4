//! Statements with parameters, their values, and the rows that answer them.

use crate::connection::Failure;

/// Length limit of a script variable's value.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

/// A statement: the texts around its parameters, one more than it has parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StatementText {
    /// The pieces, one after another.
    text: String,
    /// End of each piece.
    ends: Vec<usize>,
}

impl StatementText {
    pub(crate) fn new(pieces: &[impl AsRef<str>]) -> Self {
        let mut statement = Self::default();
        for piece in pieces {
            statement.push(piece.as_ref());
        }
        assert!(!statement.ends.is_empty(), "a statement has text");
        statement
    }

    /// Removes all pieces, and keeps their memory.
    #[cfg(feature = "lua")]
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        self.ends.push(self.text.len());
    }

    pub(crate) fn parameters(&self) -> usize {
        self.ends.len() - 1
    }

    fn pieces(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// The text with a mark for each parameter; marks are numbered from 1.
    pub(crate) fn with_marks(&self, mark: impl Fn(usize) -> String) -> String {
        let mut sql = String::new();
        self.write_marks(&mut sql, |number, sql| sql.push_str(&mark(number)));
        sql
    }

    /// Writes the text with a mark for each parameter.
    ///
    /// - `mark`: gets the number of the mark, from 1, and the text so far.
    pub(crate) fn write_marks(&self, sql: &mut String, mut mark: impl FnMut(usize, &mut String)) {
        sql.clear();
        for (number, piece) in self.pieces().enumerate() {
            if number > 0 {
                mark(number, sql);
            }
            sql.push_str(piece);
        }
    }

    /// Writes the text with the parameters' values inserted.
    pub(crate) fn write_values(&self, parameters: &[Parameter<'_>], quoting: Quoting, sql: &mut String) {
        assert_eq!(parameters.len(), self.parameters(), "as many values as marks");
        self.write_marks(sql, |number, sql| parameters[number - 1].write(quoting, sql));
    }
}

/// Value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Parameter<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

/// Characters that are doubled in a quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Quotes.
    Standard,
    /// Quotes and backslashes.
    Backslash,
}

impl Parameter<'_> {
    /// Writes the value as an SQL literal.
    pub(crate) fn write(self, quoting: Quoting, sql: &mut String) {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Null => write!(sql, "NULL"),
            Self::Integer(n) => write!(sql, "{n}"),
            // With an exponent, so no server parses it as an integer.
            Self::Real(x) => write!(sql, "{x:e}"),
            Self::Text(text) => {
                sql.push('\'');
                for c in text.chars() {
                    if c == '\'' || (c == '\\' && quoting == Quoting::Backslash) {
                        sql.push(c);
                    }
                    sql.push(c);
                }
                sql.push('\'');
                Ok(())
            }
        };
    }
}

/// The last row of an answer, as text; `None` is NULL.
#[derive(Debug, Default)]
pub(crate) struct ResultRow {
    pub(crate) names: Vec<String>,
    pub(crate) values: Vec<Option<String>>,
    /// Rows in the answer.
    pub(crate) rows: u64,
}

impl ResultRow {
    /// Clears it for an answer without a row.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.rows = 0;
    }
}

/// Executes a statement of an event: its index, its values, and the destination of its answer's last row.
pub(crate) type Execute<'a> =
    dyn FnMut(usize, &[Parameter<'_>], Option<&mut ResultRow>) -> Result<(), Failure> + 'a;

/// Next step of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A statement was sent; its answer ends this operation.
    Asked { operation: usize },
    /// Pause.
    Rest { for_ns: u64 },
    /// The event is over.
    Over,
}
