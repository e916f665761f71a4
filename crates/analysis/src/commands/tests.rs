use record::commands::Compared;

use super::*;
use crate::chance::SplitMix;
use crate::gate::GateOutcome;

/// A comparison of commands with these `times` by round, in seconds.
pub(crate) fn comparison(phase: Phase, times: &[Vec<f64>]) -> Comparison {
    let commands = times.first().map_or(2, Vec::len);
    let turn = |(command, time_s): (usize, &f64)| Turn {
        command,
        t_ms: 0,
        end: CommandEnd::Code(0),
        time_s: *time_s,
        user_s: time_s / 2.0,
        system_s: 0.0,
        events_s: Err(Missing::because("not measured")),
        instructions: Err(Missing::because("not measured")),
        memory: Peak::Bytes(1e6),
        minor_faults: 100,
        major_faults: 1,
        left: 0,
    };
    let round = |(number, times): (u32, &Vec<f64>)| Round {
        number,
        phase,
        turns: times.iter().enumerate().map(turn).collect(),
    };
    Comparison {
        commands: vec![Compared { text: "x".into(), parameters: [].into() }; commands],
        reference: 0,
        rules: record::commands::Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1, gates: Vec::new() },
        rounds_planned: u32::try_from(times.len()).unwrap(),
        settings: [].into(),
        rounds: (1..).zip(times).map(round).collect(),
    }
}

/// Rounds in which B takes `ratio` of the time of A, with noise of 1 %.
fn rounds(n: u32, ratio: f64) -> Vec<Vec<f64>> {
    (0..n).map(|i| vec![0.1 * (1.0 + 0.01 * f64::from(i % 3)), 0.1 * ratio]).collect()
}

#[test]
fn the_ratio_is_that_of_the_times_and_faster_is_better() {
    let results = commands(&comparison(Phase::Measured, &rounds(12, 0.5)), None);
    let [pair] = &results.pairs[..] else { panic!("one pair") };
    assert_eq!((pair.a, pair.b, pair.verdict), (1, 0, Verdict::Better));
    // By hand: the geometric mean of 1, 1.01 and 1.02 is 1.009967.
    assert!((pair.estimate.as_ref().unwrap().ratio * 1.009_967 - 0.5).abs() < 1e-6);
    assert_eq!(
        commands(&comparison(Phase::Measured, &rounds(12, 2.0)), None).pairs[0].verdict,
        Verdict::Worse
    );
    assert_eq!(results.rounds, 12);
    assert!((results.summaries[1].cpu.clone().unwrap().0 - 0.025).abs() < 1e-12);
    assert!((results.summaries[0].faults.clone().unwrap() - 101.0).abs() < 1e-12);
}

#[test]
fn warm_up_pilot_and_half_a_round_are_no_part_of_the_verdict() {
    let mut comparison = comparison(Phase::Measured, &rounds(12, 1.0));
    let before = commands(&comparison, None);
    for (phase, number) in [(Phase::WarmUp, 90), (Phase::Pilot, 91), (Phase::Measured, 92)] {
        let mut round = comparison.rounds[0].clone();
        (round.phase, round.number) = (phase, number);
        round.turns[0].time_s = 50.0;
        if phase == Phase::Measured {
            round.turns.truncate(1);
        }
        comparison.rounds.push(round);
    }
    assert_eq!(commands(&comparison, None), before);
}

#[test]
fn a_comparison_that_was_stopped_claims_nothing_however_clear_it_is() {
    let why = Missing::because("stopped");
    let mut clear = comparison(Phase::Measured, &rounds(12, 0.5));
    clear.rules.gates = vec![Gate::read_of_commands("time not worse by 5%").unwrap()];
    assert_eq!(commands(&clear, None).gates[0].outcome, GateOutcome::Pass);
    let results = commands(&clear, Some(why.clone()));
    assert_eq!(results.pairs[0].verdict, Verdict::Inconclusive);
    assert_eq!(results.pairs[0].rounds_needed, Err(why));
    assert_eq!(results.gates[0].outcome, GateOutcome::Inconclusive);
    let few = commands(&comparison(Phase::Measured, &rounds(5, 0.5)), None);
    assert_eq!((few.pairs[0].verdict, few.pairs[0].rounds_needed.clone()), (Verdict::Inconclusive, Ok(6)));
    let none = commands(&comparison(Phase::Pilot, &rounds(9, 0.5)), None);
    assert!(
        none.pairs[0].estimate.is_err()
            && none.summaries[0].time.is_err()
            && none.summaries[0].memory.is_err()
    );
}

