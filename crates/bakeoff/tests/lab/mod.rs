//! The binary as a user runs it, with its own archive and folder.

#![allow(dead_code, reason = "each test program uses a part of it, and not the same one")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Lab {
    folder: TempDir,
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a temporary folder") }
    }

    /// A path in the lab's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A SQLite target in the lab's folder.
    pub(crate) fn sqlite(&self) -> String {
        format!("sqlite:{}?journal_mode=wal&synchronous=off", self.path("bench.db").display())
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command
            .args(words)
            .env("BAKEOFF_ARCHIVE", self.path("archive"))
            .env("BAKEOFF_MACHINE_LOCK", self.path("lock"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().expect("the binary starts"))
    }

    /// The output of a command with `--json`, which must succeed.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let ended = self.run(&[words, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.err);
        serde_json::from_str(&ended.out).expect("one JSON document")
    }

    /// Every file of the archive, as bytes.
    pub(crate) fn archived_bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("archive")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.clone(), std::fs::read(&path).expect("a file of the archive")));
                }
            }
        }
        found
    }
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the binary prints UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Checks that planned = done + failed + skipped + unfinished.
pub(crate) fn assert_balanced(load: &Value) {
    let count = |name: &str| load[name].as_u64().unwrap_or_else(|| panic!("{name} is a count: {load}"));
    let fates = ["done", "failed", "skipped", "unfinished"].map(count);
    assert_eq!(count("planned"), fates.iter().sum::<u64>(), "{load}");
}
