//! Pauses between attempts to connect, and the slices into which waits are cut.

/// The longest uninterrupted sleep, so a stop is noticed within 100 ms.
pub(crate) const SLICE_NS: u64 = 100_000_000;

/// First pause before reconnecting; it doubles with each failure, up to `Engine::pause_last_ns`.
pub(crate) const PAUSE_FIRST_NS: u64 = 10_000_000;

pub(crate) const PAUSE_LAST_NS: u64 = 1_000_000_000;

/// Separates the random stream of pauses from all others.
pub(crate) const PAUSE_SALT: u64 = 0x0070_6175_7365;
