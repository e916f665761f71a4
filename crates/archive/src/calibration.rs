//! Latest proofs of the instruments on a machine, which its runs cite.

use record::environment::Environment;
use record::proof::Calibration;
use record::run::{RunKind, RunState};

use crate::error::ArchiveError;
use crate::listing::{Filter, PartOf};
use crate::{Archive, reader};

/// Maximum number of runs searched: with proofs of a hundred machines in one archive, some may have to be
/// repeated.
const LOOK_THROUGH: usize = 100;

/// Facts that identify a machine: a proof does not hold for another processor or kernel.
const SAME: [&str; 4] = ["host.name", "cpu.model", "cpu.count", "kernel.release"];

impl Archive {
    /// Reads the newest proofs of the machine of `environment`, one entry per subject; may be empty.
    ///
    /// # Errors
    ///
    /// The folders cannot be read. Unreadable runs are skipped; `damage` names them.
    pub fn calibration(&self, environment: &Environment) -> Result<Vec<Calibration>, ArchiveError> {
        let filter = Filter {
            kind: Some(RunKind::Prove),
            state: Some(RunState::Sealed),
            part_of: PartOf::Nothing,
            ..Filter::default()
        };
        let mut newest: Vec<Calibration> = Vec::new();
        for listed in self.list(&filter)?.into_iter().take(LOOK_THROUGH) {
            let Ok(stored) = reader::read_manifest(&listed.path, listed.header.id) else { continue };
            let Ok((machine, proofs)) = reader::proofs(stored) else { continue };
            if SAME.iter().any(|fact| machine.fact(fact) != environment.fact(fact)) {
                continue;
            }
            for one in Calibration::of(listed.header.id, listed.header.anchor.unix_ns, &proofs) {
                if newest.iter().all(|known| known.subject != one.subject) {
                    newest.push(one);
                }
            }
        }
        newest.sort_by(|a, b| a.subject.cmp(&b.subject));
        Ok(newest)
    }
}
