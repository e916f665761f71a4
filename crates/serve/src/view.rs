//! Forms of values that pages and documents share.

use std::collections::{HashMap, VecDeque};

use archive::{Entry, QueueState, Standing, TrialStanding};
use jiff::Timestamp;
use record::bakeoff::TrialState;
use record::histogram::Bound;
use record::run::RunId;
use serde_json::{Value, json};

/// A moment: `2026-11-25T22:41:00Z`.
pub(crate) fn rfc3339(unix_ns: u64) -> String {
    timestamp(unix_ns).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment for people: `2026-11-25 22:41`, in UTC.
pub(crate) fn moment(unix_ns: u64) -> String {
    timestamp(unix_ns).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A day: `2026-11-25`, in UTC.
pub(crate) fn day(unix_ns: u64) -> String {
    timestamp(unix_ns).strftime("%Y-%m-%d").to_string()
}

/// Reads `2026-11-25T22:41:00Z` or `2026-11-25T23:41:00[Europe/Vienna]`, or without a zone as UTC, as a
/// browser's field gives it.
pub(crate) fn read_moment(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: expected 2026-11-25T22:41:00Z");
    let at = if text.contains('[') {
        // Other readers skip a zone that they do not know.
        text.parse::<jiff::Zoned>().ok().map(|zoned| zoned.timestamp())
    } else {
        let local = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
        text.parse::<Timestamp>().ok().or_else(|| local().map(|zoned| zoned.timestamp()))
    };
    at.and_then(|at| u64::try_from(at.as_nanosecond()).ok()).ok_or_else(wrong)
}

fn timestamp(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::MAX)
}

/// A span in words: `3 min 20 s`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// A span of nanoseconds with three digits: `0.41 ms`.
pub(crate) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..100_000 => (ns as f64 / 1e3, "\u{b5}s"),
        100_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        v if v < 1.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Bound of a latency of an interval: events that timed out could raise it.
pub(crate) fn bound(latency: &Value, name: &str) -> Bound {
    let is_in = |list: &str| latency[list].as_array().is_some_and(|all| all.iter().any(|of| of == name));
    Bound::of(is_in("lower_bounds"), is_in("upper_bounds"))
}

/// A number with the mark of its bound.
pub(crate) fn marked(bound: Bound, number: &str) -> String {
    if bound == Bound::Exact { number.to_owned() } else { format!("{} {number}", bound.mark()) }
}

/// Document of an entry of the queue.
///
/// - `expected`: for one that waits or runs.
/// - `may_run`: whether it is for a client that may run plans.
pub(crate) fn entry(entry: &Entry, expected: Expected, may_run: bool) -> Value {
    let time = |at: Option<u64>| at.map(rfc3339);
    json!({
        "id": entry.id.to_string(),
        "plan_sha256": entry.plan_sha256,
        "title": entry.title,
        "by": entry.by,
        "priority": entry.priority,
        "not_before": time(entry.not_before_unix_ns),
        "state": entry.state.word(),
        "outcome": crate::outcome::outcome(entry).0,
        "wish": entry.wish.map(archive::Wish::word),
        "run": entry.run.map(|run| run.to_string()),
        "estimate_s": entry.estimate_s,
        "submitted_at": rfc3339(entry.submitted_unix_ns),
        "started_at": time(entry.started_unix_ns),
        "ended_at": time(entry.ended_unix_ns),
        "expected_start": time(expected.start_unix_ns),
        "expected_end": time(expected.end_unix_ns),
        "exit_code": entry.exit_code,
        "reason": crate::reasons::of_entry(entry, may_run),
    })
}

/// Variant of [`entry`] for a separate document.
pub(crate) fn entry_document(entry: &Entry, expected: Expected, may_run: bool) -> Value {
    let mut document = self::entry(entry, expected, may_run);
    document["schema"] = json!("bakeoff.queue-entry/1");
    document
}

/// State of a trial of a bake-off that runs, in a word.
pub(crate) fn state_of_trial(told: &TrialStanding) -> &'static str {
    match told.state {
        _ if told.is_current => "measuring",
        _ if told.is_dropped => "dropped",
        state => state.word(),
    }
}

