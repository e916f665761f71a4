use super::*;
use crate::chance::SplitMix;

const ALPHA: f64 = 0.05;
const SIMULATED: usize = 2_000;

fn sample(i: usize, values: impl IntoIterator<Item = (f64, f64)>) -> Sample {
    Sample {
        configuration: Levels::from([("configuration".to_owned(), i.to_string())]),
        levels: Levels::new(),
        ends: values.into_iter().collect(),
        against: None,
        refused: None,
    }
}

fn exact(values: &[f64]) -> Vec<Sample> {
    vec![sample(0, values.iter().map(|v| (*v, *v)))]
}

fn result(gate: &str, samples: Vec<Sample>) -> GateResult {
    judged((Gate::read(gate).unwrap(), Replicate::Block), samples, None, ALPHA, 3)
}

fn found(gate: &str, values: &[f64]) -> GateOutcome {
    result(gate, exact(values)).found
}

/// Shares of simulated gates that pass and that fail; each has `comparisons` of `blocks` blocks.
fn rates(
    gate: &str,
    (comparisons, blocks): (usize, usize),
    draw: impl Fn(&mut SplitMix, usize) -> f64,
) -> (f64, f64) {
    let mut chance = SplitMix(17);
    let (mut passes, mut fails) = (0, 0);
    for _ in 0..SIMULATED {
        let one = |i: usize, chance: &mut SplitMix| {
            let values: Vec<f64> = (0..blocks).map(|_| draw(chance, i)).collect();
            sample(i, values.into_iter().map(|v| (v, v)))
        };
        let samples = (0..comparisons).map(|i| one(i, &mut chance)).collect();
        match result(gate, samples).found {
            GateOutcome::Pass => passes += 1,
            GateOutcome::Fail => fails += 1,
            GateOutcome::Inconclusive => {}
        }
    }
    let rates = (f64::from(passes) / SIMULATED as f64, f64::from(fails) / SIMULATED as f64);
    println!("{gate}, {comparisons} comparisons of {blocks} blocks: {rates:?} pass and fail, seed 17");
    rates
}

/// `rate` and two standard errors of the simulation.
fn at_most(rate: f64) -> f64 {
    rate + 2.0 * (rate * (1.0 - rate) / SIMULATED as f64).sqrt()
}

#[test]
fn a_truth_on_the_limit_passes_and_fails_at_most_in_its_tail() {
    type Draw = fn(&mut SplitMix, usize) -> f64;
    for (comparisons, blocks) in [(1, 6), (1, 10), (9, 6)] {
        let draws: [(&str, Draw); 4] = [
            ("p99 <= 20ms", |c, _| 0.02 * (0.1 * c.normal()).exp()),
            ("throughput >= 10000/s", |c, _| 1e4 * (0.1 * c.normal()).exp()),
            ("p99 not worse by 5%", |c, _| 1.05 * (0.1 * c.normal()).exp()),
            ("throughput not worse by 5%", |c, _| 0.95 * (0.1 * c.normal()).exp()),
        ];
        for (gate, draw) in draws {
            let (passes, fails) = rates(gate, (comparisons, blocks), draw);
            assert!(passes <= at_most(ALPHA / 2.0), "{gate} passes in {passes}");
            assert!(fails <= at_most(ALPHA / 2.0), "{gate} fails in {fails}");
        }
    }
}

#[test]
fn one_violation_among_many_good_ones_does_not_pass() {
    // One configuration at the limit, eight far below it: only the one decides.
    let draw = |c: &mut SplitMix, i: usize| 0.02 * (0.1 * c.normal()).exp() * if i == 4 { 1.0 } else { 0.5 };
    let (passes, fails) = rates("p99 <= 20ms", (9, 6), draw);
    assert!(passes <= at_most(ALPHA / 2.0), "{passes}");
    assert!(fails <= at_most(ALPHA / 2.0), "{fails}");
}

#[test]
fn heavy_tails_and_two_speeds_on_the_limit_seldom_decide() {
    let heavy =
        |c: &mut SplitMix, _| 0.02 * (0.05 * c.normal() * if c.below(20) == 0 { 10.0 } else { 1.0 }).exp();
    let (passes, fails) = rates("p99 <= 20ms", (1, 8), heavy);
    assert!(passes <= at_most(ALPHA / 2.0) && fails <= at_most(ALPHA / 2.0), "{passes} {fails}");
}

#[test]
fn a_configuration_that_is_20_percent_slower_fails_and_an_equal_one_does_not() {
    let (passes, fails) = rates("throughput not worse by 5%", (1, 6), |c, _| 0.8 * (0.02 * c.normal()).exp());
    assert!(passes == 0.0 && fails > 0.99, "{passes} {fails}");
    let (passes, fails) = rates("throughput not worse by 5%", (1, 6), |c, _| (0.01 * c.normal()).exp());
    assert!(passes > 0.95 && fails == 0.0, "{passes} {fails}");
}

