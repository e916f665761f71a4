//! Requests of the PostgreSQL protocol that events send.
//!
//! A prepared statement is bound, executed and synchronized in one request; it is not described again, since
//! the server described it when it was prepared. Parameters and rows are text, libpq's default. Nothing is
//! allocated once the buffers are large enough.
//!
//! # Source
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io::Write as _;

use super::answer::COMMAND_COMPLETE;
use crate::workload::statement::Parameter;

/// Length limit of a request: lengths are signed.
const REQUEST_BYTES_MAX: usize = i32::MAX as usize;

/// A request that is too long to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooLong;

/// Writes a query request with a statement's text.
pub(super) fn write_query(sql: &(impl AsRef<[u8]> + ?Sized), out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.clear();
    message(b'Q', out, |out| write_text(sql.as_ref(), out))
}

/// Writes a request that prepares and describes statement `number`.
pub(super) fn write_prepare(number: usize, sql: &str, out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.clear();
    message(b'P', out, |out| {
        write_name(number, out);
        write_text(sql.as_bytes(), out);
        // The server infers the types of the parameters.
        out.extend_from_slice(&[0, 0]);
    })?;
    message(b'D', out, |out| {
        out.push(b'S');
        write_name(number, out);
    })?;
    message(b'S', out, |_| {})
}

/// Writes a request that executes statement `number`.
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
    // The unnamed portal, all its rows.
    out.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
    message(b'S', out, |_| {})
}

/// Writes a request that closes statement `number`.
#[cfg(feature = "lua")]
pub(super) fn write_close(number: usize, out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.clear();
    message(b'C', out, |out| {
        out.push(b'S');
        write_name(number, out);
    })?;
    message(b'S', out, |_| {})
}

/// Type of the message that completes the answer to a request: the server sends it before it is ready again.
pub(super) fn completion_of(request: &[u8]) -> u8 {
    match request.first() {
        // Prepare, and close.
        Some(b'P') => b'1',
        Some(b'C') => b'3',
        _ => COMMAND_COMPLETE,
    }
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
    // A write to memory cannot fail.
    let _ = write!(out, "s{number}\0");
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(0);
}

fn write_value(parameter: Parameter<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    // A write to memory cannot fail.
    let _ = match parameter {
        Parameter::Null => return out[at..].copy_from_slice(&(-1i32).to_be_bytes()),
        Parameter::Integer(n) => write!(out, "{n}"),
        Parameter::Real(x) => write!(out, "{x}"),
        Parameter::Text(text) => out.write_all(text.as_bytes()),
    };
    let length = out.len() - at - 4;
    // A parameter that is too long makes the whole message too long.
    let _ = write_length(at, length, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_completion_of_its_kind() {
        let mut out = Vec::new();
        write_prepare(1, "SELECT 1", &mut out).unwrap();
        assert_eq!(completion_of(&out), b'1');
        write_execute(1, &[], &mut out).unwrap();
        assert_eq!(completion_of(&out), b'C');
        write_query("SELECT 1", &mut out).unwrap();
        assert_eq!(completion_of(&out), b'C');
    }

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
}
