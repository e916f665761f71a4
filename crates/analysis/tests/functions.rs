//! The functions behind a difference, from profiles with a known truth.

mod sample;

use std::collections::BTreeMap;

use bakeoff_analysis::functions::{FunctionDifference, Functions, TrialProfiles};
use bakeoff_analysis::{Comparisons, Verdict, compare};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::bakeoff::{Bakeoff, TrialState};
use record::missing::Missing;
use record::profile::{
    OTHER_STACKS, Profile, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, RunProfile, ThreadState,
};
use record::resources::UsedBy;
use record::run::{Run, RunState};
use sample::{Recipe, normal};

const PERIOD_NS: f64 = 1_003_009.0;

/// Two configurations at one number of threads. `wal` does 1.84 times the events of `delete`.
fn bake(blocks: u32) -> Bakeoff {
    Recipe { blocks, with_trouble: false, threads: vec![1], ..Recipe::journal() }.bake()
}

/// Nanoseconds of an event in each function.
type Work = [(&'static str, f64)];

fn profile(samples: &[(&str, u64)]) -> RunProfile {
    let stack = |(name, count): &(&str, u64)| ProfileStack {
        comm: "server".to_owned(),
        state: ThreadState::Running,
        frames: vec!["main".to_owned(), (*name).to_owned()],
        count: *count,
        ns: count * 1_003_009,
    };
    let profile = Profile {
        kind: ProfileKind::OnCpu,
        only: Ok(ProfileFilter::default()),
        elapsed_ns: 10_000_000_000,
        cpus: 2,
        period_ns: Ok(1_003_009),
        idle_samples: Err(Missing::because("only some threads were watched")),
        stacks: samples.iter().filter(|(_, count)| *count > 0).map(stack).collect(),
        still_off: 0,
        doubts: ProfileDoubts::default(),
        notes: Vec::new(),
        lost: BTreeMap::new(),
        cost: Err(Missing::because("not measured")),
    };
    RunProfile { of: UsedBy::Server, profile, summed_stacks: 0 }
}

/// A profile of a trial: the time of all functions varies with the block and the trial, and the number of
/// samples of each as that of independent events.
fn drawn(run: &Run, work: &Work, slow: f64, chance: &mut ChaCha8Rng) -> RunProfile {
    let events = run.load.as_ref().expect("it is a load").achieved_per_s * 10.0;
    let trial = (0.01 * normal(chance)).exp();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples")]
    let mut samples = |(name, ns): &(&'static str, f64)| {
        let mean = ns * slow * trial * events / PERIOD_NS;
        (*name, (mean + mean.sqrt() * normal(chance)).round().max(0.0) as u64)
    };
    profile(&work.iter().map(&mut samples).collect::<Vec<_>>())
}

/// Compares `wal` with `delete`.
///
/// - `change`: applied to each profile; gets the block and whether it is that of `wal`.
fn compared(
    bakeoff: &Bakeoff,
    mut comparisons: Comparisons,
    (wal, delete): (&Work, &Work),
    seed: u64,
    change: &dyn Fn(u32, bool, &mut RunProfile) -> bool,
) -> Comparisons {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut profiles = TrialProfiles::default();
    for (trial, run) in bakeoff.sealed() {
        let is_wal = trial.levels["journal_mode"] == "wal";
        let slow = (0.2 * normal(&mut ChaCha8Rng::seed_from_u64(seed ^ u64::from(trial.block) << 40))).exp();
        let mut taken = drawn(run, if is_wal { wal } else { delete }, slow, &mut chance);
        if change(trial.block, is_wal, &mut taken) {
            profiles.add(trial, run, &taken);
        }
    }
    comparisons.add_profiles(bakeoff, &profiles);
    comparisons
}

fn only(comparisons: &Comparisons) -> &Functions {
    let [pair] = &comparisons.profiled.pairs[..] else { panic!("{:?}", comparisons.profiled) };
    assert_eq!((pair.a["journal_mode"].as_str(), pair.b["journal_mode"].as_str()), ("wal", "delete"));
    pair
}

fn of<'a>(pair: &'a Functions, name: &str) -> &'a FunctionDifference {
    pair.functions.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name}: {:?}", pair.functions))
}

const BASE: &Work = &[("encode", 400_000.0), ("parse", 350_000.0), ("send", 250_000.0), ("tick", 800.0)];
/// `encode` takes 20 % more.
const MORE: &Work = &[("encode", 480_000.0), ("parse", 350_000.0), ("send", 250_000.0), ("tick", 800.0)];