#[test]
fn values_without_any_spread_decide_unless_they_are_the_limit() {
    assert_eq!(found("p99 <= 20ms", &[0.02; 6]), GateOutcome::Inconclusive);
    assert_eq!(found("p99 <= 20ms", &[0.019; 6]), GateOutcome::Pass);
    assert_eq!(found("p99 <= 20ms", &[0.021; 6]), GateOutcome::Fail);
    // 0.95 as a quotient of two numbers differs from the limit by rounding only.
    let ratio = (9_500.0_f64 / 10_000.0).ln().exp();
    assert_eq!(found("throughput not worse by 5%", &[ratio; 8]), GateOutcome::Inconclusive);
}

#[test]
fn five_blocks_decide_nothing_at_five_percent() {
    let result = result("p99 <= 20ms", exact(&[0.001; 5]));
    assert_eq!(result.found, GateOutcome::Inconclusive);
    let why = result.comparisons[0].why.as_ref().unwrap();
    assert_eq!(why.reason, "too few blocks for a gate: 5 of 6");
}

#[test]
fn one_wild_block_does_not_decide() {
    assert_eq!(found("p99 <= 20ms", &[0.015, 0.0151, 0.0149, 0.015, 0.015, 0.3]), GateOutcome::Inconclusive);
}

#[test]
fn a_p99_without_an_upper_end_fails_by_its_lower_end_and_never_passes() {
    let open =
        |low: f64| vec![sample(0, (0..8).map(|i| (low * (1.0 + 0.001 * f64::from(i)), f64::INFINITY)))];
    let slow = result("p99 <= 20ms", open(5.0));
    assert_eq!(slow.found, GateOutcome::Fail);
    assert!(slow.comparisons[0].low.as_ref().is_ok_and(|low| *low > 4.9));
    assert!(slow.comparisons[0].high.is_err() && slow.comparisons[0].value.is_err());
    assert_eq!(result("p99 <= 20ms", open(0.001)).found, GateOutcome::Inconclusive);
    // Half of the blocks have an end; the others do not.
    let mixed = sample(0, (0..8).map(|i| (0.001, if i % 2 == 0 { 0.0011 } else { f64::INFINITY })));
    let mixed = result("p99 <= 20ms", vec![mixed]);
    assert_eq!(mixed.found, GateOutcome::Inconclusive);
    assert!(mixed.comparisons[0].low.as_ref().is_ok_and(|low| low.is_finite()));
}

#[test]
fn a_comparison_without_values_stops_the_pass_and_not_the_failure() {
    let lacking = || Sample { refused: Some(Missing::because("no event was done")), ..sample(1, []) };
    let mut samples = exact(&[0.001; 6]);
    samples.push(lacking());
    let passed = result("p99 <= 20ms", samples);
    assert_eq!(passed.found, GateOutcome::Inconclusive);
    assert_eq!(passed.comparisons[1].why.as_ref().unwrap().reason, "no event was done");
    let mut samples = exact(&[1.0; 6]);
    samples.push(lacking());
    assert_eq!(result("p99 <= 20ms", samples).found, GateOutcome::Fail);
}

/// The author accepts noise, not a measurement that is absent.
#[test]
fn a_gate_that_passes_if_inconclusive_does_not_pass_without_a_measurement() {
    let gate = Gate { on_inconclusive: OnInconclusive::Pass, ..Gate::read("p99 <= 20ms").unwrap() };
    let of = |samples: Vec<Sample>, refused: Option<&Missing>| {
        judged((gate, Replicate::Block), samples, refused, ALPHA, 3).outcome
    };
    let lacking = Sample { refused: Some(Missing::because("trials were lost")), ..sample(1, []) };
    assert_eq!(of(vec![lacking], None), GateOutcome::Inconclusive);
    assert_eq!(of(Vec::new(), None), GateOutcome::Inconclusive);
    let open = Missing::because("the bake-off is not over");
    assert_eq!(of(exact(&[0.02; 6]), Some(&open)), GateOutcome::Inconclusive);
    // Values that drift were measured.
    let drifting: Vec<f64> =
        (0..20).map(|i| if i < 10 { 0.001 } else { 1.0 } * (1.0 + 0.001 * f64::from(i))).collect();
    assert_eq!(of(exact(&drifting), None), GateOutcome::Pass);
}

#[test]
fn a_gate_without_comparisons_does_not_pass() {
    assert_eq!(result("p99 not worse by 5%", Vec::new()).found, GateOutcome::Inconclusive);
}

