//! Runs and bake-offs that move between archives: the list of their files on the way out, and a checked
//! folder on the way in.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use record::run::{RunHeader, RunId, RunState};

use crate::checksum::Summing;
use crate::error::ArchiveError;
use crate::intervals::is_file_of_intervals;
use crate::schema::manifest::StoredFile;
use crate::writer::MANIFEST;
use crate::{Archive, bakeoff, checksum, disk, lock, reader};

/// Largest file that moves between archives, in bytes.
pub const FILE_BYTES_MAX: u64 = disk::STORED_BYTES_MAX;
/// Largest number of files of a run or bake-off that moves.
pub const FILES_MAX: usize = 256;
/// Largest total of the files of a run or bake-off that moves, in bytes.
pub(crate) const TOTAL_BYTES_MAX: u64 = 4 << 30;
/// Largest total of the unpacked files of a run that moves: its reader has all of them in memory.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Kind of a folder: `runs/<id>` or `bakeoffs/<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shelf {
    /// Folder of a run.
    Runs,
    /// Folder of a bake-off.
    Bakeoffs,
}

impl Shelf {
    /// Name of the parent folder.
    pub fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Bakeoffs => "bakeoffs",
        }
    }

    /// Reads the name of a parent folder.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Runs, Self::Bakeoffs].into_iter().find(|shelf| shelf.word() == word)
    }
}

/// One file of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParcelFile {
    /// Plain file name.
    pub name: String,
    /// Length.
    pub bytes: u64,
    /// Checksum.
    pub sha256: String,
}

/// A writer that passes on exactly the bytes of a file of a parcel, and none after them.
#[derive(Debug)]
pub struct Checked<W> {
    out: Summing<W>,
    left_bytes: u64,
    sha256: String,
}

impl<W: Write> Checked<W> {
    /// A writer of `file` to `out`.
    pub fn new(out: W, file: &ParcelFile) -> Self {
        Self { out: Summing::new(out), left_bytes: file.bytes, sha256: file.sha256.clone() }
    }

    /// The inner writer; `None` if bytes are missing or differ.
    pub fn finish(self) -> Option<W> {
        let (out, sum, _) = self.out.finish();
        (self.left_bytes == 0 && sum == self.sha256).then_some(out)
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more bytes than its length"));
        }
        let n = self.out.write(bytes)?;
        self.left_bytes -= n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Content of a run's or bake-off's folder.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Name, state and origin.
    pub header: RunHeader,
    /// Kind of the folder.
    pub shelf: Shelf,
    /// See [`Archive::identity`].
    pub sha256: String,
    /// All files, by name.
    pub files: Vec<ParcelFile>,
}

/// Checks a list of files that came from another machine.
///
/// # Errors
///
/// A name is not plain or occurs twice, or the list exceeds a limit. The text names the problem.
pub fn check_parcel_files(files: &[ParcelFile]) -> Result<(), String> {
    let is_plain = |name: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.bytes().all(plain)
    };
    let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if files.len() > FILES_MAX {
        return Err(format!("it has {} files, more than {FILES_MAX}", files.len()));
    }
    let mut total_bytes = 0_u64;
    for file in files {
        if !is_plain(&file.name) {
            return Err(format!("it has the file {:?}, which is not a plain file name", file.name));
        }
        if !is_sum(&file.sha256) {
            return Err(format!("{} has no SHA-256 checksum", file.name));
        }
        if file.bytes > FILE_BYTES_MAX {
            return Err(format!("{} is larger than {FILE_BYTES_MAX} bytes, the limit", file.name));
        }
        total_bytes += file.bytes;
    }
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
        return Err(format!("it has the file {:?} twice", twice.0));
    }
    if total_bytes > TOTAL_BYTES_MAX {
        return Err(format!("its files have {total_bytes} bytes, more than {TOTAL_BYTES_MAX}, the limit"));
    }
    Ok(())
}

/// SHA-256 over the lines `<sha256>  <name>` of the files, by name.
fn sum_of_list(files: &[ParcelFile]) -> String {
    let lines: String = files.iter().map(|file| disk::sum_line(&file.sha256, &file.name)).collect();
    checksum::of(lines.as_bytes())
}

