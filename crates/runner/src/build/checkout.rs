//! Files of a commit, read by git.
//!
//! Git runs as this user, with the repository's own configuration: git refuses repositories of other users
//! (`safe.directory`). No hook and no transport runs, and nothing in the repository is written. Filters run:
//! they are commands of the configuration.

mod configuration;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use super::git::{git, line_of, said};
use crate::account::Account;
use crate::options::{other_writer, other_writer_on};
use crate::random;

/// Returns the id of an object; the revision is checked by git.
pub(super) fn id(repository: &Path, revision: &str) -> Result<String, String> {
    let mut command = git(repository);
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options", revision]);
    let text = said(&mut command).map_err(|why| {
        let shown = revision.split("^{").next().unwrap_or(revision);
        let why = if why.is_empty() { "no such revision".to_owned() } else { why };
        format!("the revision `{shown}` of {}: {why}", repository.display())
    })?;
    let is_id = text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id { Ok(text) } else { Err(format!("git printed `{text}` instead of an id")) }
}

/// Returns the user, other than this one and root, that may change a repository: its work tree, or any file
/// in the folders of git, also in those of the repositories that lend it objects, and all files of git's
/// configuration.
pub(super) fn other_writer_of(repository: &Path) -> Option<String> {
    let repository = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
    if let Some(who) = other_writer_on(repository) {
        return Some(who);
    }
    // This runs no filter. If git refuses the folder, nothing is built from it.
    let named = |what: &str| {
        let path = line_of(git(repository).args(["rev-parse", what])).ok()?;
        Some(repository.join(OsString::from_vec(path)))
    };
    let (common, own) = (named("--git-common-dir")?, named("--git-dir")?);
    // Of a linked work tree, a file `.git` names the folder. A bare repository has no work tree.
    let link = named("--show-toplevel").map(|top| top.join(".git"));
    let link = link.filter(|link| fs::symlink_metadata(link).is_ok()).and_then(|link| other_writer_on(&link));
    let below = link.or_else(|| other_writer_below(vec![common, own.clone()]));
    let top = named("--show-toplevel").unwrap_or_else(|| own.clone());
    below.or_else(|| configuration::other_writer(repository, &top, &own))
}

/// Returns the other user that may change one of these folders, or something in it.
fn other_writer_below(mut folders: Vec<PathBuf>) -> Option<String> {
    let mut known = BTreeSet::new();
    let tops: BTreeSet<PathBuf> = folders.iter().cloned().collect();
    while let Some(folder) = folders.pop() {
        // A process of this user, such as `git gc`, has removed it just now.
        if !tops.contains(&folder)
            && fs::symlink_metadata(&folder).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        {
            continue;
        }
        let unreadable = |path: &Path, why: &io::Error| Some(format!("unknown: {}: {why}", path.display()));
        let real = match fs::canonicalize(&folder) {
            Ok(real) => real,
            Err(why) => return unreadable(&folder, &why),
        };
        if !known.insert(real) {
            continue;
        }
        if let Some(who) = other_writer_on(&folder) {
            return Some(who);
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(why) => return unreadable(&folder, &why),
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let found = match fs::symlink_metadata(&path) {
                Ok(found) => found,
                // A process of this user has removed it just now.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return unreadable(&path, &why),
            };
            // The lock of an editor on a file that is open names no file.
            let is_lock = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".#"));
            if is_lock && found.is_symlink() && !path.exists() {
                continue;
            }
            // A link may lead out of the folder.
            let who = if found.is_symlink() { other_writer_on(&path) } else { other_writer(&path, &found) };
            if who.is_some() {
                return who;
            }
            if path.ends_with("info/alternates") {
                match alternates(&path) {
                    Ok(others) => folders.extend(others),
                    Err(why) => return unreadable(&path, &why),
                }
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    None
}

/// Returns the folders of objects that the file of a repository names.
fn alternates(path: &Path) -> io::Result<Vec<PathBuf>> {
    let objects = path.ancestors().nth(2).unwrap_or(Path::new("/"));
    let text = fs::read(path)?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
    let of = |line: &[u8]| match line[0] {
        b'"' => Err(io::Error::new(io::ErrorKind::InvalidData, "it has a name in quotes")),
        _ => Ok(objects.join(OsStr::from_bytes(line))),
    };
    lines.map(of).collect()
}

/// Writes the files of a tree into an empty folder, for an account.
pub(super) fn files(
    repository: &Path,
    tree: &str,
    folder: &Path,
    account: Option<Account>,
) -> Result<(), String> {
    // A separate index: that of the repository stays as it is.
    let index = folder.with_file_name(format!("index-{}", random::token()));
    let steps: [&[&str]; 2] = [&["read-tree", tree], &["checkout-index", "--all", "--force"]];
    let mut outcome = Ok(());
    for arguments in steps {
        let mut command = git(repository);
        command.env("GIT_INDEX_FILE", &index).arg("--work-tree").arg(folder).args(arguments);
        outcome = said(&mut command).map(drop);
        if outcome.is_err() {
            break;
        }
    }
    let _ = fs::remove_file(&index);
    outcome.map_err(|why| format!("git cannot write the files of {tree}: {why}"))?;
    match account {
        Some(account) => give(folder, account).map_err(|e| format!("cannot hand over the source: {e}")),
        None => Ok(()),
    }
}

/// Makes an account the owner of a folder and everything in it; links are not followed.
fn give(path: &Path, account: Account) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), account)?;
        }
    }
    lchown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(folder: &Path, words: &[&str]) {
        let settings = ["-c", "user.name=a", "-c", "user.email=a"];
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(settings).args(words);
        command.env_remove("GIT_ALLOW_PROTOCOL");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A partial clone lacks the files of its commits. Git fetches them by a command of its configuration.
    #[test]
    fn no_transport_runs_for_a_commit_that_lacks_files() {
        if Command::new("git").arg("--version").output().is_err() {
            return println!("skipped: no git");
        }
        let place = tempfile::tempdir().unwrap();
        let (full, partial) = (place.path().join("full"), place.path().join("partial"));
        fs::create_dir(&full).unwrap();
        run(&full, &["init", "-q"]);
        fs::write(full.join("file"), "text").unwrap();
        run(&full, &["add", "."]);
        run(&full, &["commit", "-qm", "one"]);
        run(&full, &["config", "uploadpack.allowFilter", "true"]);
        let (from, to) = (format!("file://{}", full.display()), partial.to_str().unwrap());
        run(place.path(), &["clone", "-q", "--no-checkout", "--filter=blob:none", &from, to]);
        let (asked, script) = (place.path().join("asked"), place.path().join("upload-pack"));
        let text = format!("#!/bin/sh\ntouch {}\nexec git-upload-pack \"$@\"\n", asked.display());
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        run(&partial, &["config", "remote.origin.uploadpack", script.to_str().unwrap()]);
        let tree = id(&partial, "HEAD^{tree}").unwrap();
        let folder = place.path().join("files");
        fs::create_dir(&folder).unwrap();
        let why = files(&partial, &tree, &folder, None).unwrap_err();
        assert!(!asked.exists(), "{why}");
        // The controls: git alone fetches it, and then it is there.
        run(&partial, &["cat-file", "-e", "HEAD:file"]);
        assert!(asked.exists());
        files(&partial, &tree, &folder, None).unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");
    }
}
