//! Profiles from a seed.

use record::profile::{
    Profile, ProfileCost, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, RunProfile, ThreadState,
};
use record::resources::UsedBy;

use super::Dice;

/// One profile of each kind, or of one, or none.
pub(crate) fn profiles(dice: &mut Dice) -> Vec<RunProfile> {
    let one = |kind: &ProfileKind| (dice.below(4) > 0).then(|| profile(dice, *kind));
    ProfileKind::ALL.iter().filter_map(one).collect()
}

/// A profile with stacks of any text.
pub(crate) fn profile(dice: &mut Dice, kind: ProfileKind) -> RunProfile {
    let stack = |d: &mut Dice| ProfileStack {
        comm: d.text(),
        state: d.one_of(ThreadState::ALL),
        frames: d.some(5, Dice::text),
        count: d.next() >> 20,
        ns: d.next() >> 20,
    };
    let profile = Profile {
        kind,
        only: dice.maybe(|d| ProfileFilter {
            pid: d.option(Dice::small),
            comm: d.option(Dice::text),
            cgroup: d.option(Dice::text),
        }),
        elapsed_ns: dice.next(),
        cpus: 2,
        period_ns: dice.maybe(Dice::next),
        idle_samples: dice.maybe(Dice::next),
        stacks: dice.some(30, stack),
        still_off: dice.next(),
        doubts: ProfileDoubts { unnamed_ns: dice.next(), ended_ns: dice.next(), ..ProfileDoubts::default() },
        notes: dice.some(3, Dice::text),
        lost: dice.some(3, |d| (d.text(), d.next())).into_iter().collect(),
        cost: dice.maybe(|d| ProfileCost {
            ns_per_event: d.real(),
            events: d.next(),
            kernel_s: d.real(),
            reader_s: d.real(),
        }),
    };
    RunProfile { of: dice.one_of(UsedBy::ALL), profile, summed_stacks: dice.next() }
}
