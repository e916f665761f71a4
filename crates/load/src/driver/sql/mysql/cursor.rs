//! Fields of a packet, one after the other.

use std::fmt::Write as _;

use super::format::{Broken, Column, kind};
use crate::driver::sql::broken::text_of;

/// Unread rest of a payload.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn split(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Broken::Garbled("a message is truncated"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        Ok(self.split(N)?.try_into().expect("as many bytes as were split off"))
    }

    /// A length-encoded integer: its first byte gives its size.
    pub(super) fn length(&mut self) -> Result<u64, Broken> {
        let [first] = self.array()?;
        let more = match first {
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return Ok(first.into()),
        };
        let mut bytes = [0; 8];
        bytes[..more].copy_from_slice(self.split(more)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.length()?;
        self.split(usize::try_from(length).map_err(|_| Broken::Garbled("a message is truncated"))?)
    }

    /// A value of a prepared statement's row, as text.
    pub(super) fn value(&mut self, column: &Column) -> Result<String, Broken> {
        let mut text = String::new();
        match self.raw_value(column.kind, column.is_unsigned, &mut text)? {
            Some(bytes) => Ok(text_of(bytes)),
            None => Ok(text),
        }
    }

    /// The bytes of a value that the row has as text; otherwise appends its text to `out`.
    pub(super) fn raw_value(
        &mut self,
        kind: u8,
        is_unsigned: bool,
        out: &mut String,
    ) -> Result<Option<&'a [u8]>, Broken> {
        // A write to a string cannot fail.
        let _ = match kind {
            kind::TINY if is_unsigned => write!(out, "{}", u8::from_le_bytes(self.array()?)),
            kind::TINY => write!(out, "{}", i8::from_le_bytes(self.array()?)),
            kind::SHORT | kind::YEAR if is_unsigned => write!(out, "{}", u16::from_le_bytes(self.array()?)),
            kind::SHORT | kind::YEAR => write!(out, "{}", i16::from_le_bytes(self.array()?)),
            kind::LONG | kind::INT24 if is_unsigned => write!(out, "{}", u32::from_le_bytes(self.array()?)),
            kind::LONG | kind::INT24 => write!(out, "{}", i32::from_le_bytes(self.array()?)),
            kind::LONGLONG if is_unsigned => write!(out, "{}", u64::from_le_bytes(self.array()?)),
            kind::LONGLONG => write!(out, "{}", i64::from_le_bytes(self.array()?)),
            kind::FLOAT => write!(out, "{}", f32::from_le_bytes(self.array()?)),
            kind::DOUBLE => write!(out, "{}", f64::from_le_bytes(self.array()?)),
            kind::DATE | kind::DATETIME | kind::TIMESTAMP => {
                self.moment(kind == kind::DATE, out)?;
                Ok(())
            }
            kind::TIME => {
                self.span(out)?;
                Ok(())
            }
            _ => return self.bytes().map(Some),
        };
        Ok(None)
    }

    /// A date, or a date and a time; omitted parts are zero.
    fn moment(&mut self, is_date: bool, text: &mut String) -> Result<(), Broken> {
        let [length] = self.array()?;
        let mut bytes = [0; 11];
        bytes
            .get_mut(..length.into())
            .ok_or(Broken::Garbled("a date is too long"))?
            .copy_from_slice(self.split(length.into())?);
        let [year_low, year_high, month, day, hour, minute, second, micros @ ..] = bytes;
        // A write to a string cannot fail.
        let _ = write!(text, "{:04}-{month:02}-{day:02}", u16::from_le_bytes([year_low, year_high]));
        if !is_date {
            let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
            write_micros(micros, text);
        }
        Ok(())
    }

    /// A duration, which may be longer than a day.
    fn span(&mut self, text: &mut String) -> Result<(), Broken> {
        let [length] = self.array()?;
        let mut bytes = [0; 12];
        bytes
            .get_mut(..length.into())
            .ok_or(Broken::Garbled("a time is too long"))?
            .copy_from_slice(self.split(length.into())?);
        let [is_negative, d0, d1, d2, d3, hour, minute, second, micros @ ..] = bytes;
        let hours = u64::from(u32::from_le_bytes([d0, d1, d2, d3])) * 24 + u64::from(hour);
        let sign = if is_negative == 0 { "" } else { "-" };
        // A write to a string cannot fail.
        let _ = write!(text, "{sign}{hours:02}:{minute:02}:{second:02}");
        write_micros(micros, text);
        Ok(())
    }
}

fn write_micros(bytes: [u8; 4], text: &mut String) {
    let micros = u32::from_le_bytes(bytes);
    if micros > 0 {
        // A write to a string cannot fail.
        let _ = write!(text, ".{micros:06}");
    }
}
