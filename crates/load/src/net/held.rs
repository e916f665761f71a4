//! What all connections together hold of answers that are not whole, and of replies that the server does not read.
//!
//! The longest answer that is accepted (`--answer-max`) is a limit for one connection. A server that has each of a hundred connections
//! wait for the end of such an answer would fill the memory a hundred times as fast.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::connection::{Failure, FailureClass};

/// Up to so much a buffer does not count: few answers are longer.
pub(crate) const FREE_BYTES: usize = 1 << 20;
/// What all buffers may have together.
const TOGETHER_BYTES_MAX: usize = 160 << 20;

static TOGETHER_BYTES: AtomicUsize = AtomicUsize::new(0);
/// What a load of this process needs in any case.
static NEEDED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// So much has room in any case: one answer of the greatest length, or all requests in flight.
pub(crate) fn allow(bytes: usize) {
    // A buffer that grows has up to twice what is in it.
    NEEDED_BYTES.fetch_max(bytes.saturating_mul(2), Ordering::Relaxed);
    #[cfg(target_env = "gnu")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        let threshold = i32::try_from(FREE_BYTES).expect("a small constant");
        // Once a large block was freed, glibc keeps the next ones of its size (up to 32 MiB) for each thread. What was held
        // once goes back to the system.
        ONCE.call_once(|| {
            // SAFETY: it sets a number of the allocator, which the allocator guards by itself.
            let _ = unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, threshold) };
        });
    }
}

/// The part of one buffer.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    bytes: usize,
}

impl HeldBytes {
    /// The buffer has so many bytes from now on.
    ///
    /// # Errors
    ///
    /// All together have too many.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = if bytes <= FREE_BYTES { 0 } else { bytes };
        if bytes == self.bytes {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        // Those of other threads may come between the two: it is a bound, not an account.
        TOGETHER_BYTES.fetch_sub(before, Ordering::Relaxed);
        let together = TOGETHER_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let most = TOGETHER_BYTES_MAX.max(NEEDED_BYTES.load(Ordering::Relaxed));
        if bytes > before && together > most {
            let mib = most >> 20;
            let text = format!(
                "the connections together hold more than {mib} MiB of unfinished answers (--answer-max)"
            );
            return Err(Failure::new(FailureClass::Connection, text));
        }
        Ok(())
    }

    /// The buffer has no more than so many bytes.
    pub(crate) fn lower(&mut self, bytes: usize) {
        if bytes < self.bytes {
            // What is less is allowed.
            let _ = self.set(bytes);
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        TOGETHER_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Gives back the room of a buffer that was needed once.
pub(crate) fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > FREE_BYTES && buffer.len() <= FREE_BYTES {
        buffer.shrink_to(FREE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_so_much_together_and_give_it_back() {
        let mut all: Vec<HeldBytes> = Vec::new();
        let refused = loop {
            let mut one = HeldBytes::default();
            match one.set(40 << 20) {
                Ok(()) => all.push(one),
                Err(failure) => break failure,
            }
        };
        // Other tests of this process may hold something too.
        assert!((1..=4).contains(&all.len()), "{}", all.len());
        assert_eq!(refused.class, FailureClass::Connection);
        assert!(refused.text.contains("160 MiB"), "{}", refused.text);
        let mut small = HeldBytes::default();
        assert!(small.set(FREE_BYTES).is_ok(), "what is short is no matter");
        all[0].lower(10);
        assert!(small.set(20 << 20).is_ok());
    }
}
