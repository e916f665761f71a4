//! Words that the vocabulary holds as constants and files as text.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Returns a static copy of `text`.
///
/// For names from a small set, such as those of checks: each distinct text stays in memory for good.
pub(crate) fn lasting(text: &str) -> &'static str {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(text) {
        return found;
    }
    let made: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(made);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_copy() {
        assert!(std::ptr::eq(lasting("achieved-rate"), lasting(&String::from("achieved-rate"))));
    }
}
