//! `http:`: an nginx of the test's own.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::load::LoadSettings;
use record::requests::HttpSettings;

use crate::subject::Subject;
use crate::support;
use crate::support::web::Nginx;

pub(crate) fn start() -> Option<Nginx> {
    Nginx::start()
}

impl Subject for Nginx {
    fn settings(&self) -> LoadSettings {
        support::settings(self.url("/page"))
    }

    /// It counts the look at it as well; `tests/web.rs` goes by its log.
    fn served(&self) -> Option<u64> {
        None
    }

    fn freeze(&self) -> bool {
        kill(Pid::from_raw(self.pid()), Signal::SIGSTOP).is_ok()
    }

    fn thaw(&self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGCONT).unwrap();
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        Nginx::restart(self);
    }

    fn wrong_answers(&self) -> Option<LoadSettings> {
        let file = self.folder.path().join("wrong.toml");
        std::fs::write(&file, "[[request]]\npath = '/page'\nanswer = 'another'\n").unwrap();
        let http = HttpSettings { requests: Some(file.display().to_string()), ..HttpSettings::plain() };
        Some(LoadSettings { http, verify: true, ..self.settings() })
    }
}
