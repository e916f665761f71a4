//! The script in Lua that a plan names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use load::LuaScript;
use plan::Plan;
use record::bakeoff::Bakeoff;
use record::load::ScriptFile;
use record::printable::printable;

use crate::error::RunnerError;
use crate::options::{TextFile, text_file};

/// Returns the plan with its script in Lua, if it names one, after a check of the script's options in every
/// cell. Runs the body of the script.
///
/// - `file`: the plan's own file; the script's path is relative to its folder.
pub(crate) fn with_script(plan: Plan, file: &Path) -> Result<Plan, RunnerError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let Some(path) = plan.script_path().map(|path| folder.join(path)) else { return Ok(plan) };
    let script = LuaScript::read(&path.to_string_lossy());
    checked(plan, script.map_err(|source| RunnerError::Script { source })?)
}

fn checked(plan: Plan, script: LuaScript) -> Result<Plan, RunnerError> {
    let options: BTreeSet<Vec<(String, String)>> = plan
        .trials()
        .iter()
        .map(|trial| plan.load_settings(trial, Path::new("/scratch")).scripts.defines)
        .collect();
    let checked = options.iter().try_for_each(|given| script.check(given));
    checked.map_err(|source| RunnerError::Script { source })?;
    Ok(plan.with_script(script.into_files()))
}

/// The files of a script in Lua as they were read for a bake-off that is resumed. Nothing of them has run.
#[derive(Default)]
pub(crate) struct UnrunScript(Vec<(ScriptFile, TextFile)>);

impl UnrunScript {
    /// Reads the script, and the modules that the trials so far have loaded. Their texts must be those of the
    /// trials, since results of two scripts cannot be compared.
    ///
    /// - `file`: the plan's own file.
    pub(crate) fn read(plan: &Plan, file: Option<&Path>, bakeoff: &Bakeoff) -> Result<Self, RunnerError> {
        let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
        let Some(path) = plan.script_path().map(|path| folder.join(path)) else { return Ok(Self::default()) };
        let modules = files_of_trials(bakeoff).next().unwrap_or_default().iter().skip(1);
        let names =
            std::iter::once(path.to_string_lossy().into_owned()).chain(modules.map(|m| m.name.clone()));
        let read = |(at, name): (u32, String)| {
            let found = text_file(Path::new(&name));
            let found =
                found.map_err(|source| RunnerError::ScriptFile { path: name.clone().into(), source })?;
            Ok((ScriptFile { name, weight: u32::from(at == 0), text: found.text.clone() }, found))
        };
        let script = Self((0..).zip(names).map(read).collect::<Result<_, RunnerError>>()?);
        let files: Vec<&ScriptFile> = script.0.iter().map(|(file, _)| file).collect();
        same(bakeoff, &files).map(|()| script)
    }

    /// The other user that may change one of the files.
    pub(crate) fn stranger(&self) -> Option<String> {
        self.0.iter().find_map(|(_, found)| found.stranger.clone())
    }

    /// The paths of the files, without links and as they are named.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let of = |(file, found): &(ScriptFile, TextFile)| [found.path.clone(), PathBuf::from(&file.name)];
        self.0.iter().flat_map(of).collect()
    }

    /// Lines about the files for the user: path and checksum.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(_, found): &(ScriptFile, TextFile)| {
            let path = found.path.display().to_string();
            format!("load.script = \"{}\" (sha256 {})", printable(&path), plan::sha256(&found.text))
        };
        self.0.iter().map(line).collect()
    }

    /// Runs the body of the script with the modules as they were read; returns the plan with it.
    ///
    /// - `is_named`: whether the user has named the plan. Before the first trial, its modules are read from
    ///   disk.
    pub(crate) fn run(self, plan: Plan, bakeoff: &Bakeoff, is_named: bool) -> Result<Plan, RunnerError> {
        let files: Vec<ScriptFile> = self.0.into_iter().map(|(file, _)| file).collect();
        let Some(script) = files.first() else { return Ok(plan) };
        let knows_modules = files_of_trials(bakeoff).next().is_some();
        let script = if is_named && !knows_modules {
            LuaScript::of(script.clone())
        } else {
            LuaScript::known(&files, "the archive does not have its text; name the plan by --plan")
        };
        let plan = checked(plan, script.map_err(|source| RunnerError::Script { source })?)?;
        // It may have loaded fewer modules.
        same(bakeoff, &plan.script_files().iter().collect::<Vec<_>>()).map(|()| plan)
    }
}

/// Files of the script of each trial so far.
fn files_of_trials(bakeoff: &Bakeoff) -> impl Iterator<Item = &[ScriptFile]> {
    let loads = bakeoff.attempts.iter().filter_map(|attempt| attempt.run.as_ref()?.load.as_ref());
    loads.map(|load| load.settings.scripts.files.as_slice())
}

/// Checks that the texts are those of the trials so far.
fn same(bakeoff: &Bakeoff, files: &[&ScriptFile]) -> Result<(), RunnerError> {
    let is_same = |then: &[ScriptFile]| then.iter().map(|f| &f.text).eq(files.iter().map(|f| &f.text));
    match files.first() {
        Some(script) if !files_of_trials(bakeoff).all(is_same) => {
            Err(RunnerError::AnotherScript { id: bakeoff.header.id, name: script.name.clone() })
        }
        _ => Ok(()),
    }
}
