//! Guard for foreign-format readers that panic: their panic means a damaged file, and must not end the
//! program.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::schema::Wrong;

thread_local! {
    /// Whether this thread is inside such a reader.
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`; a panic becomes damage, and prints nothing.
pub(crate) fn as_damage<T>(read: impl FnOnce() -> Result<T, Wrong>) -> Result<T, Wrong> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !READING.get() {
                usual(about);
            }
        }));
    });
    READING.set(true);
    // A panic drops the closure with its partial results, so nothing inconsistent remains in use.
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    READING.set(false);
    read.unwrap_or_else(|_| Err(Wrong("it violates its format: its reader gave up".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_damage_and_outside_it_stays_one() {
        assert_eq!(as_damage(|| Ok(7)), Ok(7));
        assert!(as_damage::<u8>(|| panic!("size <= src.len()")).unwrap_err().0.contains("gave up"));
        assert!(panic::catch_unwind(|| panic!("ours")).is_err());
    }
}
