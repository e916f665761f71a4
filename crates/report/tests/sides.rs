//! Archived runs against each other: what they measured, and what differs between them.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use bakeoff_report::differing::{Difference, Properties, Subjects, differing, unlike};
use record::bakeoff::Bakeoff;
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
        titles.iter().for_each(|title| subjects.add_run(&recorded(title)));
        subjects
    };
    // Two sides may have different commands: they are compared.
    assert_eq!(unlike(&[("a", &side(&["old x", "old x"])), ("b", &side(&["new x"]))]), None);
    let why = unlike(&[("a", &side(&["x"])), ("b", &side(&["gzip x", "true"]))]).expect("two commands");
    assert_eq!(why, "the runs of b recorded different commands: gzip x, true");
}