/// Identity of a parcel with these files, which are in the order of their names.
///
/// A run is its manifest, which has the checksums of its other files. A bake-off is the list of its files:
/// nothing has a checksum of its journal.
pub fn identity_of(shelf: Shelf, files: &[ParcelFile]) -> Option<String> {
    match shelf {
        Shelf::Runs => files.iter().find(|file| file.name == MANIFEST).map(|file| file.sha256.clone()),
        Shelf::Bakeoffs => Some(sum_of_list(files)),
    }
}

impl Archive {
    /// Runs and bake-offs that no process will change: sealed runs, and bake-offs in which every trial has
    /// ended. The runs of a bake-off come before it.
    ///
    /// # Errors
    ///
    /// The folders cannot be read.
    pub fn finished(&self) -> Result<Vec<RunId>, ArchiveError> {
        let mut listed = self.list(&crate::Filter::default())?;
        listed.retain(|l| is_finished(&l.header, self.is_bakeoff(l.header.id)));
        listed.sort_by_key(|l| (self.is_bakeoff(l.header.id), l.header.id));
        Ok(listed.into_iter().map(|l| l.header.id).collect())
    }

    /// Checksum that two archives agree on if and only if they have the same run or bake-off; `None` if this
    /// archive has none of that name. Reads only the manifest of a run.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn identity(&self, id: RunId) -> Result<Option<String>, ArchiveError> {
        let run = self.tree.run(id);
        if run.is_dir() {
            return Ok(Some(checksum::of(&disk::read(&run.join(MANIFEST))?)));
        }
        let folder = self.tree.bakeoff(id);
        if folder.is_dir() {
            return Ok(Some(sum_of_list(&files_of(&folder)?)));
        }
        Ok(None)
    }

    /// Verifies a run or bake-off as [`Archive::verify`] does, and lists its files.
    ///
    /// # Errors
    ///
    /// It does not exist, is damaged, or still changes.
    pub fn parcel(&self, id: RunId) -> Result<Parcel, ArchiveError> {
        let shelf = if self.is_bakeoff(id) { Shelf::Bakeoffs } else { Shelf::Runs };
        let header = self.header(id)?;
        if !is_finished(&header, shelf == Shelf::Bakeoffs) {
            return Err(ArchiveError::Unfinished { id, state: header.state.word() });
        }
        for verified in self.verify(&[id])? {
            refuse(verified)?;
        }
        let folder = self.shelved(shelf, id);
        if shelf == Shelf::Runs {
            check_unpacked(&folder, &reader::read_manifest(&folder, id)?.manifest.files)?;
        }
        let files = files_of(&folder)?;
        check_parcel_files(&files).map_err(|what| ArchiveError::damaged(&folder, what))?;
        let sha256 = identity_of(shelf, &files).expect("a verified run has a manifest");
        Ok(Parcel { header, shelf, sha256, files })
    }

    /// Reads a file of a parcel, piece by piece.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has changed since; or the error of `each`.
    pub fn read_parcel_file<E: From<ArchiveError>>(
        &self,
        parcel: &Parcel,
        file: &ParcelFile,
        each: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = self.shelved(parcel.shelf, parcel.header.id).join(&file.name);
        let changed = || ArchiveError::damaged(&path, "it has changed since it was verified");
        let mut source = disk::open(&path).map_err(ArchiveError::reading(&path))?;
        let mut checked = Checked::new(io::sink(), file);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let n = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(ArchiveError::reading(&path)(e).into()),
            };
            checked.write_all(&piece[..n]).map_err(|_| changed())?;
            each(&piece[..n])?;
        }
        checked.finish().map(drop).ok_or_else(|| changed().into())
    }

    /// Whether the bake-off of this archive continues the one with these files: its journal begins with
    /// that one's, and its other files are the same.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn continues(&self, id: RunId, earlier: &[ParcelFile]) -> Result<bool, ArchiveError> {
        let folder = self.tree.bakeoff(id);
        let is_other = |file: &&ParcelFile| !is_journal(Shelf::Bakeoffs, &file.name);
        let Some(journal) = earlier.iter().find(|file| !is_other(file)) else { return Ok(false) };
        if !folder.is_dir() || !files_of(&folder)?.iter().filter(is_other).eq(earlier.iter().filter(is_other))
        {
            return Ok(false);
        }
        let bytes = disk::read_up_to(&folder.join(bakeoff::EVENTS), disk::JOURNAL_BYTES_MAX)?;
        let begins = usize::try_from(journal.bytes).ok().and_then(|n| bytes.get(..n));
        Ok(begins.is_some_and(|begins| checksum::of(begins) == journal.sha256))
    }

    /// Begins to receive a run or bake-off from another machine.
    ///
    /// # Errors
    ///
    /// The archive has it, another process receives it, or the archive cannot be written.
    pub fn receive(&self, id: RunId, shelf: Shelf) -> Result<Incoming, ArchiveError> {
        let partial = disk::partial(&self.tree.run(id));
        let _still = self.tree.keep_still()?;
        if self.tree.run(id).exists() || self.tree.bakeoff(id).exists() {
            return Err(ArchiveError::Exists { id });
        }
        disk::make_new_folder(&partial).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Busy { id },
            _ => ArchiveError::writing(&partial)(e),
        })?;
        // From here on, any failure drops the value, which removes the folder.
        let path = partial.join(MANIFEST);
        let mut incoming = Incoming { archive: self.clone(), id, shelf, partial, lock: None };
        let lock = disk::new_file().open(&path).map_err(ArchiveError::writing(&path))?;
        lock::take(&lock).map_err(ArchiveError::writing(&path))?;
        incoming.lock = Some(lock);
        let folder = incoming.folder();
        disk::make_folder(&folder).map_err(ArchiveError::writing(&folder))?;
        Ok(incoming)
    }

    fn shelved(&self, shelf: Shelf, id: RunId) -> PathBuf {
        match shelf {
            Shelf::Runs => self.tree.run(id),
            Shelf::Bakeoffs => self.tree.bakeoff(id),
        }
    }
}

