//! Conditions for comparing two runs of `scale` or `dder`.

use std::collections::BTreeMap;
use std::path::Path;

use plan::{Experiment, ScalePlan, SweepPlan};
use record::bakeoff::Bakeoff;
use record::environment::Environment;
use record::missing::Maybe;
use record::run::Run;

use crate::copies::files::{self, Files};
use crate::rounds::archived_plan;
use crate::sweep::place;

/// Returns facts about the inputs of an experiment on this machine: the files of a command, the file system
/// of a sweep.
pub fn facts_of(plan: &Experiment) -> BTreeMap<String, Maybe<String>> {
    match plan {
        Experiment::Scale(plan) => Files::named_by(plan).facts(),
        Experiment::Sweep(plan) => place::facts(Path::new(&plan.folder)),
    }
}

/// Returns the differences between two runs of a kind, except those of the machine. Each is a clause that
/// names both sides.
///
/// - `plan`, `facts`: the plan of the first run, and the facts about its inputs; `cpus`: the CPUs it may use,
///   if known.
/// - `other`: the second run, from the archive.
pub fn differing(
    plan: &Experiment,
    facts: &BTreeMap<String, Maybe<String>>,
    cpus: Option<u32>,
    other: &Bakeoff,
) -> Vec<String> {
    let here = Environment { facts: facts.clone(), ..Environment::default() };
    match (plan, archived_plan(other)) {
        (Experiment::Scale(this), Ok(Experiment::Scale(that))) => {
            let mut found = of_plans(this, &that);
            found.extend(files::differing(&here, &other.environment));
            found.extend(of_cpus(cpus, other));
            found
        }
        (Experiment::Sweep(this), Ok(Experiment::Sweep(that))) => {
            of_sweeps((this, &here), (&that, &other.environment))
        }
        _ => Vec::new(),
    }
}

fn of_cpus(cpus: Option<u32>, other: &Bakeoff) -> Option<String> {
    let (here, there) = (cpus?, other.sealed().find_map(|(_, run)| cpus_of(run))?);
    (here != there && is_this_machine(other)).then(|| {
        format!(
            "the same machine, but {here} usable CPUs here and {there} there (quota, CPU set or affinity)"
        )
    })
}

fn of_sweeps(
    (this, here): (&SweepPlan, &Environment),
    (that, there): (&SweepPlan, &Environment),
) -> Vec<String> {
    let fact = |environment: &Environment, name| environment.fact(name).unwrap_or("unknown").to_owned();
    let bytes = |bytes: u64| format!("{bytes} bytes");
    let mut pairs = vec![
        ("file system", fact(here, "data.file_system"), fact(there, "data.file_system")),
        ("--reference", bytes(this.reference), bytes(that.reference)),
        ("--point", format!("{:?}", this.point), format!("{:?}", that.point)),
        ("--max", bytes(this.size_max), bytes(that.size_max)),
        ("--full", this.full.to_string(), that.full.to_string()),
        ("--seed", this.seed.to_string(), that.seed.to_string()),
    ];
    for data in &this.data {
        let other = that.data.iter().find(|other| other.name == data.name);
        pairs.extend(other.map(|other| (data.name.as_str(), bytes(data.bytes), bytes(other.bytes))));
    }
    clauses(pairs)
}

fn clauses<'a>(pairs: impl IntoIterator<Item = (&'a str, String, String)>) -> Vec<String> {
    let differ = pairs.into_iter().filter(|(_, here, there)| here != there);
    differ.map(|(what, here, there)| format!("{what}: `{here}` here, `{there}` there")).collect()
}

fn of_plans(this: &ScalePlan, that: &ScalePlan) -> Vec<String> {
    let list = |cpus: &Option<Vec<u32>>| cpus.as_ref().map_or("all".to_owned(), |cpus| format!("{cpus:?}"));
    let pairs = [
        ("command", this.command.join(" "), that.command.join(" ")),
        ("--units", this.units.join(" "), that.units.join(" ")),
        ("--bind", this.bind.word().to_owned(), that.bind.word().to_owned()),
        ("--cpus", list(&this.cpus), list(&that.cpus)),
        ("--sched", this.scheduler.to_string(), that.scheduler.to_string()),
    ];
    clauses(pairs)
}

/// Returns the number of CPUs that the copies of a scale trial were allowed.
pub(crate) fn cpus_of(run: &Run) -> Option<u32> {
    let value = run.series.iter().find(|sample| sample.name == "cpus")?.value;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that was stored as a number"
    )]
    Some(value as u32)
}

fn is_this_machine(other: &Bakeoff) -> bool {
    let here = probes::environment::read(std::path::Path::new("/"));
    ["host.name", "cpu.model", "cpu.count"].iter().all(|fact| here.fact(fact) == other.environment.fact(fact))
}
