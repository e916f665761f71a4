//! Checks a plan with a fleet: what its agents cannot do is refused.

use crate::error::{Position, Problem, ProblemKind};
use crate::plan::{Note, Plan};

/// Returns what a plan has that a fleet cannot generate; notes the generators of other plans.
pub(super) fn refused(plan: &mut Plan, position: Option<Position>) -> Vec<Problem> {
    let (Some(position), Some(agents)) = (position, plan.fleet()) else { return Vec::new() };
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
