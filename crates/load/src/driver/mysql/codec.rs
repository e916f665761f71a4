//! The part of the MySQL protocol that every event goes through: a statement out, its answer in.
//!
//! Login, preparing and building are the crate's. What is here allocates nothing once its rooms are large enough, and
//! looks at rows only as far as is needed to find their end, unless one is wanted.
//!
//! # Source
//!
//! <https://mariadb.com/kb/en/clientserver-protocol/>, <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>

use std::fmt::Write as _;

use crate::driver::wire::{self, Source};
use crate::sql::{Parameter, Row};

/// A payload of this length goes on in the next packet.
const PAYLOAD_MAX: usize = 0xff_ffff;
const HEADER_BYTES: usize = 4;

const COM_QUERY: u8 = 0x03;
const COM_STMT_EXECUTE: u8 = 0x17;

const OK: u8 = 0x00;
const LOCAL_INFILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;
/// What begins like an end and is longer is a row.
const EOF_BYTES_MAX: usize = 8;

const STATUS_IN_TRANSACTION: u16 = 0x0001;
const STATUS_MORE_RESULTS: u16 = 0x0008;

/// Types of columns and parameters.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const VAR_STRING: u8 = 253;
}
const UNSIGNED: u16 = 0x20;

/// Why there is no answer, by the server's number.
pub(super) type Broken = wire::Broken<u16>;

/// A statement that the server knows.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) id: u32,
    /// What its answers hold; a server may leave that out when it has said it before.
    pub(super) columns: Vec<Column>,
    /// The types of the parameters as last sent: a server remembers them.
    bound: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(id: u32, columns: Vec<Column>) -> Self {
        Self { id, columns, bound: Vec::new() }
    }

    /// After an error, nobody knows how far the server came.
    pub(super) fn forget_types(&mut self) {
        self.bound.clear();
    }
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) is_unsigned: bool,
}

/// What an answer said at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(u16);

impl Status {
    pub(super) fn is_in_transaction(self) -> bool {
        self.0 & STATUS_IN_TRANSACTION != 0
    }
}

/// Where the last row of an answer goes.
pub(super) struct Wanted<'a> {
    pub(super) row: &'a mut Row,
    pub(super) columns: &'a mut Vec<Column>,
    pub(super) form: Form,
}

/// How values are written in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Of a prepared statement.
    Binary,
    Text,
}

/// Writes a request that carries a statement's text; false where it is too long for one packet.
#[must_use]
pub(super) fn write_query(sql: &str, out: &mut Vec<u8>) -> bool {
    begin(COM_QUERY, out);
    out.extend_from_slice(sql.as_bytes());
    finish(out)
}

/// Writes a request that has a prepared statement executed; false where it is too long for one packet.
#[must_use]
pub(super) fn write_execute(
    prepared: &mut Prepared,
    parameters: &[Parameter<'_>],
    out: &mut Vec<u8>,
) -> bool {
    begin(COM_STMT_EXECUTE, out);
    out.extend_from_slice(&prepared.id.to_le_bytes());
    // No cursor, one execution.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    if !parameters.is_empty() {
        let nulls_from = out.len();
        out.resize(nulls_from + parameters.len().div_ceil(8), 0);
        for (i, parameter) in parameters.iter().enumerate() {
            out[nulls_from + i / 8] |= u8::from(*parameter == Parameter::Null) << (i % 8);
        }
        write_types(prepared, parameters, out);
        for parameter in parameters {
            write_value(*parameter, out);
        }
    }
    finish(out)
}

fn begin(command: u8, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    out.push(command);
}

fn finish(out: &mut [u8]) -> bool {
    let length = out.len() - HEADER_BYTES;
    let Ok(length) = u32::try_from(length) else { return false };
    // The number in the sequence, 0, is there already.
    out[..3].copy_from_slice(&length.to_le_bytes()[..3]);
    (length as usize) < PAYLOAD_MAX
}

