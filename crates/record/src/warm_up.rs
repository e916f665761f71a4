//! A warm-up that was judged: its length, and how the server reached its steady state.

use crate::run::words;

/// Course of a metric, or of all judged metrics together, until the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Course {
    /// Steady from the beginning.
    Flat,
    /// Better, or more memory, after an initial part.
    WarmUp,
    /// Steady, with a repetition.
    Cycles,
    /// Steady, and worse than in an initial part.
    Slowdown,
    /// Not steady within the longest warm-up that the plan allows.
    NoSteadyState,
}

words!(Course {
    Flat = "flat",
    WarmUp = "warm-up",
    Cycles = "cycles",
    Slowdown = "slowdown",
    NoSteadyState = "no-steady-state",
});

/// Judgement of one metric over the warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedCourse {
    /// Metric in the plan's words: `throughput`, `p99`, `cpu-per-event`, `rss`.
    pub metric: String,
    /// Course.
    pub course: Course,
    /// Evidence in a few words: the statistic that refused, or the length of the initial part.
    pub evidence: String,
    /// Length of a cycle, if it has cycles and the length was stored.
    pub period_s: Option<f64>,
}

/// A judged warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmUp {
    /// Course of all judged metrics together: the last of their courses in the order of [`Course`].
    pub course: Course,
    /// Length in seconds.
    pub took_s: f64,
    /// Length of a batch in seconds.
    pub batch_s: f64,
    /// Number of batches.
    pub batches: usize,
    /// The judged metrics.
    pub metrics: Vec<JudgedCourse>,
}

impl WarmUp {
    /// Length of the longest cycle.
    pub fn period_s(&self) -> Option<f64> {
        self.metrics.iter().filter_map(|judged| judged.period_s).max_by(f64::total_cmp)
    }

    /// Whether the measured phase began in a steady state.
    pub fn is_steady(&self) -> bool {
        self.course != Course::NoSteadyState
    }
}
