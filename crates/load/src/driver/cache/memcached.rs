//! `memcached://host:port` and `memcached+unix:PATH`: the key-value workload on memcached, in its text or its
//! meta protocol.
//!
//! # Source
//!
//! `doc/protocol.txt` of memcached 1.6.

use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::target::Target;

use super::caching::Caching;
use super::codec::{Codec, Counters, Named, Read};
use crate::connection::{Failure, FailureClass};
use crate::driver::Net;
use crate::driver::{Driver, Scheme};
use crate::net::address::{ServerAddress, decoded};
use crate::net::security::Security;
use crate::net::{Endpoint, line};
use crate::workload::kv::{write_key, write_number};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "memcached",
    form: "memcached://host:port[?protocol=text|meta&tls=...]",
    workloads: &[Workload::Kv],
    check: |target| parts(target).map(drop),
    address,
    open,
};

/// The same protocol over TLS.
pub(crate) const TLS_SCHEME: Scheme =
    Scheme { name: "memcaches", form: "memcaches://host:port[?protocol=text|meta&ca=FILE]", ..SCHEME };

pub(crate) const UNIX_SCHEME: Scheme = Scheme {
    name: "memcached+unix",
    form: "memcached+unix:PATH[?protocol=text|meta]",
    workloads: &[Workload::Kv],
    check: |target| parts(target).map(drop),
    address,
    open,
};

const PORT: u16 = 11_211;

/// Length of the longest accepted line of an answer.
const LINE_MAX: usize = 2048;

/// Protocol of memcached: text or meta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Text,
    Meta,
}

struct Parts {
    address: ServerAddress,
    words: Dialect,
    security: Security,
}

fn parts(target: &Target) -> Result<Parts, String> {
    let rest = target.expose().split_once(':').map_or("", |(_, rest)| rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut words, mut security) = (Dialect::Text, Security::of_scheme(target.scheme() == TLS_SCHEME.name));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("protocol", "text")) => words = Dialect::Text,
            Some(("protocol", "meta")) => words = Dialect::Meta,
            Some((name, value)) if security.take(name, &decoded(value)?)? => {}
            _ => {
                return Err(format!(
                    "unknown option `{pair}`: expected `protocol=text` or `protocol=meta`, {}",
                    Security::PARAMETERS
                ));
            }
        }
    }
    security.check()?;
    let address = match (target.scheme() == UNIX_SCHEME.name, place.strip_prefix("//")) {
        (true, _) if place.is_empty() => {
            return Err("the socket after the colon is missing: write `memcached+unix:/run/memcached.sock`"
                .to_owned());
        }
        (true, _) => ServerAddress::Unix(place.into()),
        (false, Some(host)) => ServerAddress::tcp(host.trim_end_matches('/'), PORT)?,
        (false, None) => return Err("write `memcached://host:port`".to_owned()),
    };
    Ok(Parts { address, words, security })
}

/// Address of the server.
fn address(settings: &LoadSettings) -> Option<ServerAddress> {
    parts(&settings.target).ok().map(|parts| parts.address)
}

fn open(settings: &LoadSettings) -> Result<Arc<dyn Driver>, Failure> {
    let wrong = |text| Failure::new(FailureClass::Configuration, text);
    let parts = parts(&settings.target).map_err(wrong)?;
    let tls = parts.security.plan(parts.address.host(), &[]).map_err(wrong)?;
    if parts.words == Dialect::Meta && settings.kv.multi_get > 1 {
        return Err(wrong(
            "--multi-get needs protocol=text: the meta protocol reads one key at a time".to_owned(),
        ));
    }
    if tls.is_some() && settings.kv.pipeline > 1 {
        let text = "--pipeline cannot be combined with TLS on memcached, which may leave a request unread until \
                    the next one arrives";
        return Err(wrong(text.to_owned()));
    }
    let place = Endpoint::of(parts.address)?;
    Ok(Arc::new(Net(Arc::new(Caching::new(parts.words, place, tls, "memcached", settings)))))
}

