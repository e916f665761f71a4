//! Simulated bake-offs with known truth, by the thousand: cells without runs, judged by the code that judges
//! real ones. Each test prints its seed and its result.
//!
//! The truths are adverse on purpose: events in flight, heavy tails, a machine of two speeds, slow trials
//! that fall out, order effects, noise that groups of configurations share, one configuration noisier than
//! the others, luck that a series keeps through all its conditions.
//!
//! A test allows the promised rate and two standard errors of the simulation: for a rate of 5 % in 2,000
//! families one standard error is 0.5 points.

use std::collections::BTreeSet;

use record::bakeoff::{Levels, Metric};
use record::clock::WallAnchor;
use record::run::RunId;

use crate::cell::{BlockValue, Cell, Seen};
use crate::chance::SplitMix;
use crate::contest::{Contest, Field, contests, judged as judge_contests};
use crate::judge::{Judged, Rules, Verdict, blocks_needed, judge};
use crate::metric::Value;
use crate::power::{self, Design};

const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 3 };

/// Outcome of a simulated trial.
#[derive(Debug, Clone)]
enum Trial {
    Sealed(Value),
    FellOut,
}

/// Position of a trial in the design.
#[derive(Debug, Clone, Copy)]
struct Place {
    block: u32,
    configuration: usize,
    condition: usize,
    /// Position of its series within the block, from 0.
    position: usize,
    /// The family's number, the seed of all draws that its trials share.
    luck: u64,
}

impl Place {
    /// A standard normal draw that all trials of the family with these `parts` share.
    fn shared<const N: usize>(self, parts: [usize; N]) -> f64 {
        let mut chance = SplitMix(self.luck);
        for part in parts {
            chance = SplitMix(chance.next() ^ part as u64);
        }
        chance.normal()
    }
}

/// The shape of a simulated design.
#[derive(Debug, Clone, Copy)]
struct Shape {
    blocks: u32,
    configurations: usize,
    conditions: usize,
    metrics: usize,
}

impl Shape {
    fn comparisons(self) -> usize {
        (self.configurations - 1) * self.conditions * self.metrics
    }

    /// Judges one bake-off; `measure` yields each trial. Pairs are in order of metric, condition,
    /// configuration.
    fn judged(
        self,
        rules: Rules,
        chance: &mut SplitMix,
        mut measure: impl FnMut(&mut SplitMix, usize, Place) -> Trial,
    ) -> Vec<(Contest, Judged)> {
        let luck = chance.next();
        let name = |kind: &str, i: usize| Levels::from([(kind.to_owned(), i.to_string())]);
        let orders: Vec<Vec<usize>> =
            (0..self.blocks).map(|_| shuffled(self.configurations, chance)).collect();
        let mut metrics: Vec<(Metric, Vec<Cell>)> = Vec::new();
        for metric in 0..self.metrics {
            let mut cells = Vec::new();
            for condition in 0..self.conditions {
                for configuration in 0..self.configurations {
                    let mut levels = name("configuration", configuration);
                    levels.extend(name("condition", condition));
                    let trials = (1..).zip(&orders).map(|(block, order)| {
                        let position = order.iter().position(|c| *c == configuration).expect("it is there");
                        let place = Place { block, configuration, condition, position, luck };
                        (block, measure(chance, metric, place))
                    });
                    cells.push(cell(levels, trials.collect(), rules.alpha));
                }
            }
            metrics.push((Metric::Throughput, cells));
        }
        let fields = metrics.iter().map(|(metric, cells)| Field {
            metric: *metric,
            cells: cells.iter().collect(),
            conditions: (0..self.conditions).map(|i| name("condition", i)).collect(),
            compared: (0..self.configurations).map(|i| name("configuration", i)).collect(),
            is_slopes: false,
        });
        judge_contests(contests(fields, &name("configuration", 0)).0, rules)
    }
}

fn shuffled(n: usize, chance: &mut SplitMix) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, chance.below(i + 1));
    }
    order
}

fn cell(levels: Levels, trials: Vec<(u32, Trial)>, alpha: f64) -> Cell {
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
    let (mut values, mut fell_out) = (Vec::new(), BTreeSet::new());
    for (block, trial) in trials {
        match trial {
            Trial::Sealed(value) => {
                values.push(BlockValue {
                    block,
                    series: block,
                    run: RunId::new(anchor, 0),
                    value: Ok(value),
                });
            }
            Trial::FellOut => {
                fell_out.insert(block);
            }
        }
    }
    let seen = Seen { fell_out, ..Seen::default() };
    Cell::with(levels, Metric::Throughput, values, &seen, alpha)
}

