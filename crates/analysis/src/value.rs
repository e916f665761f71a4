//! The value of a metric: an interval, and whether it may be judged.

use record::load::LoadRecord;
use record::missing::{Maybe, Missing};

/// Value of a metric in one run: events per second, seconds, CPU seconds, bytes or joules per event; of a
/// metric that is compared in points, e to the share.
///
/// Both ends are positive. They differ if events have no end, or if a histogram's bucket hides the exact
/// value.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Lower bound; finite.
    pub low: f64,
    /// Upper bound; infinite if events in flight or lost ones leave it open.
    pub high: f64,
    /// Reason that the value is shown and not judged.
    pub unjudged: Option<Missing>,
}

impl Value {
    /// Exact value.
    pub fn exact(value: f64) -> Self {
        Self { low: value, high: value, unjudged: None }
    }

    /// Geometric middle of the interval; `None` if it is open.
    pub fn middle(&self) -> Option<f64> {
        self.high.is_finite().then(|| (self.low * self.high).sqrt())
    }

    /// The middle, if the value may be judged.
    pub fn judged(&self) -> Option<f64> {
        if self.unjudged.is_some() { None } else { self.middle() }
    }

    /// Half the width of the interval in logs.
    pub fn half_ln(&self) -> f64 {
        (self.high / self.low).ln() / 2.0
    }
}

/// Readings over a span that differs more than this from the measured phase were not taken at its ends.
const SPAN_OFF_RATIO_MAX: f64 = 0.02;
/// A saturated machine may take so long to read; in a short phase, at most this share counts.
const SPAN_OFF_S_MAX: f64 = 0.1;
const SPAN_OFF_RATIO_MAX_IF_SHORT: f64 = 0.1;

/// Refuses readings that were not taken at the ends of the measured phase.
pub(crate) fn check_span(what: &str, span_s: f64, load: &LoadRecord) -> Maybe<()> {
    let measured_s = load.measured.as_secs_f64();
    if is_span_of(span_s, measured_s) {
        return Ok(());
    }
    Err(Missing::because(format!("{what} covers {span_s:.2} s, the measured phase {measured_s:.2} s")))
}

fn is_span_of(span_s: f64, measured_s: f64) -> bool {
    let if_short_s = SPAN_OFF_S_MAX.min(SPAN_OFF_RATIO_MAX_IF_SHORT * measured_s);
    (span_s - measured_s).abs() <= if_short_s.max(SPAN_OFF_RATIO_MAX * measured_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span with an idle end of 5 % would make CPU per event 5 % too low.
    #[test]
    fn readings_that_end_long_after_the_phase_are_refused() {
        for (span_s, measured_s) in [(60.0, 60.0), (61.0, 60.0), (59.0, 60.0), (3.09, 3.0), (0.32, 0.3)] {
            assert!(is_span_of(span_s, measured_s), "{span_s} of {measured_s}");
        }
        for (span_s, measured_s) in [(63.0, 60.0), (57.0, 60.0), (3.2, 3.0), (0.34, 0.3)] {
            assert!(!is_span_of(span_s, measured_s), "{span_s} of {measured_s}");
        }
    }
}