/// Dialogue without a connection, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn speaker(
    target: &Target,
    kv: Arc<crate::workload::kv::Kv>,
    bytes_max: u64,
) -> Box<dyn crate::net::Dialogue> {
    let words = parts(target).expect("a good target").words;
    super::caching::speaker(words, kv, bytes_max)
}

impl Codec for Dialect {
    /// False: memcached 1.6.18 leaves requests that TLS has decrypted but that it has not read until the next
    /// byte arrives.
    fn takes_batches_in_tls(&self) -> bool {
        false
    }

    /// Asks for the version: a connection counts once the server answers on it, not once the kernel accepts
    /// it.
    fn write_greeting(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"version\r\n");
    }

    fn greeting_answers(&self) -> usize {
        1
    }

    fn write_get(&self, key: u64, out: &mut Vec<u8>) {
        match self {
            Self::Text => {
                out.extend_from_slice(b"get ");
                write_key(key, out);
                out.extend_from_slice(b"\r\n");
            }
            Self::Meta => {
                out.extend_from_slice(b"mg ");
                write_key(key, out);
                out.extend_from_slice(b" v k\r\n");
            }
        }
    }

    fn write_get_many(&self, keys: &[u64], out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for key in keys {
            out.push(b' ');
            write_key(*key, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_set_head(&self, key: u64, bytes: usize, ttl_s: u64, out: &mut Vec<u8>) {
        let ttl_s = usize::try_from(ttl_s).unwrap_or(usize::MAX);
        out.extend_from_slice(match self {
            Self::Text => b"set ",
            Self::Meta => b"ms ",
        });
        write_key(key, out);
        if *self == Self::Text {
            out.extend_from_slice(b" 0 ");
            write_number(ttl_s, out);
        }
        out.push(b' ');
        write_number(bytes, out);
        if *self == Self::Meta && ttl_s > 0 {
            out.extend_from_slice(b" T");
            write_number(ttl_s, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_delete(&self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Text => b"delete ",
            Self::Meta => b"md ",
        });
        write_key(key, out);
        out.extend_from_slice(b"\r\n");
    }

    fn write_counters(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"stats\r\n");
    }

    fn read<'a>(&self, input: &'a [u8], bytes_max: usize) -> Read<'a> {
        let Some((line, taken)) = line(&input[..input.len().min(LINE_MAX)]) else {
            return if input.len() < LINE_MAX { Read::More } else { Read::Garbage };
        };
        let mut words = line.split(|b| *b == b' ');
        let refused = |class| {
            let text = String::from_utf8_lossy(line).into_owned();
            Read::Refused { taken, class, text }
        };
        match words.next().unwrap_or_default() {
            b"END" | b"EN" | b"NOT_FOUND" | b"NF" => Read::Nothing { taken },
            b"STORED" | b"HD" | b"DELETED" | b"VERSION" => Read::Done { taken },
            b"VALUE" => {
                let (key, _flags, bytes) = (words.next(), words.next(), words.next().and_then(number));
                bytes.map_or(Read::Garbage, |bytes| {
                    if bytes > bytes_max {
                        Read::TooLong { bytes }
                    } else {
                        value(input, taken, bytes, b"\r\nEND\r\n", key)
                    }
                })
            }
            b"VA" => {
                let bytes = words.next().and_then(number);
                let key = words.find_map(|flag| flag.strip_prefix(b"k"));
                bytes.map_or(Read::Garbage, |bytes| {
                    if bytes > bytes_max {
                        Read::TooLong { bytes }
                    } else {
                        value(input, taken, bytes, b"\r\n", key)
                    }
                })
            }
            b"NOT_STORED" | b"NS" | b"EXISTS" | b"EX" | b"SERVER_ERROR" | b"CLIENT_ERROR" | b"ERROR" => {
                refused(FailureClass::Application)
            }
            _ => Read::Garbage,
        }
    }

    fn is_stored(&self, answer: &[u8]) -> bool {
        match self {
            Self::Text => answer.trim_ascii_end() == b"STORED",
            // Flags may follow.
            Self::Meta => answer.starts_with(b"HD"),
        }
    }

    fn read_many<'a>(
        &self,
        input: &'a [u8],
        bytes_max: usize,
        keys: usize,
        found: &mut dyn FnMut(Named<'_>, &[u8]),
    ) -> Read<'a> {
        let mut at = 0;
        for _ in 0..=keys {
            let rest = &input[at..];
            let Some((line, taken)) = line(&rest[..rest.len().min(LINE_MAX)]) else {
                return if rest.len() < LINE_MAX { Read::More } else { Read::Garbage };
            };
            let mut words = line.split(|b| *b == b' ');
            match words.next() {
                Some(b"END") => return Read::Done { taken: at + taken },
                Some(b"VALUE") => {}
                _ if at == 0 => return self.read(input, bytes_max),
                _ => return Read::Garbage,
            }
            let (key, _flags, bytes) = (words.next(), words.next(), words.next().and_then(number));
            let (Some(key), Some(bytes)) = (key, bytes) else { return Read::Garbage };
            let end = at + taken + bytes;
            if end > bytes_max {
                return Read::TooLong { bytes: end };
            }
            match input.get(at + taken..end + 2) {
                None => return Read::More,
                Some(value) if value.ends_with(b"\r\n") => found(Named::Key(key), &value[..bytes]),
                Some(_) => return Read::Garbage,
            }
            at = end + 2;
        }
        // More values than requested keys.
        Read::Garbage
    }

    fn read_counters(&self, input: &[u8]) -> Option<(usize, Counters)> {
        const END: &[u8] = b"END\r\n";
        if !input.ends_with(END) {
            return None;
        }
        let text = String::from_utf8_lossy(input);
        let found = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
            lines.find(|(n, _)| *n == name).map(|(_, value)| value.trim().to_owned())
        };
        let evictions = found("evictions").and_then(|n| n.parse().ok());
        Some((input.len(), Counters { version: found("version"), evictions }))
    }
}

