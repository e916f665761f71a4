//! Blocks in slices: all servers alive at once, one of them in turn, and nothing frozen left behind.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analysis::Verdict;
use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, RunnerError, resume, run};
use load::Stop;
use record::bakeoff::{Bakeoff, TrialState};
use record::clock::{Clock as _, Monotonic};
use record::resources::Resource;
use record::run::{Run, RunId, RunState};

/// Tests run in parallel.
const BESIDE: Options = Options {
    beside_others: true,
    plan_file: None,
    wait: false,
    id: None,
    generator: None,
    trust: |_| false,
};

/// Builds a plan of two arms. An event is a loop of a script in Redis: `n` steps of the arm's number.
///
/// - `server`: replaces the command of the server.
fn plan_text(blocks: u32, arms: [u32; 2], server: Option<&str>) -> String {
    let redis = "redis-server --port 0 --unixsocket {scratch}/redis.sock --save '' --appendonly no";
    let server = server.map_or_else(|| redis.to_owned(), |server| server.replace("REDIS", redis));
    let [a, b] = arms;
    format!(
        r#"
schema = 1
title  = "In slices"
[factors.arm]
values    = ["a{a}", "b{b}"]
reference = "a{a}"
level     = "whole-plot"
[design]
blocks = {blocks}
mode   = "slices"
slice  = "100ms"
[load]
target  = "redis+unix:{{scratch}}/redis.sock"
command = ["EVAL \"local x=0 for i=1,tonumber(redis.call('get',KEYS[1])) do x=x+i end return 1\" 1 n"]
threads = 2
[server]
command = "{server}"
ready   = "socket:{{scratch}}/redis.sock"
[phases]
prepare = {{ run = "redis-cli -s {{scratch}}/redis.sock SET n $(echo $BAKEOFF_arm | tr -d ab)" }}
warm-up = {{ min = "200ms" }}
measure = {{ time = "1s", interval = "250ms" }}
[judge]
rope    = "20%"
metrics = ["throughput", "cpu-per-event"]
"#
    )
}

