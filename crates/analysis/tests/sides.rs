//! Archived bake-offs as sides, on samples with known truth.

mod sample;

use bakeoff_analysis::sides::{Side, sides};
use bakeoff_analysis::{Rules, Verdict, history};
use record::bakeoff::{Attempt, Bakeoff, Metric, TrialState};
use sample::Recipe;

const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };

fn bakeoff(seed: u64) -> Bakeoff {
    let recipe = Recipe { seed, effect_ln: |_, _| 0.0, with_trouble: false, ..Recipe::journal() };
    recipe.bake()
}

fn failure(trial: u32) -> Attempt {
    let reason = Some("the server ran out of memory".into());
    Attempt { trial, state: TrialState::Failed, reason, run: None }
}

/// Adds a failure to one cell in the first `blocks` blocks; a later attempt of each was sealed.
fn failed_first(mut bakeoff: Bakeoff, blocks: u32) -> Bakeoff {
    let is_it =
        |levels: &record::bakeoff::Levels| levels["journal_mode"] == "wal" && levels["threads"] == "1";
    let of_cell = bakeoff.trials.iter().filter(|t| is_it(&t.levels) && t.block <= blocks);
    let failed: Vec<Attempt> = of_cell.map(|trial| failure(trial.index)).collect();
    bakeoff.attempts.splice(0..0, failed);
    bakeoff
}

/// A configuration that is killed at its peak shows only the trials in which it stayed low.
#[test]
fn repeated_trials_of_a_cell_are_a_selection_and_one_is_an_accident() {
    let of = |repeated: u32| {
        let mut base = Side { name: "base".into(), ..Side::default() };
        base.add_bakeoff(&bakeoff(1));
        let mut head = Side { name: "head".into(), ..Side::default() };
        let mut slower = failed_first(bakeoff(2), repeated);
        for attempt in &mut slower.attempts {
            if let Some(load) = attempt.run.as_mut().and_then(|run| run.load.as_mut()) {
                load.achieved_per_s *= 0.5;
            }
        }
        head.add_bakeoff(&slower);
        let found = sides(&[base, head.clone()], 0, RULES, &[]);
        let verdicts: Vec<Verdict> =
            found.pairs.iter().filter(|p| p.metric == Metric::Throughput).map(|p| p.verdict).collect();
        (head.lost, verdicts)
    };
    for accident in [0, 1] {
        assert_eq!(of(accident), (Vec::new(), vec![Verdict::Worse; 6]));
    }
    // One failure in each of six cells of one side is more than chance explains.
    let mut each = bakeoff(2);
    let trials = each.trials.iter().filter(|trial| trial.block == 1);
    let failed: Vec<Attempt> = trials.map(|trial| failure(trial.index)).collect();
    assert_eq!(failed.len(), 6);
    each.attempts.splice(0..0, failed);
    let mut head = Side { name: "head".into(), ..Side::default() };
    head.add_bakeoff(&each);
    let mut base = Side { name: "base".into(), ..Side::default() };
    base.add_bakeoff(&bakeoff(1));
    assert!(head.lost.is_empty());
    let found = sides(&[base, head], 0, RULES, &[]);
    let why = "unevenly repeated trials: 6 of 36 of head failed first, 0 of 36 of base";
    for pair in &found.pairs {
        assert_eq!(pair.verdict, Verdict::Inconclusive);
        assert_eq!(pair.estimate.as_ref().unwrap_err().reason, why);
    }

    let (lost, verdicts) = of(2);
    assert_eq!(verdicts, [Verdict::Inconclusive; 6]);
    assert!(
        lost.len() == 1
            && lost[0].starts_with(
                "trials at journal_mode=wal, threads=1 failed and were repeated in 2 blocks of "
            ),
        "{lost:?}"
    );
}

#[test]
fn values_of_a_history_have_the_settings_of_their_load() {
    let of = |rate_per_s: Option<f64>| {
        let mut bakeoff = Recipe { rate_per_s, with_trouble: false, ..Recipe::journal() }.bake();
        let run = bakeoff.attempts[0].run.clone().unwrap();
        bakeoff.judge.metrics = vec![Metric::CpuPerEvent];
        let all = [history::of_run(&run), history::of_bakeoff(&bakeoff)];
        all.map(|found| found.observed.into_iter().map(|o| o.point.facts).collect::<Vec<_>>())
    };
    for all in of(Some(500.0)) {
        assert!(!all.is_empty());
        for facts in all {
            assert_eq!(facts["load.rate"], "500/s");
            assert_eq!(facts["load.rows"], "10000");
            assert!(["1", "2", "4"].contains(&facts["load.threads"].as_str()));
            // A draw and a length are no other load.
            assert!(!facts.keys().any(|name| name == "load.seed" || name == "load.time"));
        }
    }
    assert!(of(None)[0].iter().all(|facts| facts["load.think"] == "0" && !facts.contains_key("load.rate")));
}
