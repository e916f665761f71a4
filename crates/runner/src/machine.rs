//! Locks that allow one bake-off, `scale` or `dder` at a time on a machine. The kernel releases them when
//! their holder dies.
//!
//! The files contain the process id and the start time of the last measurement, and no user input. Every user
//! can lock them, and so delay others; the message names the process and its user, as the kernel knows them.
//!
//! A measurement that needs the machine for itself holds one lock. Every measurement, also with
//! `--beside-others`, holds a second, shared lock, the *presence*: through it each detects the others, in
//! whatever order they begin.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;
use nix::sys::stat;
use nix::unistd::{Uid, User};

use crate::error::RunnerError;

/// Variable that names another lock file: for containers that share a machine, and for tests.
const VARIABLE: &str = "BAKEOFF_MACHINE_LOCK";
/// Suffix that the name of the presence file adds to that of the lock.
const PRESENCE: &str = ".present";
/// Maximum length of the line that [`sign`] writes.
const LINE_BYTES: usize = 80;
/// Mode of the lock file: all users may lock it, for which reading suffices.
const LOCK_MODE: u32 = 0o644;
/// Mode of the presence file: all users may record that their measurement began, so others do not mistake a
/// shared trial for a quiet one.
const PRESENCE_MODE: u32 = 0o666;

/// Registration as a measurement on this machine, until it is dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    /// `None` with `--beside-others`.
    _alone: Option<Flock<File>>,
    presence: Presence,
}

/// Process that measures on this machine now, with its name and user; `None` if no process does, or if the
/// lock cannot be read.
pub fn holder_of_machine() -> Option<String> {
    let path = place();
    let file = open_existing(&path)?;
    let alone = lock_of(&file).map(name_of);
    alone.or_else(|| {
        let mut present = path.into_os_string();
        present.push(PRESENCE);
        let presence = Presence { file: open_existing(Path::new(&present))? };
        presence.other().ok().flatten().map(name_of)
    })
}

/// State that [`Machine::look`] found before a trial.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    others: bool,
    begun: Begun,
}

impl Machine {
    /// Registers a measurement.
    ///
    /// - `beside_others`: allows other measurements. Without it, any other one is an error.
    pub(crate) fn take(beside_others: bool) -> Result<Self, RunnerError> {
        const PAUSE: Duration = Duration::from_millis(10);
        let patience = std::iter::repeat_n(PAUSE, 100);
        // A process that is killed between fork and exec leaves a child that holds its lock until the exec.
        for pause in patience {
            match Self::take_at(&place(), beside_others) {
                Err(RunnerError::MachineBusy { holder, .. }) if is_dead(&holder) => std::thread::sleep(pause),
                taken => return taken,
            }
        }
        Self::take_at(&place(), beside_others)
    }

    fn take_at(path: &Path, beside_others: bool) -> Result<Self, RunnerError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| RunnerError::MachineLock { path, source }
        };
        let busy = |path: &Path, holder| RunnerError::MachineBusy { holder, path: path.to_owned() };
        let alone = if beside_others {
            None
        } else {
            let file = open(path, LOCK_MODE).map_err(failed(path))?;
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
                .map_err(|(file, _)| busy(path, holder(&file)))?;
            Some(lock)
        };
        let mut present = path.as_os_str().to_owned();
        present.push(PRESENCE);
        let present = PathBuf::from(present);
        let mut presence = Presence { file: open(&present, PRESENCE_MODE).map_err(failed(&present))? };
        if !beside_others && let Some(pid) = presence.other().map_err(failed(&present))? {
            return Err(busy(&present, name_of(pid)));
        }
        presence.enter().map_err(|error| match error.kind() {
            // Measurements share it; an exclusive lock belongs to another program.
            io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied => {
                let pid = presence.other().ok().flatten();
                busy(&present, pid.map_or_else(unknown, name_of))
            }
            _ => failed(&present)(error),
        })?;
        let alone = alone.map(|mut lock| {
            sign(&mut lock);
            lock
        });
        Ok(Self { _alone: alone, presence })
    }

    /// Returns the state of other measurements before a trial.
    pub(crate) fn look(&self) -> Look {
        Look { others: self.presence.has_others(), begun: self.presence.begun() }
    }

    /// Whether another measurement was on the machine at any time since `before`. Also `true` if this is
    /// unknown.
    pub(crate) fn was_shared_since(&self, before: &Look) -> bool {
        before.others || self.presence.has_others() || self.presence.begun() != before.begun
    }
}

