//! Commands under load: how they are started, and how much of their output is stored. This is a separate
//! process, so no other test changes its limits.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::time::Duration;

use bakeoff_load as load;

use load::{LoadError, Stop};
use record::load::{LoadSettings, Loop, OpenLoop};

use support::{run, settings};

/// Properties that a process inherits when it is started; without `SigQ`, which counts signals of all
/// processes of the user, and without inheritable and ambient capabilities, which bakeoff gives up.
const SEEN: &str = "cat /proc/self/timerslack_ns; cut -d' ' -f18,19,40,41 /proc/self/stat; \
                    grep -E '^(Sig[^Q]|Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp)' /proc/self/status; \
                    cat /proc/self/oom_score_adj /proc/self/cgroup; \
                    cat /proc/self/limits; ls /proc/self/fd; taskset -p $$ | sed 's/.*mask/mask/'";

#[test]
fn a_command_sees_what_a_shell_gives_it() {
    let dir = tempfile::tempdir().unwrap();
    let by_shell = dir.path().join("shell");
    let script = |file: &std::path::Path| format!("( {SEEN} ) > {} 2> /dev/null", file.display());
    let status = std::process::Command::new("sh").args(["-c", &script(&by_shell)]).status().unwrap();
    assert!(status.success());
    let expected = std::fs::read_to_string(&by_shell).unwrap();
    for fifo in [false, true] {
        let seen = dir.path().join(format!("seen-{fifo}"));
        let base = settings(format!("exec:{}", script(&seen)));
        let loaded = load::run(
            &LoadSettings {
                threads: 1,
                pace: Loop::Open(OpenLoop { fifo, ..support::open(10.0) }),
                time: Duration::from_millis(500),
                ..base
            },
            &Stop::new(),
            &mut |_| {},
        );
        match loaded {
            Err(LoadError::RealTime { .. }) if fifo => {
                println!("skipped: no right to real-time priority here");
                continue;
            }
            other => assert!(other.unwrap().counts.done > 0),
        }
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), expected, "fifo: {fifo}");
    }
}

#[test]
fn what_a_command_says_last_stands_with_its_failure() {
    let record = run(&LoadSettings {
        pace: Loop::CLOSED,
        events_max: Some(3),
        errors_ratio_max: 1.0,
        threads: 1,
        ..settings("exec:echo first >&2; echo no such table >&2; exit 3")
    });
    assert_eq!((record.counts.failed, record.errors.application), (3, 3));
    let sample = &record.error_samples[0];
    assert!(sample.contains("exit status: 3") && sample.contains("first / no such table"), "{sample}");
}
