//! Families of comparisons on one page: bake-offs of equal servers, with metrics, functions and gates.

#[allow(dead_code, reason = "this program uses a part of it")]
mod sample;

use std::collections::BTreeMap;

use bakeoff_analysis::families::{FamilySubject, families, rate_of_any};
use bakeoff_analysis::functions::TrialProfiles;
use bakeoff_analysis::{Comparisons, GateOutcome, Verdict, compare};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::bakeoff::Bakeoff;
use record::gate::Gate;
use record::missing::Missing;
use record::profile::{
    Profile, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, RunProfile, ThreadState,
};
use record::resources::UsedBy;
use sample::{Recipe, normal};

const PERIOD_NS: f64 = 1_003_009.0;

/// Profile of a trial with twelve functions; `slow` is common to all of them.
fn taken(events: f64, slow: f64, chance: &mut ChaCha8Rng) -> RunProfile {
    let mut stack = |n: i32| {
        let mean = 200_000.0 * 0.8_f64.powi(n) * slow * events / PERIOD_NS;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples")]
        let count =
            (mean * (0.02 * normal(chance)).exp() + mean.sqrt() * normal(chance)).round().max(1.0) as u64;
        ProfileStack {
            comm: "server".to_owned(),
            state: ThreadState::Running,
            frames: vec![format!("f{n}")],
            count,
            ns: count * 1_003_009,
        }
    };
    let profile = Profile {
        kind: ProfileKind::OnCpu,
        only: Ok(ProfileFilter::default()),
        elapsed_ns: 10_000_000_000,
        cpus: 2,
        period_ns: Ok(1_003_009),
        idle_samples: Err(Missing::because("only some threads were watched")),
        stacks: (0..12).map(&mut stack).collect(),
        still_off: 0,
        doubts: ProfileDoubts::default(),
        notes: Vec::new(),
        lost: BTreeMap::new(),
        cost: Err(Missing::because("not measured")),
    };
    RunProfile { of: UsedBy::Server, profile, summed_stacks: 0 }
}

/// A bake-off of two equal servers, with profiles. What makes a trial slow makes its functions slow: the
/// families depend on each other.
fn equal_servers(seed: u64) -> (Bakeoff, Comparisons) {
    let recipe = Recipe {
        seed,
        blocks: 8,
        threads: vec![1],
        effect_ln: |_, _| 0.0,
        noise_ln: 0.05,
        with_trouble: false,
        ..Recipe::journal()
    };
    let mut bakeoff = recipe.bake();
    // The truth lies on the limit: the throughput of both is the same.
    bakeoff.judge.gates = vec![Gate::read("throughput not worse by 0.001%").expect("a gate")];
    let mut comparisons = compare(&bakeoff);
    let mut chance = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let mut profiles = TrialProfiles::default();
    for (trial, run) in bakeoff.sealed() {
        let per_s = run.load.as_ref().expect("it is a load").achieved_per_s;
        profiles.add(trial, run, &taken(per_s * 10.0, 900.0 / per_s, &mut chance));
    }
    comparisons.add_profiles(&bakeoff, &profiles);
    (bakeoff, comparisons)
}

#[test]
fn each_family_holds_its_rate_and_all_together_the_sum() {
    let is_claim = |verdict: Verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    let runs = 400;
    let (mut metrics, mut functions, mut gates, mut any) = (0, 0, 0, 0);
    let mut bound = 0.0;
    for seed in 0..runs {
        let (bakeoff, comparisons) = equal_servers(7_000 + seed);
        let all = families(&bakeoff, &comparisons);
        let sizes: Vec<usize> = all.iter().map(|family| family.comparisons).collect();
        assert_eq!(sizes, [2, 13, 1], "{all:?}");
        assert!(matches!(all[2].subject, FamilySubject::Gate(_)));
        bound = rate_of_any(&all);
        let of_metrics = comparisons.pairs.iter().any(|pair| is_claim(pair.verdict));
        let of_functions = comparisons
            .profiled
            .pairs
            .iter()
            .any(|pair| pair.clear().next().is_some() || pair.whole.is_clear());
        let of_gate = comparisons.gates[0].found == GateOutcome::Fail;
        metrics += u32::from(of_metrics);
        functions += u32::from(of_functions);
        gates += u32::from(of_gate);
        any += u32::from(of_metrics || of_functions || of_gate);
    }
    println!("false in {runs}: {metrics} by metrics, {functions} by functions, {gates} gates, {any} by any");
    assert!((bound - 0.125).abs() < 1e-12, "5 % each, and one tail of the gate: {bound}");
    // 97.5 % of all binomials of 400: at 5 % at most 29, at 2.5 % at most 17, at 12.5 % at most 63.
    assert!(metrics <= 29 && functions <= 29 && gates <= 17 && any <= 63);
    // The families are not one: something false is on more pages than in the family of the metrics.
    assert!(any > metrics, "{any} {metrics}");
}

#[test]
fn a_bake_off_without_profiles_and_gates_has_one_family() {
    let bakeoff = Recipe::journal().bake();
    let comparisons = compare(&bakeoff);
    let all = families(&bakeoff, &comparisons);
    assert_eq!((all.len(), all[0].subject, all[0].comparisons), (1, FamilySubject::Metrics, 6));
    assert!((rate_of_any(&all) - 0.05).abs() < 1e-12);
    let mut sequential = bakeoff.clone();
    sequential.judge.sequential = true;
    // Dropping and the judgement at the end share alpha.
    assert!((families(&sequential, &compare(&sequential))[0].rate - 0.05).abs() < 1e-12);
    let none = Recipe { values: vec!["delete"], ..Recipe::journal() }.bake();
    assert_eq!(families(&none, &compare(&none)), []);
}
