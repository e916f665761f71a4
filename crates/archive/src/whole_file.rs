//! Files that a user names: replaced as a whole or not at all, and never through another user's link.
//!
//! A file is written under a random name in the same folder (`O_CREAT | O_EXCL | O_NOFOLLOW`) and renamed
//! when it is complete. The folder is opened once and every later step goes through that descriptor, so a
//! folder that is swapped meanwhile changes nothing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::lock;

/// Longest name on Linux file systems, in bytes.
const NAME_BYTES_MAX: usize = 255;
const BESIDE: &str = "partial";
/// Hexadecimal digits of the random part of a temporary name.
const RANDOM_DIGITS: usize = 32;

/// Checks that `path` can be written, without touching the existing file.
///
/// # Errors
///
/// A file cannot be created next to `path`.
pub fn check(path: &Path) -> io::Result<()> {
    match Destination::of(path)? {
        Destination::Through(_) => Ok(()),
        Destination::TemporaryFile(target) => target.create().map(drop),
    }
}

/// Replaces the content of `path` in one step. A full disk leaves the old content, and never half a file.
///
/// A pipe, a terminal or a device that root or this user owns is written to. A link is replaced, not
/// followed, except to such a device.
///
/// # Errors
///
/// The system refuses; then the old content is unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Variant of [`write()`] with the content that `put` writes.
///
/// # Errors
///
/// Those of [`write()`], and that of `put`.
pub fn write_with(path: &Path, put: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let put = |file: &File| {
        let mut out = BufWriter::new(file);
        put(&mut out)?;
        out.flush()
    };
    match Destination::of(path)? {
        Destination::Through(file) => put(&file),
        Destination::TemporaryFile(target) => {
            let beside = target.create()?;
            put(&beside.file)?;
            beside.rename()
        }
    }
}

/// Opens an empty file in place of `path`, to be written piece by piece; the way of [`write()`] with links,
/// pipes and devices.
///
/// # Errors
///
/// The system refuses; then the old content is unchanged.
pub fn emptied(path: &Path) -> io::Result<File> {
    match Destination::of(path)? {
        Destination::Through(file) => Ok(file),
        Destination::TemporaryFile(target) => {
            let beside = target.create()?;
            let file = beside.file.try_clone()?;
            beside.rename()?;
            Ok(file)
        }
    }
}

/// Way to write to a path.
enum Destination {
    /// A pipe or a device: it stores nothing that could be lost, and must not be replaced by a file.
    Through(File),
    /// A file, or nothing yet.
    TemporaryFile(Target),
}

impl Destination {
    fn of(path: &Path) -> io::Result<Self> {
        let target = Target::of(path)?;
        let found = match fstatat(&target.folder, target.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::ENOENT) => return Ok(Self::TemporaryFile(target)),
            Err(errno) => return Err(errno.into()),
        };
        let kind = kind(&found);
        // Another user's pipe or link must not receive this user's data.
        let is_trusted = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
        if kind == SFlag::S_IFREG || !is_trusted {
            return Ok(Self::TemporaryFile(target));
        }
        let follow = if kind == SFlag::S_IFLNK { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | follow;
        match (openat(&target.folder, target.name.as_os_str(), flags, Mode::empty()), kind) {
            (Ok(file), _) => match self::kind(&fstat(&file)?) {
                SFlag::S_IFREG => Ok(Self::TemporaryFile(target)),
                SFlag::S_IFBLK => Err(io::Error::new(io::ErrorKind::InvalidInput, "is a block device")),
                _ => Ok(Self::Through(file.into())),
            },
            // A link to nothing, to a folder or to an inaccessible file is replaced.
            (Err(_), SFlag::S_IFLNK) => Ok(Self::TemporaryFile(target)),
            (Err(errno), _) => Err(errno.into()),
        }
    }
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits())
}

