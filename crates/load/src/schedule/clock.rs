//! The clock of a run, and spans in its unit.

use std::sync::Arc;

use record::clock::Clock;

/// The clock of a run: the kernel's, or a test's.
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// The due time of an event that is not due, as far as is known.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// The span in whole nanoseconds; 584 years if it is longer.
pub(crate) fn to_ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
