//! Instruments that can be read beside something else: beside a command, beside a load.
//!
//! The CPUs have a form of their own ([`crate::cpu_time`]); every other instrument joins by one line in [`KINDS`].

use std::fmt;

use record::instruments::Instruments;

use crate::{block_io, locks, nic};

/// Every instrument that can be named in `--observe`, besides `cpu`.
pub const KINDS: &[Kind] =
    &[block_io::KIND, nic::KIND, locks::observe::KERNEL_KIND, locks::observe::PROGRAMS_KIND];

/// A kind of instrument.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// As a user names it: `io`.
    pub name: &'static str,
    /// Opens it; never fails: an instrument that cannot be had says so in its notes and reads nothing.
    pub open: fn() -> Box<dyn Instrument>,
}

/// One value of one series over the interval that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What it is, ending in its unit: `io_reads_per_s`.
    pub name: String,
    /// What tells it from others of the name: `device=sda`; empty where nothing does.
    pub labels: String,
    /// The value. One that is missing is left out, and the notes say why.
    pub value: f64,
}

/// An instrument at work.
pub trait Instrument: fmt::Debug {
    /// What is missing for a better look and how to get it, and what was lost; one sentence each.
    fn notes(&self) -> Vec<String>;

    /// The first interval starts here.
    fn start(&mut self);

    /// What happened since the last reading, or since the start.
    fn read(&mut self) -> Vec<Reading>;

    /// Hands over what was seen interval by interval, where the instrument keeps more than its readings.
    fn hand_over(&mut self, _: &mut Instruments) {}
}

/// The kinds of a list such as `cpu,io`, without `cpu`, which is not of these; `Err`: the first that is not known.
///
/// # Errors
///
/// The word that names none.
pub fn named<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<Kind>, String> {
    let kind = |word: &str| KINDS.iter().find(|k| k.name == word).copied().ok_or_else(|| word.to_owned());
    words.into_iter().filter(|word| *word != "cpu").map(kind).collect()
}
