//! Any subject, with many connections on each of its threads.

use record::load::LoadSettings;

use crate::subject::{Hindrance, Subject};

pub(crate) struct Loops<S>(pub(crate) S);

fn looped(settings: LoadSettings) -> LoadSettings {
    LoadSettings { threads: 2, connections: Some(11), ..settings }
}

impl<S: Subject> Subject for Loops<S> {
    fn settings(&self) -> LoadSettings {
        looped(self.0.settings())
    }

    fn served(&self) -> Option<u64> {
        self.0.served()
    }

    fn freeze(&self) -> bool {
        self.0.freeze()
    }

    fn thaw(&self) {
        self.0.thaw();
    }

    fn can_crash(&self) -> bool {
        self.0.can_crash()
    }

    fn crash(&mut self) {
        self.0.crash();
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn hindered(&self) -> Option<LoadSettings> {
        self.0.hindered().map(looped)
    }

    fn hindrance(&self) -> Hindrance {
        self.0.hindrance()
    }

    fn wrong_answers(&self) -> Option<LoadSettings> {
        self.0.wrong_answers().map(looped)
    }
}
