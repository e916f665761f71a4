//! `null:` has no server.

use record::load::LoadSettings;

use crate::subject::Subject;
use crate::support;

struct Null;

#[expect(clippy::unnecessary_wraps, reason = "as those whose other side may not be installed")]
pub(crate) fn start() -> Option<impl Subject> {
    Some(Null)
}

impl Subject for Null {
    fn settings(&self) -> LoadSettings {
        support::settings("null:")
    }

    fn served(&self) -> Option<u64> {
        None
    }
}
