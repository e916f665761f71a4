//! The scratch folder, which `{scratch}` names: one for each series.
//!
//! Its name is random and is in the journal before the folder exists. The folder is created with mode 0700 in
//! a folder that is held open, and the result is checked: in `/tmp`, other users may plant files under names
//! that they can guess.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use load::Stop;
use nix::fcntl::{FcntlArg, OFlag, fcntl, openat, renameat};
use nix::libc;
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, unlinkat};

use crate::account::{self, Account};
use crate::error::RunnerError;
use crate::options::other_writer_on;
use crate::process::{Waited, wait_for};
use crate::random;

/// Time limit for removing a folder. Processes that still write into it have been killed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A scratch folder, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Descriptor of the folder: its owner may rename it and put a link in its place.
    folder: Arc<OwnedFd>,
    is_removed: bool,
}

impl Scratch {
    /// Returns a path for a folder that does not exist yet.
    #[cfg(test)]
    fn fresh_path() -> PathBuf {
        path_of(&random::token())
    }

    /// Creates the folder, empty, with mode 0700, for `owner` alone; `None` for this user.
    pub(crate) fn make(path: &Path, owner: Option<Account>) -> Result<Self, RunnerError> {
        let failed = |source| RunnerError::Scratch { path: path.to_owned(), source };
        let folder = make_folder(path, owner).map_err(failed)?;
        if let Some(owner) = owner
            && let Some(ancestor) = out_of_reach(path, owner)
        {
            let _ = fs::remove_dir(path);
            return Err(RunnerError::OutOfReach { path: ancestor, uid: owner.uid.as_raw() });
        }
        // A file system without such locks lacks only this protection.
        let _ = fcntl(&folder, FcntlArg::F_OFD_SETLK(&whole(libc::F_RDLCK)));
        Ok(Self { path: path.to_owned(), folder: Arc::new(folder), is_removed: false })
    }

    /// Returns the descriptor of the folder, which does not depend on its name.
    pub(crate) fn folder(&self) -> &Arc<OwnedFd> {
        &self.folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder. Retries while processes still write into it.
    ///
    /// # Errors
    ///
    /// Error of the last attempt.
    pub(crate) fn remove(&mut self, between: impl FnMut()) -> io::Result<()> {
        self.is_removed = true;
        remove_patiently(|| self.remove_now(), between)
    }

    /// Gives up the lock, as the death of this process does.
    #[cfg(test)]
    pub(crate) fn let_go(&self) {
        fcntl(&self.folder, FcntlArg::F_OFD_SETLK(&whole(libc::F_UNLCK))).unwrap();
    }

    fn remove_now(&self) -> io::Result<()> {
        while empty(&self.folder, &self.folder, LEVELS_MAX, &mut 0)? {}
        let called = fs::read_link(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))?;
        if called != self.path && fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_symlink()) {
            // The user that the folder was made for put another entry in its place.
            fs::remove_file(&self.path)?;
        }
        match fs::remove_dir(called) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !self.path.exists() => Ok(()),
            removed => removed,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_removed {
            // A folder that cannot be removed now is removed by the next process that resumes.
            let _ = self.remove_now();
        }
    }
}

/// Builds the request for a lock on a folder. Its maker holds a read lock while it lives: that needs no
/// right to write, and does not conflict with the `flock` that a database may take on its folder.
fn whole(kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("a small constant"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("a small constant"),
        l_start: 0,
        l_len: 0,
        // The kernel requires 0 for this kind of lock.
        l_pid: 0,
    }
}

/// Whether a process holds the lock of a folder. This call tests for a lock and takes none.
fn is_held(folder: &File) -> bool {
    let mut found = whole(libc::F_WRLCK);
    fcntl(folder, FcntlArg::F_OFD_GETLK(&mut found)).is_ok() && i32::from(found.l_type) != libc::F_UNLCK
}

/// Prefix of our folders' names; a token follows.
const PREFIX: &str = "bakeoff-";

