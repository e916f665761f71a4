use record::clock::WallAnchor;
use record::command::CommandEnd;
use record::command::{CpuSplit, Recorded};
use record::cpu::{CpuInterval, Rung};
use record::environment::Environment;
use record::run::{RunHeader, RunKind};

use super::*;
use crate::chance::SplitMix;
use crate::gate::GateOutcome;
use crate::paired::Paired;

const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };

/// A side with these times; run `i` began at second `from + i * every`.
fn side(name: &str, times: &[f64], (from, every): (u64, u64)) -> Side {
    let one = |(i, time): (u64, &f64)| Observation {
        condition: WHOLE.to_owned(),
        metric: Metric::Time,
        value: Ok(Value::exact(*time)),
        unix_ns: from + i * every,
        bakeoff: None,
    };
    Side { name: name.to_owned(), observations: (0..).zip(times).map(one).collect(), ..Side::default() }
}

/// scipy 1.17.1: `ttest_ind(a, b, equal_var=False)`.
#[test]
fn the_difference_of_two_samples_is_that_of_welch() {
    let exact = |values: &[f64]| values.iter().map(|v| (*v, *v)).collect::<Vec<_>>();
    let a = exact(&[0.31, 0.12, 0.54, 0.77, 0.45, 0.23]);
    let b = exact(&[0.02, 0.18, 0.33, -0.11, 0.05]);
    let welch = Paired::independent(&a, &b).unwrap();
    assert!((welch.df() - 8.851_380_011_149_832).abs() < 1e-9, "{}", welch.df());
    assert!((welch.p_beyond(0.0) - 0.031_747_063_462_738_6).abs() < 1e-9, "{}", welch.p_beyond(0.0));
    let (low, high) = welch.interval(0.05);
    assert!((low - 0.033_886_352_686_525_234).abs() < 1e-9 && (high - 0.584_780_313_980_141_5).abs() < 1e-9);
    // `ttest_ind(a - 0.05, b, equal_var=False)`, the same with `alternative="greater"`, and statsmodels 0.15:
    // `ttost_ind(a, b, -0.6, 0.6, usevar="unequal")`.
    assert!((welch.p_beyond(0.05) - 0.061_995_048_548_090_22).abs() < 1e-9, "{}", welch.p_beyond(0.05));
    assert!((welch.p_over(0.05) - 0.030_997_524_274_045_11).abs() < 1e-9, "{}", welch.p_over(0.05));
    assert!((welch.p_within(0.6) - 0.020_389_631_798_406_78).abs() < 1e-9, "{}", welch.p_within(0.6));
    // numpy: `median(subtract.outer(a, b))`.
    let member =
        Member { metric: Metric::Time, log_ratios: a.clone(), against: Some(b.clone()), refused: None };
    let center = judge(&[member], RULES)[0].estimate.clone().unwrap().hodges_lehmann.ln();
    assert!((center - 0.28).abs() < 1e-12, "{center}");
    let back = Paired::independent(&b, &a).unwrap();
    assert!((back.mean() + welch.mean()).abs() < 1e-15 && (back.df() - welch.df()).abs() < 1e-12);
}

#[test]
fn four_runs_of_each_side_decide_a_clear_difference_and_three_do_not() {
    let of = |n: usize| {
        let (slow, fast) = ([2.0, 2.01, 1.99, 2.02], [1.0, 1.01, 0.99, 1.0]);
        sides(&[side("a", &slow[..n], (0, 2)), side("b", &fast[..n], (1, 2))], 0, RULES, &[]).pairs.remove(0)
    };
    let four = of(4);
    assert_eq!((four.verdict, four.n), (Verdict::Better, (4, 4)));
    assert!((four.estimate.unwrap().ratio - 0.5).abs() < 0.01);
    let three = of(3);
    assert_eq!((three.verdict, three.runs_needed), (Verdict::Inconclusive, Ok(4)));
    let one = of(1);
    assert_eq!((one.verdict, one.runs_needed), (Verdict::Inconclusive, Ok(4)));
    assert!(one.estimate.is_err() && one.means.0.is_ok());
}

