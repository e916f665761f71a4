//! `http:`: an nginx that the test starts.

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

/// The same server with TLS, by HTTP/2.
pub(crate) struct Secured(Nginx);

pub(crate) fn start_secured() -> Option<Secured> {
    Nginx::start_secured().map(Secured)
}

impl Subject for Secured {
    fn settings(&self) -> LoadSettings {
        let http = HttpSettings { ca: Some(self.0.certificate()), ..HttpSettings::plain() };
        LoadSettings { http, ..support::settings(self.0.secure_url("localhost", "/page")) }
    }

    fn served(&self) -> Option<u64> {
        None
    }

    fn freeze(&self) -> bool {
        self.0.freeze()
    }

    fn thaw(&self) {
        self.0.thaw();
    }

    fn can_crash(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        Nginx::restart(&mut self.0);
    }

    fn wrong_answers(&self) -> Option<LoadSettings> {
        let requests = self.0.wrong_answers()?.http.requests;
        let settings = self.settings();
        let http = HttpSettings { requests, ..settings.http.clone() };
        Some(LoadSettings { http, verify: true, ..settings })
    }
}

impl Subject for Nginx {
    fn settings(&self) -> LoadSettings {
        support::settings(self.url("/page"))
    }

    /// The server counts the initial check as well; `tests/web.rs` reads its log.
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