#[test]
fn gates_judge_time_and_cpu_time_and_a_cpu_time_of_zero_decides_nothing() {
    let mut comparison = comparison(Phase::Measured, &rounds(12, 1.2));
    let gates = ["time not worse by 5%", "cpu not worse by 30%", "time <= 500ms", "cpu >= 1s"];
    comparison.rules.gates = gates.map(|text| Gate::read_of_commands(text).unwrap()).into();
    let outcomes: Vec<GateOutcome> = commands(&comparison, None).gates.iter().map(|g| g.outcome).collect();
    assert_eq!(outcomes, [GateOutcome::Fail, GateOutcome::Pass, GateOutcome::Pass, GateOutcome::Fail]);
    comparison.rounds[3].turns[1].user_s = 0.0;
    let results = commands(&comparison, None);
    assert_eq!(results.gates[1].outcome, GateOutcome::Inconclusive);
    assert_eq!(results.gates[0].outcome, GateOutcome::Fail);
}

#[test]
fn a_bound_of_memory_is_not_a_value() {
    let known = Peak::Bytes(3e6);
    assert_eq!(larger(known, Peak::AtMost(2e6)), known);
    assert_eq!(larger(Peak::AtMost(4e6), known), Peak::AtMost(4e6));
}

/// `testdata/rounds.py` computes the numbers with scipy.
#[test]
fn the_number_of_rounds_is_that_of_scipys_distributions() {
    let pilot = |log_ratios: &[f64]| -> Comparison {
        let times: Vec<Vec<f64>> = log_ratios.iter().map(|d| vec![0.1, 0.1 * d.exp()]).collect();
        comparison(Phase::Pilot, &times)
    };
    let noisy = [0.05, 0.02, 0.08, -0.01, 0.06, 0.03, 0.09, 0.04];
    assert_eq!(rounds_to_measure(&pilot(&noisy), 2_000), 104);
    // The three plausible means take 218, 300 (as many as fit) and 63 rounds.
    let close: Vec<f64> = (0..8).map(|i| -(0.01 * f64::from(i % 3)).ln_1p()).collect();
    assert_eq!(rounds_to_measure(&pilot(&close), 300), 300);
}

#[test]
fn a_clear_difference_takes_few_rounds_and_a_close_one_all_that_fit() {
    let planned = |ratio: f64| rounds_to_measure(&comparison(Phase::Pilot, &rounds(8, ratio)), 300);
    assert_eq!(planned(0.3), ROUNDS_MIN);
    assert_eq!(planned(1.0), 300, "the edge of 1 % is within what the pilot leaves plausible");
    assert!(planned(0.9) < 60, "{}", planned(0.9));
    // A pilot of two rounds says nothing about the noise.
    assert_eq!(rounds_to_measure(&comparison(Phase::Pilot, &rounds(2, 0.3)), 300), 300);
    assert_eq!(rounds_to_measure(&comparison(Phase::Pilot, &rounds(8, 0.3)), 4), 4);
    assert_eq!(rounds_to_measure(&comparison(Phase::Pilot, &rounds(8, 0.3)), 0), 2);
}

/// `count` comparisons of 100 rounds on a drifting machine: a first-order autoregression of 0.9 around 1 s.
fn drifting(count: u64) -> impl Iterator<Item = Comparison> {
    (0..count).map(|seed| {
        let mut chance = SplitMix(seed << 8 | 0x71);
        let mut now = chance.normal();
        let times: Vec<Vec<f64>> = (0..100)
            .map(|_| {
                let time = (0.05 * now).exp();
                now = 0.9 * now + (1.0_f64 - 0.81).sqrt() * chance.normal();
                vec![time]
            })
            .collect();
        let mut comparison = comparison(Phase::Measured, &times);
        comparison.rules.gates = vec![Gate::read_of_commands("time <= 1s").unwrap()];
        comparison
    })
}

/// The limit is the truth: any decision is false. With rounds taken as independent, six of ten decide.
#[test]
fn a_limit_on_a_drifting_machine_seldom_decides_and_has_the_interval_of_the_table() {
    let (all, mut decided) = (400, 0);
    for comparison in drifting(all) {
        let found = commands(&comparison, None);
        decided += u32::from(found.gates[0].found != GateOutcome::Inconclusive);
        let (low, high) = found.summaries[0].time.as_ref().unwrap().interval.unwrap();
        let of_gate = &found.gates[0].comparisons[0];
        let (gate_low, gate_high) = (of_gate.low.clone().unwrap(), of_gate.high.clone().unwrap());
        assert!((gate_low / low - 1.0).abs() < 1e-12 && (gate_high / high - 1.0).abs() < 1e-12);
    }
    println!("{decided} of {all} gates decide with the truth on their limit");
    // The interval holds the truth in at least 90 % (mean.rs); two standard errors of 10 % in 400 are 3 %.
    assert!(decided <= 52, "{decided} of {all}");
}

