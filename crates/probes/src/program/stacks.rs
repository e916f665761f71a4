//! Stacks by the hash under which the kernel's side writes them.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags};
use record::missing::{Maybe, Missing};

use super::draining::take_if_half_full;

/// Stacks that the programs write under a hash of their frames.
///
/// The kernel's side runs out of room before pending waits have ended; the stacks that they will need are
/// stored here.
#[derive(Debug)]
pub(crate) struct Stacks<T> {
    kept: StackCache<T>,
    of_bytes: fn(&[u8]) -> T,
    forgotten: u64,
}

impl<T: Clone> Stacks<T> {
    /// - `most`: number of stacks stored outside of the kernel, at most twice.
    /// - `of_bytes`: reads a value of the map.
    pub(crate) fn new(most: usize, of_bytes: fn(&[u8]) -> T) -> Self {
        Self { kept: StackCache::new(most), of_bytes, forgotten: 0 }
    }

    /// # Errors
    ///
    /// Missing if there was no room for it, here or in the kernel.
    pub(crate) fn get(&mut self, map: &impl MapCore, name: u64) -> Maybe<T> {
        if let Some(known) = self.kept.get(name) {
            return Ok(known);
        }
        let found = map.lookup(&name.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let found = found.ok_or_else(|| Missing::because("there was no room for its stack"))?;
        let stack = (self.of_bytes)(&found);
        self.kept.insert(name, stack.clone());
        Ok(stack)
    }

    /// Variant of [`Self::get`] for `count` waits, which count as without a stack if it was forgotten here.
    /// If the kernel's side had no room for it, that side has counted them.
    ///
    /// # Errors
    ///
    /// Same as [`Stacks::get`].
    pub(crate) fn of_waits(&mut self, map: &impl MapCore, name: u64, count: u64) -> Maybe<T> {
        let stack = self.get(map, name);
        if stack.is_err() && name != 0 {
            self.forgotten += count;
        }
        stack
    }

    /// Makes room before the kernel's side runs out of it: stacks that are still needed are written again.
    pub(crate) fn make_room(&mut self, map: &impl MapCore) {
        for (name, stack) in take_if_half_full(map) {
            let name = u64::from_ne_bytes(name.try_into().expect("a name of eight bytes"));
            self.kept.insert(name, (self.of_bytes)(&stack));
        }
    }

    /// Number of waits since the last call for which the stack had been forgotten.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }
}

/// Stacks that were taken out of a map to make room in it, by their keys there; the least recently used are
/// dropped first.
#[derive(Debug)]
struct StackCache<T> {
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
    /// Maximum number of young entries; the old ones are at most as many.
    most: usize,
}

impl<T: Clone> StackCache<T> {
    /// An empty cache of at most twice `most` entries.
    fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most: most.max(1) }
    }

    fn get(&mut self, key: u64) -> Option<T> {
        if let Some(known) = self.young.get(&key) {
            return Some(known.clone());
        }
        let known = self.old.remove(&key)?;
        self.insert(key, known.clone());
        Some(known)
    }

    fn insert(&mut self, key: u64, value: T) {
        if self.young.len() >= self.most && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_no_more_than_twice_the_most_is_kept() {
        let mut kept = StackCache::new(2);
        for key in 0..100 {
            kept.insert(key, key);
            assert_eq!(kept.get(0), Some(0), "asked for after each");
            assert!(kept.young.len() + kept.old.len() <= 4);
        }
        assert_eq!(kept.get(1), None);
    }
}