/// Returns the path of the folder of a workspace.
pub(crate) fn path_of(token: &str) -> PathBuf {
    let folder = std::env::temp_dir();
    // A link in the user's TMPDIR is resolved once, now, as its owner intends.
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    folder.join(format!("{PREFIX}{token}"))
}

/// Returns the token in the name of a folder.
pub(crate) fn token_of(path: &Path) -> Option<&str> {
    let token = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    Some(token).filter(|token| random::is_token(token))
}

/// Whether a folder with a name of ours is where only a bakeoff of this user or of root makes one: in the
/// folder for temporary files, or, for a process with another `TMPDIR`, where no other user changes anything
/// on the way. In a folder like `/tmp`, the account of a plan could make one with its own id.
fn is_in_place(path: &Path, owner: u32) -> bool {
    let Some(token) = token_of(path) else { return false };
    let way = if owner == geteuid().as_raw() { Some(path) } else { path.parent() };
    path == path_of(token) || (path.is_absolute() && way.is_some_and(|way| other_writer_on(way).is_none()))
}

/// A folder that a journal names.
#[derive(Debug)]
pub(crate) enum Left {
    /// The folder is not there.
    Gone,
    /// Folder of a dead process.
    Ours(Scratch),
    /// Folder that a live process has locked.
    Held,
    /// Folder that may be another one, with the reason.
    Foreign(&'static str),
}

impl Left {
    /// Opens the folder that a process left.
    ///
    /// - `owner`: the user that it was made for, as the journal says. Another user may have written the
    ///   journal, so a folder of a user with a name is never removed.
    pub(crate) fn open(path: &Path, owner: u32) -> Self {
        if fs::symlink_metadata(path).is_err() {
            return Self::Gone;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let Ok(folder) = nix::fcntl::open(path, flags, Mode::empty()).map(File::from) else {
            return Self::Foreign("it is not a folder that this user may read");
        };
        let Ok(found) = folder.metadata() else { return Self::Foreign("it cannot be read") };
        // The server may have opened its folder to others.
        if is_held(&folder) {
            return Self::Held;
        }
        let is_owned = [owner, geteuid().as_raw()].contains(&found.uid());
        if !is_owned || !account::is_ours_to_clear(found.uid()) {
            return Self::Foreign("its owner is another user than the journal says, or has a name");
        }
        if found.permissions().mode() & 0o077 != 0 {
            return Self::Foreign("other users may enter it");
        }
        if !is_in_place(path, found.uid()) {
            return Self::Foreign("it is in another place than TMPDIR, where another user may have made it");
        }
        let path = path.to_owned();
        Self::Ours(Scratch { path, folder: Arc::new(folder.into()), is_removed: true })
    }

    /// Removes the folder. Returns a note if there is one.
    ///
    /// - `are_ended`: whether the processes of the folder were looked for and ended.
    pub(crate) fn remove(self, path: &Path, are_ended: bool) -> Option<String> {
        let shown = path.display();
        match self {
            Self::Gone => None,
            Self::Ours(mut left) => Some(match left.remove(|| ()) {
                Ok(()) => format!("removed {shown}, which the previous process left behind"),
                Err(e) => format!("cannot remove {shown}, which the previous process left behind: {e}"),
            }),
            Self::Held => Some(format!(
                "a process that lives holds {shown}: it is not removed, and its processes are not ended; check it"
            )),
            Self::Foreign(why) => {
                let rest = if are_ended { "" } else { ", and its processes are not ended" };
                Some(format!("{shown} is not removed{rest}: {why}; check it"))
            }
        }
    }
}

fn remove_patiently(remove: impl Fn() -> io::Result<()>, mut between: impl FnMut()) -> io::Result<()> {
    let mut last = Ok(());
    let waited = wait_for(PATIENCE, &Stop::new(), || match remove() {
        Ok(()) => true,
        Err(e) => {
            last = Err(e);
            between();
            false
        }
    });
    if waited == Waited::Done { Ok(()) } else { last }
}

/// Maximum number of nested folders that are held open at the same time.
const LEVELS_MAX: u32 = 64;

/// Removes a folder and its content at any depth, without following links. `remove_dir_all` of the standard
/// library holds every level open, and a server may have created more levels than that allows.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = nix::fcntl::open(path, flags, Mode::empty())?;
    let mut moved = 0;
    while empty(&top, &top, LEVELS_MAX, &mut moved)? {}
    fs::remove_dir(path)
}

/// Removes the content of a folder. A folder at the last permitted level is moved up into `top`. Returns
/// whether one was moved.
fn empty(folder: &OwnedFd, top: &OwnedFd, levels: u32, moved: &mut u64) -> io::Result<bool> {
    let before = *moved;
    let open = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    for entry in fs::read_dir(open)? {
        let entry = entry?;
        let name = entry.file_name();
        if !entry.file_type()?.is_dir() {
            unlinkat(folder, name.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
            continue;
        }
        if levels == 0 {
            let other = format!(".{}.{moved}", random::token());
            renameat(folder, name.as_os_str(), top, other.as_str())?;
            *moved += 1;
            continue;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let below = openat(folder, name.as_os_str(), flags, Mode::empty())?;
        empty(&below, top, levels - 1, moved)?;
        unlinkat(folder, name.as_os_str(), UnlinkatFlags::RemoveDir)?;
    }
    Ok(*moved > before)
}

/// Creates a folder with mode 0700, for `owner` alone; `None` for this user.
pub(crate) fn make_folder(path: &Path, owner: Option<Account>) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    make_folder_in(File::open(parent)?, name, owner)
}

/// Variant of [`make_folder`] in a folder that is held open.
pub(crate) fn make_folder_in(parent: impl AsFd, name: &OsStr, owner: Option<Account>) -> io::Result<OwnedFd> {
    mkdirat(&parent, name, Mode::S_IRWXU)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = File::from(openat(&parent, name, flags, Mode::empty())?);
    let found = dir.metadata()?;
    if found.uid() != geteuid().as_raw() || found.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user created a folder there first",
        ));
    }
    // The umask may have removed rights of this user.
    fchmod(&dir, Mode::S_IRWXU)?;
    if let Some(Account { uid, gid }) = owner {
        chown(&dir, uid, gid)?;
    }
    Ok(dir.into())
}

