//! The verdicts of a bake-off with its profiles, which are read one after another: together they may take
//! gigabytes.

use analysis::Comparisons;
use analysis::functions::{Functions, TrialProfiles};
use analysis::stack_sums::StackSums;
use archive::Archive;
use record::bakeoff::Bakeoff;
use record::profile::{ProfileKind, ProfileStack};
use record::run::RunId;
use report::page::{FLAMES_MAX, Stacks};

/// The verdicts of a bake-off, and the functions behind them if its trials have profiles.
pub(crate) fn compare(archive: &Archive, bakeoff: &Bakeoff) -> anyhow::Result<Comparisons> {
    let mut comparisons = analysis::compare(bakeoff);
    let mut profiles = TrialProfiles::default();
    for (trial, run) in bakeoff.sealed() {
        match archive.profiles(run.header.id) {
            Ok(all) => {
                for taken in &all {
                    profiles.add(trial, run, taken);
                }
            }
            Err(error) if error.is_damage() => profiles.leave_out("its file is damaged"),
            Err(error) => return Err(error.into()),
        }
    }
    comparisons.add_profiles(bakeoff, &profiles);
    Ok(comparisons)
}

/// Stacks of the pairs that the page draws.
pub(crate) fn stacks(archive: &Archive, comparisons: &Comparisons) -> anyhow::Result<Vec<Stacks>> {
    let profiled = &comparisons.profiled;
    let of_pair = |pair: usize| -> anyhow::Result<Stacks> {
        let Functions { kind, sides, .. } = &profiled.pairs[pair];
        let [a, b] = [&sides[0].runs, &sides[1].runs].map(|runs| summed(archive, runs, *kind));
        Ok(Stacks { pair, sides: [a?, b?] })
    };
    profiled.most_different().into_iter().take(FLAMES_MAX).map(of_pair).collect()
}

fn summed(archive: &Archive, runs: &[RunId], kind: ProfileKind) -> anyhow::Result<Vec<ProfileStack>> {
    let mut sums = StackSums::default();
    for run in runs {
        let mut all = archive.profiles(*run)?.into_iter();
        if let Some(taken) = all.find(|taken| taken.profile.kind == kind) {
            sums.add(taken.profile);
        }
    }
    Ok(sums.into_stacks())
}