fn plan(text: &str) -> plan::Plan {
    plan::read(text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// Whether Redis is installed and groups can be frozen here.
fn can_slice() -> bool {
    let is_installed = Command::new("redis-server").arg("-v").output().is_ok();
    let root = nix::unistd::geteuid().is_root();
    let has_version_2 = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .any(|f| Path::new(f).join("cgroup.procs").exists());
    let can = is_installed && root && has_version_2;
    if !can {
        println!("skipped: needs redis-server, root and control groups of version 2");
    }
    can
}

/// Returns the values of `key` in the journal of a bake-off: its scratch folders, its control groups.
fn named(archive: &Path, id: RunId, key: &str) -> Vec<String> {
    let journal = std::fs::read_to_string(archive.join(format!("bakeoffs/{id}/events.jsonl"))).unwrap();
    let key = format!("\"{key}\":\"");
    let value = |line: &str| Some(line.split_once(&key)?.1.split_once('"')?.0.to_owned());
    journal.lines().filter_map(value).collect()
}

/// The control groups of a bake-off that stand still, with processes in them.
fn frozen(archive: &Path, id: RunId) -> usize {
    let is_frozen = |group: &String| {
        let read = |file: &str| std::fs::read_to_string(Path::new(group).join(file)).unwrap_or_default();
        read("cgroup.events").contains("frozen 1") && !read("cgroup.procs").trim().is_empty()
    };
    named(archive, id, "control_group").iter().filter(|group| is_frozen(group)).count()
}

/// Checks that no folder and no control group of a bake-off is left.
fn check_no_remains(archive: &Path, id: RunId) {
    for key in ["folder", "control_group"] {
        let paths = named(archive, id, key);
        assert!(!paths.is_empty(), "{key}");
        assert_eq!(paths.iter().find(|path| Path::new(path).exists()), None, "a {key} is left");
    }
}

struct Conducted {
    outcome: Result<Outcome, RunnerError>,
    bakeoff: Bakeoff,
    notes: Vec<String>,
    folder: tempfile::TempDir,
    /// Servers that stood still when the turns of each block began.
    frozen: Vec<usize>,
}

fn conduct(plan: &plan::Plan, stop: &Stop, mut at_turns: impl FnMut()) -> Conducted {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let (mut id, mut notes, mut stand_still) = (None, Vec::new(), Vec::new());
    let outcome = run(plan, &archive, &BESIDE, stop, &mut |event| match event {
        Event::Started { id: its, .. } => id = Some(*its),
        Event::Note(note) => notes.push((*note).to_owned()),
        Event::Doing(what) if what.contains("in turns") => {
            stand_still.push(frozen(folder.path(), id.unwrap()));
            at_turns();
        }
        _ => {}
    });
    let bakeoff = archive.bakeoff(id.unwrap_or_else(|| panic!("{outcome:?}"))).unwrap();
    Conducted { outcome, bakeoff, notes, folder, frozen: stand_still }
}

/// The verdicts. On a busy machine runs are INVALID, because the generator waits for a CPU; they count here.
fn compared(bakeoff: &Bakeoff) -> analysis::Comparisons {
    let mut bakeoff = bakeoff.clone();
    for attempt in bakeoff.attempts.iter_mut().filter(|attempt| attempt.state == TrialState::Invalid) {
        println!("INVALID: {:?}", attempt.reason);
        attempt.state = TrialState::Sealed;
    }
    analysis::compare(&bakeoff)
}

fn runs(bakeoff: &Bakeoff) -> Vec<&Run> {
    bakeoff.attempts.iter().filter_map(|attempt| attempt.run.as_ref()).collect()
}

#[test]
fn root_a_plan_against_itself_has_two_servers_alive_at_once_and_no_difference() {
    if !can_slice() {
        return;
    }
    let plan = plan(&plan_text(6, [20_000, 20_000], None));
    let Conducted { outcome, bakeoff, notes, folder, frozen } = conduct(&plan, &Stop::new(), || {});
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.sealed + outcome.invalid, outcome.planned), (12, 0), "{notes:?}");
    assert_eq!(frozen, [2; 6], "both servers of each block stand still before its first turn");
    let mut of_block: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for run in runs(&bakeoff) {
        let load = run.load.as_ref().unwrap();
        let turns = run.turns.unwrap();
        assert_eq!((turns.slice, turns.series), (Duration::from_millis(100), 2));
        // 1.2 s in turns of 100 ms and a little more: each ends with its last event.
        assert!((9..=13).contains(&turns.count), "{turns:?}");
        assert_eq!(load.measured, Duration::from_secs(1));
        of_block
            .entry(&run.header.labels["block"])
            .or_default()
            .push((load.settings.seed, load.settings.draws));
        // Two threads keep the only thread of Redis busy, unless the machine is. Its work to settle does not
        // count: that would be 20 % more.
        let cpu = run.server_cpu.as_ref().unwrap();
        let busy = cpu.cpu_s / cpu.span_s();
        assert!((0.02..1.03).contains(&busy), "{busy}");
        assert!((cpu.span_s() - 1.0).abs() < 1e-6, "{cpu:?}");
        assert!(run.resources[&Resource::Read].is_err() && run.cpu.is_empty());
        assert!(!load.slices.is_empty(), "its intervals are stored");
        let program = run.environment.fact("server.program").unwrap();
        assert!(program.contains("redis"), "{program}");
    }
    assert_eq!(of_block.len(), 6);
    assert!(of_block.values().all(|both| both.len() == 2 && both[0] == both[1]), "{of_block:?}");
    let compared = compared(&bakeoff);
    for pair in &compared.pairs {
        assert!(matches!(pair.verdict, Verdict::Equivalent | Verdict::Inconclusive), "{pair:?}");
    }
    check_no_remains(folder.path(), outcome.id);
}

/// The truth: a loop of twice as many steps. Settling, freezing and thawing are no part of it.
#[test]
fn root_an_arm_that_does_twice_the_work_is_half_as_fast() {
    if !can_slice() {
        return;
    }
    let plan = plan(&plan_text(6, [200_000, 400_000], None).replace("\"20%\"", "\"1%\""));
    let Conducted { outcome, bakeoff, notes, .. } = conduct(&plan, &Stop::new(), || {});
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!(outcome.sealed + outcome.invalid, 12, "{notes:?}");
    let compared = compared(&bakeoff);
    assert_eq!(compared.pairs.len(), 2);
    for (pair, expected) in compared.pairs.iter().zip([0.5, 2.0]) {
        let estimate = pair.estimate.as_ref().unwrap();
        println!("{}: {estimate:?}", pair.metric.word());
        assert_eq!(pair.verdict, Verdict::Worse, "{pair:?}");
        // Other tests may use the CPUs meanwhile: the interval knows. 3 % for what is not the loop.
        let (low, high) = (estimate.low_adjusted / 1.03, estimate.high_adjusted * 1.03);
        assert!((low..high).contains(&expected), "{pair:?}");
    }
}