/// Sends the types where the server does not know them; a NULL goes with any.
fn write_types(prepared: &mut Prepared, parameters: &[Parameter<'_>], out: &mut Vec<u8>) {
    let fits = |(bound, p): (&u8, &Parameter<'_>)| *p == Parameter::Null || *bound == kind_of(*p);
    let bound = &mut prepared.bound;
    let are_known = bound.len() == parameters.len() && bound.iter().zip(parameters).all(fits);
    out.push(u8::from(!are_known));
    if !are_known {
        bound.clear();
        bound.extend(parameters.iter().map(|p| kind_of(*p)));
        out.extend(bound.iter().flat_map(|kind| [*kind, 0]));
    }
}

fn kind_of(parameter: Parameter<'_>) -> u8 {
    match parameter {
        Parameter::Null => kind::NULL,
        Parameter::Integer(_) => kind::LONGLONG,
        Parameter::Real(_) => kind::DOUBLE,
        Parameter::Text(_) => kind::VAR_STRING,
    }
}

fn write_value(parameter: Parameter<'_>, out: &mut Vec<u8>) {
    match parameter {
        Parameter::Null => {}
        Parameter::Integer(n) => out.extend_from_slice(&n.to_le_bytes()),
        Parameter::Real(x) => out.extend_from_slice(&x.to_le_bytes()),
        Parameter::Text(text) => {
            let length = (text.len() as u64).to_le_bytes();
            match text.len() {
                0..=0xfa => out.push(length[0]),
                0xfb..=0xffff => out.extend_from_slice(&[0xfc, length[0], length[1]]),
                0x1_0000..=0xff_ffff => out.extend_from_slice(&[0xfd, length[0], length[1], length[2]]),
                _ => {
                    out.push(0xfe);
                    out.extend_from_slice(&length);
                }
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Reads an answer to its end, all its results.
pub(super) fn read_answer(
    source: &mut impl Source,
    mut wanted: Option<Wanted<'_>>,
) -> Result<Status, Broken> {
    loop {
        let status = read_result(source, &mut wanted)?;
        if status.0 & STATUS_MORE_RESULTS == 0 {
            return Ok(status);
        }
    }
}

fn read_result(source: &mut impl Source, wanted: &mut Option<Wanted<'_>>) -> Result<Status, Broken> {
    let payload = packet(source)?;
    match payload.first() {
        Some(&OK) => return status_of_ok(payload),
        Some(&ERR) => return Err(refusal(payload)),
        Some(&LOCAL_INFILE) => return Err(Broken::Garbled("the server asks for a file of this machine")),
        _ => {}
    }
    let mut head = Cursor(payload);
    let count = head.length()?;
    // MariaDB says in one more byte whether it describes the columns again; others always do.
    let are_described = head.0.first() != Some(&0);
    if are_described {
        if let Some(wanted) = wanted {
            wanted.columns.clear();
        }
        for _ in 0..count {
            let payload = packet(source)?;
            if let Some(wanted) = wanted {
                wanted.columns.push(read_column(payload)?);
            }
        }
    }
    packet(source)?; // The end of the columns.
    if let Some(wanted) = wanted {
        wanted.row.clear();
        wanted.row.names.extend(wanted.columns.iter().map(|c| c.name.clone()));
    }
    loop {
        let header = source.take(HEADER_BYTES)?;
        let mut length = length_of(header);
        let payload = source.take(length)?;
        match payload.first() {
            Some(&EOF) if length <= EOF_BYTES_MAX => {
                return match payload {
                    [_, _, _, low, high, ..] => Ok(Status(u16::from_le_bytes([*low, *high]))),
                    _ => Err(Broken::Garbled("the end of an answer is cut short")),
                };
            }
            Some(&ERR) => return Err(refusal(payload)),
            _ => {}
        }
        if let Some(wanted) = wanted {
            if length == PAYLOAD_MAX {
                return Err(Broken::Garbled("a row of more than 16 MiB cannot be kept"));
            }
            wanted.row.rows += 1;
            read_row(payload, wanted)?;
        }
        while length == PAYLOAD_MAX {
            length = packet(source)?.len();
        }
    }
}

fn packet(source: &mut impl Source) -> Result<&[u8], Broken> {
    let length = length_of(source.take(HEADER_BYTES)?);
    Ok(source.take(length)?)
}

fn length_of(header: &[u8]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

fn status_of_ok(payload: &[u8]) -> Result<Status, Broken> {
    let mut rest = Cursor(&payload[1..]);
    let (_affected, _last_id) = (rest.length()?, rest.length()?);
    Ok(Status(u16::from_le_bytes(rest.array()?)))
}

fn refusal(payload: &[u8]) -> Broken {
    let mut rest = Cursor(&payload[1..]);
    let Ok(code) = rest.array() else { return Broken::Garbled("an error is cut short") };
    // A mark and five characters of SQLSTATE stand before the message.
    let message = if rest.0.first() == Some(&b'#') { rest.0.get(6..).unwrap_or_default() } else { rest.0 };
    Broken::Refused { code: u16::from_le_bytes(code), message: String::from_utf8_lossy(message).into_owned() }
}

fn read_column(payload: &[u8]) -> Result<Column, Broken> {
    let mut rest = Cursor(payload);
    for _catalog_schema_table_original in 0..4 {
        rest.bytes()?;
    }
    let name = String::from_utf8_lossy(rest.bytes()?).into_owned();
    rest.bytes()?;
    let _length_of_the_rest = rest.length()?;
    let [_, _, _, _, _, _, kind, low, high] = rest.array()?;
    Ok(Column { name, kind, is_unsigned: u16::from_le_bytes([low, high]) & UNSIGNED != 0 })
}

fn read_row(payload: &[u8], wanted: &mut Wanted<'_>) -> Result<(), Broken> {
    let values = &mut wanted.row.values;
    values.clear();
    match wanted.form {
        Form::Text => {
            let mut rest = Cursor(payload);
            for _ in wanted.columns.iter() {
                values.push(if rest.0.first() == Some(&0xfb) {
                    rest.0 = &rest.0[1..];
                    None
                } else {
                    Some(String::from_utf8_lossy(rest.bytes()?).into_owned())
                });
            }
        }
        Form::Binary => {
            let mut rest = Cursor(payload);
            let [_] = rest.array()?;
            // The first two bits of the map mean nothing.
            let nulls = rest.split((wanted.columns.len() + 9) / 8)?;
            for (i, column) in wanted.columns.iter().enumerate() {
                let is_null = nulls[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1;
                values.push(if is_null { None } else { Some(rest.value(column)?) });
            }
        }
    }
    Ok(())
}

/// What is left of a payload.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn split(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Broken::Garbled("a message is cut short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        Ok(self.split(N)?.try_into().expect("as many bytes as were split off"))
    }

    /// A number of the length that its first byte says.
    fn length(&mut self) -> Result<u64, Broken> {
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

    fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.length()?;
        self.split(usize::try_from(length).map_err(|_| Broken::Garbled("a message is cut short"))?)
    }

    /// A value of a prepared statement's row, as text.
    fn value(&mut self, column: &Column) -> Result<String, Broken> {
        let is_unsigned = column.is_unsigned;
        Ok(match column.kind {
            kind::TINY if is_unsigned => u8::from_le_bytes(self.array()?).to_string(),
            kind::TINY => i8::from_le_bytes(self.array()?).to_string(),
            kind::SHORT | kind::YEAR if is_unsigned => u16::from_le_bytes(self.array()?).to_string(),
            kind::SHORT | kind::YEAR => i16::from_le_bytes(self.array()?).to_string(),
            kind::LONG | kind::INT24 if is_unsigned => u32::from_le_bytes(self.array()?).to_string(),
            kind::LONG | kind::INT24 => i32::from_le_bytes(self.array()?).to_string(),
            kind::LONGLONG if is_unsigned => u64::from_le_bytes(self.array()?).to_string(),
            kind::LONGLONG => i64::from_le_bytes(self.array()?).to_string(),
            kind::FLOAT => f32::from_le_bytes(self.array()?).to_string(),
            kind::DOUBLE => f64::from_le_bytes(self.array()?).to_string(),
            kind::DATE | kind::DATETIME | kind::TIMESTAMP => self.moment(column.kind == kind::DATE)?,
            kind::TIME => self.span()?,
            _ => String::from_utf8_lossy(self.bytes()?).into_owned(),
        })
    }

    /// A date, or a date and a time; what is left out is zero.
    fn moment(&mut self, is_date: bool) -> Result<String, Broken> {
        let [length] = self.array()?;
        let mut bytes = [0; 11];
        bytes
            .get_mut(..length.into())
            .ok_or(Broken::Garbled("a date is too long"))?
            .copy_from_slice(self.split(length.into())?);
        let [year_low, year_high, month, day, hour, minute, second, micros @ ..] = bytes;
        let mut text = format!("{:04}-{month:02}-{day:02}", u16::from_le_bytes([year_low, year_high]));
        if !is_date {
            // Writing to a string cannot fail.
            let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
            write_micros(micros, &mut text);
        }
        Ok(text)
    }

    /// A span of time, of days even.
    fn span(&mut self) -> Result<String, Broken> {
        let [length] = self.array()?;
        let mut bytes = [0; 12];
        bytes
            .get_mut(..length.into())
            .ok_or(Broken::Garbled("a time is too long"))?
            .copy_from_slice(self.split(length.into())?);
        let [is_negative, d0, d1, d2, d3, hour, minute, second, micros @ ..] = bytes;
        let hours = u64::from(u32::from_le_bytes([d0, d1, d2, d3])) * 24 + u64::from(hour);
        let sign = if is_negative == 0 { "" } else { "-" };
        let mut text = format!("{sign}{hours:02}:{minute:02}:{second:02}");
        write_micros(micros, &mut text);
        Ok(text)
    }
}

fn write_micros(bytes: [u8; 4], text: &mut String) {
    let micros = u32::from_le_bytes(bytes);
    if micros > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, ".{micros:06}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::driver::wire::Wire;

    #[test]
    fn types_are_sent_once_and_again_when_they_change() {
        let mut prepared = Prepared::new(7, Vec::new());
        let mut out = Vec::new();
        assert!(write_execute(&mut prepared, &[Parameter::Integer(1), Parameter::Text("ab")], &mut out));
        let head = [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(out[4..14], head);
        assert_eq!(out[14..], [0, 1, 8, 0, 253, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(out[..4], [27, 0, 0, 0]);
        assert!(write_execute(&mut prepared, &[Parameter::Integer(1), Parameter::Null], &mut out));
        assert_eq!(out[14..], [2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(write_execute(&mut prepared, &[Parameter::Real(0.0), Parameter::Null], &mut out));
        assert_eq!(out[14..20], [2, 1, 5, 0, 6, 0]);
    }

    fn answer_of(packets: &[&[u8]], wanted: Option<Wanted<'_>>) -> Result<Status, Broken> {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        for payload in packets {
            let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
            theirs.write_all(&[length[0], length[1], length[2], 1]).unwrap();
            theirs.write_all(payload).unwrap();
        }
        drop(theirs);
        read_answer(&mut Wire::new(ours.into()), wanted)
    }

    const COLUMN: &[u8] =
        b"\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00";
    const END: &[u8] = &[0xfe, 0, 0, 2, 0];

    #[test]
    fn an_answer_is_read_to_its_end_and_its_last_row_kept() {
        let row = |n: u8| [0, 0, n, 0, 0, 0];
        let (mut kept, mut columns) = (Row::default(), Vec::new());
        let wanted = Wanted { row: &mut kept, columns: &mut columns, form: Form::Binary };
        let status = answer_of(&[&[1], COLUMN, END, &row(5), &row(9), END], Some(wanted)).unwrap();
        assert!(!status.is_in_transaction());
        assert_eq!(
            (kept.rows, kept.names, kept.values),
            (2, vec!["n".to_owned()], vec![Some("9".to_owned())])
        );
        // As MariaDB answers what it has described before; then an empty result.
        let more = [0xfe, 0, 0, 8, 0];
        let status = answer_of(&[&[1, 0], END, &row(5), &more, &[0, 0, 0, 1, 0, 0, 0]], None).unwrap();
        assert!(status.is_in_transaction());
    }

    #[test]
    fn an_error_may_come_at_once_or_among_the_rows() {
        let refused = b"\xff\xbd\x04#40001Deadlock found";
        for packets in [&[&refused[..]][..], &[&[1], COLUMN, END, &[0, 0, 1, 0, 0, 0], &refused[..]]] {
            let Err(Broken::Refused { code, message }) = answer_of(packets, None) else { panic!() };
            assert_eq!((code, message.as_str()), (1213, "Deadlock found"));
        }
        assert!(matches!(answer_of(&[&[1], COLUMN], None), Err(Broken::Lost(_))));
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
