//! Measurements of workloads with known truths.

use crate::missing::Maybe;
use crate::run::{RunId, words};

/// Measurement of one workload with a known truth by one instrument.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// Proved subject: `cpu`, `load`.
    pub subject: String,
    /// Instrument: `events`, `/proc/stat`, `mpstat`.
    pub instrument: String,
    /// Whether it is bakeoff's: other tools are shown for comparison and cannot fail.
    pub ours: bool,
    /// Workload: `hide 70 %`.
    pub workload: String,
    /// True value, from the workload itself or from another source.
    pub truth: Maybe<f64>,
    /// Value from the instrument.
    pub found: Maybe<f64>,
    /// Largest accepted error, in the same unit.
    pub limit: f64,
    /// Unit of all three.
    pub unit: Unit,
    /// CPU time of the instrument, as a share of one CPU.
    pub cost_ratio: Maybe<f64>,
    /// Explanation of the error, if there is one.
    pub remark: Option<String>,
}

/// Unit of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A share; errors are printed in percentage points.
    Ratio,
    /// Nanoseconds.
    Ns,
    /// Events per second.
    PerS,
    /// Number.
    Count,
    /// Bytes.
    Bytes,
}

words!(Unit { Ratio = "ratio", Ns = "ns", PerS = "per_s", Count = "count", Bytes = "bytes" });

/// Result of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProofVerdict {
    /// The error is within the limit.
    Pass,
    /// The error exceeds the limit.
    Fail,
    /// A value is missing.
    Cannot,
}

words!(ProofVerdict { Pass = "pass", Fail = "fail", Cannot = "cannot" });

/// End of a reason if only a busy machine prevented the proof.
pub const AGAIN: &str = "prove again on a quiet machine";

impl Proof {
    /// Whether a busy machine prevented the proof; another attempt may succeed.
    pub fn is_for_another_time(&self) -> bool {
        self.error().is_err_and(|why| why.reason.ends_with(AGAIN))
    }

    /// Error: found minus truth.
    ///
    /// # Errors
    ///
    /// The reason that one of them is missing.
    pub fn error(&self) -> Maybe<f64> {
        Ok(self.found.clone()? - self.truth.clone()?)
    }

    /// Comparison of the error with the limit.
    pub fn verdict(&self) -> ProofVerdict {
        match self.error() {
            Ok(error) if error.abs() <= self.limit => ProofVerdict::Pass,
            Ok(_) => ProofVerdict::Fail,
            Err(_) => ProofVerdict::Cannot,
        }
    }
}

/// Latest results of the proofs of one subject on a machine; a later run on that machine cites them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// Proved subject: `cpu`, `load`.
    pub subject: String,
    /// Run that holds the proofs.
    pub run: RunId,
    /// Start of that run, in nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// Proofs of bakeoff's instruments that passed.
    pub passed: u32,
    /// Proofs that failed.
    pub failed: u32,
    /// Proofs that were impossible.
    pub cannot: u32,
}

impl Calibration {
    /// Counts the proofs of a run by subject, in their order.
    pub fn of(run: RunId, unix_ns: u64, proofs: &[Proof]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for proof in proofs.iter().filter(|p| p.ours) {
            if all.iter().all(|c| c.subject != proof.subject) {
                let subject = proof.subject.clone();
                all.push(Self { subject, run, unix_ns, passed: 0, failed: 0, cannot: 0 });
            }
            let of = all.iter_mut().find(|c| c.subject == proof.subject).expect("it was just added");
            match proof.verdict() {
                ProofVerdict::Pass => of.passed += 1,
                ProofVerdict::Fail => of.failed += 1,
                ProofVerdict::Cannot => of.cannot += 1,
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::WallAnchor;
    use crate::missing::Missing;

    fn proof(truth: f64, found: Maybe<f64>) -> Proof {
        Proof {
            subject: "cpu".into(),
            instrument: "events".into(),
            ours: true,
            workload: "hide 70 %".into(),
            truth: Ok(truth),
            found,
            limit: 0.25,
            unit: Unit::Ratio,
            cost_ratio: Err(Missing::because("not measured")),
            remark: None,
        }
    }

    #[test]
    fn an_error_of_the_limit_passes_and_a_missing_value_proves_nothing() {
        assert_eq!(proof(0.5, Ok(0.75)).verdict(), ProofVerdict::Pass);
        assert_eq!(proof(0.5, Ok(0.125)).verdict(), ProofVerdict::Fail);
        assert_eq!(proof(0.5, Err(Missing::because("no tool"))).verdict(), ProofVerdict::Cannot);
    }

    #[test]
    fn a_busy_machine_is_a_reason_to_prove_again_and_a_missing_tool_is_none() {
        let busy = Missing::because(format!("the truth is not known: {AGAIN}"));
        assert!(Proof { truth: Err(busy), ..proof(0.5, Ok(0.5)) }.is_for_another_time());
        assert!(!proof(0.5, Err(Missing::because("no tool"))).is_for_another_time());
        assert!(!proof(0.5, Ok(0.9)).is_for_another_time());
    }

    #[test]
    fn a_calibration_counts_our_own_proofs_by_subject() {
        let of = |subject: &str, ours: bool, found: f64| Proof {
            subject: subject.into(),
            ours,
            ..proof(0.5, Ok(found))
        };
        let proofs =
            [of("cpu", true, 0.5), of("cpu", true, 0.9), of("cpu", false, 0.9), of("load", true, 0.5)];
        let run = RunId::new(WallAnchor { monotonic_ns: 0, unix_ns: 7 }, 1);
        let found: Vec<_> = Calibration::of(run, 7, &proofs)
            .into_iter()
            .map(|c| (c.subject, c.passed, c.failed, c.cannot))
            .collect();
        assert_eq!(found, [("cpu".to_owned(), 1, 1, 0), ("load".to_owned(), 1, 0, 0)]);
    }
}
