//! Designs that are not the full grid of their factors, or that drop configurations.

use std::collections::BTreeSet;

use bakeoff_analysis::{GateOutcome, Verdict, compare, sequential};
use record::bakeoff::{Bakeoff, Levels, Metric, Trial, TrialState};
use record::gate::{Gate, GateRule, OnInconclusive};
use record::load::{Loop, OpenLoop};

use crate::of_one_cell;
use crate::sample::Recipe;

/// The bake-off of a plan that leaves these trials out.
fn without(mut bakeoff: Bakeoff, is_left_out: impl Fn(&Levels) -> bool) -> Bakeoff {
    let left_out: BTreeSet<u32> =
        bakeoff.trials.iter().filter(|t| is_left_out(&t.levels)).map(|t| t.index).collect();
    bakeoff.trials.retain(|trial| !left_out.contains(&trial.index));
    bakeoff.attempts.retain(|attempt| !left_out.contains(&attempt.trial));
    bakeoff
}

#[test]
fn combinations_that_the_plan_leaves_out_are_in_no_family_and_miss_no_gate() {
    let recipe = Recipe { values: vec!["delete", "wal", "memory"], with_trouble: false, ..Recipe::journal() };
    let mut bakeoff = without(recipe.bake(), |l| l["journal_mode"] == "memory" && l["threads"] != "4");
    let gate = |rule| Gate {
        metric: Metric::Throughput,
        rule: GateRule::read(rule).unwrap(),
        on_inconclusive: OnInconclusive::Inconclusive,
    };
    bakeoff.judge.gates = vec![gate(">= 1/s"), gate("not worse than reference by 10%")];
    let comparisons = compare(&bakeoff);
    assert_eq!(comparisons.cells.len(), 7 * Metric::OF_LOADS.len());
    assert_eq!((comparisons.pairs.len(), comparisons.left_out.len()), ((3 + 1) * 2, 0));
    let results: Vec<_> = comparisons.gates.iter().map(|g| (g.found, g.comparisons.len())).collect();
    assert_eq!(results, [(GateOutcome::Pass, 7), (GateOutcome::Pass, 4)]);
    assert!(comparisons.fallen_out.iter().all(|arm| arm.lost() == 0));
    let of: Vec<usize> = comparisons.fallen_out.iter().map(|arm| arm.of).collect();
    assert_eq!(of, [18, 18, 6]);
}

/// A side with five more conditions has more failures. That alone does not make it worse.
#[test]
fn failures_count_in_conditions_that_both_sides_have() {
    let threads = vec![1, 2, 4, 8, 16, 32];
    let recipe = Recipe { blocks: 12, with_trouble: false, threads, ..Recipe::journal() };
    let mut bakeoff = without(recipe.bake(), |l| l["journal_mode"] == "delete" && l["threads"] != "1");
    let failed: Vec<u32> = bakeoff
        .trials
        .iter()
        .filter(|t| t.levels["threads"] != "1" && t.block <= 2)
        .map(|t| t.index)
        .collect();
    assert_eq!(failed.len(), 10);
    for index in failed {
        let at = bakeoff.attempts.iter().position(|a| a.trial == index).unwrap();
        let mut before = bakeoff.attempts[at].clone();
        (before.state, before.run) = (TrialState::Failed, None);
        bakeoff.attempts.insert(at, before);
    }
    let pairs = compare(&bakeoff).pairs;
    assert_eq!(pairs.len(), 2);
    assert_eq!(pairs[0].verdict, Verdict::Better);
}

/// The CPU use of both configurations is the same curve. Its slope over low rates is not that over high ones.
#[test]
fn slopes_are_compared_over_the_rates_that_both_sides_have() {
    let of = |left_out: fn(&Levels) -> bool| {
        let mut bakeoff =
            without(Recipe { blocks: 8, with_trouble: false, ..Recipe::journal() }.bake(), left_out);
        bakeoff.judge.metrics = vec![Metric::CpuPerEvent];
        let trials = bakeoff.trials.clone();
        for attempt in &mut bakeoff.attempts {
            let trial = trials.iter().find(|t| t.index == attempt.trial).unwrap();
            let rate = 100 * trial.levels["threads"].parse::<u32>().unwrap();
            let per_s = f64::from(rate);
            let run = attempt.run.as_mut().unwrap();
            let load = run.load.as_mut().unwrap();
            load.settings.pace = Loop::Open(OpenLoop::plain(per_s));
            load.achieved_per_s = per_s;
            load.counts.done = u64::from(10 * rate);
            let cpu = run.server_cpu.as_mut().unwrap();
            let noise = 1.0 + 1e-4 * f64::from(trial.index % 7);
            cpu.cpu_s = cpu.span_s() * (1e-4 * per_s + 2e-6 * per_s * per_s) * noise;
        }
        compare(&bakeoff)
            .pairs
            .into_iter()
            .map(|p| (p.verdict, p.estimate.map(|e| e.ratio)))
            .collect::<Vec<_>>()
    };
    // Rates 100 and 200 of both.
    let found = of(|l| l["journal_mode"] == "wal" && l["threads"] == "4");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Verdict::Equivalent, "{found:?}");
    // Only one rate of both: no slope.
    let found = of(|l| l["threads"] == if l["journal_mode"] == "wal" { "4" } else { "2" });
    assert!(found.iter().all(|(verdict, _)| *verdict == Verdict::Inconclusive), "{found:?}");
}

