//! Forms of values that pages and documents share.

use archive::{Entry, Standing};
use jiff::Timestamp;
use record::bakeoff::TrialState;
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

/// Reads `2026-11-25T22:41:00Z`, or without a zone as UTC, as a browser's field gives it.
pub(crate) fn read_moment(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: expected 2026-11-25T22:41:00Z");
    let local = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let at = text.parse::<Timestamp>().ok().or_else(|| local().map(|zoned| zoned.timestamp()));
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

/// Document of an entry of the queue.
///
/// - `expected_start_unix_ns`: for one that waits.
pub(crate) fn entry(entry: &Entry, expected_start_unix_ns: Option<u64>) -> Value {
    let time = |at: Option<u64>| at.map(rfc3339);
    json!({
        "id": entry.id.to_string(),
        "plan_sha256": entry.plan_sha256,
        "title": entry.title,
        "by": entry.by,
        "priority": entry.priority,
        "not_before": time(entry.not_before_unix_ns),
        "state": entry.state.word(),
        "wish": entry.wish.map(archive::Wish::word),
        "run": entry.run.map(|run| run.to_string()),
        "estimate_s": entry.estimate_s,
        "submitted_at": rfc3339(entry.submitted_unix_ns),
        "started_at": time(entry.started_unix_ns),
        "ended_at": time(entry.ended_unix_ns),
        "expected_start": time(expected_start_unix_ns),
        "exit_code": entry.exit_code,
        "reason": entry.reason,
    })
}

/// Document of a bake-off that runs.
pub(crate) fn standing(standing: &Standing) -> Value {
    let trials = standing.trials.iter().map(|told| {
        json!({
            "trial": told.trial.index,
            "block": told.trial.block,
            "series": told.trial.series,
            "levels": told.trial.levels,
            "state": if told.is_current { "measuring" } else { told.state.word() },
            "reason": told.reason,
            "run": told.run.map(|run| run.to_string()),
        })
    });
    json!({
        "run": standing.header.id.to_string(),
        "kind": standing.header.kind.word(),
        "title": standing.header.title,
        "state": standing.header.state.word(),
        "started": rfc3339(standing.header.anchor.unix_ns),
        "trials": standing.trials.len(),
        "sealed": standing.count(TrialState::Sealed),
        "invalid": standing.count(TrialState::Invalid),
        "failed": standing.count(TrialState::Failed),
        "order": trials.collect::<Vec<_>>(),
    })
}

/// Expected starts of the entries that wait, in their order: each after those before it, with the least
/// durations of their plans.
pub(crate) fn expected_starts(entries: &[Entry], now_unix_ns: u64) -> Vec<Option<u64>> {
    use archive::QueueState::{Running, Waiting};
    let span_ns = |entry: &Entry| {
        let span = std::time::Duration::try_from_secs_f64(entry.estimate_s).unwrap_or_default();
        u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
    };
    let mut free_ns = now_unix_ns;
    let expected = entries.iter().map(|entry| match entry.state {
        Running => {
            let began = entry.started_unix_ns.unwrap_or(now_unix_ns);
            free_ns = free_ns.max(began.saturating_add(span_ns(entry)));
            None
        }
        Waiting => {
            let start = free_ns.max(entry.not_before_unix_ns.unwrap_or(0));
            free_ns = start.saturating_add(span_ns(entry));
            Some(start)
        }
        _ => None,
    });
    expected.collect()
}

#[cfg(test)]
mod tests {
    use archive::QueueState;
    use record::clock::WallAnchor;
    use record::run::RunId;

    use super::*;

    #[test]
    fn times_read_back_and_nonsense_is_refused() {
        let at = 1_764_110_460_000_000_000;
        assert_eq!(read_moment(&rfc3339(at)), Ok(at));
        assert_eq!(read_moment("2025-11-25T22:41"), Ok(at), "a browser's field has no zone and no seconds");
        assert_eq!(read_moment("2025-11-25T23:41:00+01:00"), Ok(at));
        for wrong in ["", "tomorrow", "1960-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "<b>"] {
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
            run: None,
            estimate_s,
            submitted_unix_ns: 0,
            started_unix_ns: (state == QueueState::Running).then_some(5_000_000_000),
            ended_unix_ns: None,
            exit_code: None,
            reason: None,
        };
        let all = [
            entry(QueueState::Running, 10.0, None),
            entry(QueueState::Waiting, 3.0, None),
            entry(QueueState::Waiting, 1.0, Some(60_000_000_000)),
            entry(QueueState::Paused, 9.0, None),
        ];
        let seconds = |now_s: u64| -> Vec<Option<u64>> {
            let expected = expected_starts(&all, now_s * 1_000_000_000);
            expected.into_iter().map(|at| at.map(|ns| ns / 1_000_000_000)).collect()
        };
        assert_eq!(seconds(6), [None, Some(15), Some(60), None]);
        assert_eq!(
            seconds(100),
            [None, Some(100), Some(103), None],
            "one that takes longer is not in the past"
        );
    }
}
