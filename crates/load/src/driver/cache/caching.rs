//! The key-value workload on a cache: code shared by memcached and Redis.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use record::load::{LoadSettings, PreparePolicy};
use record::missing::Missing;
use record::verdict::Check;

use crate::connection::{Answer, Keys};
use crate::connection::{Failure, FailureClass, OperationShare};
use crate::control::progress::Event;
use crate::driver::Exchange;
use crate::driver::Look;
use crate::error::LoadError;
use crate::net::held;
use crate::net::tls::Plan;
use crate::net::tls::Secured;
use crate::net::too_long_text;
use crate::net::{Dialogue, Endpoint, Parsed, Talk};
use crate::schedule::random::Random;
use crate::workload::kv::{self, GET, HIT, Kv, MISS, OUTCOMES, Operation, SET, STORED};
use crate::workload::tables::data_set_error;
use crate::workload::tables::{Cache, Cleaned, Prepared};

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

/// Dialogue of one connection.
struct Speaker<C> {
    codec: C,
    kv: Arc<Kv>,
    /// Unanswered requests in the order of sending: request number and operation.
    deeds: VecDeque<(usize, Operation)>,
    /// Keys of the unanswered requests for several keys, in the order of sending.
    keys: VecDeque<u64>,
    /// Buffer for the keys of one such request.
    room: Vec<u64>,
    /// Number of the next request.
    asks: usize,
    /// Number of the last request that was answered.
    answered: usize,
    greetings_left: usize,
    bytes_max: usize,
}

/// A cache as the target of a load.
pub(crate) struct Caching<C> {
    pub(crate) codec: C,
    pub(crate) place: Endpoint,
    pub(crate) kv: Arc<Kv>,
    /// Name of the server software: `memcached`, `Redis`.
    pub(crate) name: &'static str,
    /// Length of the longest accepted value.
    pub(crate) bytes_max: usize,
    pub(crate) tls: Option<Plan>,
}

impl<C: Codec> Caching<C> {
    pub(crate) fn new(
        codec: C,
        place: Endpoint,
        tls: Option<Plan>,
        name: &'static str,
        settings: &LoadSettings,
    ) -> Self {
        let kv = Arc::new(Kv::new(&settings.kv, settings.seed, settings.verify));
        let bytes_max = usize::try_from(settings.answer_bytes_max).unwrap_or(usize::MAX);
        held::allow(bytes_max);
        Self { codec, place, kv, name, bytes_max, tls }
    }
}

impl<C: Codec> Exchange for Caching<C> {
    fn endpoint(&self) -> &Endpoint {
        &self.place
    }

    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        let (codec, kv) = (self.codec.clone(), Arc::clone(&self.kv));
        let speaker: Box<dyn Dialogue> = Box::new(Speaker::new(codec, kv, self.bytes_max));
        match &self.tls {
            None => Ok(speaker),
            Some(plan) => Ok(Box::new(Secured::new(plan, Box::new(move |_| Ok(speaker)))?)),
        }
    }

    fn operations(&self) -> Vec<OperationShare> {
        let get_ratio = self.kv.settings.get_ratio;
        let share = |name: &'static str, ratio| OperationShare {
            name: name.into(),
            per_event: Some(ratio),
            per_event_max: 1,
        };
        vec![share("get", get_ratio), share("set", 1.0 - get_ratio)]
    }

    fn outcomes(&self) -> &'static [&'static str] {
        &OUTCOMES
    }

    fn look(&self, talk: &mut Talk) -> Result<Look, Failure> {
        let version = counters(&self.codec, talk)?.version;
        let version = version.map(|version| format!("{} {version}{}", self.name, talk.spoken_version()));
        let version = version.ok_or_else(|| Missing::because("the server does not report its version"));
        Ok(Look { version, store: None })
    }

    fn cache(&self, talk: Talk) -> Option<Box<dyn Cache>> {
        let (codec, kv, bytes_max) = (self.codec.clone(), Arc::clone(&self.kv), self.bytes_max);
        let is_one_by_one = self.tls.is_some() && !codec.takes_batches_in_tls();
        let batch = if is_one_by_one { 1 } else { BATCH };
        Some(Box::new(Filler { codec, kv, talk, bytes_max, batch }))
    }

    fn closes_idle(&self) -> bool {
        false
    }
}

/// Dialogue without a connection, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn speaker<C: Codec>(codec: C, kv: Arc<Kv>, bytes_max: u64) -> Box<dyn Dialogue> {
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    Box::new(Speaker::new(codec, kv, bytes_max))
}

