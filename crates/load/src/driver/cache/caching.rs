//! The key-value workload on a cache: code shared by memcached and Redis.

use std::collections::VecDeque;
use std::sync::Arc;

use record::load::LoadSettings;
use record::missing::Missing;

use super::codec::{Codec, Named, Read, counters, too_long, write_set};
use super::fill::Filler;
use crate::connection::{Answer, Keys};
use crate::connection::{Failure, FailureClass, OperationShare};
use crate::driver::Exchange;
use crate::driver::Look;
use crate::net::held;
use crate::net::tls::Plan;
use crate::net::tls::Secured;
use crate::net::{Dialogue, Endpoint, Parsed, Talk};
use crate::schedule::random::Random;
use crate::workload::kv::{self, GET, HIT, Kv, MISS, OUTCOMES, Operation, SET, STORED};
use crate::workload::tables::Cache;

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
        Some(Box::new(Filler::new(codec, kv, talk, bytes_max, is_one_by_one)))
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
            (Read::Done { taken }, Operation::Set { .. }) if self.codec.is_stored(&input[..taken]) => {
                Parsed::well(taken, SET, Some(STORED))
            }
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

fn names(named: Option<&[u8]>, key: u64) -> Result<(), String> {
    match named {
        Some(named) if named != kv::key_bytes(key) => {
            Err(format!("asked for {}, got {}", kv::Shown(key), String::from_utf8_lossy(named)))
        }
        _ => Ok(()),
    }
}

/// Limit of an answer to the greeting.
const GREETING_BYTES_MAX: usize = 64 << 10;
