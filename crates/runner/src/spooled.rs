//! A load with its instruments. Complete intervals go to disk, so memory does not grow with the length of the
//! load.

use std::collections::BTreeMap;

use archive::Spool;
use load::Event;
use record::agents::Watched;
use record::clock::WallAnchor;
use record::missing::Missing;
use record::series::{Sample, SharedText};

use crate::Beside;

/// Follows one load and spools its intervals.
#[derive(Debug)]
pub struct Spooled<'a> {
    beside: &'a mut Beside,
    spool: Spool,
    host: &'a str,
    anchor: WallAnchor,
    missing: BTreeMap<String, Missing>,
}

impl<'a> Spooled<'a> {
    /// Starts to follow a load.
    ///
    /// - `spool`: empty.
    /// - `host`: host name in the series.
    /// - `anchor`: time origin of the series.
    pub fn new(beside: &'a mut Beside, spool: Spool, host: &'a str, anchor: WallAnchor) -> Self {
        Self { beside, spool, host, anchor, missing: BTreeMap::new() }
    }

    /// Adds what an agent measured on its machine, and the reasons for what is missing.
    pub fn add_watched(&mut self, watched: &Watched) {
        add_watched((&mut self.spool, &mut self.missing), watched, self.host, self.anchor);
    }

    /// Variant of [`Self::end`] that adds the observing agents without numbers to `missing`.
    pub fn end_with(mut self, missing: &mut BTreeMap<String, Missing>) -> Spool {
        missing.append(&mut self.missing);
        self.end()
    }

    /// Follows the load through its phases and intervals.
    pub fn follow(&mut self, event: &Event) {
        self.beside.follow(event);
        if let Event::IntervalClosed(slices) = event {
            self.spool.add_slices(slices);
            self.spool.add_cpu(self.beside.take_complete());
            self.spool.add_samples(self.beside.take_series(self.host, self.anchor));
            self.spool.add_instruments(&self.beside.take_intervals());
        }
    }

    /// Returns all data of the load that has ended, except the remaining data of instruments that store more
    /// than numbers: [`Beside::take_instruments`].
    pub fn end(self) -> Spool {
        let Self { beside, mut spool, host, anchor, .. } = self;
        spool.add_cpu(beside.take());
        spool.add_samples(beside.take_series(host, anchor));
        spool
    }
}

/// Adds what an agent measured on its machine to a run, and to what is missing the reasons for that.
///
/// - `host`: the machine of this process.
/// - `anchor`: time origin of the series.
pub fn add_watched(
    (spool, missing): (&mut Spool, &mut BTreeMap<String, Missing>),
    watched: &Watched,
    host: &str,
    anchor: WallAnchor,
) {
    let Watched { host: observed, agent, measured_from_ns, seen } = watched;
    let seen = match seen {
        Err(why) => {
            missing.insert(watched.name_of(None), why.clone());
            return;
        }
        Ok(seen) => seen,
    };
    missing.extend(seen.missing.iter().map(|(part, why)| (watched.name_of(Some(part)), why.clone())));
    // What this process measures on the same machine is another series.
    let name = if observed == host { format!("{host} ({agent})") } else { observed.clone() };
    let name = SharedText::from(name);
    let ns = i128::from(*measured_from_ns) - i128::from(anchor.monotonic_ns);
    let from_ms = i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX);
    spool.add_samples(seen.numbers.iter().map(|sample| Sample {
        t_ms: sample.t_ms.saturating_add(from_ms),
        host: name.clone(),
        ..sample.clone()
    }));
}