/// Start of the last measurement: the time of the last change of the presence file, and its line.
type Begun = Option<(i64, i64, Vec<u8>)>;

/// A lock that all measurements share. Each locks the byte at the offset of its process id, so others can
/// name it.
#[derive(Debug)]
struct Presence {
    file: File,
}

impl Presence {
    /// Takes the lock and changes the file, so others detect this measurement even if it ends before they
    /// look. If this user may not write to the file, only the lock shows it.
    fn enter(&mut self) -> io::Result<()> {
        let own = range(libc::F_RDLCK, i64::from(std::process::id()), 1);
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&own))?;
        sign(&mut self.file);
        Ok(())
    }

    /// Returns the process id of another holder.
    fn other(&self) -> io::Result<Option<i64>> {
        // A read lock conflicts only with a write lock; this call tests for one and takes none.
        let mut found = range(libc::F_WRLCK, 0, 0);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok((i32::from(found.l_type) != libc::F_UNLCK).then_some(found.l_start))
    }

    fn has_others(&self) -> bool {
        !matches!(self.other(), Ok(None))
    }

    fn begun(&self) -> Begun {
        let found = self.file.metadata().ok()?;
        let mut line = vec![0; LINE_BYTES];
        let bytes = self.file.read_at(&mut line, 0).ok()?;
        line.truncate(bytes);
        Some((found.mtime(), found.mtime_nsec(), line))
    }
}

/// Builds the request for a lock on a range.
///
/// - `length`: 0 for up to the end.
fn range(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("a small constant"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("a small constant"),
        l_start: start,
        l_len: length,
        // The kernel requires 0 for this kind of lock.
        l_pid: 0,
    }
}

fn place() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return path.into();
    }
    // The same for every user, independent of TMPDIR.
    let folder = ["/run/lock", "/tmp"].into_iter().find(|folder| Path::new(folder).is_dir());
    Path::new(folder.unwrap_or("/tmp")).join("bakeoff.lock")
}

/// Opens a lock file without following a link. Creates a missing file.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).mode(mode);
        options
    };
    match options(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match options(true).create_new(true).open(path) {
            Ok(file) => {
                // The umask removed rights of other users.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                Ok(file)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => options(true).open(path),
            Err(e) => Err(e),
        },
        // Reading suffices to lock it.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => options(false).open(path),
        opened => opened,
    }
}

/// Writes the process id and the start time. A file of another user may stay unchanged. So does a file with a
/// second name, since another user may have planted the link.
fn sign(file: &mut File) {
    if !file.metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1) {
        return;
    }
    let _ = file.set_len(0).and_then(|()| {
        file.rewind()?;
        let since = record::clock::WallAnchor::now().unix_ns;
        writeln!(file, "process {} since {since} ns", std::process::id())
    });
}

