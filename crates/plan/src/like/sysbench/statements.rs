//! Statements of a test of sysbench, where they differ from those of our workload.
//!
//! # Source
//!
//! `oltp_insert.lua` of sysbench 1.0.20; `tests/db/*.lua` of sysbench 0.5.

use super::target;
use crate::like::draft::{Draft, Given};
use crate::like::translation::RemarkKind;

/// Whether a test is in a folder of sysbench before 1.0.
pub(super) fn is_in_old_folder(test: &str) -> bool {
    let (folder, _) = test.rsplit_once('/').unwrap_or_default();
    folder.ends_with("tests/db") || folder.ends_with("oltp_legacy")
}

/// Writes whether statements are prepared. `oltp_insert` sends its statement as text, and so do the tests
/// before 1.0.
pub(super) fn put(given: &Given<'_>, draft: &mut Draft, workload: &str, is_old: bool) {
    let is_text = workload == "oltp-insert" || is_old;
    match given.value("db_ps_mode") {
        Some("disable") => draft.put("prepared", "no"),
        Some("auto") | None if is_text => draft.put("prepared", "no"),
        Some("auto") | None => {}
        Some(_) => given.remark(draft, RemarkKind::Missing, &["db_ps_mode"], "expected auto or disable"),
    }
    if workload == "oltp-insert" && target::driver(given) == "mysql" {
        let text =
            "sysbench inserts the id 0, for which MySQL takes the next one; bakeoff leaves the column out";
        draft.differs("id", text);
    }
    if workload == "oltp-point-select" && is_old {
        draft.differs("select", "tests before version 1.0 read the column pad or c; bakeoff reads c");
    }
}
