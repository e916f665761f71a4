//! Machine, targets, factors and verdicts of runs, for filters. Each run is read once, when first asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use analysis::Verdict;
use archive::{Archive, ArchiveError};
use record::environment::Environment;
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::printer::{PrintError, Printer};

/// Machine, targets and factors of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) machine: Option<String>,
    /// In lower case, passwords masked.
    pub(crate) targets: BTreeSet<String>,
    /// Factors of a bake-off, with their levels.
    pub(crate) factors: BTreeMap<String, BTreeSet<String>>,
}

/// Verdicts of the comparisons of a bake-off.
pub(crate) const VERDICTS: [Verdict; 4] =
    [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::Inconclusive];

/// Facts about runs that were read.
#[derive(Debug)]
pub(crate) struct Known<T>(Mutex<HashMap<RunId, Arc<T>>>);

const LOCK: &str = "no thread panics while it holds this lock";

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Known<T> {
    /// Facts about a run. If they are not known, they are read; `None` if that may not be done now, or fails:
    /// the next request tries again.
    pub(crate) fn of(
        &self,
        header: &RunHeader,
        may_read: &mut dyn FnMut() -> bool,
        read: impl FnOnce() -> Option<T>,
    ) -> Option<Arc<T>> {
        if let Some(known) = self.0.lock().expect(LOCK).get(&header.id) {
            return Some(known.clone());
        }
        if !may_read() {
            return None;
        }
        let found = Arc::new(read()?);
        // A run that is still measured may get its numbers later.
        if header.state != RunState::Running {
            self.0.lock().expect(LOCK).insert(header.id, found.clone());
        }
        Some(found)
    }

    /// Forgets all runs but these.
    pub(crate) fn keep<'a>(&self, headers: impl Iterator<Item = &'a RunHeader>) {
        let mut known = self.0.lock().expect(LOCK);
        if !known.is_empty() {
            let kept: BTreeSet<RunId> = headers.map(|header| header.id).collect();
            known.retain(|id, _| kept.contains(id));
        }
    }
}

/// Whether a run can have a verdict: a bake-off that is interrupted may get another one.
pub(crate) fn is_judged(header: &RunHeader) -> bool {
    let is_over = matches!(header.state, RunState::Sealed | RunState::Invalid | RunState::Failed);
    header.kind == RunKind::Bakeoff && is_over
}

/// Verdicts of a bake-off.
pub(crate) fn verdicts(
    printer: &dyn Printer,
    archive: &Archive,
    id: RunId,
) -> Result<BTreeSet<String>, PrintError> {
    let document = printer.document(archive, id)?;
    let pairs = document["comparisons"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(pairs.iter().filter_map(|pair| pair["verdict"].as_str().map(str::to_owned)).collect())
}

/// Machine, targets and factors of a run.
pub(crate) fn traits(archive: &Archive, id: RunId) -> Result<Traits, ArchiveError> {
    let name_in = |machine: &Environment| machine.fact("host.name").map(str::to_owned);
    if !archive.is_bakeoff(id) {
        let run = archive.run_summary(id)?;
        let targets = run.load.map(|load| load.settings.target.masked().to_lowercase());
        let machine = name_in(&run.environment);
        return Ok(Traits { machine, targets: targets.into_iter().collect(), ..Traits::default() });
    }
    let machine = name_in(&archive.environment(id)?);
    let trials = archive.standing(id)?.trials;
    let mut factors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, level) in trials.iter().flat_map(|told| &told.trial.levels) {
        factors.entry(name.clone()).or_default().insert(level.clone());
    }
    let path = archive.bakeoff_dir(id).join("plan.toml");
    let text = fs::read_to_string(&path).map_err(|source| ArchiveError::Unreadable { path, source })?;
    // The rounds of other commands have a plan that is not one of a bake-off.
    let targets = plan::read(&text, "plan.toml").map_or_else(
        |_| BTreeSet::new(),
        |plan| {
            let cells: BTreeSet<_> = trials.iter().map(|told| &told.trial.levels).collect();
            let target = |levels: &&_| plan.target(levels, Path::new("{scratch}")).masked().to_lowercase();
            cells.iter().map(target).collect()
        },
    );
    Ok(Traits { machine, targets, factors })
}
