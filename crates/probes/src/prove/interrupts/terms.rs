//! Terms of the proofs of this subject.

use record::missing::Missing;
use record::proof::{Proof, Unit};

pub(super) const NAME: &str = "interrupts";
/// One point, or less if little time is lost to interrupts.
pub(super) const LIMIT: f64 = 0.01;
/// Five points: beyond, the work is no longer the one to measure.
pub(super) const OTHERS_MAX: f64 = 0.05;

/// An empty proof.
pub(super) fn proof(workload: &str, instrument: &str) -> Proof {
    let none = || Err(Missing::because("not measured"));
    Proof {
        subject: NAME.to_owned(),
        instrument: instrument.to_owned(),
        ours: true,
        workload: workload.to_owned(),
        truth: none(),
        found: none(),
        limit: LIMIT,
        unit: Unit::Ratio,
        cost_ratio: Err(Missing::because("it is part of the instrument above")),
        remark: None,
    }
}
