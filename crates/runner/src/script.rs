//! The script in Lua that a plan names.

use std::collections::BTreeSet;
use std::path::Path;

use load::LuaScript;
use plan::Plan;
use record::bakeoff::Bakeoff;
use record::load::ScriptFile;

use crate::error::RunnerError;

/// Returns the plan with its script in Lua, if it names one, after a check of the script's options in every
/// cell. Runs the body of the script.
///
/// - `file`: the plan's own file; the script's path is relative to its folder.
pub(crate) fn with_script(plan: Plan, file: &Path) -> Result<Plan, RunnerError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let Some(path) = plan.script_path().map(|path| folder.join(path)) else { return Ok(plan) };
    let wrong = |source| RunnerError::Script { source };
    let script = LuaScript::read(&path.to_string_lossy()).map_err(wrong)?;
    let options: BTreeSet<Vec<(String, String)>> = plan
        .trials()
        .iter()
        .map(|trial| plan.load_settings(trial, Path::new("/scratch")).scripts.defines)
        .collect();
    options.iter().try_for_each(|given| script.check(given)).map_err(wrong)?;
    Ok(plan.with_script(script.into_files()))
}

/// Variant of [`with_script`] for a bake-off that is resumed: the script must be that of the trials so far,
/// since results of two scripts cannot be compared.
pub(crate) fn resumed_script(
    plan: Plan,
    file: Option<&Path>,
    bakeoff: &Bakeoff,
) -> Result<Plan, RunnerError> {
    let plan = with_script(plan, file.unwrap_or(Path::new("")))?;
    let texts = |files: &[ScriptFile]| files.iter().map(|file| file.text.clone()).collect::<Vec<_>>();
    let now = texts(plan.script_files());
    let loads = bakeoff.attempts.iter().filter_map(|attempt| attempt.run.as_ref()?.load.as_ref());
    let is_same = loads.map(|load| texts(&load.settings.scripts.files)).all(|then| then == now);
    match plan.script_files().first() {
        Some(script) if !is_same => {
            Err(RunnerError::AnotherScript { id: bakeoff.header.id, name: script.name.clone() })
        }
        _ => Ok(plan),
    }
}
