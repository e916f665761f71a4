use std::sync::Arc;

use record::run::RunId;

use super::divisive::changes;
use super::effect::{all, sizes};
use super::energy::Energy;
use super::memory::candidate_levels;
use super::step::best_step;
use super::*;
use crate::chance::SplitMix;
use crate::judge::Rules;
use crate::mean::{lag_1, unbiased};

mod newest;
mod setting;
mod spread;

const ALPHA: f64 = 0.01;

/// Autoregressive noise of standard deviation 1.
fn red(chance: &mut SplitMix, n: usize, ar1: f64) -> Vec<f64> {
    let mut now = chance.normal();
    let next = |_| {
        let value = now;
        now = ar1 * now + (1.0 - ar1 * ar1).sqrt() * chance.normal();
        value
    };
    (0..n).map(next).collect()
}

fn changed(seeds: u64, make: impl Fn(&mut SplitMix) -> Vec<f64>, is: impl Fn(&[usize]) -> bool) -> usize {
    let found = |seed| {
        let values = make(&mut SplitMix(7 * seed + 1));
        changes(&values, ALPHA, seed).iter().map(|found| found.at).collect::<Vec<_>>()
    };
    (0..seeds).filter(|seed| is(&found(*seed))).count()
}

#[test]
fn noise_with_a_memory_rarely_changes() {
    // 100 series each; the rates over more series are in docs/validation.md.
    for (n, ar1, most) in [(40, 0.0, 4), (40, 0.5, 6), (100, 0.0, 4), (100, 0.5, 5), (100, 0.8, 7)] {
        let wrong = changed(100, |chance| red(chance, n, ar1), |at| !at.is_empty());
        assert!(wrong <= most, "{n} values, {ar1}: {wrong} of 100");
    }
}

#[test]
fn a_step_of_two_deviations_is_found_where_it_is() {
    let step = |chance: &mut SplitMix| {
        let mut values = red(chance, 60, 0.0);
        values[30..].iter_mut().for_each(|v| *v += 2.0);
        values
    };
    let found = changed(60, step, |at| at.len() == 1 && at[0].abs_diff(30) <= 4);
    assert!(found >= 52, "{found} of 60");
}

#[test]
fn a_level_that_moves_and_moves_back_has_two_changes() {
    let bump = |chance: &mut SplitMix| {
        let mut values = red(chance, 90, 0.0);
        values[30..60].iter_mut().for_each(|v| *v += 2.0);
        values
    };
    let found = changed(40, bump, |at| at.len() == 2 && at[0].abs_diff(30) <= 4 && at[1].abs_diff(60) <= 4);
    assert!(found >= 32, "{found} of 40");
}

#[test]
fn spikes_and_heavy_tails_are_no_changes() {
    let spikes = |chance: &mut SplitMix| {
        let mut values = red(chance, 80, 0.0);
        values[20] += 1e3;
        values[21] += 1e3;
        values[60] -= 50.0;
        values
    };
    let wrong = changed(100, spikes, |at| !at.is_empty());
    assert!(wrong <= 4, "{wrong} of 100 with spikes");
    let heavy =
        |chance: &mut SplitMix| (0..80).map(|_| chance.normal() / chance.normal().abs().max(1e-3)).collect();
    let wrong = changed(100, heavy, |at| !at.is_empty());
    assert!(wrong <= 4, "{wrong} of 100 with heavy tails");
}

#[test]
fn few_equal_or_rounded_values_have_no_change() {
    assert!(changes(&[], ALPHA, 1).is_empty() && changes(&[1.0; 300], ALPHA, 1).is_empty());
    let ten: Vec<f64> = (0..10).map(|i| if i < 5 { 0.0 } else { 100.0 }).collect();
    assert!(changes(&ten, ALPHA, 1).is_empty(), "ten values are too few");
    // Rounded to few levels: many ties.
    let rounded = |chance: &mut SplitMix| red(chance, 80, 0.0).iter().map(|v| v.round()).collect();
    let wrong = changed(60, rounded, |at| !at.is_empty());
    assert!(wrong <= 3, "{wrong} of 60");
    // All but one value are equal, and a clean step has no noise at all.
    let mut one = vec![5.0; 50];
    one[20] = 6.0;
    assert!(changes(&one, ALPHA, 1).is_empty());
    let step: Vec<f64> = (0..50).map(|i| if i < 25 { 5.0 } else { 6.0 }).collect();
    assert_eq!(changes(&step, ALPHA, 1).iter().map(|c| c.at).collect::<Vec<_>>(), [25]);
}

