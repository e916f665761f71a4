//! The set-up: differences between the configurations, settings of every run, and the machine.

use std::collections::BTreeMap;

use analysis::Comparisons;
use record::bakeoff::{Bakeoff, Levels};
use record::load::{LoadRecord, LoadSettings, Loop, OfAgent, Think, Workload};
use record::quantity;

use super::figures::configurations;
use super::{Block, Section, Table, Tone, Words};
use crate::names::Names;
use crate::number::{count, span};
use crate::words::only;

/// The section of the set-up.
pub(super) fn configuration_summary(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let mut facts = Table::new("The machine", &["fact", "value"]);
    for (name, value) in &bakeoff.environment.facts {
        let value: Words = match value {
            Ok(value) => value.clone().into(),
            Err(missing) => Words::toned(format!("unknown: {missing}"), Tone::Doubt),
        };
        facts.row(vec![name.clone().into(), value]);
    }
    let tables = [differences(bakeoff, comparisons), settings_table(bakeoff)];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty()).map(Block::Table);
    let blocks = tables.chain([Block::Folded(facts)]).collect();
    Section { id: "configuration", title: "What differed, and the machine", blocks }
}

/// Differences between configurations: by design, and as recorded in the runs.
pub(super) fn differences(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Table {
    let configurations = configurations(comparisons);
    let names = Names::of(comparisons);
    let names: Vec<String> = configurations.iter().map(|a| names.configuration(a)).collect();
    let heads: Vec<&str> = std::iter::once("what").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("What differs between the configurations", &heads);
    let found: Vec<BTreeMap<String, String>> =
        configurations.iter().map(|a| properties(bakeoff, comparisons, a)).collect();
    let mut keys: Vec<&String> = found.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let values: Vec<Option<&String>> = found.iter().map(|f| f.get(key)).collect();
        if values.windows(2).any(|w| w[0] != w[1]) {
            let cells = values.into_iter().map(|v| v.cloned().unwrap_or_else(|| "-".to_owned()).into());
            table.row(std::iter::once(key.clone().into()).chain(cells).collect());
        }
    }
    table
}

/// All known properties of a configuration's sealed runs; a property with several values lists them all.
fn properties(bakeoff: &Bakeoff, comparisons: &Comparisons, a: &Levels) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut note = |key: String, value: String| {
        let values = found.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    };
    for (name, value) in a {
        note(format!("factor {name}"), value.clone());
    }
    for (_, run) in bakeoff.sealed().filter(|(t, _)| only(&t.levels, &comparisons.compared) == *a) {
        for (name, value) in &run.environment.facts {
            // Facts that differ between trials are not properties of a configuration.
            if let (Ok(value), false) = (value, name.starts_with("trial.")) {
                note(format!("machine {name}"), value.clone());
            }
        }
        for (name, value) in run.load.iter().flat_map(of_load) {
            note(format!("load {name}"), value);
        }
        if let Some(Ok(version)) = run.load.as_ref().map(|l| l.server_version.as_ref()) {
            note("server version".into(), version.clone());
        }
    }
    found
        .into_iter()
        .map(|(key, mut values)| {
            sort_as_read(&mut values);
            (key, values.join(", "))
        })
        .collect()
}

/// Sorts numbers by value, then words alphabetically.
fn sort_as_read(values: &mut [String]) {
    let number = |v: &String| v.parse::<f64>().unwrap_or(f64::INFINITY);
    values.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
}

fn settings_table(bakeoff: &Bakeoff) -> Table {
    let mut table = Table::new("The load, as requested for every run", &["setting", "value"]);
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (_, run) in bakeoff.sealed() {
        for (name, value) in run.load.iter().flat_map(of_load) {
            let values = found.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    for (name, mut values) in found {
        sort_as_read(&mut values);
        table.row(vec![name.into(), values.join(", ").into()]);
    }
    table
}

/// Settings of a load, and what generated it if it was a fleet.
pub(super) fn of_load(load: &LoadRecord) -> Vec<(&'static str, String)> {
    let mut told = settings(&load.settings);
    if !load.agents.is_empty() {
        let weight = |of: &OfAgent| match of.weight {
            1 => String::new(),
            weight => format!(" (weight {weight})"),
        };
        let named = |of: &OfAgent| format!("{} on {}{}", of.agent, of.host, weight(of));
        let agents: Vec<String> = load.agents.iter().map(named).collect();
        let count = quantity::plural(agents.len() as u64, "agent");
        told.push(("generated by", format!("{count}: {}", agents.join(", "))));
    }
    told
}

/// Settings of a load, by name.
pub(crate) fn settings(s: &LoadSettings) -> Vec<(&'static str, String)> {
    let mut told = vec![
        ("target", s.target.masked()),
        ("workload", s.workload.word().to_owned()),
        ("threads", s.threads.to_string()),
        ("connections", s.connections_in_all().to_string()),
        ("retries at most", s.retries_max.to_string()),
        ("warm-up", span(s.warmup.as_secs_f64())),
        ("measured", span(s.time.as_secs_f64())),
        ("seed", s.seed.to_string()),
    ];
    match &s.pace {
        Loop::Closed { think: Think::None } => {
            told.push(("rate", "closed loop, no think time".to_owned()));
        }
        Loop::Closed { think } => told.push(("rate", format!("closed loop, think time {think}"))),
        Loop::Open(open) => told.extend([
            ("rate", format!("{}/s", crate::number::rate(open.per_s))),
            ("arrivals", open.arrivals.to_string()),
            ("schedule", open.schedule.word().to_owned()),
            ("late events", open.late.to_string()),
        ]),
    }
    for file in &s.scripts.files {
        told.push(match file.weight {
            0 => ("module", file.name.clone()),
            _ if file.is_lua() => ("script", file.name.clone()),
            weight => ("script", format!("{}, weight {weight}", file.name)),
        });
    }
    for command in &s.kv.commands {
        told.push(("command", format!("{}, weight {}", command.text, command.weight)));
    }
    if s.workload == Workload::Kv {
        told.extend([
            ("keys", count(s.kv.keys)),
            ("value sizes", s.kv.sizes_text()),
            ("events that read", format!("{} %", 100.0 * s.kv.get_ratio)),
            ("key distribution", s.kv.distribution.to_string()),
            ("values checked", if s.verify { "yes".to_owned() } else { "no".to_owned() }),
        ]);
    } else if !matches!(s.workload, Workload::Native | Workload::Script) {
        let o = &s.oltp;
        told.extend([
            ("tables", o.tables.to_string()),
            ("rows per table", count(o.rows)),
            ("row distribution", o.distribution.to_string()),
            ("statements", if o.prepared { "prepared".to_owned() } else { "not prepared".to_owned() }),
        ]);
    }
    told
}
