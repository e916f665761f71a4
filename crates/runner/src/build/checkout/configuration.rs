//! Files of git's configuration, which name the commands that git runs (filters), and of the attributes for
//! all repositories, which name the files for which they run.
//!
//! # Source
//!
//! git-config(1): FILES, Includes, `core.attributesFile`, `core.fsmonitor`, `core.hooksPath`,
//! `filter.<driver>.smudge`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::build::git::{git, line_of};
use crate::options::other_writer_on;

/// Keys of included files, also of those with a condition that does not hold now.
const INCLUDES: &str = r"^include(if\..*)?\.path$";

/// Key of the attributes for all repositories.
const ATTRIBUTES: &str = r"^core\.attributesfile$";

/// Returns the user, other than this one and root, that may change git's configuration of a repository: a
/// file with a setting, an included file, or the file of the user. Also a repository that the commits of
/// another one bring along: these have written its configuration.
///
/// - `top`: folder of relative names.
/// - `own`: folder of git.
pub(super) fn other_writer(repository: &Path, top: &Path, own: &Path) -> Option<String> {
    let files = match files(repository, top) {
        Ok(files) => files,
        Err(why) => return Some(format!("unknown: git's configuration of {}: {why}", repository.display())),
    };
    let by = |path: &PathBuf| {
        let who = other_creator(path)?;
        Some(format!("{who}, by git's configuration {}", path.display()))
    };
    files.iter().find_map(by).or_else(|| brought_along(own))
}

/// Returns the other user that may change a file, or create it.
fn other_creator(path: &Path) -> Option<String> {
    let there = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    other_writer_on(there.unwrap_or(path))
}

fn files(repository: &Path, top: &Path) -> Result<Vec<PathBuf>, String> {
    let config = |words: &[&str]| {
        let words = ["config", "-z", "--show-origin"].iter().chain(words);
        let text = line_of(git(repository).args(words));
        // Without a match there is no message.
        let text = text.or_else(|why| if why.is_empty() { Ok(Vec::new()) } else { Err(why) })?;
        Ok::<_, String>(entries(&text, top))
    };
    let listed = config(&["--list"])?;
    let included = config(&["--type=path", "--get-regexp", INCLUDES])?;
    let beside = |(origin, path): (PathBuf, PathBuf)| origin.parent().unwrap_or(top).join(path);
    let mut files: Vec<PathBuf> = listed.into_iter().map(|(origin, _)| origin).collect();
    files.dedup();
    files.extend(included.into_iter().map(beside));
    let attributes = config(&["--type=path", "--get-regexp", ATTRIBUTES])?;
    files.extend(attributes.into_iter().map(|(_, path)| top.join(path)));
    files.extend(of_the_user());
    Ok(files)
}

/// Returns file and value of each setting in the output of `git config -z --show-origin`, but for those of
/// the command line.
fn entries(text: &[u8], top: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut parts = text.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(origin), Some(setting)) = (parts.next(), parts.next()) {
        let value = setting.iter().position(|byte| *byte == b'\n').map_or(&[][..], |at| &setting[at + 1..]);
        if let Some(file) = origin.strip_prefix(b"file:") {
            entries.push((top.join(OsStr::from_bytes(file)), OsStr::from_bytes(value).into()));
        }
    }
    entries
}

/// Returns the files of the user's own configuration and attributes, which may not be there yet.
fn of_the_user() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = named("HOME");
    let folder = named("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let attributes = folder.as_ref().map(|folder| folder.join("git/attributes"));
    if let Some(file) = std::env::var_os("GIT_CONFIG_GLOBAL") {
        let global = (!file.is_empty()).then(|| file.into());
        return global.into_iter().chain(attributes).collect();
    }
    let global = [folder.map(|folder| folder.join("git/config")), home.map(|home| home.join(".gitconfig"))];
    global.into_iter().flatten().chain(attributes).collect()
}

/// Returns the repository with a commit that brings along a repository without a work tree: such a one can be
/// a folder like any other.
fn brought_along(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let (above, name) = (folder.parent()?, folder.file_name()?);
    let mut file = OsString::from(name);
    file.push("/HEAD");
    let said = line_of(git(above).args(["ls-files", "-z", "--"]).arg(file)).ok()?;
    let file = OsString::from_vec(said.split(|byte| *byte == 0).next()?.to_vec());
    let what = format!("the authors of the repository at {}, with {}", above.display(), file.display());
    (!file.is_empty()).then_some(what)
}
