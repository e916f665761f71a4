//! INVALID is a result: whether a run may be used, and which check found what against which limit.

/// Checks from the cause to its effects: an earlier one explains a later one that fails too. A check that is
/// not listed comes last.
const CAUSES_FIRST: [&str; 16] = [
    "counts-balance",
    "connected",
    "server-away",
    "hosts",
    "errors",
    "stuck",
    "offered-rate",
    "throttled",
    "client-paused",
    "client-starvation",
    "client-cpu",
    "lateness",
    "achieved-rate",
    "events",
    "phase-length",
    "cache-steady",
];

/// Named condition that a run must meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Name: `achieved-rate`.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// Measured value, in the unit that the name implies.
    pub found: f64,
    /// Limit of the value.
    pub limit: f64,
    /// Sentence for people: the measured value and the limit, in the field's units.
    pub text: String,
}

impl Check {
    /// Beginning of the text of a check that was not judged.
    const NOT_JUDGED: &str = "not judged: ";

    /// Check that cannot fail with these inputs, with the reason.
    pub fn not_judged(name: &'static str, found: f64, limit: f64, why: &str) -> Self {
        Self { name, ok: true, found, limit, text: format!("{}{why}", Self::NOT_JUDGED) }
    }

    /// Whether the check could have failed.
    pub fn is_judged(&self) -> bool {
        !self.text.starts_with(Self::NOT_JUDGED)
    }
}

/// Whether a run may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Every check holds.
    Valid,
    /// A check fails: the numbers are stored, but must not be compared.
    Invalid,
    /// A part of the load is lost, and the plan accepts that: the numbers are shown, and no verdict rests on
    /// them.
    Degraded,
    /// The run was stopped before its end: the numbers cover the part that was measured.
    Interrupted,
}

impl Validity {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Valid, Self::Invalid, Self::Degraded, Self::Interrupted];

    /// The word in JSON and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Degraded => "degraded",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A run's validity with the checks behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether the run may be used.
    pub state: Validity,
    /// All checks, including those that hold.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Verdict that is valid if every check holds.
    pub fn of(checks: Vec<Check>) -> Self {
        let state = if checks.iter().all(|c| c.ok) { Validity::Valid } else { Validity::Invalid };
        Self { state, checks }
    }

    /// Adds a check from outside the load. A failed check makes a valid run INVALID, and a degraded one too.
    pub fn add(&mut self, check: Check) {
        if !check.ok && matches!(self.state, Validity::Valid | Validity::Degraded) {
            self.state = Validity::Invalid;
        }
        self.checks.push(check);
    }

    /// The losses of a degraded run, in words; `None` of any other run.
    pub fn degraded(&self) -> Option<String> {
        let losses = || self.failures().map(|check| check.text.as_str()).collect::<Vec<_>>().join("; ");
        (self.state == Validity::Degraded).then(losses)
    }

    /// Checks that fail, causes before their effects: the first is the answer.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        let mut failures: Vec<&Check> = self.checks.iter().filter(|c| !c.ok).collect();
        let place = |check: &&Check| {
            CAUSES_FIRST.iter().position(|name| *name == check.name).unwrap_or(CAUSES_FIRST.len())
        };
        failures.sort_by_key(place);
        failures.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_the_cause_of_the_others() {
        let check = |name, ok| Check { name, ok, found: 0.0, limit: 0.0, text: String::new() };
        let verdict = Verdict::of(vec![
            check("unlisted", false),
            check("achieved-rate", false),
            check("lateness", false),
            check("client-starvation", false),
            check("errors", true),
        ]);
        let names: Vec<&str> = verdict.failures().map(|c| c.name).collect();
        assert_eq!(names, ["client-starvation", "lateness", "achieved-rate", "unlisted"]);
    }

    #[test]
    fn a_degraded_run_with_another_failure_is_invalid() {
        let check = |name, ok| Check { name, ok, found: 0.0, limit: 0.0, text: format!("of {name}") };
        let mut verdict = Verdict { state: Validity::Degraded, checks: vec![check("agents", false)] };
        assert_eq!(verdict.degraded().as_deref(), Some("of agents"));
        verdict.add(check("verify", true));
        assert_eq!(verdict.state, Validity::Degraded);
        verdict.add(check("verify", false));
        assert_eq!((verdict.state, verdict.degraded()), (Validity::Invalid, None));
    }
}
