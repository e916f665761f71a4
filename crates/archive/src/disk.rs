//! The folder tree, and how something comes to be in it: written beside, made durable, renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use record::run::RunId;

use crate::checksum::Summing;
use crate::error::ArchiveError;
use crate::lock::{self, Hold};
use crate::schema::manifest::StoredFile;

/// Ends the name of a folder that is being written: `runs/.<ulid>.partial`.
const PARTIAL: &str = "partial";
/// Ends the name of a folder that is being removed: `runs/.<ulid>.removed`.
const REMOVED: &str = "removed";

/// What a folder under `runs/` or `bakeoffs/` is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Whole.
    Whole(RunId),
    /// Being written, or left by a process that died.
    Partial(RunId),
    /// Being removed, or left so.
    Removed(RunId),
    /// None of ours.
    Stray,
}

/// The folders of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub(crate) fn bakeoffs(&self) -> PathBuf {
        self.root.join("bakeoffs")
    }

    pub(crate) fn run(&self, id: RunId) -> PathBuf {
        self.runs().join(id.to_string())
    }

    pub(crate) fn bakeoff(&self, id: RunId) -> PathBuf {
        self.bakeoffs().join(id.to_string())
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index.sqlite")
    }

    pub(crate) fn index_lock(&self) -> PathBuf {
        self.root.join(".index.lock")
    }

    /// Keeps every other process from adding and removing folders, until it is dropped.
    pub(crate) fn keep_still(&self) -> Result<File, ArchiveError> {
        let path = self.root.join(".folders.lock");
        lock::wait(&path, Hold::Alone).map_err(ArchiveError::writing(&path))
    }
}

/// `.<ulid>.partial` beside `folder`.
pub(crate) fn partial(folder: &Path) -> PathBuf {
    beside(folder, PARTIAL)
}

/// `.<ulid>.removed` beside `folder`.
pub(crate) fn removed(folder: &Path) -> PathBuf {
    beside(folder, REMOVED)
}

fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().expect("folders of runs are named for them").to_string_lossy();
    folder.with_file_name(format!(".{name}.{what}"))
}

/// What is in `runs/` or `bakeoffs/`, by name.
pub(crate) fn places(folder: &Path) -> Result<Vec<(PathBuf, Place)>, ArchiveError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(ArchiveError::reading(folder))? {
        let entry = entry.map_err(ArchiveError::reading(folder))?;
        let place = entry.file_name().to_str().map_or(Place::Stray, place);
        found.push((entry.path(), place));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn place(name: &str) -> Place {
    // Only the one spelling that we write: the reader of names would also take lower case.
    let id = |text: &str| text.parse::<RunId>().ok().filter(|id| id.to_string() == text);
    let hidden = name.strip_prefix('.').and_then(|rest| rest.split_once('.'));
    match hidden {
        Some((text, PARTIAL)) => id(text).map_or(Place::Stray, Place::Partial),
        Some((text, REMOVED)) => id(text).map_or(Place::Stray, Place::Removed),
        Some(_) => Place::Stray,
        None => id(name).map_or(Place::Stray, Place::Whole),
    }
}

/// The names in a run's or bake-off's own folder, sorted.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(ArchiveError::reading(folder))? {
        let entry = entry.map_err(ArchiveError::reading(folder))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// A whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ArchiveError> {
    fs::read(path).map_err(ArchiveError::reading(path))
}

/// Writes a new file in `folder`, durably.
pub(crate) fn store(folder: &Path, name: &str, bytes: &[u8]) -> Result<StoredFile, ArchiveError> {
    store_with(folder, name, |mut out| {
        out.write_all(bytes)?;
        Ok(out)
    })
}

/// Writes a new file in `folder`, compressed, durably.
pub(crate) fn store_packed(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<StoredFile, ArchiveError> {
    store_with(folder, name, |out| {
        let level = tamp::Level::new(3).expect("levels are 0 to 9");
        let mut packer = tamp::Writer::new(out, &tamp::Options::zst(level))?;
        write(&mut packer)?;
        Ok(packer.finish()?)
    })
}

/// The content of a file that [`store_packed`] wrote.
pub(crate) fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    tamp::Reader::new(bytes, 1).read_to_end(&mut content)?;
    Ok(content)
}

fn store_with(
    folder: &Path,
    name: &str,
    write: impl FnOnce(Summing<File>) -> io::Result<Summing<File>>,
) -> Result<StoredFile, ArchiveError> {
    let path = folder.join(name);
    let stored = || {
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let (file, sha256, bytes) = write(Summing::new(file))?.finish();
        file.sync_all()?;
        Ok(StoredFile { name: name.to_owned(), bytes, sha256 })
    };
    stored().map_err(ArchiveError::writing(&path))
}

/// The line that `sha256sum` writes and checks.
pub(crate) fn sum_line(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

/// Makes the names in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ArchiveError> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(ArchiveError::writing(folder))
}

/// Gives a finished folder its name, durably: from here on it is seen.
pub(crate) fn publish(partial: &Path, folder: &Path) -> Result<(), ArchiveError> {
    sync_folder(partial)?;
    fs::rename(partial, folder).map_err(ArchiveError::writing(folder))?;
    sync_folder(folder.parent().expect("folders of runs have a parent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_its_name() {
        let id: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(place("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Place::Whole(id));
        assert_eq!(place(".01ARZ3NDEKTSV4RRFFQ69G5FAV.partial"), Place::Partial(id));
        assert_eq!(place(".01ARZ3NDEKTSV4RRFFQ69G5FAV.removed"), Place::Removed(id));
        for stray in
            ["", "x", "01arz3ndektsv4rrffq69g5fav", ".hidden", ".x.partial", "01ARZ3NDEKTSV4RRFFQ69G5FAV.bak"]
        {
            assert_eq!(place(stray), Place::Stray, "{stray}");
        }
    }

    #[test]
    fn what_is_packed_unpacks() {
        let folder = tempfile::tempdir().unwrap();
        for text in [&b""[..], b"a line\n", &vec![7; 3_000_000]] {
            let file = store_packed(folder.path(), "x.zst", |out| out.write_all(text)).unwrap();
            let bytes = read(&folder.path().join("x.zst")).unwrap();
            assert_eq!((file.bytes, file.sha256), (bytes.len() as u64, crate::checksum::of(&bytes)));
            assert_eq!(unpack(&bytes).unwrap(), text);
            fs::remove_file(folder.path().join("x.zst")).unwrap();
        }
    }
}
