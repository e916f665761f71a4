//! The part of the PostgreSQL protocol that every event goes through: a statement out, its answer in.
//!
//! A prepared statement is bound, executed and synchronised in one message to the server; nobody asks it to describe
//! again what it said when it was prepared. Parameters and rows are text, as libpq sends and wants them where it is not
//! told otherwise. Nothing is allocated once the rooms are large enough.
//!
//! # Source
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io::{ErrorKind, Write as _};

use crate::driver::wire::{self, Source};
use crate::sql::{Parameter, Row};

/// A message's kind and its length, which counts itself.
const HEADER_BYTES: usize = 5;
/// A request may not be longer: lengths are signed.
const REQUEST_BYTES_MAX: usize = i32::MAX as usize;

/// Why there is no answer, by SQLSTATE.
pub(super) type Broken = wire::Broken<String>;

/// What the server says that it is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Idle,
    InTransaction,
    /// It only takes a rollback.
    InFailedTransaction,
}

/// Where the last row of an answer goes.
pub(super) struct Wanted<'a> {
    pub(super) row: &'a mut Row,
    /// What the columns are called; an answer that says so replaces them.
    pub(super) columns: &'a mut Vec<String>,
}

/// A request that is too long to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooLong;

/// Writes a request that carries a statement's text.
pub(super) fn write_query(sql: &str, out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.clear();
    message(b'Q', out, |out| write_text(sql, out))
}

/// Writes a request that has statement number `number` prepared and described.
pub(super) fn write_prepare(number: usize, sql: &str, out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.clear();
    message(b'P', out, |out| {
        write_name(number, out);
        write_text(sql, out);
        // The server finds the types of the parameters by itself.
        out.extend_from_slice(&[0, 0]);
    })?;
    message(b'D', out, |out| {
        out.push(b'S');
        write_name(number, out);
    })?;
    message(b'S', out, |_| {})
}

