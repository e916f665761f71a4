//! Levels that are measured, disturbed, hung and resumed, with commands that do no work.

use std::io::Read as _;

use plan::{Bind, Experiment, Scheduler};
use record::clock::WallAnchor;

use super::*;

fn plan(script: &str) -> ScalePlan {
    ScalePlan {
        title: "copies".into(),
        command: ["sh", "-c", script].map(str::to_owned).into(),
        units: Vec::new(),
        copies: vec![3],
        rounds: 1,
        time: Duration::from_millis(1),
        timeout: Duration::from_mins(5),
        bind: Bind::Free,
        cpus: None,
        scheduler: Scheduler::Other,
        observe: false,
        seed: 1,
    }
}

fn unconfined() -> Confined {
    Confined { group: None, mark: crate::random::token() }
}

/// Measures one level of three copies.
fn measured(plan: &ScalePlan, stop: &Stop) -> Result<Measured, Shortfall> {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let ready = Copies::prepare(plan, unconfined(), None, folder.path(), &Stop::new()).unwrap();
    let trial = Experiment::Scale(plan.clone()).trials().remove(0);
    let mut beside = Beside::new(false);
    let mut bench = Bench { stop, beside: &mut beside, folder: folder.path(), anchor: WallAnchor::now() };
    ready.measure(&trial, &mut bench)
}

fn of(measured: &Measured, name: &str) -> Vec<f64> {
    measured.samples.iter().filter(|s| s.name == name).map(|s| s.value).collect()
}

#[test]
fn every_copy_finishes_runs_and_its_rate_is_runs_over_time() {
    let done = measured(&plan("true"), &Stop::new()).unwrap();
    assert_eq!(done.invalid, None);
    let (runs, rates, wall_s) = (of(&done, "runs"), of(&done, "work_per_s"), of(&done, "wall_s")[0]);
    assert_eq!((runs.len(), rates.len(), of(&done, "cpu_s_per_run").len()), (3, 3, 3));
    // The end of a copy's last run lies within the level.
    assert!(runs.iter().zip(&rates).all(|(n, rate)| *n >= 1.0 && n / rate <= wall_s), "{runs:?} {rates:?}");
}

#[test]
fn the_first_copy_that_dies_ends_the_level_for_all_and_is_the_reason() {
    // The others would never end; the third of three dies.
    let script = r#"test "$BAKEOFF_COPIES" = 1 || { test "$BAKEOFF_COPY" = 2 && exit 7; exec sleep 1000; }"#;
    let done = measured(&plan(script), &Stop::new()).unwrap();
    assert_eq!(done.invalid.as_deref(), Some("copy 3 of 3 ended with exit status: 7; it said nothing"));
    assert!(of(&done, "work_per_s").is_empty() && of(&done, "runs") == [0.0; 3]);
}

#[test]
fn who_wants_to_stop_does_not_wait_for_copies() {
    let script = r#"test "$BAKEOFF_COPIES" = 1 || exec sleep 1000"#;
    let stop = Stop::new();
    stop.request();
    assert!(matches!(measured(&plan(script), &stop), Err(Shortfall::Stopped)));
}

#[test]
fn a_command_that_hangs_alone_is_told_before_anything_is_measured() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let hangs = ScalePlan { timeout: Duration::from_millis(20), ..plan("exec sleep 1000") };
    let why =
        Copies::prepare(&hangs, unconfined(), None, folder.path(), &Stop::new()).err().map(|e| e.to_string());
    assert_eq!(
        why.as_deref(),
        Some(
            "the command failed in its first run, before the measurement: it did not end within 20ms \
             (--timeout)"
        )
    );
}

#[test]
fn a_command_that_hangs_alone_is_told_where_each_copy_has_its_own() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("exec sleep 100$BAKEOFF_COPY");
    let hangs = ScalePlan { timeout: Duration::from_millis(20), ..plan };
    let prepared = Copies::prepare(&hangs, unconfined(), None, folder.path(), &Stop::new());
    assert!(prepared.err().is_some_and(|e| e.to_string().contains("did not end within 20ms")));
}

#[test]
fn after_the_end_nobody_starts_and_the_first_reason_stays() {
    let floor = Floor {
        state: Mutex::new(State { running: vec![None; 2], reached: 0, end: None }),
        changed: Condvar::new(),
    };
    // No process has this id, so the signal at the end has no effect.
    let nobody = Pid::from_raw(i32::MAX);
    assert!(floor.enter(0, nobody));
    assert!(!floor.leave(0));
    floor.reached(2);
    assert!(floor.lock().end.is_none(), "one of two has not worked long enough");
    floor.fail("first".into());
    floor.fail("second".into());
    floor.reached(2);
    assert!(!floor.enter(1, nobody) && floor.leave(0));
    assert!(matches!(floor.lock().end.clone(), Some(End::Failed(why)) if why == "first"));
}

#[test]
fn what_copies_leave_behind_is_ended_with_the_level_and_makes_it_invalid() {
    // Every run starts a process that sleeps in its own session, and ends only after that process has left
    // the group: until then, the end of the copy kills it with the group.
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"test "$BAKEOFF_COPIES" = 1 || {{
            left="{}/$$"; mkfifo "$left" || exit 9
            setsid sh -c 'echo >"$0"; exec sleep 1005' "$left" &
            read -r _ <"$left"; }}"#,
        folder.path().display()
    );
    let done = measured(&plan(&script), &Stop::new()).unwrap();
    let invalid = done.invalid.unwrap_or_default();
    assert!(invalid.contains("left the process group of their copy"), "{invalid}");
}

