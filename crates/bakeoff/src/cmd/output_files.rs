//! Files that options name for a result: checked before anything is measured.

use std::ffi::OsStr;
use std::fs::{self, File, FileType};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use archive::whole_file;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::unistd::geteuid;

use crate::exit::Exit;

/// A file that a result is written to.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The option that names it.
    pub(crate) option: &'static str,
    pub(crate) path: PathBuf,
    /// Whether the result is added at its end, instead of replacing it.
    pub(crate) is_appended: bool,
}

/// Refuses files that cannot be written after the measurement, and one file for two options.
///
/// - `others`: files that the measurement reads or writes, with the option or argument that names them.
pub(crate) fn check(files: &[OutputFile], others: &[(&str, PathBuf)]) -> anyhow::Result<()> {
    for OutputFile { option, path, .. } in files {
        let is_folder = path.is_dir();
        if is_folder || !folder_of(path).is_dir() {
            let what = if is_folder { "is a folder" } else { "is in a folder that does not exist" };
            return Err(Exit::Usage.with(format!("{option}: {} {what}", path.display())));
        }
    }
    // Before a file is tried: its new content would otherwise be that of another option.
    let mut known: Vec<(&str, PathBuf)> =
        others.iter().flat_map(|(name, path)| names_of(path).map(|path| (*name, path))).collect();
    for OutputFile { option, path, .. } in files {
        if is_stream(path) {
            continue;
        }
        let [name, real] = names_of(path);
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == name || *known == real) {
            let what = format!("{other} and {option} name one file, {}: name two", path.display());
            return Err(Exit::Usage.with(what));
        }
        known.extend([(*option, name), (*option, real)]);
    }
    match files.iter().find_map(|file| Some((file, unfit(file)?))) {
        Some((OutputFile { option, path, .. }, why)) => {
            Err(Exit::Usage.with(format!("{option}: {} {why}", path.display())))
        }
        None => Ok(()),
    }
}

/// Reason that the file cannot be written.
fn unfit(file: &OutputFile) -> Option<String> {
    let path = &file.path;
    let is_stream = is_stream(path);
    if path.is_symlink() && (file.is_appended || !is_stream) {
        let end = path.canonicalize().map_or(String::new(), |end| format!(", {}", end.display()));
        return Some(format!("is a link: name the file itself{end}"));
    }
    let found = fs::metadata(path).ok();
    if file.is_appended
        && let Some(found) = &found
    {
        if !found.is_file() {
            return Some("is not a regular file, and can get nothing at its end".to_owned());
        }
        if found.nlink() > 1 {
            return Some("has a second name, another hard link: name a file of one name".to_owned());
        }
        return to_append(path).err().map(|error| format!("cannot be written: {error}"));
    }
    // To open a pipe and close it again would end its reader.
    if is_stream {
        return None;
    }
    whole_file::check(path).err().map(|error| format!("cannot be written: {error}"))
}

/// Opens a file to write at its end, or creates it. In a folder that others can write, its name may lead to
/// a file that another user chose: links, second names and files of strangers are refused.
pub(crate) fn to_append(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = open(folder_of(path), flags, Mode::empty())?;
    // Opening another user's pipe must not block.
    let flags = OFlag::O_WRONLY
        | OFlag::O_CREAT
        | OFlag::O_APPEND
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let opened = openat(&folder, name, flags, Mode::from_bits_truncate(0o666));
    let file = File::from(opened.map_err(|errno| match errno {
        Errno::ELOOP => io::Error::other("it is a link: name the file itself"),
        other => other.into(),
    })?);
    check_opened(&folder, name, &file).map(|()| file)
}

/// Refuses an open file that is not the one of this name, has a second name, or belongs to a stranger: to
/// neither root, nor this user, nor the owner of the folder.
///
/// The name is read again, because a second name that is removed between opening and counting leaves one.
fn check_opened(folder: &OwnedFd, name: &OsStr, file: &File) -> io::Result<()> {
    let (opened, around) = (fstat(file)?, fstat(folder)?);
    let named = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    let kind = SFlag::from_bits_truncate(opened.st_mode & SFlag::S_IFMT.bits());
    let is_it = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    if kind != SFlag::S_IFREG || !is_it || opened.st_nlink != 1 || named.st_nlink != 1 {
        return Err(io::Error::other("expected a regular file without a second name"));
    }
    if ![0, geteuid().as_raw(), around.st_uid].contains(&opened.st_uid) {
        let what = format!("it belongs to another user (user id {})", opened.st_uid);
        return Err(io::Error::other(what));
    }
    Ok(())
}

