//! Incremental parser of answers of MySQL and MariaDB: reads each byte once, in pieces of any size.
//!
//! Unwanted rows are skipped without being stored. At most one packet is stored, or one row that spans
//! several packets, and never more than the limit.
//!
//! # Source
//!
//! <https://mariadb.com/kb/en/clientserver-protocol/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>

use std::fmt::Write as _;

use super::format::{HEADER_BYTES, PAYLOAD_MAX, kind};
use crate::driver::sql::broken::{self, shortened, state_of, text_of};
#[cfg(feature = "lua")]
use crate::lua::rows::Rows;
use crate::net::held::HeldBytes;
use crate::workload::statement::ResultRow;

pub(super) const OK: u8 = 0x00;
const LOCAL_INFILE: u8 = 0xfb;
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERR: u8 = 0xff;
/// Length limit of an EOF packet: a longer packet with the same first byte is a row.
const EOF_BYTES_MAX: usize = 8;

const STATUS_IN_TRANSACTION: u16 = 0x0001;
const STATUS_MORE_RESULTS: u16 = 0x0008;

const UNSIGNED: u16 = 0x20;
/// Limit of columns; tables of both servers have at most 4,096.
const COLUMNS_MAX: u64 = 65_535;

/// Reason why there is no usable answer, with the server's error number.
pub(super) type Broken = broken::Broken<u16>;

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) is_unsigned: bool,
}

/// Status flags at the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(u16);

impl Status {
    pub(super) fn is_in_transaction(self) -> bool {
        self.0 & STATUS_IN_TRANSACTION != 0
    }
}

/// Destination of the rows of an answer.
pub(super) struct Wanted<'a> {
    pub(super) keep: Keep<'a>,
    pub(super) columns: &'a mut Vec<Column>,
    pub(super) form: Form,
}

/// The rows of an answer that are stored.
pub(super) enum Keep<'a> {
    Last(&'a mut ResultRow),
    /// All, as the server sent them.
    #[cfg(feature = "lua")]
    All(&'a mut Rows),
}

/// Encoding of the values in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Encoding of a prepared statement.
    Binary,
    Text,
}

/// Reads one answer with all its results.
#[derive(Debug)]
pub(super) struct Reader {
    /// Limit in bytes of a packet, of a row, or of the descriptions of all columns.
    bytes_max: usize,
    part: Part,
    /// Bytes to skip that have not arrived yet.
    skip: usize,
    /// The next packet continues the row.
    is_split: bool,
    /// First part of a wanted row that continues in the next packet.
    joined: Vec<u8>,
    held: HeldBytes,
    /// Bytes of the row, or of the descriptions, in earlier packets.
    bytes_before: usize,
}

/// Next part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Columns { left: u64 },
    ColumnsEnd,
    Rows,
}

/// A packet, or a mark that it is skipped.
enum Packet<'a> {
    Whole(&'a [u8]),
    Skipped,
}

impl Reader {
    pub(super) fn new(bytes_max: usize) -> Self {
        let (joined, held) = (Vec::new(), HeldBytes::default());
        Self { bytes_max, part: Part::Head, skip: 0, is_split: false, joined, held, bytes_before: 0 }
    }

    /// Begins the next answer.
    pub(super) fn begin(&mut self) {
        *self = Self { joined: std::mem::take(&mut self.joined), ..Self::new(self.bytes_max) };
        self.joined.clear();
    }

    /// Reads the next bytes; returns the number of bytes consumed, and the status at the end of the answer.
    pub(super) fn hear(
        &mut self,
        input: &[u8],
        wanted: &mut Option<Wanted<'_>>,
    ) -> (usize, Option<Result<Status, Broken>>) {
        let mut taken = 0;
        loop {
            let skipped = self.skip.min(input.len() - taken);
            (taken, self.skip) = (taken + skipped, self.skip - skipped);
            if self.skip > 0 {
                return (taken, None);
            }
            let (bytes, packet) = match self.next(&input[taken..], wanted.is_some()) {
                Ok(Some(found)) => found,
                Ok(None) => return (taken, None),
                Err(broken) => return (taken, Some(Err(broken))),
            };
            taken += bytes;
            let Packet::Whole(payload) = packet else { continue };
            match self.take(payload, wanted) {
                Ok(None) => {}
                Ok(Some(status)) => return (taken, Some(Ok(status))),
                Err(broken) => return (taken, Some(Err(broken))),
            }
        }
    }

