//! Lines that only lockstat prints.

/// Matches `Adaptive mutex spin: 169258 events in 10.012 seconds (16906 events/sec)`.
pub(crate) fn is_section(line: &[u8]) -> bool {
    contains(line, b" events in ") && contains(line, b" seconds (")
}

pub(super) fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}
