//! Results of proving instruments against known truths, as stored.

use record::proof::{Calibration, Proof, Unit};
use serde::{Deserialize, Serialize};

use super::{Real, Reasons, Wrong, parsed, word};

/// One proof, in a manifest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProofForm {
    subject: String,
    instrument: String,
    ours: bool,
    workload: String,
    truth: Option<Real>,
    found: Option<Real>,
    limit: Real,
    unit: String,
    cost_ratio: Option<Real>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

impl ProofForm {
    pub(crate) fn of(proof: &Proof) -> Self {
        let Proof { subject, instrument, ours, workload, truth, found, limit, unit, cost_ratio, remark } =
            proof;
        let mut missing = Reasons::default();
        let real = |value: &f64| Real(*value);
        Self {
            subject: subject.clone(),
            instrument: instrument.clone(),
            ours: *ours,
            workload: workload.clone(),
            truth: missing.split("truth", truth, real),
            found: missing.split("found", found, real),
            limit: Real(*limit),
            unit: unit.word().to_owned(),
            cost_ratio: missing.split("cost_ratio", cost_ratio, real),
            remark: remark.clone(),
            missing,
        }
    }

    pub(crate) fn read(self) -> Result<Proof, Wrong> {
        let m = &self.missing;
        let real = |Real(value)| Ok(value);
        Ok(Proof {
            truth: m.join("truth", self.truth, real)?,
            found: m.join("found", self.found, real)?,
            limit: self.limit.0,
            unit: word("unit", &self.unit, Unit::from_word)?,
            cost_ratio: m.join("cost_ratio", self.cost_ratio, real)?,
            remark: self.remark,
            subject: self.subject,
            instrument: self.instrument,
            ours: self.ours,
            workload: self.workload,
        })
    }
}

/// Latest proof of the instruments of one subject, stored with the facts of the machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CalibrationForm {
    subject: String,
    run: String,
    unix_ns: u64,
    passed: u32,
    failed: u32,
    cannot: u32,
}

impl CalibrationForm {
    pub(crate) fn of(calibration: &Calibration) -> Self {
        let Calibration { subject, run, unix_ns, passed, failed, cannot } = calibration;
        Self {
            subject: subject.clone(),
            run: run.to_string(),
            unix_ns: *unix_ns,
            passed: *passed,
            failed: *failed,
            cannot: *cannot,
        }
    }

    pub(crate) fn read(self) -> Result<Calibration, Wrong> {
        Ok(Calibration {
            subject: self.subject,
            run: parsed("calibration", &self.run)?,
            unix_ns: self.unix_ns,
            passed: self.passed,
            failed: self.failed,
            cannot: self.cannot,
        })
    }
}
