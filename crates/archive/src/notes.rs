//! Tags and notes of runs: `notes/<id>.json`. Runs themselves never change; what people say about them does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use record::run::RunId;
use serde::{Deserialize, Serialize};

use crate::error::ArchiveError;
use crate::{Archive, disk, whole_file};

/// Longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 16 << 10;
/// Most tags of a run.
pub const TAGS_MAX: usize = 32;
/// Longest tag, in letters.
const TAG_LENGTH_MAX: usize = 64;
/// Form of the files.
const SCHEMA: &str = "bakeoff.note/1";

/// Tags and text of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Tags, sorted.
    pub tags: BTreeSet<String>,
    /// Text; may be empty.
    pub text: String,
}

/// A tag or a note that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongNote {
    /// A tag with other characters, or too long.
    #[error(
        "`{tag}` is not a tag: expected up to {TAG_LENGTH_MAX} letters, digits, `-`, `_`, `.`, `:` or `/`"
    )]
    Tag {
        /// The tag.
        tag: String,
    },
    /// Too many tags.
    #[error("a run has at most {TAGS_MAX} tags")]
    Tags,
    /// Too long a note.
    #[error("a note has at most {NOTE_BYTES_MAX} bytes")]
    Text,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(default)]
    tags: BTreeSet<String>,
    #[serde(default)]
    text: String,
}

impl Note {
    /// A note with these tags.
    ///
    /// # Errors
    ///
    /// [`WrongNote`].
    pub fn new(tags: impl IntoIterator<Item = String>, text: &str) -> Result<Self, WrongNote> {
        let tags: BTreeSet<String> = tags.into_iter().collect();
        let is_plain = |c: char| c.is_alphanumeric() || "-_.:/".contains(c);
        let is_tag = |tag: &&String| {
            !tag.is_empty() && tag.chars().all(is_plain) && tag.chars().count() <= TAG_LENGTH_MAX
        };
        if let Some(tag) = tags.iter().find(|tag| !is_tag(tag)) {
            return Err(WrongNote::Tag { tag: tag.clone() });
        }
        let text = text.trim().to_owned();
        match (tags.len() > TAGS_MAX, text.len() > NOTE_BYTES_MAX) {
            (true, _) => Err(WrongNote::Tags),
            (_, true) => Err(WrongNote::Text),
            _ => Ok(Self { tags, text }),
        }
    }
}

impl Archive {
    /// The note of a run; empty if it has none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn note(&self, id: RunId) -> Result<Note, ArchiveError> {
        let path = self.note_path(id);
        let bytes = match disk::read(&path) {
            Err(ArchiveError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Note::default());
            }
            read => read?,
        };
        let file: File =
            serde_json::from_slice(&bytes).map_err(|e| ArchiveError::damaged(&path, e.to_string()))?;
        Ok(Note { tags: file.tags, text: file.text })
    }

    /// Stores the note of a run in place of the last one; an empty one removes it.
    ///
    /// # Errors
    ///
    /// No run has that id, or the disk refuses.
    pub fn set_note(&self, id: RunId, note: &Note) -> Result<(), ArchiveError> {
        let _still = self.tree.keep_still()?;
        if !self.tree.run(id).is_dir() && !self.tree.bakeoff(id).is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        if *note == Note::default() {
            return self.forget_note(id);
        }
        let (folder, path) = (self.dir().join("notes"), self.note_path(id));
        disk::make_folder(&folder).map_err(ArchiveError::writing(&folder))?;
        let text = record::target::mask_text(&note.text);
        let file = File { schema: SCHEMA.to_owned(), tags: note.tags.clone(), text };
        let bytes = serde_json::to_vec_pretty(&file).expect("texts are documents");
        whole_file::write(&path, &bytes).map_err(ArchiveError::writing(&path))
    }

    /// All notes. A file that does not read is left out.
    pub fn notes(&self) -> BTreeMap<RunId, Note> {
        let names = fs::read_dir(self.dir().join("notes")).into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok());
        ids.filter_map(|id: RunId| Some((id, self.note(id).ok()?))).collect()
    }

    /// Removes the note of a run.
    pub(crate) fn forget_note(&self, id: RunId) -> Result<(), ArchiveError> {
        let path = self.note_path(id);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(ArchiveError::writing(&path)(e)),
            _ => Ok(()),
        }
    }

    fn note_path(&self, id: RunId) -> PathBuf {
        self.dir().join("notes").join(format!("{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use record::clock::WallAnchor;

    use super::*;

    #[test]
    fn a_note_is_stored_replaced_and_gone_with_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let note = Note::new(["release/1.2".to_owned(), "slow".to_owned()], " why?\n").unwrap();
        assert!(matches!(archive.set_note(id, &note), Err(ArchiveError::NotFound { .. })));
        fs::create_dir(folder.path().join("runs").join(id.to_string())).unwrap();
        archive.set_note(id, &note).unwrap();
        assert_eq!((archive.note(id).unwrap(), note.text.as_str()), (note.clone(), "why?"));
        let secret = Note::new([], "mysql://app:S3CR3T@localhost/test").unwrap();
        archive.set_note(id, &secret).unwrap();
        assert!(!archive.note(id).unwrap().text.contains("S3CR3T"), "the archive holds no password");
        assert_eq!(archive.notes().len(), 1);
        archive.remove(id).unwrap();
        assert_eq!((archive.notes().len(), archive.note(id).unwrap()), (0, Note::default()));
    }

    #[test]
    fn a_tag_is_a_word() {
        for wrong in ["", "a b", "<b>", "x\n", &"x".repeat(65)] {
            assert!(matches!(Note::new([wrong.to_owned()], ""), Err(WrongNote::Tag { .. })), "{wrong}");
        }
        assert_eq!(Note::new((0..33).map(|n| n.to_string()), ""), Err(WrongNote::Tags));
        assert_eq!(Note::new([], &"x".repeat(NOTE_BYTES_MAX + 1)), Err(WrongNote::Text));
    }
}
