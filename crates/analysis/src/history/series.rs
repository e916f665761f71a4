//! A metric over time, with its breaks and changes.

use record::missing::Maybe;

use super::point::{Key, Point};
use super::suspect::Suspect;

/// A metric over time, of one load on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Identity.
    pub key: Key,
    /// Settings of the load, and facts of alternating machines, that tell this series from others of its
    /// identity: name and value.
    pub told_apart: Vec<(String, String)>,
    /// Direction that is an improvement.
    pub sense: Sense,
    /// Values in time order.
    pub points: Vec<Point>,
    /// Changes of the machine, in time order.
    pub breaks: Vec<Break>,
    /// Changes of the level, in time order.
    pub changes: Vec<Change>,
    /// Drifts of stretches without a change, in time order.
    pub drifts: Vec<Drift>,
    /// Values that left a level and are too few to be one, in time order.
    pub excursions: Vec<Excursion>,
    /// Number of values that lie in stretches too short to be tested.
    pub untested: usize,
}

impl History {
    /// The measured thing, with what tells it apart: `kv on redis://h:6379 (open loop), rate=1000/s`.
    pub fn subject(&self) -> String {
        let of = Some(&self.key.subject).filter(|subject| !subject.is_empty()).cloned();
        of.into_iter().chain(self.condition()).collect::<Vec<_>>().join(", ")
    }

    /// The conditions that tell this series apart: `rate=1000/s, threads=8`; `None` if it is the only one.
    pub fn condition(&self) -> Option<String> {
        let told: Vec<String> =
            self.told_apart.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// Whether the excursion lasts to the newest value: it may be the start of a new level.
    pub fn is_open(&self, excursion: &Excursion) -> bool {
        excursion.until == self.points.len()
    }

    /// Whether the drift lasts to the newest value: no break or change ended it.
    pub fn goes_on(&self, drift: &Drift) -> bool {
        drift.until == self.points.len()
    }
}

/// A change of the machine between two values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// Index of the first value after it.
    pub at: usize,
    /// Facts that differ.
    pub what: Vec<Suspect>,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Index of the first value after the change. The true change may lie some values earlier or later.
    pub at: usize,
    /// Level before it.
    pub before: f64,
    /// Level after it.
    pub after: f64,
    /// Level after it over the level before, with its 95 % interval; missing if values are not positive.
    pub ratio: Maybe<(f64, f64, f64)>,
    /// Probability that a series without a change shows one at least as clear anywhere.
    pub p: f64,
    /// Facts that are new with the change, the most telling first.
    pub suspects: Vec<Suspect>,
}

/// A level that rises or falls over a stretch in which no single step stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Index of the first value of the stretch.
    pub from: usize,
    /// Index after its last value.
    pub until: usize,
    /// Level at the first value, by the line.
    pub before: f64,
    /// Level at the last value, by the line.
    pub after: f64,
    /// Level at the end over that at the start, with its 95 % interval; missing if values are not positive.
    pub ratio: Maybe<(f64, f64, f64)>,
    /// Probability that a series without a drift shows one at least as clear.
    pub p: f64,
}

/// Values apart from their level that are too few to be one: fewer than [`LEVEL_MIN`].
#[derive(Debug, Clone, PartialEq)]
pub struct Excursion {
    /// Index of the first value.
    pub from: usize,
    /// Index after the last value.
    pub until: usize,
    /// Level before it.
    pub before: f64,
    /// Mean of its values.
    pub level: f64,
    /// Level after it; `None` without values after it on the same machine.
    pub then: Option<f64>,
    /// Whether the level after it is that before it.
    pub is_back: bool,
    /// Mean of its values over the level before, with its 95 % interval; missing if values are not positive.
    pub ratio: Maybe<(f64, f64, f64)>,
    /// Probability that a series without a change shows one at least as clear anywhere.
    pub p: f64,
}

/// Fewest values of a level.
pub const LEVEL_MIN: usize = 5;
/// Fewest values in which a change can be found: five on each side, and one to learn the memory from.
pub const VALUES_MIN: usize = 2 * LEVEL_MIN + 1;
/// Most values of a stretch that are tested; of a longer one, the newest.
pub const VALUES_MAX: usize = 1_000;

/// Direction of a metric that is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// The name does not tell.
    Unknown,
}
