//! A generator's share of a load that several generators play together.
//!
//! Everything in a load has a number: its events, its threads, its connections. Of `of` generators, number
//! `index` has the numbers `index`, `index + of`, `index + 2 of`, ... The whole schedule stays the pure
//! function that it is: a share only leaves out the numbers of the others, so the union of all shares is the
//! schedule of one generator, event for event, with the same due times and the same random streams.

use record::load::LoadSettings;

/// A generator's share of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    index: u32,
    of: u32,
    /// Threads of all generators together.
    threads: u32,
}

impl Share {
    /// The share of a load that has only one generator.
    pub fn whole(settings: &LoadSettings) -> Self {
        Self { index: 0, of: 1, threads: settings.threads }
    }

    /// The share of generator `index`, from 0, of `of`, in the load of `settings`.
    ///
    /// `None` if there is no such generator, or one would have no thread.
    pub fn new(index: u32, of: u32, settings: &LoadSettings) -> Option<Self> {
        (index < of && of <= settings.threads).then_some(Self { index, of, threads: settings.threads })
    }

    /// The settings of this share: its threads and its connections; rates and numbers of events remain those
    /// of the whole.
    pub fn of_settings(&self, whole: &LoadSettings) -> LoadSettings {
        let part = |all: u32| u32::try_from(self.below(all.into())).expect("a part of the whole");
        LoadSettings {
            threads: part(whole.threads),
            connections: whole.connections.map(part),
            ..whole.clone()
        }
    }

    /// The number, in the whole load, of this share's `own`-th event, thread or connection.
    pub(crate) fn number(&self, own: u64) -> u64 {
        u64::from(self.index) + own * u64::from(self.of)
    }

    /// Count of the numbers below `number` that are in this share.
    pub(crate) fn below(&self, number: u64) -> u64 {
        number.saturating_sub(self.index.into()).div_ceil(self.of.into())
    }

    /// Threads of all generators together.
    pub(crate) fn threads_of_all(&self) -> u32 {
        self.threads
    }

    /// Whether there are no other generators.
    pub(crate) fn is_whole(&self) -> bool {
        self.of == 1
    }

    /// The share's part of a rate.
    pub(crate) fn of_rate(&self, per_s: f64) -> f64 {
        per_s / f64::from(self.of)
    }
}
