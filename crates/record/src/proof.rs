//! Instruments against known truths.

use crate::missing::Maybe;
use crate::run::words;

/// What one instrument said of one workload whose truth is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
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
    /// The unit of all three: `ratio`.
    pub unit: &'static str,
    /// CPU time that the instrument took, as a share of one CPU.
    pub cost_ratio: Maybe<f64>,
    /// What explains the error, where something does.
    pub remark: Option<&'static str>,
}

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

impl Proof {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::missing::Missing;

    #[test]
    fn an_error_of_the_limit_passes_and_a_missing_value_proves_nothing() {
        let proof = |truth: f64, found: Maybe<f64>| Proof {
            instrument: "events".into(),
            ours: true,
            workload: "hide 70 %".into(),
            truth: Ok(truth),
            found,
            limit: 0.25,
            unit: "ratio",
            cost_ratio: Err(Missing::because("not measured")),
            remark: None,
        };
        assert_eq!(proof(0.5, Ok(0.75)).verdict(), ProofVerdict::Pass);
        assert_eq!(proof(0.5, Ok(0.125)).verdict(), ProofVerdict::Fail);
        assert_eq!(proof(0.5, Err(Missing::because("no tool"))).verdict(), ProofVerdict::Cannot);
    }
}
