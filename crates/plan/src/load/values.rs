//! Parsers for the texts of `[load]`: `None` if a text is invalid.

use std::time::Duration;

use record::arrivals::Arrivals;
use record::load::{LatePolicy, ScriptFile, ScriptSettings, Think, settings};
use record::quantity;
use record::requests::{HttpSettings, KvSettings, SizeClass};

/// Events per second, or `None` for a closed loop: `max`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) Option<f64>);

pub(super) fn ttl(text: &str) -> Option<Duration> {
    KvSettings::parse_ttl(text).ok()
}

pub(super) fn rate(text: &str) -> Option<Rate> {
    if text == "max" {
        return Some(Rate(None));
    }
    let per_s = quantity::rate_per_s(text).ok().filter(|_| settings::RATE.values.takes(text));
    per_s.map(|per_s| Rate(Some(per_s)))
}

/// Parses `64MiB`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    quantity::bytes(text).ok()
}

/// Parses arrivals, except recorded ones: a plan has no files.
pub(super) fn arrivals(text: &str) -> Option<Arrivals> {
    Arrivals::parse(text).ok().filter(|arrivals| !matches!(arrivals, Arrivals::File(_)))
}

/// Parses `queue`, `skip=100ms`, `drop`, `pace=2x`.
pub(super) fn late_policy(text: &str) -> Option<LatePolicy> {
    LatePolicy::parse(text).ok()
}

pub(super) fn think(text: &str) -> Option<Think> {
    Think::parse(text).ok()
}

pub(super) fn sizes(text: &str) -> Option<Vec<SizeClass>> {
    KvSettings::parse_sizes(text).ok()
}

pub(super) fn mix(text: &str) -> Option<f64> {
    KvSettings::parse_mix(text).ok()
}

pub(super) fn method(text: &str) -> Option<String> {
    HttpSettings::parse_method(text)
}

/// Parses `scale=10, users=5`.
pub(super) fn defines(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',').map(|part| ScriptSettings::parse_define(part.trim())).collect()
}

/// A script in Lua that was not read yet.
pub(super) fn script_file(path: &str) -> ScriptFile {
    ScriptFile { name: path.to_owned(), weight: 1, text: String::new() }
}
