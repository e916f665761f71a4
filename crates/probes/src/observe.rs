//! Instruments that can run beside a command or a load.
//!
//! The CPUs have a separate interface ([`crate::cpu_time`]); every other instrument joins by one line in
//! [`KINDS`].

pub use crate::instrument::{Instrument, Kind, Reading};
use crate::{block_io, locks, memory, nic, power, profile, user_locks};

/// Kinds of instruments for `--observe`, besides `cpu`.
pub const KINDS: &[Kind] = &[
    block_io::KIND,
    nic::KIND,
    memory::observe::KIND,
    locks::observe::KIND,
    user_locks::observe::KIND,
    power::observe::KIND,
    profile::observe::ON_CPU,
    profile::observe::OFF_CPU,
];

/// Parses a list such as `cpu,io` into kinds, without `cpu`, which is not one of these.
///
/// # Errors
///
/// The first unknown word.
pub fn named<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<Kind>, String> {
    let kind = |word: &str| KINDS.iter().find(|k| k.name == word).copied().ok_or_else(|| word.to_owned());
    words.into_iter().filter(|word| *word != "cpu").map(kind).collect()
}
