//! Values of a script's variables.

use std::io::Write as _;

use super::position::{Problem, SourcePosition};
use crate::workload::statement::Parameter;

/// A value. Values from a server are text; they are parsed if a number is needed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Value {
    pub(super) fn parameter(&self) -> Parameter<'_> {
        match self {
            Self::Null => Parameter::Null,
            // Every server accepts 1 and 0 for true and false.
            Self::Boolean(b) => Parameter::Integer((*b).into()),
            Self::Integer(n) => Parameter::Integer(*n),
            Self::Real(x) => Parameter::Real(*x),
            Self::Text(text) => Parameter::Text(text),
        }
    }

    /// Writes the value in readable form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // A write into memory cannot fail.
        let _ = match self {
            Self::Null => write!(out, "null"),
            Self::Boolean(b) => write!(out, "{b}"),
            Self::Integer(n) => write!(out, "{n}"),
            Self::Real(x) => write!(out, "{x}"),
            Self::Text(text) => write!(out, "{text}"),
        };
    }

    pub(super) fn boolean(&self, at: SourcePosition) -> Result<bool, Problem> {
        match self {
            Self::Boolean(b) => Ok(*b),
            Self::Integer(n) => Ok(*n != 0),
            Self::Real(x) => Ok(*x != 0.0),
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "t" | "true" | "on" | "yes" | "1" => Ok(true),
                "f" | "false" | "off" | "no" | "0" => Ok(false),
                _ => Err(at.problem(format!("{} is neither true nor false", self.shown()))),
            },
            Self::Null => Err(at.problem("NULL is neither true nor false")),
        }
    }

    /// The number, or the number that its text represents.
    pub(super) fn number(&self, at: SourcePosition) -> Result<Self, Problem> {
        let wrong = || at.problem(format!("{} is not a number", self.shown()));
        match self {
            Self::Integer(_) | Self::Real(_) => Ok(self.clone()),
            Self::Text(text) => {
                let text = text.trim();
                let integer = text.parse().map(Self::Integer);
                integer.or_else(|_| text.parse().map(Self::Real)).map_err(|_| wrong())
            }
            Self::Boolean(_) | Self::Null => Err(wrong()),
        }
    }

    /// The nearest integer; of two, the even one.
    #[expect(clippy::cast_possible_truncation, reason = "checked against the range before")]
    pub(super) fn integer(&self, at: SourcePosition) -> Result<i64, Problem> {
        const END: f64 = 9_223_372_036_854_775_808.0;
        match self.number(at)? {
            Self::Integer(n) => Ok(n),
            Self::Real(x) if (-END..END).contains(&x) => Ok(x.round_ties_even() as i64),
            _ => Err(at.problem(format!("{} is out of the range of 64-bit integers", self.shown()))),
        }
    }

    pub(super) fn real(&self, at: SourcePosition) -> Result<f64, Problem> {
        match self.number(at)? {
            Self::Integer(n) => Ok(n as f64),
            Self::Real(x) => Ok(x),
            _ => unreachable!("a number is one of these"),
        }
    }

    pub(super) fn equals(&self, other: &Self, at: SourcePosition) -> Result<bool, Problem> {
        match (self, other) {
            (Self::Boolean(a), b) | (b, Self::Boolean(a)) => Ok(*a == b.boolean(at)?),
            (Self::Text(a), Self::Text(b)) => Ok(a == b),
            (a, b) => match (a.number(at)?, b.number(at)?) {
                (Self::Integer(a), Self::Integer(b)) => Ok(a == b),
                (a, b) => Ok(a.real(at)?.total_cmp(&b.real(at)?).is_eq()),
            },
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Boolean(b) => format!("`{b}`"),
            Self::Integer(n) => format!("`{n}`"),
            Self::Real(x) => format!("`{x}`"),
            Self::Text(text) => format!("`{text}`"),
        }
    }
}
