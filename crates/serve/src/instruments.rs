//! Instruments of the machine, for the monitor and `/metrics`.
//!
//! Each is a process of this program, such as `bakeoff cpu 1 --json`: it has the rights that it needs, and if
//! it dies, the server does not.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use record::cpu::{UNOWNED_NS, UNSURE_NS};
use serde_json::{Map, Value, json};

/// Instruments that may be asked for, each the name of a command.
pub const INSTRUMENTS: [&str; 5] = ["cpu", "io", "locks", "memory", "nic"];

/// Parts of an interval's document that are shown; a list of a thousand locks is not.
const SHOWN: [&str; 14] = [
    "t_s",
    "interval_s",
    "missed_deadline",
    "rung",
    "events",
    "cpus",
    "all",
    "rates",
    "total",
    "machine",
    "interfaces",
    "missing",
    "lower_bounds",
    "lost",
];
/// Intervals of the CPUs that are drawn.
const STRIP_LENGTH: usize = 60;
/// Age from which an interval is not shown.
const STALE_NS: u64 = 5_000_000_000;
/// Age from which an interval of 1 s is shown with its age: the next one is overdue.
const OF_NOW_NS: u64 = 2_000_000_000;
/// Pause before an instrument that ended is started again.
const AFTER_END: Duration = Duration::from_secs(10);
/// Interval between two looks at the end of the server.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One interval of a CPU: shares of time that it was busy by events and by `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Busy {
    pub(crate) cpu: u64,
    pub(crate) event_ratio: Option<f64>,
    pub(crate) procstat_ratio: Option<f64>,
}

/// Values of the instruments at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The last interval of each instrument, or the reason that it is missing.
    pub(crate) latest: BTreeMap<&'static str, Result<Arc<Value>, String>>,
    /// Age of each interval that is not of this moment.
    pub(crate) ages_s: BTreeMap<&'static str, u64>,
    /// Last intervals of the CPUs, oldest first; an empty one for a time without any. No intervals if the
    /// last one is not of this moment.
    pub(crate) strips: Vec<Arc<Vec<Busy>>>,
}

impl Seen {
    /// The last interval of an instrument.
    pub(crate) fn of(&self, name: &str) -> Option<&Value> {
        self.latest.get(name)?.as_ref().ok().map(Arc::as_ref)
    }

    /// Whether both are of the same intervals.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Result<Arc<Value>, String>, &_)| match (one, other) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        };
        self.ages_s == other.ages_s
            && self.latest.keys().eq(other.latest.keys())
            && self.latest.values().zip(other.latest.values()).all(is_same)
            && self.strips.iter().map(Arc::as_ptr).eq(other.strips.iter().map(Arc::as_ptr))
    }

    /// The last intervals of each CPU as columns, oldest first, null for a gap. `None` if the last interval
    /// is not of this moment.
    pub(crate) fn recent(&self) -> Option<Value> {
        let last = self.strips.last().filter(|last| !last.is_empty())?;
        let of_cpu = |cpu: u64| {
            let all: Vec<Option<&Busy>> =
                self.strips.iter().map(|strip| strip.iter().find(|busy| busy.cpu == cpu)).collect();
            let column =
                |of: fn(&Busy) -> Option<f64>| all.iter().map(|busy| busy.and_then(of)).collect::<Vec<_>>();
            json!({
                "cpu": cpu,
                "event_ratio": column(|busy| busy.event_ratio),
                "procstat_busy_ratio": column(|busy| busy.procstat_ratio),
            })
        };
        Some(last.iter().map(|busy| of_cpu(busy.cpu)).collect())
    }

    /// Document by instrument; a missing one is null, with its reason.
    pub(crate) fn document(&self) -> Value {
        let (mut document, mut missing) = (Map::new(), Map::new());
        if !self.ages_s.is_empty() {
            document.insert("ages_s".to_owned(), json!(self.ages_s));
        }
        for (name, interval) in &self.latest {
            let value = match interval {
                Ok(value) => value.as_ref().clone(),
                Err(why) => {
                    missing.insert((*name).to_owned(), json!(why));
                    Value::Null
                }
            };
            document.insert((*name).to_owned(), value);
        }
        if !missing.is_empty() {
            document.insert("missing".to_owned(), Value::Object(missing));
        }
        Value::Object(document)
    }
}

/// The instruments that run beside the server.
#[derive(Debug)]
pub(crate) struct Instruments {
    latest: Mutex<BTreeMap<&'static str, Latest>>,
    strips: Mutex<VecDeque<Arc<Vec<Busy>>>>,
    /// Living processes; `None` after the end.
    children: Mutex<Option<Vec<Child>>>,
}

