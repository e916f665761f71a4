//! Instruments against known truths.

use crate::missing::Maybe;
use crate::run::{RunId, words};

/// What one instrument said of one workload whose truth is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// What was proved: `cpu`, `load`.
    pub subject: String,
    /// What measured: `events`, `/proc/stat`, `mpstat`.
    pub instrument: String,
    /// Whether it is ours: others' instruments are shown beside, and fail nothing.
    pub ours: bool,
    /// What was measured: `hide 70 %`.
    pub workload: String,
    /// What it says of itself, or what is known of it otherwise.
    pub truth: Maybe<f64>,
    /// What the instrument said.
    pub found: Maybe<f64>,
    /// The largest error that is accepted, in the same unit.
    pub limit: f64,
    /// The unit of all three.
    pub unit: Unit,
    /// CPU time that the instrument took, as a share of one CPU.
    pub cost_ratio: Maybe<f64>,
    /// What explains the error, where something does.
    pub remark: Option<String>,
}

/// What a proof counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A share; errors are told in points, which are hundredths of it.
    Ratio,
    /// Nanoseconds.
    Ns,
    /// Events per second.
    PerS,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
}

words!(Unit { Ratio = "ratio", Ns = "ns", PerS = "per_s", Count = "count", Bytes = "bytes" });

/// What a proof shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProofVerdict {
    /// The error is within the limit.
    Pass,
    /// It is not.
    Fail,
    /// There is nothing to compare.
    Cannot,
}

words!(ProofVerdict { Pass = "pass", Fail = "fail", Cannot = "cannot" });

/// How a reason ends where only the machine's being busy kept something from being proved.
pub const AGAIN: &str = "prove again on a quiet machine";

impl Proof {
    /// Whether it could not be made because the machine was busy: another time it may.
    pub fn is_for_another_time(&self) -> bool {
        self.error().is_err_and(|why| why.reason.ends_with(AGAIN))
    }

    /// Found less truth.
    ///
    /// # Errors
    ///
    /// Why one of them is missing.
    pub fn error(&self) -> Maybe<f64> {
        Ok(self.found.clone()? - self.truth.clone()?)
    }

    /// Whether the error is within the limit.
    pub fn verdict(&self) -> ProofVerdict {
        match self.error() {
            Ok(error) if error.abs() <= self.limit => ProofVerdict::Pass,
            Ok(_) => ProofVerdict::Fail,
            Err(_) => ProofVerdict::Cannot,
        }
    }
}

/// How the instruments of one subject were last proved on a machine: what a later run on it cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// What was proved: `cpu`, `load`.
    pub subject: String,
    /// The run that holds the proofs.
    pub run: RunId,
    /// When it began, nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// Proofs of our own instruments that passed.
    pub passed: u32,
    /// That failed.
    pub failed: u32,
    /// That could not be made.
    pub cannot: u32,
}

impl Calibration {
    /// What the proofs of a run come to, subject by subject, in the order they were made.
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