    /// The next packet and its length in bytes; `None` if it is incomplete.
    fn next<'a>(&mut self, input: &'a [u8], is_wanted: bool) -> Result<Option<(usize, Packet<'a>)>, Broken> {
        let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let length = length_of(*header);
        let bytes = self.bytes_before.saturating_add(length);
        if bytes > self.bytes_max {
            return Err(Broken::too_long(bytes, self.bytes_max));
        }
        if self.part == Part::Rows && !is_wanted {
            let Some(may_end) = self.may_end(length, rest) else { return Ok(None) };
            if !may_end {
                self.is_split = length == PAYLOAD_MAX;
                self.bytes_before = if self.is_split { bytes } else { 0 };
                self.skip = length;
                return Ok(Some((HEADER_BYTES, Packet::Skipped)));
            }
        }
        Ok(rest.get(..length).map(|payload| (HEADER_BYTES + length, Packet::Whole(payload))))
    }

    /// Whether a packet among rows may end the answer; `None` if more bytes are needed.
    fn may_end(&self, length: usize, rest: &[u8]) -> Option<bool> {
        if self.is_split || length == 0 {
            return Some(false);
        }
        let first = *rest.first()?;
        Some(first == ERR || first == EOF && length <= EOF_BYTES_MAX)
    }

    fn take(&mut self, payload: &[u8], wanted: &mut Option<Wanted<'_>>) -> Result<Option<Status>, Broken> {
        match self.part {
            Part::Head => return self.take_head(payload, wanted),
            Part::Columns { left } => {
                self.bytes_before += payload.len();
                if let Some(wanted) = wanted {
                    wanted.columns.push(wanted.keep.column(payload)?);
                }
                self.part = if left == 1 { Part::ColumnsEnd } else { Part::Columns { left: left - 1 } };
            }
            Part::ColumnsEnd => {
                (self.part, self.bytes_before) = (Part::Rows, 0);
                if let Some(wanted) = wanted {
                    wanted.begin();
                }
            }
            Part::Rows => return self.take_row(payload, wanted),
        }
        Ok(None)
    }

    fn take_head(
        &mut self,
        payload: &[u8],
        wanted: &mut Option<Wanted<'_>>,
    ) -> Result<Option<Status>, Broken> {
        match payload.first() {
            Some(&OK) => {
                let (affected, status) = status_of_ok(payload)?;
                if let Some(wanted) = wanted {
                    wanted.keep.done(affected);
                }
                return Ok(self.end_result(status));
            }
            Some(&ERR) => return Err(refusal(payload)),
            Some(&LOCAL_INFILE) => {
                return Err(Broken::Garbled("the server asks for a file of this machine"));
            }
            _ => {}
        }
        let mut head = Cursor(payload);
        let count = head.length()?;
        if count == 0 || count > COLUMNS_MAX {
            return Err(Broken::Garbled("an answer has a number of columns that no server returns"));
        }
        // MariaDB sends one more byte, which tells whether column descriptions follow; other servers always
        // send them.
        if head.0.first() == Some(&0) {
            let known = wanted.as_ref().map(|wanted| wanted.columns.len() as u64);
            if known.is_some_and(|known| known != count) {
                return Err(Broken::Garbled("an answer has other columns than were described"));
            }
            self.part = Part::ColumnsEnd;
            return Ok(None);
        }
        if let Some(wanted) = wanted {
            wanted.columns.clear();
        }
        self.part = Part::Columns { left: count };
        Ok(None)
    }

    fn take_row(
        &mut self,
        payload: &[u8],
        wanted: &mut Option<Wanted<'_>>,
    ) -> Result<Option<Status>, Broken> {
        if !self.is_split {
            match payload.first() {
                Some(&EOF) if payload.len() <= EOF_BYTES_MAX => {
                    return match payload {
                        [_, _, _, low, high, ..] => {
                            Ok(self.end_result(Status(u16::from_le_bytes([*low, *high]))))
                        }
                        _ => Err(Broken::Garbled("the end of an answer is cut short")),
                    };
                }
                Some(&ERR) => return Err(refusal(payload)),
                _ => {}
            }
        }
        let goes_on = payload.len() == PAYLOAD_MAX;
        if goes_on || self.is_split {
            self.joined.extend_from_slice(payload);
            self.held.set(self.joined.len())?;
            (self.is_split, self.bytes_before) = (goes_on, self.joined.len());
            if goes_on {
                return Ok(None);
            }
        }
        if let Some(wanted) = wanted {
            let payload = if self.joined.is_empty() { payload } else { &self.joined };
            wanted.take(payload, self.bytes_max)?;
        }
        // A row that spans several packets is rare: its buffer is freed.
        (self.joined, self.held, self.bytes_before) = (Vec::new(), HeldBytes::default(), 0);
        Ok(None)
    }

    /// Ends a result; `None` if another follows.
    fn end_result(&mut self, status: Status) -> Option<Status> {
        (self.part, self.bytes_before) = (Part::Head, 0);
        (status.0 & STATUS_MORE_RESULTS == 0).then_some(status)
    }
}