#[test]
fn the_function_that_takes_more_of_an_event_is_named_whatever_the_throughput() {
    let bakeoff = bake(8);
    let comparisons = compared(&bakeoff, compare(&bakeoff), (MORE, BASE), 1, &|_, _, _| true);
    let pair = only(&comparisons);
    assert_eq!((pair.blocks, &pair.refused), (8, &None));
    // Raw counts would name every function: `wal` does 1.84 times the events.
    let [of_wal, of_delete] = of(pair, "parse").samples.map(|n| n as f64);
    assert!(of_wal > 1.6 * of_delete, "{of_wal} {of_delete}");
    let clear: Vec<&str> = pair.clear().map(|f| f.name.as_str()).collect();
    assert_eq!(clear, ["encode"]);
    let encode = of(pair, "encode");
    assert_eq!((encode.verdict, &pair.functions[0].name), (Verdict::Worse, &encode.name));
    // 80 us of 1,000.8 us.
    let truth = 80_000.0 / 1_000_800.0;
    let estimate = encode.estimate.as_ref().unwrap();
    assert!(estimate.low_adjusted.ln() < truth && truth < estimate.high_adjusted.ln(), "{estimate:?}");
    assert!((encode.difference_ratio - estimate.ratio.ln()).abs() < 1e-12);
    assert!((encode.difference_ratio - truth).abs() < 0.02, "{}", encode.difference_ratio);
    let [a, b] = encode.share;
    assert!(
        (a.ratio - 480.0 / 1_080.8).abs() < 0.01 && (b.ratio - 400.0 / 1_000.8).abs() < 0.01,
        "{a:?} {b:?}"
    );
    assert!(a.half.unwrap() < 0.02, "{a:?}");
    // The differences of all functions add up to that of the whole, but for those that are too small.
    let sum: f64 = pair.functions.iter().map(|f| f.difference_ratio).sum();
    assert!((sum - pair.whole.difference_ratio).abs() < 0.001, "{sum} {}", pair.whole.difference_ratio);
    assert!(pair.functions.iter().all(|f| f.name != "tick"), "under half a percent");
}

