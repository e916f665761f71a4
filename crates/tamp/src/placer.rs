//! Assigns offsets in order to pieces that were compressed in any order.
//!
//! A piece's offset is known when all earlier pieces are compressed. A worker that is ahead does not wait: it
//! hands its piece over here and continues; the worker that closes the gap writes it.

use crate::buffer::{Buffer, Spare};
use crate::envelope::Envelope;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Error after another worker failed: no more offsets are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Consecutive compressed blocks of a file.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    /// Length of each block and of its content.
    pub(crate) blocks: Vec<(usize, usize)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Placer {
    state: Mutex<State>,
    passed: Condvar,
    /// Maximum number of pieces that wait here, which bounds memory.
    left_max: usize,
    spare: Spare,
}

#[derive(Debug)]
struct State {
    envelope: Envelope,
    /// Offset of the next piece, and its number.
    at: u64,
    next: u64,
    left: BTreeMap<u64, Packed>,
    stopped: bool,
}

impl Placer {
    /// Creates a placer that writes the first piece to `at`; up to `left_max` pieces may wait.
    pub(crate) fn new(envelope: Envelope, at: u64, left_max: usize) -> Self {
        let state = State { envelope, at, next: 0, left: BTreeMap::new(), stopped: false };
        Self { state: Mutex::new(state), passed: Condvar::new(), left_max, spare: Spare::default() }
    }

    /// Returns a buffer to compress into.
    pub(crate) fn buffer(&self) -> Buffer {
        self.spare.get()
    }

    /// Assigns an offset to piece `number`, or stores it; then calls `write` for all pieces that got an
    /// offset.
    ///
    /// # Errors
    ///
    /// [`Stopped`], or errors of `write`.
    pub(crate) fn put<E: From<Stopped>>(
        &self,
        number: u64,
        packed: Packed,
        mut write: impl FnMut(&Packed, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .passed
            .wait_while(state, |state| {
                state.next != number && state.left.len() >= self.left_max && !state.stopped
            })
            .unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Err(Stopped.into());
        }
        state.left.insert(number, packed);
        let placed = Self::place(state);
        if !placed.is_empty() {
            self.passed.notify_all();
        }
        for (packed, at) in placed {
            write(&packed, at)?;
            self.spare.put(packed.bytes);
        }
        Ok(())
    }

    /// Removes every piece with a known offset.
    fn place(mut state: MutexGuard<'_, State>) -> Vec<(Packed, u64)> {
        let mut placed = Vec::new();
        loop {
            let next = state.next;
            let Some(packed) = state.left.remove(&next) else { return placed };
            let at = state.at;
            let mut rest = &packed.bytes[..];
            for &(bytes, content_bytes) in &packed.blocks {
                let (block, behind) = rest.split_at(bytes);
                state.envelope.add(block, content_bytes);
                rest = behind;
            }
            state.at += packed.bytes.len() as u64;
            state.next += 1;
            placed.push((packed, at));
        }
    }

    /// Stops assigning offsets and wakes all waiting workers.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.passed.notify_all();
    }

    /// Returns the container and the offset of its end.
    pub(crate) fn finish(self) -> (Envelope, u64) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(state.left.is_empty(), "every piece got its place");
        (state.envelope, state.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level, Options};

    fn packed(bytes: usize) -> Packed {
        let mut buffer = Buffer::default();
        buffer.fill(&vec![0; bytes]);
        Packed { bytes: buffer, blocks: vec![(bytes, 1)] }
    }

    #[test]
    fn pieces_that_come_in_any_order_are_written_in_a_row_by_whoever_closes_the_gap() {
        let placer = Placer::new(Envelope::new(&Options::zst(Level::USUAL)), 100, 2);
        let put = |number, bytes| {
            let mut written = Vec::new();
            placer
                .put(number, packed(bytes), |packed, at| {
                    written.push((packed.bytes.len(), at));
                    Ok::<(), Stopped>(())
                })
                .unwrap();
            written
        };
        assert_eq!(put(1, 20), []);
        assert_eq!(put(2, 30), []);
        assert_eq!(put(0, 10), [(10, 100), (20, 110), (30, 130)]);
        assert_eq!(put(3, 5), [(5, 160)]);
        assert_eq!(placer.finish().1, 165);
    }

    #[test]
    fn who_waits_for_room_goes_when_it_stops() {
        let placer = Placer::new(Envelope::new(&Options::zst(Level::USUAL)), 0, 0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| placer.put(1, packed(1), |_, _| Ok::<(), Stopped>(())));
            placer.stop();
            assert_eq!(waiting.join().unwrap(), Err(Stopped));
        });
    }
}
