//! Sums of an interval, taken out of the kernel consistently.

use std::time::Duration;
use std::{fmt, ptr, thread};

use libbpf_rs::{MapCore, MapFlags};
use nix::libc;
use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};

/// A row of a map: key and value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Sums in two maps: programs add to one while user space reads the other. They add to the first one while
/// `half` is even.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    half: u32,
}

impl Halves {
    /// Switches to the other map, and takes the contents of the one that was in use; also returns the time of
    /// the switch.
    ///
    /// - `word`: the programs' `half`, which only this writes.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return the sums.
    pub(crate) fn turn(&mut self, word: &mut u32, maps: [&impl MapCore; 2]) -> Maybe<(u64, Vec<Row>)> {
        let full = usize::try_from(self.half & 1).expect("0 or 1");
        self.half = self.half.wrapping_add(1);
        // SAFETY: an aligned word, borrowed for this call; the programs only read it.
        unsafe { ptr::write_volatile(word, self.half) };
        let until_ns = Monotonic.now_ns();
        wait_for_running();
        Ok((until_ns, take_all(maps[full])?))
    }
}

/// Returns when every program that now runs in the kernel has ended; programs that start meanwhile see
/// earlier writes.
pub(crate) fn wait_for_running() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: takes three numbers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result != 0 {
        // Kernels with CPUs that are free of ticks refuse; a program runs for microseconds.
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes every row out of a map that no program writes to any more.
///
/// # Errors
///
/// Missing if the kernel does not return them.
pub(crate) fn take_all(map: &impl MapCore) -> Maybe<Vec<Row>> {
    let refused = |e: &dyn fmt::Display| Missing::because(format!("cannot read the sums: {e}"));
    // As many at once as there may be: a batch too small for one bucket of the map would fail.
    let batch = map.lookup_and_delete_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY);
    let mut rows: Vec<Row> = batch.map_err(|e| refused(&e))?.collect();
    // The library does not report that a batch failed; the rest is taken one by one.
    for key in map.keys().collect::<Vec<_>>() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(|e| refused(&e))? {
            map.delete(&key).map_err(|e| refused(&e))?;
            rows.push((key, value));
        }
    }
    Ok(rows)
}

/// Empties a map that is half full, before programs run out of room; entries that they still need they write
/// again.
pub(crate) fn empty_if_half_full(map: &impl MapCore) {
    let keys: Vec<Vec<u8>> = map.keys().collect();
    if keys.len() > map.max_entries() as usize / 2 {
        for key in keys {
            // Entries that are left are deleted the next time.
            let _ = map.delete(&key);
        }
    }
}

/// Variant of [`empty_if_half_full`] that returns the contents.
///
/// Entries that cannot be read stay in the map.
pub(crate) fn take_if_half_full(map: &impl MapCore) -> Vec<Row> {
    if map.keys().count() > map.max_entries() as usize / 2 {
        take_all(map).unwrap_or_default()
    } else {
        Vec::new()
    }
}