impl Wanted<'_> {
    /// Begins the rows, after the descriptions of their columns.
    fn begin(&mut self) {
        match &mut self.keep {
            Keep::Last(row) => {
                row.clear();
                row.names.extend(self.columns.iter().map(|c| c.name.clone()));
            }
            #[cfg(feature = "lua")]
            Keep::All(rows) => {
                rows.begin_set(self.columns.len());
                if self.form == Form::Binary {
                    self.columns.iter().for_each(|column| rows.push_kind(column.kind, column.is_unsigned));
                }
            }
        }
    }

    fn take(&mut self, payload: &[u8], bytes_max: usize) -> Result<(), Broken> {
        match &mut self.keep {
            Keep::Last(row) => {
                row.rows += 1;
                read_row(payload, row, self.columns, self.form)
            }
            #[cfg(feature = "lua")]
            Keep::All(rows) => match rows.push_row(payload) {
                bytes if bytes > bytes_max => Err(Broken::too_long(bytes, bytes_max)),
                _ => Ok(()),
            },
        }
    }
}

impl Keep<'_> {
    /// Reads the description of a column; its name, only if it is of use.
    fn column(&self, payload: &[u8]) -> Result<Column, Broken> {
        let column = read_column(payload)?;
        match self {
            Self::Last(_) => Ok(Column { name: text_of(column.0), kind: column.1, is_unsigned: column.2 }),
            #[cfg(feature = "lua")]
            Self::All(_) => Ok(Column { name: String::new(), kind: column.1, is_unsigned: column.2 }),
        }
    }

    /// Notes an answer without rows.
    fn done(&mut self, _affected: u64) {
        #[cfg(feature = "lua")]
        if let Self::All(rows) = self {
            rows.push_done(_affected);
        }
    }
}

