//! A key-value protocol, apart from its connections: the trait that each protocol implements, and functions
//! that need only that trait.

use std::fmt::Debug;

use crate::connection::{Failure, FailureClass};
use crate::net::{Parsed, Talk, too_long_text};
use crate::workload::kv::{GET, Kv};

/// Encoder and decoder of a key-value protocol. Pure: bytes in, bytes out.
pub(crate) trait Codec: Clone + Debug + Send + Sync + 'static {
    /// Whether servers of this kind process several pipelined requests at once over TLS.
    fn takes_batches_in_tls(&self) -> bool {
        true
    }
    fn write_greeting(&self, out: &mut Vec<u8>);
    /// Number of answers to a greeting.
    fn greeting_answers(&self) -> usize;
    fn write_get(&self, key: u64, out: &mut Vec<u8>);
    /// Writes one request for several keys.
    fn write_get_many(&self, keys: &[u64], out: &mut Vec<u8>);
    /// Writes the part of a set request before the value. A line end follows the value.
    ///
    /// - `ttl_s`: time to live in seconds; 0: unlimited.
    fn write_set_head(&self, key: u64, bytes: usize, ttl_s: u64, out: &mut Vec<u8>);
    /// Writes the part of a set request after the value and its line end.
    fn write_set_tail(&self, _ttl_s: u64, _out: &mut Vec<u8>) {}
    fn write_delete(&self, key: u64, out: &mut Vec<u8>);
    /// Writes the request for the counters that [`Self::read_counters`] parses.
    fn write_counters(&self, out: &mut Vec<u8>);
    /// Reads one answer.
    ///
    /// - `bytes_max`: a longer value is rejected without waiting for it.
    fn read<'a>(&self, input: &'a [u8], bytes_max: usize) -> Read<'a>;
    /// Whether an answer that was read as [`Read::Done`] says that a value was stored.
    fn is_stored(&self, answer: &[u8]) -> bool;
    /// Reads the answer to [`Self::write_get_many`] of `keys` keys. Returns [`Read::Done`] when the answer is
    /// complete. Passes each value read so far to `found`, also while the answer is incomplete.
    fn read_many<'a>(
        &self,
        input: &'a [u8],
        bytes_max: usize,
        keys: usize,
        found: &mut dyn FnMut(Named<'_>, &[u8]),
    ) -> Read<'a>;
    /// Reads the answer to [`Self::write_counters`]: the server's version and evictions. `None`: the answer
    /// is incomplete.
    fn read_counters(&self, input: &[u8]) -> Option<(usize, Counters)>;
}

/// An answer, independent of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    /// Incomplete answer.
    More,
    /// Value of a get.
    Value {
        taken: usize,
        /// Key, if the server names it.
        key: Option<&'a [u8]>,
        value: &'a [u8],
    },
    /// The key does not exist.
    Nothing { taken: usize },
    /// Success without a value.
    Done { taken: usize },
    /// The server refuses the request; the connection remains usable.
    Refused { taken: usize, class: FailureClass, text: String },
    /// Not an answer of this protocol.
    Garbage,
    /// Announced length above the limit.
    TooLong { bytes: usize },
}

/// Identifies the key of a value in an answer to several keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    Key(&'a [u8]),
    /// Index among the requested keys.
    Endpoint(usize),
}

/// Version and counters that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) version: Option<String>,
    pub(crate) evictions: Option<u64>,
}

pub(super) fn too_long(bytes: usize, bytes_max: usize) -> Parsed {
    // The limit of a nested answer is lower than that of a value.
    let text = if bytes <= bytes_max {
        format!("the server announced {bytes} bytes in many parts, which is not a valid answer")
    } else {
        too_long_text(bytes, bytes_max)
    };
    Parsed::failure(0, FailureClass::Connection, text)
}

pub(super) fn write_set<C: Codec>(codec: &C, kv: &Kv, key: u64, version: u64, out: &mut Vec<u8>) {
    let ttl_s = kv.ttl_s();
    codec.write_set_head(key, kv.bytes_of(key), ttl_s, out);
    kv.write_value(key, version, out);
    out.extend_from_slice(b"\r\n");
    codec.write_set_tail(ttl_s, out);
}

/// Reads the server's version and counters, outside of events.
pub(super) fn counters<C: Codec>(codec: &C, talk: &mut Talk) -> Result<Counters, Failure> {
    let mut out = Vec::new();
    codec.write_counters(&mut out);
    let mut counters = Counters::default();
    talk.ask_aside(&out, |input| match codec.read_counters(input) {
        Some((taken, found)) => {
            counters = found;
            Parsed::well(taken, GET, None)
        }
        None if input.len() > COUNTERS_BYTES_MAX => Parsed::garbage(input),
        None => Parsed::MORE,
    })?;
    Ok(counters)
}

/// Limit of the answer with the counters; longer than any server's.
const COUNTERS_BYTES_MAX: usize = 1 << 20;
