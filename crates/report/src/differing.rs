//! Differences between archived runs besides what is compared: the machine, the settings, the version.

use std::collections::{BTreeMap, BTreeSet};

use analysis::history::deciding_settings;
use analysis::sides::condition;
use record::bakeoff::Bakeoff;
use record::environment::Environment;
use record::load::LoadSettings;
use record::run::Run;

use crate::page::load_settings;

/// One property that is not the same on all sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The property: a fact about the machine, a setting of the load.
    pub what: String,
    /// Whether it is a property of the machine or of the software on it.
    pub of_machine: bool,
    /// Values of each side, in the order of the sides; several if a side's own runs differ.
    pub values: Vec<(String, Vec<String>)>,
}

/// Facts that change from run to run and say nothing about the machine.
const FLEETING: [&str; 3] = ["trial.", "compare.seed", "compare.rounds_planned"];
/// Most values of one side that a text names.
const VALUES_SHOWN: usize = 3;

impl Difference {
    /// `kernel.release: 6.1 (night-1), 6.6 (night-2)`.
    pub fn text(&self) -> String {
        let side = |(name, values): &(String, Vec<String>)| {
            let more = values.len().saturating_sub(VALUES_SHOWN);
            let shown: Vec<&str> = values.iter().take(VALUES_SHOWN).map(String::as_str).collect();
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let shown = if shown.is_empty() { "unknown".to_owned() } else { shown.join(" or ") };
            format!("{shown}{more} ({name})")
        };
        format!("{}: {}", self.what, self.values.iter().map(side).collect::<Vec<_>>().join(", "))
    }
}

/// Subjects of the runs of a side: runs of different subjects are not compared.
#[derive(Debug, Clone, Default)]
pub struct Subjects {
    /// Subjects by condition; that of a whole run or bake-off has an empty one.
    by_condition: BTreeMap<String, BTreeSet<String>>,
    /// Recorded commands.
    commands: BTreeSet<String>,
}

impl Subjects {
    /// Adds that of a run.
    pub fn add_run(&mut self, run: &Run) {
        self.add("", subject(run));
        if run.recorded.is_some() {
            self.commands.insert(run.header.title.clone());
        }
    }

    /// Adds those of a bake-off: its kind, and of each cell what its trials measured.
    pub fn add_bakeoff(&mut self, bakeoff: &Bakeoff) {
        self.add("", "a bake-off".to_owned());
        for (trial, run) in bakeoff.sealed() {
            self.add(&condition(&trial.levels), subject(run));
        }
    }

    fn add(&mut self, condition: &str, subject: String) {
        self.by_condition.entry(condition.to_owned()).or_default().insert(subject);
    }
}

/// Reason that these sides are not compared: they measured different things, or the runs of one did.
pub fn unlike(sides: &[(&str, &Subjects)]) -> Option<String> {
    let conditions: BTreeSet<&String> = sides.iter().flat_map(|(_, side)| side.by_condition.keys()).collect();
    for condition in conditions {
        let mut all: BTreeMap<&String, &str> = BTreeMap::new();
        for (name, side) in sides {
            for subject in side.by_condition.get(condition).into_iter().flatten() {
                all.entry(subject).or_insert(name);
            }
        }
        if all.len() > 1 {
            let told: Vec<String> = all.iter().map(|(subject, name)| format!("{subject} ({name})")).collect();
            let at = if condition.is_empty() { String::new() } else { format!(" at {condition}") };
            return Some(format!("these runs measured different things{at}: {}", told.join(", ")));
        }
    }
    let (name, side) = sides.iter().find(|(_, side)| side.commands.len() > 1)?;
    let shown: Vec<&str> = side.commands.iter().take(VALUES_SHOWN).map(String::as_str).collect();
    let more = side.commands.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("the runs of {name} recorded different commands: {}{more}", shown.join(", ")))
}

/// Subject of a run, in a few words.
fn subject(run: &Run) -> String {
    match &run.load {
        None => format!("a {} run", run.header.kind.word()),
        Some(load) => {
            let settings = &load.settings;
            let pace = if settings.pace.as_open().is_some() { "an open loop" } else { "a closed loop" };
            format!("{} on {} in {pace}", settings.workload.word(), settings.target.scheme())
        }
    }
}

/// The properties of the runs of each side.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    machine: BTreeMap<String, BTreeSet<String>>,
    settings: BTreeMap<String, BTreeSet<String>>,
}

