//! Families of a bake-off's comparisons, and the probability of a false result in each and in all of them.
//!
//! Each family holds its own rate; the rates add up. The functions of profiles explain verdicts and are no
//! part of the plan's question, so they take no alpha from the metrics. A gate is a separate decision.

use record::bakeoff::Bakeoff;
use record::gate::Gate;

use crate::bakeoff::Comparisons;

/// Comparisons that share one rate of false results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// The comparisons.
    pub subject: FamilySubject,
    /// Number of comparisons.
    pub comparisons: usize,
    /// Largest probability of any false result among them.
    pub rate: f64,
}

/// The comparisons of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FamilySubject {
    /// Verdicts on the judged metrics.
    Metrics,
    /// Functions of the trials' profiles.
    Functions,
    /// One gate: it may pass or fail falsely.
    Gate(Gate),
}

impl FamilySubject {
    /// Name in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Functions => "functions",
            Self::Gate(_) => "gate",
        }
    }
}

/// The families of a bake-off that have comparisons.
///
/// A sequential design spends a part of alpha on dropping: the rate of its metrics includes that part.
pub fn families(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<Family> {
    let alpha = bakeoff.judge.alpha;
    let of = |subject, comparisons, rate| Family { subject, comparisons, rate };
    // If its condition holds, a gate can only fail falsely, otherwise only pass falsely: one tail each.
    let gates = comparisons
        .gates
        .iter()
        .map(|result| of(FamilySubject::Gate(result.gate), result.comparisons.len(), alpha / 2.0));
    [
        of(FamilySubject::Metrics, comparisons.pairs.len(), alpha),
        of(FamilySubject::Functions, comparisons.profiled.family, comparisons.rules.alpha),
    ]
    .into_iter()
    .chain(gates)
    .filter(|family| family.comparisons > 0)
    .collect()
}

/// Largest probability of a false result in any of these families: the sum, which holds however they depend
/// on each other.
pub fn rate_of_any(families: &[Family]) -> f64 {
    families.iter().map(|family| family.rate).sum::<f64>().min(1.0)
}
