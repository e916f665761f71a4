//! Login, protocol version and database of a connection, and the Redis commands of the key-value workload.

use std::io::Write as _;

use super::resp::{End, LINE_MAX, NESTED_BYTES_MAX, class_of, command, end_of, first_line, number};
use crate::driver::cache::codec::{Codec, Counters, Named, Read};
use crate::workload::kv::{KEY_BYTES, write_key, write_number};

/// Login, database and protocol version of a connection.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: u32,
    pub(super) is_resp3: bool,
}

impl std::fmt::Debug for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Words {{ db: {}, is_resp3: {} }}", self.db, self.is_resp3)
    }
}

impl Dialect {
    pub(super) fn write_key_after(head: &str, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(head.as_bytes());
        out.push(b'$');
        write_number(KEY_BYTES, out);
        out.extend_from_slice(b"\r\n");
        write_key(key, out);
        out.extend_from_slice(b"\r\n");
    }
}

impl Codec for Dialect {
    fn write_greeting(&self, out: &mut Vec<u8>) {
        if let Some(password) = &self.password {
            match &self.user {
                Some(user) => command(&["AUTH", user, password], out),
                None => command(&["AUTH", password], out),
            }
        }
        if self.is_resp3 {
            command(&["HELLO", "3"], out);
        }
        if self.db != 0 {
            command(&["SELECT", &self.db.to_string()], out);
        }
        // A connection counts once the server answers on it, not once the kernel accepts it.
        command(&["PING"], out);
    }

    fn greeting_answers(&self) -> usize {
        usize::from(self.password.is_some()) + usize::from(self.is_resp3) + usize::from(self.db != 0) + 1
    }

    fn write_get(&self, key: u64, out: &mut Vec<u8>) {
        Self::write_key_after("*2\r\n$3\r\nGET\r\n", key, out);
    }

    fn write_get_many(&self, keys: &[u64], out: &mut Vec<u8>) {
        out.push(b'*');
        write_number(1 + keys.len(), out);
        out.extend_from_slice(b"\r\n$4\r\nMGET\r\n");
        for key in keys {
            Self::write_key_after("", *key, out);
        }
    }

    fn write_set_head(&self, key: u64, bytes: usize, ttl_s: u64, out: &mut Vec<u8>) {
        let head = if ttl_s > 0 { "*5\r\n$3\r\nSET\r\n" } else { "*3\r\n$3\r\nSET\r\n" };
        Self::write_key_after(head, key, out);
        out.push(b'$');
        write_number(bytes, out);
        out.extend_from_slice(b"\r\n");
    }

    fn write_set_tail(&self, ttl_s: u64, out: &mut Vec<u8>) {
        if ttl_s > 0 {
            let digits = ttl_s.to_string();
            // A write into memory cannot fail.
            let _ = write!(out, "$2\r\nEX\r\n${}\r\n{digits}\r\n", digits.len());
        }
    }

    fn write_delete(&self, key: u64, out: &mut Vec<u8>) {
        Self::write_key_after("*2\r\n$3\r\nDEL\r\n", key, out);
    }

    fn write_counters(&self, out: &mut Vec<u8>) {
        command(&["INFO"], out);
    }

    fn read<'a>(&self, input: &'a [u8], bytes_max: usize) -> Read<'a> {
        let Some((kind, line, taken)) = first_line(input) else {
            return if input.len() < LINE_MAX { Read::More } else { Read::Garbage };
        };
        match (kind, line) {
            (b':', b"0") | (b'_', b"") | (b'$', b"-1") => Read::Nothing { taken },
            (b'+' | b':', _) => Read::Done { taken },
            (b'$', digits) => match number(digits) {
                Some(bytes) if bytes > bytes_max => Read::TooLong { bytes },
                Some(bytes) => match input.get(taken..taken + bytes + 2) {
                    None => Read::More,
                    Some(found) if found.ends_with(b"\r\n") => {
                        Read::Value { taken: taken + bytes + 2, key: None, value: &found[..bytes] }
                    }
                    Some(_) => Read::Garbage,
                },
                None => Read::Garbage,
            },
            (b'-', text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Read::Refused { taken, class: class_of(&text), text }
            }
            // The answer to HELLO: a map, or in an old server an array.
            (b'%' | b'*', _) => match end_of(input, bytes_max.min(NESTED_BYTES_MAX)) {
                End::At(taken) => Read::Done { taken },
                End::More => Read::More,
                End::TooLong(bytes) => Read::TooLong { bytes },
                End::Nowhere => Read::Garbage,
            },
            _ => Read::Garbage,
        }
    }

    fn is_stored(&self, answer: &[u8]) -> bool {
        answer.trim_ascii_end() == b"+OK"
    }

    fn read_many<'a>(
        &self,
        input: &'a [u8],
        bytes_max: usize,
        keys: usize,
        found: &mut dyn FnMut(Named<'_>, &[u8]),
    ) -> Read<'a> {
        let Some((kind, line, mut at)) = first_line(input) else {
            return if input.len() < LINE_MAX { Read::More } else { Read::Garbage };
        };
        if kind != b'*' {
            return self.read(input, bytes_max);
        }
        if number(line) != Some(keys) {
            return Read::Garbage;
        }
        for place in 0..keys {
            let rest = &input[at..];
            let Some((kind, line, taken)) = first_line(rest) else {
                return if rest.len() < LINE_MAX { Read::More } else { Read::Garbage };
            };
            at += taken;
            let bytes = match (kind, line) {
                (b'_', b"") | (b'$', b"-1") => continue,
                (b'$', digits) => number(digits),
                _ => None,
            };
            let Some(bytes) = bytes else { return Read::Garbage };
            if at + bytes > bytes_max {
                return Read::TooLong { bytes: at + bytes };
            }
            match input.get(at..at + bytes + 2) {
                None => return Read::More,
                Some(value) if value.ends_with(b"\r\n") => found(Named::Endpoint(place), &value[..bytes]),
                Some(_) => return Read::Garbage,
            }
            at += bytes + 2;
        }
        Read::Done { taken: at }
    }

    fn read_counters(&self, input: &[u8]) -> Option<(usize, Counters)> {
        let (kind, line, start) = first_line(input)?;
        let bytes = match kind {
            // `=15\r\ntxt:...` is RESP3's text with a format before it.
            b'$' | b'=' => number(line)?,
            // The answer has no version; it remains unknown.
            _ => return Some((start, Counters::default())),
        };
        let text = input.get(start..start + bytes)?;
        input.get(start + bytes..start + bytes + 2)?;
        let text = String::from_utf8_lossy(text);
        let found = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(n, _)| *n == name).map(|(_, value)| value.trim().to_owned())
        };
        let version = found("valkey_version").or_else(|| found("redis_version"));
        let evictions = found("evicted_keys").and_then(|n| n.parse().ok());
        Some((start + bytes + 2, Counters { version, evictions }))
    }
}