/// Reads a value of `bytes` bytes after a line that ends at `start`; `after` must follow it.
fn value<'a>(input: &'a [u8], start: usize, bytes: usize, after: &[u8], key: Option<&'a [u8]>) -> Read<'a> {
    let end = start + bytes;
    match input.get(start..end + after.len()) {
        None => Read::More,
        Some(found) if found[bytes..] == *after => {
            Read::Value { taken: end + after.len(), key, value: &found[..bytes] }
        }
        Some(_) => Read::Garbage,
    }
}

/// Parses a length; larger than 32 bits is invalid, since all our values are shorter.
fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_protocol_says() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&|o| Dialect::Text.write_get(7, o)), "get bakeoff:0000000007\r\n");
        assert_eq!(written(&|o| Dialect::Meta.write_get(7, o)), "mg bakeoff:0000000007 v k\r\n");
        assert_eq!(
            written(&|o| Dialect::Text.write_set_head(7, 5, 0, o)),
            "set bakeoff:0000000007 0 0 5\r\n"
        );
        assert_eq!(written(&|o| Dialect::Meta.write_set_head(7, 5, 0, o)), "ms bakeoff:0000000007 5\r\n");
        assert_eq!(
            written(&|o| Dialect::Text.write_set_head(7, 5, 60, o)),
            "set bakeoff:0000000007 0 60 5\r\n"
        );
        assert_eq!(
            written(&|o| Dialect::Meta.write_set_head(7, 5, 60, o)),
            "ms bakeoff:0000000007 5 T60\r\n"
        );
        assert_eq!(written(&|o| Dialect::Text.write_delete(7, o)), "delete bakeoff:0000000007\r\n");
    }

    #[test]
    fn answers_are_read_whole_or_not_yet() {
        let whole: [(Dialect, &[u8], Read<'_>); 6] = [
            (
                Dialect::Text,
                b"VALUE k 0 5\r\nE\r\nND\r\nEND\r\n",
                Read::Value { taken: 25, key: Some(b"k"), value: b"E\r\nND" },
            ),
            (
                Dialect::Meta,
                b"VA 3 kfoo\r\nabc\r\n",
                Read::Value { taken: 16, key: Some(b"foo"), value: b"abc" },
            ),
            (Dialect::Text, b"END\r\n", Read::Nothing { taken: 5 }),
            (Dialect::Meta, b"EN\r\n", Read::Nothing { taken: 4 }),
            (Dialect::Text, b"STORED\r\n", Read::Done { taken: 8 }),
            (Dialect::Meta, b"HD\r\n", Read::Done { taken: 4 }),
        ];
        for (words, input, expected) in whole {
            assert_eq!(words.read(input, 1 << 20), expected);
            for cut in 0..input.len() {
                assert_eq!(words.read(&input[..cut], 1 << 20), Read::More, "{cut} bytes of {input:?}");
            }
        }
    }

    #[test]
    fn values_of_several_keys_are_read_whole_or_not_yet() {
        let read = |input: &[u8], keys| {
            let mut found = Vec::new();
            let mut keep = |named: Named<'_>, value: &[u8]| match named {
                Named::Key(key) => found.push((key.to_vec(), value.to_vec())),
                Named::Endpoint(_) => panic!("memcached names keys"),
            };
            let taken = match Dialect::Text.read_many(input, 1 << 20, keys, &mut keep) {
                Read::Done { taken } => Some(taken),
                Read::More => None,
                other => panic!("{other:?}"),
            };
            (taken, found)
        };
        let input = b"VALUE a 0 5\r\nE\r\nND\r\nVALUE c 0 0\r\n\r\nEND\r\n";
        let both = vec![(b"a".to_vec(), b"E\r\nND".to_vec()), (b"c".to_vec(), Vec::new())];
        assert_eq!(read(input, 3), (Some(input.len()), both));
        assert_eq!(read(b"END\r\n", 3), (Some(5), Vec::new()));
        for cut in 0..input.len() {
            assert_eq!(read(&input[..cut], 3).0, None, "{cut} bytes");
        }
        let many = Dialect::Text.read_many(input, 1 << 20, 1, &mut |_, _| {});
        assert_eq!(many, Read::Garbage, "two values of one key");
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        for input in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"VALUE k 0 x\r\n",
            b"VALUE k 0 1\r\nabcdefghij\r\n",
            b"\r\n",
        ] {
            assert_eq!(Dialect::Text.read(input, 1 << 20), Read::Garbage, "{input:?}");
        }
        assert_eq!(Dialect::Text.read(&[b'x'; LINE_MAX], 1 << 20), Read::Garbage);
        let refused = Dialect::Text.read(b"SERVER_ERROR out of memory storing object\r\n", 1 << 20);
        assert!(
            matches!(refused, Read::Refused { taken: 43, class: FailureClass::Application, .. }),
            "{refused:?}"
        );
    }

    #[test]
    fn a_value_of_more_than_is_accepted_is_not_waited_for() {
        for (words, input) in
            [(Dialect::Text, &b"VALUE k 0 4294967295\r\n"[..]), (Dialect::Meta, b"VA 4294967295 kfoo\r\n")]
        {
            assert_eq!(words.read(input, 1 << 20), Read::TooLong { bytes: 4_294_967_295 });
        }
        assert_eq!(Dialect::Text.read(b"VALUE k 0 4294967296\r\n", 1 << 20), Read::Garbage);
    }

    #[test]
    fn evictions_are_found_among_the_counters() {
        let input = b"STAT pid 1\r\nSTAT version 1.6.18\r\nSTAT evictions 12\r\nEND\r\n";
        let (taken, counters) = Dialect::Text.read_counters(input).unwrap();
        assert_eq!(taken, input.len());
        assert_eq!(counters, Counters { version: Some("1.6.18".into()), evictions: Some(12) });
        assert_eq!(Dialect::Text.read_counters(&input[..20]), None);
    }
}
