//! Incremental parser of answers of MySQL and MariaDB: reads each byte once, in pieces of any size.
//!
//! Unwanted rows are skipped without being stored. At most one packet is stored, or one row that spans
//! several packets, and never more than the limit.
//!
//! # Source
//!
//! <https://mariadb.com/kb/en/clientserver-protocol/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>

use super::cursor::Cursor;
pub(super) use super::format::{Broken, Column};
use super::format::{HEADER_BYTES, PAYLOAD_MAX};
use crate::driver::sql::broken::{shortened, state_of, text_of};
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
                    wanted.check(self.bytes_max)?;
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
                    wanted.check(self.bytes_max)?;
                }
                return Ok(self.end_result(status));
            }
            Some(&ERR) => return Err(refusal(payload)),
            Some(&LOCAL_INFILE) => {
                return Err(Broken::Garbled(
                    "the server requests a local file (LOAD DATA LOCAL), which bakeoff never sends",
                ));
            }
            _ => {}
        }
        let mut head = Cursor(payload);
        let count = head.length()?;
        if count == 0 || count > COLUMNS_MAX {
            return Err(Broken::Garbled("an answer has an impossible number of columns"));
        }
        // MariaDB sends one more byte, which tells whether column descriptions follow; other servers always
        // send them.
        if head.0.first() == Some(&0) {
            let known = wanted.as_ref().map(|wanted| wanted.columns.len() as u64);
            if known.is_some_and(|known| known != count) {
                return Err(Broken::Garbled("an answer has another number of columns than its description"));
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
                        _ => Err(Broken::Garbled("the end of an answer is truncated")),
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
            wanted.take(payload)?;
            wanted.check(self.bytes_max)?;
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

    fn take(&mut self, payload: &[u8]) -> Result<(), Broken> {
        match &mut self.keep {
            Keep::Last(row) => {
                row.rows += 1;
                read_row(payload, row, self.columns, self.form)
            }
            #[cfg(feature = "lua")]
            Keep::All(rows) => {
                rows.push_row(payload);
                Ok(())
            }
        }
    }

    /// Refuses an answer that takes more memory than the limit.
    fn check(&self, bytes_max: usize) -> Result<(), Broken> {
        let bytes = self.keep.stored_bytes();
        if bytes > bytes_max { Err(Broken::too_long(bytes, bytes_max)) } else { Ok(()) }
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

    /// Bytes of an answer that is stored whole.
    fn stored_bytes(&self) -> usize {
        match self {
            Self::Last(_) => 0,
            #[cfg(feature = "lua")]
            Self::All(rows) => rows.stored_bytes(),
        }
    }

    /// Notes an answer without rows.
    #[cfg_attr(
        not(feature = "lua"),
        expect(unused_variables, clippy::unused_self, reason = "only Lua keeps whole answers")
    )]
    fn done(&mut self, affected: u64) {
        #[cfg(feature = "lua")]
        if let Self::All(rows) = self {
            rows.push_done(affected);
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
    let Ok(code) = rest.array() else { return Broken::Garbled("an error message is truncated") };
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
    has_names: bool,
}

/// Number of a statement, and the columns of its answers.
type Described = (u32, Vec<Column>);

impl PreparedReader {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            id: None,
            parameters_left: 0,
            columns_left: 0,
            ends_left: 0,
            columns: Vec::new(),
            has_names: true,
        }
    }

    /// Variant that reads no names of columns, into the memory of an earlier list.
    #[cfg(feature = "lua")]
    pub(super) fn nameless(bytes_max: usize, mut columns: Vec<Column>) -> Self {
        columns.clear();
        Self { columns, has_names: false, ..Self::new(bytes_max) }
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
                _ => return Err(Broken::Garbled("the answer to a prepare request has no statement id")),
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
            let name = if self.has_names { text_of(name) } else { String::new() };
            self.columns.push(Column { name, kind, is_unsigned });
        } else {
            return Err(Broken::Garbled("a prepared statement has more columns than announced"));
        }
        let is_whole = self.parameters_left == 0 && self.columns_left == 0 && self.ends_left == 0;
        let id = self.id.filter(|_| is_whole);
        Ok(id.map(|id| (id, std::mem::take(&mut self.columns))))
    }
}

#[cfg(test)]
mod tests;
