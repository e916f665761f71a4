//! Values of the service time that the generator made: it was stopped, or its worker waited for a CPU.
//!
//! An event is *delayed* if the generator's part of its service time is more than half. The other events are
//! the server's. If too few of them lie above half of a percentile, the percentile is the generator's.

use record::histogram::{Histogram, QUANTILES};
use record::verdict::Check;

use super::lateness::{JUDGED, written};

/// Names of the values in a summary of `values` that the generator made.
///
/// - `delayed`: the service times of delayed events. Of an operation's times, up to so many may be delayed.
pub(crate) fn made(values: &Histogram, delayed: &Histogram) -> Vec<&'static str> {
    let Some(summary) = values.summary().filter(|_| !delayed.is_empty()) else { return Vec::new() };
    let is_made =
        |quantile, value_ns| servers_above(values, delayed, value_ns) < needed(summary.count, quantile);
    let quantiles = QUANTILES.iter().zip(summary.quantiles_ns);
    let mut names: Vec<_> =
        quantiles.filter(|((_, quantile), ns)| is_made(*quantile, *ns)).map(|((name, _), _)| *name).collect();
    let sum_ns = |of: &Histogram| of.buckets().map(|(ns, count)| ns as f64 * count as f64).sum::<f64>();
    if 2.0 * sum_ns(delayed) > sum_ns(values) {
        names.push("mean");
    }
    if is_made(1.0, summary.max_ns) {
        names.push("max");
    }
    names
}

/// Checks the p99 of the service time of a closed loop, or the highest percentile that leaves an event above
/// it; `None` if it is the server's.
pub(crate) fn check(values: &Histogram, delayed: &Histogram) -> Option<Check> {
    if values.count() < 2 || delayed.is_empty() {
        return None;
    }
    let quantile = JUDGED.min(1.0 - 1.0 / values.count() as f64);
    let of_ns = values.quantile_ns(quantile)?;
    let (found, limit) = (servers_above(values, delayed, of_ns), needed(values.count(), quantile));
    let text = format!(
        "the generator stood still for most of the p{} of {}: {found} of the server's events took half as long, {limit} \
         needed",
        (1_000.0 * quantile).round() / 10.0,
        written(of_ns as f64)
    );
    (found < limit).then_some(Check {
        name: "client-paused",
        ok: false,
        found: found as f64,
        limit: limit as f64,
        text,
    })
}

/// Number of values of at least half of `value_ns` that are not delayed.
fn servers_above(values: &Histogram, delayed: &Histogram, value_ns: u64) -> u64 {
    let above = |of: &Histogram| -> u64 {
        of.buckets().filter(|(ns, _)| 2 * ns >= value_ns).map(|(_, count)| count).sum()
    };
    above(values).saturating_sub(above(delayed))
}

/// Number of values at or above a quantile of `count` values.
fn needed(count: u64, quantile: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the count")]
    let rank = (quantile * count as f64).ceil() as u64;
    count - rank.clamp(1, count) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(values: &[(u64, u64)]) -> Histogram {
        values.iter().copied().collect()
    }

    #[test]
    fn a_percentile_of_stopped_events_is_the_generators() {
        // A stop of 100 ms, under 8 connections, among 5,000 events of 2 ms.
        let (values, delayed) = (of(&[(2 * MS, 4_992), (102 * MS, 8)]), of(&[(102 * MS, 8)]));
        assert_eq!(made(&values, &delayed), ["p99_9", "p99_99", "max"]);
        assert_eq!(check(&values, &delayed), None);
        // The same times are the server's without a stop, and if the server itself has as many.
        assert!(made(&values, &Histogram::new()).is_empty());
        let values = of(&[(2 * MS, 4_984), (90 * MS, 8), (102 * MS, 8)]);
        assert!(made(&values, &delayed).is_empty());
        // With 8 of 50,000, it is above the p99.9.
        let values = of(&[(2 * MS, 49_992), (102 * MS, 8)]);
        assert_eq!(made(&values, &delayed), ["p99_99", "max"]);
    }

    #[test]
    fn a_p99_of_stopped_events_is_invalid() {
        let (values, delayed) = (of(&[(2 * MS, 392), (102 * MS, 8)]), of(&[(102 * MS, 8)]));
        let found = check(&values, &delayed).unwrap();
        assert!(!found.ok && found.text.contains("most of the p99 of 10"), "{}", found.text);
        assert_eq!(made(&values, &delayed), ["p99", "p99_9", "p99_99", "mean", "max"]);
        let values = of(&[(2 * MS, 2), (900 * MS, 8)]);
        assert!(made(&values, &of(&[(900 * MS, 8)])).starts_with(&["p50", "p90"]));
        assert!(made(&values, &of(&[(900 * MS, 8)])).contains(&"mean"));
    }

    #[test]
    fn a_rank_is_that_of_the_quantile() {
        let values: Histogram = (1..=1_000).map(|value| (value, 1)).collect();
        for (quantile, rank) in [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1_000)] {
            assert_eq!(values.quantile_ns(quantile), Some(rank));
            assert_eq!(needed(1_000, quantile), 1_000 - rank + 1, "{quantile}");
        }
        assert!(check(&of(&[(5, 1)]), &of(&[(5, 1)])).is_none());
    }
}
