//! The folder tree, and how something comes to be in it: written beside, made durable, renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;
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
    /// The user has said that root may write here, whoever owns it.
    is_trusted: bool,
}

impl Tree {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), is_trusted: false }
    }

    pub(crate) fn trusted_at(root: &Path) -> Self {
        Self { root: root.to_owned(), is_trusted: true }
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

    /// Whether we may write here. In a folder of another user, names may be links that lead anywhere: root, who could
    /// write through them, does not.
    pub(crate) fn is_written_by_us(&self) -> bool {
        // A link must be root's too.
        let is_roots = |folder: PathBuf| {
            [fs::metadata(&folder), fs::symlink_metadata(&folder)]
                .into_iter()
                .all(|found| found.map_or(true, |found| found.uid() == 0))
        };
        self.is_trusted
            || !geteuid().is_root()
            || [self.root.clone(), self.runs(), self.bakeoffs()].into_iter().all(is_roots)
    }

    /// Whether the index may be a file: SQLite follows links that stand at the names of its files, so nobody else may
    /// make any.
    pub(crate) fn has_index_file(&self) -> bool {
        let is_private = |found: fs::Metadata| {
            (found.uid() == 0 || found.uid() == geteuid().as_raw()) && found.mode() & 0o022 == 0
        };
        fs::metadata(&self.root).is_ok_and(is_private)
    }

    /// Keeps every other process from adding and removing folders, until it is dropped. Whatever is written in the tree
    /// begins here.
    pub(crate) fn keep_still(&self) -> Result<File, ArchiveError> {
        if !self.is_written_by_us() {
            return Err(ArchiveError::OfAnother { path: self.root.clone() });
        }
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

/// Largest stored file of an archive that is read, in bytes. Ours are far smaller.
pub(crate) const STORED_BYTES_MAX: u64 = 256 << 20;
/// Largest journal or other text, in bytes. Reading one takes a few times as much memory.
const TEXT_BYTES_MAX: u64 = 32 << 20;
/// How much a packed file may unpack to: `least`, or `ratio` times its size where that is more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedMax {
    least_bytes: u64,
    ratio: u64,
}

/// Of documents and logs, which may repeat themselves: real ones stay below 50 times their size.
pub(crate) const OF_LINES: UnpackedMax = UnpackedMax { least_bytes: 128 << 20, ratio: 100 };
/// Of histograms, of which each line is a load to read, and which hardly repeat themselves.
pub(crate) const OF_HISTOGRAMS: UnpackedMax = UnpackedMax { least_bytes: 16 << 20, ratio: 32 };

/// Makes a folder that only this user may enter, with those above it.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder that is not there yet, for this user only.
pub(crate) fn make_new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Options that make a new file for this user only, and never follow a link.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Opens a file of an archive. An archive may come from a stranger: a link, a pipe or a device in it is no file of ours.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(io::ErrorKind::InvalidData, "it is a link, expected a file"),
        _ => e,
    })?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"))
}

/// A whole document, which has a limit.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ArchiveError> {
    read_up_to(path, TEXT_BYTES_MAX)
}

/// A whole stored file of at most as many bytes as its manifest says.
pub(crate) fn read_stored(path: &Path, stored: &StoredFile) -> Result<Vec<u8>, ArchiveError> {
    read_up_to(path, stored.bytes.min(STORED_BYTES_MAX))
}

fn read_up_to(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
    let file = open(path).map_err(ArchiveError::reading(path))?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(ArchiveError::reading(path))?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    Err(ArchiveError::damaged(path, format!("it has more than the {bytes_max} bytes that it may have")))
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
    let mut unpacked_bytes = 0;
    let mut stored = store_with(folder, name, |out| {
        let level = tamp::Level::new(3).expect("levels are 0 to 9");
        let mut packer = Counting { out: tamp::Writer::new(out, &tamp::Options::zst(level))?, bytes: 0 };
        write(&mut packer)?;
        unpacked_bytes = packer.bytes;
        Ok(packer.out.finish()?)
    })?;
    stored.unpacked_bytes = Some(unpacked_bytes);
    Ok(stored)
}

struct Counting<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The content of a file that [`store_packed`] wrote, as a stream that ends with an error where it has more or fewer
/// bytes than it may have.
///
/// - `packed_bytes`: how many bytes `packed` has.
/// - `unpacked_bytes`: how many the manifest says.
pub(crate) fn unpack<R: Read>(
    packed: R,
    packed_bytes: u64,
    unpacked_bytes: Option<u64>,
    max: UnpackedMax,
) -> Unpacking<R> {
    let most = max.least_bytes.max(packed_bytes.saturating_mul(max.ratio));
    Unpacking { content: tamp::Reader::new(packed, 1), most, expected: unpacked_bytes, found: 0 }
}

/// See [`unpack`].
pub(crate) struct Unpacking<R> {
    content: tamp::Reader<R>,
    most: u64,
    expected: Option<u64>,
    found: u64,
}

impl<R: Read> Read for Unpacking<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(into)?;
        self.found += read as u64;
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        match self.expected {
            Some(bytes) if self.found > bytes => wrong(format!("it unpacks to more than its {bytes} bytes")),
            Some(bytes) if read == 0 && !into.is_empty() && self.found < bytes => {
                wrong(format!("it unpacks to {} bytes and should to {bytes}", self.found))
            }
            _ if self.found > self.most => {
                wrong(format!("it unpacks to more than {} bytes, the limit for its size", self.most))
            }
            _ => Ok(read),
        }
    }
}

/// Writes a new file in `folder` as `write` does, durably.
pub(crate) fn store_with(
    folder: &Path,
    name: &str,
    write: impl FnOnce(Summing<File>) -> io::Result<Summing<File>>,
) -> Result<StoredFile, ArchiveError> {
    let path = folder.join(name);
    let stored = || {
        let file = new_file().open(&path)?;
        let (file, sha256, bytes) = write(Summing::new(file))?.finish();
        file.sync_all()?;
        Ok(StoredFile { name: name.to_owned(), bytes, sha256, unpacked_bytes: None })
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
            assert_eq!(file.unpacked_bytes, Some(text.len() as u64));
            let content = |expected| {
                let mut content = Vec::new();
                unpack(&bytes[..], bytes.len() as u64, expected, OF_LINES)
                    .read_to_end(&mut content)
                    .map(|_| content)
            };
            assert_eq!(content(file.unpacked_bytes).unwrap(), text);
            assert_eq!(content(None).unwrap(), text);
            assert!(content(Some(text.len() as u64 + 1)).is_err());
            assert!(text.is_empty() || content(Some(text.len() as u64 - 1)).is_err());
            fs::remove_file(folder.path().join("x.zst")).unwrap();
        }
    }
}
