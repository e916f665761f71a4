//! One size of a sweep.

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Size of the buffer.
    pub size_bytes: u64,
    /// Time of a call: median of the rounds, each relative to the reference measured next to it.
    pub call_ns: f64,
    /// Lowest and highest of the rounds.
    pub call_ns_range: (f64, f64),
    /// Number of rounds.
    pub n: u32,
    /// Time of a call predicted by the three costs; NaN if they are unknown.
    pub fitted_ns: f64,
}

impl Point {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.size_bytes as f64 / self.call_ns * 1e9
    }
}

/// Smallest shift or effect that is reported.
pub(super) const EFFECT_MIN: f64 = 0.01;