/// A name in an open folder.
#[derive(Debug)]
struct Target {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
        let name = name.ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self { folder: open(folder_of(path), flags, Mode::empty())?, name, path: path.to_owned() })
    }

    /// Creates an empty file under a random name in the same folder.
    fn create(self) -> io::Result<TemporaryFile> {
        let temporary = self.temporary_name();
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.folder, temporary.as_os_str(), flags, Mode::from_bits_truncate(0o666))?;
        Ok(TemporaryFile { file: file.into(), temporary: Some(temporary), target: self })
    }

    /// Prefix `.NAME.` and suffix `.partial` around the random part of the temporary names of `NAME`.
    fn around_random(&self) -> (OsString, OsString) {
        let mut before = OsString::from(".");
        let most = NAME_BYTES_MAX - RANDOM_DIGITS - BESIDE.len() - 3;
        before.push(OsStr::from_bytes(&self.name.as_bytes()[..self.name.len().min(most)]));
        before.push(".");
        (before, OsString::from(format!(".{BESIDE}")))
    }

    fn temporary_name(&self) -> OsString {
        // Keyed by the system's randomness: another user cannot guess it.
        let draw = || RandomState::new().build_hasher().finish();
        let (mut name, end) = self.around_random();
        name.push(format!("{:016x}{:016x}", draw(), draw()));
        name.push(end);
        name
    }

    /// Temporary names of this file in the folder.
    fn siblings(&self) -> io::Result<Vec<OsString>> {
        let (before, after) = self.around_random();
        let is_ours = |name: &[u8]| {
            let middle = name.strip_prefix(before.as_bytes()).and_then(|n| n.strip_suffix(after.as_bytes()));
            middle.is_some_and(|m| m.len() == RANDOM_DIGITS && m.iter().all(u8::is_ascii_hexdigit))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(folder_of(&self.path))? {
            let name = entry?.file_name();
            if is_ours(name.as_bytes()) {
                found.push(name);
            }
        }
        Ok(found)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is written slowly. It is locked while it has its temporary name, so two writers of one name
/// exclude each other, and the leftover of a killed one is found.
#[derive(Debug)]
pub(crate) struct SlowFile {
    beside: TemporaryFile,
    left_behind: Option<PathBuf>,
}

/// Reason that a slow file cannot begin.
#[derive(Debug)]
pub(crate) enum BeginError {
    /// Another process is writing it.
    Busy,
    /// The system refuses.
    Refused(io::Error),
}

impl From<io::Error> for BeginError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl SlowFile {
    /// Begins a file with the later name `path`; removes the leftover of a killed process with the same name.
    pub(crate) fn begin(path: &Path) -> Result<Self, BeginError> {
        let target = Target::of(path)?;
        let mut left_behind = None;
        for name in target.siblings()? {
            // Only a regular file of this user counts: another user's would block or mislead.
            let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let Ok(file) = openat(&target.folder, name.as_os_str(), flags, Mode::empty()) else { continue };
            let found = fstat(&file).map_err(io::Error::from)?;
            if kind(&found) != SFlag::S_IFREG || found.st_uid != geteuid().as_raw() {
                continue;
            }
            if !lock::take(&File::from(file))? {
                return Err(BeginError::Busy);
            }
            let _ = unlinkat(&target.folder, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
            left_behind = Some(path.with_file_name(name));
        }
        let beside = target.create()?;
        lock::take(&beside.file)?;
        Ok(Self { beside, left_behind })
    }

    /// A second handle on the file, for writing from another thread.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.beside.file.try_clone()
    }

    /// Leftover of a killed process.
    pub(crate) fn left_behind(&self) -> Option<&Path> {
        self.left_behind.as_deref()
    }

    /// Final name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.beside.target.path
    }

    /// Renames the file to its final name.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.beside.rename()
    }
}

/// A file under its temporary name; removed unless it is renamed.
#[derive(Debug)]
struct TemporaryFile {
    file: File,
    temporary: Option<OsString>,
    target: Target,
}

impl TemporaryFile {
    fn rename(mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.as_ref() else { return Ok(()) };
        let folder = self.target.folder.as_fd();
        renameat(folder, temporary.as_os_str(), folder, self.target.name.as_os_str())?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // The earlier failure is the error to report; this only cleans up.
            let _ = unlinkat(&self.target.folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_emptied_file_replaces_a_link_and_not_the_file_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        for text in ["first", "second"] {
            emptied(&link).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&link).unwrap(), text);
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
        emptied(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_is_replaced_and_its_target_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        for planted in ["page.html", "page.html.partial", "dangling"] {
            let to = if planted == "dangling" { "nothing" } else { "victim" };
            symlink(at(to), at(planted)).unwrap();
        }
        check(&at("page.html")).unwrap();
        write(&at("page.html"), b"page").unwrap();
        write(&at("dangling"), b"page").unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(at("page.html")).unwrap(), "page");
        assert!(!at("page.html").is_symlink() && !at("nothing").exists());
        assert_eq!(names(folder.path()), ["dangling", "page.html", "page.html.partial", "victim"]);
    }

    #[test]
    fn a_hard_link_does_not_change_with_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, page) = (folder.path().join("victim"), folder.path().join("page.md"));
        fs::write(&victim, "precious").unwrap();
        fs::hard_link(&victim, &page).unwrap();
        write(&page, b"page").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_device_is_written_to_and_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let null = folder.path().join("null");
        symlink("/dev/null", &null).unwrap();
        write(&null, b"page").unwrap();
        assert!(null.is_symlink(), "a link of this user to a device is followed");
        assert!(write(folder.path(), b"page").is_err());
        assert!(write(&folder.path().join("none/page"), b"page").is_err());
        assert!(write(Path::new("/dev/null/"), b"page").is_err());
        assert_eq!(names(folder.path()), ["null"]);
    }

    #[test]
    fn a_name_as_long_as_the_system_takes_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(NAME_BYTES_MAX));
        write(&path, b"page").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"page");
    }
}