#[test]
fn root_a_block_that_is_interrupted_leaves_nothing_frozen_and_is_measured_again() {
    if !can_slice() {
        return;
    }
    // A helper in another session, which no signal to the server reaches.
    let server = r#"sh -c \"setsid sleep 5000 & exec REDIS\""#;
    let plan = plan(&plan_text(1, [20_000, 20_000], Some(server)));
    let (stop, begun) = (Stop::new(), AtomicBool::new(false));
    let conducted = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::SeqCst) {
                rest(Duration::from_millis(5));
            }
            rest(Duration::from_millis(730));
            stop.request();
        });
        conduct(&plan, &stop, || begun.store(true, Ordering::SeqCst))
    });
    let Conducted { outcome, bakeoff, notes, folder, .. } = conducted;
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.state, outcome.planned), (RunState::Interrupted, 2), "{notes:?}");
    assert_eq!(bakeoff.attempts_that_ended(TrialState::Abandoned), 2);
    check_no_remains(folder.path(), outcome.id);
    let archive = Archive::open(folder.path()).unwrap();
    let outcome = resume(&archive, outcome.id, &BESIDE, &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!((outcome.sealed + outcome.invalid, outcome.planned), (2, 0));
    check_no_remains(folder.path(), outcome.id);
}

#[test]
fn root_what_a_killed_block_left_frozen_is_ended_when_it_is_resumed() {
    if !can_slice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (dir, file) = (folder.path().join("archive"), folder.path().join("plan.toml"));
    let server = r#"sh -c \"setsid sleep 5001 & exec REDIS\""#;
    let text = plan_text(1, [20_000, 20_000], Some(server)).replace("time = \"1s\"", "time = \"3s\"");
    std::fs::write(&file, text).unwrap();
    let mut child = example(&["run", dir.to_str().unwrap(), file.to_str().unwrap()]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let id: RunId = line.trim().parse().unwrap();
    // It is killed in the middle of its turns.
    let journal = || std::fs::read_to_string(dir.join(format!("bakeoffs/{id}/events.jsonl"))).unwrap();
    while journal().matches("trial-measuring").count() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "{}", journal());
        rest(Duration::from_millis(5));
    }
    rest(Duration::from_millis(333));
    // Not between two turns, when no arm stands still.
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    while frozen(&dir, id) == 0 {
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
        rest(Duration::from_millis(5));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = example(&["resume", dir.to_str().unwrap(), &id.to_string()]).output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    check_no_remains(&dir, id);
    let bakeoff = Archive::open(&dir).unwrap().bakeoff(id).unwrap();
    assert_eq!(bakeoff.attempts_that_ended(TrialState::Abandoned), 2);
    let measured = |state| matches!(state, TrialState::Sealed | TrialState::Invalid);
    assert_eq!(bakeoff.attempts.iter().filter(|a| measured(a.state)).count(), 2);
}

/// One server ends in the middle of its first block. Its trial fails and is repeated; the other one goes on.
#[test]
fn root_an_arm_that_loses_its_server_does_not_take_the_others_with_it() {
    if !can_slice() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(outside.path(), mode).unwrap();
    let once = outside.path().join("once");
    let script = format!(
        "REDIS & test $BAKEOFF_arm = a7 || test -e {0} || {{{{ touch {0}; sleep 1; kill -9 $!; }}}}; wait $!",
        once.display()
    );
    let server = format!(r#"sh -c \"{script}\""#);
    let plan = plan(&plan_text(1, [7, 20_000], Some(&server)));
    let Conducted { outcome, bakeoff, notes, folder, .. } = conduct(&plan, &Stop::new(), || {});
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}; {notes:?}"));
    assert_eq!((outcome.sealed + outcome.invalid, outcome.planned), (2, 0), "{notes:?}");
    let failed: Vec<_> = bakeoff.attempts.iter().filter(|a| a.state == TrialState::Failed).collect();
    assert_eq!(failed.len(), 1, "{:?}", bakeoff.attempts);
    let reason = failed[0].reason.as_deref().unwrap();
    assert!(reason.contains("the server ended during the trial"), "{reason}");
    check_no_remains(folder.path(), outcome.id);
}

#[test]
fn root_without_a_group_that_can_be_frozen_nothing_begins() {
    if !can_slice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let file = folder.path().join("plan.toml");
    std::fs::write(&file, plan_text(1, [7, 7], None)).unwrap();
    // Any user may run a copy of the example.
    let program = folder.path().join("conduct");
    std::fs::copy(example_path(), &program).unwrap();
    let mut command = Command::new(program);
    let dir = folder.path().join("archive");
    command
        .args(["run", dir.to_str().unwrap(), file.to_str().unwrap()])
        .current_dir("/")
        .uid(65_534)
        .gid(65_534);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("`design.mode = \\\"slices\\\"` needs a control group of version 2"), "{said}");
}

fn rest(time: Duration) {
    Monotonic.sleep_until_ns(Monotonic.now_ns() + u64::try_from(time.as_nanos()).unwrap());
}

/// The example in the same target directory as this test.
fn example_path() -> std::path::PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().nth(2).unwrap().join("examples/conduct")
}

fn example(arguments: &[&str]) -> Command {
    let mut command = Command::new(example_path());
    command.args(arguments).stdout(Stdio::piped());
    command
}
