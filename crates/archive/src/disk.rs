//! The folder tree. New entries are written under a temporary name, synced, and renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;
use record::run::RunId;

use crate::checksum::Summing;
use crate::error::ArchiveError;
use crate::lock::{self, Hold};
use crate::schema::manifest::StoredFile;

/// Suffix of a folder that is being written: `runs/.<ulid>.partial`.
const PARTIAL: &str = "partial";
/// Suffix of a folder that is being removed: `runs/.<ulid>.removed`.
const REMOVED: &str = "removed";

/// Kind of a folder under `runs/` or `bakeoffs/`, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A complete folder.
    Whole(RunId),
    /// A folder that is being written, or that a process left when it died.
    Partial(RunId),
    /// A folder that is being removed, or that an interrupted removal left.
    Removed(RunId),
    /// A folder that the archive did not create.
    Stray,
}

/// The folders of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
    /// Whether the user allows root to write in a folder of any owner.
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

    /// Whether this process may write here. In a folder of another user, names may be links to any file,
    /// through which root could write: root refuses. Another user that can rename a folder on the way can put
    /// a different one in its place.
    pub(crate) fn is_written_by_us(&self) -> bool {
        // A link must belong to root too.
        let is_roots = |folder: PathBuf| {
            [fs::metadata(&folder), fs::symlink_metadata(&folder)]
                .into_iter()
                .all(|found| found.map_or(true, |found| found.uid() == 0))
        };
        self.is_trusted
            || !geteuid().is_root()
            || [self.root.clone(), self.runs(), self.bakeoffs()].into_iter().all(is_roots)
                && is_reached_by_root_alone(&self.root)
    }

    /// Whether the index may be a file. SQLite follows links at the names of its files, so no other user may
    /// be able to create any.
    pub(crate) fn has_index_file(&self) -> bool {
        let is_private = |found: fs::Metadata| {
            (found.uid() == 0 || found.uid() == geteuid().as_raw()) && found.mode() & 0o022 == 0
        };
        fs::metadata(&self.root).is_ok_and(is_private)
    }

    /// Keeps other processes from adding and removing folders until the returned file is dropped. Every write
    /// in the tree takes this lock.
    pub(crate) fn keep_still(&self) -> Result<File, ArchiveError> {
        if !self.is_written_by_us() {
            return Err(ArchiveError::OfAnother { path: self.root.clone() });
        }
        let path = self.root.join(".folders.lock");
        lock::wait(&path, Hold::Alone).map_err(ArchiveError::writing(&path))
    }
}

/// Whether only root can change where a path leads: every folder on the way, also behind links, is root's and
/// writable by root alone, or sticky.
fn is_reached_by_root_alone(path: &Path) -> bool {
    let is_fixed = |folder: &Path| {
        fs::symlink_metadata(folder).map_or_else(
            |why| why.kind() == io::ErrorKind::NotFound,
            |found| {
                let is_shared = found.is_dir() && found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
                found.uid() == 0 && !is_shared
            },
        )
    };
    let Ok(path) = std::path::absolute(path) else { return false };
    let Some(there) = path.ancestors().find(|folder| folder.exists()) else { return false };
    let Ok(real) = fs::canonicalize(there) else { return false };
    let on_the_way = real.ancestors().skip(usize::from(there == path));
    path.ancestors().skip(1).chain(on_the_way).all(is_fixed)
}

/// `.<ulid>.partial` next to `folder`.
pub(crate) fn partial(folder: &Path) -> PathBuf {
    beside(folder, PARTIAL)
}

/// `.<ulid>.removed` next to `folder`.
pub(crate) fn removed(folder: &Path) -> PathBuf {
    beside(folder, REMOVED)
}

fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().expect("folders of runs are named for them").to_string_lossy();
    folder.with_file_name(format!(".{name}.{what}"))
}

/// Content of `runs/` or `bakeoffs/`, by name.
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
    // Only the canonical spelling: parsing an id also accepts lower case.
    let id = |text: &str| text.parse::<RunId>().ok().filter(|id| id.to_string() == text);
    let hidden = name.strip_prefix('.').and_then(|rest| rest.split_once('.'));
    match hidden {
        Some((text, PARTIAL)) => id(text).map_or(Place::Stray, Place::Partial),
        Some((text, REMOVED)) => id(text).map_or(Place::Stray, Place::Removed),
        Some(_) => Place::Stray,
        None => id(name).map_or(Place::Stray, Place::Whole),
    }
}

