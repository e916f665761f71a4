//! Options for conducting a bake-off, and the check that its commands come from the user.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use archive::Archive;
use nix::libc;
use nix::unistd::{Uid, User, geteuid};
use record::run::RunId;

use crate::error::RunnerError;

/// Options for conducting a bake-off, besides its plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Allows another measurement on this machine; every trial is marked.
    pub beside_others: bool,
    /// File from which `resume` reads the plan, if the archive masked it and its own file has moved.
    pub plan_file: Option<PathBuf>,
    /// Waits for the machine while another measurement holds it, instead of refusing.
    pub wait: bool,
    /// Id of the new bake-off; `None` for a fresh one. A queue chooses it before it starts a process, so that
    /// two processes for one entry cannot both begin.
    pub id: Option<RunId>,
    /// Shows what another user could have written, and returns whether to run it.
    pub trust: fn(&Foreign) -> bool,
}

/// A bake-off that another user could have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Id of the bake-off.
    pub id: RunId,
    /// Name of the other user.
    pub owner: String,
    /// Keys of the plan that contain what `resume` would run, one line each, without control characters.
    pub commands: Vec<String>,
}

/// Refuses a bake-off that another user could have written, unless the user trusts it.
///
/// - `text`: the plan as it was read for this execution. The text that is shown is the one that is executed:
///   a plan that changes while the user reads is not read again.
pub(crate) fn approve(
    archive: &Archive,
    id: RunId,
    text: &str,
    trust: fn(&Foreign) -> bool,
) -> Result<(), RunnerError> {
    let Some(owner) = other_writer_of(archive, id) else { return Ok(()) };
    let commands = plan::listing(text).expect("the plan was read from this text");
    let foreign = Foreign { id, owner, commands };
    if trust(&foreign) { Ok(()) } else { Err(RunnerError::Untrusted { foreign }) }
}

/// Size limit of a plan file.
const PLAN_BYTES_MAX: u64 = 8 << 20;

/// Returns the text of a plan's own file, named in the journal; `None` if another user can write it. Another
/// user may also have written the journal, so the file may be a pipe or endless.
pub(crate) fn own_text(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&path).ok()?;
    let is_shared = |part: &Path| {
        let found = std::fs::symlink_metadata(part);
        // In a sticky folder of root, an entry belongs to its creator.
        found
            .is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.permissions().mode() & 0o1000 != 0)
    };
    let is_own = path.ancestors().all(|part| is_shared(part) || other_writer(part).is_none());
    if !is_own || !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(PLAN_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the user, other than this one and root, that could have written to that bake-off.
fn other_writer_of(archive: &Archive, id: RunId) -> Option<String> {
    let folder = archive.bakeoff_dir(id);
    let parents = [archive.dir().to_owned(), archive.dir().join("bakeoffs"), folder.clone()];
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    parents.into_iter().chain(files).find_map(|path| other_writer(&path))
}

/// Returns the user, other than this one and root, that may change that file or folder.
fn other_writer(path: &Path) -> Option<String> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let owner = found.uid();
    if owner != geteuid().as_raw() && owner != 0 {
        let user = User::from_uid(Uid::from_raw(owner)).ok().flatten();
        return Some(user.map_or_else(|| format!("user {owner}"), |user| user.name));
    }
    if found.is_symlink() {
        return None;
    }
    let mode = found.permissions().mode();
    // A user's private group, with the same number, has no other member; nor should root's group.
    let may_group_write = mode & 0o020 != 0 && found.gid() != owner && found.gid() != 0;
    match mode & 0o002 != 0 {
        true => Some(format!("any user: {} is world-writable", path.display())),
        false if may_group_write => {
            Some(format!("group {}, which may write {}", found.gid(), path.display()))
        }
        false => None,
    }
}
