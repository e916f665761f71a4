//! The example plans: each is read unchanged and executed in its shortened form, to its end.

#![expect(clippy::print_stdout, reason = "a test says what it skips")]

use std::path::{Path, PathBuf};

use archive::Archive;
use bakeoff_runner::{Event, Options, RunnerError, Severity, preflight, run};
use load::Stop;
use plan::Plan;

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

fn example(name: &str) -> Plan {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../plans", name].iter().collect();
    let text = std::fs::read_to_string(&path).expect("the example plans are part of the project");
    plan::read(&text, name).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Executes the shortened plan and expects every trial to be measured.
fn check(name: &str) {
    let plan = example(name).shortened();
    let folder = tempfile::tempdir().expect("there is room for an archive");
    let archive = Archive::open(folder.path()).expect("the archive is ours");
    let mut failures = Vec::new();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Ended { state, reason: Some(reason), .. } = event {
            failures.push(format!("{}: {reason}", state.word()));
        }
    });
    let outcome: Result<_, RunnerError> = outcome;
    let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(outcome.failed, 0, "{name}: {failures:?}");
    assert_eq!(outcome.sealed + outcome.invalid, plan.estimate().trials, "{name}: {failures:?}");
    let bakeoff = archive.bakeoff(outcome.id).expect("it reads back");
    assert_eq!(bakeoff.header.labels["shortened"], "yes");
    assert!(bakeoff.exploratory);
}

#[test]
fn the_journal_modes_of_sqlite_are_compared() {
    check("sqlite-journal.toml");
    check("wal.toml");
}

#[test]
fn the_same_is_compared_with_itself() {
    check("same.toml");
}

/// Executes a plan if its server is installed.
fn check_if_possible(name: &str) {
    let folder = tempfile::tempdir().expect("there is room for an archive");
    let archive = Archive::open(folder.path()).expect("the archive is ours");
    let found = preflight(&example(name), &archive).expect("its targets are targets");
    if let Some(missing) = found.iter().find(|f| f.severity == Severity::Problem) {
        println!("skipped: {name}: {}", missing.text);
        return;
    }
    check(name);
}

#[test]
fn the_allocators_of_mariadb_are_compared() {
    check_if_possible("mariadb-allocators-short.toml");
}

#[test]
fn the_servers_of_the_example_plans_are_measured() {
    for name in ["memcached-threads", "redis-io-threads", "nginx-workers", "schedulers", "instances-bound"] {
        check_if_possible(&format!("{name}.toml"));
    }
}

#[test]
fn the_compilers_are_compared() {
    check_if_possible("compilers.toml");
}

#[test]
fn the_commits_of_postgresql_are_compared() {
    let programs = std::fs::read_dir("/usr/lib/postgresql").map_or(0, Iterator::count);
    if programs == 0 {
        println!("skipped: PostgreSQL is not installed");
        return;
    }
    check_if_possible("postgres-wal.toml");
}

#[test]
fn every_example_plan_is_sound_and_supports_a_claim() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../plans"].iter().collect();
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "compilers.toml",
            "compressors.toml",
            "instances-bound.toml",
            "mariadb-allocators-short.toml",
            "mariadb-allocators.toml",
            "memcached-threads.toml",
            "nginx-workers.toml",
            "postgres-wal.toml",
            "redis-io-threads.toml",
            "same.toml",
            "schedulers.toml",
            "sqlite-journal.toml",
            "wal.toml",
        ],
        "each has a test above; the compressors need programs built before, and scripts/bench-compressors executes \
         them; mariadb-allocators takes hours, and its short form has the same parts"
    );
    for name in &names {
        let plan = example(name);
        assert!(!plan.exploratory(), "{name}");
        assert!(plan.unsupported().is_empty(), "{name}");
        assert!(!plan.question().is_empty(), "{name}");
        assert_eq!(plan.notes(), [], "{name}");
        let (trial, scratch) = (&plan.trials()[0], Path::new("/s"));
        let settings = plan.load_settings(trial, scratch);
        let intervals = settings.time.as_secs_f64() / settings.interval.as_secs_f64();
        // A slope of memory needs 12 readings.
        let reads_memory = plan.instruments().iter().any(|instrument| instrument == "memory");
        assert!(!reads_memory || intervals >= 12.0, "{name}: {intervals}");
        let is_asked = !plan.server_settings(&trial.levels, scratch, 1).is_empty();
        let is_verified = plan.verify(&trial.levels, scratch, 1).is_some();
        assert!(!plan.has_server() || (is_asked && is_verified), "{name}: settings of its server");
    }
}