fn is_finished(header: &RunHeader, is_bakeoff: bool) -> bool {
    match header.state {
        RunState::Running | RunState::Abandoned => false,
        // `bakeoff resume` continues it.
        RunState::Interrupted => !is_bakeoff,
        _ => true,
    }
}

/// Whether the file of that name grows while its bake-off is resumed.
pub fn is_journal(shelf: Shelf, name: &str) -> bool {
    shelf == Shelf::Bakeoffs && name == bakeoff::EVENTS
}

/// Refuses a run that unpacks to more than the limit. Its verification has the unpacked files in memory.
fn check_unpacked(folder: &Path, files: &[StoredFile]) -> Result<(), ArchiveError> {
    // Earlier versions did not write the unpacked length.
    let unstated = |f: &StoredFile| {
        if is_file_of_intervals(&f.name) { disk::OF_LINES.of(f.bytes) } else { f.bytes }
    };
    let unpacked = files.iter().map(|f| f.unpacked_bytes.unwrap_or_else(|| unstated(f)));
    let total = unpacked.fold(0, u64::saturating_add);
    if total <= UNPACKED_BYTES_MAX {
        return Ok(());
    }
    let what = format!("its files unpack to {total} bytes, more than {UNPACKED_BYTES_MAX}, the limit");
    Err(ArchiveError::damaged(folder, what))
}

fn files_of(folder: &Path) -> Result<Vec<ParcelFile>, ArchiveError> {
    let file = |name: String| {
        let path = folder.join(&name);
        let sum = disk::open(&path).and_then(|mut file| checksum::of_all(&mut file));
        let (sha256, bytes) = sum.map_err(ArchiveError::reading(&path))?;
        Ok(ParcelFile { name, bytes, sha256 })
    };
    disk::names(folder)?.into_iter().map(file).collect()
}

fn refuse(verified: crate::Verified) -> Result<(), ArchiveError> {
    match verified.problems.into_iter().next() {
        None => Ok(()),
        Some(problem) => Err(ArchiveError::damaged(&problem.path, problem.what)),
    }
}

/// A run or bake-off that is being received. [`Incoming::finish`] adds it to the archive;
/// dropping it earlier removes its files.
#[derive(Debug)]
#[must_use = "dropping it removes the received files"]
pub struct Incoming {
    archive: Archive,
    id: RunId,
    shelf: Shelf,
    /// `runs/.<id>.partial`, itself an archive with this one entry.
    partial: PathBuf,
    /// Locked: shows other processes that the receiver lives.
    lock: Option<File>,
}