#[test]
fn a_side_that_lost_a_run_claims_nothing() {
    let (slow, mut fast) = (side("a", &[2.0; 6], (0, 2)), side("b", &[1.0; 6], (1, 2)));
    fast.lost.push("01X is invalid: the machine was busy".into());
    let gate = Gate::read_of_any("time not worse by 5%").unwrap();
    let found = sides(&[slow, fast], 0, RULES, &[gate]);
    assert_eq!(found.pairs[0].verdict, Verdict::Inconclusive);
    assert!(found.pairs[0].runs_needed.clone().unwrap_err().reason.contains("busy"));
    assert_eq!(found.gates[0].outcome, GateOutcome::Inconclusive);
    let why = "b claims nothing, because 01X is invalid: the machine was busy.";
    assert!(found.caveats.iter().any(|caveat| caveat == why), "{:?}", found.caveats);
}

#[test]
fn runs_in_sequence_are_named_and_interleaved_ones_are_not() {
    let of = |from: u64| {
        let both = [side("a", &[1.0; 5], (0, 2)), side("b", &[1.0; 5], (from, 2))];
        sides(&both, 0, RULES, &[]).caveats
    };
    assert!(of(1).is_empty(), "{:?}", of(1));
    assert!(of(100)[0].starts_with("All runs of b and of a were measured one side after the other"));
    // One run of the other side in between does not make them alternate.
    assert!(of(8)[0].starts_with("Most runs"), "{:?}", of(8));
    assert!(of(4).is_empty(), "{:?}", of(4));
}

#[test]
fn a_condition_of_one_side_alone_is_named() {
    let with = |name: &str, conditions: &[&str], from: u64| {
        let of = |condition: &&str| {
            let condition = (*condition).to_owned();
            let all = side(name, &[1.0, 1.1, 0.9, 1.0], (from, 2)).observations.into_iter();
            all.map(move |o| Observation { condition: condition.clone(), ..o })
        };
        let observations = conditions.iter().flat_map(of).collect();
        Side { name: name.to_owned(), observations, ..Side::default() }
    };
    let found =
        sides(&[with("old", &["x=1", "x=2"], 0), with("new", &["x=1", "x=3", "x=4"], 1)], 0, RULES, &[]);
    assert_eq!(found.pairs.len(), 1);
    assert_eq!(
        found.caveats,
        ["Only new has x=3 and 1 more: not compared.", "Only old has x=2: not compared."]
    );
}

#[test]
fn gates_of_archived_runs_need_enough_runs_and_know_the_sense_of_the_metric() {
    let outcome = |n: usize, text: &str| {
        let (slow, fast) = ([1.2, 1.21, 1.19, 1.2, 1.22], [1.0, 1.01, 0.99, 1.0, 1.0]);
        let both = [side("base", &fast[..n], (0, 2)), side("head", &slow[..n], (1, 2))];
        sides(&both, 0, RULES, &[Gate::read_of_any(text).unwrap()]).gates[0].outcome
    };
    assert_eq!(outcome(5, "time not worse by 5%"), GateOutcome::Fail);
    assert_eq!(outcome(5, "time not worse by 30%"), GateOutcome::Pass);
    assert_eq!(outcome(3, "time not worse by 5%"), GateOutcome::Inconclusive);
    assert_eq!(outcome(5, "p99 <= 1s"), GateOutcome::Inconclusive, "no side has a p99");
}

/// Welch's test holds for samples of different size and spread; the pooled test would not.
#[test]
fn equal_sides_of_different_spread_are_rarely_called_different() {
    let (families, mut wrong) = (1_000_u32, 0);
    for family in 0..families {
        let mut chance = SplitMix(u64::from(family) << 8 | 0x21);
        let mut draw =
            |n: usize, sd: f64| -> Vec<f64> { (0..n).map(|_| (sd * chance.normal()).exp()).collect() };
        let both = [side("a", &draw(5, 0.2), (0, 2)), side("b", &draw(15, 0.05), (1, 2))];
        let found = sides(&both, 0, Rules { rope_ratio: 0.0, ..RULES }, &[]);
        wrong += u32::from(found.pairs[0].verdict != Verdict::Inconclusive);
    }
    println!("seed 0x21: {wrong} of {families} equal pairs are called different");
    assert!(wrong <= 64, "{wrong}: 5 % and two standard errors are 64");
}

