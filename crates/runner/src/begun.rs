//! The plan of a bake-off that was begun.

use std::fs;
use std::path::PathBuf;

use archive::{JournalEvent, Step};
use plan::Plan;
use record::bakeoff::Bakeoff;

use crate::error::RunnerError;
use crate::ledger::{AGAINST_ITSELF, SHORTENED};
use crate::options::{Options, own_text};

/// Returns the plan as it was begun: from the file that the user named, from the archive or, if that text is
/// masked, from the plan's own file.
pub(crate) fn archived_plan(
    bakeoff: &Bakeoff,
    options: &Options,
    journal: &[JournalEvent],
) -> Result<Plan, RunnerError> {
    let id = bakeoff.header.id;
    let (text, name) = plan_text(bakeoff, options, journal)?;
    let plan = plan::read(&text, &name).map_err(|source| RunnerError::ArchivedPlan { id, source })?;
    let repetition = bakeoff.header.labels.get(AGAINST_ITSELF).and_then(|number| number.parse().ok());
    let plan = repetition.map_or(plan.clone(), |number| plan.against_itself(number));
    let plan = if bakeoff.header.labels.contains_key(SHORTENED) { plan.shortened() } else { plan };
    if plan.trials() != bakeoff.trials {
        return Err(RunnerError::AnotherOrder { id, version: bakeoff.header.tool_version.clone() });
    }
    Ok(plan)
}

/// Returns the text with the plan's checksum, and its name.
fn plan_text(
    bakeoff: &Bakeoff,
    options: &Options,
    journal: &[JournalEvent],
) -> Result<(String, String), RunnerError> {
    let (id, sha256) = (bakeoff.header.id, bakeoff.plan_sha256.clone());
    if let Some(path) = &options.plan_file {
        let text = fs::read_to_string(path);
        let text = text.map_err(|source| RunnerError::PlanFile { path: path.clone(), source })?;
        let (file, found) = (path.display().to_string(), plan::sha256(&text));
        if found == sha256 {
            return Ok((text, file));
        }
        return Err(RunnerError::AnotherPlan { id, file, found, sha256 });
    }
    if plan::sha256(&bakeoff.plan_text) == sha256 {
        return Ok((bakeoff.plan_text.clone(), format!("the plan of {id}")));
    }
    let own = plan_file(journal);
    let text = own.as_ref().and_then(|path| own_text(path));
    match (text.filter(|text| plan::sha256(text) == sha256), own) {
        (Some(text), Some(file)) => Ok((text, file.display().to_string())),
        (_, tried) => {
            let tried = tried.map(|path| path.display().to_string());
            Err(RunnerError::PlanMasked { id, tried, sha256 })
        }
    }
}

/// Returns the path of the plan's own file, as the journal has it.
pub(crate) fn plan_file(journal: &[JournalEvent]) -> Option<PathBuf> {
    journal.iter().rev().find_map(|event| match &event.step {
        Step::PlanFile { path } => Some(PathBuf::from(path)),
        _ => None,
    })
}
