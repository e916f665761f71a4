//! Verdicts of whole bake-offs, on samples with known truth.

mod designs;
mod sample;

use std::collections::BTreeSet;

use bakeoff_analysis::{
    Cell, Member, Paired, Rules, Verdict, compare, history, judge, machine, observing, spectrum,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::bakeoff::{Attempt, Bakeoff, CONTROL_ARM, Levels, Metric, TrialState};
use record::cpu::CpuInterval;
use record::load::LoadRecord;
use record::run::RunState;
use record::server_cpu::ServerTasks;
use record::verdict::{Check, Validity};
use sample::{Recipe, normal};

#[test]
fn each_verdict_is_found_where_the_truth_has_it() {
    let verdicts: Vec<Verdict> = compare(&Recipe::journal().bake())
        .pairs
        .into_iter()
        .filter(|p| p.metric == Metric::Throughput)
        .map(|p| p.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Better, Verdict::Better, Verdict::Equivalent]);
}

#[test]
fn the_means_of_two_cells_divide_to_the_ratio_that_is_tested() {
    let comparisons = compare(&Recipe::journal().bake());
    let pair = &comparisons.pairs[0];
    let mean = |mode: &str| {
        let cell = comparisons
            .cells_of(Metric::Throughput)
            .find(|c| c.levels["journal_mode"] == mode && c.levels["threads"] == pair.levels["threads"]);
        cell.unwrap().summary.as_ref().unwrap().mean
    };
    assert!((mean("wal") / mean("delete") / pair.estimate.as_ref().unwrap().ratio - 1.0).abs() < 1e-12);
}

#[test]
fn a_block_counts_only_where_both_sides_are_sealed() {
    let mut bakeoff = Recipe::journal().bake();
    let lost = bakeoff
        .trials
        .iter()
        .find(|t| t.block == 3 && t.levels["journal_mode"] == "wal" && t.levels["threads"] == "1")
        .unwrap()
        .index;
    for attempt in bakeoff.attempts.iter_mut().filter(|a| a.trial == lost) {
        attempt.state = TrialState::Invalid;
    }
    let comparisons = compare(&bakeoff);
    let blocks: Vec<u32> = comparisons.pairs[0].blocks.iter().map(|(block, _)| *block).collect();
    assert_eq!(blocks, [1, 2, 4, 5, 6]);
    // However clear the difference, five blocks allow no claim.
    assert_eq!(comparisons.pairs[0].verdict, Verdict::Inconclusive);
    assert_eq!(comparisons.pairs[1].n(), 6);
}

/// The unkind truth: the trial is sealed, and its rate is a third lower because a generator died.
#[test]
fn a_degraded_trial_is_shown_and_named_and_no_verdict_rests_on_it() {
    let mut bakeoff = Recipe { with_trouble: false, ..Recipe::journal() }.bake();
    let is_it = |t: &&record::bakeoff::Trial| {
        t.block == 3 && t.levels["journal_mode"] == "wal" && t.levels["threads"] == "1"
    };
    let lost = bakeoff.trials.iter().find(is_it).unwrap().index;
    let text = "2 of 3 agents ran to the end: agent a2 was lost";
    for attempt in bakeoff.attempts.iter_mut().filter(|a| a.trial == lost) {
        let load = attempt.run.as_mut().unwrap().load.as_mut().unwrap();
        load.achieved_per_s *= 2.0 / 3.0;
        let check = Check { name: "agents", ok: false, found: 1.0, limit: 0.0, text: text.to_owned() };
        load.verdict = record::verdict::Verdict { state: Validity::Degraded, checks: vec![check] };
    }
    let comparisons = compare(&bakeoff);
    let pair = &comparisons.pairs[0];
    assert_eq!((pair.n(), pair.verdict), (5, Verdict::Inconclusive));
    let why = &pair.estimate.as_ref().unwrap_err().reason;
    assert!(why.contains("block 3: degraded") && why.contains("agent a2 was lost"), "{why}");
    assert_eq!(comparisons.pairs[1].n(), 6);
    let is_its = |cell: &&Cell| cell.levels["journal_mode"] == "wal" && cell.levels["threads"] == "1";
    let throughput = comparisons.cells_of(Metric::Throughput).find(is_its).unwrap();
    assert_eq!(throughput.values.iter().filter(|v| v.value.is_ok()).count(), 6, "it is shown");
    let per_event = comparisons.cells_of(Metric::CpuPerEvent).find(is_its).unwrap();
    let unknown: Vec<u32> = per_event.values.iter().filter(|v| v.value.is_err()).map(|v| v.block).collect();
    assert_eq!(unknown, [3], "the events that its CPU time was for are not all known");
}

