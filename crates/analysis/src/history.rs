//! Histories: a number over many runs, the moments at which it changed, and what changed with it.
//!
//! Values are compared only within one machine and one load. Each load is a series. A change of the machine
//! or of its kernel is a break: the values before and after it are not tested against each other. Machines
//! that alternate are different series.

mod conditions;
mod divisive;
mod drift;
mod effect;
mod energy;
mod excursion;
mod fit;
mod memory;
mod observe;
mod point;
mod sequence;
mod series;
mod setting;
mod step;
mod suspect;
#[cfg(test)]
mod tests;

pub use self::excursion::OF_NEWEST;
pub use self::observe::{
    IMPORTED_FACT, Observations, SUBJECT_LABEL, UNIT_LABEL, imported_unix_ns, of_bakeoff, of_comparison,
    of_import, of_run,
};
pub use self::point::{Key, Numbers, Observed, Point};
pub use self::sequence::{Added, added, histories};
pub use self::series::{Break, Change, Drift, Excursion, History, LEVEL_MIN, Sense, VALUES_MAX, VALUES_MIN};
pub use self::setting::deciding_settings;
pub use self::suspect::Suspect;