#[test]
fn one_seed_gives_one_answer() {
    let values = red(&mut SplitMix(3), 80, 0.5);
    assert_eq!(changes(&values, 0.5, 9), changes(&values, 0.5, 9));
}

#[test]
fn an_interval_holds_its_difference_as_often_as_it_says() {
    for (ar1, least) in [(0.0, 182), (0.5, 176)] {
        let holds = |seed: &u64| {
            let mut values = red(&mut SplitMix(*seed), 80, ar1);
            values[40..].iter_mut().for_each(|v| *v += 3.0);
            let known = vec![divisive::Found { at: 40, p: 0.002 }];
            let sized = sizes(&values, known, 0.0)[0];
            (sized.interval.0..=sized.interval.1).contains(&3.0)
        };
        let held = (0..200).filter(holds).count();
        assert!(held >= least, "{ar1}: {held} of 200");
    }
}

fn point(at_s: u64, value: f64, facts: &[(&str, &str)]) -> Observed {
    let facts = Arc::new(facts.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    Observed {
        key: Key { metric: "p99".into(), subject: "x".into(), host: "h".into(), numbers: Numbers::Ours },
        point: Point {
            at_unix_ns: at_s * 1_000_000_000,
            run: RunId::new(record::clock::WallAnchor { monotonic_ns: 0, unix_ns: at_s }, 1),
            host: "h".into(),
            version: None,
            value,
            interval: Ok((value, value)),
            facts,
        },
    }
}

const RULES: Rules = Rules { rope_ratio: 0.01, alpha: ALPHA, seed: 1 };

#[test]
fn a_change_of_the_kernel_is_a_break_and_not_a_change() {
    let mut chance = SplitMix(5);
    let value = |i: u64, chance: &mut SplitMix| {
        let level = if i < 30 { 1.0 } else { 1.5 };
        let kernel = if i < 30 { "6.1" } else { "6.12" };
        point(
            i,
            level * (1.0 + 0.02 * chance.normal()),
            &[("kernel.release", kernel), ("memory.bytes", "1000")],
        )
    };
    let observed = (0..60).map(|i| value(i, &mut chance)).collect();
    let found = histories(observed, RULES);
    assert_eq!((found.len(), found[0].breaks.len(), found[0].changes.len()), (1, 1, 0), "{found:?}");
    assert_eq!(found[0].breaks[0].at, 30);
    assert_eq!(found[0].breaks[0].what[0].what, "kernel.release");
}

#[test]
fn a_run_that_does_not_know_its_machine_does_not_hide_a_change_of_it() {
    let value = |i: u64| {
        let kernel = [("kernel.release", if i < 30 { "6.1" } else { "6.12" })];
        // Imported values lie in between, and know nothing.
        point(i, 1.0, if i.is_multiple_of(2) { &kernel } else { &[] })
    };
    let found = histories((0..60).map(value).collect(), RULES);
    let at: Vec<usize> = found[0].breaks.iter().map(|found| found.at).collect();
    assert_eq!(at, [30]);
}

#[test]
fn values_of_any_size_have_an_answer() {
    let of = |values: &[f64]| {
        let observed = values.iter().zip(0..).map(|(value, i)| point(i, *value, &[])).collect();
        histories(observed, RULES).remove(0).changes
    };
    let mut chance = SplitMix(9);
    for unit in [1e-300, 1e-9, 1e300] {
        let step = |i: i32| unit * (if i < 20 { 1.0 } else { 2.0 } + 0.01 * chance.normal());
        let found = of(&(0..40).map(step).collect::<Vec<_>>());
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [20], "in units of {unit}");
        // With one value of 0 there are no logarithms.
        let mut values: Vec<f64> = (0..40).map(|i| if i < 20 { unit } else { 2.0 * unit }).collect();
        values[3] = 0.0;
        assert!(of(&values).iter().all(|change| change.p.is_finite() && change.after.is_finite()));
    }
    let mut extreme = vec![0.0; 40];
    (extreme[5], extreme[6], extreme[20]) = (1e-300, 1e-300, -1e300);
    assert!(of(&extreme).iter().all(|change| change.p.is_finite() && change.after.is_finite()));
}

