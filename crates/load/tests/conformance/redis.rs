//! `redis:`: a Redis of the test's own, filled beforehand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use bakeoff_load as load;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::load::{LoadSettings, PreparePolicy};

use crate::memcached::{foreign, light};
use crate::subject::Subject;
use crate::support::cache::Cache;

pub(crate) struct Redis(Cache);

pub(crate) fn start() -> Option<Redis> {
    let redis = Redis(Cache::redis(&[])?);
    redis.fill();
    Some(redis)
}

impl Redis {
    fn fill(&self) {
        let filled = LoadSettings { prepare: PreparePolicy::Auto, ..self.settings() };
        load::prepare(&filled, &load::Stop::new(), &mut |_| {}).unwrap();
    }
}

impl Subject for Redis {
    fn settings(&self) -> LoadSettings {
        light(&format!("redis://127.0.0.1:{}", self.0.port))
    }

    fn served(&self) -> Option<u64> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.0.port)).unwrap());
        stream.get_mut().write_all(b"INFO commandstats\r\nPING\r\n").unwrap();
        let (mut served, mut line) = (0, String::new());
        while line.trim_end() != "+PONG" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            for counter in ["cmdstat_get:calls=", "cmdstat_set:calls="] {
                let calls = line.strip_prefix(counter).and_then(|rest| rest.split(',').next());
                served += calls.map_or(0, |n| n.parse().unwrap());
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
        self.fill();
        Some(foreign(self.settings()))
    }
}