impl<C: Codec> Speaker<C> {
    fn new(codec: C, kv: Arc<Kv>, bytes_max: usize) -> Self {
        let deeds = VecDeque::with_capacity(kv.settings.pipeline as usize);
        Self {
            codec,
            kv,
            deeds,
            keys: VecDeque::new(),
            room: Vec::new(),
            asks: 0,
            answered: 0,
            greetings_left: 0,
            bytes_max,
        }
    }

    /// Reads the answer to the oldest request.
    fn read(&self, input: &[u8]) -> Parsed {
        let Some((_, deed)) = self.deeds.front() else { return Parsed::garbage(input) };
        if *deed == Operation::GetMany {
            return self.read_many(input);
        }
        match (self.codec.read(input, self.bytes_max), *deed) {
            (Read::TooLong { bytes }, _) => too_long(bytes, self.bytes_max),
            (Read::More, _) => Parsed::MORE,
            (Read::Value { taken, key: named, value }, Operation::Get { key }) => {
                match names(named, key).and_then(|()| self.kv.check(key, value)) {
                    Ok(()) => Parsed::well(taken, GET, Some(HIT)),
                    Err(text) => Parsed::failure(taken, FailureClass::Verify, text),
                }
            }
            (Read::Nothing { taken }, Operation::Get { .. }) => Parsed::well(taken, GET, Some(MISS)),
            (Read::Done { taken }, Operation::Set { .. }) => Parsed::well(taken, SET, Some(STORED)),
            (Read::Refused { taken, class, text }, _) => Parsed::failure(taken, class, text),
            _ => Parsed::garbage(input),
        }
    }
}

impl<C: Codec> Speaker<C> {
    fn read_many(&self, input: &[u8]) -> Parsed {
        let keys = self.kv.settings.multi_get as usize;
        let read = |found: &mut dyn FnMut(Named<'_>, &[u8])| {
            self.codec.read_many(input, self.bytes_max, keys, found)
        };
        // Values are examined once, when the answer is complete.
        match read(&mut |_, _| {}) {
            Read::Done { taken } => {
                let (mut found, mut place, mut wrong) = (0, 0, None);
                read(&mut |named, value| {
                    found += 1;
                    let checked = self.place_of(named, place).and_then(|at| {
                        place = at + 1;
                        self.kv.check(self.keys[at], value)
                    });
                    wrong = wrong.take().or(checked.err());
                });
                if let Some(text) = wrong {
                    return Parsed::failure(taken, FailureClass::Verify, text);
                }
                let counts = Keys { found, missed: keys as u64 - found };
                let answer = Answer { operation: GET, outcome: None, keys: Some(counts) };
                Parsed { taken, answer: Some(Ok(answer)) }
            }
            Read::More => Parsed::MORE,
            Read::TooLong { bytes } => too_long(bytes, self.bytes_max),
            Read::Refused { taken, class, text } => Parsed::failure(taken, class, text),
            Read::Value { .. } | Read::Nothing { .. } | Read::Garbage => Parsed::garbage(input),
        }
    }

    /// Index of a value's key among the keys of the oldest request, searched from `from` on: servers answer
    /// in request order and omit absent keys.
    fn place_of(&self, named: Named<'_>, from: usize) -> Result<usize, String> {
        let keys = self.kv.settings.multi_get as usize;
        match named {
            Named::Endpoint(place) => Ok(place),
            Named::Key(name) => {
                let found = (from..keys).find(|at| kv::key_bytes(self.keys[*at]) == name);
                found.ok_or_else(|| format!("got {}, which was not requested", String::from_utf8_lossy(name)))
            }
        }
    }
}

impl<C: Codec> Dialogue for Speaker<C> {
    fn greet(&mut self, out: &mut Vec<u8>) {
        self.greetings_left = greet(&self.codec, out);
    }

    fn hear_greeting(&mut self, input: &[u8]) -> Parsed {
        hear_greeting(&self.codec, &mut self.greetings_left, input)
    }

    fn ask(&mut self, mut random: Random, out: &mut Vec<u8>) {
        let deed = self.kv.deed(&mut random);
        self.deeds.push_back((self.asks, deed));
        match deed {
            Operation::Get { key } => self.codec.write_get(key, out),
            Operation::GetMany => {
                self.room.clear();
                self.room.extend((0..self.kv.settings.multi_get).map(|_| self.kv.pick(&mut random)));
                self.keys.extend(&self.room);
                self.codec.write_get_many(&self.room, out);
            }
            Operation::Set { key, version } => write_set(&self.codec, &self.kv, key, version, out),
        }
    }

