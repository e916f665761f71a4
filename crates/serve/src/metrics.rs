//! `/metrics`: queue and running load as OpenMetrics text.

use std::fmt::Write as _;
use std::sync::Arc;

use archive::QueueState;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use record::bakeoff::TrialState;
use serde_json::Value;

use crate::answer::answer;
use crate::app::App;
use crate::monitor::Now;
use crate::pages::aside;

const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers of the last interval of a load: name, meaning, path in its line, and factor to the unit.
const OF_LOADS: [(&str, &str, &[&str], f64); 6] = [
    (
        "bakeoff_load_offered_per_second",
        "Events due per second in the last interval.",
        &["offered_per_s"],
        1.0,
    ),
    (
        "bakeoff_load_done_per_second",
        "Events done per second in the last interval.",
        &["achieved_per_s"],
        1.0,
    ),
    ("bakeoff_load_backlog", "Events due and not ended.", &["backlog"], 1.0),
    ("bakeoff_load_errors", "Failed tries in the last interval.", &["errors"], 1.0),
    (
        "bakeoff_load_latency_p50_seconds",
        "Median latency of the last interval.",
        &["latency_ns", "p50"],
        1e-9,
    ),
    (
        "bakeoff_load_latency_p99_seconds",
        "99th percentile of the last interval.",
        &["latency_ns", "p99"],
        1e-9,
    ),
];

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    aside(&app, |app| {
        let runs = app.listing.snapshot().rows.len();
        answer(StatusCode::OK, TYPE, text(&app.monitor.look(), runs))
    })
    .await
}

fn text(now: &Now, runs: usize) -> String {
    let mut out = String::new();
    let mut family = |name: &str, help: &str, samples: &[(String, f64)]| {
        // A family without a sample is left out: its value is missing, not 0.
        if samples.is_empty() {
            return;
        }
        writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}").expect(STRING);
        for (labels, value) in samples {
            writeln!(out, "{name}{labels} {value}").expect(STRING);
        }
    };
    let count = |state| now.entries.iter().filter(|entry| entry.state == state).count() as f64;
    let states = QueueState::ALL.map(|state| (format!("{{state=\"{}\"}}", state.word()), count(state)));
    family("bakeoff_queue_entries", "Entries of the queue by state.", &states);
    family("bakeoff_runs", "Runs and bake-offs in the archive.", &[(String::new(), runs as f64)]);
    let is_running = now.running.len() as f64;
    family("bakeoff_running", "Bake-offs that run now.", &[(String::new(), is_running)]);
    for (word, state) in
        [("sealed", TrialState::Sealed), ("invalid", TrialState::Invalid), ("failed", TrialState::Failed)]
    {
        let samples: Vec<_> = now
            .running
            .iter()
            .map(|running| {
                (of(&running.standing.header.id.to_string()), running.standing.count(state) as f64)
            })
            .collect();
        family(
            &format!("bakeoff_trials_{word}"),
            &format!("Trials of a running bake-off that are {word}."),
            &samples,
        );
    }
    for (name, help, path, scale) in OF_LOADS {
        let value = |interval: &Value| path.iter().fold(interval, |value, name| &value[*name]).as_f64();
        let samples: Vec<_> = now
            .running
            .iter()
            .filter_map(|running| {
                let value = running.intervals.last().and_then(value)?;
                Some((of(&running.standing.header.id.to_string()), value * scale))
            })
            .collect();
        family(name, help, &samples);
    }
    out.push_str("# EOF\n");
    out
}

const STRING: &str = "a String takes all that is written to it";

/// Label of a run. An id needs no escapes.
fn of(run: &str) -> String {
    format!("{{run=\"{run}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_running_load_its_numbers_are_absent_and_not_zero() {
        let text = text(&Now::default(), 3);
        assert!(text.contains("bakeoff_runs 3\n") && text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("bakeoff_queue_entries{state=\"waiting\"} 0\n"), "{text}");
        assert!(!text.contains("bakeoff_load"), "{text}");
    }
}
