//! Instruments that can be read beside something else: beside a command, beside a load.
//!
//! The CPUs have a form of their own ([`crate::cpu_time`]); every other instrument joins by one line in
//! [`KINDS`].

use std::collections::BTreeMap;
use std::fmt;

use record::instruments::Instruments;
use record::missing::{Maybe, Missing};

use crate::cost::Cost;
use crate::locks::Refused;
use crate::{block_io, locks, memory, nic, user_locks};

/// Every instrument that can be named in `--observe`, besides `cpu`.
pub const KINDS: &[Kind] =
    &[block_io::KIND, nic::KIND, memory::observe::KIND, locks::observe::KIND, user_locks::observe::KIND];

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

impl Reading {
    pub(crate) fn of(name: &str, labels: String, value: f64) -> Self {
        Self { name: name.to_owned(), labels, value }
    }
}

/// A label's value: commas part labels from each other.
pub(crate) fn label(text: &str) -> String {
    text.replace(',', ";").replace('=', ":")
}

/// An instrument at work.
pub trait Instrument: fmt::Debug {
    /// What is missing for a better look and how to get it, and what was lost; one sentence each.
    fn notes(&self) -> Vec<String>;

    /// The first interval starts here.
    fn start(&mut self);

    /// What happened since the last reading, or since the start.
    fn read(&mut self) -> Vec<Reading>;

    /// Measures what watching costs, if that takes rights that are given up before the end; takes some 100 ms
    /// at most.
    fn measure_cost(&mut self) {}

    /// What watching has cost since the start.
    ///
    /// # Errors
    ///
    /// Missing where the instrument has no program that events run, or the kernel does not tell.
    fn cost(&mut self) -> Maybe<Cost> {
        Err(Missing::because("it is read at the edges of intervals only"))
    }

    /// Hands over what was seen interval by interval, where the instrument keeps more than its readings.
    fn hand_over(&mut self, _: &mut Instruments) {}
}

/// What went wrong on the way.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    lost: BTreeMap<String, u64>,
    failed: Option<String>,
}

impl Problems {
    pub(crate) fn take<T>(
        &mut self,
        read: Maybe<T>,
        lost: impl Fn(&T) -> &BTreeMap<String, u64>,
    ) -> Option<T> {
        match read {
            Ok(interval) => {
                for (reason, count) in lost(&interval) {
                    *self.lost.entry(reason.clone()).or_default() += count;
                }
                Some(interval)
            }
            Err(why) => {
                self.failed = Some(why.reason);
                None
            }
        }
    }

    /// Why there is nothing, or nothing from some moment on.
    pub(crate) fn tell_missing(&self, name: &str, refused: Option<&Refused>, seen: &mut Instruments) {
        let why = refused.map(ToString::to_string).or_else(|| self.failed.clone());
        if let Some(why) = why {
            seen.missing.insert(name.to_owned(), Missing::because(why));
        }
    }

    pub(crate) fn notes(&self, of: &str, refused: Option<&Refused>) -> Vec<String> {
        let lost: Vec<String> = self.lost.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let lost = (!lost.is_empty())
            .then(|| format!("{of}: lost {}; what is shown are lower bounds", lost.join(", ")));
        let failed = self.failed.as_ref().map(|why| format!("{of}: {why}"));
        refused.map(ToString::to_string).into_iter().chain(failed).chain(lost).collect()
    }
}

/// The kinds of a list such as `cpu,io`, without `cpu`, which is not of these; `Err`: the first that is not
/// known.
///
/// # Errors
///
/// The word that names none.
pub fn named<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<Kind>, String> {
    let kind = |word: &str| KINDS.iter().find(|k| k.name == word).copied().ok_or_else(|| word.to_owned());
    words.into_iter().filter(|word| *word != "cpu").map(kind).collect()
}
