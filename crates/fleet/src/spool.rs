//! The intervals of a run on the agent's disk: the truth, from which the conductor reads what did not arrive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::wire::{self, End, LeftSpool, SpoolFile, Start};

/// Bytes that one order to read returns at most: well below a message's limit.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// File in an agent's folder that its process has locked.
const LOCK: &str = "lock";
const LOCK_TRIES: u32 = 6;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Folder of one run.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

/// Appends the lines of one run.
#[derive(Debug)]
pub(crate) struct SpoolWriter {
    file: File,
    sum: Sha256,
    lines: u64,
    bytes: u64,
}

impl Folder {
    /// The folder of `run` below `spool`; it need not exist.
    pub(crate) fn of(spool: &Path, run: &str) -> Self {
        assert!(wire::is_name(run), "a run's name is checked where it comes in");
        Self(spool.join(run))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, file: SpoolFile) -> PathBuf {
        self.0.join(match file {
            SpoolFile::Slices => "slices.jsonl",
            SpoolFile::End => "end.json",
            SpoolFile::Start => "start.json",
            SpoolFile::Observed => "observed.jsonl",
        })
    }

    /// Makes the folder and its empty file of lines.
    pub(crate) fn create(&self) -> io::Result<SpoolWriter> {
        make_private(&self.0)?;
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(self.file(SpoolFile::Slices))?;
        File::open(&self.0)?.sync_all()?;
        Ok(SpoolWriter { file, sum: Sha256::new(), lines: 0, bytes: 0 })
    }

    pub(crate) fn open(&self, file: SpoolFile) -> io::Result<File> {
        File::open(self.file(file))
    }

    /// Writes the account of the run's end, whole or not at all.
    pub(crate) fn write_end(&self, end: &End) -> io::Result<()> {
        write_private(&self.file(SpoolFile::End), &wire::bytes(end))
    }

    /// Writes the account of the run's start, whole or not at all.
    pub(crate) fn write_start(&self, start: &Start) -> io::Result<()> {
        write_private(&self.file(SpoolFile::Start), &wire::bytes(start))
    }

    /// Writes the numbers of an observing agent, whole or not at all.
    pub(crate) fn write_observed(&self, lines: &[u8]) -> io::Result<()> {
        write_private(&self.file(SpoolFile::Observed), lines)
    }

    /// Up to [`READ_BYTES`] from `offset` on; empty at the end of the file, or if there is no such file.
    pub(crate) fn read(&self, file: SpoolFile, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.open(file) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(offset))?;
                file.take(READ_BYTES as u64).read_to_end(&mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(bytes)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }
}

/// The folder of one agent, which this process has for itself.
#[derive(Debug)]
pub(crate) struct Own {
    folder: PathBuf,
    _lock: File,
}

impl Own {
    /// Takes the folder of agent `id` below `spool`.
    ///
    /// # Errors
    ///
    /// It cannot be made, or another process has it.
    pub(crate) fn take(spool: &Path, id: &str) -> io::Result<Self> {
        let folder = spool.join(id);
        make_private(&folder)?;
        let mut options = OpenOptions::new();
        let lock = options.create(true).append(true).mode(0o600).open(folder.join(LOCK))?;
        let mut tries_left = LOCK_TRIES;
        // Another agent holds the lock for a moment while it searches for spools of earlier runs.
        while let Err(error) = lock.try_lock() {
            tries_left -= 1;
            if tries_left == 0 {
                return Err(error.into());
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs in `spool` that this agent, or one that no longer runs, has left, as an answer has them.
    ///
    /// - `except`: a run that this agent still plays.
    pub(crate) fn spools_left_in(&self, spool: &Path, except: Option<&str>) -> Vec<LeftSpool> {
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let left_spool = |path: &PathBuf| {
            let (owner, run) = (name(path.parent()?)?, name(path)?);
            let is_played = *path == self.folder.join(except.unwrap_or_default());
            if is_played || !wire::is_name(&owner) || !wire::is_name(&run) {
                return None;
            }
            let folder = Folder(path.clone());
            let bytes = fs::metadata(folder.file(SpoolFile::Slices)).map_or(0, |found| found.len());
            Some(LeftSpool { owner, run, bytes, has_end: folder.file(SpoolFile::End).exists() })
        };
        self.left_in(spool).iter().filter_map(left_spool).collect()
    }

    /// Spool of a run that `owner` has left in `spool`: this agent, or one that no longer runs.
    ///
    /// The file keeps the owner's name from another process.
    pub(crate) fn of_owner(&self, spool: &Path, owner: &str, run: &str) -> Option<(Folder, Option<File>)> {
        if !wire::is_name(owner) || !wire::is_name(run) {
            return None;
        }
        let folder = spool.join(owner);
        let lock = if folder == self.folder {
            None
        } else {
            let lock = File::open(folder.join(LOCK)).ok();
            if lock.as_ref().is_some_and(|lock| lock.try_lock().is_err()) {
                return None;
            }
            lock
        };
        Some((Folder::of(&folder, run), lock))
    }

    /// Runs in `spool` that this agent, or one that no longer runs, has left.
    pub(crate) fn left_in(&self, spool: &Path) -> Vec<PathBuf> {
        let folders_in = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
        };
        let is_left = |agent: &PathBuf| {
            let is_free = || File::open(agent.join(LOCK)).map_or(true, |lock| lock.try_lock().is_ok());
            *agent == self.folder || is_free()
        };
        let agents = folders_in(spool).into_iter().filter(is_left);
        let mut left: Vec<PathBuf> = agents.flat_map(|agent| folders_in(&agent)).collect();
        left.sort();
        left
    }
}

impl Drop for Own {
    /// A folder without runs goes: the next process of this machine may have another name.
    fn drop(&mut self) {
        let entries = || fs::read_dir(&self.folder).into_iter().flatten().flatten();
        if entries().all(|entry| entry.file_name() == LOCK) {
            let _ = fs::remove_file(self.folder.join(LOCK));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Writes a file that only this user can read, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let made = path.with_added_extension("new");
    // Left by a process that was killed; the folder is this user's alone.
    let _ = fs::remove_file(&made);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(made, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Makes a folder that only this user can read, and the folders above it.
///
/// # Errors
///
/// The folder cannot be created, or another user owns it.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        let text = format!("{} is not a folder of this user", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

impl SpoolWriter {
    /// Appends one line and returns once it is on disk.
    pub(crate) fn append(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.sum.update(&line);
        self.lines += 1;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Number of lines so far.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines, bytes, and the sum over all of them.
    pub(crate) fn finish(self) -> (u64, u64, String) {
        (self.lines, self.bytes, wire::hex(&self.sum.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_of_the_runs_of_agents_that_no_longer_run() {
        let spool = tempfile::tempdir().unwrap();
        let run_of = |own: &Own| fs::create_dir(own.folder().join("run")).unwrap();
        let (dead, alive) =
            (Own::take(spool.path(), "dead").unwrap(), Own::take(spool.path(), "alive").unwrap());
        run_of(&dead);
        run_of(&alive);
        drop(dead);
        let own = Own::take(spool.path(), "own").unwrap();
        assert_eq!(own.left_in(spool.path()), [spool.path().join("dead/run")]);
        run_of(&own);
        assert_eq!(own.left_in(spool.path()).len(), 2);
        assert!(Own::take(spool.path(), "own").is_err(), "one process has the folder");
        drop(Own::take(spool.path(), "empty").unwrap());
        assert!(spool.path().join("own/run").is_dir() && !spool.path().join("empty").exists());
    }
}