/// Twelve blocks. For each of `trials` of `wal`, by block and threads, an attempt that ended as `state`
/// precedes the sealed one.
fn redone(state: TrialState, trials: &[(u32, &str)]) -> bakeoff_analysis::Comparisons {
    let threads = vec![1, 2, 4, 8, 16, 32];
    let mut bakeoff = Recipe { blocks: 12, with_trouble: false, threads, ..Recipe::journal() }.bake();
    for (block, threads) in trials {
        let is_it = |t: &&record::bakeoff::Trial| {
            t.block == *block && t.levels["journal_mode"] == "wal" && t.levels["threads"] == *threads
        };
        let index = bakeoff.trials.iter().find(is_it).expect("it is planned").index;
        let at = bakeoff.attempts.iter().position(|a| a.trial == index).expect("it was sealed");
        let mut before = bakeoff.attempts[at].clone();
        before.state = state;
        before.run = None;
        bakeoff.attempts.insert(at, before);
    }
    compare(&bakeoff)
}

#[test]
fn damage_in_the_archive_that_was_measured_again_does_not_count_against_a_configuration() {
    let redone_of = |comparisons: &bakeoff_analysis::Comparisons| -> usize {
        comparisons.fallen_out.iter().map(|f| f.redone + f.lost()).sum()
    };
    let twice = [(1, "1"), (2, "1")];
    let damaged = redone(TrialState::Damaged, &twice);
    assert_eq!(damaged.pairs[0].verdict, Verdict::Better);
    assert_eq!((damaged.pairs[0].n(), redone_of(&damaged)), (12, 0));
    // Failed trials say something about the configuration.
    let failed = redone(TrialState::Failed, &twice);
    assert_eq!((failed.pairs[0].verdict, failed.pairs[1].n()), (Verdict::Inconclusive, 12));
    assert!(failed.pairs[0].estimate.is_err() && failed.pairs[1].estimate.is_ok());
    assert_eq!(redone_of(&failed), 2);
    // This holds even if each failed under another condition: six of six are no accident, five may be.
    let each = [(1, "1"), (2, "2"), (3, "4"), (4, "8"), (5, "16"), (6, "32")];
    let refused = |comparisons: &bakeoff_analysis::Comparisons| {
        comparisons.pairs.iter().filter(|pair| pair.estimate.is_err()).count()
    };
    for state in [TrialState::Failed, TrialState::Abandoned] {
        assert_eq!(refused(&redone(state, &each[..5])), 0, "{state:?}");
        let all = redone(state, &each);
        assert_eq!(refused(&all), all.pairs.len(), "{state:?}");
    }
    assert_eq!(refused(&redone(TrialState::Damaged, &each)), 0);
}

/// Stopping at the first block that shows a difference gives false differences.
#[test]
fn a_bakeoff_that_is_not_over_claims_nothing_and_shows_its_numbers() {
    for state in [RunState::Running, RunState::Interrupted, RunState::Abandoned] {
        let mut bakeoff = Recipe::journal().bake();
        bakeoff.header.state = state;
        let (whole, early) = (compare(&Recipe::journal().bake()), compare(&bakeoff));
        assert!(early.unfinished && !whole.unfinished);
        assert!(early.pairs.iter().all(|pair| pair.verdict == Verdict::Inconclusive), "{state:?}");
        let decided = |pair: &bakeoff_analysis::Pair| pair.verdict != Verdict::Inconclusive;
        assert!(whole.pairs.iter().any(decided));
        for (early, whole) in early.pairs.iter().zip(&whole.pairs) {
            assert_eq!(early.estimate, whole.estimate);
            if decided(whole) {
                assert_eq!(early.blocks_needed.clone().unwrap_err().reason, "the bake-off is not over");
            }
        }
    }
}