/// A recorded command that ended like this after some seconds; the run began at `second`.
fn recorded(second: u64, seconds: f64, end: CommandEnd) -> Run {
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns: second * 1_000_000_000 };
    let header = RunHeader::running(RunKind::Record, anchor, "make".into(), "make".into()).ended(None);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let window = CpuInterval {
        from_ns: 0,
        until_ns: (seconds * 1e9) as u64,
        rung: Rung::Proc,
        missed_deadline: false,
        cpus: Vec::new(),
        psi_some_ratio: Err(Missing::because("not read")),
        lost: BTreeMap::new(),
    };
    let unread = || Missing::because("not read");
    let recorded = Recorded {
        end,
        window: Ok(window),
        by_events_ns: Err(unread()),
        interrupted_ns: Err(unread()),
        by_proc_ns: Err(unread()),
        by_rusage: Ok(CpuSplit { user_ns: 1_000_000_000, system_ns: 0 }),
    };
    Run { recorded: Some(recorded), ..Run::unmeasured(header, Environment::default()) }
}

/// A command that dies early takes less time than one that does its work.
#[test]
fn commands_that_failed_are_no_fast_runs() {
    for end in [CommandEnd::Code(1), CommandEnd::Signal(11)] {
        for failed in [1, 5] {
            let (mut old, mut new) = (side("old", &[], (0, 1)), side("new", &[], (0, 1)));
            for i in 0..5 {
                old.add_run(&recorded(2 * i, 60.0 + 0.01 * i as f64, CommandEnd::Code(0)));
                let end = if i < failed { end } else { CommandEnd::Code(0) };
                new.add_run(&recorded(2 * i + 1, 2.0 + 0.01 * i as f64, end));
            }
            let gate = Gate::read_of_any("time not worse by 5%").unwrap();
            assert_eq!(new.lost.len(), usize::try_from(failed).unwrap());
            let found = sides(&[old, new.clone()], 0, RULES, &[gate]);
            assert!(found.pairs.iter().all(|pair| pair.verdict == Verdict::Inconclusive), "{found:?}");
            assert_eq!(found.gates[0].outcome, GateOutcome::Inconclusive);
            assert!(new.lost[0].contains(if end == CommandEnd::Code(1) { "code 1" } else { "signal 11" }));
        }
    }
}

fn stored(comparison: &Comparison) -> Run {
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
    let header = RunHeader::running(RunKind::Compare, anchor, "compare".into(), "compare".into()).ended(None);
    let environment = Environment { facts: comparison.facts(), ..Environment::default() };
    Run { series: comparison.samples("h"), ..Run::unmeasured(header, environment) }
}

/// Two values of one run share its noise: a run that is 10 % slower makes both so.
#[test]
fn one_command_twice_in_a_comparison_gives_no_second_value_of_a_condition() {
    let of_run = |time: f64, names: [(&str, Option<&str>); 2]| {
        let rounds = vec![vec![time, time * 1.001]; 13];
        let mut comparison = crate::commands::tests::comparison(Phase::Measured, &rounds);
        for (command, (text, level)) in comparison.commands.iter_mut().zip(names) {
            command.text = text.into();
            command.parameters.extend(level.map(|level| ("level".to_owned(), level.to_owned())));
        }
        stored(&comparison)
    };
    for (names, conditions) in [
        ([("x", None), ("x", None)], ["x", "x #2"]),
        ([("x", Some("1")), ("x", Some("9"))], ["x (level=1)", "x (level=9)"]),
    ] {
        let side = |name: &str, times: [f64; 2]| {
            let mut side = Side { name: name.into(), ..Side::default() };
            for time in times {
                side.add_run(&of_run(time, names));
            }
            side
        };
        let found = sides(&[side("base", [1.0, 1.001]), side("head", [1.1, 1.101])], 0, RULES, &[]);
        let times: Vec<&SidePair> = found.pairs.iter().filter(|pair| pair.metric == Metric::Time).collect();
        assert_eq!(times.iter().map(|pair| pair.condition.as_str()).collect::<Vec<_>>(), conditions);
        assert!(times.iter().all(|pair| pair.n == (2, 2) && pair.verdict == Verdict::Inconclusive));
        let history = crate::history::of_comparison(&of_run(1.0, names)).observed;
        let subjects: BTreeSet<&str> = history.iter().map(|o| o.key.subject.as_str()).collect();
        assert_eq!(subjects.len(), 2, "{subjects:?}");
    }
}