#[test]
fn a_nested_factor_is_compared_where_it_exists() {
    // `threads` exists below `wal` only.
    let nested = || {
        let recipe = Recipe { with_trouble: false, ..Recipe::journal() };
        let is_left_out = |l: &Levels| l["journal_mode"] == "delete" && l["threads"] != "1";
        let mut bakeoff = without(recipe.bake(), is_left_out);
        for trial in bakeoff.trials.iter_mut().filter(|t| t.levels["journal_mode"] == "delete") {
            trial.levels.remove("threads");
        }
        bakeoff
    };
    // As a condition, it leaves nothing to compare: the reference has no such cell.
    let comparisons = compare(&nested());
    assert_eq!((comparisons.pairs.len(), comparisons.cells_of(Metric::P99).count()), (0, 4));
    // As a compared factor, each of its levels is a configuration.
    let mut bakeoff = nested();
    bakeoff.factors[1].reference = Some("1".to_owned());
    let comparisons = compare(&bakeoff);
    let levels = |pairs: &[(&str, &str)]| -> Levels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    assert_eq!(comparisons.reference, levels(&[("journal_mode", "delete")]));
    let a: Vec<Levels> =
        comparisons.pairs.iter().filter(|p| p.metric == Metric::P99).map(|p| p.a.clone()).collect();
    let wal = |threads| levels(&[("journal_mode", "wal"), ("threads", threads)]);
    assert_eq!(a, [wal("1"), wal("2"), wal("4")]);
    assert!(comparisons.pairs.iter().all(|p| p.levels.is_empty() && p.n() == 6));
    // If its parent is the reference, its own reference level is part of the reference.
    bakeoff.factors[0].reference = Some("wal".to_owned());
    let comparisons = compare(&bakeoff);
    assert_eq!(comparisons.reference, wal("1"));
    assert_eq!(comparisons.pairs.len(), 3 * 2);
}

/// A sequential design of ten blocks. `wal` is a fifth slower and `memory` alike.
fn beaten() -> Bakeoff {
    let recipe = Recipe {
        blocks: 10,
        values: vec!["delete", "wal", "memory"],
        effect_ln: |value, _| if value == 1 { -0.2 } else { 0.0 },
        with_trouble: false,
        ..Recipe::journal()
    };
    let mut whole = recipe.bake();
    whole.judge.sequential = true;
    whole
}

#[test]
fn repeated_trials_count_up_to_the_block_that_decides() {
    let whole = beaten();
    let failed_first = |is_it: &dyn Fn(&Trial) -> bool| {
        let mut bakeoff = whole.clone();
        for trial in whole.trials.iter().filter(|t| t.levels["journal_mode"] == "wal" && is_it(t)) {
            let at = bakeoff.attempts.iter().position(|a| a.trial == trial.index).unwrap();
            let mut before = bakeoff.attempts[at].clone();
            (before.state, before.run) = (TrialState::Failed, None);
            bakeoff.attempts.insert(at, before);
        }
        bakeoff
    };
    // Two failed first in one cell: the blocks are uneven, and remain so.
    let early = failed_first(&|t| t.block <= 2 && t.levels["threads"] == "1");
    assert_eq!(sequential::dropped(&early), []);
    // Failures in later blocks change nothing of the decision.
    let late = failed_first(&|t| t.block > 6);
    assert_eq!(sequential::dropped(&late), sequential::dropped(&whole));
    assert_eq!(compare(&late).count(Verdict::Worse), compare(&whole).count(Verdict::Worse));
}

