//! `memcached:`: a memcached of the test's own, filled beforehand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bakeoff_load as load;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::load::{LoadSettings, PreparePolicy, Rate};
use record::requests::KvSettings;

use crate::subject::Subject;
use crate::support;
use crate::support::cache::Cache;

pub(crate) struct Memcached(Cache);

pub(crate) fn start() -> Option<Memcached> {
    let memcached = Memcached(Cache::memcached(64)?);
    let filled = LoadSettings { prepare: PreparePolicy::Auto, ..memcached.settings() };
    load::prepare(&filled, &load::Stop::new(), &mut |_| {}).unwrap();
    Some(memcached)
}

/// A light load on a cache that is there, which does nothing to it beforehand.
pub(crate) fn light(target: &str) -> LoadSettings {
    LoadSettings {
        kv: KvSettings { keys: 200, ..KvSettings::usual() },
        verify: true,
        prepare: PreparePolicy::Never,
        ..support::settings(target)
    }
}

/// Of another seed nothing that is in the cache is right.
pub(crate) fn foreign(settings: LoadSettings) -> LoadSettings {
    let time = Duration::from_mins(10);
    LoadSettings { seed: 99, rate: Rate::Max, events_max: Some(100), time, ..settings }
}

impl Subject for Memcached {
    fn settings(&self) -> LoadSettings {
        light(&format!("memcached://127.0.0.1:{}", self.0.port))
    }

    fn served(&self) -> Option<u64> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.0.port)).unwrap());
        stream.get_mut().write_all(b"stats\r\n").unwrap();
        let (mut served, mut line) = (0, String::new());
        while line.trim_end() != "END" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            for counter in ["STAT cmd_get ", "STAT cmd_set "] {
                served += line.strip_prefix(counter).map_or(0, |n| n.trim_end().parse().unwrap());
            }
        }
        Some(served)
    }

    fn freeze(&self) -> bool {
        kill(Pid::from_raw(self.0.pid()), Signal::SIGSTOP).is_ok()
    }

    fn thaw(&self) {
        kill(Pid::from_raw(self.0.pid()), Signal::SIGCONT).unwrap();
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.restart();
        self.0.wait_until_ready();
    }

    fn wrong_answers(&self) -> Option<LoadSettings> {
        // After the crash it is empty.
        let filled = LoadSettings { prepare: PreparePolicy::Auto, ..self.settings() };
        load::prepare(&filled, &load::Stop::new(), &mut |_| {}).unwrap();
        Some(foreign(self.settings()))
    }
}
