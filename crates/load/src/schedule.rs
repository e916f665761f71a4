//! Due times of events: pure functions of the settings, the seed and an event's number.

pub(crate) mod clock;
pub(crate) mod due;
pub(crate) mod lead;
pub mod pace;
pub mod random;
pub(crate) mod share;
pub(crate) mod taken;
