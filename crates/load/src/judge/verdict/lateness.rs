//! Check of the generator's lateness: its part of each published percentile of the response.
//!
//! The generator's part of a response is its lateness, and the part of the wait that its lateness with the
//! previous event on the same connection caused. A percentile of the response is the generator's if that
//! part, at the same percentile, is more than half of it. The p99 may not be.

use record::histogram::{Histogram, QUANTILES};
use record::verdict::Check;

/// The quantile that is judged, if the sample is large enough.
const JUDGED: f64 = 0.99;
/// Maximum allowed share of the generator's part in a response.
pub(crate) const PART_MAX: f64 = 0.5;
/// On `null:` the response is the generator's lateness; this much is the cost of sleeping on a good machine.
const NOTHING_NS_MAX: f64 = 100_000.0;

/// Names of the values in a summary of `response` that the generator caused.
pub(crate) fn generator_made(response: &Histogram, raised: &Histogram) -> Vec<&'static str> {
    let (Some(response), Some(raised)) = (response.summary(), raised.summary()) else { return Vec::new() };
    let is_made = |response_ns: f64, raised_ns: f64| raised_ns > PART_MAX * response_ns;
    let quantiles = QUANTILES.iter().zip(response.quantiles_ns).zip(raised.quantiles_ns);
    let made =
        quantiles.filter(|((_, response_ns), raised_ns)| is_made(*response_ns as f64, *raised_ns as f64));
    let mut names: Vec<_> = made.map(|(((name, _), _), _)| *name).collect();
    let others =
        [("mean", response.mean_ns, raised.mean_ns), ("max", response.max_ns as f64, raised.max_ns as f64)];
    names.extend(others.into_iter().filter(|(_, of, part)| is_made(*of, *part)).map(|(name, ..)| name));
    names
}

/// Checks the p99, or the highest percentile that leaves an event above it; `None` for fewer than two events.
///
/// - `is_nothing`: the target does nothing, and the response is all lateness.
pub(crate) fn check(response: &Histogram, raised: &Histogram, is_nothing: bool) -> Option<Check> {
    if raised.count() < 2 {
        return None;
    }
    let quantile = JUDGED.min(1.0 - 1.0 / raised.count() as f64);
    let (found_ns, of_ns) = (raised.quantile_ns(quantile)? as f64, response.quantile_ns(quantile)? as f64);
    let limit_ns = if is_nothing { NOTHING_NS_MAX } else { PART_MAX * of_ns };
    let name = (1_000.0 * quantile).round() / 10.0;
    let (late, limit, of) = (written(found_ns), written(limit_ns), written(of_ns));
    let part = if of_ns > 0.0 { 100.0 * found_ns / of_ns } else { 0.0 };
    let raised = format!(": it may account for up to {part:.0} % of the p{name} of {of}");
    let raised = if is_nothing { String::new() } else { raised };
    let text = format!("the generator was {late} late at p{name}, {limit} allowed{raised}");
    Some(Check { name: "lateness", ok: found_ns <= limit_ns, found: found_ns, limit: limit_ns, text })
}

/// `58 us`, `5.2 ms`.
pub(super) fn written(ns: f64) -> String {
    if ns < 999_500.0 { format!("{:.0} us", ns / 1e3) } else { format!("{:.1} ms", ns / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(u64, u64)]) -> Histogram {
        values.iter().copied().collect()
    }

    #[test]
    fn a_percentile_that_is_mostly_lateness_is_named_and_the_others_are_not() {
        // A hog: one event in 500 starts 24 ms late; the server takes 200 us.
        let (response, raised) =
            (of(&[(200_000, 9_980), (24_200_000, 20)]), of(&[(5_000, 9_980), (24_000_000, 20)]));
        assert_eq!(generator_made(&response, &raised), ["p99_9", "p99_99", "max"]);
        assert!(check(&response, &raised, false).unwrap().ok, "the p99 is the server's");
        // A server that is itself slow that often is neither excused nor accused.
        let slow = of(&[(200_000, 9_900), (60_000_000, 100)]);
        assert!(generator_made(&slow, &raised).is_empty());
    }

    #[test]
    fn a_p99_that_is_mostly_lateness_is_invalid_at_any_rate() {
        let (response, raised) =
            (of(&[(200_000, 980), (24_200_000, 20)]), of(&[(5_000, 980), (24_000_000, 20)]));
        let found = check(&response, &raised, false).unwrap();
        assert!(!found.ok && found.text.contains("up to 99 %"), "{}", found.text);
        // 0.11 of 0.6 ms.
        let found = check(&of(&[(600_000, 1_000)]), &of(&[(110_000, 1_000)]), false).unwrap();
        assert!(found.ok && found.text.contains("up to 18 %"), "{}", found.text);
    }

    #[test]
    fn what_does_nothing_is_all_lateness_and_judged_by_the_clock() {
        for (late_ns, ok) in [(60_000, true), (120_000, false)] {
            let late = of(&[(late_ns, 1_000)]);
            assert_eq!(check(&late, &late, true).unwrap().ok, ok);
            assert!(generator_made(&late, &late).contains(&"p99"));
        }
    }

    #[test]
    fn one_late_event_of_a_few_does_not_make_the_generator_late() {
        let (response, late) = (of(&[(1_000_000, 19), (3_000_000, 1)]), of(&[(1_000, 19), (2_000_000, 1)]));
        assert!(check(&response, &late, false).unwrap().ok);
        assert_eq!(check(&of(&[(2_000_000, 1)]), &of(&[(2_000_000, 1)]), false), None);
        assert_eq!(check(&Histogram::new(), &Histogram::new(), false), None);
        // An exact clock and a server that takes no time.
        assert!(check(&of(&[(0, 5)]), &of(&[(0, 5)]), false).unwrap().ok);
    }
}