#[test]
fn an_inconclusive_gate_counts_as_its_author_says() {
    let of = |on_inconclusive| {
        let gate = Gate { on_inconclusive, ..Gate::read("p99 <= 20ms").unwrap() };
        judged((gate, Replicate::Block), exact(&[0.02; 6]), None, ALPHA, 3).outcome
    };
    assert_eq!(of(OnInconclusive::Fail), GateOutcome::Fail);
    assert_eq!(of(OnInconclusive::Pass), GateOutcome::Pass);
    assert_eq!(of(OnInconclusive::Inconclusive), GateOutcome::Inconclusive);
    // A failure that the data show is a failure whatever the author says.
    let gate = Gate { on_inconclusive: OnInconclusive::Pass, ..Gate::read("p99 <= 20ms").unwrap() };
    assert_eq!(judged((gate, Replicate::Block), exact(&[1.0; 6]), None, ALPHA, 3).outcome, GateOutcome::Fail);
}

/// `lock-cpu` of 50 % against 80 % is 30 points; memory that grows by 100 % against 109 %, 9 points.
#[test]
fn gates_on_shares_are_in_points_however_large_the_shares_are() {
    let found = |text: &str, a: f64, b: f64| {
        let ends = |share: f64, i: i32| (share + 1e-4 * f64::from(i % 3)).exp();
        let ratios = (0..8).map(|i| (ends(a, i) / ends(b, 2 * i), ends(a, i) / ends(b, 2 * i)));
        let paired = result(text, vec![sample(0, ratios)]).found;
        let values = |share: f64, by: i32| (0..8).map(move |i| (ends(share, by * i), ends(share, by * i)));
        let against = Sample { against: Some(values(b, 2).collect()), ..sample(0, values(a, 1)) };
        assert_eq!(result(text, vec![against]).found, paired);
        paired
    };
    assert_eq!(found("memory-growth not worse by 5%", 1.09, 1.0), GateOutcome::Fail);
    assert_eq!(found("memory-growth not worse by 10%", 1.09, 1.0), GateOutcome::Pass);
    assert_eq!(found("lock-cpu not worse by 29%", 0.8, 0.5), GateOutcome::Fail);
    assert_eq!(found("lock-cpu not worse by 31%", 0.8, 0.5), GateOutcome::Pass);
    let share = |text: &str| result(text, exact(&[0.5_f64.exp(), 0.5001_f64.exp()].repeat(4))).found;
    assert_eq!(share("lock-cpu <= 49%"), GateOutcome::Fail);
    assert_eq!(share("lock-cpu <= 51%"), GateOutcome::Pass);
}

#[test]
fn values_that_are_worth_one_decide_nothing_and_the_reason_says_so() {
    // Ten of 10 ms, ten of 150 ms: their interval is 200 us to 7 s, and 10 s lies outside.
    let mut chance = SplitMix(2);
    let level = |i: usize| if i < 10 { 0.01 } else { 0.15 } * (0.02 * chance.normal()).exp();
    let values: Vec<f64> = (0..20).map(level).collect();
    for gate in ["p99 <= 10s", "p99 <= 100us"] {
        let result = result(gate, exact(&values));
        let one = &result.comparisons[0];
        let span = one.high.clone().unwrap() / one.low.clone().unwrap();
        assert!(result.found == GateOutcome::Inconclusive && span > 1e3, "{gate}: {one:?}");
        let why = &one.why.as_ref().unwrap().reason;
        assert_eq!(why, "the values drift or change their level: 20 blocks are worth fewer than 3");
    }
    // The same two levels in turns are worth as many as there are.
    let turns: Vec<f64> = (0..20).map(|i| values[i / 2 + i % 2 * 10]).collect();
    assert_eq!(found("p99 <= 10s", &turns), GateOutcome::Pass);
}

/// The truth is on the limit: whatever the gate says is wrong. The rates are in docs/validation.md.
#[test]
fn a_gate_on_a_machine_that_drifts_seldom_decides_what_is_not_so() {
    for (ar1, blocks, most) in [(0.5, 40, 0.06), (0.9, 40, 0.06)] {
        let mut drift = 0.0;
        let draw = |c: &mut SplitMix, _: usize| {
            drift = ar1 * drift + (1.0_f64 - ar1 * ar1).sqrt() * c.normal();
            0.02 * (0.1 * drift).exp()
        };
        let drift = std::cell::RefCell::new(draw);
        let (passes, fails) = rates("p99 <= 20ms", (1, blocks), |c, i| (*drift.borrow_mut())(c, i));
        assert!(passes <= most && fails <= most, "{ar1}, {blocks}: {passes} {fails}");
    }
}