/// The CPU time of a command is counted when it ends. `wal` runs two long commands at a time: in each phase
/// two end, and parts of others make the rate that of 3.4 commands. An ended command costs 30 ms in both
/// configurations.
#[test]
fn commands_that_are_long_beside_the_phase_get_no_verdict_on_their_cpu_time() {
    let mut bakeoff = Recipe { blocks: 12, with_trouble: false, ..Recipe::journal() }.bake();
    bakeoff.judge.metrics = vec![Metric::CpuPerEvent];
    let trials = bakeoff.trials.clone();
    for attempt in &mut bakeoff.attempts {
        let trial = trials.iter().find(|t| t.index == attempt.trial).unwrap();
        let run = attempt.run.as_mut().unwrap();
        let (ended, parts) =
            if trial.levels["journal_mode"] == "wal" { (2.0, 3.4) } else { (1_000.0, 1_000.0) };
        let cpu = run.server_cpu.as_mut().unwrap();
        cpu.tasks = ServerTasks::Commands;
        cpu.cpu_s = 0.03 * ended * (1.0 + 1e-3 * f64::from(trial.block % 3));
        let load = run.load.as_mut().unwrap();
        load.settings.threads = 2;
        load.settings.connections = None;
        load.achieved_per_s = parts / cpu.span_s();
    }
    let comparisons = compare(&bakeoff);
    assert!(!comparisons.pairs.is_empty());
    for pair in &comparisons.pairs {
        assert_eq!(pair.verdict, Verdict::Inconclusive, "{pair:?}");
    }
}

/// Each command uses the same CPU time. In one configuration half of the events fail after a retry, so it
/// runs four commands per completed event.
#[test]
fn commands_that_fail_or_are_tried_again_are_no_cpu_time_per_event() {
    let mut bakeoff = Recipe { blocks: 12, with_trouble: false, ..Recipe::journal() }.bake();
    bakeoff.judge.metrics = vec![Metric::CpuPerEvent];
    let trials = bakeoff.trials.clone();
    for attempt in &mut bakeoff.attempts {
        let trial = trials.iter().find(|t| t.index == attempt.trial).unwrap();
        let run = attempt.run.as_mut().unwrap();
        let fails = trial.levels["journal_mode"] == "wal";
        let cpu = run.server_cpu.as_mut().unwrap();
        cpu.tasks = ServerTasks::Commands;
        cpu.cpu_s = 1e-4 * 8_000.0 * (1.0 + 1e-3 * f64::from(trial.block % 3));
        let span_s = cpu.span_s();
        let load = run.load.as_mut().unwrap();
        (load.settings.threads, load.settings.connections) = (2, None);
        let counts = &mut load.counts;
        (counts.done, counts.failed, counts.retries) =
            if fails { (2_000, 2_000, 4_000) } else { (8_000, 0, 0) };
        load.achieved_per_s = counts.done as f64 / span_s;
    }
    let comparisons = compare(&bakeoff);
    assert!(!comparisons.pairs.is_empty());
    for pair in &comparisons.pairs {
        assert_eq!(pair.verdict, Verdict::Equivalent, "{pair:?}");
    }
}

#[test]
fn three_blocks_are_exploratory_and_claim_nothing() {
    let comparisons = compare(&Recipe { blocks: 3, with_trouble: false, ..Recipe::journal() }.bake());
    assert!(comparisons.exploratory);
    assert_eq!(comparisons.count(Verdict::Inconclusive), comparisons.pairs.len());
}

#[test]
fn every_configuration_meets_the_reference_once_at_each_level_and_metric() {
    let recipe = Recipe { values: vec!["delete", "wal", "memory"], ..Recipe::journal() };
    let comparisons = compare(&recipe.bake());
    assert_eq!(comparisons.pairs.len(), 2 * 3 * 2);
    assert!(comparisons.pairs.iter().all(|p| p.b["journal_mode"] == "delete" && p.a != p.b));
    assert_eq!(comparisons.cells.len(), 9 * Metric::OF_LOADS.len());
}

#[test]
fn a_plan_without_a_reference_has_cells_and_no_pairs() {
    let mut bakeoff = Recipe::journal().bake();
    bakeoff.factors[0].reference = None;
    let comparisons = compare(&bakeoff);
    assert!(comparisons.pairs.is_empty());
    assert_eq!(comparisons.cells_of(Metric::Throughput).count(), 6);
}

