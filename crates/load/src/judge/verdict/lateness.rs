//! Check of the generator's lateness: its part of each published percentile of the response.
//!
//! The generator's part of a response is its lateness, the part of the wait that its lateness with the
//! previous event on the same connection caused, and the time for which it was stopped during the event. The
//! rest is the server's part. A percentile of the response is the generator's if the same percentile of the
//! server's part is less than half of it. The p99 may not be.
//!
//! Percentiles of the two parts do not add up to those of their sum: the slow events of the generator and
//! those of the server are not the same. So the part is subtracted event by event.

use record::histogram::{Histogram, QUANTILES, is_generator_made};
use record::verdict::Check;

/// The quantile that is judged, if the sample is large enough.
pub(super) const JUDGED: f64 = 0.99;
/// Maximum allowed share of the generator's part in a response.
const PART_MAX: f64 = 0.5;
/// On `null:` the response is the generator's lateness; this much is the cost of sleeping on a good machine.
const NOTHING_NS_MAX: f64 = 100_000.0;

/// Names of the values in a summary of `response` that the generator caused.
///
/// - `server_part`: the response of each event, less the generator's part of it.
pub fn generator_made(response: &Histogram, server_part: &Histogram) -> Vec<&'static str> {
    let (Some(response), Some(server)) = (response.summary(), server_part.summary()) else {
        return Vec::new();
    };
    let quantiles = QUANTILES.iter().zip(response.quantiles_ns).zip(server.quantiles_ns);
    let made =
        quantiles.filter(|((_, of_ns), server_ns)| is_generator_made(*of_ns as f64, *server_ns as f64));
    let mut names: Vec<_> = made.map(|(((name, _), _), _)| *name).collect();
    let others =
        [("mean", response.mean_ns, server.mean_ns), ("max", response.max_ns as f64, server.max_ns as f64)];
    names.extend(
        others.into_iter().filter(|(_, of, part)| is_generator_made(*of, *part)).map(|(name, ..)| name),
    );
    names
}

/// Checks the p99, or the highest percentile that leaves an event above it; `None` for fewer than two events.
///
/// - `server_part`: as for [`generator_made`].
/// - `is_nothing`: the target does nothing, and the response is all lateness.
pub fn check(response: &Histogram, server_part: &Histogram, is_nothing: bool) -> Option<Check> {
    if response.count() < 2 {
        return None;
    }
    let quantile = JUDGED.min(1.0 - 1.0 / response.count() as f64);
    let of_ns = response.quantile_ns(quantile)? as f64;
    let server_ns = (server_part.quantile_ns(quantile)? as f64).min(of_ns);
    let found_ns = of_ns - server_ns;
    let limit_ns = if is_nothing { NOTHING_NS_MAX } else { PART_MAX * of_ns };
    let name = (1_000.0 * quantile).round() / 10.0;
    let (found, limit) = (written(found_ns), written(limit_ns));
    let text = if is_nothing {
        format!("the generator was {found} late at p{name}, {limit} allowed")
    } else {
        let part = if of_ns > 0.0 { 100.0 * found_ns / of_ns } else { 0.0 };
        let (of, server) = (written(of_ns), written(server_ns));
        format!(
            "the generator may account for {found} of the p{name} of {of} ({part:.0} %), {limit} allowed: without its \
             own delays it is {server}"
        )
    };
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

    /// Response and server's part of events: server's part, generator's part, number of events.
    fn both(events: &[(u64, u64, u64)]) -> (Histogram, Histogram) {
        let response = events.iter().map(|(server, generator, count)| (server + generator, *count));
        (response.collect(), events.iter().map(|(server, _, count)| (*server, *count)).collect())
    }

    #[test]
    fn a_percentile_that_is_mostly_lateness_is_named_and_the_others_are_not() {
        // A hog: one event in 500 starts 24 ms late; the server takes 200 us.
        let (response, server) = both(&[(195_000, 5_000, 9_980), (200_000, 24_000_000, 20)]);
        assert_eq!(generator_made(&response, &server), ["p99_9", "p99_99", "max"]);
        assert!(check(&response, &server, false).unwrap().ok, "the p99 is the server's");
        // A server that is itself slow that often is neither excused nor accused.
        let (response, server) =
            both(&[(195_000, 5_000, 9_860), (200_000, 24_000_000, 20), (60_000_000, 0, 120)]);
        assert!(generator_made(&response, &server).is_empty());
    }

    #[test]
    fn slow_events_of_the_generator_do_not_hide_behind_those_of_the_server() {
        let (response, server) =
            both(&[(1_000_000, 5_000, 9_880), (10_000_000, 5_000, 60), (1_000_000, 9_500_000, 60)]);
        let names = generator_made(&response, &server);
        assert!(names.contains(&"p99") && !names.contains(&"p99_9"), "{names:?}");
        let found = check(&response, &server, false).unwrap();
        assert!(!found.ok && found.text.contains("without its own delays it is 1.0 ms"), "{}", found.text);
        // As many slow events of the generator, but as slow as the server's own.
        let (response, server) =
            both(&[(1_000_000, 5_000, 9_700), (10_000_000, 5_000, 150), (1_000_000, 9_500_000, 150)]);
        assert!(check(&response, &server, false).unwrap().ok);
    }

    #[test]
    fn a_p99_that_is_mostly_lateness_is_invalid_at_any_rate() {
        let (response, server) = both(&[(195_000, 5_000, 980), (200_000, 24_000_000, 20)]);
        let found = check(&response, &server, false).unwrap();
        assert!(
            !found.ok && found.text.contains("24.0 ms") && found.text.contains("(99 %)"),
            "{}",
            found.text
        );
        // 0.11 of 0.6 ms.
        let found = check(&of(&[(600_000, 1_000)]), &of(&[(490_000, 1_000)]), false).unwrap();
        assert!(found.ok && found.text.contains("110 us of the p99 of 600 us (18 %)"), "{}", found.text);
    }

    #[test]
    fn what_does_nothing_is_all_lateness_and_judged_by_the_clock() {
        for (late_ns, ok) in [(60_000, true), (120_000, false)] {
            let (response, server) = both(&[(0, late_ns, 1_000)]);
            assert_eq!(check(&response, &server, true).unwrap().ok, ok);
            assert!(generator_made(&response, &server).contains(&"p99"));
        }
    }

    #[test]
    fn one_late_event_of_a_few_does_not_make_the_generator_late() {
        let (response, server) = both(&[(999_000, 1_000, 19), (1_000_000, 2_000_000, 1)]);
        assert!(check(&response, &server, false).unwrap().ok);
        assert_eq!(check(&of(&[(2_000_000, 1)]), &of(&[(0, 1)]), false), None);
        assert_eq!(check(&Histogram::new(), &Histogram::new(), false), None);
        // An exact clock and a server that takes no time.
        assert!(check(&of(&[(0, 5)]), &of(&[(0, 5)]), false).unwrap().ok);
    }
}
