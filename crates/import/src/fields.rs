//! Splits a line into fields, each with its place.

use crate::error::{ImportError, Place};
use std::borrow::Cow;

/// A field and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// Bytes of the field. Never empty, no blank inside.
    pub(crate) bytes: &'a [u8],
    /// Offset of the first byte within the line, from 0.
    pub(crate) at: usize,
}

/// Iterator over the fields of a line.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    line: &'a [u8],
    at: usize,
    number: u64,
}

impl<'a> Fields<'a> {
    /// Returns the fields of `line` from byte `at` on. `number` is the line's number in its input.
    pub(crate) fn from(line: &'a [u8], at: usize, number: u64) -> Self {
        Self { line, at, number }
    }

    /// Returns the place of `field`.
    pub(crate) fn place(&self, field: Field<'_>) -> Place {
        Place { line: self.number, column: field.at as u64 + 1 }
    }

    /// Returns the place after the end of the line.
    pub(crate) fn end(&self) -> Place {
        Place { line: self.number, column: self.line.len() as u64 + 1 }
    }

    /// Returns the next field, or an error if the line ends here.
    pub(crate) fn need(&mut self, expected: &'static str) -> Result<Field<'a>, ImportError> {
        self.next().ok_or_else(|| ImportError::end_of_line(self.end(), expected))
    }

    /// Returns the next field as a whole number.
    pub(crate) fn need_whole(&mut self, expected: &'static str) -> Result<u64, ImportError> {
        let field = self.need(expected)?;
        whole(field.bytes).ok_or_else(|| self.unexpected(field, expected))
    }

    /// Returns an error at `field`.
    pub(crate) fn unexpected(&self, field: Field<'_>, expected: impl Into<Cow<'static, str>>) -> ImportError {
        ImportError::unexpected(self.place(field), field.bytes, expected)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let begin = self.at + self.line[self.at..].iter().position(|&b| !is_blank(b))?;
        let length = self.line[begin..].iter().position(|&b| is_blank(b)).unwrap_or(self.line.len() - begin);
        self.at = begin + length;
        Some(Field { bytes: &self.line[begin..self.at], at: begin })
    }
}

/// Whether `byte` separates fields.
pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Parses a whole number without a sign. `None` if it is not one or does not fit.
pub(crate) fn whole(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Numbers over 0 that counts and times can be; products and quotients of others may be infinite.
const POSSIBLE: std::ops::Range<f64> = 1e-20..1e20;

/// Parses a number as `%f` prints a count or a time: optional decimals, no sign, no exponent.
pub(crate) fn decimal(bytes: &[u8]) -> Option<f64> {
    let plain = bytes.iter().all(|&b| b.is_ascii_digit() || b == b'.') && bytes.first()?.is_ascii_digit();
    if !plain {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok().filter(|value| *value == 0.0 || POSSIBLE.contains(value))
}

/// Returns the bytes as text, with U+FFFD for each invalid sequence.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the line without blanks at its ends.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_know_where_they_begin() {
        let all: Vec<_> = Fields::from(b"  ab\t c ", 0, 7).map(|f| (f.at, f.bytes)).collect();
        assert_eq!(all, [(2, &b"ab"[..]), (6, &b"c"[..])]);
        let mut fields = Fields::from(b" ab", 0, 7);
        let field = fields.need("a word").unwrap();
        assert_eq!(fields.place(field), Place { line: 7, column: 2 });
        assert_eq!(
            fields.need("a number").unwrap_err().to_string(),
            "7:4: found the end of the line, expected a number"
        );
    }

    #[test]
    fn a_whole_number_has_digits_only_and_fits() {
        assert_eq!(whole(b"0"), Some(0));
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"-1", b"+1", b"1.0", b"18446744073709551616", b"1x", b" 1"] {
            assert_eq!(whole(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_decimal_has_no_sign_and_no_exponent() {
        assert_eq!(decimal(b"10.012"), Some(10.012));
        assert_eq!(decimal(b"7"), Some(7.0));
        let (long, small) = ("9".repeat(300), "0.".to_owned() + &"0".repeat(300) + "1");
        for wrong in
            [&b""[..], b"-1", b"1e9", b"1.2.3", b".", b"nan", b"inf", long.as_bytes(), small.as_bytes()]
        {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }
}