#[test]
fn units_of_different_size_count_by_what_they_take_alone() {
    let folder = tempfile::tempdir().unwrap();
    let units: Vec<String> = [("small", "0.2"), ("big", "1")]
        .map(|(name, seconds)| {
            let path = folder.path().join(name);
            fs::write(&path, seconds).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .into();
    let plan = ScalePlan {
        command: ["sh", "-c", r#"exec sleep "$(cat "$0")""#].map(str::to_owned).into(),
        units,
        copies: vec![2],
        ..plan("")
    };
    let done = measured(&plan, &Stop::new()).unwrap();
    // Each run also takes the time to start a shell, and on a busy machine wakes late: the ratio of 5 gets
    // smaller.
    let weights = of(&done, "unit_work_ratio");
    assert!(weights[0].to_bits() == 1.0_f64.to_bits() && weights[1] > 3.3 && weights[1] < 5.6, "{weights:?}");
    assert!(of(&done, "unit_work_error_ratio")[0] > 0.0);
    let (runs, rates) = (of(&done, "runs"), of(&done, "work_per_s"));
    assert!(runs.iter().all(|n| *n > 0.0) && rates.len() == 2, "{runs:?} {rates:?}");
}

#[test]
fn copies_whose_commands_differ_by_their_number_count_by_what_they_take_alone() {
    // The first sleeps 0.6 s, the third 0.2 s.
    let done = measured(&plan("exec sleep 0.$((6-2*BAKEOFF_COPY))"), &Stop::new()).unwrap();
    let weights = of(&done, "unit_work_ratio");
    assert!(weights.len() == 3 && weights[1] < 0.9 && weights[2] < 0.6, "{weights:?}");
}

#[test]
fn a_resumed_run_keeps_the_weights_that_it_began_with() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("exec sleep 0.0$BAKEOFF_COPY");
    let mut begun = probes::environment::read(Path::new("/"));
    begun.facts.insert(UNIT_WORK.to_owned(), Ok("0.5: 1,7,9".to_owned()));
    let prepare = |begun| Copies::prepare(&plan, unconfined(), begun, folder.path(), &Stop::new()).unwrap();
    let resumed = prepare(Some(&begun));
    assert_eq!(resumed.weights.each, [1.0, 7.0, 9.0]);
    assert_eq!(resumed.facts()[UNIT_WORK], begun.facts[UNIT_WORK]);
}

#[test]
fn a_level_on_other_cpus_than_the_run_began_with_is_invalid() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let plan = ScalePlan { copies: vec![1], ..plan("true") };
    let trial = Experiment::Scale(plan.clone()).trials().remove(0);
    let (here, mut ready) = (copies_of(&plan), copies_of(&plan));
    ready.cpus += 1;
    for (ready, is_valid) in [(here, true), (ready, false)] {
        let (stop, mut beside) = (Stop::new(), Beside::new(false));
        let anchor = WallAnchor::now();
        let mut bench = Bench { stop: &stop, beside: &mut beside, folder: folder.path(), anchor };
        let invalid = ready.measure(&trial, &mut bench).unwrap().invalid.unwrap_or_default();
        assert_eq!(invalid.is_empty(), is_valid, "{invalid}");
        assert!(is_valid || invalid.starts_with("the copies could use "), "{invalid}");
    }
}

#[test]
fn a_run_is_not_resumed_on_other_cpus() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut begun = Environment::default();
    begun.facts.insert(CPUS.to_owned(), Ok("CPUs 0,99".to_owned()));
    let prepared = Copies::prepare(&plan("true"), unconfined(), Some(&begun), folder.path(), &Stop::new());
    let why = prepared.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(why.contains("the copies could use CPUs 0,99 when the run began"), "{why}");
}

#[test]
fn a_copy_that_the_end_of_the_level_stops_leaves_nothing_behind() {
    let _alone = strays::alone();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("ready");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Each of its children reports that it runs, and stays in its group. It needs a CPU to die, and has the
    // lowest priority for one.
    let child = format!(r#"nice -n 19 sh -c 'echo >"{}"; while :; do :; done'"#, fifo.display());
    let script = format!("i=0; while [ $i -lt 30 ]; do {child} & i=$((i+1)); done; wait");
    let (ready, floor) = (copies_of(&plan(&script)), one_copy());
    let log = folder.path().join("log");
    // Also open for writing, so it never reaches its end.
    let mut told = File::options().read(true).write(true).open(&fifo).unwrap();
    for _ in 0..3 {
        // The level ends while the copy starts: it blocks on the lock with all its children.
        let mut door = floor.lock();
        door.end = Some(End::Reached);
        std::thread::scope(|scope| {
            let copy = scope.spawn(|| ready.work(0, 1, &log, &floor));
            told.read_exact(&mut [0; 30]).unwrap();
            drop(door);
            assert_eq!(copy.join().unwrap().runs, 0);
        });
        assert_eq!(ready.confined.end_strays(), Ok(0), "what stays in its group has not left it");
    }
}

fn copies_of(plan: &ScalePlan) -> Copies {
    let (machine, cpus) = machine(plan).unwrap();
    strays::adopt().unwrap();
    Copies {
        confined: unconfined(),
        plan: plan.clone(),
        machine,
        cpus,
        weights: Weights::even(),
        files: BTreeMap::new(),
    }
}

fn one_copy() -> Floor {
    Floor { state: Mutex::new(State { running: vec![None], reached: 0, end: None }), changed: Condvar::new() }
}
