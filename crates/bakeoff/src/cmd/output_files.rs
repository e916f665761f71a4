//! Files that options name for a result: checked before anything is measured.

use std::fs::{self, FileType, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use archive::whole_file;

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
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        let opened = OpenOptions::new().append(true).custom_flags(flags).open(path);
        return opened.err().map(|error| format!("cannot be written: {error}"));
    }
    // To open a pipe and close it again would end its reader.
    if is_stream {
        return None;
    }
    whole_file::check(path).err().map(|error| format!("cannot be written: {error}"))
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
