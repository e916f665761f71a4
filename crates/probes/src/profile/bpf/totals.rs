//! Sums of a profile so far, in bounded memory.
//!
//! Another user's program chooses the names of its functions, up to 4 KiB each, and its stacks.

use std::collections::{BTreeMap, HashMap};

use record::profile::{ProfileDoubts, ProfileStack, ThreadState};

use super::names::NamedStack;
use crate::program;

/// Maximum number of stacks in a profile.
const STACKS_MAX: usize = 65_536;
/// Memory for the stacks with their names: room for some 40,000 stacks of 40 functions.
const STACKS_BYTES_MAX: usize = 128 << 20;

/// Sums so far. Beyond the limits, time is stored without its stack.
#[derive(Debug, Default)]
pub(super) struct Totals {
    stacks: HashMap<(String, ThreadState, Vec<String>), (u64, u64)>,
    /// Memory that the stacks take.
    bytes: usize,
    pub(super) doubts: ProfileDoubts,
    pub(super) idle_samples: u64,
    pub(super) still_off: u64,
    pub(super) lost: BTreeMap<String, u64>,
}

impl Totals {
    /// Adds `count` samples or waits, of together `ns`.
    pub(super) fn add(&mut self, named: NamedStack, state: ThreadState, count: u64, ns: u64) {
        if named.is_idle {
            self.idle_samples += count;
            return;
        }
        for (is_so, sum_ns) in [
            (named.is_unnamed, &mut self.doubts.unnamed_ns),
            (named.has_ended, &mut self.doubts.ended_ns),
            (named.lacks_callers, &mut self.doubts.without_callers_ns),
            (named.is_truncated, &mut self.doubts.truncated_ns),
            (named.lacks_stack, &mut self.doubts.without_stack_ns),
        ] {
            *sum_ns += if is_so { ns } else { 0 };
        }
        let mut key = (named.comm, state, named.frames);
        if !self.stacks.contains_key(&key) {
            let bytes = bytes_of(&key.0, &key.2);
            if self.stacks.len() >= STACKS_MAX || self.bytes + bytes > STACKS_BYTES_MAX {
                program::count_in(&mut self.lost, "no-room-for-stack", count);
                key.2 = vec!["[one of too many stacks]".to_owned()];
            } else {
                self.bytes += bytes;
            }
        }
        let (of_stack, ns_of_stack) = self.stacks.entry(key).or_default();
        *of_stack += count;
        *ns_of_stack += ns;
    }

    /// Most time first.
    pub(super) fn stacks(&mut self) -> Vec<ProfileStack> {
        let one = |((comm, state, frames), (count, ns))| ProfileStack { comm, state, frames, count, ns };
        let mut stacks: Vec<ProfileStack> = std::mem::take(&mut self.stacks).into_iter().map(one).collect();
        stacks.sort_by(|a, b| {
            b.ns.cmp(&a.ns).then_with(|| (&a.comm, &a.frames, a.state).cmp(&(&b.comm, &b.frames, b.state)))
        });
        stacks
    }
}

fn bytes_of(comm: &str, frames: &[String]) -> usize {
    let names: usize = frames.iter().map(String::len).sum();
    size_of::<ProfileStack>() + comm.len() + size_of_val(frames) + names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_with_names_of_any_length_take_bounded_memory_and_no_time_is_lost() {
        let mut totals = Totals::default();
        // 127 functions with names of 4 KiB: half a mebibyte a stack, were there no limit 32 GiB.
        let stack = |number: usize| NamedStack {
            comm: "app".to_owned(),
            frames: (0..127).map(|depth| format!("{number}-{depth}{}", "x".repeat(4_000))).collect(),
            ..NamedStack::default()
        };
        let shared = stack(0);
        for number in 0..600 {
            totals.add(stack(number), ThreadState::Running, 2, 20);
        }
        // Those that are known count on.
        totals.add(shared.clone(), ThreadState::Running, 1, 1_000);
        let lost = totals.lost["no-room-for-stack"];
        let stacks = totals.stacks();
        let bytes: usize = stacks.iter().map(|s| bytes_of(&s.comm, &s.frames)).sum();
        assert!(bytes <= STACKS_BYTES_MAX + 1_000 && bytes > STACKS_BYTES_MAX / 2, "{bytes}");
        assert_eq!(
            (&stacks[0].frames, stacks[0].count),
            (&vec!["[one of too many stacks]".to_owned()], lost)
        );
        assert_eq!((&stacks[1].frames, stacks[1].count), (&shared.frames, 3));
        assert_eq!(stacks.iter().map(|s| s.ns).sum::<u64>(), 600 * 20 + 1_000);
        assert_eq!(lost, 2 * (600 - (stacks.len() as u64 - 1)));
    }
}