#[test]
fn a_change_names_what_is_new_with_it() {
    let mut chance = SplitMix(6);
    let value = |i: u64, chance: &mut SplitMix| {
        let (level, governor) = if i < 30 { (1.0, "performance") } else { (1.2, "powersave") };
        let (commit, alternating) = (format!("c{i}"), if i.is_multiple_of(2) { "even" } else { "odd" });
        let facts = [("label.commit", commit.as_str()), ("cpu.governor", governor), ("z", alternating)];
        point(i, level * (1.0 + 0.01 * chance.normal()), &facts)
    };
    let found = histories((0..60).map(|i| value(i, &mut chance)).collect(), RULES);
    let [change] = &found[0].changes[..] else { panic!("{found:?}") };
    assert_eq!(change.at, 30);
    let (ratio, low, high) = change.ratio.clone().unwrap();
    assert!(low < 1.2 && 1.2 < high && (ratio - 1.2).abs() < 0.02, "{change:?}");
    let names: Vec<&str> = change.suspects.iter().map(|s| s.what.as_str()).collect();
    assert_eq!(names, ["cpu.governor", "label.commit"], "a fact that was there before is no suspect");
    assert_eq!(found[0].sense.is_better(change.before, change.after), Some(false));
}

#[test]
fn a_change_below_the_band_is_left_out() {
    let mut chance = SplitMix(7);
    let value = |i: u64, chance: &mut SplitMix| {
        point(i, if i < 40 { 1.0 } else { 1.008 } + 0.001 * chance.normal(), &[])
    };
    let observed: Vec<Observed> = (0..80).map(|i| value(i, &mut chance)).collect();
    assert!(histories(observed.clone(), RULES)[0].changes.is_empty());
    assert_eq!(histories(observed, Rules { rope_ratio: 0.001, ..RULES })[0].changes.len(), 1);
}

#[test]
fn values_that_are_not_positive_have_a_change_without_a_ratio() {
    let mut chance = SplitMix(8);
    let value =
        |i: u64, chance: &mut SplitMix| point(i, if i < 30 { 0.0 } else { 5.0 } + 0.1 * chance.normal(), &[]);
    let found = histories((0..60).map(|i| value(i, &mut chance)).collect(), RULES);
    let [change] = &found[0].changes[..] else { panic!("{found:?}") };
    assert!(change.ratio.is_err() && (change.after - 5.0).abs() < 0.1, "{change:?}");
}

#[test]
fn short_stretches_are_counted_and_one_time_counts_once() {
    let found = histories((0..10).map(|i| point(i, 1.0, &[])).collect(), RULES);
    assert_eq!((found[0].untested, found[0].points.len()), (10, 10));
    let twice = vec![point(1, 1.0, &[]), point(1, 2.0, &[])];
    let found = histories(twice, RULES);
    assert_eq!((found[0].points.len(), found[0].points[0].value), (1, 1.5), "of one run: the mean");
    let mut later = point(1, 3.0, &[]);
    later.point.run = RunId::new(record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 9 }, 2);
    let found = histories(vec![point(1, 1.0, &[]), later], RULES);
    assert_eq!((found[0].points.len(), found[0].points[0].value), (1, 3.0), "of two runs: the later");
    assert!(histories(Vec::new(), RULES).is_empty());
}

