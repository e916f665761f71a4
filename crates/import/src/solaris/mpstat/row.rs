//! Parser of a row, cell by cell, by the columns of the current header.

use super::{COLUMNS, CPUS_MAX, Columns, FIRST_PERCENTAGE, IDL, Row, Subject};
use crate::error::ImportError;
use crate::fields::{Fields, is_blank};
use crate::lines::Line;

/// Meaning of a column of the current header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Value(usize),
    /// `-p`: the CPU's processor set.
    Set,
    /// `-a`: number of CPUs in the set.
    Size,
}

impl Cell {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Value(column) => COLUMNS[column],
            Self::Set => "set",
            Self::Size => "sze",
        }
    }
}

/// A parsed header line.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) subject: Subject,
    pub(super) cells: Vec<Cell>,
    pub(super) columns: Columns,
}

/// Parses a row from byte `at` on by the header's columns. The hot path: neither allocates nor reads a byte
/// twice.
pub(super) fn parse_row(line: Line<'_>, at: usize, header: &Header) -> Result<Row, ImportError> {
    let mut cursor = Cursor { line, at };
    let id = cursor.number("CPU")?;
    let id = u32::try_from(id).ok().filter(|&id| (id as usize) < CPUS_MAX).ok_or_else(|| {
        ImportError::unexpected(
            line.place(at),
            id.to_string().as_bytes(),
            "the number of a CPU or set, below 65536",
        )
    })?;
    let mut row = Row {
        line: line.number,
        subject: header.subject,
        id,
        set: None,
        cpus: 1,
        values: [0; COLUMNS.len()],
    };
    for &cell in &header.cells {
        match cell {
            Cell::Value(column) => row.values[column] = cursor.number(COLUMNS[column])?,
            Cell::Set => row.set = Some(cursor.set()?),
            Cell::Size => row.cpus = cursor.size()?,
        }
    }
    cursor.end()?;
    if !line.ended {
        refuse_cut(line, &row, header)?;
    }
    Ok(row)
}

/// Refuses a last line without an end if its shares of time do not sum to 100 %: it was truncated inside its
/// last number.
fn refuse_cut(line: Line<'_>, row: &Row, header: &Header) -> Result<(), ImportError> {
    let shares = FIRST_PERCENTAGE..COLUMNS.len();
    let all = shares.clone().all(|column| header.columns.has(column));
    let sum: u64 = shares.map(|column| row.values[column]).fold(0, u64::saturating_add);
    if all && header.cells.last() == Some(&Cell::Value(IDL)) && !(97..=103).contains(&sum) {
        let expected = format!("percentages that sum to 100 (these sum to {sum}): the line is truncated");
        return Err(ImportError::end_of_line(line.place(line.bytes.len()), expected));
    }
    Ok(())
}

/// A place in a row.
struct Cursor<'a> {
    line: Line<'a>,
    at: usize,
}

impl Cursor<'_> {
    /// Parses the digits of the next field.
    #[inline]
    fn number(&mut self, column: &'static str) -> Result<u64, ImportError> {
        let bytes = self.line.bytes;
        let mut at = self.at;
        while at < bytes.len() && is_blank(bytes[at]) {
            at += 1;
        }
        let begin = at;
        let mut value = 0u64;
        while at < bytes.len() {
            let digit = bytes[at].wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        // Nineteen digits always fit.
        let good = (1..=19).contains(&(at - begin)) && (at == bytes.len() || is_blank(bytes[at]));
        if !good {
            return Err(self.wrong(begin, column));
        }
        self.at = at;
        Ok(value)
    }

    #[cold]
    fn wrong(&self, begin: usize, column: &str) -> ImportError {
        let mut fields = Fields::from(self.line.bytes, begin, self.line.number);
        match fields.next() {
            None => ImportError::end_of_line(fields.end(), format!("a number in column `{column}`")),
            Some(field) => fields.unexpected(field, format!("a whole number in column `{column}`")),
        }
    }

    /// Parses the number of a processor set, -1 if the CPU belongs to no set.
    fn set(&mut self) -> Result<i32, ImportError> {
        let bytes = self.line.bytes;
        let blanks = bytes[self.at..].iter().take_while(|&&b| is_blank(b)).count();
        let (begin, negative) = (self.at + blanks, bytes.get(self.at + blanks) == Some(&b'-'));
        self.at = begin + usize::from(negative);
        let number = self.number("set").map_err(|_| self.wrong(begin, Cell::Set.name()))?;
        let number = i32::try_from(number).map_err(|_| self.wrong(begin, Cell::Set.name()))?;
        Ok(if negative { -number } else { number })
    }

    fn size(&mut self) -> Result<u32, ImportError> {
        let begin = self.at;
        let number = self.number(Cell::Size.name())?;
        u32::try_from(number).ok().filter(|size| (1..=1 << 16).contains(size)).ok_or_else(|| {
            let begin = begin + self.line.bytes[begin..].iter().take_while(|&&b| is_blank(b)).count();
            ImportError::unexpected(
                self.line.place(begin),
                &self.line.bytes[begin..self.at],
                "the number of CPUs in the set, 1 to 65536",
            )
        })
    }

    /// Returns an error unless only blanks follow.
    fn end(&self) -> Result<(), ImportError> {
        let mut fields = Fields::from(self.line.bytes, self.at, self.line.number);
        match fields.next() {
            None => Ok(()),
            Some(field) => {
                Err(fields.unexpected(field, "the end of the line: the header has no more columns"))
            }
        }
    }
}