fn sealed(ln: f64) -> Trial {
    Trial::Sealed(Value::exact(ln.exp()))
}

/// Families simulated per truth.
const FAMILIES: usize = 2_000;
/// Families per truth with 63 comparisons, which are slow; at 5 % the standard error is 0.7 points.
const LARGE_FAMILIES: usize = 1_000;

/// Share of `families` bake-offs in which any pair has a verdict that `is_false` rejects.
fn rate_of_false(
    what: &str,
    shape: Shape,
    families: usize,
    seed: u64,
    measure: impl Fn(&mut SplitMix, usize, Place) -> Trial,
    is_false: impl Fn(Verdict) -> bool,
) -> f64 {
    rate_of_wrong(what, shape, (families, seed), measure, |(_, judged)| is_false(judged.verdict))
}

/// Share of simulated bake-offs in which `is_wrong` holds for any pair.
fn rate_of_wrong(
    what: &str,
    shape: Shape,
    (families, seed): (usize, u64),
    measure: impl Fn(&mut SplitMix, usize, Place) -> Trial,
    is_wrong: impl Fn(&(Contest, Judged)) -> bool,
) -> f64 {
    let mut chance = SplitMix(seed);
    let has_wrong = |_: &usize| shape.judged(RULES, &mut chance, &measure).iter().any(&is_wrong);
    let rate = (0..families).filter(has_wrong).count() as f64 / families as f64;
    println!("{what}: {:.1} % of {families} families, seed {seed}, {shape:?}", 100.0 * rate);
    rate
}

/// 5 % and two standard errors.
fn limit(families: usize) -> f64 {
    0.05 + 2.0 * standard_error(0.05, families)
}

/// Standard error of a share found in that many families.
fn standard_error(share: f64, families: usize) -> f64 {
    (share * (1.0 - share) / families as f64).sqrt()
}

