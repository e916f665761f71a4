//! A load and the instruments beside it, whose complete intervals go to disk: memory does not grow with its length.

use archive::Spool;
use load::Event;
use record::clock::WallAnchor;

use crate::Beside;

/// Follows one load.
#[derive(Debug)]
pub struct Spooled<'a> {
    beside: &'a mut Beside,
    spool: Spool,
    host: &'a str,
    anchor: WallAnchor,
}

impl<'a> Spooled<'a> {
    /// - `spool`: empty.
    /// - `host`: the machine's name in the series.
    /// - `anchor`: what the series count from.
    pub fn new(beside: &'a mut Beside, spool: Spool, host: &'a str, anchor: WallAnchor) -> Self {
        Self { beside, spool, host, anchor }
    }

    /// Follows the load from phase to phase and interval to interval.
    pub fn follow(&mut self, event: &Event) {
        self.beside.follow(event);
        if let Event::IntervalClosed(slices) = event {
            self.spool.add_slices(slices);
            self.spool.add_cpu(self.beside.take_complete());
            self.spool.add_samples(self.beside.take_series(self.host, self.anchor));
            self.spool.add_instruments(&self.beside.take_instruments());
        }
    }

    /// Everything of the load that has ended, but for the last of what instruments that keep more than numbers have seen:
    /// [`Beside::take_instruments`].
    pub fn end(self) -> Spool {
        let Self { beside, mut spool, host, anchor } = self;
        spool.add_cpu(beside.take());
        spool.add_samples(beside.take_series(host, anchor));
        spool
    }
}