/// Changes the owner of an open file or folder.
pub(crate) fn chown(file: &File, uid: Uid, gid: Gid) -> io::Result<()> {
    Ok(fchown(file, Some(uid), Some(gid))?)
}

/// Returns the folder above `path` that `owner` may not enter.
pub(crate) fn out_of_reach(path: &Path, owner: Account) -> Option<PathBuf> {
    let closed = |folder: &&Path| {
        fs::metadata(folder).is_ok_and(|found| {
            let mode = found.permissions().mode();
            let bit = if found.uid() == owner.uid.as_raw() {
                0o100
            } else if found.gid() == owner.gid.as_raw() {
                0o010
            } else {
                0o001
            };
            mode & bit == 0
        })
    };
    path.ancestors().skip(1).find(closed).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, symlink};

    use super::*;

    fn remove_left(path: &Path, owner: u32) -> Option<String> {
        Left::open(path, owner).remove(path, true)
    }

    #[test]
    fn a_folder_is_for_its_owner_alone_and_gone_in_the_end() {
        let path = Scratch::fresh_path();
        let scratch = Scratch::make(&path, None).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        fs::write(scratch.path().join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_there_already_is_neither_used_nor_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir(&target).unwrap();
        fs::write(target.join("precious"), "x").unwrap();
        symlink(&target, &link).unwrap();
        assert!(matches!(Scratch::make(&link, None), Err(RunnerError::Scratch { .. })));
        assert!(matches!(Scratch::make(&target, None), Err(RunnerError::Scratch { .. })));
        let said = remove_left(&link, geteuid().as_raw()).unwrap();
        assert!(said.contains("is not removed"), "{said}");
        assert!(target.join("precious").exists());
    }

    #[test]
    fn a_folder_that_others_may_enter_or_in_another_place_is_not_ours_to_remove() {
        // As a process with another `TMPDIR` leaves it: where no other user can make one, it is ours.
        let elsewhere = tempfile::tempdir().unwrap();
        let below = elsewhere.path().join(format!("bakeoff-{}", random::token()));
        fs::DirBuilder::new().mode(0o700).create(&below).unwrap();
        for (mode, is_ours) in [(0o777, false), (0o1777, true)] {
            fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(mode)).unwrap();
            let said = remove_left(&below, geteuid().as_raw()).unwrap();
            assert_eq!((said.contains("another place"), below.exists()), (!is_ours, !is_ours), "{said}");
        }
        let (renamed, link) = (elsewhere.path().join("precious"), elsewhere.path().join("link"));
        fs::DirBuilder::new().mode(0o700).create(&renamed).unwrap();
        assert!(remove_left(&renamed, geteuid().as_raw()).unwrap().contains("is not removed"));
        symlink(&renamed, &link).unwrap();
        assert!(remove_left(&link, geteuid().as_raw()).unwrap().contains("is not removed"));
        let planted = Scratch::fresh_path();
        fs::create_dir(&planted).unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(remove_left(&planted, geteuid().as_raw()).unwrap().contains("is not removed"));
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(remove_left(&planted, geteuid().as_raw()).unwrap().starts_with("removed "));
        assert_eq!(remove_left(&planted, geteuid().as_raw()), None);
    }

    #[test]
    fn root_a_folder_of_a_user_with_a_name_is_not_ours_to_remove() {
        if !geteuid().is_root() {
            return;
        }
        // As a journal from a stranger says it: the folder of another user's bake-off that runs now.
        for (owner, is_removed) in [(1_000, false), (61_183, false), (61_184, true), (0, true)] {
            let path = Scratch::fresh_path();
            let mut scratch = Scratch::make(&path, None).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
            let said = remove_left(&path, owner).unwrap();
            assert!(path.exists() && said.contains("a process that lives holds"), "{said}");
            scratch.let_go();
            remove_left(&path, owner).unwrap();
            assert_eq!(!path.exists(), is_removed, "{owner}");
            if !is_removed {
                scratch.remove(|| ()).unwrap();
            }
        }
        // The account of a plan makes a folder with the name of a live bake-off in another folder like /tmp.
        let elsewhere = tempfile::tempdir().unwrap();
        let planted = elsewhere.path().join(format!("bakeoff-{}", random::token()));
        fs::DirBuilder::new().mode(0o700).create(&planted).unwrap();
        std::os::unix::fs::chown(&planted, Some(61_184), None).unwrap();
        for (mode, is_removed) in [(0o1777, false), (0o755, true)] {
            fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(mode)).unwrap();
            let said = remove_left(&planted, 61_184).unwrap();
            assert_eq!(!planted.exists(), is_removed, "{said}");
        }
    }

    #[test]
    fn a_folder_deeper_than_is_held_open_is_removed() {
        let path = Scratch::fresh_path();
        let mut scratch = Scratch::make(&path, None).unwrap();
        let mut folder = OwnedFd::from(File::open(&path).unwrap());
        for level in 0..10 * LEVELS_MAX {
            mkdirat(&folder, "below", Mode::S_IRWXU).unwrap();
            let below = openat(&folder, "below", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
            if level % 100 == 0 {
                let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
                openat(&below, "file", flags, Mode::S_IRUSR).unwrap();
                nix::unistd::symlinkat("/etc", &below, "link").unwrap();
            }
            folder = below;
        }
        scratch.remove(|| ()).unwrap();
        assert!(!path.exists() && Path::new("/etc").exists());
    }

    #[test]
    fn a_folder_is_removed_although_something_still_writes_into_it() {
        let path = Scratch::fresh_path();
        let mut scratch = Scratch::make(&path, None).unwrap();
        let into = path.clone();
        // Writes until the folder is gone.
        let writer = std::thread::spawn(move || {
            (0..200_000_u32).take_while(|i| fs::write(into.join(i.to_string()), "x").is_ok()).count()
        });
        while fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none()) {
            std::thread::yield_now();
        }
        scratch.remove(|| ()).unwrap();
        writer.join().unwrap();
        assert!(!path.exists());
    }
}
