//! Pauses between attempts to connect, and the slices into which waits are cut.

/// A wait is cut into slices of this, so that a stop is seen.
pub(crate) const SLICE_NS: u64 = 100_000_000;

/// First pause before connecting again; doubled at each failure, up to the last (`Engine::pause_last_ns`).
pub(crate) const PAUSE_FIRST_NS: u64 = 10_000_000;

pub(crate) const PAUSE_LAST_NS: u64 = 1_000_000_000;

/// Tells the chance of the pauses from all other.
pub(crate) const PAUSE_SALT: u64 = 0x0070_6175_7365;
