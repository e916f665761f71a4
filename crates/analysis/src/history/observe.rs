//! Values of the runs of an archive, with the series that each belongs to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use record::bakeoff::{Bakeoff, Levels, Metric};
use record::commands::{Comparison, Phase, Turn};
use record::environment::Environment;
use record::labels;
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::run::{Run, RunHeader};
use record::unit::{NUMBER_MAX, in_base_unit};

use super::point::{Key, LABEL, Numbers, Observed, Point};
use super::setting;
use crate::cell::{Cell, cells};
use crate::commands::span;
use crate::metric::{done, done_in_all, value};

/// Values of a run, and the metrics without one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// Values.
    pub observed: Vec<Observed>,
    /// Metrics of the run that have no value, with the reason.
    pub left_out: Vec<(String, Missing)>,
    /// Time of an import, nanoseconds since 1970; 0 for other runs. Of two imports of a value the newer
    /// counts.
    pub imported_unix_ns: u64,
}

/// Label of an imported value with the name of the measured thing.
pub const SUBJECT_LABEL: &str = "benchmark";
/// Label of an imported value with its unit.
pub const UNIT_LABEL: &str = "unit";
/// Fact with the time of an import, nanoseconds since 1970. The run itself begins with its first value.
pub const IMPORTED_FACT: &str = "import.unix_ns";
/// Fact with the source of CPU times: `events` or `rusage`.
const CPU_SOURCE_FACT: &str = "cpu-time.source";
/// Label, of a run or of an imported value, with the measured version.
const VERSION_LABEL: &str = "commit";
/// Share of both tails of an interval.
const TAILS: f64 = 0.05;
/// Host of a run that does not know its own.
const UNKNOWN_HOST: &str = "unknown";

/// Values of a single run: the metrics of a load, or the time of a recorded command.
pub fn of_run(run: &Run) -> Observations {
    let mut found = Observations::default();
    if let Some(load) = &run.load {
        let subject = subject_of(load);
        // The rate of an open loop is offered, not achieved.
        let is_open = kind_of_loop(load) == OPEN_LOOP;
        for metric in Metric::OF_LOADS.into_iter().filter(|m| !is_open || *m != Metric::Throughput) {
            let value = value(run, metric).and_then(|v| match (v.middle(), v.unjudged.clone()) {
                (_, Some(why)) => Err(why),
                (None, _) => Err(Missing::because("too many events did not end")),
                (Some(middle), None) => Ok((middle, Ok((v.low, v.high)))),
            });
            let mut facts = facts(&run.header, &run.environment);
            facts.extend(setting::of_load(&load.settings));
            found.put(&run.header, facts, (metric.word(), &subject), value);
        }
    }
    if let Some(recorded) = &run.recorded {
        let subject = run.header.title.clone();
        let ended = done(recorded.end);
        let none = || Err(Missing::because("one value has no interval"));
        let time = recorded.window.as_ref().map_err(Clone::clone);
        let time = time.map(|w| ((w.until_ns - w.from_ns) as f64 * 1e-9, none()));
        // Only events see processes that no parent waited for.
        let (cpu, source) = match (&recorded.by_events_ns, &recorded.by_rusage) {
            (Ok(ns), _) => (Ok(*ns), "events"),
            (Err(_), Ok(split)) => (Ok(split.sum_ns()), "rusage"),
            (Err(_), Err(why)) => (Err(why.clone()), "rusage"),
        };
        let cpu = cpu.map(|ns| (ns as f64 * 1e-9, none()));
        let common = facts(&run.header, &run.environment);
        found.put(&run.header, common, ("time", &subject), ended.clone().and(time));
        // A change of the source is no change of the command: it must be among the suspects.
        let mut facts = facts(&run.header, &run.environment);
        facts.insert(CPU_SOURCE_FACT.to_owned(), source.to_owned());
        found.put(&run.header, facts, ("cpu-time", &subject), ended.and(cpu));
    }
    found
}

