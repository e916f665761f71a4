//! Sums of stacks over several profiles, in bounded memory.

use std::collections::{BTreeMap, HashMap};

use record::profile::{
    OTHER_STACKS, Profile, ProfileStack, RUN_NAMES_BYTES_MAX, RUN_STACKS_MAX, ThreadState,
};

/// Stacks, and bytes of their names, that are held at most, in multiples of those that remain.
const HELD: usize = 4;

/// Sums of stacks.
#[derive(Debug, Default)]
pub struct StackSums {
    sums: HashMap<(String, ThreadState, Vec<String>), (u64, u64)>,
    name_bytes: usize,
}

impl StackSums {
    /// Adds the stacks of a profile.
    pub fn add(&mut self, profile: Profile) {
        for stack in profile.stacks {
            self.put(stack);
        }
        if self.sums.len() > HELD * RUN_STACKS_MAX || self.name_bytes > HELD * RUN_NAMES_BYTES_MAX {
            for stack in std::mem::take(self).into_stacks() {
                self.put(stack);
            }
        }
    }

    fn put(&mut self, stack: ProfileStack) {
        let ProfileStack { comm, state, frames, count, ns } = stack;
        let bytes = name_bytes(&comm, &frames);
        let sum = self.sums.entry((comm, state, frames)).or_insert_with(|| {
            self.name_bytes += bytes;
            (0, 0)
        });
        *sum = (sum.0.saturating_add(count), sum.1.saturating_add(ns));
    }

    /// The stacks, most time first. Those beyond [`RUN_STACKS_MAX`] and [`RUN_NAMES_BYTES_MAX`] are summed by
    /// state, as [`OTHER_STACKS`].
    pub fn into_stacks(self) -> Vec<ProfileStack> {
        let one = |((comm, state, frames), (count, ns))| ProfileStack { comm, state, frames, count, ns };
        let mut stacks: Vec<ProfileStack> = self.sums.into_iter().map(one).collect();
        stacks.sort_by(|x, y| {
            y.ns.cmp(&x.ns).then_with(|| (&x.comm, &x.frames, x.state).cmp(&(&y.comm, &y.frames, y.state)))
        });
        let mut bytes = 0;
        let fits = |stack: &&ProfileStack| {
            bytes += name_bytes(&stack.comm, &stack.frames);
            bytes <= RUN_NAMES_BYTES_MAX
        };
        let rest = stacks.split_off(stacks.iter().take(RUN_STACKS_MAX).take_while(fits).count());
        let mut others: BTreeMap<ThreadState, (u64, u64)> = BTreeMap::new();
        for stack in rest {
            let sum = others.entry(stack.state).or_default();
            *sum = (sum.0.saturating_add(stack.count), sum.1.saturating_add(stack.ns));
        }
        stacks.extend(others.into_iter().map(|(state, sum)| {
            let [comm, frame] = [OTHER_STACKS; 2].map(str::to_owned);
            one(((comm, state, vec![frame]), sum))
        }));
        stacks
    }
}

fn name_bytes(comm: &str, frames: &[String]) -> usize {
    comm.len() + frames.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;
    use record::profile::{ProfileDoubts, ProfileKind};

    use super::*;

    fn profile(stacks: Vec<ProfileStack>) -> Profile {
        Profile {
            kind: ProfileKind::OnCpu,
            only: Err(Missing::because("not recorded")),
            elapsed_ns: 1,
            cpus: 1,
            period_ns: Ok(1),
            idle_samples: Ok(0),
            stacks,
            still_off: 0,
            doubts: ProfileDoubts::default(),
            notes: Vec::new(),
            lost: BTreeMap::new(),
            cost: Err(Missing::because("not measured")),
        }
    }

    fn stack(name: &str, ns: u64) -> ProfileStack {
        let frames = vec!["main".to_owned(), name.to_owned()];
        ProfileStack { comm: "app".to_owned(), state: ThreadState::Running, frames, count: 1, ns }
    }

    #[test]
    fn equal_stacks_of_several_profiles_are_one_sum() {
        let mut sums = StackSums::default();
        sums.add(profile(vec![stack("a", 5), stack("b", 7)]));
        sums.add(profile(vec![stack("a", 4)]));
        let found: Vec<(String, u64, u64)> =
            sums.into_stacks().into_iter().map(|s| (s.frames[1].clone(), s.count, s.ns)).collect();
        assert_eq!(found, [("a".to_owned(), 2, 9), ("b".to_owned(), 1, 7)]);
        assert_eq!(StackSums::default().into_stacks(), []);
    }

    #[test]
    fn stacks_without_number_take_bounded_memory_and_no_time_is_lost() {
        let mut sums = StackSums::default();
        for run in 0..9_u64 {
            // Most stacks occur in one run only.
            let names = (0..RUN_STACKS_MAX as u64).map(|n| stack(&format!("{run}-{n}"), 10 + n));
            sums.add(profile(names.chain([stack("hot", 1_000_000)]).collect()));
            assert!(sums.sums.len() <= HELD * RUN_STACKS_MAX, "{}", sums.sums.len());
        }
        let stacks = sums.into_stacks();
        assert!(stacks.len() <= RUN_STACKS_MAX + ThreadState::ALL.len(), "{}", stacks.len());
        let of_one = (0..RUN_STACKS_MAX as u64).map(|n| 10 + n).sum::<u64>() + 1_000_000;
        assert_eq!(stacks.iter().map(|s| s.ns).sum::<u64>(), 9 * of_one);
        let hot: Vec<u64> =
            stacks.iter().filter(|s| s.frames.iter().any(|frame| frame == "hot")).map(|s| s.ns).collect();
        assert_eq!(hot, [9_000_000]);
    }

    #[test]
    fn few_stacks_of_long_names_take_bounded_memory() {
        let mut sums = StackSums::default();
        for run in 0..40_u64 {
            let long = format!("{run} {}", "x".repeat(RUN_NAMES_BYTES_MAX / 2));
            sums.add(profile(vec![stack(&long, 1), stack("hot", 7)]));
            let bytes: usize = sums.sums.keys().map(|(comm, _, frames)| name_bytes(comm, frames)).sum();
            assert!(bytes <= HELD * RUN_NAMES_BYTES_MAX, "{run}: {bytes}");
        }
        let stacks = sums.into_stacks();
        assert_eq!(stacks.iter().map(|s| s.ns).sum::<u64>(), 40 * 8);
        assert!(stacks[0].frames.iter().any(|frame| frame == "hot") && stacks.len() < 5, "{}", stacks.len());
    }
}
