//! The interface of the instruments that can run beside a command or a load.

use std::collections::BTreeMap;
use std::fmt;

use record::instruments::Instruments;
use record::missing::{Maybe, Missing};
use record::resources::{Resource, Used};

use crate::cgroups::Cgroup;
use crate::cost::Cost;
use crate::locks::Refused;

/// A kind of instrument.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name for the command line: `io`.
    pub name: &'static str,
    /// Opens it; never fails: an unavailable instrument states the reason in its notes and yields no
    /// readings.
    pub open: fn() -> Box<dyn Instrument>,
    /// Opens it to tell the tasks of a server from others, if it can; `None`: as `open`.
    pub open_for_server: Option<fn() -> Box<dyn Instrument>>,
}

/// One value of one series over the interval that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Name, ending in the unit: `io_reads_per_s`.
    pub name: String,
    /// Labels that distinguish series of the same name: `device=sda`; may be empty.
    pub labels: String,
    /// Value. A missing one is left out, and the notes state the reason.
    pub value: f64,
}

impl Reading {
    pub(crate) fn of(name: &str, labels: String, value: f64) -> Self {
        Self { name: name.to_owned(), labels, value }
    }
}

/// Escapes a label's value: commas separate labels.
pub(crate) fn label(text: &str) -> String {
    text.replace(',', ";").replace('=', ":")
}

/// An instrument at work.
pub trait Instrument: fmt::Debug {
    /// Missing features with a remedy, and losses; one sentence each.
    fn notes(&self) -> Vec<String>;

    /// Starts the first interval.
    fn start(&mut self);

    /// Readings since the last call, or since the start.
    fn read(&mut self) -> Vec<Reading>;

    /// Measures the cost of watching, if that needs privileges that are dropped before the end; takes 100 ms
    /// at most.
    fn measure_cost(&mut self) {}

    /// Cost of watching since the start.
    ///
    /// # Errors
    ///
    /// Missing if events run no program of the instrument, or the kernel lacks the number.
    fn cost(&mut self) -> Maybe<Cost> {
        Err(Missing::because("it is read only at the ends of intervals"))
    }

    /// Whether [`Self::read`] yields the results, and not [`Self::hand_over_whole`].
    fn is_of_intervals(&self) -> bool {
        true
    }

    /// Whether it can observe on this machine.
    ///
    /// # Errors
    ///
    /// Missing if it cannot.
    fn is_able(&self) -> Maybe<()> {
        Ok(())
    }

    /// Names the control group of the server under test; `None`: its tasks cannot be told from others.
    fn follow_server(&mut self, _: Option<&Cgroup>) {}

    /// Amounts of resources from the start to the last reading, for metrics that are judged.
    fn used(&mut self) -> Vec<(Resource, Maybe<Used>)> {
        Vec::new()
    }

    /// Hands over the intervals, if the instrument stores more than its readings.
    fn hand_over(&mut self, _: &mut Instruments) {}

    /// Ends the observation: nothing counts after it. Does not wait; a second call has no effect.
    fn end(&mut self) {}

    /// Hands over data of the whole observation after [`Self::end`], which [`Self::hand_over`] cannot. It may
    /// wait for it.
    fn hand_over_whole(&mut self, _: &mut Instruments) {}
}

/// Losses and failures of an instrument.
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

    /// Records the reason if there are no readings, or none from some moment on.
    pub(crate) fn tell_missing(&self, name: &str, refused: Option<&Refused>, seen: &mut Instruments) {
        let why = refused.map(ToString::to_string).or_else(|| self.failed.clone());
        if let Some(why) = why {
            seen.missing.insert(name.to_owned(), Missing::because(why));
        }
    }

    pub(crate) fn notes(&self, of: &str, refused: Option<&Refused>) -> Vec<String> {
        let lost: Vec<String> = self.lost.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let lost = (!lost.is_empty())
            .then(|| format!("{of}: lost {}; the numbers are lower bounds", lost.join(", ")));
        let failed = self.failed.as_ref().map(|why| format!("{of}: {why}"));
        refused.map(ToString::to_string).into_iter().chain(failed).chain(lost).collect()
    }
}