fn is_difference(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

fn is_any(verdict: Verdict) -> bool {
    verdict != Verdict::Inconclusive
}

const SMALL: Shape = Shape { blocks: 6, configurations: 3, conditions: 3, metrics: 1 };

/// Draws from a block's number and a seed: the same for every trial in the block.
fn of_block(seed: u64, place: Place) -> SplitMix {
    let mut chance = SplitMix(seed ^ u64::from(place.block) << 32);
    chance.next();
    chance
}

#[test]
fn configurations_that_do_not_differ_are_seldom_found_to_on_any_machine() {
    /// Name of a truth, and the log of the value that a trial measures.
    type Truth = (&'static str, fn(&mut SplitMix, Place) -> f64);
    let truths: [Truth; 6] = [
        ("normal noise", |c, _| 0.02 * c.normal()),
        // One trial in twenty is ten times as far off as the others.
        ("heavy tails", |c, _| 0.02 * c.normal() * if c.below(20) == 0 { 10.0 } else { 1.0 }),
        // Student's t with two degrees of freedom has infinite variance.
        ("no variance", |c, _| {
            let squares = c.normal().powi(2).midpoint(c.normal().powi(2));
            0.02 * c.normal() / squares.sqrt()
        }),
        // A tenth of all trials runs at two thirds of the speed.
        ("two speeds", |c, _| 0.01 * c.normal() - if c.below(10) == 0 { 0.4 } else { 0.0 }),
        // Half of all blocks run at half of the speed, and the first measurement in a block is 5 % slower.
        ("order and drift", |c, place| {
            let slow = of_block(11, place).below(2) == 0;
            0.02 * c.normal() - if slow { 0.7 } else { 0.0 } - if place.position == 0 { 0.05 } else { 0.0 }
        }),
        // Skewed: rare trials are much slower, none much faster.
        ("skewed", |c, _| -0.02 * (1.5 * c.normal()).exp()),
    ];
    for (i, (what, ln)) in truths.into_iter().enumerate() {
        for shape in [SMALL, Shape { configurations: 2, ..SMALL }, Shape { blocks: 10, ..SMALL }] {
            let seed = 1_000 + i as u64;
            // Ten times the spread, so that the region hides almost no difference.
            let measure = |c: &mut SplitMix, _, p: Place| sealed(10.0 * ln(c, p));
            let rate = rate_of_false(what, shape, FAMILIES, seed, measure, is_difference);
            assert!(rate <= limit(FAMILIES), "{what}: {rate}");
        }
    }
}

/// Noise of one standard deviation, of which `share` is common to trials with the same `parts`.
fn partly_shared<const N: usize>(c: &mut SplitMix, place: Place, share: f64, parts: [usize; N]) -> f64 {
    share.sqrt() * place.shared(parts) + (1.0 - share).sqrt() * c.normal()
}

/// Two groups of two configurations, as on two sockets or with two libraries: each has its own noise in each
/// block.
fn in_groups(c: &mut SplitMix, metric: usize, place: Place, share: f64) -> f64 {
    let parts = [metric, place.condition, place.block as usize, place.configuration / 2];
    0.2 * partly_shared(c, place, share, parts)
}

#[test]
fn configurations_whose_noise_comes_in_groups_are_seldom_found_to_differ() {
    let shape = Shape { blocks: 6, configurations: 4, conditions: 7, metrics: 3 };
    for (share, seed) in [(0.7, 112), (0.9, 113)] {
        let alike = |c: &mut SplitMix, m, place: Place| sealed(in_groups(c, m, place, share));
        let rate =
            rate_of_false(&format!("groups, {share}"), shape, LARGE_FAMILIES, seed, alike, is_difference);
        assert!(rate <= limit(LARGE_FAMILIES), "{share}: {rate}");
        // The other group lies at the edge of the region, so any verdict about it is false.
        let at_edge = |c: &mut SplitMix, m, place: Place| {
            let edge = if place.configuration < 2 { 0.0 } else { RULES.rope_ratio.ln_1p() };
            sealed(edge + 0.03 * in_groups(c, m, place, share))
        };
        let what = format!("groups at the edge, {share}");
        let rate = rate_of_wrong(&what, shape, (LARGE_FAMILIES, seed + 100), at_edge, |(contest, judged)| {
            match contest.a["configuration"].as_str() {
                "1" => is_difference(judged.verdict),
                _ => is_any(judged.verdict),
            }
        });
        assert!(rate <= limit(LARGE_FAMILIES), "{share} at the edge: {rate}");
    }
}

#[test]
fn a_configuration_that_is_noisier_than_the_others_makes_no_false_claim_likelier() {
    let small = Shape { blocks: 12, configurations: 4, conditions: 3, metrics: 1 };
    let many = Shape { blocks: 14, configurations: 8, conditions: 3, metrics: 1 };
    let wide = Shape { blocks: 10, configurations: 8, conditions: 1, metrics: 1 };
    for (shape, noisy, times, seed) in [
        (small, 0, 1.5, 121),
        (small, 1, 1.5, 122),
        (wide, 0, 1.6, 123),
        (wide, 7, 3.0, 124),
        (many, 0, 3.0, 125),
    ] {
        let alike = |c: &mut SplitMix, _, place: Place| {
            sealed(0.2 * c.normal() * if place.configuration == noisy { times } else { 1.0 })
        };
        let rate = rate_of_false(&format!("{noisy} is noisier"), shape, FAMILIES, seed, alike, is_difference);
        assert!(rate <= limit(FAMILIES), "{noisy}, {times} times: {rate}");
    }
}

/// A fresh server per block has its luck (address layout, hash seeds, placement of its memory) in all its
/// measurements.
#[test]
fn luck_that_a_series_takes_through_all_its_conditions_makes_no_false_claim_likelier() {
    let shape = Shape { blocks: 6, configurations: 4, conditions: 7, metrics: 3 };
    for (share, seed) in [(0.5, 131), (0.8, 132)] {
        let alike = |c: &mut SplitMix, _, place: Place| {
            sealed(0.2 * partly_shared(c, place, share, [place.block as usize, place.configuration]))
        };
        let rate =
            rate_of_false(&format!("series, {share}"), shape, LARGE_FAMILIES, seed, alike, is_difference);
        assert!(rate <= limit(LARGE_FAMILIES), "{share}: {rate}");
    }
}

/// Unadjusted, 27 comparisons at the edge hold a false *equivalent* in 78 % of families.
#[test]
fn at_the_edge_of_the_region_any_verdict_is_false_and_rare() {
    for (sd, seed) in [(0.001, 21), (0.004, 22), (0.02, 23)] {
        for shape in [
            Shape { blocks: 6, configurations: 4, conditions: 9, metrics: 1 },
            Shape { blocks: 6, configurations: 2, conditions: 1, metrics: 1 },
        ] {
            let at_edge = |c: &mut SplitMix, _, place: Place| {
                let edge = if place.configuration == 0 { 0.0 } else { RULES.rope_ratio.ln_1p() };
                sealed(edge + sd * c.normal())
            };
            let rate = rate_of_false("at the edge", shape, FAMILIES, seed, at_edge, is_any);
            assert!(rate <= limit(FAMILIES), "sd {sd}: {rate}");
        }
    }
}

/// Pairs that differ leave the family of pairs tested for equivalence; that must not make a false
/// *equivalent* likelier.
#[test]
fn what_is_decided_makes_no_false_equivalence_likelier() {
    let shape = Shape { blocks: 6, configurations: 4, conditions: 4, metrics: 1 };
    for (difference, seed) in [(0.02, 31), (0.04, 32), (0.3, 33)] {
        let mixed = |c: &mut SplitMix, _, place: Place| {
            let true_ln = match place.configuration {
                0 => 0.0,
                1 => RULES.rope_ratio.ln_1p(),
                _ => difference,
            };
            sealed(true_ln + 0.004 * c.normal())
        };
        let is_wrong = |(contest, p): &(Contest, Judged)| match contest.a["configuration"].as_str() {
            "1" => is_any(p.verdict),
            _ => matches!(p.verdict, Verdict::Equivalent | Verdict::Worse),
        };
        let what = format!("half differ by {difference}");
        let rate = rate_of_wrong(&what, shape, (FAMILIES, seed), mixed, is_wrong);
        assert!(rate <= limit(FAMILIES), "{difference}: {rate}");
    }
}

/// One configuration stalls in half of its trials, and a stalled trial is INVALID: the remaining trials look
/// alike.
#[test]
fn survivors_make_no_claim() {
    let shape = Shape { blocks: 18, configurations: 2, conditions: 1, metrics: 1 };
    let stalls = |c: &mut SplitMix, _, place: Place| {
        if place.configuration == 1 && c.below(2) == 0 { Trial::FellOut } else { sealed(0.001 * c.normal()) }
    };
    let rate = rate_of_false("survivors", shape, 200, 41, stalls, is_any);
    assert!(rate <= 0.0, "{rate}");
    // The pair reports how often each side fell out, and gives no number that reads like a result.
    let (_, judged) = shape.judged(RULES, &mut SplitMix(42), stalls).remove(0);
    let why = judged.estimate.unwrap_err().reason;
    assert!(why.contains("only the configuration's, in 0 blocks only the reference's"), "{why}");
}

/// Every trial is slow by chance, and slow ones are likelier to fall out; the configurations do not differ.
#[test]
fn trials_that_fall_out_when_they_are_slow_make_no_false_claim() {
    let shape = Shape { blocks: 12, configurations: 2, conditions: 3, metrics: 1 };
    let slow_ones_fall_out = |c: &mut SplitMix, _, _: Place| {
        let ln = 0.03 * c.normal();
        let is_lost = ln < -0.03 && c.below(4) == 0;
        if is_lost { Trial::FellOut } else { sealed(ln) }
    };
    let rate = rate_of_false("missing not at random", shape, FAMILIES, 51, slow_ones_fall_out, is_difference);
    assert!(rate <= limit(FAMILIES), "{rate}");
    // Only one configuration loses its slow trials: survivors look 1.3 % faster than they are.
    let one_sided = |c: &mut SplitMix, m, place: Place| {
        if place.configuration == 0 { sealed(0.03 * c.normal()) } else { slow_ones_fall_out(c, m, place) }
    };
    let rate = rate_of_false("missing on one side", shape, FAMILIES, 52, one_sided, is_difference);
    assert!(rate <= limit(FAMILIES), "{rate}");
}

/// A trial that both sides lost in the same block carries no information about a difference: the other blocks
/// are judged.
#[test]
fn a_block_that_both_lost_stops_no_claim() {
    let shape = Shape { blocks: 8, configurations: 2, conditions: 1, metrics: 1 };
    let outage = |c: &mut SplitMix, _, place: Place| match place {
        Place { block: 3, .. } => Trial::FellOut,
        Place { configuration: 1, .. } => sealed(0.3 + 0.01 * c.normal()),
        _ => sealed(0.01 * c.normal()),
    };
    let (contest, judged) = shape.judged(RULES, &mut SplitMix(61), outage).remove(0);
    assert_eq!((contest.blocks.len(), judged.verdict), (7, Verdict::Better));
}

/// A closed loop ends with events in flight. Counting them at their elapsed time, or leaving them out, makes
/// one side's p99 look better than it is. The truth lies in the bracket, and the verdict holds wherever it
/// lies.
#[test]
fn values_that_are_known_to_a_bracket_make_no_false_claim() {
    let shape = Shape { blocks: 8, configurations: 2, conditions: 3, metrics: 1 };
    for (width, seed) in [(0.000_8, 71), (0.01, 72), (0.1, 73)] {
        // One side's truth lies at the top of its bracket, the other's at the bottom: no difference at all.
        let censored = |c: &mut SplitMix, _, place: Place| {
            let truth = 0.005 * c.normal();
            let (low, high) =
                if place.configuration == 1 { (truth - width, truth) } else { (truth, truth + width) };
            Trial::Sealed(Value { low: low.exp(), high: high.exp(), unjudged: None })
        };
        let rate = rate_of_false("in flight", shape, FAMILIES, seed, censored, is_difference);
        assert!(rate <= limit(FAMILIES), "{width}: {rate}");
    }
    // A bracket that is narrow compared with the region costs no verdict.
    let narrow = |c: &mut SplitMix, _, place: Place| {
        let ln = 0.001 * c.normal() + if place.configuration == 1 { 0.2 } else { 0.0 };
        Trial::Sealed(Value { low: ln.exp(), high: (ln + 0.000_8).exp(), unjudged: None })
    };
    let pairs = shape.judged(RULES, &mut SplitMix(74), narrow);
    assert!(pairs.iter().all(|(_, p)| p.verdict == Verdict::Better), "{pairs:?}");
}

/// 32 connections of a closed loop, stopped at a fixed time: the 32 events in flight are longer than most,
/// because a long one is likelier to be in flight. p99 of the ended events reads 0 to 4 % low; the bracket
/// holds the true one.
#[test]
fn a_closed_loop_that_is_stopped_has_its_true_p99_in_the_bracket() {
    use record::histogram::{CensoredHistogram, Histogram};
    let mut chance = SplitMix(81);
    let mut inside = 0;
    for _ in 0..20 {
        let (mut all, mut latency) = (Histogram::new(), CensoredHistogram::default());
        for _ in 0..32 {
            let mut now_ns = 0;
            while now_ns < 600_000_000 {
                // Pareto with a tail of 1.2: a finite mean and infinite variance.
                let uniform = ((chance.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut off below")]
                let ns = (200_000.0 * uniform.powf(-1.0 / 1.2)).min(1e12) as u64;
                all.record(ns);
                match now_ns + ns {
                    end if end <= 600_000_000 => latency.known.record(ns),
                    _ => latency.at_least.record(600_000_000 - now_ns),
                }
                now_ns += ns;
            }
        }
        let value = crate::metric::p99_of(&latency, 0).unwrap();
        let (low, high) = all.bucket_of_rank((all.count() * 99).div_ceil(100)).unwrap();
        inside += usize::from(value.low <= high as f64 * 1e-9 && low as f64 * 1e-9 <= value.high);
        assert!(value.high.is_finite() && value.unjudged.is_none());
    }
    assert_eq!(inside, 20);
}

/// The power promised before the run is found in simulation: plans of six shapes, one true difference in each
/// family; independent trials, and series that share most of their noise over all conditions and metrics.
#[test]
fn promised_power_is_found() {
    let plans = [
        Shape { blocks: 6, configurations: 2, conditions: 1, metrics: 1 },
        Shape { blocks: 6, configurations: 2, conditions: 3, metrics: 2 },
        Shape { blocks: 6, configurations: 4, conditions: 7, metrics: 3 },
        Shape { blocks: 8, configurations: 3, conditions: 3, metrics: 1 },
        Shape { blocks: 12, configurations: 2, conditions: 4, metrics: 1 },
        Shape { blocks: 14, configurations: 3, conditions: 2, metrics: 2 },
    ];
    for (shape, seed) in plans.into_iter().zip(90..) {
        let design = Design {
            blocks: shape.blocks,
            comparisons: u32::try_from(shape.comparisons()).unwrap(),
            alpha: RULES.alpha,
        };
        let promised_sd = power::detectable_sd(&design).unwrap();
        let families = if shape.comparisons() > 10 { 2_000 } else { 4_000 };
        for share in [0.0, 0.8] {
            let found = found_of(shape, promised_sd, share, families, seed);
            println!(
                "{shape:?}, {share} shared: {promised_sd:.2} SD promised at 80 %, found in {:.1} % of {families}, seed \
                 {seed}",
                100.0 * found
            );
            let simulation = 2.0 * standard_error(power::POWER, families);
            assert!((found - power::POWER).abs() <= 0.03 + simulation, "{shape:?}: {found}");
        }
    }
}

/// Share of families in which a single difference of `difference_sd` standard deviations is found.
fn found_of(shape: Shape, difference_sd: f64, share: f64, families: usize, seed: u64) -> f64 {
    // Noise of each side; the log ratio of two has the root of 2 times that. The region is narrow beside it:
    // a wide region keeps blocks on one side of 0, and more is found than promised.
    let sd = 0.2;
    let difference = RULES.rope_ratio.ln_1p() + difference_sd * sd * 2.0_f64.sqrt();
    let one_differs = |c: &mut SplitMix, metric, place: Place| {
        let differs = metric == 0 && place.condition == 0 && place.configuration == 1;
        let noise = sd * partly_shared(c, place, share, [place.block as usize, place.configuration]);
        sealed(noise + if differs { difference } else { 0.0 })
    };
    let mut chance = SplitMix(seed);
    let is_found = |_: &usize| shape.judged(RULES, &mut chance, one_differs)[0].1.verdict == Verdict::Better;
    (0..families).filter(is_found).count() as f64 / families as f64
}

/// The number of blocks needed is a promise too: for a difference and for equivalence, of a single pair.
#[test]
fn blocks_needed_decide_in_eight_of_ten() {
    use crate::judge::Member;
    for (mean, sd, seed) in [(0.0, 0.02, 101), (0.004, 0.01, 102), (0.03, 0.02, 103), (0.04, 0.03, 104)] {
        // A pair of six blocks with exactly this mean and spread.
        let shape = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0].map(|s| mean + sd * s * (5.0_f64 / 6.0).sqrt());
        let judged = judge(&[Member::exact(Metric::Throughput, &shape)], RULES).remove(0);
        assert_eq!(judged.verdict, Verdict::Inconclusive, "mean {mean} sd {sd}");
        let blocks = blocks_needed(&judged, 1, RULES).unwrap();
        let families = 4_000;
        let decided = |blocks: u32| {
            let mut chance = SplitMix(seed);
            let is_decided = |_: &usize| {
                let drawn: Vec<f64> = (0..blocks).map(|_| mean + sd * chance.normal()).collect();
                // Past 20 blocks the sign-flip test draws 100,000 times; the t test alone decides there.
                if blocks <= 12 {
                    return is_any(judge(&[Member::exact(Metric::Throughput, &drawn)], RULES)[0].verdict);
                }
                let paired = crate::paired::Paired::of(&drawn).unwrap();
                let edge = RULES.rope_ratio.ln_1p();
                paired.p_beyond(edge) <= RULES.alpha || paired.p_within(edge) <= RULES.alpha / 2.0
            };
            (0..families).filter(is_decided).count() as f64 / families as f64
        };
        let (enough, too_few) = (decided(blocks), decided(blocks - 1));
        println!(
            "mean {mean}, sd {sd}: {blocks} blocks decide {:.1} %, one fewer {:.1} %, seed {seed}",
            100.0 * enough,
            100.0 * too_few
        );
        // Three points on either side of 80 %, and two standard errors of the simulation.
        let slack = 0.03 + 2.0 * standard_error(power::POWER, families);
        assert!(enough >= power::POWER - slack && too_few <= power::POWER + slack, "mean {mean} sd {sd}");
    }
}
