//! Requests of the MySQL protocol that events send. Nothing is allocated once the buffers are large enough.
//!
//! # Source
//!
//! <https://mariadb.com/kb/en/clientserver-protocol/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>

use super::answer::Column;
use super::format::{HEADER_BYTES, PAYLOAD_MAX, kind};
use crate::workload::statement::Parameter;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
#[cfg(feature = "lua")]
const COM_STMT_CLOSE: u8 = 0x19;

/// A statement prepared on the server.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) id: u32,
    /// Columns of its answers; a server may omit them if it sent them before.
    pub(super) columns: Vec<Column>,
    /// Types of the parameters as last sent: the server stores them.
    bound: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(id: u32, columns: Vec<Column>) -> Self {
        Self { id, columns, bound: Vec::new() }
    }

    /// Forgets the types that were sent: after an error, the server may not have stored them.
    pub(super) fn forget_types(&mut self) {
        self.bound.clear();
    }
}

/// Writes a query request with a statement's text.
pub(super) fn write_query(sql: &(impl AsRef<[u8]> + ?Sized), out: &mut Vec<u8>) {
    begin(COM_QUERY, out);
    out.extend_from_slice(sql.as_ref());
    finish(out);
}

/// Writes a prepare request.
pub(super) fn write_prepare(sql: &str, out: &mut Vec<u8>) {
    begin(COM_STMT_PREPARE, out);
    out.extend_from_slice(sql.as_bytes());
    finish(out);
}

/// Writes a request that closes a prepared statement; the server does not answer.
#[cfg(feature = "lua")]
pub(super) fn write_close(id: u32, out: &mut Vec<u8>) {
    begin(COM_STMT_CLOSE, out);
    out.extend_from_slice(&id.to_le_bytes());
    finish(out);
}

/// Writes an execute request for a prepared statement.
pub(super) fn write_execute(prepared: &mut Prepared, parameters: &[Parameter<'_>], out: &mut Vec<u8>) {
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
    finish(out);
}

fn begin(command: u8, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    out.push(command);
}

/// Writes the payload's length; splits a payload that is too long for one packet.
fn finish(out: &mut Vec<u8>) {
    let length = out.len() - HEADER_BYTES;
    if length < PAYLOAD_MAX {
        return write_header(&mut out[..HEADER_BYTES], length, 0);
    }
    let payload = out.split_off(HEADER_BYTES);
    out.clear();
    let mut pieces = payload.chunks(PAYLOAD_MAX);
    // A full last packet is followed by an empty one.
    for number in 0..=length / PAYLOAD_MAX {
        let piece = pieces.next().unwrap_or_default();
        let from = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        write_header(&mut out[from..], piece.len(), number);
        out.extend_from_slice(piece);
    }
}

/// - `number`: sequence number of the packet, which wraps after 255.
pub(super) fn write_header(header: &mut [u8], length: usize, number: usize) {
    header[..3].copy_from_slice(&length.to_le_bytes()[..3]);
    header[3] = number.to_le_bytes()[0];
}

/// Writes the types, unless the server has them already; a NULL matches any type.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sent_once_and_again_when_they_change() {
        let mut prepared = Prepared::new(7, Vec::new());
        let mut out = Vec::new();
        write_execute(&mut prepared, &[Parameter::Integer(1), Parameter::Text("ab")], &mut out);
        let head = [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(out[4..14], head);
        assert_eq!(out[14..], [0, 1, 8, 0, 253, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(out[..4], [27, 0, 0, 0]);
        write_execute(&mut prepared, &[Parameter::Integer(1), Parameter::Null], &mut out);
        assert_eq!(out[14..], [2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        write_execute(&mut prepared, &[Parameter::Real(0.0), Parameter::Null], &mut out);
        assert_eq!(out[14..20], [2, 1, 5, 0, 6, 0]);
    }

    #[test]
    fn a_request_that_is_too_long_for_a_packet_goes_on_in_others() {
        for (bytes, packets) in
            [(PAYLOAD_MAX - 1, 1), (PAYLOAD_MAX, 2), (PAYLOAD_MAX + 1, 2), (2 * PAYLOAD_MAX, 3)]
        {
            let sql = "x".repeat(bytes - 1);
            let mut out = Vec::new();
            write_query(&sql, &mut out);
            let (mut rest, mut joined, mut count) = (&out[..], Vec::new(), 0);
            while let [a, b, c, number, after @ ..] = rest {
                assert_eq!(usize::from(*number), count);
                let length = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
                joined.extend_from_slice(&after[..length]);
                (rest, count) = (&after[length..], count + 1);
            }
            assert_eq!((count, joined.len(), joined[0]), (packets, bytes, COM_QUERY));
        }
    }
}