/// Values of one time: two versions, a correction of one of them, and the same version under another label.
#[test]
fn a_value_is_replaced_by_one_of_its_time_version_and_labels() {
    let value = |run: u64, version: &str, value: f64, label: &str| {
        let mut one = point(1, value, &[("label.branch", label), ("commit", version)]);
        one.point.version = Some(version.to_owned());
        one.point.run = RunId::new(record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 0 }, run.into());
        one
    };
    let earlier = vec![value(9, "b", 1.0, "main"), value(9, "a", 2.0, "main"), value(9, "a", 5.0, "dev")];
    let newer = vec![value(3, "a", 3.0, "main"), value(3, "b", 1.0, "main"), value(3, "c", 4.0, "main")];
    let found = added(earlier.clone(), newer.clone());
    assert_eq!(found, Added { new: 1, replaced: 1, unchanged: 1 });
    let found = histories([earlier, newer].concat(), RULES);
    let values: Vec<f64> = found[0].points.iter().map(|point| point.value).collect();
    assert_eq!(values, [1.0, 3.0, 5.0, 4.0], "in the order of the first import");
}

#[test]
fn names_tell_which_direction_is_better() {
    for (name, sense) in [
        ("throughput", Sense::More),
        ("p99", Sense::Less),
        ("cpu-per-event", Sense::Less),
        ("requests_per_s", Sense::More),
        ("latency_p50", Sense::Less),
        ("build_ms", Sense::Less),
        ("cpu-time", Sense::Less),
        ("items_per_s", Sense::More),
        ("allocs_per_iter", Sense::Less),
        ("max_used_bytes", Sense::Less),
        ("answer", Sense::Unknown),
        ("operations", Sense::Unknown),
    ] {
        assert_eq!(Sense::of(name), sense, "{name}");
    }
}

/// Values of the known answers: `cos(0.9*i) + 0.5*sin(2.3*i) + (1.5 if i >= 14 else 0) + (0.8 if i >= 29 else
/// 0)` for i of 0 to 39.
fn known() -> Vec<f64> {
    let of = |i: u32| {
        let i = f64::from(i);
        let steps = if i >= 14.0 { 1.5 } else { 0.0 } + if i >= 29.0 { 0.8 } else { 0.0 };
        (0.9 * i).cos() + 0.5 * (2.3 * i).sin() + steps
    };
    (0..40).map(of).collect()
}

fn near(found: f64, known: f64) {
    assert!((found - known).abs() <= 1e-9 * known.abs().max(1.0), "{found} instead of {known}");
}

#[test]
fn statistics_are_those_of_scipy_statsmodels_and_ruptures() {
    // testdata/history.py computed the numbers.
    let values = known();
    let mut energy = Energy::default();
    energy.fill(&values);
    for (at, until, statistic) in [
        (14, 29, 9.966_947_769_084_356),
        (14, 40, 16.612_328_825_183_614),
        (5, 10, -0.086_946_729_512_882_02),
        (29, 40, 7.123_790_524_251_471),
    ] {
        near(energy.statistic(at, until), statistic);
    }
    let best = energy.best_split(&values).unwrap();
    assert_eq!((best.at, best.until), (14, 40));
    near(best.energy, 11.775_940_766_956_54);

    near(lag_1(&values), 0.686_456_733_400_961_8);
    let steps = |values: &[f64]| {
        let fit = candidate_levels(values).fit;
        (1..fit.len()).filter(|i| fit[*i].total_cmp(&fit[i - 1]).is_ne()).collect::<Vec<_>>()
    };
    assert_eq!((steps(&values), steps(&values[..39])), (vec![14, 28], vec![14]));

    let step = best_step(&values, 1.0, &mut Vec::new());
    assert_eq!((step.at, step.ar1), (14, 0.4));
    near(step.ratio, 14.050_577_467_901_7);

    let found = [14, 29].map(|at| divisive::Found { at, p: 0.002 });
    let sized = all(&values, &found);
    for (sized, (difference, low, high)) in sized.iter().zip([
        (1.610_358_369_606_080_8, 0.208_807_418_761_023_82, 3.011_909_320_451_138),
        (0.559_615_174_816_781, -0.920_818_861_196_415, 2.040_049_210_829_977_3),
    ]) {
        near(sized.after - sized.before, difference);
        near(sized.interval.0, low);
        near(sized.interval.1, high);
    }
    near(unbiased(0.370_035_282_287_190_3, 40.0 / 3.0), 0.574_239_073_918_955_2);
}