    fn hear(&mut self, input: &[u8], _: bool) -> Parsed {
        let heard = self.read(input);
        if heard.answer.is_some()
            && let Some((request, deed)) = self.deeds.pop_front()
        {
            self.answered = request;
            if deed == Operation::GetMany {
                self.keys.drain(..self.kv.settings.multi_get as usize);
            }
        }
        heard
    }

    fn turn_to(&mut self, request: usize) {
        self.asks = request;
    }

    fn answered(&self) -> usize {
        self.answered
    }
}

/// Writes the greeting of a new connection; returns the number of its answers.
pub(super) fn greet<C: Codec>(codec: &C, out: &mut Vec<u8>) -> usize {
    codec.write_greeting(out);
    codec.greeting_answers()
}

/// Reads the answers to the greeting.
///
/// - `left`: number of answers still expected.
pub(super) fn hear_greeting<C: Codec>(codec: &C, left: &mut usize, input: &[u8]) -> Parsed {
    let mut taken_all = 0;
    while *left > 0 {
        match codec.read(&input[taken_all..], GREETING_BYTES_MAX) {
            Read::More => return Parsed { taken: taken_all, answer: None },
            Read::Done { taken } | Read::Value { taken, .. } | Read::Nothing { taken } => {
                taken_all += taken;
            }
            Read::Refused { taken, class, text } => {
                // A refused login is an error in the target's settings; a server that is still loading
                // accepts connections later.
                let class = match class {
                    FailureClass::Application => FailureClass::Configuration,
                    other => other,
                };
                return Parsed::failure(taken_all + taken, class, text);
            }
            Read::TooLong { bytes } => return too_long(bytes, GREETING_BYTES_MAX),
            Read::Garbage => return Parsed::garbage(input),
        }
        *left -= 1;
    }
    Parsed::well(taken_all, GET, None)
}

/// Limit of an answer to the greeting.
const GREETING_BYTES_MAX: usize = 64 << 10;

fn too_long(bytes: usize, bytes_max: usize) -> Parsed {
    // The limit of a nested answer is lower than that of a value.
    let text = if bytes <= bytes_max {
        format!("the server announced {bytes} bytes in many parts, which is not a valid answer")
    } else {
        too_long_text(bytes, bytes_max)
    };
    Parsed::failure(0, FailureClass::Connection, text)
}

fn write_set<C: Codec>(codec: &C, kv: &Kv, key: u64, version: u64, out: &mut Vec<u8>) {
    let ttl_s = kv.ttl_s();
    codec.write_set_head(key, kv.bytes_of(key), ttl_s, out);
    kv.write_value(key, version, out);
    out.extend_from_slice(b"\r\n");
    codec.write_set_tail(ttl_s, out);
}

fn names(named: Option<&[u8]>, key: u64) -> Result<(), String> {
    match named {
        Some(named) if named != kv::key_bytes(key) => {
            Err(format!("asked for {}, got {}", kv::Shown(key), String::from_utf8_lossy(named)))
        }
        _ => Ok(()),
    }
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

/// Fills a cache and brings it to its steady state.
struct Filler<C> {
    codec: C,
    kv: Arc<Kv>,
    talk: Talk,
    bytes_max: usize,
    /// Requests sent before their answers are read.
    batch: u64,
}

/// Key that records the values with which the cache was filled; no event uses it.
const MARK: u64 = 0;
/// Requests per batch, if the server accepts batches.
const BATCH: u64 = 128;
/// Bytes that end a batch early.
const BATCH_BYTES: usize = 256 * 1024;

/// Events per window: bounds.
const WINDOW_MIN: u64 = 1_000;
const WINDOW_MAX: u64 = 20_000;
/// Number of consecutive windows that must agree.
const WINDOWS: usize = 3;
/// Largest difference between the hit ratios, and between the evictions, of windows that agree.
const APART_MAX: f64 = 0.02;
/// Number of windows after which the cache counts as not steady.
const WINDOWS_MAX: usize = 40;

/// Hits and evictions of one window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    hit_ratio: f64,
    /// Per event.
    evictions: f64,
}

