//! `/metrics`: queue and running load as OpenMetrics text.

use std::fmt::Write as _;
use std::sync::Arc;

use archive::QueueState;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use record::bakeoff::TrialState;
use record::histogram::Bound;
use serde_json::Value;

use crate::answer::answer;
use crate::app::App;
use crate::instruments::{Seen, lost};
use crate::monitor::{Now, Running};
use crate::pages::aside;
use crate::view::bound;

/// Type of OpenMetrics text.
pub(crate) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers of the last interval of a load: name, meaning, path in its line, and factor to the unit.
const OF_LOADS: [(&str, &str, &[&str], f64); 7] = [
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
    (
        "bakeoff_load_lateness_p99_seconds",
        "99th percentile of the generator's own delay in the last interval.",
        &["lateness_ns", "p99"],
        1e-9,
    ),
];

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    aside(&app, |app| {
        let snapshot = app.listing.snapshot();
        let list = List { rows: snapshot.rows.len(), damaged: snapshot.damaged, age_s: app.listing.age_s() };
        answer(StatusCode::OK, TYPE, text(&app.monitor.look(), list))
    })
    .await
}

/// Samples of a family: labels, and the value.
type Samples = Vec<(String, f64)>;

/// Numbers of the list of runs.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    rows: usize,
    damaged: usize,
    age_s: u64,
}

fn text(now: &Now, list: List) -> String {
    let mut out = String::new();
    let mut family = |name: &str, help: &str, samples: Samples| {
        // A family without a sample is left out: its value is missing, not 0.
        if samples.is_empty() {
            return;
        }
        writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}").expect(STRING);
        for (labels, value) in samples {
            writeln!(out, "{name}{labels} {value}").expect(STRING);
        }
    };
    let count = |state| f64::from(now.counts.get(&state).copied().unwrap_or(0));
    let states = QueueState::ALL.map(|state| (format!("{{state=\"{}\"}}", state.word()), count(state)));
    let states = if now.unlisted.is_some() { Samples::new() } else { states.to_vec() };
    family("bakeoff_queue_entries", "Entries of the queue by state.", states);
    for (name, help, value) in of_runs(list) {
        family(name, help, vec![(String::new(), value)]);
    }
    family(
        "bakeoff_running",
        "Bake-offs and loads that run now.",
        vec![(String::new(), now.running.len() as f64)],
    );
    for (word, state) in
        [("sealed", TrialState::Sealed), ("invalid", TrialState::Invalid), ("failed", TrialState::Failed)]
    {
        let of_run = |running: &Running| {
            Some((of(&running.header.id.to_string()), running.standing.as_ref()?.count(state) as f64))
        };
        family(
            &format!("bakeoff_trials_{word}"),
            &format!("Trials of a running bake-off that are {word}."),
            now.running.iter().filter_map(of_run).collect(),
        );
    }
    for (name, help, path, scale) in OF_LOADS {
        let of_run = |running: &Running| {
            let value = number(running.interval.as_ref()?, path)?;
            Some((of(&running.header.id.to_string()), value * scale))
        };
        family(name, help, now.running.iter().filter_map(of_run).collect());
    }
    for (name, help, samples) in doubts(now) {
        family(name, help, samples);
    }
    let age = |running: &Running| Some((of(&running.header.id.to_string()), running.age_s? as f64));
    family(
        "bakeoff_load_age_seconds",
        "Age of the last interval of a load, if the next one is overdue.",
        now.running.iter().filter_map(age).collect(),
    );
    family(
        "bakeoff_instrument_age_seconds",
        "Age of the last interval of an instrument, if the next one is overdue.",
        now.machine.ages_s.iter().map(|(name, s)| (labels(&[("instrument", name)]), *s as f64)).collect(),
    );
    for (name, help, instrument, of_it) in OF_INSTRUMENTS {
        family(
            name,
            help,
            now.machine.of(instrument).map(|interval| of_it.samples(interval)).unwrap_or_default(),
        );
    }
    out.push_str("# EOF\n");
    out
}

/// Families of the list of runs: name, meaning, value.
fn of_runs(list: List) -> [(&'static str, &'static str, f64); 3] {
    [
        (
            "bakeoff_runs",
            "Rows of the list: bake-offs and single runs, without the runs of bake-offs and without damaged ones.",
            list.rows as f64,
        ),
        ("bakeoff_runs_damaged", "Folders of runs that cannot be read.", list.damaged as f64),
        ("bakeoff_runs_age_seconds", "Time since the list was as the archive.", list.age_s as f64),
    ]
}

/// Families that say which numbers are bounds: name, meaning, samples.
fn doubts(now: &Now) -> [(&'static str, &'static str, Samples); 2] {
    let bounds_of = |running: &Running| {
        running.interval.as_ref().map_or(Samples::new(), |i| bounds(&running.header.id.to_string(), i))
    };
    let seen = &now.machine;
    [
        (
            "bakeoff_load_latency_bound",
            "1 if a latency of the last interval is only a lower or an upper bound.",
            now.running.iter().flat_map(bounds_of).collect(),
        ),
        (
            "bakeoff_instrument_lost",
            "Events lost in the last interval: numbers are lower bounds, those of CPUs may be off either way.",
            seen.latest.keys().flat_map(|name| losses(name, seen)).collect(),
        ),
    ]
}