/// Names in the folder of a run or bake-off, sorted.
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
/// Largest text, in bytes. Reading one takes a few times as much memory.
const TEXT_BYTES_MAX: u64 = 32 << 20;
/// Largest journal, in bytes: 50,000 trials, each on a server that is started for it, have 75 MB of steps.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 96 << 20;
/// Maximum size of an unpacked file: `least`, or `ratio` times its packed size if that is more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedMax {
    least_bytes: u64,
    ratio: u64,
}

impl UnpackedMax {
    /// The limit for a file of this packed size.
    pub(crate) fn of(self, packed_bytes: u64) -> u64 {
        self.least_bytes.max(packed_bytes.saturating_mul(self.ratio))
    }
}

/// Limit for documents and logs, which may repeat themselves: real ones stay below 50 times their packed
/// size.
pub(crate) const OF_LINES: UnpackedMax = UnpackedMax { least_bytes: 128 << 20, ratio: 100 };
/// Limit for histograms: each line is expensive to read, and they hardly repeat themselves.
pub(crate) const OF_HISTOGRAMS: UnpackedMax = UnpackedMax { least_bytes: 16 << 20, ratio: 32 };

/// Limit for the stacks of a profile. A byte of a name takes at most six in JSON.
pub(crate) const OF_STACKS: UnpackedMax = UnpackedMax { least_bytes: 32 << 20, ratio: 1 };

/// Creates a folder and its parents, accessible to this user only.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a new folder, accessible to this user only.
pub(crate) fn make_new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Options that create a new file for this user only, and never follow a link.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Opens a file of an archive. The archive may come from another user: links, pipes and devices in it are
/// refused.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => {
            io::Error::new(io::ErrorKind::InvalidData, "it is a symbolic link, not a regular file")
        }
        _ => e,
    })?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"))
}

/// Reads a document, up to a size limit.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ArchiveError> {
    read_up_to(path, TEXT_BYTES_MAX)
}

/// Reads a stored file, up to the size in its manifest.
pub(crate) fn read_stored(path: &Path, stored: &StoredFile) -> Result<Vec<u8>, ArchiveError> {
    read_up_to(path, stored.bytes.min(STORED_BYTES_MAX))
}

/// Reads an open journal from its beginning, up to a size limit.
pub(crate) fn read_journal(mut file: &File, path: &Path) -> Result<Vec<u8>, ArchiveError> {
    file.rewind().map_err(ArchiveError::reading(path))?;
    read_file(file, path, JOURNAL_BYTES_MAX)
}

/// Reads a document from a byte on; `None` if it is shorter.
pub(crate) fn read_after(path: &Path, from: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
    let mut file = open(path).map_err(ArchiveError::reading(path))?;
    let length = file.metadata().map_err(ArchiveError::reading(path))?.len();
    if !(from..=TEXT_BYTES_MAX).contains(&length) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(from)).map_err(ArchiveError::reading(path))?;
    read_file(&file, path, TEXT_BYTES_MAX).map(Some)
}

/// Reads a file, up to a size limit.
pub(crate) fn read_up_to(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
    let file = open(path).map_err(ArchiveError::reading(path))?;
    read_file(&file, path, bytes_max)
}

fn read_file(file: &File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(ArchiveError::reading(path))?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    Err(ArchiveError::damaged(path, format!("it is larger than {bytes_max} bytes, its limit")))
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

/// Content of a file that [`store_packed`] wrote, as a stream that fails if the length differs from the
/// expected one.
///
/// - `packed_bytes`: length of `packed`.
/// - `unpacked_bytes`: length according to the manifest.
pub(crate) fn unpack<R: Read>(
    packed: R,
    packed_bytes: u64,
    unpacked_bytes: Option<u64>,
    max: UnpackedMax,
) -> Unpacking<R> {
    Unpacking {
        content: tamp::Reader::new(packed, 1),
        most: max.of(packed_bytes),
        expected: unpacked_bytes,
        found: 0,
    }
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
            Some(bytes) if self.found > bytes => {
                wrong(format!("it unpacks to more than the expected {bytes} bytes"))
            }
            Some(bytes) if read == 0 && !into.is_empty() && self.found < bytes => {
                wrong(format!("it unpacks to {} bytes, expected {bytes}", self.found))
            }
            _ if self.found > self.most => wrong(format!(
                "it unpacks to more than {} bytes, the limit for a file of its size",
                self.most
            )),
            _ => Ok(read),
        }
    }
}

/// Writes a new file in `folder` with `write`, durably.
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

/// Line in the format of `sha256sum`.
pub(crate) fn sum_line(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

/// Syncs the directory entries of `folder`.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ArchiveError> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(ArchiveError::writing(folder))
}

/// Renames a finished folder to its final name, durably; readers find it from here on.
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
