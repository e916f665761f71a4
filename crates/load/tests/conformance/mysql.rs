//! `mysql:`: a MariaDB that the test starts.

use std::time::Duration;

use mysql::prelude::Queryable as _;
use record::load::{LoadSettings, PreparePolicy, Workload};

use crate::subject::{Hindrance, Subject};
use crate::support;
use crate::support::mariadb::MariaDb;

pub(crate) fn start() -> Option<impl Subject> {
    MariaDb::start()
}

impl Subject for MariaDb {
    fn settings(&self) -> LoadSettings {
        LoadSettings { workload: Workload::OltpPointSelect, ..support::settings(self.url()) }
    }

    fn served(&self) -> Option<u64> {
        let mut root = self.connect("root", None, "mysql");
        let row: Option<(String, u64)> =
            root.query_first("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'").unwrap();
        row.map(|(_, executed)| executed)
    }

    fn freeze(&self) -> bool {
        MariaDb::freeze(self);
        true
    }

    fn thaw(&self) {
        MariaDb::thaw(self);
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        MariaDb::crash(self);
    }

    fn restart(&mut self) {
        MariaDb::restart(self);
    }

    /// The server waits a second for a lock, and then gives up.
    fn hindered(&self) -> Option<LoadSettings> {
        let mut root = self.connect("root", None, "mysql");
        root.query_drop("SET GLOBAL innodb_lock_wait_timeout = 1").unwrap();
        let mut settings = LoadSettings {
            workload: Workload::OltpWriteOnly,
            prepare: PreparePolicy::Never,
            retries_max: 1_000_000,
            time: Duration::from_secs(5),
            ..Subject::settings(self)
        };
        settings.oltp.tables = 1;
        Some(settings)
    }

    /// Another transaction locks every row of the table, and waits for its locks without limit.
    fn hindrance(&self) -> Hindrance {
        let mut root = self.connect("root", None, "bench");
        root.query_drop("SET innodb_lock_wait_timeout = 1000").unwrap();
        root.query_drop("BEGIN").unwrap();
        // A deadlock with the load may cost this transaction its locks.
        while root.query_drop("UPDATE sbtest1 SET pad = pad").is_err() {
            root.query_drop("BEGIN").unwrap();
        }
        Hindrance(Some(Box::new(move || drop(root))))
    }
}
