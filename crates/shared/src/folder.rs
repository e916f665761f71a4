//! A store in a folder: a file is written under a temporary name, synced, and linked to its name.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc;

use crate::error::SharedError;

/// Modes of what a push creates.
#[derive(Debug, Clone, Copy)]
struct Modes {
    folder: u32,
    file: u32,
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    modes: Modes,
}

impl Folder {
    /// Opens an existing folder. It is not created: its disk may not be mounted.
    pub(crate) fn open(root: &Path) -> Result<Self, SharedError> {
        let found = fs::metadata(root).map_err(refused(root))?;
        if !found.is_dir() {
            return Err(SharedError::Location(format!("{} is not a folder", root.display())));
        }
        // A folder in which a group may write is one that several users share.
        let is_of_a_group = found.mode() & 0o020 != 0;
        let modes = if is_of_a_group {
            Modes { folder: 0o2770, file: 0o640 }
        } else {
            Modes { folder: 0o700, file: 0o600 }
        };
        Ok(Self { root: root.to_owned(), modes })
    }

    /// Creates a file with the content that `put` writes; returns `false` if the name exists.
    pub(crate) fn create(
        &self,
        key: &str,
        put: impl FnOnce(&mut File) -> Result<(), SharedError>,
    ) -> Result<bool, SharedError> {
        let path = self.root.join(key);
        self.make_folders_of(key)?;
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(false);
        }
        let mut temporary = Temporary::create(&path, self.modes.file)?;
        put(&mut temporary.file)?;
        temporary.file.sync_all().map_err(refused(&path))?;
        match fs::hard_link(&temporary.path, &path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(refused(&path)(e)),
        }
    }

    /// Opens a file. Another user may write in the folder: links, pipes and devices are refused.
    pub(crate) fn read(&self, key: &str) -> Result<File, SharedError> {
        let path = self.root.join(key);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(refused(&path))?;
        if file.metadata().map_err(refused(&path))?.is_file() {
            return Ok(file);
        }
        Err(SharedError::wrong(format!("{} is not a regular file", path.display())))
    }

    /// Removes a folder of files; one that is absent is removed already. Links are not followed.
    pub(crate) fn remove(&self, key: &str) -> Result<(), SharedError> {
        let path = self.root.join(key);
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let open = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(open) => open,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(refused(&path)(e)),
        };
        if nix::unistd::geteuid().is_root() {
            for folder in path.ancestors().take(key.split('/').count() + 1) {
                only_root_can_lead(folder)?;
            }
        }
        // Through the descriptor: the name may be that of another folder by now.
        let same = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        for entry in fs::read_dir(&same).map_err(refused(&path))? {
            let name = entry.map_err(refused(&path))?.file_name();
            fs::remove_file(same.join(&name)).map_err(refused(&path.join(&name)))?;
        }
        fs::remove_dir(&path).map_err(refused(&path))?;
        self.sync_names(key)
    }

    /// Makes the names on the way to `key` durable: a writer that was killed may not have synced them.
    pub(crate) fn sync_names(&self, key: &str) -> Result<(), SharedError> {
        let path = self.root.join(key);
        for folder in path.ancestors().skip(1).take(key.split('/').count()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(refused(folder))?;
        }
        Ok(())
    }

    /// Creates the folders between the root and a file.
    fn make_folders_of(&self, key: &str) -> Result<(), SharedError> {
        let is_root = nix::unistd::geteuid().is_root();
        let mut at = self.root.clone();
        let mut names = key.split('/').peekable();
        while let Some(name) = names.next() {
            if is_root {
                only_root_can_lead(&at)?;
            }
            if names.peek().is_none() {
                break;
            }
            at.push(name);
            match DirBuilder::new().mode(self.modes.folder).create(&at) {
                // The umask may have taken bits from the mode.
                Ok(()) => fs::set_permissions(&at, Permissions::from_mode(self.modes.folder))
                    .map_err(refused(&at))?,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(refused(&at)(e)),
            }
        }
        Ok(())
    }
}

/// A file under its temporary name, which it loses when it is dropped.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(path: &Path, mode: u32) -> Result<Self, SharedError> {
        let mut name = path.file_name().expect("a key ends with a name").to_owned();
        // Keyed by the system's randomness: two writers have different names.
        name.push(format!("#{:016x}", RandomState::new().build_hasher().finish()));
        let path = path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(refused(&path))?;
        let temporary = Self { path, file };
        temporary.file.set_permissions(Permissions::from_mode(mode)).map_err(refused(&temporary.path))?;
        Ok(temporary)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What remains has a name that no reader uses.
        let _ = fs::remove_file(&self.path);
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> SharedError + '_ {
    |source| SharedError::Folder { path: path.to_owned(), source }
}

/// Refuses a folder on the way to a file that is a link, or that another user than root can change: root
/// would write wherever that user's link leads.
fn only_root_can_lead(at: &Path) -> Result<(), SharedError> {
    let found = fs::symlink_metadata(at).map_err(refused(at))?;
    if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        let what = "as root, a store is a folder of root that no other user can write";
        return Err(SharedError::Location(format!("{}: {what}", at.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(file: &mut File, bytes: &[u8]) -> Result<(), SharedError> {
        file.write_all(bytes).map_err(refused(Path::new("x")))
    }

    #[test]
    fn root_writes_into_no_folder_that_others_lead_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        if !nix::unistd::geteuid().is_root() {
            return println!("skipped: a store of root needs root");
        }
        let store = root.path().join("store");
        let runs = store.join("runs");
        fs::create_dir_all(&runs).unwrap();
        let create = || Folder::open(&store).unwrap().create("runs/ID/x", |file| write(file, b"x"));
        symlink("/etc", runs.join("ID")).unwrap();
        assert!(create().unwrap_err().to_string().contains("ID"));
        fs::remove_file(runs.join("ID")).unwrap();
        assert!(create().unwrap());
        fs::set_permissions(&runs, Permissions::from_mode(0o777)).unwrap();
        create().unwrap_err();
        fs::set_permissions(&runs, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&store, Some(4_321), None).unwrap();
        create().unwrap_err();
    }

    #[test]
    fn a_name_is_created_once_and_leaves_no_temporary_file() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let create = |text: &'static [u8]| folder.create("runs/ID/x", |file| write(file, text));
        assert!(create(b"first").unwrap());
        assert!(!create(b"other").unwrap());
        assert_eq!(fs::read(root.path().join("runs/ID/x")).unwrap(), b"first");
        let failed = folder.create("runs/ID/y", |_| Err(SharedError::wrong("the source ends early")));
        failed.unwrap_err();
        assert_eq!(fs::read_dir(root.path().join("runs/ID")).unwrap().count(), 1);
        folder.sync_names("runs/ID/x").unwrap();
    }

    #[test]
    fn a_removal_follows_no_link_and_removes_no_folder_below() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let folder = Folder::open(root.path()).unwrap();
        for key in ["runs/ID/x", "runs/ID/y", "runs/OTHER/x"] {
            folder.create(key, |file| write(file, b"x")).unwrap();
        }
        symlink(at("runs/OTHER"), at("runs/LINK")).unwrap();
        folder.remove("runs/LINK").unwrap_err();
        symlink(at("runs/OTHER/x"), at("runs/ID/link")).unwrap();
        folder.remove("runs/ID").unwrap();
        folder.remove("runs/ID").unwrap();
        assert!(!at("runs/ID").exists() && at("runs/OTHER/x").exists());
        fs::create_dir(at("runs/OTHER/below")).unwrap();
        folder.remove("runs/OTHER").unwrap_err();
        assert!(at("runs/OTHER/below").exists());
    }
}