pub(super) fn length_of(header: [u8; HEADER_BYTES]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

/// The payload of the next packet and the packet's length in bytes; `None` if it is incomplete.
pub(super) fn packet(input: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>, Broken> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = length_of(*header);
    if length > bytes_max {
        return Err(Broken::too_long(length, bytes_max));
    }
    Ok(rest.get(..length).map(|payload| (payload, HEADER_BYTES + length)))
}

/// Number of rows that a statement changed, and the status.
fn status_of_ok(payload: &[u8]) -> Result<(u64, Status), Broken> {
    let mut rest = Cursor(&payload[1..]);
    let (affected, _last_id) = (rest.length()?, rest.length()?);
    Ok((affected, Status(u16::from_le_bytes(rest.array()?))))
}

/// The error in a packet.
pub(super) fn refusal(payload: &[u8]) -> Broken {
    let mut rest = Cursor(&payload[1..]);
    let Ok(code) = rest.array() else { return Broken::Garbled("an error is cut short") };
    // A `#` and five characters of SQLSTATE precede the message.
    let (state, message) = match rest.0.split_first() {
        Some((b'#', after)) => (state_of(after), after.get(5..).unwrap_or_default()),
        _ => (state_of(&[]), rest.0),
    };
    Broken::Refused { code: u16::from_le_bytes(code), state, message: shortened(message) }
}

/// Name and type of a column, and whether it is unsigned.
fn read_column(payload: &[u8]) -> Result<(&[u8], u8, bool), Broken> {
    let mut rest = Cursor(payload);
    for _catalog_schema_table_original in 0..4 {
        rest.bytes()?;
    }
    let name = rest.bytes()?;
    rest.bytes()?;
    let _length_of_the_rest = rest.length()?;
    let [_, _, _, _, _, _, kind, low, high] = rest.array()?;
    Ok((name, kind, u16::from_le_bytes([low, high]) & UNSIGNED != 0))
}

fn read_row(payload: &[u8], row: &mut ResultRow, columns: &[Column], form: Form) -> Result<(), Broken> {
    let values = &mut row.values;
    values.clear();
    match form {
        Form::Text => {
            let mut rest = Cursor(payload);
            for _ in columns {
                values.push(if rest.0.first() == Some(&0xfb) {
                    rest.0 = &rest.0[1..];
                    None
                } else {
                    Some(text_of(rest.bytes()?))
                });
            }
        }
        Form::Binary => {
            let mut rest = Cursor(payload);
            let [_] = rest.array()?;
            // The first two bits of the map are unused.
            let nulls = rest.split((columns.len() + 9) / 8)?;
            for (i, column) in columns.iter().enumerate() {
                let is_null = nulls[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1;
                values.push(if is_null { None } else { Some(rest.value(column)?) });
            }
        }
    }
    Ok(())
}

/// Reads the answer to a prepare request: the statement's number and the columns of its answers.
#[derive(Debug)]
pub(super) struct PreparedReader {
    bytes_max: usize,
    bytes: usize,
    id: Option<u32>,
    /// Number of parameter descriptions still expected.
    parameters_left: u16,
    columns_left: u16,
    ends_left: u16,
    columns: Vec<Column>,
}

/// Number of a statement, and the columns of its answers.
type Described = (u32, Vec<Column>);

impl PreparedReader {
    pub(super) fn new(bytes_max: usize) -> Self {
        let columns = Vec::new();
        Self { bytes_max, bytes: 0, id: None, parameters_left: 0, columns_left: 0, ends_left: 0, columns }
    }

    /// Reads the next bytes; returns the number of bytes consumed, and the result at the end of the answer.
    pub(super) fn hear(&mut self, input: &[u8]) -> (usize, Option<Result<Described, Broken>>) {
        let mut taken = 0;
        loop {
            let (payload, bytes) = match packet(&input[taken..], self.bytes_max) {
                Ok(None) => return (taken, None),
                Ok(Some(found)) => found,
                Err(broken) => return (taken, Some(Err(broken))),
            };
            (taken, self.bytes) = (taken + bytes, self.bytes + bytes);
            if self.bytes > self.bytes_max {
                return (taken, Some(Err(Broken::too_long(self.bytes, self.bytes_max))));
            }
            match self.take(payload) {
                Ok(None) => {}
                Ok(Some(described)) => return (taken, Some(Ok(described))),
                Err(broken) => return (taken, Some(Err(broken))),
            }
        }
    }

    fn take(&mut self, payload: &[u8]) -> Result<Option<Described>, Broken> {
        if self.id.is_none() {
            match payload.first() {
                Some(&ERR) => return Err(refusal(payload)),
                Some(&OK) => {}
                _ => return Err(Broken::Garbled("what was prepared has no number")),
            }
            let mut rest = Cursor(&payload[1..]);
            let id = u32::from_le_bytes(rest.array()?);
            self.columns_left = u16::from_le_bytes(rest.array()?);
            self.parameters_left = u16::from_le_bytes(rest.array()?);
            self.ends_left = u16::from(self.columns_left > 0) + u16::from(self.parameters_left > 0);
            self.id = Some(id);
        } else if self.parameters_left > 0 {
            self.parameters_left -= 1;
        } else if payload.first() == Some(&EOF) && payload.len() <= EOF_BYTES_MAX {
            self.ends_left = self.ends_left.saturating_sub(1);
        } else if self.columns_left > 0 {
            self.columns_left -= 1;
            let (name, kind, is_unsigned) = read_column(payload)?;
            self.columns.push(Column { name: text_of(name), kind, is_unsigned });
        } else {
            return Err(Broken::Garbled("a prepared statement has more columns than it says"));
        }
        let is_whole = self.parameters_left == 0 && self.columns_left == 0 && self.ends_left == 0;
        let id = self.id.filter(|_| is_whole);
        Ok(id.map(|id| (id, std::mem::take(&mut self.columns))))
    }
}

/// Unread rest of a payload.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn split(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Broken::Garbled("a message is cut short"))?;
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
        self.split(usize::try_from(length).map_err(|_| Broken::Garbled("a message is cut short"))?)
    }

    /// A value of a prepared statement's row, as text.
    fn value(&mut self, column: &Column) -> Result<String, Broken> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
            out.extend_from_slice(&[length[0], length[1], length[2], 1]);
            out.extend_from_slice(payload);
        }
        out
    }

    /// The end of an answer that arrives in pieces of `step` bytes; panics if the answer is incomplete.
    fn end_of(input: &[u8], step: usize, mut wanted: Option<Wanted<'_>>) -> Result<Status, Broken> {
        let mut reader = Reader::new(64 << 20);
        let (mut left, mut come) = (Vec::new(), 0);
        for piece in input.chunks(step) {
            left.extend_from_slice(piece);
            come += piece.len();
            let (taken, end) = reader.hear(&left, &mut wanted);
            left.drain(..taken);
            if let Some(end) = end {
                assert!(end.is_err() || come == input.len() && left.is_empty(), "it ends at its last byte");
                return end;
            }
        }
        panic!("{} bytes are no whole answer", input.len());
    }

    const COLUMN: &[u8] =
        b"\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00";
    const END: &[u8] = &[0xfe, 0, 0, 2, 0];

    #[test]
    fn an_answer_is_read_to_its_end_however_it_is_cut_and_its_last_row_kept() {
        let row = |n: u8| [0, 0, n, 0, 0, 0];
        let whole = packets(&[&[1], COLUMN, END, &row(5), &row(9), END]);
        for step in [1, 3, 4, 7, 1000] {
            let (mut kept, mut columns) = (ResultRow::default(), Vec::new());
            let wanted = Wanted { keep: Keep::Last(&mut kept), columns: &mut columns, form: Form::Binary };
            assert!(!end_of(&whole, step, Some(wanted)).unwrap().is_in_transaction());
            assert_eq!(
                (kept.rows, kept.names, kept.values),
                (2, vec!["n".to_owned()], vec![Some("9".to_owned())])
            );
            // The answer of MariaDB with columns that it described before; then an empty result.
            let more = [0xfe, 0, 0, 8, 0];
            let whole = packets(&[&[1, 0], END, &row(5), &more, &[0, 0, 0, 1, 0, 0, 0]]);
            assert!(end_of(&whole, step, None).unwrap().is_in_transaction());
        }
    }

    #[test]
    fn a_row_of_several_packets_is_one_row() {
        let value = vec![b'x'; PAYLOAD_MAX + 10];
        let mut row = vec![0xfe];
        row.extend_from_slice(&(value.len() as u64).to_le_bytes());
        row.extend_from_slice(&value);
        let (first, second) = row.split_at(PAYLOAD_MAX);
        let whole = packets(&[&[1], COLUMN, END, first, second, END]);
        let (mut kept, mut columns) = (ResultRow::default(), Vec::new());
        let wanted = Wanted { keep: Keep::Last(&mut kept), columns: &mut columns, form: Form::Text };
        end_of(&whole, 1 << 20, Some(wanted)).unwrap();
        assert_eq!(kept.rows, 1);
        // A value that is too long for a variable is stored with one byte more than the limit.
        assert_eq!(kept.values[0].as_ref().unwrap().len(), crate::workload::statement::VALUE_BYTES_MAX + 1);
        // When skipped, it is the same answer, and its continuation is not an end, although it begins like
        // one.
        let whole = packets(&[&[1], COLUMN, END, first, &[0xfe, 0, 0], END]);
        end_of(&whole, 1 << 20, None).unwrap();
        // A row of the maximum packet length is followed by an empty packet.
        let whole = packets(&[&[1], COLUMN, END, first, &[], END]);
        end_of(&whole, 1 << 20, None).unwrap();
    }

    #[test]
    fn of_a_long_answer_nothing_is_held_but_the_beginning_of_a_row() {
        let row = [&[40][..], &[b'x'; 40]].concat();
        let mut whole = packets(&[&[1], COLUMN, END]);
        for _ in 0..200_000 {
            whole.extend_from_slice(&packets(&[&row]));
        }
        whole.extend_from_slice(&packets(&[END]));
        let (mut reader, mut left, mut ended) = (Reader::new(1 << 20), Vec::new(), false);
        for piece in whole.chunks(64 << 10) {
            left.extend_from_slice(piece);
            let (taken, end) = reader.hear(&left, &mut None);
            left.drain(..taken);
            // No byte is parsed twice.
            assert!(left.len() <= HEADER_BYTES, "{} bytes are held", left.len());
            ended = end.is_some();
        }
        assert!(ended);
    }

    #[test]
    fn an_error_may_come_at_once_or_among_the_rows() {
        let refused = b"\xff\xbd\x04#40001Deadlock found";
        for payloads in [&[&refused[..]][..], &[&[1], COLUMN, END, &[0, 0, 1, 0, 0, 0], &refused[..]]] {
            for step in [1, 5, 1000] {
                let Err(Broken::Refused { code, message, state }) = end_of(&packets(payloads), step, None)
                else {
                    panic!()
                };
                assert_eq!((code, message.as_str(), &state), (1213, "Deadlock found", b"40001"));
            }
        }
    }

    #[test]
    fn what_no_server_announces_is_refused_before_it_has_come() {
        let refused = |input: &[u8], bytes_max| {
            let (_, end) = Reader::new(bytes_max).hear(input, &mut None);
            end.unwrap().unwrap_err()
        };
        let columns = packets(&[&[0xfe, 0, 0, 0, 0, 0, 0, 0, 0x40]]);
        assert!(matches!(refused(&columns, 1 << 20), Broken::Garbled(_)));
        assert!(matches!(refused(&[0xff, 0xff, 0xff, 0], 1 << 20), Broken::TooLong { .. }));
        // Nor may many small descriptions exceed the limit together.
        let mut many = packets(&[&[0xfc, 0xff, 0xff]]);
        for _ in 0..1_000 {
            many.extend_from_slice(&packets(&[COLUMN]));
        }
        assert!(matches!(refused(&many, 4_000), Broken::TooLong { .. }));
    }

    #[test]
    fn what_was_prepared_is_read_however_it_is_cut() {
        let head = [0, 7, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
        let whole = packets(&[&head, COLUMN, COLUMN, END, COLUMN, END]);
        for step in [1, 5, 1_000] {
            let (mut reader, mut left, mut found) = (PreparedReader::new(1 << 20), Vec::new(), None);
            for piece in whole.chunks(step) {
                assert!(found.is_none(), "it ends at its last byte");
                left.extend_from_slice(piece);
                let (taken, end) = reader.hear(&left);
                left.drain(..taken);
                found = end;
            }
            let (id, columns) = found.unwrap().unwrap();
            assert_eq!((id, columns.len(), columns[0].name.as_str()), (7, 1, "n"));
        }
        let (_, end) = PreparedReader::new(1 << 20).hear(&packets(&[&[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]));
        assert_eq!(end.unwrap().unwrap(), (7, Vec::new()));
    }

    #[test]
    fn binary_values_read_as_text() {
        let of = |kind, is_unsigned, bytes: &[u8]| {
            Cursor(bytes).value(&Column { name: String::new(), kind, is_unsigned }).unwrap()
        };
        assert_eq!(of(kind::TINY, false, &[0xff]), "-1");
        assert_eq!(of(kind::LONGLONG, true, &[0xff; 8]), u64::MAX.to_string());
        assert_eq!(of(kind::DOUBLE, false, &1.5f64.to_le_bytes()), "1.5");
        assert_eq!(of(kind::DATE, false, &[4, 0xea, 7, 11, 21]), "2026-11-21");
        assert_eq!(of(kind::DATETIME, false, &[7, 0xea, 7, 11, 21, 9, 5, 0]), "2026-11-21 09:05:00");
        assert_eq!(of(kind::TIME, false, &[8, 1, 1, 0, 0, 0, 2, 3, 4]), "-26:03:04");
        assert_eq!(of(kind::VAR_STRING, false, &[2, b'h', b'i']), "hi");
    }
}