#[derive(Debug)]
enum Latest {
    Interval { at_ns: u64, value: Arc<Value> },
    None { why: String },
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Default for Instruments {
    fn default() -> Self {
        Self { latest: Mutex::default(), strips: Mutex::default(), children: Mutex::new(Some(Vec::new())) }
    }
}

impl Instruments {
    /// Follows one instrument until `is_over`.
    pub(crate) fn follow(&self, name: &'static str, program: &Path, is_over: &dyn Fn() -> bool) {
        self.set(name, Latest::None { why: "its first interval has not ended".to_owned() });
        while !is_over() {
            let why = match self.start(name, program) {
                Ok(child) => self.read(name, child),
                Err(error) => format!("cannot start it: {error}"),
            };
            self.set(name, Latest::None { why });
            let since_ns = Monotonic.now_ns();
            while !is_over()
                && Monotonic.now_ns() - since_ns < u64::try_from(AFTER_END.as_nanos()).unwrap_or(0)
            {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// Ends the processes.
    pub(crate) fn end(&self) {
        for mut child in self.children.lock().expect(LOCK).take().unwrap_or_default() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Values of this moment.
    pub(crate) fn seen(&self) -> Seen {
        let now_ns = Monotonic.now_ns();
        let latest = self.latest.lock().expect(LOCK);
        let seen = latest.iter().map(|(name, latest)| {
            let interval = match latest {
                Latest::Interval { at_ns, .. } if now_ns.saturating_sub(*at_ns) > STALE_NS => {
                    Err(format!("no interval since {} s", now_ns.saturating_sub(*at_ns) / 1_000_000_000))
                }
                Latest::Interval { value, .. } => Ok(value.clone()),
                Latest::None { why } => Err(why.clone()),
            };
            (*name, interval)
        });
        let age_s = |(name, latest): (&&'static str, &Latest)| match latest {
            Latest::Interval { at_ns, .. } => Some((*name, now_ns.saturating_sub(*at_ns)))
                .filter(|(_, age_ns)| (OF_NOW_NS..=STALE_NS).contains(age_ns))
                .map(|(name, age_ns)| (name, age_ns / 1_000_000_000)),
            Latest::None { .. } => None,
        };
        let ages_s = latest.iter().filter_map(age_s).collect();
        let latest: BTreeMap<_, _> = seen.collect();
        let is_present = latest.get("cpu").is_some_and(Result::is_ok);
        let strips = self.strips.lock().expect(LOCK);
        let strips = if is_present { strips.iter().cloned().collect() } else { Vec::new() };
        Seen { latest, ages_s, strips }
    }

    fn start(&self, name: &str, program: &Path) -> std::io::Result<std::process::ChildStdout> {
        let mut command = Command::new(program);
        command.args([name, "1", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut children = self.children.lock().expect(LOCK);
        let Some(children) = children.as_mut() else { return Err(std::io::Error::other("the server ends")) };
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut child = command.spawn()?;
        let out = child.stdout.take().expect("it is piped");
        children.push(child);
        Ok(out)
    }

    /// Reads intervals until the process ends; returns the reason that there are no more.
    fn read(&self, name: &'static str, out: std::process::ChildStdout) -> String {
        for value in serde_json::Deserializer::from_reader(BufReader::new(out)).into_iter::<Value>() {
            let Ok(Value::Object(value)) = value else { break };
            self.take(name, value);
        }
        format!("`bakeoff {name} 1` ended: run it by hand to see why")
    }

    /// Takes an interval's document.
    fn take(&self, name: &'static str, mut value: Map<String, Value>) {
        value.retain(|part, _| SHOWN.contains(&part.as_str()));
        let value = Value::Object(value);
        if name == "cpu" {
            if !self.is_present(name) {
                self.draw(Vec::new());
            }
            self.draw(busy(&value));
        }
        self.set(name, Latest::Interval { at_ns: Monotonic.now_ns(), value: Arc::new(value) });
    }

    /// Whether an instrument has an interval that is not old.
    fn is_present(&self, name: &str) -> bool {
        let latest = self.latest.lock().expect(LOCK);
        matches!(latest.get(name), Some(Latest::Interval { at_ns, .. })
            if Monotonic.now_ns().saturating_sub(*at_ns) <= STALE_NS)
    }

    /// Adds an interval of the CPUs; an empty one is a gap.
    fn draw(&self, busy: Vec<Busy>) {
        let mut strips = self.strips.lock().expect(LOCK);
        if busy.is_empty() && strips.is_empty() {
            return;
        }
        strips.push_back(Arc::new(busy));
        let surplus = strips.len().saturating_sub(STRIP_LENGTH);
        strips.drain(..surplus);
    }

    fn set(&self, name: &'static str, latest: Latest) {
        self.latest.lock().expect(LOCK).insert(name, latest);
    }
}

/// Numbers of lost events of an interval by reason, without the times that follow from them.
pub(crate) fn lost(interval: &Value) -> impl Iterator<Item = (&str, u64)> {
    let all = interval["lost"].as_object().into_iter().flatten();
    let counts = all.filter_map(|(reason, n)| Some((reason.as_str(), n.as_u64().filter(|n| *n > 0)?)));
    counts.filter(|(reason, _)| ![UNSURE_NS, UNOWNED_NS].contains(reason))
}

fn busy(interval: &Value) -> Vec<Busy> {
    let cpus = interval["cpus"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |cpu: &Value| Busy {
        cpu: cpu["cpu"].as_u64().unwrap_or_default(),
        event_ratio: cpu["event_ratio"].as_f64(),
        procstat_ratio: cpu["procstat_busy_ratio"].as_f64(),
    };
    cpus.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Follows a program that prints `text` and then ends.
    fn followed(text: &str) -> Instruments {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("bakeoff");
        std::fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{text}\nEND\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let instruments = Instruments::default();
        let out = instruments.start("cpu", &program).unwrap();
        let why = instruments.read("cpu", out);
        assert!(why.contains("bakeoff cpu 1"), "{why}");
        instruments.end();
        instruments
    }

    #[test]
    fn an_instrument_without_a_number_shows_none_and_no_zero() {
        let cpu = r#"{"cpu": 3, "event_ratio": null, "procstat_busy_ratio": 0.5, "missing": {"event_ratio": "no BTF"}}"#;
        let instruments = followed(&format!("{{\"interval_s\": 1.0, \"cpus\": [{cpu}], \"locks\": [1]}}"));
        let seen = instruments.seen();
        assert_eq!(*seen.strips[0], [Busy { cpu: 3, event_ratio: None, procstat_ratio: Some(0.5) }]);
        assert!(seen.of("cpu").unwrap()["locks"].is_null(), "a long list is left out");
        assert_eq!(seen.of("io"), None);
    }

    #[test]
    fn an_interval_keeps_what_it_lost_and_the_reason_of_a_missing_number() {
        let instruments = followed(
            r#"{"interval_s": 1.0, "events": "issue", "missed_deadline": true, "missing": {"machine": "no /proc"},
            "machine": null, "lower_bounds": true, "lost": {"no-room": 7, "unsure-ns": 12, "old": 0}}"#,
        );
        let seen = instruments.seen();
        let cpu = seen.of("cpu").unwrap();
        assert!(cpu["lower_bounds"] == true && cpu["missed_deadline"] == true, "{cpu}");
        assert_eq!((&cpu["missing"]["machine"], &cpu["events"]), (&json!("no /proc"), &json!("issue")));
        assert_eq!(lost(cpu).collect::<Vec<_>>(), [("no-room", 7)], "a time is no number of events");
        assert_eq!(seen.document()["cpu"]["lost"]["unsure-ns"], 12);
    }

    #[test]
    fn the_cpus_of_an_instrument_that_ended_are_not_those_of_this_moment() {
        let interval = r#"{"interval_s": 1.0, "cpus": [{"cpu": 0, "event_ratio": 0.5}]}"#;
        let instruments = followed(interval);
        instruments.set("cpu", Latest::None { why: "it ended".to_owned() });
        assert!(instruments.seen().strips.is_empty(), "its last numbers are old");
        // After its next start, the time in between is a gap.
        let latest = Latest::Interval { at_ns: Monotonic.now_ns(), value: Arc::default() };
        instruments.take("cpu", serde_json::from_str(interval).unwrap());
        instruments.set("cpu", latest);
        let lengths: Vec<usize> = instruments.seen().strips.iter().map(|all| all.len()).collect();
        assert_eq!(lengths, [1, 0, 1]);
        // One that hung leaves a gap, too.
        instruments.set("cpu", Latest::Interval { at_ns: 0, value: Arc::default() });
        assert!(instruments.seen().strips.is_empty());
        instruments.take("cpu", serde_json::from_str(interval).unwrap());
        let lengths: Vec<usize> = instruments.seen().strips.iter().map(|all| all.len()).collect();
        assert_eq!(lengths, [1, 0, 1, 0, 1]);
    }

    #[test]
    fn an_instrument_that_ended_has_a_reason() {
        let instruments = followed("not JSON");
        instruments.set("cpu", Latest::None { why: "it ended".to_owned() });
        let document = instruments.seen().document();
        assert!(document["cpu"].is_null() && document["missing"]["cpu"] == "it ended", "{document}");
        let at = |age_s: u64| Latest::Interval {
            at_ns: Monotonic.now_ns() - age_s * 1_000_000_000,
            value: Arc::default(),
        };
        instruments.set("cpu", at(1));
        assert!(instruments.seen().document()["ages_s"].is_null(), "it is of this moment");
        instruments.set("cpu", at(3));
        assert_eq!(instruments.seen().document()["ages_s"]["cpu"], 3);
        let old = Latest::Interval { at_ns: 0, value: Arc::default() };
        instruments.set("cpu", old);
        assert!(instruments.seen().of("cpu").is_none(), "an old interval is not the present one");
    }
}