impl Incoming {
    fn alone(&self) -> Archive {
        Archive { tree: disk::Tree::trusted_at(&self.partial), memory_max: None }
    }

    fn folder(&self) -> PathBuf {
        self.alone().shelved(self.shelf, self.id)
    }

    /// Begins a file, which arrives piece by piece.
    ///
    /// # Errors
    ///
    /// Its name or length is not allowed, or the archive cannot be written.
    pub fn begin(&self, file: &ParcelFile) -> Result<IncomingFile, ArchiveError> {
        let path = self.folder().join(&file.name);
        check_parcel_files(std::slice::from_ref(file)).map_err(|what| ArchiveError::damaged(&path, what))?;
        let new = disk::new_file().open(&path).map_err(ArchiveError::writing(&path))?;
        Ok(IncomingFile { path, out: Checked::new(new, file) })
    }

    /// Verifies the received files as [`Archive::verify`] does, and adds the run to the archive.
    ///
    /// # Errors
    ///
    /// It is damaged, the archive got one of that name meanwhile, or cannot be written.
    pub fn finish(self) -> Result<RunHeader, ArchiveError> {
        let (folder, alone) = (self.folder(), self.alone());
        let header = match self.shelf {
            Shelf::Runs => {
                let stored = reader::read_manifest(&folder, self.id)?;
                check_unpacked(&folder, &stored.manifest.files)?;
                refuse(alone.verify_run(self.id, &folder))?;
                stored.header
            }
            Shelf::Bakeoffs => {
                // Its runs are in the archive already.
                refuse(self.archive.verify_bakeoff(self.id, &folder))?;
                bakeoff::header(&folder, bakeoff::read_story)?
            }
        };
        if !is_finished(&header, self.shelf == Shelf::Bakeoffs) {
            return Err(ArchiveError::Unfinished { id: self.id, state: header.state.word() });
        }
        let _still = self.archive.tree.keep_still()?;
        let tree = &self.archive.tree;
        // `resume` would take it for one of its trials. A bake-off that is received comes after its runs.
        if let Some(bakeoff) = header.bakeoff.filter(|bakeoff| tree.bakeoff(*bakeoff).exists()) {
            let what = format!("it says that it is of bake-off {bakeoff}, which this machine has without it");
            return Err(ArchiveError::damaged(&folder, what));
        }
        if tree.run(self.id).exists() || tree.bakeoff(self.id).exists() {
            return Err(ArchiveError::Exists { id: self.id });
        }
        disk::publish(&folder, &self.archive.shelved(self.shelf, self.id))?;
        Ok(header)
    }
}

/// A file that is being received.
#[derive(Debug)]
#[must_use = "the file is complete only after `finish`"]
pub struct IncomingFile {
    path: PathBuf,
    out: Checked<File>,
}

impl IncomingFile {
    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// They exceed the file's length, or the archive cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.out.write_all(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => ArchiveError::damaged(&self.path, e.to_string()),
            _ => ArchiveError::writing(&self.path)(e),
        })
    }

    /// Syncs the file.
    ///
    /// # Errors
    ///
    /// The bytes differ from the list, or the archive cannot be written.
    pub fn finish(self) -> Result<(), ArchiveError> {
        let what = "the received bytes do not match their checksum";
        let file = self.out.finish().ok_or_else(|| ArchiveError::damaged(&self.path, what))?;
        file.sync_all().map_err(ArchiveError::writing(&self.path))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // If that fails, the next process that opens the archive does it.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_intervals_that_does_not_state_its_length_counts_as_the_longest() {
        let file = |name: &str, bytes, unpacked_bytes| StoredFile {
            name: name.to_owned(),
            bytes,
            sha256: String::new(),
            unpacked_bytes,
        };
        let check = |file| check_unpacked(Path::new("x"), &[file]).is_ok();
        assert!(check(file("cpu.jsonl.zst", 11 << 20, Some(200 << 20))));
        assert!(!check(file("cpu.jsonl.zst", 11 << 20, None)), "it may unpack to a hundred times as much");
        assert!(check(file("cpu.jsonl.zst", 1 << 20, None)));
        assert!(check(file("server.log.zst", 64 << 20, None)), "a log is read piece by piece");
    }
}