/// Whether the path is a pipe, a socket or a terminal or another device of characters.
fn is_stream(path: &Path) -> bool {
    let is = |kind: FileType| kind.is_char_device() || kind.is_fifo() || kind.is_socket();
    fs::metadata(path).is_ok_and(|found| is(found.file_type()))
}

/// The path with its folder's real name, and with the real name of the file if it is a link.
fn names_of(path: &Path) -> [PathBuf; 2] {
    let folder = folder_of(path);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name));
    let real = path.canonicalize().unwrap_or_else(|_| name.clone());
    [name, real]
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn said(files: &[(&'static str, &Path)], others: &[(&str, PathBuf)]) -> Option<String> {
        let file = |(option, path): &(&'static str, &Path)| OutputFile {
            option,
            path: (*path).to_owned(),
            is_appended: *option == "--summary",
        };
        let files: Vec<OutputFile> = files.iter().map(file).collect();
        check(&files, others).err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn a_file_that_two_options_name_is_refused_under_any_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("plan"), "").unwrap();
        symlink(at("plan"), at("link")).unwrap();
        let (x, odd) = (at("x"), at("sub/../x"));
        let two = said(&[("--junit", &x), ("--badge", &odd)], &[]).unwrap();
        assert!(two.starts_with("--junit and --badge name one file, "), "{two}");
        assert_eq!(said(&[("--junit", &x), ("--badge", &at("y"))], &[]), None);
        let plan = said(&[("--junit", &at("plan"))], &[("PLAN", at("link"))]).unwrap();
        assert!(plan.starts_with("PLAN and --junit name one file, "), "{plan}");
        let null = Path::new("/dev/null");
        assert_eq!(said(&[("--junit", null), ("--badge", null)], &[]), None);
    }

    #[test]
    fn a_file_whose_second_name_is_removed_after_it_was_opened_gets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("of-the-victim"), "as before").unwrap();
        let open_folder = OwnedFd::from(File::open(folder.path()).unwrap());
        let check = |file: &File| check_opened(&open_folder, OsStr::new("summary"), file);
        fs::hard_link(at("of-the-victim"), at("summary")).unwrap();
        let opened = fs::OpenOptions::new().append(true).open(at("summary")).unwrap();
        assert!(check(&opened).is_err(), "two names");
        fs::remove_file(at("summary")).unwrap();
        assert!(check(&opened).is_err(), "no such name");
        fs::write(at("summary"), "").unwrap();
        assert!(check(&opened).is_err(), "another file");
        let opened = to_append(&at("summary")).unwrap();
        check(&opened).unwrap();
        assert!(to_append(&at("new")).is_ok() && at("new").exists());
    }

    #[test]
    fn root_a_file_of_a_stranger_gets_nothing_unless_the_folder_is_theirs() {
        if !geteuid().is_root() {
            println!("skipped: files of other users, for want of root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("summary");
        let own = |path: &Path, uid| std::os::unix::fs::chown(path, Some(uid), None).unwrap();
        for (of_folder, of_file, may) in [(0, 0, true), (0, 65_534, false), (65_534, 65_534, true)] {
            fs::write(&file, "").unwrap();
            own(folder.path(), of_folder);
            own(&file, of_file);
            assert_eq!(to_append(&file).is_ok(), may, "{of_folder} {of_file}");
        }
        own(folder.path(), 0);
        let why = said(&[("--summary", &file)], &[]).unwrap();
        assert!(why.contains("belongs to another user (user id 65534)"), "{why}");
    }

    #[test]
    fn a_link_is_refused_unless_a_stream_is_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "as before").unwrap();
        fs::hard_link(at("file"), at("second")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("none"), at("dangling")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        for option in ["--junit", "--summary"] {
            for name in ["link", "dangling"] {
                let why = said(&[(option, &at(name))], &[]).unwrap();
                assert!(why.contains("is a link: name the file itself"), "{why}");
            }
        }
        assert_eq!(said(&[("--junit", &at("null"))], &[]), None);
        assert_eq!(said(&[("--junit", &at("second"))], &[]), None, "it is replaced, and the other stays");
        for name in ["null", "second"] {
            assert!(said(&[("--summary", &at(name))], &[]).is_some(), "{name}");
        }
        assert!(said(&[("--summary", Path::new("/dev/null"))], &[]).is_some());
        assert_eq!(said(&[("--summary", &at("new"))], &[]), None);
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "as before");
        assert!(!at("new").exists());
    }
}
