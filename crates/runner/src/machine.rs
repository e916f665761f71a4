//! One bake-off, `scale` or `dder` at a time on a machine: a lock that its holder's death releases.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use crate::error::RunnerError;

/// Names another lock file: for containers that share a machine, and for tests.
const VARIABLE: &str = "BAKEOFF_MACHINE_LOCK";
/// As much of a holder's line as a message can hold.
const LINE_BYTES: u64 = 200;

/// The machine, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    /// `None`: another one holds it, and this one was told to go on beside it.
    _lock: Option<Flock<File>>,
}

impl Machine {
    /// Takes the machine.
    ///
    /// - `beside_others`: shares it with others that say so too, and does not mind one that does not.
    /// - `title`: for the message that another one prints.
    pub(crate) fn take(beside_others: bool, title: &str) -> Result<Self, RunnerError> {
        let path = place();
        let failed = |source| RunnerError::MachineLock { path: path.clone(), source };
        let file = open(&path).map_err(failed)?;
        let how = if beside_others { FlockArg::LockSharedNonblock } else { FlockArg::LockExclusiveNonblock };
        match Flock::lock(file, how) {
            Ok(mut lock) => {
                // Only for people; where another user made the file, it stays as it is.
                let _ = lock.set_len(0).and_then(|()| {
                    lock.rewind()?;
                    writeln!(lock, "process {}: {title}", std::process::id())
                });
                Ok(Self { _lock: Some(lock) })
            }
            Err(_) if beside_others => Ok(Self { _lock: None }),
            Err((mut file, _)) => Err(RunnerError::MachineBusy { holder: holder(&mut file) }),
        }
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

/// Opens the lock file without following a link; a file that is not there is made for every user.
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

fn holder(file: &mut File) -> String {
    let mut line = Vec::new();
    let _ = file.rewind().and_then(|()| file.take(LINE_BYTES).read_to_end(&mut line));
    let line = String::from_utf8_lossy(&line);
    line.lines().next().unwrap_or("another process").escape_debug().to_string()
}
