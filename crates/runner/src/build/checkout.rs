//! Files of a commit, read by git.
//!
//! Git runs as this user, with the repository's own configuration: git refuses repositories of other users
//! (`safe.directory`). No hook runs, and nothing in the repository is written.

use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::account::Account;
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

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"]
    {
        command.env_remove(name);
    }
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command.arg("-C").arg(repository).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.stdin(Stdio::null());
    command
}

/// Returns the output of a command, without the blanks around it, or its last words.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "`git` is not installed or not on PATH".to_owned(),
        _ => format!("cannot run git: {e}"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(words.lines().last().unwrap_or_default().to_owned())
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
