//! Statements with parameters, their values, and the rows that answer them.

use crate::connection::Failure;

/// The longest value that a variable of a script holds.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

/// One statement: the text around its parameters, one piece more than it has parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementText(Vec<String>);

impl StatementText {
    pub(crate) fn new(pieces: Vec<String>) -> Self {
        assert!(!pieces.is_empty(), "a statement has text");
        Self(pieces)
    }

    pub(crate) fn parameters(&self) -> usize {
        self.0.len() - 1
    }

    /// The text with a mark for each parameter; they are numbered from 1.
    pub(crate) fn with_marks(&self, mark: impl Fn(usize) -> String) -> String {
        let mut sql = self.0[0].clone();
        for (number, piece) in (1..).zip(&self.0[1..]) {
            sql.push_str(&mark(number));
            sql.push_str(piece);
        }
        sql
    }

    /// Writes the text with its parameters in place.
    pub(crate) fn write_values(&self, parameters: &[Parameter<'_>], quoting: Quoting, sql: &mut String) {
        assert_eq!(parameters.len(), self.parameters(), "as many values as marks");
        sql.clear();
        sql.push_str(&self.0[0]);
        for (parameter, piece) in parameters.iter().zip(&self.0[1..]) {
            parameter.write(quoting, sql);
            sql.push_str(piece);
        }
    }
}

/// A value that a statement gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Parameter<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

/// What a text in quotes must double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Its quotes.
    Standard,
    /// Backslashes too.
    Backslash,
}

impl Parameter<'_> {
    /// As it stands in a statement's text.
    pub(crate) fn write(self, quoting: Quoting, sql: &mut String) {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Null => write!(sql, "NULL"),
            Self::Integer(n) => write!(sql, "{n}"),
            // With an exponent, so that no server takes it for a whole number.
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
    /// Makes it the row of an answer that has none yet.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.rows = 0;
    }
}

/// Where a statement goes that an event asks: its number, its values, and where the last row of its answer goes.
pub(crate) type Execute<'a> =
    dyn FnMut(usize, &[Parameter<'_>], Option<&mut ResultRow>) -> Result<(), Failure> + 'a;

/// What an event does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A statement was asked; its answer ends this operation.
    Asked { operation: usize },
    /// It rests.
    Rest { for_ns: u64 },
    /// Nothing more.
    Over,
}
