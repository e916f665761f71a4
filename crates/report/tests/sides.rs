//! Archived runs against each other: what they measured, and what differs between them.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use analysis::sides::{Observation, Side, sides};
use analysis::{Rules, Value};
use bakeoff_report::differing::{Difference, Properties, Subjects, differing, unlike};
use bakeoff_report::text::sides_answer;
use record::bakeoff::{Bakeoff, Metric};
use record::clock::WallAnchor;
use record::command::{CommandEnd, Recorded};
use record::environment::Environment;
use record::missing::Missing;
use record::run::{Run, RunHeader, RunKind};
use sample::Recipe;

fn bakeoff(rate_per_s: Option<f64>) -> Bakeoff {
    Recipe { rate_per_s, with_trouble: false, ..Recipe::journal() }.bake()
}

fn subjects(bakeoff: &Bakeoff) -> Subjects {
    let mut subjects = Subjects::default();
    subjects.add_bakeoff(bakeoff);
    subjects
}

/// p99 is response time in an open loop, and service time in a closed one.
#[test]
fn bake_offs_that_measured_different_things_are_not_compared() {
    let (closed, open) = (subjects(&bakeoff(None)), subjects(&bakeoff(Some(500.0))));
    let why = unlike(&[("a", &closed), ("b", &open)]).expect("two loops");
    assert!(
        why.starts_with("these runs measured different things at journal_mode=delete, threads=1: ")
            && why.contains("in a closed loop (a)")
            && why.contains("in an open loop (b)"),
        "{why}"
    );
    assert_eq!(unlike(&[("a", &open), ("b", &subjects(&bakeoff(Some(900.0))))]), None);
    let mut run = Subjects::default();
    bakeoff(None).sealed().take(1).for_each(|(_, of_trial)| run.add_run(of_trial));
    let why = unlike(&[("a", &closed), ("b", &run)]).expect("a bake-off and a load");
    assert!(why.contains("a bake-off (a)"), "{why}");
}

#[test]
fn a_setting_that_all_trials_of_a_bake_off_share_is_one_of_its_properties() {
    let of = |rate: f64| {
        let mut properties = Properties::default();
        properties.add_bakeoff(&bakeoff(Some(rate)));
        properties
    };
    let found = differing(&[("a".into(), of(500.0)), ("b".into(), of(900.0))]);
    let texts: Vec<String> = found.iter().map(Difference::text).collect();
    // The number of threads is a factor, and the same in both.
    assert_eq!(texts, ["rate: 500/s (a), 900/s (b)"]);
}

#[test]
fn different_commands_are_no_runs_of_one_side() {
    let recorded = |title: &str| {
        let unread = || Missing::because("not read");
        let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
        let header = RunHeader::running(RunKind::Record, anchor, title.into(), "record".into()).ended(None);
        let recorded = Recorded {
            end: CommandEnd::Code(0),
            window: Err(unread()),
            by_events_ns: Err(unread()),
            interrupted_ns: Err(unread()),
            by_proc_ns: Err(unread()),
            by_rusage: Err(unread()),
        };
        Run { recorded: Some(recorded), ..Run::unmeasured(header, Environment::default()) }
    };
    let side = |titles: &[&str]| {
        let mut subjects = Subjects::default();
        for title in titles {
            subjects.add_run(&recorded(title));
        }
        subjects
    };
    // Two sides may have different commands: they are compared.
    assert_eq!(unlike(&[("a", &side(&["old x", "old x"])), ("b", &side(&["new x"]))]), None);
    let why = unlike(&[("a", &side(&["x"])), ("b", &side(&["gzip x", "true"]))]).expect("two commands");
    assert_eq!(why, "the runs of b recorded different commands: gzip x, true");
}

/// A side with a spread of 0.1 % in throughput, and with this one in CPU time per event.
fn side(name: &str, spread: f64, from: u64) -> Side {
    let noise = [1.0, -1.0, 0.5, -0.5, 0.8, -0.8, 0.2, -0.2];
    let of = |metric: Metric, spread: f64| {
        (0..).zip(noise).map(move |(i, noise)| Observation {
            condition: String::new(),
            metric,
            value: Ok(Value::exact((spread * noise).exp())),
            unix_ns: from + 2 * i,
            bakeoff: None,
        })
    };
    let observations = of(Metric::Throughput, 0.001).chain(of(Metric::CpuPerEvent, spread)).collect();
    Side { name: name.into(), observations, ..Side::default() }
}

#[test]
fn the_answer_is_no_difference_only_if_that_holds_for_every_metric() {
    let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };
    let answer = |spread: f64| {
        let both = [side("a", spread, 0), side("b", spread, 1)];
        sides_answer(&both, &sides(&both, 0, rules, &[]))
    };
    assert_eq!(answer(0.001), "no difference that matters: within 1 % of a; 1 more comparison");
    let open = answer(0.2);
    assert!(open.starts_with("CPU per event: cannot tell yet: "), "{open}");
    assert!(open.ends_with("; 1 of 2 comparisons cannot be told"), "{open}");
}

/// One metric has a claim; the answer does not pass over the other, which is undecided.
#[test]
fn an_undecided_comparison_beside_a_claim_is_called_undecided() {
    let rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };
    let answer = |spread: f64| {
        let mut both = [side("a", spread, 0), side("b", spread, 1)];
        for one in &mut both[1].observations {
            if one.metric == Metric::Throughput {
                one.value = one.value.clone().map(|value| Value::exact(value.low * 1.5));
            }
        }
        sides_answer(&both, &sides(&both, 0, rules, &[]))
    };
    let open = answer(0.2);
    assert!(
        open.starts_with("b is 50.0 % faster") && open.ends_with("; 1 more comparison, undecided"),
        "{open}"
    );
    assert!(answer(0.001).ends_with("; 1 more comparison"), "{}", answer(0.001));
}
