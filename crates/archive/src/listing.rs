//! What is in the archive, and which run a user means.

use std::path::PathBuf;

use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunKind, RunState};

use crate::catalog::{self, Catalog};
use crate::disk::Place;
use crate::error::ArchiveError;
use crate::writer::MANIFEST;
use crate::{Archive, bakeoff, disk, lock, reader};

/// Which runs to list; the default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this kind.
    pub kind: Option<RunKind>,
    /// In this state.
    pub state: Option<RunState>,
    /// With each of these marks: a name, and a value where it matters.
    pub labels: Vec<(String, Option<String>)>,
    /// With this in title, command, name or marks, in upper or lower case.
    pub text: Option<String>,
    /// By the bake-off they belong to.
    pub part_of: PartOf,
}

/// Runs by the bake-off they belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PartOf {
    /// Whether or not they belong to one.
    #[default]
    Anything,
    /// Those that belong to none, and the bake-offs themselves.
    Nothing,
    /// Those of this one.
    Bakeoff(RunId),
}

/// A run or bake-off in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Name, state and origin.
    pub header: RunHeader,
    /// Its folder.
    pub path: PathBuf,
}

/// A folder that does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The folder.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
}

impl Archive {
    /// Runs and bake-offs, newest first, also those that are running.
    ///
    /// Folders that do not read are not among them: [`Archive::damage`] names those.
    ///
    /// # Errors
    ///
    /// Where the folders cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Listed>, ArchiveError> {
        let mut listed: Vec<Listed> = catalog::with(&self.tree, Catalog::headers)?
            .into_iter()
            .map(|header| self.listed(header))
            .collect();
        let running = self.drafts(Writer::Alive)?.into_iter();
        let running = running.map(|header| RunHeader { state: RunState::Running, reason: None, ..header });
        listed.extend(running.map(|header| self.listed(header)));
        listed.retain(|l| filter.lets_through(&l.header));
        // A run may have been renamed into its place between the two looks.
        listed.sort_by_key(|l| std::cmp::Reverse((l.header.id, l.header.state != RunState::Running)));
        listed.dedup_by_key(|l| l.header.id);
        Ok(listed)
    }

    /// Folders in the archive that do not read, and why; `verify` tells more.
    ///
    /// # Errors
    ///
    /// Where the folders cannot be read.
    pub fn damage(&self) -> Result<Vec<Damage>, ArchiveError> {
        let damage = catalog::with(&self.tree, Catalog::damage)?;
        Ok(damage.into_iter().map(|(path, what)| Damage { path: self.dir().join(path), what }).collect())
    }

    /// Runs whose process died before it could seal them, and which belong to no bake-off.
    ///
    /// Nothing of them is kept: they are no part of any list, and the next run removes what is left of them.
    ///
    /// # Errors
    ///
    /// Where the folders cannot be read.
    pub fn killed(&self) -> Result<Vec<RunHeader>, ArchiveError> {
        let mut killed = self.drafts(Writer::Gone)?;
        killed.retain(|header| header.bakeoff.is_none());
        Ok(killed)
    }

    /// The run or bake-off that `text` names: its whole name, a beginning that only it has, or `latest`.
    ///
    /// `latest` is the newest that is no part of a bake-off, since that is what a user started last.
    ///
    /// # Errors
    ///
    /// Where there is none, or several begin so.
    pub fn find(&self, text: &str) -> Result<RunId, ArchiveError> {
        self.find_of(text, RunKind::ALL)
    }

    /// As [`Self::find`]; `latest` is the newest of these kinds.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
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
        let (count, first) = catalog::with(&self.tree, |index| index.beginning(&prefix))?;
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

    /// The runs that say they belong to a bake-off, in the order they were begun; also those that its journal does
    /// not know, because their process died between the two.
    ///
    /// # Errors
    ///
    /// Where the folders cannot be read.
    pub fn runs_of(&self, bakeoff: RunId) -> Result<Vec<RunId>, ArchiveError> {
        catalog::with(&self.tree, |index| index.runs_of(bakeoff))
    }

    /// The header of a run or bake-off, without what was measured.
    ///
    /// # Errors
    ///
    /// Where there is none of that name, or it cannot be read, or is not what was written.
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
        // The index knows what the journal says; whether somebody goes on writing it is only known now.
        if header.state == RunState::Abandoned && bakeoff::is_running(&path) {
            return Listed { header: RunHeader { state: RunState::Running, reason: None, ..header }, path };
        }
        Listed { header, path }
    }

    /// Headers of runs that are not sealed, by what became of the process that writes them.
    fn drafts(&self, writer: Writer) -> Result<Vec<RunHeader>, ArchiveError> {
        let mut drafts = Vec::new();
        for (folder, place) in disk::places(&self.tree.runs())? {
            let Place::Partial(_) = place else { continue };
            // It may be finished, or given up, while we look: then it is not running.
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
            drafts.extend(draft.ok().map(|d| d.header));
        }
        Ok(drafts)
    }
}

/// The process that writes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It measures: it holds the manifest's lock.
    Alive,
    /// It died before the run was whole.
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
