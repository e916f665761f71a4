//! Plans with loads that are more than a table and a rate: a cache over event loops, a script, commands with
//! separate rates.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, resume, run};
use load::Stop;
use record::load::{LoadRecord, Workload};

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

/// Executes a plan and returns the load of each trial.
fn loads(text: &str) -> Vec<LoadRecord> {
    let plan = plan::read(text, "plan.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let folder = tempfile::tempdir().expect("there is room for an archive");
    let archive = Archive::open(folder.path()).expect("the archive is ours");
    let mut failures = Vec::new();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Ended { state, reason: Some(reason), .. } = event {
            failures.push(format!("{}: {reason}", state.word()));
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.failed, 0, "{failures:?}");
    let bakeoff = archive.bakeoff(outcome.id).expect("it reads back");
    let runs = bakeoff.attempts.into_iter().filter_map(|attempt| attempt.run);
    let loads: Vec<LoadRecord> = runs.filter_map(|run| run.load).collect();
    assert_eq!(u32::try_from(loads.len()).ok(), Some(plan.estimate().trials), "{failures:?}");
    for load in &loads {
        assert!(load.counts.balance() && load.counts.done > 0, "{:?}", load.counts);
        assert_eq!(load.counts.failed, 0, "{:?}", load.error_samples);
    }
    loads
}

struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_plan_drives_a_cache_over_event_loops() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memcached.sock");
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-s"]).arg(&socket).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        println!("skipped: memcached is not installed (apt-get install memcached)");
        return;
    };
    let mut server = Memcached(child);
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert_eq!(server.0.try_wait().unwrap(), None, "it ended before it listened");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let loads = loads(&format!(
        r#"
schema = 1
title = "a cache"
[factors.connections]
values = [8, 40]
level = "sub-plot"
[design]
blocks = 2
[load]
target = "memcached+unix:{}"
keys = 500
sizes = "100-200:1"
mix = "get=50,set=50"
verify = true
threads = 2
connections = "{{connections}}"
rate = 500
max_errors = "100%"
[phases]
warm-up = {{ min = "100ms" }}
measure = {{ time = "300ms", interval = "100ms" }}
[observe]
instruments = []
"#,
        socket.display()
    ));
    for load in loads {
        assert_eq!(load.settings.workload, Workload::Kv);
        assert!(matches!(load.connected, Ok(8 | 40)), "{:?}", load.connected);
        assert!(load.outcomes["hit"] > 0 && load.outcomes["stored"] > 0, "{:?}", load.outcomes);
    }
}

#[test]
fn a_plan_does_what_its_script_says() {
    let loads = loads(
        r#"
schema = 1
title = "a script"
[design]
blocks = 2
[load]
target = "sqlite:{scratch}/x.db"
script = '''
\set n random(1, :limit)
SELECT :n + 1;
'''
define = "limit=10"
rate = 200
[phases]
setup = { run = "touch {scratch}/x.db" }
prepare = "none"
warm-up = { min = "0s" }
measure = { time = "300ms", interval = "100ms" }
[observe]
instruments = []
"#,
    );
    for load in loads {
        assert_eq!(load.settings.workload, Workload::Script);
        let selects: u64 = load.operations.values().map(|o| o.service.known.count()).sum();
        assert_eq!(selects, load.counts.done, "{:?}", load.operations.keys());
    }
}

#[test]
fn a_plan_offers_arrivals_that_say_their_rates() {
    let loads = loads(
        r#"
schema = 1
title = "a ramp"
[design]
blocks = 2
[load]
target = "null:"
arrivals = "ramp:100-300"
threads = 2
late = "pace=2x"
[phases]
warm-up = { min = "0s" }
measure = { time = "1s", interval = "500ms" }
[observe]
instruments = []
"#,
    );
    for load in loads {
        assert_eq!(load.counts.planned, 200);
    }
}

/// The search takes many loads, and the request comes in the first of them.
#[test]
fn a_request_to_stop_after_the_trial_ends_a_search_after_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let text = format!(
        r#"
schema = 1
title  = "A promise"
[design]
blocks = 1
[load]
target  = "exec:sh -c 'touch {}; sleep 0.01'"
threads = 1
rate    = {{ slo = "p90<100ms" }}
[phases]
prepare = "none"
warm-up = {{ min = "50ms" }}
measure = {{ time = "500ms" }}
"#,
        begun.display()
    );
    let plan = plan::read(&text, "test.toml").unwrap();
    let archive = Archive::open(&folder.path().join("archive")).unwrap();
    // Stops the search in its first load.
    let stopped = |conduct: &(dyn Fn(&Stop) -> Outcome + Sync)| {
        let (stop, is_over) = (Stop::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.exists() && !is_over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                stop.request_after_trial();
            });
            let outcome = conduct(&stop);
            is_over.store(true, Ordering::SeqCst);
            outcome
        })
    };
    let outcome = stopped(&|stop| run(&plan, &archive, &BESIDE, stop, &mut |_| {}).unwrap());
    std::fs::remove_file(&begun).unwrap();
    let again = stopped(&|stop| resume(&archive, outcome.id, &BESIDE, stop, &mut |_| {}).unwrap());
    assert!(begun.exists(), "the search began again");
    let journal = archive.dir().join(format!("bakeoffs/{}/events.jsonl", outcome.id));
    let journal = std::fs::read_to_string(journal).unwrap();
    let count = |step: &str| journal.matches(&format!("\"step\":\"{step}\"")).count();
    assert_eq!((count("series-prepare"), count("rate-found")), (2, 0), "{journal}");
    assert_eq!((outcome.planned, again.planned), (1, 1));
}