/// Writes a request that has statement number `number` executed.
pub(super) fn write_execute(
    number: usize,
    parameters: &[Parameter<'_>],
    out: &mut Vec<u8>,
) -> Result<(), TooLong> {
    out.clear();
    let count = u16::try_from(parameters.len()).map_err(|_| TooLong)?;
    message(b'B', out, |out| {
        out.push(0); // The portal without a name.
        write_name(number, out);
        out.extend_from_slice(&[0, 0]); // Every parameter is text.
        out.extend_from_slice(&count.to_be_bytes());
        for parameter in parameters {
            write_value(*parameter, out);
        }
        out.extend_from_slice(&[0, 0]); // And so is every column.
    })?;
    // The portal without a name, all its rows.
    out.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
    message(b'S', out, |_| {})
}

fn message(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLong> {
    let from = out.len() + 1;
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    body(out);
    write_length(from, out.len() - from, out)
}

fn write_length(at: usize, length: usize, out: &mut [u8]) -> Result<(), TooLong> {
    if length > REQUEST_BYTES_MAX {
        return Err(TooLong);
    }
    let length = u32::try_from(length).expect("below the bound");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_name(number: usize, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(out, "s{number}\0");
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn write_value(parameter: Parameter<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    // Writing to memory cannot fail.
    let _ = match parameter {
        Parameter::Null => return out[at..].copy_from_slice(&(-1i32).to_be_bytes()),
        Parameter::Integer(n) => write!(out, "{n}"),
        Parameter::Real(x) => write!(out, "{x}"),
        Parameter::Text(text) => out.write_all(text.as_bytes()),
    };
    let length = out.len() - at - 4;
    // One that is too long makes the whole message too long.
    let _ = write_length(at, length, out);
}

/// Reads an answer to its end: until the server is ready for the next request.
pub(super) fn read_answer(source: &mut impl Source, mut wanted: Option<Wanted<'_>>) -> Result<Ready, Broken> {
    let mut refused = None;
    loop {
        let (kind, body) = match next(source) {
            Ok(message) => message,
            Err(Broken::Lost(e)) if e.kind() == ErrorKind::WouldBlock => return Err(e.into()),
            // A server that says why it closes a connection says it before.
            Err(broken) => return Err(refused.unwrap_or(broken)),
        };
        match kind {
            b'Z' => {
                let ready = match body {
                    b"I" => Ready::Idle,
                    b"T" => Ready::InTransaction,
                    _ => Ready::InFailedTransaction,
                };
                return refused.map_or(Ok(ready), Err);
            }
            b'E' => refused = refused.or(Some(refusal(body))),
            b'D' => {
                if let Some(wanted) = &mut wanted {
                    read_row(body, wanted)?;
                }
            }
            b'T' => {
                if let Some(wanted) = &mut wanted {
                    read_names(body, wanted.columns)?;
                }
            }
            b'G' | b'W' => return Err(Broken::Garbled("the server wants rows to copy: there are none")),
            // Completions, notices, settings, notifications, rows of a COPY.
            _ => {}
        }
    }
}

/// The next message: its kind and its body.
pub(super) fn next(source: &mut impl Source) -> Result<(u8, &[u8]), Broken> {
    let header: [u8; HEADER_BYTES] =
        source.take(HEADER_BYTES)?.try_into().expect("as many bytes as were asked for");
    let [kind, length @ ..] = header;
    let length = u32::from_be_bytes(length) as usize;
    let Some(length) = length.checked_sub(4).filter(|l| *l <= REQUEST_BYTES_MAX) else {
        return Err(Broken::Garbled("a message has no length"));
    };
    Ok((kind, source.take(length)?))
}

/// An error, by its SQLSTATE and its message.
pub(super) fn refusal(body: &[u8]) -> Broken {
    let field = |wanted: u8| {
        let mut fields = body.split(|b| *b == 0);
        let found = fields.find(|f| f.first() == Some(&wanted));
        found.map_or_else(String::new, |f| String::from_utf8_lossy(&f[1..]).into_owned())
    };
    Broken::Refused { code: field(b'C'), message: field(b'M') }
}

const CUT_SHORT: Broken = Broken::Garbled("a message is cut short");

fn read_names(body: &[u8], names: &mut Vec<String>) -> Result<(), Broken> {
    names.clear();
    let (count, mut rest) = body.split_first_chunk().ok_or(CUT_SHORT)?;
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|b| *b == 0).ok_or(CUT_SHORT)?;
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        // Table, number, type, its size and modifier, format.
        rest = rest.get(end + 1 + 18..).ok_or(CUT_SHORT)?;
    }
    Ok(())
}

fn read_row(body: &[u8], wanted: &mut Wanted<'_>) -> Result<(), Broken> {
    let row = &mut *wanted.row;
    if row.rows == 0 {
        row.names.clone_from(wanted.columns);
    }
    row.rows += 1;
    row.values.clear();
    let (count, mut rest) = body.split_first_chunk().ok_or(CUT_SHORT)?;
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
        let length = i32::from_be_bytes(*length);
        let Ok(length) = usize::try_from(length) else {
            row.values.push(None);
            rest = after;
            continue;
        };
        let (value, after) = after.split_at_checked(length).ok_or(CUT_SHORT)?;
        row.values.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::driver::wire::{Come, Wire};

    #[test]
    fn a_statement_is_one_request() {
        let mut out = Vec::new();
        write_execute(12, &[Parameter::Integer(-5), Parameter::Null, Parameter::Text("ab")], &mut out)
            .unwrap();
        let bind = b"B\0\0\0\x1f\0s12\0\0\0\0\x03\0\0\0\x02-5\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        assert_eq!(out[..bind.len()], bind[..]);
        assert_eq!(out[1..5], u32::try_from(bind.len() - 1).unwrap().to_be_bytes());
        assert_eq!(out[bind.len()..], b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"[..]);
    }

    fn answer_of(sent: &[u8], wanted: Option<Wanted<'_>>) -> Result<Ready, Broken> {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        theirs.write_all(sent).unwrap();
        drop(theirs);
        read_answer(&mut Wire::new(ours.into()), wanted)
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_its_last_row_kept() {
        let (mut row, mut columns) = (Row::default(), vec!["n".to_owned(), "t".to_owned()]);
        let wanted = Wanted { row: &mut row, columns: &mut columns };
        let sent =
            b"2\0\0\0\x04D\0\0\0\x0f\0\x02\0\0\0\x01\x37\xff\xff\xff\xffC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T";
        assert_eq!(answer_of(sent, Some(wanted)).unwrap(), Ready::InTransaction);
        assert_eq!((row.rows, row.names, row.values), (1, columns, vec![Some("7".to_owned()), None]));
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_read_when_it_has_come_whole() {
        let error = b"E\0\0\0\x23SERROR\0C40P01\0Mdeadlock found\0\0Z\0\0\0\x05I";
        let row = b"2\0\0\0\x04D\0\0\0\x0b\0\x01\0\0\0\x01\x37C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T";
        for whole in [&error[..], row] {
            for cut in 0..whole.len() {
                let Err(Broken::Lost(e)) = read_answer(&mut Come::new(&whole[..cut], false), None) else {
                    panic!("{cut}");
                };
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
            }
            let mut come = Come::new(whole, false);
            let _ = read_answer(&mut come, None);
            assert_eq!(come.taken(), whole.len());
        }
    }

    #[test]
    fn an_error_is_told_also_where_the_server_closes_after_it() {
        let error = b"E\0\0\0\x23SERROR\0C40P01\0Mdeadlock found\0\0";
        for after in [&b"Z\0\0\0\x05I"[..], b""] {
            let sent = [&error[..], after].concat();
            let Err(Broken::Refused { code, message }) = answer_of(&sent, None) else { panic!() };
            assert_eq!((code.as_str(), message.as_str()), ("40P01", "deadlock found"));
        }
        assert!(matches!(answer_of(b"Z\0\0", None), Err(Broken::Lost(_))));
        assert!(matches!(answer_of(b"Z\0\0\0\x01", None), Err(Broken::Garbled(_))));
    }
}