/// Adds the trials of a bake-off that runs to its document.
///
/// - `order_max`: most trials that are listed.
pub(crate) fn add_trials(document: &mut Value, standing: &Standing, order_max: usize) {
    let trial = |told: &archive::TrialStanding| {
        json!({
            "trial": told.trial.index,
            "block": told.trial.block,
            "series": told.trial.series,
            "levels": told.trial.levels,
            "state": state_of_trial(told),
            "reason": told.reason,
            "run": told.run.map(|run| run.to_string()),
        })
    };
    document["trials"] = json!(standing.trials.len());
    document["dropped"] = json!(standing.dropped());
    for (name, state) in
        [("sealed", TrialState::Sealed), ("invalid", TrialState::Invalid), ("failed", TrialState::Failed)]
    {
        document[name] = json!(standing.count(state));
    }
    if standing.trials.len() <= order_max {
        document["order"] = standing.trials.iter().map(trial).collect();
    } else {
        document["order"] = Value::Null;
        let why = format!("it has more than {order_max} trials; the run's own document lists them");
        document["missing"] = json!({"order": why});
    }
}

/// Expected start and end of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// For one that waits.
    pub(crate) start_unix_ns: Option<u64>,
    /// For one that waits or runs; `None` if it takes longer than its plan says and nothing else is known.
    pub(crate) end_unix_ns: Option<u64>,
}

/// Expected starts and ends of the entries, in their order: each after those before it, with the least
/// duration of its plan. Those behind one with an unknown end are unknown.
///
/// One that is being paused or cancelled has no expected end: the current trial decides.
///
/// - `ends`: running bake-offs, with their expected ends by their pace. One that is not among them waits for
///   the machine, so its end is unknown.
pub(crate) fn expected(
    entries: &[Entry],
    ends: &HashMap<RunId, Option<u64>>,
    now_unix_ns: u64,
) -> Vec<Expected> {
    use QueueState::{Running, Waiting};
    let span_ns = |entry: &Entry| {
        let span = std::time::Duration::try_from_secs_f64(entry.estimate_s).unwrap_or_default();
        u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
    };
    let mut expected = vec![Expected::default(); entries.len()];
    let (mut free_ns, mut is_known) = (now_unix_ns, true);
    for (entry, expected) in entries.iter().zip(&mut expected).filter(|(entry, _)| entry.state == Running) {
        let by_plan = entry.started_unix_ns.unwrap_or(now_unix_ns).saturating_add(span_ns(entry));
        let by_plan = (by_plan > now_unix_ns).then_some(by_plan);
        let run = entry.run.filter(|_| entry.wish.is_none());
        expected.end_unix_ns = run.and_then(|run| ends.get(&run)?.or(by_plan));
        is_known &= expected.end_unix_ns.is_some();
        free_ns = free_ns.max(expected.end_unix_ns.unwrap_or(0));
    }
    if !is_known {
        return expected;
    }
    // As the queue does: when the machine is free, the first one that may start runs.
    let mut left: VecDeque<usize> = (0..entries.len()).filter(|at| entries[*at].state == Waiting).collect();
    let earliest = |at: &usize| entries[*at].not_before_unix_ns.unwrap_or(0);
    while !left.is_empty() {
        let may_start = |free_ns: u64| left.iter().position(|at| earliest(at) <= free_ns);
        // Most of 1,000 entries may start at any time: then it is the first one.
        let next = may_start(free_ns).unwrap_or_else(|| {
            free_ns = left.iter().map(earliest).min().unwrap_or(free_ns);
            may_start(free_ns).expect("the soonest one")
        });
        let at = left.remove(next).expect("it is there");
        let end_ns = free_ns.saturating_add(span_ns(&entries[at]));
        expected[at] = Expected { start_unix_ns: Some(free_ns), end_unix_ns: Some(end_ns) };
        free_ns = end_ns;
    }
    expected
}

#[cfg(test)]
mod tests {
    use record::clock::WallAnchor;

