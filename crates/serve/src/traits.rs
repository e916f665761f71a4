//! Machine, targets and factors of runs, for filters. Each run is read once, when first asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use archive::Archive;
use record::environment::Environment;
use record::run::{RunHeader, RunId, RunState};

/// Machine, targets and factors of a run. Those that cannot be read match no filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) machine: Option<String>,
    /// In lower case, passwords masked.
    pub(crate) targets: BTreeSet<String>,
    /// Factors of a bake-off, with their levels.
    pub(crate) factors: BTreeMap<String, BTreeSet<String>>,
}

/// Traits that were read.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<RunId, Arc<Traits>>>);

const LOCK: &str = "no thread panics while it holds this lock";

impl Known {
    /// Traits of a run. If they are not known, they are read, and `left` is one less; `None` if it is 0.
    pub(crate) fn of(&self, archive: &Archive, header: &RunHeader, left: &mut usize) -> Option<Arc<Traits>> {
        if let Some(known) = self.0.lock().expect(LOCK).get(&header.id) {
            return Some(known.clone());
        }
        *left = left.checked_sub(1)?;
        let traits = Arc::new(read(archive, header));
        // A run that is still measured may get its numbers later.
        if header.state != RunState::Running {
            self.0.lock().expect(LOCK).insert(header.id, traits.clone());
        }
        Some(traits)
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

fn read(archive: &Archive, header: &RunHeader) -> Traits {
    let id = header.id;
    let name_in = |machine: &Environment| machine.fact("host.name").map(str::to_owned);
    if !archive.is_bakeoff(id) {
        let Ok(run) = archive.run_summary(id) else { return Traits::default() };
        let targets = run.load.map(|load| load.settings.target.masked().to_lowercase());
        let machine = name_in(&run.environment);
        return Traits { machine, targets: targets.into_iter().collect(), ..Traits::default() };
    }
    let machine = archive.environment(id).ok().as_ref().and_then(name_in);
    let mut factors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let trials = archive.standing(id).map(|standing| standing.trials).unwrap_or_default();
    for (name, level) in trials.iter().flat_map(|told| &told.trial.levels) {
        factors.entry(name.clone()).or_default().insert(level.clone());
    }
    let text = fs::read_to_string(archive.bakeoff_dir(id).join("plan.toml")).unwrap_or_default();
    let targets = plan::read(&text, "plan.toml").map_or_else(
        |_| BTreeSet::new(),
        |plan| {
            let cells: BTreeSet<_> = trials.iter().map(|told| &told.trial.levels).collect();
            let target = |levels: &&_| plan.target(levels, Path::new("{scratch}")).masked().to_lowercase();
            cells.iter().map(target).collect()
        },
    );
    Traits { machine, targets, factors }
}