#[test]
fn cpu_time_is_told_only_where_the_measured_phase_was_watched() {
    let bakeoff = Recipe::journal().bake();
    let run = bakeoff.sealed().next().unwrap().1;
    let load = run.load.as_ref().unwrap();
    let whole = machine(load, &run.cpu);
    let by_hand: f64 = run.cpu.iter().flat_map(|i| &i.cpus).map(|s| *s.event_ratio.as_ref().unwrap()).sum();
    assert!((whole.busy_cpu_s.unwrap() - by_hand).abs() < 1e-9);
    // The intervals before and after the phase do not count, and one that straddles its edge counts by its
    // share.
    let mut shifted = run.cpu.clone();
    for interval in &mut shifted {
        interval.from_ns -= 250_000_000;
        interval.until_ns -= 250_000_000;
    }
    assert!(machine(load, &shifted).busy_cpu_s.is_ok());
    assert!(machine(load, &run.cpu[..9]).busy_cpu_s.is_err());
    assert!(machine(load, &[]).busy_cpu_s.is_err());
    let mut lossy = run.cpu.clone();
    lossy[0].lost.insert(record::cpu::UNSURE_NS.into(), 1_000_000_000);
    // Nothing was lost: the kernel showed a switch to no tracer.
    lossy[0].lost.insert(record::cpu::SWITCHES_UNSEEN.into(), 1);
    let why = |of: &[CpuInterval]| machine(load, of).busy_cpu_s.unwrap_err().reason;
    assert!(why(&lossy).contains("did not show") && !why(&lossy).contains("lost"), "{}", why(&lossy));
    lossy[1].lost.insert(record::cpu::RECORDS_LOST.into(), 7);
    assert!(why(&lossy).contains("were lost"), "{}", why(&lossy));
}

#[test]
fn an_open_loop_is_judged_by_response_and_says_so() {
    let recipe = Recipe { rate_per_s: Some(500.0), ..Recipe::journal() };
    let bakeoff = recipe.bake();
    let levels = bakeoff.trials[0].levels.clone();
    let spectrum = spectrum(&bakeoff, &levels, &[0.5, 0.99, 0.999_999]).unwrap();
    assert!(spectrum.is_response);
    assert_eq!(spectrum.runs, 6);
    // A quantile with less than one event above it has no separate value.
    assert_eq!(spectrum.points.len(), 2);
    let p99 = &spectrum.points[1];
    let (low, high) = *p99.interval_ns.as_ref().unwrap();
    assert!(low < high && !p99.at_least);
}

/// One configuration under two names, judged 2,000 times: how often does the family claim any difference?
///
/// Nine comparisons share the noise of their series, as thread levels of one server do; alpha is 5 %.
#[test]
fn a_family_without_a_difference_claims_one_at_most_at_the_rate_of_alpha() {
    const FAMILIES: usize = 2_000;
    let mut chance = ChaCha8Rng::seed_from_u64(1);
    for (rope_ratio, blocks) in [(0.0, 6), (0.01, 6), (0.0, 10)] {
        let rules = Rules { rope_ratio, alpha: 0.05, seed: 3 };
        let (mut alarms, mut naive) = (0, 0);
        for _ in 0..FAMILIES {
            let family = same(&mut chance, blocks, 9);
            naive += usize::from(family.iter().any(|d| Paired::of(d).unwrap().p_beyond(0.0) <= 0.05));
            alarms += usize::from(judge_all(&family, rules).iter().any(|v| is_claim(*v)));
        }
        let rate = |n: usize| n as f64 / FAMILIES as f64;
        let told =
            format!("rope {rope_ratio}, {blocks} blocks: {} judged, {} naive", rate(alarms), rate(naive));
        println!("{told}");
        assert!(rate(alarms) <= 0.05, "{told}");
        assert!(rate(naive) > 0.10, "the simulation can tell a rule that is wrong: {told}");
    }
}

/// Three standard errors of a share of 5 % from 2,000 families are 1.5 points.
#[test]
fn differences_at_the_very_edge_of_the_region_are_claimed_at_most_at_the_rate_of_alpha() {
    const FAMILIES: usize = 2_000;
    let mut chance = ChaCha8Rng::seed_from_u64(2);
    let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 3 };
    let mut alarms = 0;
    for _ in 0..FAMILIES {
        let mut family = independent(&mut chance, 6, 3, 0.01);
        for d in family.iter_mut().flatten() {
            *d += 0.01_f64.ln_1p();
        }
        let judged = judge_all(&family, rules);
        alarms += usize::from(judged.iter().any(|v| is_claim(*v)));
    }
    let rate = alarms as f64 / FAMILIES as f64;
    println!("at the edge: {:.2} %", 100.0 * rate);
    assert!(rate <= 0.05 + 0.015, "{rate}");
}

