//! An entry of an open folder.
//!
//! The folder is opened once, and later operations on the entry use that descriptor. They do not resolve the
//! folder's path again: if root works through a tree that another user owns, that user could put a link to
//! `/etc` in the path at any moment.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest path, in bytes, that the kernel accepts: deeper folders are not entered.
const PATH_BYTES_MAX: usize = 4_095;

/// A name in an open folder.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    folder: Arc<OwnedFd>,
    name: OsString,
    /// Path by which the command line reached it.
    path: PathBuf,
}

impl Entry {
    /// Returns the entry that the user named. Links among the folders of `path` are followed.
    pub(crate) fn named(path: &Path) -> io::Result<Self> {
        let (folder, name) = split(path);
        // Files of a folder that the user may not read can still be opened.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Self { folder: Arc::new(folder), name, path: path.to_owned() })
    }

    /// Returns another name in the same folder. Only the last part of `path` counts.
    pub(crate) fn beside(&self, path: PathBuf) -> Self {
        Self { folder: Arc::clone(&self.folder), name: split(&path).1, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the entries of this folder in the order of their names; an error if it is not a folder, or a
    /// link.
    pub(crate) fn entries(&self) -> io::Result<Vec<Self>> {
        if self.path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = Arc::new(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?);
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                let path = self.path.join(&name);
                found.push(Self { folder: Arc::clone(&folder), name, path });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Returns the state of the entry itself, even if it is a link.
    pub(crate) fn link_state(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the state of the entry, or of the target of a link.
    pub(crate) fn state(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Whether it is a folder, and not a link to one.
    pub(crate) fn is_folder(&self) -> bool {
        self.link_state().is_ok_and(|found| kind(&found) == FileType::Directory)
    }

    /// Opens the entry, or the target of a link.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Opens a device or a pipe for writing, if this user or root created it; `None` if another user did.
    /// Reads a link only once, so the checked target is the opened one.
    pub(crate) fn open_own(&self, me: u32) -> io::Result<Option<File>> {
        if self.is_of_the_kernel() {
            return self.open(OFlags::WRONLY).map(Some);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&held)?;
        if found.st_uid != 0 && found.st_uid != me {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        if kind(&found) == FileType::Symlink {
            let target = rustix::fs::readlinkat(&held, "", Vec::new())?;
            return Ok(Some(rustix::fs::openat(&self.folder, target, flags, Mode::empty())?.into()));
        }
        let file = File::from(rustix::fs::openat(
            &self.folder,
            &self.name,
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
        )?);
        let opened = rustix::fs::fstat(&file)?;
        Ok(((opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino)).then_some(file))
    }

    /// Whether the entry's folder is in `/proc`, where no user can create a file.
    pub(crate) fn is_of_the_kernel(&self) -> bool {
        rustix::fs::fstatfs(&self.folder).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
    }

    /// Creates a file; an error if the name exists.
    pub(crate) fn create_new(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, &self.name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Renames to `to` in the same folder and replaces an existing entry.
    pub(crate) fn replace(&self, to: &Self) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, &self.name, &to.folder, &to.name)?)
    }

    /// Renames to `to` in the same folder; an error if the name exists.
    pub(crate) fn rename_new(&self, to: &Self) -> io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.folder, &self.name, &to.folder, &to.name, flags) {
            // The file system does not support it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
        let linked = rustix::fs::linkat(&self.folder, &self.name, &to.folder, &to.name, AtFlags::empty());
        let is_free = || to.link_state().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_linked(linked, is_free)? { self.remove() } else { self.replace(to) }
    }

    /// Removes the entry; of a link, not its target.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Syncs the folder to disk.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        let folder = rustix::fs::openat(
            &self.folder,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(rustix::fs::fsync(folder)?)
    }
}

/// Whether linkat(2) created the new name; `false` if the file system has no hard links and the name
/// `is_free`, which leaves a moment for another program to take it.
fn is_linked(linked: Result<(), Errno>, is_free: impl FnOnce() -> bool) -> io::Result<bool> {
    match linked {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            if is_free() {
                Ok(false)
            } else {
                Err(Errno::EXIST.into())
            }
        }
        Err(other) => Err(other.into()),
    }
}

/// Device and number of a file, by any of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self(found.dev(), found.ino())
    }

    pub(crate) fn of_stat(found: &Stat) -> Self {
        Self(found.st_dev, found.st_ino)
    }
}