/// Values of a comparison of commands: time and CPU time of each command, over its measured rounds.
pub fn of_comparison(run: &Run) -> Observations {
    let mut found = Observations::default();
    let comparison =
        Comparison::read(run).unwrap_or_else(|| Err(Missing::because("the run is of another kind")));
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(why) => {
            found.left_out.push(("every metric".to_owned(), why));
            return found;
        }
    };
    let mut facts = facts(&run.header, &run.environment);
    // The other commands, the seed and the number of rounds are no conditions of a command.
    facts.retain(|name, _| !name.starts_with("compare.") || name.starts_with("compare.setting."));
    for (i, name) in comparison.names().iter().enumerate() {
        // A recorded command has instruments around it: another series.
        let subject = format!("compare: {name}");
        let mean = |figure: fn(&Turn) -> f64| -> Measured {
            done_in_all(&comparison, i)?;
            let values: Vec<f64> = comparison.turns_of(i, Phase::Measured).map(figure).collect();
            if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
                return Err(Missing::because("a round has no value over 0"));
            }
            let span = span(&values, comparison.rules.alpha);
            Ok((
                span.mean,
                span.interval.ok_or_else(|| Missing::because("an interval needs at least 2 rounds")),
            ))
        };
        let mut all = vec![("time", mean(|turn| turn.time_s)), ("cpu-time", mean(comparison.cpu_s()))];
        // Few machines count them: their absence is no news.
        if comparison.turns_of(i, Phase::Measured).all(|turn| turn.instructions.is_ok()) {
            all.push(("instructions", mean(|turn| turn.instructions.clone().unwrap_or(0.0))));
        }
        for (metric, value) in all {
            let mut facts = facts.clone();
            if metric == "cpu-time" {
                facts.insert(CPU_SOURCE_FACT.to_owned(), comparison.cpu_source().to_owned());
            }
            found.put(&run.header, facts, (metric, &subject), value);
        }
    }
    found
}

/// Values of a bake-off: for each metric and cell, the geometric mean over the blocks. A cell has none if one
/// of its blocks has none: the other blocks are a selection.
pub fn of_bakeoff(bakeoff: &Bakeoff) -> Observations {
    let mut first: BTreeMap<&Levels, &Run> = BTreeMap::new();
    for (trial, run) in bakeoff.sealed() {
        first.entry(&trial.levels).or_insert(run);
    }
    let mut found = Observations::default();
    let plan = plan_keys(&bakeoff.plan_text);
    let is_judged = |cell: &Cell| bakeoff.judge.metrics.contains(&cell.metric);
    for cell in cells(bakeoff, TAILS).into_iter().filter(is_judged) {
        let Some(run) = first.get(&cell.levels) else {
            let why = cell.summary.err().unwrap_or_else(|| Missing::because("no trial was sealed"));
            found.left_out.push((cell.metric.word().to_owned(), why));
            continue;
        };
        let loops = run.load.as_ref().map(kind_of_loop);
        if loops == Some(OPEN_LOOP) && cell.metric == Metric::Throughput {
            continue;
        }
        let named = cell.levels.iter().map(|(factor, level)| format!("{factor}={level}"));
        let loops = loops.map(|loops| format!("({loops})"));
        let subject: Vec<String> =
            std::iter::once(bakeoff.header.title.clone()).chain(named).chain(loops).collect();
        let mean = match cell.selection() {
            Some(why) => Err(why),
            None => cell.summary.map(|summary| (summary.mean, summary.interval)),
        };
        let mut facts = facts(&bakeoff.header, &bakeoff.environment);
        // The versions of server and commands are noted with each trial.
        facts.extend(known(&run.environment).filter(|(name, _)| !name.starts_with("trial.")));
        facts.extend(plan.clone());
        facts.extend(run.load.iter().flat_map(|load| setting::of_load(&load.settings)));
        found.put(&bakeoff.header, facts, (cell.metric.word(), &subject.join(" ")), mean);
    }
    found
}