/// The runner drops `wal` after six blocks.
#[test]
fn a_dropped_configuration_is_worse_by_the_first_metric_and_has_no_other_verdict() {
    let whole = beaten();
    let found = sequential::dropped(&whole);
    assert_eq!((found.len(), found[0].after_block, found[0].metric), (1, 6, Metric::Throughput));
    let mut stopped = whole.clone();
    let later: BTreeSet<u32> = stopped
        .trials
        .iter()
        .filter(|t| t.block > 6 && t.levels["journal_mode"] == "wal")
        .map(|t| t.index)
        .collect();
    stopped.attempts.retain(|attempt| !later.contains(&attempt.trial));
    // The blocks after the decision change nothing, whether they were measured or not.
    assert_eq!(sequential::dropped(&stopped), found);
    let comparisons = compare(&stopped);
    assert_eq!((comparisons.dropped_trials(&stopped), comparisons.dropped_trials(&whole)), (12, 0));
    assert_eq!(comparisons.pairs, compare(&whole).pairs);
    for pair in &comparisons.pairs {
        let is_dropped = pair.a["journal_mode"] == "wal";
        match (is_dropped, pair.metric) {
            (true, Metric::Throughput) => {
                let estimate = pair.estimate.as_ref().unwrap();
                assert_eq!((pair.verdict, pair.n()), (Verdict::Worse, 6));
                assert!(estimate.high < 1.0 / 1.01 && estimate.low < 0.82 && estimate.p_adjusted < 0.05);
            }
            (true, _) => {
                assert_eq!(pair.verdict, Verdict::Inconclusive);
                assert!(pair.estimate.as_ref().unwrap_err().reason.contains("dropped after block 6"));
            }
            (false, Metric::Throughput) => {
                assert_eq!((pair.verdict, pair.n()), (Verdict::Equivalent, 10));
            }
            (false, _) => {}
        }
    }
    let interval = |arm: &str| {
        let mut cells = comparisons.cells_of(Metric::Throughput);
        let cell = cells.find(|cell| cell.levels["journal_mode"] == arm).unwrap();
        cell.summary.as_ref().unwrap().interval.is_ok()
    };
    assert!(interval("memory") && !interval("wal"));
    // A trial was lost: the blocks with a value are a selection, and nothing is dropped.
    for attempt in of_one_cell(&mut stopped).skip(2).take(1) {
        attempt.state = TrialState::Invalid;
    }
    assert_eq!(sequential::dropped(&stopped), []);
    // An arm with fewer than six blocks gets no verdict.
    for pair in compare(&stopped).pairs.iter().filter(|pair| pair.a["journal_mode"] == "wal") {
        assert!(pair.estimate.as_ref().unwrap_err().reason.contains("not beaten"), "{pair:?}");
    }
}

/// `wal` needs more CPU per event. A sequential design that was begun before `plan check` refused slopes left
/// out its blocks after the sixth.
#[test]
fn a_slope_drops_nothing_and_its_missing_blocks_are_no_selection() {
    let recipe = Recipe { blocks: 8, with_trouble: false, ..Recipe::journal() };
    let mut bakeoff = recipe.bake();
    let levels: Vec<Levels> = bakeoff.trials.iter().map(|trial| trial.levels.clone()).collect();
    for (i, attempt) in (0_u32..).zip(bakeoff.attempts.iter_mut()) {
        let levels = &levels[attempt.trial as usize];
        let run = attempt.run.as_mut().unwrap();
        let load = run.load.as_mut().unwrap();
        let rate = 100 * levels["threads"].parse::<u32>().unwrap();
        let per_s = f64::from(rate);
        load.settings.pace = Loop::Open(OpenLoop::plain(per_s));
        load.achieved_per_s = per_s;
        (load.counts.planned, load.counts.unfinished) = (u64::from(rate) * 10, 0);
        load.counts.done = load.counts.planned;
        let each = if levels["journal_mode"] == "wal" { 2e-3 } else { 1e-3 };
        let noise = 1.0 + 0.001 * f64::from(i * 7 % 5);
        run.server_cpu.as_mut().unwrap().cpu_s = 10.0 * (0.01 + each * per_s) * noise;
    }
    bakeoff.judge.metrics = vec![Metric::CpuPerEvent, Metric::P99];
    let whole = compare(&bakeoff);
    assert_eq!((whole.pairs[0].verdict, whole.slopes.len()), (Verdict::Worse, 2), "{:?}", whole.pairs[0]);
    bakeoff.judge.sequential = true;
    assert_eq!(sequential::dropped(&bakeoff), []);
    assert_eq!(compare(&bakeoff).pairs[0].verdict, Verdict::Worse);
    let later: BTreeSet<u32> = bakeoff
        .trials
        .iter()
        .filter(|t| t.block > 6 && t.levels["journal_mode"] == "wal")
        .map(|t| t.index)
        .collect();
    bakeoff.attempts.retain(|attempt| !later.contains(&attempt.trial));
    let pairs = compare(&bakeoff).pairs;
    assert!(
        pairs.iter().all(|pair| pair.verdict == Verdict::Inconclusive && pair.estimate.is_err()),
        "{pairs:?}"
    );
    // By another first metric it is dropped, and its slope has no interval either.
    bakeoff.judge.metrics = vec![Metric::P99, Metric::CpuPerEvent];
    for attempt in &mut bakeoff.attempts {
        let run = attempt.run.as_mut().unwrap();
        let load = run.load.as_mut().unwrap();
        if levels[attempt.trial as usize]["journal_mode"] == "wal" {
            let mut slow = record::histogram::Histogram::new();
            slow.record_n(90_000_000, 12_000);
            load.service = slow.into();
        }
    }
    let comparisons = compare(&bakeoff);
    assert_eq!(comparisons.dropped.len(), 1, "{:?}", comparisons.pairs);
    let [reference, dropped] = &comparisons.slopes[..] else { panic!("{:?}", comparisons.slopes) };
    assert!(reference.interval_s.is_ok() && dropped.interval_s.is_err(), "{dropped:?}");
}
