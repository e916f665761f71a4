//! The data set of a cache: fills it, and waits until its hits and evictions are steady.

use std::sync::Arc;
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use record::load::{LoadSettings, PreparePolicy};
use record::verdict::Check;

use super::codec::{Codec, Read, counters, too_long, write_set};
use crate::connection::{Answer, Failure, FailureClass, Keys};
use crate::control::progress::Event;
use crate::error::LoadError;
use crate::net::{Parsed, Talk};
use crate::schedule::clock::to_ns;
use crate::schedule::random::Random;
use crate::workload::kv::{GET, HIT, Kv, SET};
use crate::workload::tables::{Cache, Cleaned, Prepared, data_set_error};

/// Fills a cache and brings it to its steady state.
pub(super) struct Filler<C> {
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
/// Longest wait for a steady cache. Ends with the first answer after it.
const SETTLE_MAX: Duration = Duration::from_mins(5);
/// Time after which the wait is reported.
const QUIET_NS: u64 = 2_000_000_000;
/// Time between two reports.
const REPORT_EVERY_NS: u64 = 1_000_000_000;

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
        let mut wait = Wait::from(Monotonic.now_ns());
        let mut goes_on = || !is_stopped() && wait.goes_on(Monotonic.now_ns(), on_event);
        let windows = self.settle(&mut goes_on).map_err(|f| failed("waiting for a steady cache", f))?;
        if is_stopped() {
            return Err(LoadError::Interrupted);
        }
        Ok((prepared, vec![steady_check(&windows)]))
    }

    fn remove(&mut self, settings: &LoadSettings) -> Result<Cleaned, LoadError> {
        let codec = self.codec.clone();
        let removed = self.in_batches(self.kv.settings.keys + 1, false, &mut |number, out| {
            codec.write_delete(number, out);
        });
        let removed = removed.map_err(|f| data_set_error(settings, "emptying the cache".to_owned(), f))?;
        Ok(Cleaned { removed: u32::from(removed > 0) })
    }
}

impl<C: Codec> Filler<C> {
    /// - `is_one_by_one`: no request is sent before the one before it is answered.
    pub(super) fn new(codec: C, kv: Arc<Kv>, talk: Talk, bytes_max: usize, is_one_by_one: bool) -> Self {
        Self { codec, kv, talk, bytes_max, batch: if is_one_by_one { 1 } else { BATCH } }
    }

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
            self.in_batches(of, true, &mut |number, out| write_set(&codec, &kv, first + number, 0, out))?;
            first += of;
            let table = "the cache".to_owned();
            on_event(Event::Preparing { table, unit: "keys", rows_done: first - 1, rows: keys });
            if is_stopped() {
                return Ok(false);
            }
        }
        let spec = kv.spec();
        self.in_batches(1, true, &mut |_, out| {
            codec.write_set_head(MARK, spec.len(), 0, out);
            out.extend_from_slice(spec.as_bytes());
            out.extend_from_slice(b"\r\n");
        })?;
        Ok(true)
    }

    /// Sends `count` requests in batches; returns the number of requests that succeeded.
    ///
    /// - `stores`: the requests are sets; otherwise they are deletes.
    fn in_batches(
        &mut self,
        count: u64,
        stores: bool,
        write: &mut dyn FnMut(u64, &mut Vec<u8>),
    ) -> Result<u64, Failure> {
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
                    Read::Done { taken } if !stores || codec.is_stored(&input[..taken]) => {
                        done += 1;
                        Parsed::well(taken, SET, None)
                    }
                    Read::Nothing { taken } if !stores => Parsed::well(taken, SET, None),
                    Read::Refused { taken, class, text } => Parsed::failure(taken, class, text),
                    Read::TooLong { bytes } => too_long(bytes, bytes_max),
                    Read::Done { .. } | Read::Nothing { .. } | Read::Value { .. } | Read::Garbage => {
                        Parsed::garbage(input)
                    }
                })?;
            }
        }
        Ok(done)
    }

    /// Runs events of the mix until hits and evictions are steady, until [`WINDOWS_MAX`] windows have passed,
    /// or while `goes_on`.
    fn settle(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<Vec<Window>, Failure> {
        let events = (self.kv.settings.keys / 4).clamp(WINDOW_MIN, WINDOW_MAX);
        let mut windows = Vec::new();
        let mut number = SETTLING;
        let mut before = counters(&self.codec, &mut self.talk)?.evictions;
        while !is_steady(&windows) && windows.len() < WINDOWS_MAX {
            let (mut gets, mut hits) = (0u64, 0u64);
            for _ in 0..events {
                if !goes_on() {
                    return Ok(windows);
                }
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

/// The wait for a steady cache.
struct Wait {
    from_ns: u64,
    /// Time of the next report.
    report_ns: u64,
}

impl Wait {
    fn from(now_ns: u64) -> Self {
        Self { from_ns: now_ns, report_ns: now_ns + QUIET_NS }
    }

    /// Whether the wait may go on; reports it now and then.
    fn goes_on(&mut self, now_ns: u64, on_event: &dyn Fn(Event)) -> bool {
        let waited_ns = now_ns.saturating_sub(self.from_ns);
        if now_ns >= self.report_ns {
            self.report_ns = now_ns + REPORT_EVERY_NS;
            on_event(Event::Settling { waited: Duration::from_nanos(waited_ns), most: SETTLE_MAX });
        }
        waited_ns < to_ns(SETTLE_MAX)
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
    let Some((found, last)) = apart(windows).zip(windows.last()) else {
        let text = format!(
            "before the load, the cache answered so slowly that within {} min only {} of the {WINDOWS} windows were \
             measured that show whether it is steady",
            SETTLE_MAX.as_secs() / 60,
            windows.len()
        );
        return Check { name: "cache-steady", ok: false, found: 1.0, limit: APART_MAX, text };
    };
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
    fn the_wait_for_a_steady_cache_is_reported_after_two_seconds_and_ends_after_five_minutes() {
        let told = std::cell::RefCell::new(Vec::new());
        let on_event = |event| match event {
            Event::Settling { waited, most } => told.borrow_mut().push((waited, most)),
            other => panic!("{other:?}"),
        };
        let (ms, second) = (1_000_000, 1_000_000_000);
        let mut wait = Wait::from(7 * second);
        // A cache that answers every 300 ms.
        let mut now_ns = 7 * second;
        while wait.goes_on(now_ns, &on_event) {
            now_ns += 300 * ms;
        }
        assert_eq!(now_ns, (7 + 300) * second);
        let told = told.into_inner();
        let waited: Vec<u128> = told.iter().map(|(waited, _)| waited.as_millis()).collect();
        assert_eq!(waited[..3], [2_100, 3_300, 4_500]);
        assert!(told.iter().all(|(_, most)| *most == SETTLE_MAX) && told.len() > 200);
        let check = steady_check(&[window(1.0, 0.0)]);
        assert!(!check.ok && check.text.contains("within 5 min only 1 of the 3 windows"), "{}", check.text);
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