#[test]
fn functions_of_equal_servers_are_told_apart_in_at_most_five_of_a_hundred_bakeoffs() {
    let bakeoff = bake(6);
    let comparisons = compare(&bakeoff);
    // Thirty functions, most of them small: counts of a few samples, with ties and zeros.
    let names: Vec<&'static str> = (0..30).map(|n| &*Box::leak(format!("f{n}").into_boxed_str())).collect();
    let work: Vec<(&'static str, f64)> =
        names.iter().zip(0..).map(|(name, n)| (*name, 20_000.0 * 0.8_f64.powi(n))).collect();
    let runs = 400;
    let mut false_claims = 0;
    for seed in 0..runs {
        let found =
            compared(&bakeoff, comparisons.clone(), (&work[..], &work[..]), 1_000 + seed, &|_, _, _| true);
        let pair = only(&found);
        assert!(pair.functions.len() > 10, "{}", pair.functions.len());
        false_claims += u32::from(pair.clear().next().is_some());
    }
    println!("{false_claims} of {runs} bake-offs of equal servers name a function");
    // 95 % of all binomials of 400 at 5 % are at most 27.
    assert!(false_claims <= 27, "{false_claims}");
}

#[test]
fn nothing_is_claimed_before_the_end_from_too_few_blocks_or_from_a_selection() {
    let big: &Work = &[("encode", 900_000.0), ("parse", 350_000.0)];
    let base: &Work = &[("encode", 400_000.0), ("parse", 350_000.0)];
    let bakeoff = bake(8);
    let claims = |bakeoff: &Bakeoff, change: &dyn Fn(u32, bool, &mut RunProfile) -> bool| {
        let comparisons = compared(bakeoff, compare(bakeoff), (big, base), 7, change);
        let pair = only(&comparisons);
        (pair.clear().count(), pair.blocks, pair.refused.clone().map(|why| why.reason))
    };
    assert_eq!(claims(&bakeoff, &|_, _, _| true), (1, 8, None));
    // The control arm: half of the blocks have no profile on either side.
    assert_eq!(claims(&bakeoff, &|block, _, _| block % 2 == 0), (0, 4, None));
    let (clear, blocks, why) = claims(&bakeoff, &|block, is_wal, _| block != 3 || !is_wal);
    assert_eq!((clear, blocks), (0, 7));
    assert!(
        why.unwrap().contains("in 0 blocks only the configuration has one, in 1 block only the reference")
    );
    let (clear, _, why) = claims(&bakeoff, &|block, _, taken| {
        taken.of = if block == 2 { UsedBy::Machine } else { UsedBy::Server };
        true
    });
    assert!(clear == 0 && why.unwrap().contains("all threads of the machine"));
    let mut running = bakeoff.clone();
    running.header.state = RunState::Interrupted;
    assert_eq!(claims(&running, &|_, _, _| true), (0, 8, None));
    // Only sealed trials count.
    let mut invalid = bakeoff.clone();
    let lost =
        invalid.trials.iter().find(|t| t.block == 5 && t.levels["journal_mode"] == "wal").unwrap().index;
    for attempt in invalid.attempts.iter_mut().filter(|attempt| attempt.trial == lost) {
        attempt.state = TrialState::Invalid;
    }
    let (clear, blocks, why) = claims(&invalid, &|_, _, _| true);
    assert!(clear == 0 && blocks == 7 && why.is_some());
    let nothing = compared(&bakeoff, compare(&bakeoff), (big, base), 7, &|_, _, _| false);
    assert_eq!(nothing.profiled.pairs, []);
}

#[test]
fn what_a_profile_lost_or_summed_up_widens_the_intervals() {
    let bakeoff = bake(8);
    let with = |change: &dyn Fn(u32, bool, &mut RunProfile) -> bool| {
        let comparisons = compared(&bakeoff, compare(&bakeoff), (MORE, BASE), 3, change);
        let encode = of(only(&comparisons), "encode").clone();
        let estimate = encode.estimate.clone().unwrap();
        (estimate.low_adjusted.ln(), estimate.high_adjusted.ln(), encode.is_clear())
    };
    let (low, high, is_clear) = with(&|_, _, _| true);
    assert!(is_clear);
    // A tenth of the samples of the configuration did not come: they may have been those of `encode`.
    let (low_lost, high_lost, _) = with(&|_, is_wal, taken| {
        let all = 2.0 * 1e10 / PERIOD_NS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples")]
        let lost = if is_wal { (all * 0.1) as u64 } else { 0 };
        taken.profile.lost.insert("samples-that-did-not-come".to_owned(), lost);
        true
    });
    assert!(high_lost > high + 0.03 && low_lost <= low + 1e-9, "{low_lost} {high_lost}; {low} {high}");
    // Most stacks of the reference are one sum: anything may be in it.
    let (low_summed, _, is_clear) = with(&|_, is_wal, taken| {
        for stack in taken.profile.stacks.iter_mut().filter(|s| !is_wal && s.frames[1] == "send") {
            stack.frames = vec![OTHER_STACKS.to_owned()];
        }
        true
    });
    assert!(low_summed < low - 0.2 && !is_clear, "{low_summed} {low}");
}

#[test]
fn profiles_that_cannot_be_compared_are_counted_with_the_reason() {
    let bakeoff = bake(6);
    let late = compared(&bakeoff, compare(&bakeoff), (BASE, BASE), 5, &|_, _, taken| {
        taken.profile.elapsed_ns = 12_000_000_000;
        true
    });
    assert_eq!(late.profiled.pairs, []);
    assert_eq!(
        late.profiled.left_out,
        [("it is longer or shorter than the measured phase".to_owned(), 12)].into()
    );
    let idle = compared(&bakeoff, compare(&bakeoff), (BASE, BASE), 5, &|_, is_wal, taken| {
        if is_wal {
            taken.profile.stacks.clear();
        }
        true
    });
    let pair = only(&idle);
    assert_eq!((pair.blocks, pair.functions.len()), (0, 0));
    assert!(pair.refused.is_some() && idle.profiled.left_out["it has no samples"] == 6);
    assert_eq!(idle.profiled.most_different(), []);
}

/// An archive of a stranger: as many functions as a profile may have, in every trial.
#[test]
fn the_functions_of_all_trials_take_bounded_memory() {
    let bakeoff = bake(6);
    let (trial, run) = bakeoff.sealed().next().unwrap();
    let names: Vec<String> = (0..10_000).map(|n| format!("function{n}")).collect();
    let many = profile(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    let mut profiles = TrialProfiles::default();
    for _ in 0..201 {
        profiles.add(trial, run, &many);
    }
    let mut comparisons = compare(&bakeoff);
    comparisons.add_profiles(&bakeoff, &profiles);
    assert_eq!(comparisons.profiled.pairs, []);
    let why: Vec<&String> = comparisons.profiled.left_out.keys().collect();
    assert!(why.len() == 1 && why[0].contains("functions"), "{why:?}");
}

/// An archive of a stranger: names of a megabyte, which differ from trial to trial.
#[test]
fn the_names_of_all_functions_take_bounded_memory() {
    let bakeoff = bake(6);
    let (trial, run) = bakeoff.sealed().next().unwrap();
    let mut profiles = TrialProfiles::default();
    for number in 0..20 {
        let long = format!("{number} {}", "x".repeat(1 << 20));
        profiles.add(trial, run, &profile(&[(long.as_str(), 1)]));
    }
    let mut comparisons = compare(&bakeoff);
    comparisons.add_profiles(&bakeoff, &profiles);
    let why: Vec<&String> = comparisons.profiled.left_out.keys().collect();
    assert!(why.len() == 1 && why[0].contains("names of all functions"), "{why:?}");
}
