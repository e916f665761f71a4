//! The instruments of a machine during the measured phase of a load that others generate.

use std::time::Duration;

use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::series::Sample;

use crate::Beside;

/// Longest sleep before the next look whether the work is over.
const LOOK_NS: u64 = 50_000_000;

/// Observes this machine from `from_ns` until `until_ns` on `CLOCK_MONOTONIC`, in intervals of `interval`, or
/// until `is_over` holds. Returns every number of every instrument; times count from `from_ns`.
///
/// Intervals end at multiples of their length, or late: an interval that has passed is not read again.
pub fn watch(
    beside: &mut Beside,
    (from_ns, until_ns): (u64, u64),
    interval: Duration,
    is_over: &dyn Fn() -> bool,
) -> Vec<Sample> {
    let mut found = Vec::new();
    let anchor = WallAnchor { monotonic_ns: from_ns, unix_ns: WallAnchor::now().unix_ns };
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    if !wait_until(from_ns, is_over) {
        return found;
    }
    beside.open_books();
    let mut end_ns = from_ns;
    loop {
        let past = Monotonic.now_ns().saturating_sub(from_ns) / interval_ns;
        end_ns = end_ns.max(from_ns.saturating_add(past.saturating_mul(interval_ns)));
        end_ns = end_ns.saturating_add(interval_ns).min(until_ns);
        let goes_on = wait_until(end_ns, is_over) && end_ns < until_ns;
        if !goes_on {
            break;
        }
        beside.close_interval();
        found.extend(numbers(beside, false, anchor));
    }
    found.extend(numbers(beside, true, anchor));
    found
}

fn numbers(beside: &mut Beside, is_end: bool, anchor: WallAnchor) -> Vec<Sample> {
    let cpu = if is_end { beside.take() } else { beside.take_complete() };
    let seen = if is_end { beside.take_instruments() } else { beside.take_intervals() };
    let mut all = archive::numbers(&cpu, &seen, "", anchor.monotonic_ns);
    all.extend(beside.take_series("", anchor));
    all
}

/// Whether the time came before `is_over`.
fn wait_until(at_ns: u64, is_over: &dyn Fn() -> bool) -> bool {
    loop {
        if is_over() {
            return false;
        }
        let now_ns = Monotonic.now_ns();
        if now_ns >= at_ns {
            return true;
        }
        std::thread::sleep(Duration::from_nanos((at_ns - now_ns).min(LOOK_NS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_has_its_numbers_and_their_times_count_from_the_window() {
        let mut beside = Beside::new(true);
        let from_ns = Monotonic.now_ns() + 20_000_000;
        let window = (from_ns, from_ns + 500_000_000);
        for _ in 0..2 {
            let window = (window.0.max(Monotonic.now_ns()), window.1.max(Monotonic.now_ns() + 500_000_000));
            let found = watch(&mut beside, window, Duration::from_millis(100), &|| false);
            let mut times: Vec<i64> =
                found.iter().filter(|s| &*s.name == "cpu_not_idle_ratio").map(|s| s.t_ms).collect();
            times.dedup();
            assert!(times.is_sorted() && (1..=6).contains(&times.len()), "{times:?}");
            assert!(times.iter().all(|t_ms| *t_ms > 0) && times.last() >= Some(&500), "{times:?}");
        }
    }

    #[test]
    fn an_observation_that_is_stopped_before_it_begins_has_no_numbers() {
        let mut beside = Beside::new(true);
        let from_ns = Monotonic.now_ns() + 3_600_000_000_000;
        let found = watch(&mut beside, (from_ns, from_ns + 1), Duration::from_millis(100), &|| true);
        assert_eq!(found, []);
    }
}
