//! Checks a plan with a fleet: what its agents cannot do is refused.

use record::agents::label;

use crate::error::{Position, Problem, ProblemKind};
use crate::parsed::ParsedFleet;
use crate::plan::{Note, Plan};

/// Returns the problem of `place`, if it has a text that is no label, or a name twice.
pub(super) fn bad_labels(fleet: Option<&ParsedFleet>) -> Option<Problem> {
    let place = fleet?.place.as_ref()?;
    let labels: Vec<Option<(String, String)>> = place.value.iter().map(|text| label(text)).collect();
    let (found, expected) = if let Some(at) = labels.iter().position(Option::is_none) {
        (format!("{:?}", place.value[at]), "labels such as \"rack=a\"".to_owned())
    } else {
        let mut names: Vec<&str> = labels.iter().flatten().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1])?[0];
        (format!("two values of {twice}"), "each name once: an agent has one value of it".to_owned())
    };
    let kind = ProblemKind::BadValue { key: "fleet.place".to_owned(), found, expected };
    Some(Problem { position: place.position, kind })
}

/// Returns what a plan has that a fleet cannot generate; notes the generators of other plans.
pub(super) fn refused(plan: &mut Plan, position: Option<Position>) -> Vec<Problem> {
    let (Some(position), Some(fleet)) = (position, plan.fleet()) else { return Vec::new() };
    let agents = fleet.agents;
    let text = format!(
        "a fleet of {agents} generates the load: the agents, not this machine, connect to the target, and the \
         instruments observe this machine"
    );
    plan.remarks.push(Note { position, text });
    let problem = |expected: String| {
        let (key, found) = ("fleet.agents".to_owned(), agents.to_string());
        Problem { position, kind: ProblemKind::BadValue { key, found, expected } }
    };
    plan.no_fleet(agents).into_iter().map(problem).collect()
}

/// Returns the problem of CPUs for the threads of a load that starts commands.
pub(super) fn no_client(plan: &Plan, position: Option<Position>) -> Option<Problem> {
    let (position, expected) = (position?, plan.no_client()?);
    let (key, found) = ("client.cpus".to_owned(), "CPUs".to_owned());
    Some(Problem { position, kind: ProblemKind::BadValue { key, found, expected } })
}