impl<C: Codec> Cache for Filler<C> {
    fn ensure(
        &mut self,
        settings: &LoadSettings,
        is_stopped: &dyn Fn() -> bool,
        on_event: &dyn Fn(Event),
    ) -> Result<(Prepared, Vec<Check>), LoadError> {
        let keys = self.kv.settings.keys;
        let failed = |doing: &str, failure| data_set_error(settings, doing.to_owned(), failure);
        if settings.prepare == PreparePolicy::Never {
            return Ok((Prepared { found: 0, built: 0, rows: keys }, Vec::new()));
        }
        let is_filled = self.is_filled().map_err(|f| failed("checking the cache", f))?;
        let mut prepared = Prepared { found: 1, built: 0, rows: keys };
        if !is_filled || settings.prepare == PreparePolicy::Always {
            let filled = self.fill(is_stopped, on_event).map_err(|f| failed("filling the cache", f))?;
            if !filled {
                return Err(LoadError::Interrupted);
            }
            prepared = Prepared { found: 0, built: 1, rows: keys };
        }
        let windows = self.settle(is_stopped).map_err(|f| failed("waiting for a steady cache", f))?;
        if is_stopped() {
            return Err(LoadError::Interrupted);
        }
        Ok((prepared, vec![steady_check(&windows)]))
    }

    fn remove(&mut self, settings: &LoadSettings) -> Result<Cleaned, LoadError> {
        let codec = self.codec.clone();
        let removed = self.in_batches(self.kv.settings.keys + 1, &mut |number, out| {
            codec.write_delete(number, out);
        });
        let removed = removed.map_err(|f| data_set_error(settings, "emptying the cache".to_owned(), f))?;
        Ok(Cleaned { removed: u32::from(removed > 0) })
    }
}

impl<C: Codec> Filler<C> {
    /// Whether the cache was filled with these values earlier; some may have been evicted since.
    fn is_filled(&mut self) -> Result<bool, Failure> {
        // Values with a time to live may have expired, even if the mark is present.
        if self.kv.settings.ttl.is_some() {
            return Ok(false);
        }
        let (codec, spec, bytes_max) = (self.codec.clone(), self.kv.spec(), self.bytes_max);
        let mut out = Vec::new();
        codec.write_get(MARK, &mut out);
        let mut is_filled = false;
        self.talk.ask_aside(&out, |input| match codec.read(input, bytes_max) {
            Read::More => Parsed::MORE,
            Read::Value { taken, value, .. } => {
                is_filled = value == spec.as_bytes();
                Parsed::well(taken, GET, None)
            }
            Read::Nothing { taken } => Parsed::well(taken, GET, None),
            Read::Refused { taken, class, text } => Parsed::failure(taken, class, text),
            Read::TooLong { bytes } => too_long(bytes, bytes_max),
            Read::Done { .. } | Read::Garbage => Parsed::garbage(input),
        })?;
        Ok(is_filled)
    }

    /// Sets every key and reports progress; returns false if stopped.
    fn fill(&mut self, is_stopped: &dyn Fn() -> bool, on_event: &dyn Fn(Event)) -> Result<bool, Failure> {
        let (codec, kv) = (self.codec.clone(), Arc::clone(&self.kv));
        let keys = kv.settings.keys;
        let mut first = 1;
        while first <= keys {
            let of = STEP.min(keys + 1 - first);
            self.in_batches(of, &mut |number, out| write_set(&codec, &kv, first + number, 0, out))?;
            first += of;
            let table = "the cache".to_owned();
            on_event(Event::Preparing { table, unit: "keys", rows_done: first - 1, rows: keys });
            if is_stopped() {
                return Ok(false);
            }
        }
        let spec = kv.spec();
        self.in_batches(1, &mut |_, out| {
            codec.write_set_head(MARK, spec.len(), 0, out);
            out.extend_from_slice(spec.as_bytes());
            out.extend_from_slice(b"\r\n");
        })?;
        Ok(true)
    }

