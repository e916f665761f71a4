//! `exec:COMMAND`: each event is one run of a command, from its start to its exit.
//!
//! As in make, a command without shell metacharacters is executed directly, any other by `sh -c`. Its output
//! is discarded, its input is empty. It runs in a separate process group: a Ctrl-C at the terminal does not
//! look like its failure, and a hung command can be killed with all its children. A run succeeds if it exits
//! with the expected status, 0 by default; a signal is always a failure.
//!
//! A command starts as a shell would start it: with this process' scheduling policy, priority, timer slack
//! and limits, an empty signal mask and no descriptors beyond the first three. The real-time settings of the
//! worker's thread do not affect it. Its standard error is read, and its last lines are part of the failure.

mod child;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use record::load::Workload;
use record::missing::Missing;
use record::requests::ExecSettings;
use record::target::Target;

use self::child::{Errors, Start};
use super::{Driver, Look, Scheme};
use crate::connection::{Attempt, Connection, Cut, Failure, FailureClass, OperationShare};
use crate::net::connection_failure;

pub(super) const SCHEME: Scheme = Scheme {
    name: "exec",
    form: "exec:COMMAND",
    workloads: &[Workload::Native],
    check: |target| {
        if command_of(target).is_empty() {
            return Err("the command after the colon is missing: write `exec:gzip -1 file`".to_owned());
        }
        Ok(())
    },
    address: |_| None,
    open: |settings| {
        let (words, exec) = (words(command_of(&settings.target)), settings.exec.clone());
        let start = Start::of(&settings.pace);
        Ok(Arc::new(Exec { words, settings: exec, start }))
    },
};

/// Shell metacharacters.
const SHELL: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', ']', '#', '~', '=', '%',
    '{', '}', '!', '\n',
];

struct Exec {
    words: Vec<String>,
    settings: ExecSettings,
    start: Start,
}

struct Runner {
    command: Command,
    start: Start,
    errors: Errors,
    expected_status: i32,
    /// Process group of the running command; 0 while none runs.
    group: Arc<AtomicI32>,
}

impl Driver for Exec {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let group = Arc::new(AtomicI32::new(0));
        let to_kill = Arc::clone(&group);
        cut.arm(move || {
            let group = to_kill.load(Ordering::SeqCst);
            if group > 0 {
                // An error means that the group has already ended.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
        });
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).process_group(0);
        command.envs(self.settings.environment.iter().map(|(name, value)| (name, value)));
        let (errors, to_write) =
            Errors::pipe().map_err(|e| connection_failure("cannot create a pipe", &e))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(to_write);
        let (start, expected_status) = (self.start, self.settings.expected_status.into());
        Ok(Box::new(Runner { command, start, errors, expected_status, group }))
    }

    fn look(&self, _: &Cut) -> Result<Look, Failure> {
        let program = &self.words[0];
        if !is_program(program) {
            let text = format!("program `{program}` not found; a shell builtin needs `sh -c`");
            return Err(Failure::new(FailureClass::Configuration, text));
        }
        Ok(Look { version: Err(Missing::because("a command does not report a version")), store: None })
    }

    fn operations(&self) -> Vec<OperationShare> {
        Vec::new()
    }

    fn starts_commands(&self) -> bool {
        true
    }

    /// Always 0: a command inherits the limit of open files with which this process started, so it is not
    /// raised.
    fn sockets(&self, _: u32) -> u32 {
        0
    }
}

impl Connection for Runner {
    fn run(&mut self, _: &mut Attempt<'_>) -> Result<(), Failure> {
        let failed = |text| Failure::new(FailureClass::Application, text);
        self.errors.clear();
        let child = self.start.spawn(&mut self.command);
        let mut child = child.map_err(|e| failed(format!("cannot start the command: {e}")))?;
        self.group.store(child.id().cast_signed(), Ordering::SeqCst);
        let status = self.errors.wait_for(&mut child);
        self.group.store(0, Ordering::SeqCst);
        let status = status.map_err(|e| failed(format!("cannot wait for the command: {e}")))?;
        if status.code() == Some(self.expected_status) {
            return Ok(());
        }
        let mut text = format!("the command ended with {status}");
        if self.expected_status != 0 {
            text = format!("{text}, expected {}", self.expected_status);
        }
        if let Some(last) = self.errors.last_lines() {
            text = format!("{text}; its last output: {last}");
        }
        Err(failed(text))
    }
}

/// Argument vector that a load on `target` executes, the program first; `None` if the scheme is not `exec:`.
pub fn words_of(target: &Target) -> Option<Vec<String>> {
    let command = command_of(target);
    (target.scheme() == SCHEME.name && !command.is_empty()).then(|| words(command))
}

fn command_of(target: &Target) -> &str {
    target.expose().split_once(':').map_or("", |(_, command)| command.trim())
}

fn words(command: &str) -> Vec<String> {
    if command.contains(SHELL) {
        return ["sh", "-c", command].map(str::to_owned).to_vec();
    }
    command.split_whitespace().map(str::to_owned).collect()
}

fn is_program(program: &str) -> bool {
    use nix::unistd::{AccessFlags, access};
    let runs = |path: &std::path::Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if program.contains('/') {
        return runs(program.as_ref());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| runs(&dir.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_read_goes_through_a_shell() {
        assert_eq!(words("gzip -1  file"), ["gzip", "-1", "file"]);
        assert_eq!(words("echo $HOME"), ["sh", "-c", "echo $HOME"]);
        assert_eq!(words("a 'b c'"), ["sh", "-c", "a 'b c'"]);
    }

    #[test]
    fn a_program_is_found_as_a_shell_would_find_it() {
        assert!(is_program("sh") && is_program("/bin/sh"));
        assert!(!is_program("no-such-program-anywhere") && !is_program("/etc/passwd") && !is_program("/tmp"));
    }
}