#[test]
fn a_gate_does_not_pass_over_a_command_that_fails() {
    let outcomes = |of: usize, gate: &str, failed: usize| {
        let mut all = comparison(Phase::Measured, &rounds(12, 0.5));
        all.rules.gates = vec![Gate::read_of_commands(gate).unwrap()];
        all.rounds[..failed].iter_mut().for_each(|round| round.turns[of].end = CommandEnd::Code(1));
        let result = commands(&all, None).gates.remove(0);
        let outcomes: Vec<GateOutcome> = result.comparisons.iter().map(|c| c.outcome).collect();
        (outcomes, result.comparisons.last().unwrap().why.as_ref().map(|why| why.reason.clone()))
    };
    let (pass, undecided) = (GateOutcome::Pass, GateOutcome::Inconclusive);
    let why = |letter: &str, n: u32| Some(format!("{letter}: the command failed in {n} of 12 rounds"));
    assert_eq!(outcomes(1, "time not worse by 5%", 0), (vec![pass], None));
    assert_eq!(outcomes(1, "time not worse by 5%", 1), (vec![undecided], why("B", 1)));
    // Of a relative gate, the reference counts too.
    assert_eq!(outcomes(0, "time not worse by 5%", 12), (vec![undecided], why("A", 12)));
    assert_eq!(outcomes(1, "time <= 1s", 2), (vec![pass, undecided], why("B", 2)));
    assert_eq!(outcomes(0, "time <= 1s", 2), (vec![undecided, pass], None));
    assert_eq!(outcomes(1, "cpu not worse by 5%", 3), (vec![undecided], why("B", 3)));
}

/// B crashes at once and is `faster`.
#[test]
fn failures_of_one_command_alone_allow_no_claim_and_those_of_both_do() {
    let with = |failed_by: [usize; 2]| {
        let mut comparison = comparison(Phase::Measured, &rounds(12, 0.5));
        for round in &mut comparison.rounds {
            for (turn, rounds) in round.turns.iter_mut().zip(failed_by) {
                if round.number as usize <= rounds {
                    turn.end = CommandEnd::Signal(11);
                }
            }
        }
        commands(&comparison, None).pairs.remove(0)
    };
    for (failed, why) in [
        ([0, 12], "B failed in 12 of 12 rounds and A in 0"),
        ([1, 0], "B failed in 0 of 12 rounds and A in 1"),
    ] {
        let pair = with(failed);
        assert_eq!(pair.verdict, Verdict::Inconclusive, "{failed:?}");
        assert!(pair.rounds_needed.unwrap_err().reason.starts_with(why) && pair.estimate.is_err());
    }
    assert_eq!(with([12, 12]).verdict, Verdict::Better);
}

/// Two commands that each become slower and faster by themselves: their ratio resembles that of the round
/// before, and 100 rounds are worth some five.
#[test]
fn a_ratio_that_wanders_is_told_and_widens_verdict_and_gate() {
    let wandering = |seed: u64| -> Vec<Vec<f64>> {
        let mut chance = SplitMix(seed);
        let mut now = [0.3 * chance.normal(), 0.3 * chance.normal()];
        let mut round = |_| {
            now = now.map(|at| 0.9 * at + 0.19_f64.sqrt() * 0.3 * chance.normal());
            now.iter().map(|ln| 0.1 * ln.exp()).collect()
        };
        (0..100).map(&mut round).collect()
    };
    let (mut verdicts, mut decided, all) = (0, 0, 40);
    for seed in 0..all {
        let mut comparison = comparison(Phase::Measured, &wandering(seed));
        // The truth lies on its limit, so that every decision is false.
        let gate = Gate::read_of_commands("time not worse by 5%").unwrap();
        comparison.rules.gates = vec![Gate { rule: GateRule::NotWorseBy { ratio: 1e-9 }, ..gate }];
        let results = commands(&comparison, None);
        let pair = &results.pairs[0];
        let neighbors = pair.estimate.as_ref().unwrap().neighbors.expect("the ratio wanders");
        assert!((0.6..=0.95).contains(&neighbors), "{neighbors}");
        verdicts += u64::from(pair.verdict != Verdict::Inconclusive);
        decided += u64::from(results.gates[0].found != GateOutcome::Inconclusive);
    }
    println!("{verdicts} verdicts and {decided} decisions of a gate of {all}, all false");
    assert!(verdicts.max(decided) <= 5, "{verdicts} {decided}");
    // Independent rounds stay as they were.
    let mut chance = SplitMix(3);
    let times: Vec<Vec<f64>> = (0..40).map(|_| vec![0.1, 0.1 * (0.02 * chance.normal()).exp()]).collect();
    let results = commands(&comparison(Phase::Measured, &times), None);
    let estimate = results.pairs[0].estimate.as_ref().unwrap();
    assert_eq!((estimate.neighbors, estimate.df.to_bits()), (None, 39.0_f64.to_bits()));
}