    /// Sends `count` requests in batches; returns the number of requests that succeeded.
    fn in_batches(&mut self, count: u64, write: &mut dyn FnMut(u64, &mut Vec<u8>)) -> Result<u64, Failure> {
        let (codec, bytes_max) = (self.codec.clone(), self.bytes_max);
        let (mut asked, mut done) = (0, 0);
        let mut out = Vec::with_capacity(BATCH_BYTES + 64 * 1024);
        while asked < count {
            out.clear();
            let first = asked;
            while asked < count && asked - first < self.batch && out.len() < BATCH_BYTES {
                write(asked, &mut out);
                asked += 1;
            }
            self.talk.say_aside(&out)?;
            for _ in first..asked {
                self.talk.hear_aside(|input| match codec.read(input, bytes_max) {
                    Read::More => Parsed::MORE,
                    Read::Done { taken } => {
                        done += 1;
                        Parsed::well(taken, SET, None)
                    }
                    Read::Nothing { taken } | Read::Value { taken, .. } => Parsed::well(taken, SET, None),
                    Read::Refused { taken, class, text } => Parsed::failure(taken, class, text),
                    Read::TooLong { bytes } => too_long(bytes, bytes_max),
                    Read::Garbage => Parsed::garbage(input),
                })?;
            }
        }
        Ok(done)
    }

    /// Runs events of the mix until hits and evictions are steady, or until [`WINDOWS_MAX`] windows have
    /// passed.
    fn settle(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Vec<Window>, Failure> {
        let events = (self.kv.settings.keys / 4).clamp(WINDOW_MIN, WINDOW_MAX);
        let mut windows = Vec::new();
        let mut number = SETTLING;
        let mut before = counters(&self.codec, &mut self.talk)?.evictions;
        while !is_steady(&windows) && windows.len() < WINDOWS_MAX && !is_stopped() {
            let (mut gets, mut hits) = (0u64, 0u64);
            for _ in 0..events {
                number += 1;
                match self.talk.exchange_aside(Random::of(number, number)) {
                    Ok(Answer { operation: GET, keys: Some(Keys { found, missed }), .. }) => {
                        gets += found + missed;
                        hits += found;
                    }
                    Ok(Answer { operation: GET, outcome, .. }) => {
                        gets += 1;
                        hits += u64::from(outcome == Some(HIT));
                    }
                    // The load counts wrong values and refused sets; here they are ignored.
                    Ok(_) => {}
                    Err(f) if matches!(f.class, FailureClass::Verify | FailureClass::Application) => {}
                    Err(failure) => return Err(failure),
                }
            }
            let after = counters(&self.codec, &mut self.talk)?.evictions;
            let evicted = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
            before = after;
            let hit_ratio = if gets == 0 { 1.0 } else { hits as f64 / gets as f64 };
            windows.push(Window { hit_ratio, evictions: evicted as f64 / events as f64 });
        }
        Ok(windows)
    }
}

/// Keys set between two progress reports.
const STEP: u64 = 10_000;
/// First event number of this phase: its random draws differ from those of the load's events.
const SETTLING: u64 = 1 << 62;

fn apart(windows: &[Window]) -> Option<f64> {
    let last = windows.last_chunk::<WINDOWS>()?;
    let spread = |of: fn(&Window) -> f64| {
        let values = last.iter().map(of);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        high - low
    };
    Some(spread(|w| w.hit_ratio).max(spread(|w| w.evictions)))
}

fn is_steady(windows: &[Window]) -> bool {
    apart(windows).is_some_and(|apart| apart <= APART_MAX)
}

fn steady_check(windows: &[Window]) -> Check {
    let found = apart(windows).unwrap_or(1.0);
    let last = windows.last().copied().unwrap_or(Window { hit_ratio: 0.0, evictions: 0.0 });
    let text = format!(
        "before the load, {:.2} % of the reads hit the cache and each event evicted {:.4} values; the last {WINDOWS} \
         of {} windows differed by {:.2} %, {:.2} % allowed",
        100.0 * last.hit_ratio,
        last.evictions,
        windows.len(),
        100.0 * found,
        100.0 * APART_MAX
    );
    Check { name: "cache-steady", ok: found <= APART_MAX, found, limit: APART_MAX, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(hit_ratio: f64, evictions: f64) -> Window {
        Window { hit_ratio, evictions }
    }

    #[test]
    fn a_cache_is_steady_when_its_last_windows_agree_in_hits_and_evictions() {
        assert!(!is_steady(&[window(1.0, 0.0); 2]));
        assert!(is_steady(&[window(1.0, 0.0); 3]));
        assert!(!is_steady(&[window(0.9, 0.0), window(0.8, 0.0), window(0.8, 0.0)]));
        assert!(is_steady(&[window(0.9, 0.0), window(0.8, 0.1), window(0.81, 0.1), window(0.8, 0.09)]));
        assert!(!is_steady(&[window(0.8, 0.0), window(0.8, 0.1), window(0.8, 0.1)]));
    }
}
