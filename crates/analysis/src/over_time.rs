//! Numbers of one run over time, each under the name by which a user asks for it.

use std::collections::{BTreeMap, BTreeSet};

use record::commands::{Comparison, Phase};
use record::load::LoadRecord;
use record::run::Run;

use crate::history::{Key, Numbers, of_import};
use crate::intervals::intervals;
use crate::series::series;

/// Numbers over time, by name. Times are seconds since 1970.
///
/// - Series of the run: their name; with labels, `cpu_event_ratio cpu=1`; of several machines, with the host.
/// - A load: `throughput` and `p99` by interval. Intervals with fewer than 100 events have no p99; time-outs
///   count with the time that they had lasted.
/// - A comparison of commands: `time A` and `cpu A` of each measured round, for each command.
/// - An imported history: its metrics; with a subject, `time sort`; of several machines, with the host; of
///   several units, with the unit.
pub fn over_time(run: &Run) -> BTreeMap<String, Vec<(f64, f64)>> {
    let start_s = run.header.anchor.unix_ns as f64 * 1e-9;
    let mut named: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let imported = of_import(run).observed;
    if !imported.is_empty() {
        let hosts: BTreeSet<&str> = imported.iter().map(|one| one.key.host.as_str()).collect();
        let is_one_host = hosts.len() == 1;
        let mut numbers: BTreeMap<[String; 3], BTreeSet<Numbers>> = BTreeMap::new();
        let parts = |key: &Key| [key.metric.clone(), key.subject.clone(), key.host.clone()];
        for key in imported.iter().map(|one| &one.key) {
            numbers.entry(parts(key)).or_default().insert(key.numbers.clone());
        }
        for one in imported {
            let is_one_unit = numbers[&parts(&one.key)].len() == 1;
            let unit = one.key.unit().filter(|_| !is_one_unit).unwrap_or_default().to_owned();
            let (key, at_s) = (one.key, one.point.at_unix_ns as f64 * 1e-9);
            let host = if is_one_host { String::new() } else { key.host };
            let all = [key.metric, key.subject, host, unit].into_iter().filter(|part| !part.is_empty());
            let name = all.collect::<Vec<_>>().join(" ");
            named.entry(name).or_default().push((at_s, one.point.value));
        }
        return named;
    }
    if let Some(Ok(comparison)) = Comparison::read(run) {
        return of_commands(&comparison, start_s);
    }
    if let Some(load) = &run.load {
        // Its intervals count from the start of the measured phase.
        let measured_s = run.header.anchor.unix_ns_at(load.measured_from_ns) as f64 * 1e-9;
        let (throughput, p99) = of_load(load, measured_s);
        named.insert("throughput".to_owned(), throughput);
        named.insert("p99".to_owned(), p99);
    }
    let all = series(run).series;
    let mut hosts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in &all {
        *hosts.entry((one.name.as_str(), one.labels.as_str())).or_default() += 1;
    }
    for one in &all {
        let host = if hosts[&(one.name.as_str(), one.labels.as_str())] > 1 { one.host.as_str() } else { "" };
        let parts = [one.name.as_str(), one.labels.as_str(), host];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        named.insert(name, one.points.iter().map(|(t, value)| (start_s + t, *value)).collect());
    }
    named.retain(|_, points| !points.is_empty());
    named
}

type Points = Vec<(f64, f64)>;

/// Time and CPU time of each command, at the end of each of its measured executions.
fn of_commands(comparison: &Comparison, start_s: f64) -> BTreeMap<String, Points> {
    let mut named: BTreeMap<String, Points> = BTreeMap::new();
    for command in 0..comparison.commands.len() {
        let letter = Comparison::letter(command);
        for turn in comparison.turns_of(command, Phase::Measured) {
            let at_s = start_s + turn.t_ms as f64 * 1e-3;
            named.entry(format!("time {letter}")).or_default().push((at_s, turn.time_s));
            named.entry(format!("cpu {letter}")).or_default().push((at_s, turn.user_s + turn.system_s));
        }
    }
    named
}

/// Events that ended per second, and their p99 in seconds, at the end of each interval.
fn of_load(load: &LoadRecord, start_s: f64) -> (Points, Points) {
    let (mut throughput, mut p99) = (Vec::new(), Vec::new());
    for interval in intervals(load) {
        let at_s = start_s + interval.until_ns as f64 * 1e-9;
        throughput.push((at_s, interval.ended_per_s()));
        p99.extend(interval.latencies().held_quantile_ns(0.99).map(|ns| (at_s, ns as f64 * 1e-9)));
    }
    (throughput, p99)
}
