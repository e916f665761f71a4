//! The plan of a bake-off that was begun.

use std::fs;
use std::path::{Path, PathBuf};

use archive::{Archive, JournalEvent, Step};
use plan::Plan;
use record::bakeoff::Bakeoff;
use record::printable::printable;

use crate::error::RunnerError;
use crate::ledger::{AGAINST_ITSELF, SHORTENED};
use crate::options::{Options, own_text};

/// Returns the plan as it was begun: from the file that the user named, from the archive or, if that text is
/// masked, from the plan's own file.
pub(crate) fn archived_plan(
    archive: &Archive,
    bakeoff: &Bakeoff,
    options: &Options,
    journal: &[JournalEvent],
) -> Result<Plan, RunnerError> {
    let id = bakeoff.header.id;
    let (text, name) = plan_text(archive, bakeoff, options, journal)?;
    let plan = plan::read(&text, &name).map_err(|source| RunnerError::ArchivedPlan { id, source })?;
    let repetition = bakeoff.header.labels.get(AGAINST_ITSELF).and_then(|number| number.parse().ok());
    let plan = repetition.map_or(plan.clone(), |number| plan.against_itself(number));
    let plan = if bakeoff.header.labels.contains_key(SHORTENED) { plan.shortened() } else { plan };
    if plan.trials() != bakeoff.trials {
        return Err(RunnerError::AnotherOrder { id, version: bakeoff.header.tool_version.clone() });
    }
    Ok(plan)
}

/// Reads a bake-off again, with the attempts of its mended journal. Everything else that decides what runs
/// must be as it was first read.
///
/// - `first`: what the user was shown, and agreed to. Another user may have changed the files since.
pub(crate) fn as_mended(archive: &Archive, first: &Bakeoff) -> Result<Bakeoff, RunnerError> {
    let id = first.header.id;
    let mended = archive.bakeoff(id)?;
    let is_same = mended.trials == first.trials
        && mended.factors == first.factors
        && mended.environment == first.environment
        && mended.judge == first.judge
        && mended.plan_sha256 == first.plan_sha256;
    if is_same { Ok(mended) } else { Err(RunnerError::Swapped { id }) }
}

/// Returns the text with the plan's checksum, and its name.
fn plan_text(
    archive: &Archive,
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
    let believed = own.as_ref().filter(|path| path.is_absolute() && !is_below(path, archive));
    let text = believed.and_then(|path| own_text(path));
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

/// Returns the reason to ask before files are used that the plan names relative to its own file. The archive
/// may be a copy of a stranger's: its journal then must not lead to other files of the copy.
///
/// - `file`: the plan's own file, as the journal has it.
/// - `used`: the script, its modules and the repositories.
pub(crate) fn misled(
    archive: &Archive,
    plan: &Plan,
    file: Option<&Path>,
    used: impl IntoIterator<Item = PathBuf>,
) -> Option<String> {
    let below = used.into_iter().find(|path| is_below(path, archive));
    let sources = plan
        .configurations()
        .into_iter()
        .filter_map(|levels| plan.build(&levels, Path::new("{build}"), Path::new("{scratch}"))?.source);
    let is_relative = sources.chain(plan.script_path().map(PathBuf::from)).any(|path| path.is_relative());
    let why = match (below, file) {
        (Some(path), _) => format!("it leads to {}, a file of the archive itself", path.display()),
        (None, None) if is_relative => "it does not name the file of the plan".to_owned(),
        (None, Some(file)) if is_relative && file.is_relative() => {
            format!("it names the plan's file relative to the working folder: {}", file.display())
        }
        _ => return None,
    };
    Some(printable(&format!("the archive: {why}")).to_string())
}

/// Whether a path, or the file that it leads to, is in the archive.
fn is_below(path: &Path, archive: &Archive) -> bool {
    let forms = |path: &Path| [std::path::absolute(path).ok(), fs::canonicalize(path).ok()];
    let folders: Vec<PathBuf> = forms(archive.dir()).into_iter().flatten().collect();
    forms(path).iter().flatten().any(|path| folders.iter().any(|folder| path.starts_with(folder)))
}
