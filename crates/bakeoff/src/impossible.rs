//! Panics over impossible input, such as numbers that overflow or parts that contradict each other. Such a
//! panic means a damaged file, reported on one line, not a crash of the program.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use crate::exit::Exit;

static WHERE: Mutex<Option<String>> = Mutex::new(None);

/// Result of `read`; if it panics, an error with the panic's message and [`Exit::Bad`].
pub(crate) fn as_damage<T>(read: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::set_hook(Box::new(|about| {
        let place = about.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        let what = about.payload_as_str().unwrap_or("no reason given");
        let mut known = WHERE.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| format!("{what}{place}"));
    }));
    // Partial results are dropped: nothing uses them after a panic.
    panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let what = WHERE.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        Err(Exit::Bad.with(format!(
            "impossible input: {what}; a file is damaged or forged (check with `bakeoff runs verify`), or \
             this is a bug in bakeoff"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_where() {
        let before = panic::take_hook();
        let error = as_damage::<()>(|| panic!("attempt to add with overflow")).unwrap_err();
        panic::set_hook(before);
        assert_eq!(Exit::of(&error), Exit::Bad);
        assert!(
            error.to_string().contains("attempt to add with overflow (crates/bakeoff/src/impossible.rs:"),
            "{error}"
        );
    }
}