/// Opens a lock file for reading; `None` if it cannot be opened.
fn open_existing(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// Returns the process that holds the lock on a file, from the kernel's list: any user could have written the
/// file's content.
fn holder(file: &File) -> String {
    lock_of(file).map_or_else(unknown, name_of)
}

/// Returns the process id of the holder of the lock on a file.
fn lock_of(file: &File) -> Option<i64> {
    let found = file.metadata().ok()?;
    let (major, minor) = (stat::major(found.dev()), stat::minor(found.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", found.ino());
    holder_in(&fs::read_to_string("/proc/locks").ok()?, &place)
}

/// Returns the process id of the holder.
///
/// - `locks`: in the format of `/proc/locks`.
/// - `place`: device and inode in that format.
fn holder_in(locks: &str, place: &str) -> Option<i64> {
    let held = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_held = words.next() == Some("FLOCK");
        let (pid, at) = (words.nth(2)?, words.next()?);
        (is_held && at == place).then_some(pid)
    })?;
    held.parse().ok().filter(|pid| *pid > 0)
}

fn unknown() -> String {
    "a process that is not visible from here".to_owned()
}

/// Returns the process, its name and its user, as far as they are visible.
/// Whether that holder has ended.
fn is_dead(holder: &str) -> bool {
    let pid = holder.strip_prefix("process ").and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn name_of(pid: i64) -> String {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(found) = process.metadata() else { return format!("process {pid}") };
    let user = user_of(Uid::from_raw(found.uid()));
    let name = fs::read(process.join("comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    format!("process {pid}, {} of user {user}", name.trim_end_matches('\n').escape_debug())
}

/// Returns the name of a user, else the number. The last one is remembered: a directory of users may take
/// long to answer, and a server asks twice a second.
fn user_of(uid: Uid) -> String {
    static LAST: Mutex<Option<(Uid, String)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, name)) = last.as_ref().filter(|(of, _)| *of == uid) {
        return name.clone();
    }
    let name = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    *last = Some((uid, name.clone()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_free_for_one_only_when_no_measurement_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let alone = || Machine::take_at(&lock, false);
        let first = alone().unwrap();
        let quiet = first.look();
        assert!(!first.was_shared_since(&quiet));
        let own = format!("process {}", std::process::id());
        let is_refused =
            || matches!(alone(), Err(RunnerError::MachineBusy { holder, .. }) if holder.contains(&own));
        assert!(is_refused());
        assert!(!first.was_shared_since(&quiet), "a refused measurement disturbs nothing");

        let beside = Machine::take_at(&lock, true).unwrap();
        assert!(first.was_shared_since(&quiet) && beside.look().others);
        drop(first);
        assert!(is_refused());
        drop(beside);
        alone().unwrap();
    }

    #[test]
    fn a_measurement_that_begins_and_ends_within_a_trial_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let first = Machine::take_at(&lock, false).unwrap();
        let before = first.look();
        drop(Machine::take_at(&lock, true).unwrap());
        assert!(!first.look().others);
        assert!(first.was_shared_since(&before));
        let after = first.look();
        assert!(!first.was_shared_since(&after), "the next trial has the machine for itself");
    }

    #[test]
    fn the_files_tell_others_a_process_and_a_time_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let _held = Machine::take_at(&lock, false).unwrap();
        for (name, mode) in [("lock", LOCK_MODE), ("lock.present", PRESENCE_MODE)] {
            let path = folder.path().join(name);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
            let text = fs::read_to_string(path).unwrap();
            let words: Vec<&str> = text.split_whitespace().collect();
            let pid = std::process::id().to_string();
            assert!(
                matches!(words[..], ["process", p, "since", ns, "ns"] if p == pid && ns.parse::<u64>().is_ok()),
                "{text}"
            );
            assert!(text.len() <= LINE_BYTES);
        }
    }

    #[test]
    fn a_file_that_lies_about_its_holder_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        fs::write(&lock, "process 1 since \x1b[2Jyesterday ns").unwrap();
        let file = File::open(&lock).unwrap();
        let _held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        let refused = Machine::take_at(&lock, false).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}, ", std::process::id())), "{refused}");
        assert!(
            refused.contains(lock.to_str().unwrap()) && refused.contains("BAKEOFF_MACHINE_LOCK"),
            "{refused}"
        );
        assert!(!refused.contains("yesterday") && refused.lines().count() == 1, "{refused}");
    }

    #[test]
    fn a_lock_that_lets_no_measurement_in_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let present = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join("lock.present"));
        let present = present.unwrap();
        // A lock on all bytes names no process.
        fcntl(&present, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, 0, 0))).unwrap();
        for beside_others in [false, true] {
            let refused = Machine::take_at(&lock, beside_others).unwrap_err();
            assert!(matches!(refused, RunnerError::MachineBusy { .. }), "{refused}");
        }
    }

    #[test]
    fn the_kernels_list_of_locks_is_read_by_its_columns() {
        let text = "1: OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF\n2: FLOCK  ADVISORY  WRITE 1278 fe:00:7 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 9 fe:00:8 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 fe:00:9 0 EOF\n";
        let found = ["fe:00:7", "fe:00:8", "fe:00:9", "fe:00:1"].map(|place| holder_in(text, place));
        assert_eq!(found, [Some(1278), None, None, None]);
    }
}