/// Values of an imported history; none of another import.
pub fn of_import(run: &Run) -> Observations {
    let imported_unix_ns = imported_unix_ns(run);
    let mut found = Observations { imported_unix_ns, ..Observations::default() };
    found.left_out.extend(run.unread_series().map(|why| ("every metric".to_owned(), why.clone())));
    let is_table = run.environment.fact("import.tool") == Some("csv");
    let mut of_all = facts(&run.header, &run.environment);
    of_all.retain(|name, _| !name.starts_with("import.") && name != "command" && name != "bakeoff.version");
    // Values with the same labels share their facts: a file of one setting has a million.
    let mut shared: HashMap<&str, Arc<BTreeMap<String, String>>> = HashMap::new();
    for sample in &run.series {
        let labels: BTreeMap<String, String> = labels::read(&sample.labels).into_iter().collect();
        let Some(subject) = labels.get(SUBJECT_LABEL) else { continue };
        let facts = shared.entry(&sample.labels).or_insert_with(|| {
            let own = labels.iter().filter(|(name, _)| *name != SUBJECT_LABEL && *name != UNIT_LABEL);
            let own = own.map(|(name, value)| (name.clone(), value.clone()));
            Arc::new(of_all.clone().into_iter().chain(own).collect())
        });
        // Earlier imports hold the number in the unit of the file.
        let (value, unit) = in_base_unit(sample.value, labels.get(UNIT_LABEL).map_or("", String::as_str));
        if value.is_nan() || value.abs() > NUMBER_MAX {
            continue;
        }
        let is_ours = !is_table && matches!(sample.name.as_str(), "time" | "cpu-time");
        let numbers = if is_ours { Numbers::Ours } else { Numbers::OfFile(unit) };
        let at_ms = i128::from(run.header.anchor.unix_ns / 1_000_000) + i128::from(sample.t_ms);
        found.observed.push(Observed {
            key: Key {
                metric: sample.name.to_string(),
                subject: subject.clone(),
                host: sample.host.to_string(),
                numbers,
            },
            point: Point {
                at_unix_ns: u64::try_from(at_ms * 1_000_000).unwrap_or(0),
                run: run.header.id,
                host: sample.host.to_string(),
                version: [VERSION_LABEL, "version", "run"].iter().find_map(|name| labels.get(*name)).cloned(),
                value,
                interval: Err(Missing::because("an import has no interval")),
                facts: facts.clone(),
            },
        });
    }
    found
}

/// Time of an import, nanoseconds since 1970; 0 if the run does not hold it.
pub fn imported_unix_ns(run: &Run) -> u64 {
    run.environment.fact(IMPORTED_FACT).and_then(|at| at.parse().ok()).unwrap_or(0)
}

type Measured = Maybe<(f64, Maybe<(f64, f64)>)>;

impl Observations {
    /// Result of a run that is not fit for comparison.
    pub fn unfit(header: &RunHeader) -> Self {
        let why = Missing::because(format!("the run is {}", header.state.word()));
        Self { left_out: vec![("every metric".to_owned(), why)], ..Self::default() }
    }

    fn put(
        &mut self,
        header: &RunHeader,
        facts: BTreeMap<String, String>,
        (metric, subject): (&str, &str),
        value: Measured,
    ) {
        let (value, interval) = match value {
            Ok(measured) => measured,
            Err(why) => return self.left_out.push((metric.to_owned(), why)),
        };
        let host = facts.get("host.name").cloned().unwrap_or_else(|| UNKNOWN_HOST.to_owned());
        self.observed.push(Observed {
            key: Key {
                metric: metric.to_owned(),
                subject: subject.to_owned(),
                host: host.clone(),
                numbers: Numbers::Ours,
            },
            point: Point {
                at_unix_ns: header.anchor.unix_ns,
                run: header.id,
                host,
                version: header.labels.get(VERSION_LABEL).cloned(),
                value,
                interval,
                facts: Arc::new(facts),
            },
        });
    }
}

/// Target, workload and kind of loop of a load: what stays the same while settings change. Latency is
/// response time in an open loop and service time in a closed one: two series.
fn subject_of(load: &LoadRecord) -> String {
    let settings = &load.settings;
    format!("{} on {} ({})", settings.workload.word(), settings.target.masked(), kind_of_loop(load))
}

const OPEN_LOOP: &str = "open loop";

fn kind_of_loop(load: &LoadRecord) -> &'static str {
    if load.settings.pace.as_open().is_some() { OPEN_LOOP } else { "closed loop" }
}

fn known(environment: &Environment) -> impl Iterator<Item = (String, String)> {
    environment.facts.iter().filter_map(|(name, value)| Some((name.clone(), value.clone().ok()?)))
}

fn facts(header: &RunHeader, environment: &Environment) -> BTreeMap<String, String> {
    let labels = header.labels.iter().map(|(name, value)| (format!("{LABEL}{name}"), value.clone()));
    let of_run = [
        ("command".to_owned(), header.command.clone()),
        ("bakeoff.version".to_owned(), header.tool_version.clone()),
    ];
    known(environment).chain(labels).chain(of_run).collect()
}

/// The keys of a plan by section, as far as they stand on one line each.
fn plan_keys(text: &str) -> Vec<(String, String)> {
    let (mut section, mut keys) = (String::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') && line.ends_with(']') && !line.contains('=') {
            section = line.trim_matches(['[', ']']).to_owned() + ".";
        } else if let Some((key, value)) = line.split_once('=') {
            keys.push((format!("plan.{section}{}", key.trim()), value.trim().to_owned()));
        }
    }
    keys
}
