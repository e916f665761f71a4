//! Options for conducting a bake-off, and the check that its commands come from the user.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use archive::Archive;
use nix::libc;
use nix::unistd::{Uid, User, geteuid};
use record::run::RunId;

use crate::error::RunnerError;
use crate::generator::Generator;

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
    /// Fleet that generates the load of a plan with `[fleet]`; without it, such a plan is refused.
    pub generator: Option<Arc<dyn Generator>>,
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
    /// Keys of the plan that contain what `resume` would run, and the files of a script in Lua with their
    /// checksums, one line each, without control characters.
    pub commands: Vec<String>,
}

/// Refuses a bake-off that another user could have written, unless the user trusts it.
///
/// - `stranger`: the other user, if there is one.
/// - `text`: the plan as it was read for this execution. The text that is shown is the one that is executed:
///   a plan that changes while the user reads is not read again.
/// - `script`: lines about the script in Lua, which was also read for this execution.
pub(crate) fn approve(
    id: RunId,
    stranger: Option<String>,
    text: &str,
    script: impl IntoIterator<Item = String>,
    trust: fn(&Foreign) -> bool,
) -> Result<(), RunnerError> {
    let Some(owner) = stranger else { return Ok(()) };
    let mut commands = plan::listing(text).expect("the plan was read from this text");
    commands.extend(script);
    let foreign = Foreign { id, owner, commands };
    if trust(&foreign) { Ok(()) } else { Err(RunnerError::Untrusted { foreign }) }
}

/// Size limit of a plan file, and of a script.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// A text file, and the other user that may change it.
pub(crate) struct TextFile {
    /// Path without links.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) stranger: Option<String>,
}

/// Reads a file named in an archive, once. Another user may have written the name, so the file may be a pipe
/// or endless.
pub(crate) fn text_file(path: &Path) -> io::Result<TextFile> {
    // Before it is opened: what only this user can change remains as it is.
    let stranger = other_writer_on(path);
    let path = std::fs::canonicalize(path)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(&path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > TEXT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a text file of at most 8 MiB"));
    }
    let stranger = stranger.or_else(|| other_writer(&path, &found));
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(TextFile { path, text, stranger })
}

/// Returns the text of a plan's own file, named in the journal; `None` if another user can write it.
pub(crate) fn own_text(path: &Path) -> Option<String> {
    text_file(path).ok().filter(|file| file.stranger.is_none()).map(|file| file.text)
}

/// Returns the user, other than this one and root, that could have written to that bake-off. Call it before
/// anything of the bake-off is read: if only this user can change it now, that remains so.
pub(crate) fn other_writer_of(archive: &Archive, id: RunId) -> Option<String> {
    let folder = archive.bakeoff_dir(id);
    let parents = [archive.dir().to_owned(), archive.dir().join("bakeoffs"), folder.clone()];
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    parents.into_iter().chain(files).find_map(|path| other_writer_on(&path))
}

/// Links that a path may lead through.
const LINKS_MAX: u32 = 40;

/// Returns the user, other than this one and root, that may change where that path leads, or its end: each
/// folder on the way, each link, and the targets of links.
pub(crate) fn other_writer_on(path: &Path) -> Option<String> {
    let unreadable = |part: &Path, why: &io::Error| Some(format!("unknown: {}: {why}", part.display()));
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(why) => return unreadable(path, &why),
    };
    let parts = |path: &Path| -> Vec<OsString> {
        let names =
            path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        names.map(|part| part.as_os_str().to_owned()).rev().collect()
    };
    let (mut at, mut left, mut links) = (PathBuf::from("/"), parts(&path), 0);
    loop {
        let found = match std::fs::symlink_metadata(&at) {
            Ok(found) => found,
            Err(why) => return unreadable(&at, &why),
        };
        // In a sticky folder, an entry belongs to its creator.
        let is_sticky = found.is_dir() && !left.is_empty() && found.permissions().mode() & 0o1000 != 0;
        let stranger = if is_sticky { other_owner(&found) } else { other_writer(&at, &found) };
        if stranger.is_some() {
            return stranger;
        }
        if found.is_symlink() {
            let target = match std::fs::read_link(&at) {
                Ok(target) => target,
                Err(why) => return unreadable(&at, &why),
            };
            links += 1;
            if links > LINKS_MAX {
                return Some(format!("unknown: {} leads through too many links", path.display()));
            }
            left.extend(parts(&target));
            if target.is_absolute() {
                at = PathBuf::from("/");
            } else {
                at.pop();
            }
            // The folder was checked on the way.
        }
        match left.pop() {
            None => return None,
            Some(name) if name == ".." => {
                at.pop();
            }
            Some(name) => at.push(name),
        }
    }
}

/// Returns the owner of a file or folder, if it is neither this user nor root.
fn other_owner(found: &Metadata) -> Option<String> {
    let owner = found.uid();
    if owner == geteuid().as_raw() || owner == 0 {
        return None;
    }
    let user = User::from_uid(Uid::from_raw(owner)).ok().flatten();
    Some(user.map_or_else(|| format!("user {owner}"), |user| user.name))
}

/// Returns the user, other than this one and root, that may change that file or folder.
pub(crate) fn other_writer(path: &Path, found: &Metadata) -> Option<String> {
    if let Some(owner) = other_owner(found) {
        return Some(owner);
    }
    if found.is_symlink() {
        return None;
    }
    let mode = found.permissions().mode();
    // A user's private group, with the same number, has no other member; nor should root's group.
    let may_group_write = mode & 0o020 != 0 && found.gid() != found.uid() && found.gid() != 0;
    match mode & 0o002 != 0 {
        true => Some(format!("any user: {} is world-writable", path.display())),
        false if may_group_write => {
            Some(format!("group {}, which may write {}", found.gid(), path.display()))
        }
        false => None,
    }
}
