//! Calls of git.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that lead git to another repository, or let it trust that of another user: with `SUDO_UID`, git
/// of root accepts the repositories of the caller of `sudo`.
const FOREIGN: [&str; 13] = [
    "GIT_DIR",
    // `git config` would show this file alone.
    "GIT_CONFIG",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    // Attributes name filters.
    "GIT_ATTR_SOURCE",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_USER",
];

/// Returns a call of git for a repository, which runs no hook and no transport.
pub(super) fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    for name in FOREIGN {
        command.env_remove(name);
    }
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    // A partial clone would fetch what it lacks, by commands of its configuration and of the other side.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    // What is built is what the id names.
    command.env("GIT_NO_REPLACE_OBJECTS", "1");
    command.arg("-C").arg(repository).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.stdin(Stdio::null());
    command
}

/// Returns the output of a command, without the blanks around it, or its last words.
pub(super) fn said(command: &mut Command) -> Result<String, String> {
    line_of(command).map(|line| String::from_utf8_lossy(&line).trim().to_owned())
}

/// Returns the output of a command, without the line break at its end, or its last words.
pub(super) fn line_of(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "`git` is not installed or not on PATH".to_owned(),
        _ => format!("cannot run git: {e}"),
    })?;
    if output.status.success() {
        let line = output.stdout;
        return Ok(line.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(line));
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(words.lines().last().unwrap_or_default().to_owned())
}