#[test]
fn a_command_that_failed_in_a_round_has_no_time_among_sides_or_in_a_history() {
    let mut comparison = crate::commands::tests::comparison(Phase::Measured, &vec![vec![60.0, 2.0]; 13]);
    comparison.commands[1].text = "y".into();
    comparison.rounds[7].turns[1].end = CommandEnd::Code(1);
    let run = stored(&comparison);
    let mut side = Side::default();
    side.add_run(&run);
    let time = |condition: &str| side.of(condition, Metric::Time)[0].value.clone();
    assert!(time("x").is_ok());
    assert!(time("y").is_err_and(|why| why.reason.contains("1 of 13 rounds")));
    let history = crate::history::of_comparison(&run);
    assert!(history.observed.iter().all(|o| o.key.subject == "compare: x"), "{:?}", history.observed);
    assert_eq!(history.left_out.len(), 2);
}

/// Each bake-off has its own level, with a spread of 3 %; its 6 trials differ by 0.5 %. No side is better.
#[test]
fn trials_of_several_bake_offs_are_no_independent_values() {
    let pairs = 300;
    let verdicts = |each: usize, are_told_apart: bool| {
        let mut chance = SplitMix(0x55);
        let mut draw = |name: &str, from: u64| {
            let mut trials = Vec::new();
            for bakeoff in 0..each {
                let level = 0.03 * chance.normal();
                let times: Vec<f64> = (0..6).map(|_| (level + 0.005 * chance.normal()).exp()).collect();
                let of = side(name, &times, (from + 100 * bakeoff as u64, 1)).observations.into_iter();
                trials.extend(of.map(|o| Observation { bakeoff: Some(bakeoff), ..o }));
            }
            let bakeoffs = if are_told_apart { each } else { 1 };
            Side { name: name.into(), observations: trials, bakeoffs, ..Side::default() }
        };
        let is_decided = |_: &u32| {
            let found = sides(&[draw("a", 0), draw("b", 50)], 0, Rules { rope_ratio: 0.0, ..RULES }, &[]);
            found.pairs[0].verdict != Verdict::Inconclusive
        };
        (0..pairs).filter(is_decided).count()
    };
    for each in [2, 4, 5] {
        let found = verdicts(each, true);
        println!("{each} bake-offs: {found} of {pairs} pairs decided");
        assert!(found <= 22, "{each}: {found}; 5 % and two standard errors are 22");
    }
    let naive = verdicts(2, false);
    println!("2 bake-offs: {naive} of {pairs} pairs decided if trials were independent");
    assert!(naive > 75, "the simulation can tell a rule that is wrong: {naive}");
    assert_eq!(verdicts(3, true), 0, "three values of each side are too few");
}

#[test]
fn a_gate_of_archived_runs_counts_runs() {
    let both = [side("a", &[1.0, 1.1], (0, 2)), side("b", &[1.0, 1.1], (1, 2))];
    for (text, why) in [
        ("time <= 2s", "too few runs for a gate: 2 of 6"),
        ("time not worse by 5%", "too few runs: 2 and 2; a gate needs 4 of each"),
    ] {
        let gate = sides(&both, 0, RULES, &[Gate::read_of_any(text).unwrap()]).gates.remove(0);
        assert_eq!(gate.unit.word(), "run");
        assert_eq!(gate.comparisons[0].why.as_ref().unwrap().reason, why);
    }
}

/// Values of one more condition.
fn with_another(side: Side, condition: &str) -> Side {
    let more = side.observations.iter().map(|o| Observation { condition: condition.into(), ..o.clone() });
    Side { observations: side.observations.iter().cloned().chain(more).collect(), ..side }
}

#[test]
fn a_gate_passes_no_side_that_lacks_a_condition_of_another() {
    let equal = [1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99, 1.0];
    let base = || with_another(side("base", &equal, (0, 2)), "y");
    let head = || side("head", &equal, (1, 2));
    let of =
        |all: &[Side], text: &str| sides(all, 0, RULES, &[Gate::read_of_any(text).unwrap()]).gates.remove(0);
    for text in ["time not worse by 5%", "time <= 2s"] {
        let whole = [base(), with_another(head(), "y")];
        assert_eq!(of(&whole, text).outcome, GateOutcome::Pass, "{text}");
        let gate = of(&[base(), head()], text);
        assert_eq!(gate.outcome, GateOutcome::Inconclusive, "{text}");
        let of_y =
            gate.comparisons.iter().find(|c| c.configuration["side"] == "head" && !c.levels.is_empty());
        assert_eq!(of_y.unwrap().why.as_ref().unwrap().reason, "no run of head has time here");
        // A third side without the metric does not vanish among those that have it.
        let none = Side { name: "third".into(), ..Side::default() };
        assert_eq!(of(&[base(), with_another(head(), "y"), none], text).outcome, GateOutcome::Inconclusive);
    }
}