#[test]
fn the_cpu_time_of_a_record_is_that_of_the_events_which_see_orphans() {
    use record::command::{CommandEnd, CpuSplit, Recorded};
    use record::missing::Missing;
    use record::run::{Run, RunHeader, RunKind};
    let of = |events: Result<u64, Missing>| {
        let anchor = record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 9 };
        let header = RunHeader::running(RunKind::Record, anchor, "a job".into(), "bakeoff record".into());
        let missing = || Missing::because("not watched");
        let recorded = Recorded {
            end: CommandEnd::Code(0),
            window: Err(missing()),
            by_events_ns: events,
            interrupted_ns: Err(missing()),
            by_proc_ns: Err(missing()),
            by_rusage: Ok(CpuSplit { user_ns: 2_000_000, system_ns: 1_010_000 }),
        };
        let run = Run {
            recorded: Some(recorded),
            ..Run::unmeasured(header.ended(None), record::environment::Environment::default())
        };
        let found = of_run(&run).observed;
        let cpu = found.into_iter().find(|one| one.key.metric == "cpu-time").expect("there is one");
        (cpu.point.value, cpu.point.facts["cpu-time.source"].clone())
    };
    assert_eq!(of(Ok(339_000_000)), (0.339, "events".to_owned()));
    assert_eq!(of(Err(Missing::because("no right"))), (0.003_01, "rusage".to_owned()));
}

#[test]
fn more_errors_are_never_better() {
    let sense = [
        ("throughput", Sense::More),
        ("requests_per_s", Sense::More),
        ("score", Sense::More),
        ("errors_per_s", Sense::Less),
        ("failures/s", Sense::Less),
        ("cache_misses_per_second", Sense::Less),
        ("page-faults", Sense::Less),
        ("error", Sense::Less),
        ("timeouts_per_s", Sense::Less),
        ("dropped_per_s", Sense::Less),
        ("throughput_loss", Sense::Unknown),
        ("free_memory_bytes", Sense::Unknown),
        ("uptime_s", Sense::More),
        ("widgets_per_s", Sense::Unknown),
        ("bytes_per_s", Sense::More),
        // Both are in the name, and it does not say which of the two it counts.
        ("latency_ms_at_1000_qps", Sense::Unknown),
        ("errors_score", Sense::Unknown),
        ("cpu_time_per_s", Sense::Unknown),
        ("latency_ms", Sense::Less),
        ("heap", Sense::Unknown),
        ("write_mb_s", Sense::More),
        ("gb_s", Sense::More),
        ("rows_s", Sense::More),
        ("req_s", Sense::More),
        ("speed_mb_s", Sense::More),
        ("errors_s", Sense::Less),
        ("recovery_s", Sense::Less),
        ("wall_s", Sense::Less),
        ("time_to_failure_s", Sense::More),
        ("time_per_request_s", Sense::Less),
        ("cpu_per_query_s", Sense::Less),
        ("time_to_insert_rows_s", Sense::Less),
        ("inserted_rows_s", Sense::More),
        ("capacity_bytes", Sense::More),
        ("latency_reads_s", Sense::Unknown),
        ("duration_inserts_s", Sense::Unknown),
        ("time_requests_s", Sense::Unknown),
        ("throughput_stddev", Sense::Unknown),
        ("latency_stddev", Sense::Less),
    ];
    for (name, expected) in sense {
        assert_eq!(Sense::of(name), expected, "{name}");
    }
    assert_eq!(Sense::of("errors_per_s").is_better(10.0, 100.0), Some(false));
}