    use super::*;

    #[test]
    fn spans_keep_their_digits() {
        let found: Vec<String> =
            [0, 999, 1_500, 99_900, 410_000, 12_345_678, 1_500_000_000].map(duration).into();
        assert_eq!(found, ["0 ns", "999 ns", "1.5 \u{b5}s", "99.9 \u{b5}s", "0.41 ms", "12.3 ms", "1.5 s"]);
    }

    #[test]
    fn times_read_back_and_nonsense_is_refused() {
        let at = 1_764_110_460_000_000_000;
        assert_eq!(read_moment(&rfc3339(at)), Ok(at));
        assert_eq!(read_moment("2025-11-25T22:41"), Ok(at), "a browser's field has no zone and no seconds");
        assert_eq!(read_moment("2025-11-25T23:41:00+01:00"), Ok(at));
        let at = read_moment("2026-11-27T04:00:00Z");
        assert_eq!(read_moment("2026-11-26T23:00:00[America/New_York]"), at, "it has a zone");
        assert_eq!(read_moment("2026-11-26T23:00:00-05:00[America/New_York]"), at);
        for wrong in [
            "2026-11-26T23:00:00[Mars/Olympus]",
            "2026-11-26T23:00[",
            "",
            "tomorrow",
            "1960-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "<b>",
        ] {
            assert!(read_moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_is_expected_after_those_before_it_and_not_before_its_time() {
        let entry = |state, estimate_s, not_before_unix_ns| Entry {
            id: RunId::fresh(WallAnchor::now()),
            plan_sha256: String::new(),
            title: String::new(),
            by: String::new(),
            priority: 0,
            not_before_unix_ns,
            state,
            wish: None,
            run: (state == QueueState::Running).then(|| RunId::fresh(WallAnchor::now())),
            estimate_s,
            submitted_unix_ns: 0,
            started_unix_ns: (state == QueueState::Running).then_some(5_000_000_000),
            ended_unix_ns: None,
            exit_code: None,
            reason: None,
        };
        let mut all = [
            entry(QueueState::Running, 10.0, None),
            entry(QueueState::Waiting, 3.0, None),
            entry(QueueState::Waiting, 1.0, Some(60_000_000_000)),
            entry(QueueState::Paused, 9.0, None),
        ];
        let begun = all.clone();
        let of = |ends: &HashMap<RunId, Option<u64>>, now_s: u64| -> Vec<(Option<u64>, Option<u64>)> {
            let seconds = |at: Option<u64>| at.map(|ns| ns / 1_000_000_000);
            let expected = expected(&begun, ends, now_s * 1_000_000_000);
            expected.into_iter().map(|e| (seconds(e.start_unix_ns), seconds(e.end_unix_ns))).collect()
        };
        let none = HashMap::from([(all[0].run.unwrap(), None)]);
        let waiting = |start, end| (Some(start), Some(end));
        assert_eq!(of(&none, 6), [(None, Some(15)), waiting(15, 18), waiting(60, 61), (None, None)]);
        // One that takes longer has no known end, and those behind it no known start.
        assert_eq!(of(&none, 100), [(None, None); 4]);
        // A plan that must wait does not keep those behind it from running.
        let swapped = [all[2].clone(), all[1].clone()];
        let starts: Vec<_> = expected(&swapped, &none, 0).iter().map(|e| e.start_unix_ns).collect();
        assert_eq!(starts, [Some(60_000_000_000), Some(0)]);
        assert_eq!(of(&HashMap::new(), 6), [(None, None); 4], "it waits for the machine");
        let by_pace = HashMap::from([(all[0].run.unwrap(), Some(40_000_000_000))]);
        assert_eq!(of(&by_pace, 6), [(None, Some(40)), waiting(40, 43), waiting(60, 61), (None, None)]);
        for wish in [archive::Wish::Pause, archive::Wish::Cancel] {
            all[0].wish = Some(wish);
            assert_eq!(
                super::expected(&all, &by_pace, 6_000_000_000),
                [Expected::default(); 4],
                "it stops before that"
            );
        }
    }
}
