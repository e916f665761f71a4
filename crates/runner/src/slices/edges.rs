//! Edges of turns: at its beginning all workers start at once, and at its end fewer and fewer events are in
//! flight. Responses that are long for a slice are then those of another load than in one piece.

use std::time::Duration;

use record::histogram::Histogram;

/// Longest p99, as a share of the slice, at which the edges hardly show: of events of one length, a fifth of
/// a slice long, two in five touch an edge.
const P99_RATIO_MAX: f64 = 0.2;

/// Tells of responses that are long for the turns.
pub(super) fn edges(slice: Duration, service: &Histogram) -> Option<String> {
    let slice_ns = slice.as_secs_f64() * 1e9;
    let p99_ns = service.quantile_ns(0.99)? as f64;
    if p99_ns <= P99_RATIO_MAX * slice_ns {
        return None;
    }
    let touching = (2.0 * service.summary()?.mean_ns / slice_ns).min(1.0);
    Some(format!(
        "the p99 of {:.1} ms is {:.0} % of a slice: about {:.0} % of the events began or ended at an edge of a \
         turn, with another number of events in flight than in one piece; rates and latencies are those of such \
         turns: take a longer slice, or pieces",
        p99_ns * 1e-6,
        100.0 * p99_ns / slice_ns,
        100.0 * touching
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_more_than_a_fifth_of_a_slice_are_told() {
        let slice = Duration::from_millis(100);
        let of = |ms: u64, slow_ms: u64| -> Histogram {
            [(ms * 1_000_000, 950), (slow_ms * 1_000_000, 50)].into_iter().collect()
        };
        assert_eq!(edges(slice, &of(1, 19)), None);
        let text = edges(slice, &of(1, 40)).unwrap();
        assert!(text.starts_with("the p99 of 40.0 ms is 40 % of a slice: about 6 % of the events"), "{text}");
        assert!(edges(slice, &of(90, 90)).unwrap().contains("about 100 % of the events"));
        assert_eq!(edges(slice, &Histogram::new()), None);
    }
}