/// A run of an import before units were converted: the label describes the number, and 12.5 ms is not 12.5 s.
#[test]
fn an_import_of_an_earlier_version_is_read_in_base_units() {
    use record::run::{Run, RunHeader, RunKind};
    use record::series::Sample;
    let anchor = record::clock::WallAnchor { monotonic_ns: 0, unix_ns: 9 };
    let header = RunHeader::running(RunKind::Import, anchor, "x".into(), "bakeoff history import".into());
    let value = |t_ms: i64, name: &str, labels: &str, value: f64| Sample {
        t_ms,
        host: "h".into(),
        name: name.into(),
        labels: labels.into(),
        value,
    };
    let of = |tool: &str| {
        let facts = [("import.tool".to_owned(), Ok(tool.to_owned()))].into();
        let environment = record::environment::Environment { facts, calibration: Vec::new() };
        let series = vec![
            value(0, "time", "benchmark=x,unit=ms", 12.5),
            value(1, "time", "benchmark=x,unit=s", 0.0126),
            value(2, "heat", "benchmark=x", 3.0),
        ];
        let found = of_import(&Run { series, ..Run::unmeasured(header.clone().ended(None), environment) });
        assert_eq!(found.imported_unix_ns, 0, "it is older than any import that knows its time");
        found.observed.into_iter().map(|one| (one.key.numbers, one.point.value)).collect::<Vec<_>>()
    };
    let of_file = |unit: &str| Numbers::OfFile(unit.to_owned());
    assert_eq!(of("csv"), [(of_file("s"), 0.0125), (of_file("s"), 0.0126), (of_file(""), 3.0)]);
    assert_eq!(of("hyperfine")[2].0, of_file(""), "only the times of a tool are ours");
}

/// Changes and excursions of positive values.
fn told(values: impl Iterator<Item = f64>) -> History {
    histories(values.zip(0..).map(|(value, i)| point(i, value, &[])).collect(), RULES_OF_HISTORY).remove(0)
}

const RULES_OF_HISTORY: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };

#[test]
fn a_claimed_change_never_contradicts_its_interval() {
    type Make = fn(&mut SplitMix, i: usize) -> f64;
    // Noise that grows, noise with a memory in its size, heavy tails, and steps hardly above the band.
    let kinds: [(&str, Make); 4] = [
        ("spread", |c, i| if i < 30 { 0.01 } else { 0.2 } * c.normal()),
        ("small step", |c, i| if i < 30 { 0.0 } else { 0.012 } + 0.01 * c.normal()),
        ("heavy", |c, i| if i < 40 { 0.0 } else { 0.05 } + 0.01 * c.normal() / c.normal().abs().max(0.05)),
        ("bursts", |c, i| if i % 20 < 7 { 0.05 } else { 0.0 } + 0.02 * c.normal()),
    ];
    let (mut claims, mut wrong) = (0, Vec::new());
    for (kind, make) in kinds {
        for seed in 0..16 {
            let mut chance = SplitMix(seed);
            let mut slow = 0.0;
            let value = |i: usize| {
                slow = 0.7 * slow + chance.normal() * 0.01;
                (make(&mut chance, i) + if seed % 2 == 0 { slow } else { 0.0 }).exp()
            };
            let found = told((0..60).map(value).collect::<Vec<_>>().into_iter());
            for change in &found.changes {
                let (ratio, low, high) = change.ratio.clone().unwrap();
                claims += 1;
                if (low..=high).contains(&1.0)
                    || ratio.ln().abs() < 0.009_95
                    || !(low..=high).contains(&ratio)
                {
                    wrong.push((kind, seed, change.at, ratio, low, high));
                }
            }
        }
    }
    assert!(claims >= 20, "{claims} claims are too few for a test");
    assert!(wrong.is_empty(), "{} of {claims}: {wrong:?}", wrong.len());
}

