//! A load with its instruments. Complete intervals go to disk, so memory does not grow with the length of the
//! load.

use archive::Spool;
use load::Event;
use record::clock::WallAnchor;

use crate::Beside;

/// Follows one load and spools its intervals.
#[derive(Debug)]
pub struct Spooled<'a> {
    beside: &'a mut Beside,
    spool: Spool,
    host: &'a str,
    anchor: WallAnchor,
}

impl<'a> Spooled<'a> {
    /// Starts to follow a load.
    ///
    /// - `spool`: empty.
    /// - `host`: host name in the series.
    /// - `anchor`: time origin of the series.
    pub fn new(beside: &'a mut Beside, spool: Spool, host: &'a str, anchor: WallAnchor) -> Self {
        Self { beside, spool, host, anchor }
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
        let Self { beside, mut spool, host, anchor } = self;
        spool.add_cpu(beside.take());
        spool.add_samples(beside.take_series(host, anchor));
        spool
    }
}
