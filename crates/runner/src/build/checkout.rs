//! Files of a commit, read by git.
//!
//! Git runs as this user, with the repository's own configuration: git refuses repositories of other users
//! (`safe.directory`). No hook runs, and nothing in the repository is written.

use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::Account;
use crate::options::other_writer_on;
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

/// Variables that lead git to another repository, or let it trust that of another user: with `SUDO_UID`, git
/// of root accepts the repositories of the caller of `sudo`.
const FOREIGN: [&str; 11] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_USER",
];

/// Files in a folder of git that decide what git reads and runs.
const DECIDE: [&str; 12] = [
    "",
    "HEAD",
    "config",
    "config.worktree",
    "info",
    "info/attributes",
    "objects",
    "objects/info",
    "objects/pack",
    "refs",
    "refs/heads",
    "packed-refs",
];

/// Returns the user, other than this one and root, that may change a repository: its work tree, or what
/// decides which commands git runs for it.
pub(super) fn other_writer_of(repository: &Path) -> Option<String> {
    let repository = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
    if let Some(who) = other_writer_on(repository) {
        return Some(who);
    }
    // This runs no filter. If git refuses the folder, nothing is built from it.
    let folders = said(git(repository).args(["rev-parse", "--git-common-dir", "--git-dir"])).ok()?;
    let folders: Vec<PathBuf> = folders.lines().map(|folder| repository.join(folder)).collect();
    let files = folders.iter().flat_map(|folder| DECIDE.iter().map(move |name| folder.join(name)));
    files.filter(|path| fs::symlink_metadata(path).is_ok()).find_map(|path| other_writer_on(&path))
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
    for name in FOREIGN {
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