#[test]
fn four_runs_apart_and_back_are_no_two_changes() {
    for seed in 0..4 {
        for (at, length, by) in [(30, 4, 1.3), (30, 2, 1.3), (41, 3, 0.7), (25, 4, 1.06)] {
            let mut chance = SplitMix(seed);
            let value = |i| {
                let level: f64 = if (at..at + length).contains(&i) { by } else { 1.0 };
                level * (1.0 + 0.01 * chance.normal())
            };
            let found = told((0..60).map(value).collect::<Vec<_>>().into_iter());
            let what = format!("{seed}, {at}, {length}, {by}: {:?}, {:?}", found.changes, found.excursions);
            assert!(found.changes.is_empty(), "{what}");
            match &found.excursions[..] {
                [one] => {
                    assert_eq!((one.from, one.until), (at, at + length), "{what}");
                    let (ratio, low, high) = one.ratio.clone().unwrap();
                    assert!((ratio / by - 1.0).abs() < 0.02 && low < by && by < high, "{what}");
                }
                // Two or three values move no level far enough to be found at all.
                none => assert!(none.is_empty() && length < 4, "{what}"),
            }
        }
    }
}

#[test]
fn an_excursion_just_before_the_end_or_after_the_start_is_no_lasting_change() {
    for seed in 0..3 {
        for at in [3, 53] {
            let mut chance = SplitMix(seed);
            let value =
                |i| (if (at..at + 4).contains(&i) { 1.3 } else { 1.0 }) * (1.0 + 0.01 * chance.normal());
            let found = told((0..60).map(value).collect::<Vec<_>>().into_iter());
            let what = format!("{seed}, {at}: {:?}, {:?}", found.changes, found.excursions);
            assert!(found.changes.is_empty() && found.excursions.len() == 1, "{what}");
        }
    }
    // What lasts to the end may last: it is a change.
    let mut chance = SplitMix(1);
    let value = |i| (if i >= 53 { 1.3 } else { 1.0 }) * (1.0 + 0.01 * chance.normal());
    let found = told((0..60).map(value).collect::<Vec<_>>().into_iter());
    assert_eq!((found.changes.len(), found.excursions.len()), (1, 0), "{found:?}");
}

#[test]
fn a_level_that_starts_with_an_excursion_is_one_change_and_one_excursion() {
    let mut chance = SplitMix(4);
    let value = |i| {
        let level = if i < 30 {
            1.0
        } else if i < 34 {
            1.5
        } else {
            1.2
        };
        level * (1.0 + 0.01 * chance.normal())
    };
    let found = told((0..60).map(value).collect::<Vec<_>>().into_iter());
    let at: Vec<usize> = found.changes.iter().map(|change| change.at).collect();
    assert_eq!((at, found.excursions.len()), (vec![34], 1), "{found:?}");
}

#[test]
fn a_drift_without_a_step_is_told() {
    let mut chance = SplitMix(8);
    let noisy: Vec<f64> = (0..60).map(|i| 100.0 + 0.3 * f64::from(i) + chance.normal()).collect();
    let exact: Vec<f64> = (0..60).map(|i| 100.0 + 0.5 * f64::from(i)).collect();
    for (values, last) in [(noisy, 117.7), (exact, 129.5)] {
        let found = told(values.into_iter());
        let [drift] = &found.drifts[..] else { panic!("{:?}, {:?}", found.changes, found.excursions) };
        assert_eq!((drift.from, drift.until, found.changes.len()), (0, 60, 0));
        assert!((drift.before - 100.0).abs() < 1.0 && (drift.after - last).abs() < 1.0, "{drift:?}");
        let (ratio, low, high) = drift.ratio.clone().unwrap();
        assert!(low <= ratio && ratio <= high && low > 1.0 && drift.p < 0.01, "{drift:?}");
        assert!(found.excursions.is_empty(), "the newest runs lie on the line: {:?}", found.excursions);
    }
    let mut chance = SplitMix(9);
    let flat = told((0..60).map(|_| 100.0 + chance.normal()).collect::<Vec<_>>().into_iter());
    assert!(flat.drifts.is_empty() && flat.changes.is_empty(), "{flat:?}");
}
