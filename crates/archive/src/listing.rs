//! Listing of the archive, and resolution of a run's name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::catalog::{self, Catalog};
use crate::disk::Place;
use crate::error::ArchiveError;
use crate::traits::Traits;
use crate::writer::MANIFEST;
use crate::{Archive, bakeoff, disk, lock, reader};

/// Selection of runs; the default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Kind of run.
    pub kind: Option<RunKind>,
    /// State of the run.
    pub state: Option<RunState>,
    /// Labels that the run must have: a name, and optionally a value.
    pub labels: Vec<(String, Option<String>)>,
    /// Text in title, command, name or labels, ignoring case.
    pub text: Option<String>,
    /// Membership in a bake-off.
    pub part_of: PartOf,
}

/// Selection of runs by the bake-off that they belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PartOf {
    /// All runs.
    #[default]
    Anything,
    /// Runs that belong to no bake-off, and the bake-offs themselves.
    Nothing,
    /// Runs of this bake-off.
    Bakeoff(RunId),
}

/// A run or bake-off in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Name, state and origin.
    pub header: RunHeader,
    /// Folder.
    pub path: PathBuf,
}

/// An unreadable folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Folder.
    pub path: PathBuf,
    /// Damage.
    pub what: String,
}

impl Archive {
    /// Runs and bake-offs, newest first, including running ones.
    ///
    /// Unreadable folders are left out: [`Archive::damage`] names them.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Listed>, ArchiveError> {
        Ok(self.list_with_traits(filter)?.into_iter().map(|(listed, _)| listed).collect())
    }

    /// Variant of [`Self::list`] with machine, targets and factors. The targets of a bake-off are those of
    /// its runs.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn list_with_traits(&self, filter: &Filter) -> Result<Vec<(Listed, Traits)>, ArchiveError> {
        let stored = catalog::with(&self.tree, Catalog::rows)?.into_iter();
        let running = self.drafts(Writer::Alive)?.into_iter();
        let running = running.map(|(header, traits)| (header.still_running(), traits));
        let mut listed: Vec<(Listed, Traits)> =
            stored.chain(running).map(|(header, traits)| (self.listed(header), traits)).collect();
        let mut targets: BTreeMap<RunId, BTreeSet<String>> = BTreeMap::new();
        for (part, traits) in &listed {
            if let Some(bakeoff) = part.header.bakeoff {
                targets.entry(bakeoff).or_default().extend(traits.targets.iter().cloned());
            }
        }
        listed.retain(|(l, _)| filter.lets_through(&l.header));
        // A run may have been renamed between the two listings.
        listed.sort_by_key(|(l, _)| std::cmp::Reverse((l.header.id, l.header.state != RunState::Running)));
        listed.dedup_by_key(|(l, _)| l.header.id);
        for (whole, traits) in &mut listed {
            traits.targets.extend(targets.remove(&whole.header.id).unwrap_or_default());
        }
        Ok(listed)
    }

    /// Verdicts of bake-offs that [`Self::store_verdicts`] has stored, as words.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn verdicts(&self, tool_version: &str) -> Result<BTreeMap<RunId, BTreeSet<String>>, ArchiveError> {
        catalog::with(&self.tree, |index| index.verdicts(tool_version))
    }

    /// Stores verdicts of bake-offs in the index: to judge one takes long. The index forgets them when it is
    /// rebuilt, or when the journal of the bake-off grows.
    ///
    /// - `tool_version`: version that has judged them; another one may judge otherwise.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn store_verdicts(
        &self,
        tool_version: &str,
        verdicts: &BTreeMap<RunId, BTreeSet<String>>,
    ) -> Result<(), ArchiveError> {
        catalog::with(&self.tree, |index| index.store_verdicts(tool_version, verdicts))
    }

    /// Unreadable folders in the archive, with the reason; `verify` finds more.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn damage(&self) -> Result<Vec<Damage>, ArchiveError> {
        let damage = catalog::with(&self.tree, Catalog::damage)?;
        Ok(damage.into_iter().map(|(path, what)| Damage { path: self.dir().join(path), what }).collect())
    }

    /// Runs of a process that died before it could seal them, and that belong to no bake-off.
    ///
    /// Lists leave them out, and the next run removes their files.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn killed(&self) -> Result<Vec<RunHeader>, ArchiveError> {
        let killed = self.drafts(Writer::Gone)?.into_iter().map(|(header, _)| header);
        Ok(killed.filter(|header| header.bakeoff.is_none()).collect())
    }

    /// Short names of these runs, in lower case: the end of the id, as long as no other run has it.
    ///
    /// # Errors
    ///
    /// The index cannot be read.
    pub fn short_names(&self, ids: &[RunId]) -> Result<Vec<String>, ArchiveError> {
        catalog::with(&self.tree, |index| {
            ids.iter()
                .map(|id| {
                    for length in RunId::SHORT_MIN..RunId::LENGTH {
                        let name = id.short(length);
                        if index.named(&name)?.0 <= 1 {
                            return Ok(name.to_ascii_lowercase());
                        }
                    }
                    Ok(id.to_string())
                })
                .collect()
        })
    }

    /// Finds the run or bake-off that `text` names: run id, unique prefix, short name, or `latest`.
    ///
    /// `latest` is the newest that is not part of a bake-off, which is the one that a user started last.
    ///
    /// # Errors
    ///
    /// Nothing matches, or several names begin with the text.
    pub fn find(&self, text: &str) -> Result<RunId, ArchiveError> {
        self.find_of(text, RunKind::ALL)
    }

    /// Variant of [`Self::find`] with `latest` as the newest of these kinds.
    ///
    /// # Errors
    ///
    /// Those of [`Self::find`].
    pub fn find_of(&self, text: &str, kinds: &[RunKind]) -> Result<RunId, ArchiveError> {
        let not_found = || ArchiveError::NotFound { text: text.to_owned() };
        if text == "latest" {
            // Clocks of two machines that share an archive differ a little.
            let now_unix_ns = WallAnchor::now().unix_ns + 60_000_000_000;
            return catalog::with(&self.tree, |index| index.latest(kinds, now_unix_ns))?.ok_or_else(|| {
                if kinds == RunKind::ALL {
                    return not_found();
                }
                ArchiveError::NoneOfKind { kinds: kinds.iter().map(|kind| kind.word()).collect() }
            });
        }
        let prefix = text.to_ascii_uppercase();
        if prefix.is_empty() {
            return Err(not_found());
        }
        let (count, first) = catalog::with(&self.tree, |index| index.named(&prefix))?;
        match first[..] {
            [] => Err(not_found()),
            [id] => Ok(id),
            _ => Err(ArchiveError::Ambiguous { text: text.to_owned(), count, first }),
        }
    }

    /// Whether `id` is a bake-off, rather than a single run.
    pub fn is_bakeoff(&self, id: RunId) -> bool {
        self.tree.bakeoff(id).is_dir()
    }

    /// Runs with this bake-off in their header, in the order in which they began. This includes runs that its
    /// journal lacks because their process died between the two writes.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn runs_of(&self, bakeoff: RunId) -> Result<Vec<RunId>, ArchiveError> {
        catalog::with(&self.tree, |index| index.runs_of(bakeoff))
    }

    /// Header of a run or bake-off, without its measurements.
    ///
    /// # Errors
    ///
    /// No run or bake-off has that name, or it cannot be read, or has changed.
    pub fn header(&self, id: RunId) -> Result<RunHeader, ArchiveError> {
        let (run, folder) = (self.tree.run(id), self.tree.bakeoff(id));
        if run.is_dir() {
            return Ok(reader::read_manifest(&run, id)?.header);
        }
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        bakeoff::header(&folder, bakeoff::read_story)
    }

    fn listed(&self, header: RunHeader) -> Listed {
        let path = self.tree.bakeoff(header.id);
        if header.bakeoff.is_some() || !path.is_dir() {
            return Listed { path: self.tree.run(header.id), header };
        }
        // The index holds the state from the journal; only the lock shows whether a process still writes it.
        if header.state == RunState::Abandoned && bakeoff::is_running(&path) {
            return Listed { header: header.still_running(), path };
        }
        Listed { header, path }
    }

    /// Headers and traits of unsealed runs, by the state of the process that writes them.
    fn drafts(&self, writer: Writer) -> Result<Vec<(RunHeader, Traits)>, ArchiveError> {
        let mut drafts = Vec::new();
        for (folder, place) in disk::places(&self.tree.runs())? {
            let Place::Partial(_) = place else { continue };
            // The run may end during this check: then it is not running.
            let Ok(manifest) = disk::open(&folder.join(MANIFEST)) else { continue };
            let is_found = match lock::is_taken(&manifest) {
                Ok(true) => writer == Writer::Alive,
                Ok(false) => writer == Writer::Gone,
                Err(_) => false,
            };
            if !is_found {
                continue;
            }
            let draft =
                disk::read(&folder.join(MANIFEST)).and_then(|bytes| reader::read_draft(&folder, &bytes));
            drafts.extend(draft.ok().map(|d| (d.header, d.manifest.traits())));
        }
        Ok(drafts)
    }
}

/// State of the process that writes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// The process holds the manifest's lock and measures.
    Alive,
    /// The process died before the run was complete.
    Gone,
}

impl Filter {
    fn lets_through(&self, header: &RunHeader) -> bool {
        let Self { kind, state, labels, text, part_of } = self;
        kind.is_none_or(|kind| header.kind == kind)
            && state.is_none_or(|state| header.state == state)
            && labels.iter().all(|(name, value)| {
                header.labels.get(name).is_some_and(|found| value.as_ref().is_none_or(|value| found == value))
            })
            && text.as_deref().is_none_or(|text| mentions(header, &text.to_lowercase()))
            && match part_of {
                PartOf::Anything => true,
                PartOf::Nothing => header.bakeoff.is_none(),
                PartOf::Bakeoff(id) => header.bakeoff == Some(*id),
            }
    }
}

fn mentions(header: &RunHeader, text: &str) -> bool {
    let marks = header.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let mut all =
        [header.id.to_string(), header.title.clone(), header.command.clone()].into_iter().chain(marks);
    all.any(|field| field.to_lowercase().contains(text))
}
