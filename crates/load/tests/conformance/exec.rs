//! `exec:`: a command that leaves a mark each time, and hangs while a file exists.

use std::fs::{self, File};

use record::load::LoadSettings;
use tempfile::TempDir;

use crate::subject::Subject;
use crate::support;

struct Exec {
    dir: TempDir,
}

#[expect(clippy::unnecessary_wraps, reason = "as those whose other side may not be installed")]
pub(crate) fn start() -> Option<impl Subject> {
    Some(Exec { dir: TempDir::new().unwrap() })
}

impl Subject for Exec {
    fn settings(&self) -> LoadSettings {
        let path = |name| self.dir.path().join(name).display().to_string();
        let (marks, frozen) = (path("marks"), path("frozen"));
        support::settings(format!("exec:while [ -e {frozen} ]; do sleep 0.02; done; echo x >> {marks}"))
    }

    fn served(&self) -> Option<u64> {
        let marks = fs::read_to_string(self.dir.path().join("marks")).unwrap_or_default();
        Some(marks.lines().count() as u64)
    }

    fn freeze(&self) -> bool {
        File::create(self.dir.path().join("frozen")).is_ok()
    }

    fn thaw(&self) {
        let _ = fs::remove_file(self.dir.path().join("frozen"));
    }
}
