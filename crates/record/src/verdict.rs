//! INVALID is a result: whether a run may be used, and what was found against which limit.

/// One named condition that a run must meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What is checked: `achieved-rate`.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What was measured, in the unit that the name implies.
    pub found: f64,
    /// The limit it was held against.
    pub limit: f64,
    /// The sentence for people: what was found, against what, in the field's units.
    pub text: String,
}

/// Whether a run may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Every check holds.
    Valid,
    /// A check fails: the numbers are kept, and are not to be compared.
    Invalid,
    /// The run was stopped before its time: the numbers are of what was measured.
    Interrupted,
}

impl Validity {
    /// The word in JSON and on paper.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A run's validity with the checks behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether the run may be used.
    pub state: Validity,
    /// Every check, also those that hold.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Valid where every check holds.
    pub fn of(checks: Vec<Check>) -> Self {
        let state = if checks.iter().all(|c| c.ok) { Validity::Valid } else { Validity::Invalid };
        Self { state, checks }
    }

    /// Adds a check that is made outside of the load. One that fails makes a valid run INVALID.
    pub fn add(&mut self, check: Check) {
        if !check.ok && self.state == Validity::Valid {
            self.state = Validity::Invalid;
        }
        self.checks.push(check);
    }

    /// The checks that fail.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| !c.ok)
    }
}
