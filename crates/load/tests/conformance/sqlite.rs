//! `sqlite:`: a file, and another connection that blocks it.

use std::time::Duration;

use record::load::{LoadSettings, PreparePolicy, Workload};
use tempfile::TempDir;

use crate::subject::{Hindrance, Subject};
use crate::support;

struct Sqlite {
    dir: TempDir,
}

#[expect(clippy::unnecessary_wraps, reason = "as those whose other side may not be installed")]
pub(crate) fn start() -> Option<impl Subject> {
    Some(Sqlite { dir: TempDir::new().unwrap() })
}

impl Sqlite {
    fn with(&self, query: &str) -> LoadSettings {
        let path = self.dir.path().join("x.db");
        let settings = support::settings(format!("sqlite:{}?{query}", path.display()));
        LoadSettings { workload: Workload::OltpPointSelect, ..settings }
    }
}

impl Subject for Sqlite {
    fn settings(&self) -> LoadSettings {
        self.with("journal_mode=delete")
    }

    fn served(&self) -> Option<u64> {
        None
    }

    fn hindered(&self) -> Option<LoadSettings> {
        Some(LoadSettings {
            prepare: PreparePolicy::Never,
            retries_max: 1_000_000_000,
            time: Duration::from_secs(4),
            ..self.with("journal_mode=delete&busy_timeout=0")
        })
    }

    fn hindrance(&self) -> Hindrance {
        let database = rusqlite::Connection::open(self.dir.path().join("x.db")).unwrap();
        database.busy_timeout(Duration::from_mins(1)).unwrap();
        database.execute_batch("BEGIN EXCLUSIVE").unwrap();
        Hindrance(Some(Box::new(move || drop(database))))
    }
}