impl Properties {
    /// Adds those of a run.
    pub fn add_run(&mut self, run: &Run) {
        self.add_environment(&run.environment);
        self.note("bakeoff", &run.header.tool_version);
        self.note("kind of run", run.header.kind.word());
        if run.recorded.is_some() {
            self.note("recorded", &run.header.title);
        }
        for (name, value) in settings(run) {
            self.note(&name, &value);
        }
    }

    /// Adds those of a bake-off. A setting that its trials do not share is a factor.
    pub fn add_bakeoff(&mut self, bakeoff: &Bakeoff) {
        self.add_environment(&bakeoff.environment);
        self.note("plan (sha256)", &bakeoff.plan_sha256);
        self.note("bakeoff", &bakeoff.header.tool_version);
        let mut of_trials: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in bakeoff.sealed().flat_map(|(_, run)| settings(run)) {
            of_trials.entry(name).or_default().insert(value);
        }
        for (name, values) in of_trials.into_iter().filter(|(_, values)| values.len() == 1) {
            for value in &values {
                self.note(&name, value);
            }
        }
    }

    /// Adds the facts of a machine.
    pub fn add_environment(&mut self, environment: &Environment) {
        for (name, value) in &environment.facts {
            let Ok(value) = value else { continue };
            if FLEETING.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let of = if name.starts_with("compare.") { &mut self.settings } else { &mut self.machine };
            of.entry(name.clone()).or_default().insert(value.clone());
        }
    }

    /// Adds a setting.
    pub fn note(&mut self, name: &str, value: &str) {
        self.settings.entry(name.to_owned()).or_default().insert(value.to_owned());
    }
}

/// Settings of a load that do not tell series of `history` apart, or that its subject names.
const BESIDE_SERIES: [&str; 4] = ["target", "workload", "warm-up", "measured"];

/// Settings of a run's load that are no draw of chance: those that make a series of `history`, and lengths.
fn settings(run: &Run) -> Vec<(String, String)> {
    let of = |settings: &LoadSettings| {
        let told = load_settings(settings).into_iter().filter(|(name, _)| BESIDE_SERIES.contains(name));
        let told = told.map(|(name, value)| (name.to_owned(), value));
        told.chain(deciding_settings(settings)).collect::<Vec<_>>()
    };
    run.load.iter().flat_map(|load| of(&load.settings)).collect()
}

/// The properties that differ between the sides, or within one: those of the machine first.
pub fn differing(sides: &[(String, Properties)]) -> Vec<Difference> {
    let of = |which: fn(&Properties) -> &BTreeMap<String, BTreeSet<String>>, of_machine: bool| {
        let names: BTreeSet<&String> = sides.iter().flat_map(|(_, p)| which(p).keys()).collect();
        let found = names.into_iter().filter_map(move |what| {
            let values: Vec<(String, Vec<String>)> = sides
                .iter()
                .map(|(name, p)| {
                    (name.clone(), which(p).get(what).map_or_else(Vec::new, |v| v.iter().cloned().collect()))
                })
                .collect();
            let all: BTreeSet<&Vec<String>> = values.iter().map(|(_, values)| values).collect();
            let is_one = all.len() == 1 && values.iter().all(|(_, values)| values.len() == 1);
            (!is_one).then(|| Difference { what: what.clone(), of_machine, values })
        });
        found.collect::<Vec<_>>()
    };
    let mut found = of(|p| &p.machine, true);
    found.extend(of(|p| &p.settings, false));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_or_within_sides_is_named_with_its_values() {
        let mut one = Properties::default();
        let mut other = Properties::default();
        for (side, kernels) in [(&mut one, vec!["6.1"]), (&mut other, vec!["6.1", "6.6"])] {
            for kernel in kernels {
                let fact = |name: &str, value: &str| (name.to_owned(), Ok(value.to_owned()));
                let facts = [
                    fact("kernel.release", kernel),
                    fact("cpu.count", "2"),
                    fact("trial.busy_before_ratio", kernel),
                ];
                side.add_environment(&Environment { facts: facts.into(), ..Environment::default() });
            }
            side.note("threads", "8");
        }
        other.note("rate", "500");
        let found = differing(&[("one".into(), one), ("other".into(), other)]);
        let texts: Vec<String> = found.iter().map(Difference::text).collect();
        assert_eq!(
            texts,
            ["kernel.release: 6.1 (one), 6.1 or 6.6 (other)", "rate: unknown (one), 500 (other)"]
        );
        assert!(found[0].of_machine && !found[1].of_machine);
    }
}
