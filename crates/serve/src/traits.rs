//! Facts about bake-offs that the index of the archive lacks, for filters: verdicts, and the targets of those
//! without a run. Each is read once, when first asked for.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use analysis::Verdict;
use archive::{Archive, ArchiveError};
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::printer::{PrintError, Printer};

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

    /// Takes facts that an earlier server has found.
    pub(crate) fn learn(&self, facts: impl IntoIterator<Item = (RunId, T)>) {
        self.0.lock().expect(LOCK).extend(facts.into_iter().map(|(id, found)| (id, Arc::new(found))));
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

/// Whether a run has a plan with targets.
pub(crate) fn is_bakeoff(header: &RunHeader) -> bool {
    header.kind == RunKind::Bakeoff
}

/// Whether a run can have a verdict: a bake-off that is interrupted may get another one.
pub(crate) fn is_judged(header: &RunHeader) -> bool {
    let is_over = matches!(header.state, RunState::Sealed | RunState::Invalid | RunState::Failed);
    is_bakeoff(header) && is_over
}

/// Whether a text names a verdict.
pub(crate) fn is_verdict(word: &str) -> bool {
    VERDICTS.iter().any(|verdict| verdict.word() == word)
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

/// Targets of a plan, in lower case, passwords masked: for a bake-off without a run.
pub(crate) fn planned_targets(archive: &Archive, id: RunId) -> Result<BTreeSet<String>, ArchiveError> {
    let trials = archive.standing(id)?.trials;
    let path = archive.bakeoff_dir(id).join("plan.toml");
    let text = fs::read_to_string(&path).map_err(|source| ArchiveError::Unreadable { path, source })?;
    Ok(plan::read(&text, "plan.toml").map_or_else(
        |_| BTreeSet::new(),
        |plan| {
            let cells: BTreeSet<_> = trials.iter().map(|told| &told.trial.levels).collect();
            let target = |levels: &&_| plan.target(levels, Path::new("{scratch}")).masked().to_lowercase();
            cells.iter().map(target).collect()
        },
    ))
}
