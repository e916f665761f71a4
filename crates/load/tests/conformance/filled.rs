//! Tests common to caches: a separate cache, filled beforehand, and empty after a crash.

use std::time::Duration;

use bakeoff_load as load;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::load::{LoadSettings, Loop, PreparePolicy};
use record::requests::KvSettings;

use crate::subject::Subject;
use crate::support;
use crate::support::cache::Cache;

/// A cache that holds the values that events read.
pub(crate) struct Filled {
    cache: Cache,
    scheme: &'static str,
    /// Gets and sets that the server behind a port has done, by its own account.
    served: fn(u16) -> u64,
}

impl Filled {
    pub(crate) fn start(cache: Cache, scheme: &'static str, served: fn(u16) -> u64) -> Self {
        let filled = Self { cache, scheme, served };
        filled.fill();
        filled
    }

    fn fill(&self) {
        let settings = LoadSettings { prepare: PreparePolicy::Auto, ..self.settings() };
        load::prepare(&settings, &load::Stop::new(), &mut |_| {}).unwrap();
    }
}

impl Subject for Filled {
    /// A light load, which does not prepare the cache beforehand.
    fn settings(&self) -> LoadSettings {
        LoadSettings {
            kv: KvSettings { keys: 200, ..KvSettings::usual() },
            verify: true,
            prepare: PreparePolicy::Never,
            ..support::settings(format!("{}://127.0.0.1:{}", self.scheme, self.cache.port))
        }
    }

    fn served(&self) -> Option<u64> {
        Some((self.served)(self.cache.port))
    }

    fn freeze(&self) -> bool {
        kill(Pid::from_raw(self.cache.pid()), Signal::SIGSTOP).is_ok()
    }

    fn thaw(&self) {
        kill(Pid::from_raw(self.cache.pid()), Signal::SIGCONT).unwrap();
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        self.cache.kill();
    }

    fn restart(&mut self) {
        self.cache.restart();
        self.cache.wait_until_ready();
    }

    /// With another seed every value in the cache is wrong.
    fn wrong_answers(&self) -> Option<LoadSettings> {
        self.fill();
        let time = Duration::from_mins(10);
        Some(LoadSettings { seed: 99, pace: Loop::CLOSED, events_max: Some(100), time, ..self.settings() })
    }
}
