//! How a bake-off is conducted, beside its plan; and whether what it would run is the user's.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use archive::Archive;
use nix::unistd::{Uid, User, geteuid};
use record::run::RunId;

use crate::error::RunnerError;

/// How a bake-off is conducted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Although another one runs on this machine; every trial is marked.
    pub beside_others: bool,
    /// Where `resume` reads the plan, if the archive masked it and its own file has moved.
    pub plan_file: Option<PathBuf>,
    /// The user has read what would run, or trusts its owner.
    pub trust: bool,
}

/// A bake-off that another user could have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The other user.
    pub owner: String,
    /// What `resume` would run, in the words of the plan.
    pub commands: Vec<String>,
}

/// What of a bake-off another user could have written; `None` where nothing.
///
/// # Errors
///
/// Where there is none of that name, or it cannot be read.
pub fn foreign(archive: &Archive, id: RunId) -> Result<Option<Foreign>, RunnerError> {
    let folder = archive.bakeoff_dir(id);
    let parents = [archive.dir().to_owned(), archive.dir().join("bakeoffs"), folder.clone()];
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let Some(owner) = parents.into_iter().chain(files).find_map(|path| other_writer(&path)) else {
        return Ok(None);
    };
    Ok(Some(Foreign { owner, commands: commands(&archive.bakeoff(id)?.plan_text) }))
}

/// The user, other than this one and root, who may change that file or folder.
fn other_writer(path: &Path) -> Option<String> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let owner = found.uid();
    if owner != geteuid().as_raw() && owner != 0 {
        let user = User::from_uid(Uid::from_raw(owner)).ok().flatten();
        return Some(user.map_or_else(|| format!("user {owner}"), |user| user.name));
    }
    let may_all_write = !found.is_symlink() && found.permissions().mode() & 0o002 != 0;
    may_all_write.then(|| format!("any user: {} may be written by all", path.display()))
}

/// The lines of a plan that say what runs, escaped: another user wrote them.
fn commands(plan: &str) -> Vec<String> {
    let says_what_runs = |line: &&str| {
        ["command", "run", "ready", "target", "user", "LD_", "script"].iter().any(|word| line.contains(word))
    };
    plan.lines().filter(says_what_runs).map(|line| format!("  {}", line.trim().escape_debug())).collect()
}