/// Whether the latencies of an interval of a load are lower or upper bounds.
fn bounds(run: &str, interval: &Value) -> Samples {
    let latency = &interval["latency_ns"];
    let known = ["p50", "p99"].into_iter().filter(|number| latency[*number].is_number());
    let of = |number| {
        [("lower", Bound::Lower), ("upper", Bound::Upper)].map(|(word, is_it)| {
            let holds = [is_it, Bound::Neither].contains(&bound(latency, number));
            (labels(&[("run", run), ("number", number), ("bound", word)]), f64::from(u8::from(holds)))
        })
    };
    known.flat_map(of).collect()
}

/// Events that an instrument lost.
fn losses(instrument: &str, seen: &Seen) -> Samples {
    let of = |(reason, n): (&str, u64)| (labels(&[("instrument", instrument), ("reason", reason)]), n as f64);
    seen.of(instrument).into_iter().flat_map(lost).map(of).collect()
}

fn number(value: &Value, path: &[&str]) -> Option<f64> {
    path.iter().fold(value, |value, name| &value[*name]).as_f64()
}

/// Place of the samples of a family in an interval of an instrument.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// One number: its path.
    One(&'static [&'static str]),
    /// A number per second: its path.
    Rate(&'static [&'static str]),
    /// Numbers, each with a label: the label's name, and value and path of each.
    Each(&'static str, &'static [(&'static str, &'static [&'static str])]),
    /// Numbers of a list's elements: the list, the label's name and place, then numbers with a second label.
    List(&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]),
    /// One number of each of a list's elements, per second.
    ListRate(&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]),
}

/// Numbers of instruments: name, meaning, instrument, and place.
const OF_INSTRUMENTS: [(&str, &str, &str, Of); 13] = [
    (
        "bakeoff_cpu_busy_ratio",
        "Share of the last interval in which a CPU was busy, by method.",
        "cpu",
        Of::List(
            "cpus",
            "cpu",
            "method",
            &[
                ("event", "event_ratio"),
                ("procstat", "procstat_busy_ratio"),
                ("tick_before", "tick_before_ratio"),
                ("tick_after", "tick_after_ratio"),
                ("sampled", "sampled_ratio"),
            ],
        ),
    ),
    (
        "bakeoff_cpu_unaccounted_ratio",
        "Share of the last interval that /proc/stat does not account for.",
        "cpu",
        Of::One(&["all", "unaccounted_ratio"]),
    ),
    (
        "bakeoff_run_queue_wait_seconds_per_second",
        "Time that runnable threads waited for a CPU.",
        "cpu",
        Of::Rate(&["all", "run_queue_wait_s"]),
    ),
    (
        "bakeoff_io_requests_per_second",
        "Block requests by operation.",
        "io",
        Of::Each(
            "op",
            &[
                ("read", &["rates", "reads_per_s"]),
                ("write", &["rates", "writes_per_s"]),
                ("flush", &["rates", "flushes_per_s"]),
                ("discard", &["rates", "discards_per_s"]),
            ],
        ),
    ),
    ("bakeoff_lock_waits_per_second", "Waits for kernel locks.", "locks", Of::Rate(&["total", "count"])),
    (
        "bakeoff_lock_spin_ratio",
        "Share of all CPUs that spun for kernel locks.",
        "locks",
        Of::One(&["total", "cpu_util_ratio"]),
    ),
    (
        "bakeoff_nic_bytes_per_second",
        "Traffic of a network interface.",
        "nic",
        Of::ListRate("interfaces", "name", "direction", &[("receive", "rx_bytes"), ("transmit", "tx_bytes")]),
    ),
    (
        "bakeoff_nic_packets_per_second",
        "Packets of a network interface.",
        "nic",
        Of::ListRate(
            "interfaces",
            "name",
            "direction",
            &[("receive", "rx_packets"), ("transmit", "tx_packets")],
        ),
    ),
    (
        "bakeoff_memory_available_bytes",
        "Memory that programs can get without swapping.",
        "memory",
        Of::One(&["machine", "available_bytes"]),
    ),
    ("bakeoff_memory_total_bytes", "Memory of the machine.", "memory", Of::One(&["machine", "total_bytes"])),
    ("bakeoff_swap_used_bytes", "Swap in use.", "memory", Of::One(&["machine", "swap_used_bytes"])),
    (
        "bakeoff_memory_major_faults_per_second",
        "Page faults that read from a disk.",
        "memory",
        Of::Rate(&["machine", "major_faults"]),
    ),
    (
        "bakeoff_memory_pressure_ratio",
        "Share of the last interval in which some task waited for memory.",
        "memory",
        Of::One(&["machine", "pressure_some_ratio"]),
    ),
];

impl Of {
    fn samples(self, interval: &Value) -> Samples {
        let per_s = |value: f64| Some(value / interval["interval_s"].as_f64().filter(|s| *s > 0.0)?);
        let alone = |value: Option<f64>| value.map(|value| (String::new(), value)).into_iter().collect();
        match self {
            Self::One(path) => alone(number(interval, path)),
            Self::Rate(path) => alone(number(interval, path).and_then(per_s)),
            Self::Each(label, places) => {
                let one = |(word, path): &(&str, &[&str])| {
                    Some((labels(&[(label, *word)]), number(interval, path)?))
                };
                places.iter().filter_map(one).collect()
            }
            Self::List(list, label, second, places) => {
                of_list(interval, (list, label, second), places, &Some)
            }
            Self::ListRate(list, label, second, places) => {
                of_list(interval, (list, label, second), places, &per_s)
            }
        }
    }
}

/// Numbers of a list's elements.
///
/// - `names`: of the list, of the place and label that tell its elements apart, and of the second label.
fn of_list(
    interval: &Value,
    (list, label, second): (&str, &str, &str),
    places: &[(&str, &str)],
    form: &dyn Fn(f64) -> Option<f64>,
) -> Samples {
    let elements = interval[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_element = |element: &Value| {
        let name = element[label].as_str().map_or_else(|| element[label].to_string(), str::to_owned);
        let one = |(word, place): &(&str, &str)| {
            let value = element[*place].as_f64().and_then(form)?;
            let first = if list == "interfaces" { "interface" } else { label };
            Some((labels(&[(first, &name), (second, *word)]), value))
        };
        places.iter().filter_map(one).collect::<Samples>()
    };
    elements.iter().flat_map(of_element).collect()
}

/// Labels of a sample, with the escapes of OpenMetrics: an interface may have any name.
fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", all.join(","))
}

const STRING: &str = "a String takes all that is written to it";

/// Label of a run.
fn of(run: &str) -> String {
    labels(&[("run", run)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_running_load_its_numbers_are_absent_and_not_zero() {
        let text = text(&Now::default(), List { rows: 3, damaged: 1, age_s: 40 });
        for line in ["bakeoff_runs 3\n", "bakeoff_runs_damaged 1\n", "bakeoff_runs_age_seconds 40\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("without the runs of bake-offs") && text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("bakeoff_queue_entries{state=\"waiting\"} 0\n"), "{text}");
        assert!(!text.contains("bakeoff_load"), "{text}");
        assert!(!text.contains("bakeoff_cpu"), "{text}");
    }

    #[test]
    fn a_bound_and_a_loss_are_samples() {
        let interval = json!({"latency_ns": {"p50": 100, "p99": 2_000, "lower_bounds": ["p99"]}});
        let found = bounds("x", &interval);
        let of = |number: &str, bound: &str| {
            let labels = format!("{{run=\"x\",number=\"{number}\",bound=\"{bound}\"}}");
            found.iter().find(|(found, _)| *found == labels).unwrap().1
        };
        let all = [of("p50", "lower"), of("p50", "upper"), of("p99", "lower"), of("p99", "upper")];
        assert_eq!(all.map(|holds| holds > 0.0), [false, false, true, false], "{found:?}");
        assert_eq!(bounds("x", &json!({"latency_ns": null})), [], "a missing number is no exact one");
        let mut now = Now::default();
        let locks = json!({"interval_s": 1.0, "total": {"count": 3}, "lost": {"no-room": 7}});
        now.machine.latest.insert("locks", Ok(Arc::new(locks)));
        let lost = "bakeoff_instrument_lost{instrument=\"locks\",reason=\"no-room\"} 7\n";
        assert!(text(&now, List::default()).contains(lost), "{}", text(&now, List::default()));
    }

    #[test]
    fn numbers_of_instruments_have_their_unit_and_a_hostile_name_stays_a_label() {
        let mut now = Now::default();
        let mut see = |name, value: Value| drop(now.machine.latest.insert(name, Ok(Arc::new(value))));
        see(
            "nic",
            json!({"interval_s": 2.0, "interfaces": [
                {"name": "eth\"0\\\n", "rx_bytes": 3000, "tx_bytes": null},
            ]}),
        );
        see(
            "cpu",
            json!({"interval_s": 2.0, "all": {"run_queue_wait_s": 1.0}, "cpus": [
                {"cpu": 7, "event_ratio": 0.5, "procstat_busy_ratio": null},
            ]}),
        );
        let text = text(&now, List::default());
        let line = r#"bakeoff_nic_bytes_per_second{interface="eth\"0\\\n",direction="receive"} 1500"#;
        assert!(text.contains(&format!("{line}\n")), "{text}");
        assert!(text.contains("bakeoff_cpu_busy_ratio{cpu=\"7\",method=\"event\"} 0.5\n"), "{text}");
        assert!(text.contains("bakeoff_run_queue_wait_seconds_per_second 0.5\n"), "{text}");
        assert!(!text.contains("transmit") && !text.contains("procstat\"}"), "missing is not zero: {text}");
    }
}