/// Kind of a file.
pub(crate) fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// Splits a path into the folder and the name in it; a path without a name, such as `..`, is the folder
/// itself.
fn split(path: &Path) -> (&Path, OsString) {
    let Some(name) = path.file_name() else { return (path, ".".into()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = name.to_owned();
    if path.as_os_str().as_bytes().ends_with(b"/") {
        // A trailing slash names only a folder.
        name.push("/");
    }
    (folder, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        for (path, folder, name) in [
            ("a", ".", "a"),
            ("a/b", "a", "b"),
            ("a/b/", "a", "b/"),
            ("a/b/./", "a", "b/"),
            ("/a", "/", "a"),
            ("..", "..", "."),
            ("/", "/", "."),
        ] {
            assert_eq!(split(Path::new(path)), (Path::new(folder), name.into()), "{path}");
        }
    }

    #[test]
    fn an_entry_stays_in_its_folder_when_a_link_takes_the_folders_name() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for folder in ["tree", "tree/d", "elsewhere"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("file"), folder).unwrap();
        }
        let below = Entry::named(&at("tree")).unwrap().entries().unwrap();
        assert_eq!(below.iter().map(Entry::path).collect::<Vec<_>>(), [at("tree/d"), at("tree/file")]);
        let file = below[0].entries().unwrap().remove(0);
        std::fs::rename(at("tree/d"), at("moved")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("tree/d")).unwrap();
        assert_eq!(io::read_to_string(file.open(OFlags::RDONLY).unwrap()).unwrap(), "tree/d");
        file.beside(at("tree/d/new")).create_new().unwrap();
        file.remove().unwrap();
        assert!(at("moved/new").exists() && !at("moved/file").exists());
        assert!(at("elsewhere/file").exists() && !at("elsewhere/new").exists());
        assert!(!below[0].is_folder() && below[0].entries().is_err(), "a link is not entered");
    }

    #[test]
    fn what_stands_at_a_name_is_opened_only_if_this_user_put_it_there() {
        let scratch = tempfile::tempdir().unwrap();
        let me = rustix::process::geteuid().as_raw();
        std::os::unix::fs::symlink("/dev/null", scratch.path().join("null")).unwrap();
        let null = Entry::named(&scratch.path().join("null")).unwrap();
        assert!(null.open_own(me).unwrap().is_some());
        if me == 0 {
            std::os::unix::fs::lchown(scratch.path().join("null"), Some(65_534), None).unwrap();
            assert!(null.open_own(me).unwrap().is_none());
        }
    }

    #[test]
    fn a_name_is_replaced_only_if_it_is_free_and_hard_links_do_not_exist() {
        let found = |linked, is_free| is_linked(linked, || is_free).map_err(|error| error.raw_os_error());
        assert_eq!(found(Ok(()), false), Ok(true));
        for errno in [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK] {
            assert_eq!(found(Err(errno), true), Ok(false), "{errno}");
            assert_eq!(found(Err(errno), false), Err(Some(Errno::EXIST.raw_os_error())), "{errno}");
        }
        for errno in [Errno::EXIST, Errno::IO, Errno::DQUOT, Errno::NOSPC, Errno::ACCESS, Errno::ROFS] {
            for is_free in [true, false] {
                assert_eq!(found(Err(errno), is_free), Err(Some(errno.raw_os_error())), "{errno}");
            }
        }
    }
}
