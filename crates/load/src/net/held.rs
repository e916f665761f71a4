//! Limit on the memory of all connections for incomplete answers, and for replies that the server does not
//! read.
//!
//! The limit of an answer's length (`--answer-max`) applies to one connection. A server that starts such an
//! answer on each of a hundred connections and does not finish it would fill the memory a hundred times as
//! fast.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::connection::{Failure, FailureClass};

/// Size up to which a buffer is not counted: few answers are longer.
pub(crate) const FREE_BYTES: usize = 1 << 20;
/// Limit of all counted buffers together.
const TOGETHER_BYTES_MAX: usize = 160 << 20;

/// Limit of all counted buffers together up to which one that is empty stays for the next long answer.
const KEPT_BYTES_MAX: usize = TOGETHER_BYTES_MAX / 4;

static TOGETHER_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Memory that a load of this process needs in any case.
static NEEDED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Raises the limit so this many bytes fit: the longest answer, or all requests in flight.
pub(crate) fn allow(bytes: usize) {
    // A growing buffer may have twice the size of its content.
    NEEDED_BYTES.fetch_max(bytes.saturating_mul(2), Ordering::Relaxed);
    #[cfg(target_env = "gnu")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        let threshold = i32::try_from(FREE_BYTES).expect("a small constant");
        // After glibc has freed a large block, it serves later blocks of that size (up to 32 MiB) from each
        // thread's heap. A fixed threshold returns them to the system.
        ONCE.call_once(|| {
            // SAFETY: it sets a number in the allocator, under the allocator's own lock.
            let _ = unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, threshold) };
        });
    }
}

/// The share of one buffer.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    bytes: usize,
}

impl HeldBytes {
    /// Sets the size of the buffer.
    ///
    /// # Errors
    ///
    /// All buffers together exceed the limit.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = if bytes <= FREE_BYTES { 0 } else { bytes };
        if bytes == self.bytes {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        // Updates of other threads may come in between: the limit is approximate.
        TOGETHER_BYTES.fetch_sub(before, Ordering::Relaxed);
        let together = TOGETHER_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let most = TOGETHER_BYTES_MAX.max(NEEDED_BYTES.load(Ordering::Relaxed));
        if bytes > before && together > most {
            let mib = most >> 20;
            let text = format!(
                "the connections together buffer more than {mib} MiB of incomplete answers (--answer-max)"
            );
            return Err(Failure::new(FailureClass::Connection, text));
        }
        Ok(())
    }

    /// Lowers the recorded size of the buffer to at most `bytes`.
    pub(crate) fn lower(&mut self, bytes: usize) {
        if bytes < self.bytes {
            // A smaller size is always allowed.
            let _ = self.set(bytes);
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        TOGETHER_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Whether an empty buffer that is counted may stay for the next long answer.
pub(crate) fn may_stay() -> bool {
    TOGETHER_BYTES.load(Ordering::Relaxed) <= KEPT_BYTES_MAX
}

/// Frees the memory of a buffer that was large once.
pub(crate) fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > FREE_BYTES && buffer.len() <= FREE_BYTES {
        buffer.shrink_to(FREE_BYTES);
    }
}

/// Held by each test that fills the limit or needs it free.
#[cfg(test)]
pub(super) static ONE_TEST: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_so_much_together_and_give_it_back() {
        let _one = ONE_TEST.lock();
        let mut all: Vec<HeldBytes> = Vec::new();
        let refused = loop {
            let mut one = HeldBytes::default();
            match one.set(40 << 20) {
                Ok(()) => all.push(one),
                Err(failure) => break failure,
            }
        };
        // Other tests of this process may hold memory too.
        assert!((1..=4).contains(&all.len()), "{}", all.len());
        assert_eq!(refused.class, FailureClass::Connection);
        assert!(refused.text.contains("160 MiB"), "{}", refused.text);
        let mut small = HeldBytes::default();
        assert!(small.set(FREE_BYTES).is_ok(), "what is short is no matter");
        all[0].lower(10);
        assert!(small.set(20 << 20).is_ok());
    }
}