/// A difference of six standard errors is claimed nearly always, even among nine.
#[test]
fn a_clear_difference_is_claimed_although_its_family_is_large() {
    let mut chance = ChaCha8Rng::seed_from_u64(4);
    let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 3 };
    let found = (0..500)
        .filter(|_| {
            let mut family = independent(&mut chance, 6, 9, 0.01);
            for d in &mut family[0] {
                *d += 0.10;
            }
            judge_all(&family, rules)[0] == Verdict::Better
        })
        .count();
    println!("{found} of 500");
    assert!(found >= 490, "{found} of 500");
}

fn is_claim(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

fn judge_all(family: &[Vec<f64>], rules: Rules) -> Vec<Verdict> {
    let members: Vec<Member> = family.iter().map(|d| Member::exact(Metric::Throughput, d)).collect();
    judge(&members, rules).into_iter().map(|j| j.verdict).collect()
}

/// Log ratios of two equal configurations: the difference of two series is in all comparisons of their block.
fn same(chance: &mut ChaCha8Rng, blocks: usize, size: usize) -> Vec<Vec<f64>> {
    let shared: Vec<f64> = (0..blocks).map(|_| 0.02 * normal(chance)).collect();
    (0..size).map(|_| shared.iter().map(|s| s + 0.014 * normal(chance)).collect()).collect()
}

fn independent(chance: &mut ChaCha8Rng, blocks: usize, size: usize, sd: f64) -> Vec<Vec<f64>> {
    (0..size).map(|_| (0..blocks).map(|_| sd * normal(chance)).collect()).collect()
}

/// Attempts of the cell of write-ahead logging with one thread.
fn of_one_cell(bakeoff: &mut Bakeoff) -> impl Iterator<Item = &mut Attempt> {
    let trials = bakeoff.trials.clone();
    bakeoff.attempts.iter_mut().filter(move |attempt| {
        let levels = &trials.iter().find(|t| t.index == attempt.trial).expect("it is planned").levels;
        levels["journal_mode"] == "wal" && levels["threads"] == "1"
    })
}

/// The trials that a stall hit have no p99, or are INVALID. The others are the good ones, not the average.
#[test]
fn a_history_has_no_value_of_the_trials_that_survived() {
    let clean = || Recipe { with_trouble: false, ..Recipe::journal() }.bake();
    let of = |bakeoff: &Bakeoff, metric: &str| {
        let found = history::of_bakeoff(bakeoff);
        let is_it = |o: &&history::Observed| o.key.metric == metric && o.key.subject.contains("threads=1");
        let points = found.observed.iter().filter(is_it).count();
        (points, found.left_out.iter().filter(|(left_out, _)| left_out == metric).count())
    };
    assert_eq!((of(&clean(), "p99"), of(&clean(), "throughput")), ((2, 0), (2, 0)));
    let mut open = clean();
    for attempt in of_one_cell(&mut open).skip(2) {
        let counts = &mut attempt.run.as_mut().unwrap().load.as_mut().unwrap().counts;
        counts.failed = counts.done / 10;
    }
    assert_eq!((of(&open, "p99"), of(&open, "throughput")), ((1, 1), (2, 0)));
    let mut lost = clean();
    for attempt in of_one_cell(&mut lost).skip(2) {
        attempt.state = TrialState::Invalid;
    }
    assert_eq!((of(&lost, "p99"), of(&lost, "throughput")), ((1, 1), (1, 1)));
    // Nor does the table of a report average the rest.
    let comparisons = compare(&open);
    let levels: Levels =
        [("journal_mode", "wal"), ("threads", "1")].map(|(k, v)| (k.into(), v.into())).into();
    let cell = comparisons.cells_of(Metric::P99).find(|c| c.levels == levels).unwrap();
    assert!(cell.summary.is_err(), "{:?}", cell.summary);
}

/// The rate of an open loop is offered; its p99 is of response time, that of a closed loop of service time.
#[test]
fn a_history_tells_open_from_closed_loops() {
    let of = |rate_per_s| {
        let bakeoff = Recipe { rate_per_s, with_trouble: false, ..Recipe::journal() }.bake();
        let of_run = history::of_run(bakeoff.sealed().next().unwrap().1).observed;
        (of_run, history::of_bakeoff(&bakeoff).observed)
    };
    let (open, closed) = (of(Some(5_000.0)), of(None));
    for (open, closed) in [(open.0, closed.0), (open.1, closed.1)] {
        let has = |of: &[history::Observed], metric: &str| of.iter().any(|o| o.key.metric == metric);
        assert!(!has(&open, "throughput") && has(&closed, "throughput"));
        assert!(has(&open, "p99") && has(&closed, "p99"));
        let keys = |of: &[history::Observed]| of.iter().map(|o| o.key.clone()).collect::<BTreeSet<_>>();
        assert!(keys(&open).is_disjoint(&keys(&closed)));
    }
}

/// One event in twenty failed: nothing above the 95th percentile has an upper end.
#[test]
fn a_spectrum_counts_events_without_a_latency_and_has_no_interval_where_a_run_is_open() {
    let at = |bakeoff: &Bakeoff, quantile: f64| {
        let levels = bakeoff.trials[0].levels.clone();
        spectrum(bakeoff, &levels, &[quantile]).unwrap().points.remove(0)
    };
    let with = |change: fn(&mut LoadRecord)| {
        let recipe = Recipe { rate_per_s: Some(5_000.0), with_trouble: false, ..Recipe::journal() };
        let mut bakeoff = recipe.bake();
        bakeoff.attempts.iter_mut().for_each(|a| change(a.run.as_mut().unwrap().load.as_mut().unwrap()));
        bakeoff
    };
    let clean = at(&with(|_| ()), 0.99);
    assert!(!clean.at_least && clean.interval_ns.is_ok());
    let failed = with(|load| load.counts.failed = load.counts.done / 20);
    assert!(at(&failed, 0.99).at_least && at(&failed, 0.99).interval_ns.is_err());
    assert!(!at(&failed, 0.5).at_least && at(&failed, 0.5).interval_ns.is_ok());
    // 5 % did not end, and count at the time that they had lasted.
    let open = with(|load| {
        let response = load.response.as_mut().unwrap();
        response.at_least.record_n(60_000_000, response.known.count() / 19);
        load.counts.unfinished = response.at_least.count();
    });
    assert!(at(&open, 0.99).at_least && at(&open, 0.99).interval_ns.is_err());
    // 0.7 % timed out: failed, with the time that they had lasted. Each counts once.
    let timed_out = with(|load| {
        let response = load.response.as_mut().unwrap();
        load.counts.failed = response.known.count() / 150;
        response.at_least.record_n(1_000_000_000, load.counts.failed);
    });
    assert!(!at(&timed_out, 0.99).at_least && at(&timed_out, 0.99).interval_ns.is_ok());
    assert!(at(&timed_out, 0.99).latency_ns < 60_000_000, "{:?}", at(&timed_out, 0.99));
    assert!(at(&timed_out, 0.995).at_least);
    // 12,000 events each: all runs together hold a 99.998th percentile, none of them alone.
    assert!(at(&with(|_| ()), 0.999_98).interval_ns.is_err());
}

/// Under watching, one cell is so slow that its p99 has no upper end: the others are not what watching costs.
#[test]
fn the_cost_of_watching_is_not_that_of_the_trials_that_survived_it() {
    let mut bakeoff = Recipe { with_trouble: false, ..Recipe::journal() }.bake();
    let trials = bakeoff.trials.clone();
    let block = |attempt: &Attempt| trials.iter().find(|t| t.index == attempt.trial).unwrap().block;
    for attempt in bakeoff.attempts.iter_mut().filter(|a| block(a) % 2 == 0) {
        attempt.run.as_mut().unwrap().header.labels.insert(CONTROL_ARM.into(), "1".into());
    }
    let of = |bakeoff: &Bakeoff, metric: Metric| {
        let cost = observing::costs(bakeoff).into_iter().find(|cost| cost.metric == metric).unwrap();
        (cost.ratio.is_ok(), cost.interval.is_ok())
    };
    assert_eq!(of(&bakeoff, Metric::P99), (true, true));
    for attempt in of_one_cell(&mut bakeoff).filter(|a| block(a) % 2 == 1) {
        let counts = &mut attempt.run.as_mut().unwrap().load.as_mut().unwrap().counts;
        counts.failed = counts.done / 10;
    }
    assert_eq!(of(&bakeoff, Metric::P99), (false, false));
    assert_eq!(of(&bakeoff, Metric::Throughput), (true, true));
}
