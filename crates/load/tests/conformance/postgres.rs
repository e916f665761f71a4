//! `postgres:`: a PostgreSQL that the test starts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use record::load::{LoadSettings, PreparePolicy, Workload};

use crate::subject::{Hindrance, Subject};
use crate::support;
use crate::support::postgres::Postgres;

pub(crate) fn start() -> Option<impl Subject> {
    Postgres::start()
}

impl Subject for Postgres {
    fn settings(&self) -> LoadSettings {
        LoadSettings { workload: Workload::OltpUpdateNonIndex, ..support::settings(self.url()) }
    }

    fn served(&self) -> Option<u64> {
        // A session reports its counts when it ends.
        while self.ask("postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") != "0" {
            thread::sleep(Duration::from_millis(20));
        }
        let updates = self.ask("bench", "SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables");
        Some(updates.parse().unwrap())
    }

    fn freeze(&self) -> bool {
        Postgres::freeze(self);
        true
    }

    fn thaw(&self) {
        Postgres::thaw(self);
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        Postgres::crash(self);
    }

    fn restart(&mut self) {
        Postgres::restart(self);
    }

    /// The server waits a while for a lock, and then gives up.
    fn hindered(&self) -> Option<LoadSettings> {
        Some(LoadSettings {
            workload: Workload::OltpUpdateNonIndex,
            prepare: PreparePolicy::Never,
            retries_max: 1_000_000,
            time: Duration::from_secs(4),
            ..support::settings(format!("{}?options=-c%20lock_timeout%3D200ms", self.url()))
        })
    }

    /// Another session locks the tables as long as it lives.
    fn hindrance(&self) -> Hindrance {
        let mut client = self.client("bench");
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(client.stdin.as_mut().unwrap(), "BEGIN; LOCK sbtest1, sbtest2; \\echo locked").unwrap();
        let mut answer = String::new();
        BufReader::new(client.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert_eq!(answer, "locked\n");
        Hindrance(Some(Box::new(move || {
            // At the end of its input it exits, which frees its locks.
            drop(client.stdin.take());
            client.wait().unwrap();
        })))
    }
}
