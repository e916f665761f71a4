//! A folder to run tamp in.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A scratch folder with one sample file.
pub(crate) struct Scratch {
    pub(crate) folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sample"), sample()).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Returns the command `line`, with the scratch folder as working directory.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamp"));
        command.args(line.split_ascii_whitespace()).current_dir(self.folder.path());
        command
    }

    pub(crate) fn tamp(&self, line: &str) -> Output {
        self.tamp_with(line, b"")
    }

    pub(crate) fn tamp_with(&self, line: &str, input: &[u8]) -> Output {
        let mut command = self.command(line);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A command that fails early does not read its input.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().unwrap()
        })
    }

    /// Checks that the command succeeds without a message; returns its output.
    pub(crate) fn ok(&self, line: &str) -> Vec<u8> {
        let output = self.tamp(line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{line}");
        output.stdout
    }

    /// Checks that the command exits with `code` and prints `says`.
    pub(crate) fn fails(&self, line: &str, code: i32, says: &str) {
        let output = self.tamp(line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(says), "{line}: {said}");
    }

    /// Checks that the folder holds only `names`.
    pub(crate) fn holds_only(&self, names: &[&str]) {
        let mut found: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        found.sort();
        assert_eq!(found, names);
    }
}

pub(crate) fn sample() -> Vec<u8> {
    (0..400_000).flat_map(|n| format!("{n:>7}\n").into_bytes()).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}
