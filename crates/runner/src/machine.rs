//! One bake-off, `scale` or `dder` at a time on a machine: locks that their holder's death releases.
//!
//! A measurement that wants the machine for itself holds one lock. Every measurement, also with `--beside-others`, holds
//! a second one that they share, the *presence*: by it each finds out about the others, whichever began first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;

use crate::error::RunnerError;

/// Names another lock file: for containers that share a machine, and for tests.
const VARIABLE: &str = "BAKEOFF_MACHINE_LOCK";
/// What the name of the file with the presence adds to that of the lock.
const PRESENCE: &str = ".present";
/// As much of a holder's line as a message can hold.
const LINE_BYTES: u64 = 200;

/// A place among the measurements of this machine, until it is dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    /// `None`: with `--beside-others`.
    _alone: Option<Flock<File>>,
    presence: Presence,
}

/// What [`Machine::look`] found before a trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    others: bool,
    begun: Begun,
}

impl Machine {
    /// Takes a place.
    ///
    /// - `beside_others`: allows other measurements. Without it, none may be there.
    /// - `title`: for the message of a measurement that is refused.
    pub(crate) fn take(beside_others: bool, title: &str) -> Result<Self, RunnerError> {
        Self::take_at(&place(), beside_others, title)
    }

    fn take_at(path: &Path, beside_others: bool, title: &str) -> Result<Self, RunnerError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| RunnerError::MachineLock { path, source }
        };
        let alone = if beside_others {
            None
        } else {
            let file = open(path).map_err(failed(path))?;
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
                .map_err(|(mut file, _)| RunnerError::MachineBusy { holder: holder(&mut file) })?;
            Some(lock)
        };
        let mut present = path.as_os_str().to_owned();
        present.push(PRESENCE);
        let present = PathBuf::from(present);
        let mut presence = Presence { file: open(&present).map_err(failed(&present))? };
        if !beside_others && let Some(pid) = presence.other().map_err(failed(&present))? {
            return Err(RunnerError::MachineBusy { holder: name_of(pid) });
        }
        presence.enter(title).map_err(failed(&present))?;
        let alone = alone.map(|mut lock| {
            sign(&mut lock, title);
            lock
        });
        Ok(Self { _alone: alone, presence })
    }

    /// Looks for other measurements before a trial.
    pub(crate) fn look(&self) -> Look {
        Look { others: self.presence.has_others(), begun: self.presence.begun() }
    }

    /// Whether another measurement was on the machine at any time since `before`. Also if that cannot be found out.
    pub(crate) fn was_shared_since(&self, before: Look) -> bool {
        before.others || self.presence.has_others() || self.presence.begun() != before.begun
    }
}

/// When the last measurement began: the time of the last change to the file of the presence, and its length.
type Begun = Option<(i64, i64, u64)>;

/// A lock that all measurements share. Each locks the byte whose offset is its process id, so that another one can name it.
#[derive(Debug)]
struct Presence {
    file: File,
}

impl Presence {
    /// Takes the lock, and changes the file, so that others find out even if this one ends before they look. If this user
    /// may not write to the file, they find out by the lock alone.
    fn enter(&mut self, title: &str) -> io::Result<()> {
        let own = range(libc::F_RDLCK, i64::from(std::process::id()), 1);
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&own))?;
        sign(&mut self.file, title);
        Ok(())
    }

    /// The process id of another holder.
    fn other(&self) -> io::Result<Option<i64>> {
        // A lock for reading conflicts only with one for writing; this asks and takes none.
        let mut found = range(libc::F_WRLCK, 0, 0);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok((i32::from(found.l_type) != libc::F_UNLCK).then_some(found.l_start))
    }

    fn has_others(&self) -> bool {
        !matches!(self.other(), Ok(None))
    }

    fn begun(&self) -> Begun {
        let found = self.file.metadata().ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.len()))
    }
}

/// - `length`: 0 for up to the end.
fn range(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("a small constant"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("a small constant"),
        l_start: start,
        l_len: length,
        // The kernel requires it of this kind of lock.
        l_pid: 0,
    }
}

fn place() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return path.into();
    }
    // The same for every user, whatever TMPDIR says.
    let folder = ["/run/lock", "/tmp"].into_iter().find(|folder| Path::new(folder).is_dir());
    Path::new(folder.unwrap_or("/tmp")).join("bakeoff.lock")
}

/// Opens a lock file without following a link; a file that is not there is made for every user.
fn open(path: &Path) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).mode(0o666);
        options
    };
    match options(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match options(true).create_new(true).open(path) {
            Ok(file) => {
                // The umask took rights from the others.
                file.set_permissions(fs::Permissions::from_mode(0o666))?;
                Ok(file)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => options(true).open(path),
            Err(e) => Err(e),
        },
        // To lock it, reading is enough.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => options(false).open(path),
        opened => opened,
    }
}

/// Writes the holder's line. Only for people: a file that another user owns may stay unchanged, and one
/// that has another name too, which another user may have planted, does.
fn sign(file: &mut File, title: &str) {
    if !file.metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1) {
        return;
    }
    let _ = file.set_len(0).and_then(|()| {
        file.rewind()?;
        writeln!(file, "process {}: {title}", std::process::id())
    });
}

fn holder(file: &mut File) -> String {
    let mut line = Vec::new();
    let _ = file.rewind().and_then(|()| file.take(LINE_BYTES).read_to_end(&mut line));
    let line = String::from_utf8_lossy(&line);
    line.lines().next().unwrap_or("another process").escape_debug().to_string()
}

/// The process and its name, if it has one here.
fn name_of(pid: i64) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => format!("process {pid}"),
        name => format!("process {pid}: {}", name.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_free_for_one_only_when_no_measurement_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let alone = || Machine::take_at(&lock, false, "alone");
        let first = alone().unwrap();
        let quiet = first.look();
        assert!(!first.was_shared_since(quiet));
        assert!(matches!(alone(), Err(RunnerError::MachineBusy { holder }) if holder.contains("alone")));
        assert!(!first.was_shared_since(quiet), "a refused measurement disturbs nothing");

        let beside = Machine::take_at(&lock, true, "beside").unwrap();
        assert!(first.was_shared_since(quiet) && beside.look().others);
        drop(first);
        let own = format!("process {}", std::process::id());
        assert!(matches!(alone(), Err(RunnerError::MachineBusy { holder }) if holder.contains(&own)));
        drop(beside);
        alone().unwrap();
    }

    #[test]
    fn a_measurement_that_begins_and_ends_within_a_trial_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let first = Machine::take_at(&lock, false, "alone").unwrap();
        let before = first.look();
        drop(Machine::take_at(&lock, true, "a guest that was there for a moment").unwrap());
        assert!(!first.look().others);
        assert!(first.was_shared_since(before));
        let after = first.look();
        assert!(!first.was_shared_since(after), "the next trial has the machine for itself");
    }
}
