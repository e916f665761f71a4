//! What must be the same before two scale runs are held against each other.

use plan::{Experiment, ScalePlan};
use record::bakeoff::Bakeoff;
use record::run::Run;

use crate::rounds::archived_plan;

/// What differs between two scale runs besides the machine: each is a clause that names both sides. Empty for other kinds,
/// whose cells are compared one by one.
///
/// - `plan`: the plan of the one; `cpus`: the CPUs it may use, if that is known.
/// - `other`: the other, from the archive.
pub fn differing(plan: &Experiment, cpus: Option<u32>, other: &Bakeoff) -> Vec<String> {
    let (Experiment::Scale(this), Ok(Experiment::Scale(that))) = (plan, archived_plan(other)) else {
        return Vec::new();
    };
    let mut found = of_plans(this, &that);
    let known = other.sealed().find_map(|(_, run)| cpus_of(run));
    if let (Some(here), Some(there)) = (cpus, known)
        && here != there
        && is_this_machine(other)
    {
        found.push(format!(
            "the same machine with {here} CPUs here and {there} there (quota, CPU set or affinity)"
        ));
    }
    found
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
    let differ = pairs.into_iter().filter(|(_, here, there)| here != there);
    differ.map(|(what, here, there)| format!("{what}: `{here}` here, `{there}` there")).collect()
}

/// The CPUs that the copies of a scale trial were allowed.
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
