//! Profiles of the servers of a plan: of the server and of nothing else, and no cost in the control arm.
//! Needs root, BTF, control groups of version 2 and Redis; the test names what is missing.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use archive::Archive;
use bakeoff_runner::{Event, Options, run};
use load::Stop;
use record::bakeoff::{CONTROL_ARM, TrialState};
use record::profile::ProfileKind;
use record::resources::UsedBy;

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    wait: false,
    plan_file: None,
    id: None,
    generator: None,
    trust: |_| false,
};

const PLAN: &str = r#"
schema = 1
title  = "Redis beside a neighbor"
[design]
blocks = 2
[load]
target  = "redis+unix:{scratch}/redis.sock"
keys    = 100
threads = 2
[server]
command = "redis-server --port 0 --unixsocket {scratch}/redis.sock --save '' --appendonly no"
ready   = "socket:{scratch}/redis.sock"
[phases]
warm-up = { min = "50ms" }
measure = { time = "1s", interval = "250ms" }
[observe]
instruments = ["profile", "off-cpu"]
control_arm = true
"#;

/// A shell that spins until it is dropped.
struct Neighbor(Child);

impl Drop for Neighbor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_possible() -> bool {
    let installed = Command::new("redis-server").arg("-v").output().is_ok();
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|f| Path::new(f).join("cgroup.procs"));
    let has_btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    let is_root = nix::unistd::geteuid().is_root();
    let possible = installed && has_btf && is_root && groups.iter().any(|file| file.exists());
    if !possible {
        println!("skipped: needs root, BTF, redis-server and control groups of version 2");
    }
    possible
}

#[test]
fn root_the_profile_of_a_trial_is_the_servers_and_the_control_arm_has_none() {
    if !is_possible() {
        return;
    }
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
    let _neighbor = Neighbor(shell.spawn().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let plan = plan::read(PLAN, "test.toml").unwrap();
    let mut notes = Vec::new();
    let outcome = run(&plan, &archive, &BESIDE, &Stop::new(), &mut |event| {
        if let Event::Note(note) = event {
            notes.push((*note).to_owned());
        }
    });
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    let bakeoff = archive.bakeoff(outcome.id).unwrap();
    let measured = |state| matches!(state, TrialState::Sealed | TrialState::Invalid);
    let runs: Vec<_> =
        bakeoff.attempts.iter().filter(|a| measured(a.state)).filter_map(|a| a.run.as_ref()).collect();
    assert_eq!(runs.len(), 2, "{notes:?}");
    for of_bakeoff in &runs {
        assert!(of_bakeoff.instruments.profiles.is_empty(), "a bake-off is read without profiles");
        let run = archive.run(of_bakeoff.header.id).unwrap();
        let kinds: Vec<ProfileKind> = run.instruments.profiles.iter().map(|p| p.profile.kind).collect();
        assert!(run.instruments.missing.is_empty(), "{:?}", run.instruments.missing);
        if run.header.labels.contains_key(CONTROL_ARM) {
            assert_eq!(kinds, []);
            continue;
        }
        assert_eq!(kinds, [ProfileKind::OnCpu, ProfileKind::OffCpu]);
        for taken in &run.instruments.profiles {
            assert_eq!(taken.of, UsedBy::Server);
            let profile = &taken.profile;
            assert!(profile.total_ns() > 0, "{profile:?}");
            // Redis has threads of several names, all of which begin so; the kernel cuts them to 15 letters.
            let is_redis =
                |comm: &str| ["redis", "bio_", "jemalloc_bg"].iter().any(|name| comm.starts_with(name));
            let comms: Vec<&str> =
                profile.stacks.iter().map(|s| s.comm.as_str()).filter(|c| !is_redis(c)).collect();
            assert_eq!(comms, [""; 0], "no neighbor");
            // The measured phase, and neither warm-up nor the verification after it.
            let seconds = profile.seconds();
            assert!((0.9..2.0).contains(&seconds), "{seconds}");
        }
    }
    let controls = runs.iter().filter(|run| run.header.labels.contains_key(CONTROL_ARM)).count();
    assert_eq!(controls, 1);
    // What watching cost: a figure from the control arm for the profile as for other instruments.
    assert!(!analysis::observing::costs(&bakeoff).is_empty());
    assert!(archive.verify(&[]).unwrap().iter().all(|found| found.problems.is_empty()));
}
