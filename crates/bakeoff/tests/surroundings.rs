//! `bakeoff scale` in disturbing surroundings: each level is correct, or INVALID with a reason.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::{Ended, Lab};
use serde_json::Value;

/// One spinning copy, one round.
const ONE: [&str; 8] = ["scale", "--json", "--rounds", "1", "--time", "300ms", "--copies", "1"];
const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}{}", ended.out, ended.err))
}

/// The CPUs that this test may use.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processes that spin on every CPU until this is dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start(nice: &str) -> Self {
        let one = |_| {
            let mut command = Command::new("nice");
            command.args(["-n", nice, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("nice and sh are everywhere")
        };
        Self((0..cpus()).map(one).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn beside_other_work_a_level_is_invalid_and_says_how_much() {
    for nice in ["0", "19"] {
        if nice == "19" && cpus() == 1 {
            // On one CPU, a niced hog gets almost no time, and the measurement is correct.
            continue;
        }
        let lab = Lab::new();
        let spinners = Spinners::start(nice);
        let ended = lab.run(&[&ONE[..], &["--", "sh", "-c", WORK]].concat());
        drop(spinners);
        assert_eq!(ended.code, Some(3), "{}", ended.err);
        let run = json(&ended);
        let why = run["levels"][0]["invalid"][0].as_str().unwrap_or_default();
        assert!(why.starts_with("round 1: other work used"), "nice {nice}: {run}");
        assert!(run["levels"][0]["work_per_s"].is_null() && run["fit"]["chosen"].is_null(), "{run}");
        // A run with only INVALID levels is not sealed.
        assert_eq!(run["state"], "invalid");
        assert_eq!(lab.json(&["runs", "list"])["runs"][0]["state"], "invalid");
    }
}

#[test]
fn what_a_copy_leaves_behind_is_ended_and_said() {
    let lab = Lab::new();
    // The shell waits for `setsid`: a process that is stopped before it leaves the group leaves nothing
    // behind.
    let script = "setsid -w sh -c 'sleep 98431 >/dev/null 2>&1 &'";
    let words =
        ["scale", "--json", "--no-observe", "--rounds", "1", "--time", "20ms", "--copies", "1,2", "--"];
    let ended = lab.run(&[&words[..], &["sh", "-c", script]].concat());
    let run = json(&ended);
    let why = run["levels"][1]["invalid"][0].as_str().unwrap_or_default();
    assert!(why.contains("left the process group of their copy"), "{run}");
    let left = fs::read_dir("/proc").expect("proc").flatten().filter(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = lab.path("archive");
        words == b"sleep\098431\0" && String::from_utf8_lossy(&environment).contains(&*ours.to_string_lossy())
    });
    assert_eq!(left.count(), 0, "no process of the level lives on");
}

/// Six rounds of one copy, the minimum for a comparison.
const SIX: [&str; 9] =
    ["scale", "--json", "--no-observe", "--rounds", "6", "--time", "20ms", "--copies", "1"];

#[test]
fn runs_of_other_commands_are_not_compared_as_machines() {
    let lab = Lab::new();
    assert_eq!(lab.run(&[&SIX[..], &["--", "true"]].concat()).code, Some(0));
    let other = [&SIX[..], &["--cpus", "0", "--compare", "latest", "--", "sh", "-c", "true"]].concat();
    let refused = lab.run(&other);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for said in ["command: `sh -c true` here, `true` there", "--cpus: `[0]` here, `all` there", "--force"] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    assert_eq!(lab.json(&["runs", "list"])["runs"].as_array().map(Vec::len), Some(1), "nothing was measured");
    let forced = [&SIX[..], &["--compare", "latest", "--force", "--", "sh", "-c", "true"]].concat();
    let forced = lab.run(&forced);
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(forced.err.contains("differ in more than the machine"), "{}", forced.err);
}

#[test]
fn the_same_command_on_other_content_is_other_work() {
    let lab = Lab::new();
    let file = lab.path("big.log");
    let name = file.to_str().expect("a plain path");
    fs::write(&file, "small").expect("a file");
    let scale = |words: &[&str]| lab.run(&[&SIX[..], words, &["--", "cat", name]].concat());
    assert_eq!(scale(&[]).code, Some(0));
    assert_eq!(scale(&["--compare", "latest"]).code, Some(0), "the same file");
    fs::write(&file, "much larger").expect("a file");
    let refused = scale(&["--compare", "latest"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for said in [name, "11 bytes, sha256 ", "5 bytes, sha256 ", "--force"] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    assert_eq!(scale(&["--compare", "latest", "--force"]).code, Some(0));
    let runs = lab.json(&["runs", "list"]);
    let name_of = |at: usize| runs["runs"][at]["run"].as_str().expect("a name").to_owned();
    let page = lab.run(&["report", &name_of(0), "--compare", &name_of(1)]);
    assert!(page.code == Some(2) && page.err.contains("11 bytes, sha256 "), "{}{}", page.out, page.err);
}

#[test]
fn a_comparison_of_too_few_rounds_is_refused_before_anything_is_measured() {
    let lab = Lab::new();
    let dir = lab.path("data");
    fs::create_dir(&dir).expect("a folder");
    let dir = dir.to_str().expect("a plain path");
    let scale = |rounds: &str, words: &[&str]| {
        let few = ["scale", "--no-observe", "--time", "20ms", "--copies", "1", "--rounds", rounds];
        lab.run(&[&few[..], words, &["--", "true"]].concat())
    };
    let sweep = |rounds: &str, words: &[&str]| {
        let small = ["dder", "--data", "64KiB", "--max", "6KiB", "--point", "20us", "--reference", "1KiB"];
        lab.run(&[&small[..], &["--dir", dir, "--rounds", rounds], words].concat())
    };
    let count = || lab.json(&["runs", "list"])["runs"].as_array().map_or(0, Vec::len);
    for (run, name) in [
        (&scale as &dyn Fn(&str, &[&str]) -> Ended, "scale"),
        (&sweep as &dyn Fn(&str, &[&str]) -> Ended, "dder"),
    ] {
        // First this run has too few rounds, then the other one.
        assert_eq!(run("6", &[]).code, Some(0), "{name}");
        let before = count();
        let refused = run("5", &["--compare", "latest"]);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(
            refused.err.contains("this run has 5 rounds") && refused.err.contains("6 valid ones of each"),
            "{}",
            refused.err
        );
        assert_eq!(count(), before, "nothing was measured");
        assert_eq!(run("2", &[]).code, Some(0), "{name}");
        let refused = run("6", &["--compare", "latest"]);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains("latest has 2 rounds"), "{}", refused.err);
    }
    // One copy of each is compared.
    let six = ["scale", "--no-observe", "--time", "20ms", "--rounds", "6"];
    let true_of = |words: &[&str]| lab.run(&[&six[..], words, &["--", "true"]].concat());
    let refused = true_of(&["--copies", "2", "--compare", "latest"]);
    assert!(refused.code == Some(2) && refused.err.contains("0 rounds of one copy"), "{}", refused.err);
    assert_eq!(true_of(&["--copies", "2"]).code, Some(0));
    let refused = true_of(&["--copies", "1", "--compare", "latest"]);
    assert!(refused.code == Some(2) && refused.err.contains("latest has 0 rounds of one"), "{}", refused.err);
}

#[test]
fn sweeps_of_other_file_systems_and_references_are_compared_and_that_is_said() {
    let lab = Lab::new();
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    let dir = lab.path("data");
    fs::create_dir(&dir).expect("a folder");
    let small = ["dder", "--data", "64KiB", "--max", "6KiB", "--point", "20us", "--rounds", "6"];
    let sweep = |folder: &Path, words: &[&str]| {
        lab.run(&[&small[..], &["--dir", folder.to_str().expect("a plain path")], words].concat())
    };
    assert_eq!(sweep(&dir, &["--reference", "1KiB"]).code, Some(0));
    let compared = sweep(&dir, &["--reference", "2KiB", "--compare", "latest"]);
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    assert!(compared.err.contains("--reference: `2048 bytes` here, `1024 bytes` there"), "{}", compared.err);
    assert!(!compared.err.contains("file system"), "{}", compared.err);
    let Some(shm) = shm else { return eprintln!("skipped: /dev/shm cannot be written") };
    let compared = sweep(shm.path(), &["--reference", "2KiB", "--compare", "latest"]);
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    assert!(compared.err.contains("file system: `tmpfs` here, "), "{}", compared.err);
    let page = lab.run(&[
        "report",
        "latest",
        "--compare",
        lab.json(&["runs", "list"])["runs"][1]["run"].as_str().expect("a name"),
    ]);
    assert!(page.err.contains("file system: `tmpfs` here, "), "{}", page.err);
}

#[test]
fn an_affinity_is_the_number_of_cpus() {
    let lab = Lab::new();
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        "0",
        env!("CARGO_BIN_EXE_bakeoff"),
        "scale",
        "--json",
        "--no-observe",
        "--rounds",
        "1",
    ]);
    command.args(["--time", "20ms", "--", "true"]).env("BAKEOFF_ARCHIVE", lab.path("archive"));
    command.env("BAKEOFF_MACHINE_LOCK", lab.path("lock"));
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return eprintln!("skipped: needs taskset");
    };
    let run = json(&Ended::of(output));
    let copies: Vec<&Value> =
        run["levels"].as_array().expect("levels").iter().map(|l| &l["copies"]).collect();
    assert_eq!((run["cpus"].clone(), copies), (1.into(), vec![&1.into(), &2.into()]), "{run}");
}

/// A control group with a quota, a CPU set or a limit of memory.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// Creates a control group with this quota; `None` if this machine does not allow it.
    fn with_quota(name: &str, quota_us: u32, period_us: u32) -> Option<Self> {
        for (mount, quota, period) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", Some("cpu.cfs_period_us")),
            ("/sys/fs/cgroup", "cpu.max", None),
        ] {
            let folder = Path::new(mount).join(format!("bakeoff-test-{name}-{}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder };
            let text = match period {
                Some(file) => {
                    fs::write(group.folder.join(file), period_us.to_string()).map(|()| quota_us.to_string())
                }
                None => Ok(format!("{quota_us} {period_us}")),
            };
            if text.and_then(|text| fs::write(group.folder.join(quota), text)).is_ok() {
                // Even on a busy machine, the group must get enough CPU to use up its quota.
                let _ = fs::write(group.folder.join("cpu.shares"), "262144");
                let _ = fs::write(group.folder.join("cpu.weight"), "10000");
                return Some(group);
            }
        }
        None
    }

    /// Creates a control group with this memory limit; `None` if this machine does not allow it.
    fn with_memory(name: &str, bytes: u64) -> Option<Self> {
        let files = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        files.into_iter().find_map(|(mount, file)| {
            let folder = Path::new(mount).join(format!("bakeoff-test-{name}-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            fs::write(group.folder.join(file), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// Creates a control group with the first CPU only; `None` if this machine does not allow it.
    fn with_first_cpu(name: &str) -> Option<Self> {
        ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"].into_iter().find_map(|mount| {
            let mount = Path::new(mount);
            let folder = mount.join(format!("bakeoff-test-{name}-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            // Version 1 accepts no process before the group has memory nodes; version 2 inherits them.
            if let Ok(memory) = fs::read_to_string(mount.join("cpuset.mems")) {
                fs::write(group.folder.join("cpuset.mems"), memory.trim()).ok()?;
            }
            let cpus = ["cpuset.effective_cpus", "cpuset.cpus.effective"];
            let all = cpus.iter().find_map(|file| fs::read_to_string(mount.join(file)).ok())?;
            let first: String = all.trim().chars().take_while(char::is_ascii_digit).collect();
            fs::write(group.folder.join("cpuset.cpus"), first).ok()?;
            Some(group)
        })
    }

    /// Runs the binary in the group.
    fn run(&self, lab: &Lab, words: &[&str]) -> Ended {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.folder.display());
        command.args(["-c", &script, env!("CARGO_BIN_EXE_bakeoff")]).args(words);
        command.env("BAKEOFF_ARCHIVE", lab.path("archive")).stdin(Stdio::null());
        command.env("BAKEOFF_MACHINE_LOCK", lab.path("lock"));
        Ended::of(command.output().expect("sh is everywhere"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn root_a_cpu_set_is_the_number_of_cpus_and_two_copies_in_it_are_no_law() {
    let Some(limited) = Group::with_first_cpu("cpuset") else {
        return eprintln!("skipped: needs root and a control group with the CPU set controller");
    };
    let lab = Lab::new();
    let few = ["scale", "--json", "--no-observe", "--rounds", "1", "--time", "20ms", "--", "true"];
    let run = json(&limited.run(&lab, &few));
    let copies: Vec<&Value> =
        run["levels"].as_array().expect("levels").iter().map(|l| &l["copies"]).collect();
    assert_eq!((run["cpus"].clone(), copies), (1.into(), vec![&1.into(), &2.into()]), "{run}");
    assert!(run["fit"]["chosen"].is_null(), "two levels past one CPU tell no law: {run}");
}

#[test]
fn root_a_quota_is_the_number_of_cpus_and_where_it_takes_effect_a_level_is_invalid() {
    let Some(limited) = Group::with_quota("scale", 100_000, 100_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let few = ["scale", "--json", "--no-observe", "--rounds", "1", "--time", "20ms", "--", "true"];
    let run = json(&limited.run(&lab, &few));
    assert_eq!(run["cpus"], 1, "{run}");
    let group = run["throttled"]["cgroup"].as_str().unwrap_or_default();
    assert!(group.contains("bakeoff-test"), "{run}");
    assert!(run["fit"]["chosen"].is_null(), "two levels past one CPU tell no law: {run}");
}

#[test]
fn root_a_quota_that_takes_effect_makes_everything_invalid() {
    // A tenth of a CPU: everything in the group is throttled.
    let Some(group) = Group::with_quota("all", 5_000, 50_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let said = |text: &str| {
        text.contains("the CPU quota of control group") && text.contains("throttled its processes")
    };
    let scale = group.run(&lab, &[&ONE[..], &["--no-observe", "--", "sh", "-c", WORK]].concat());
    assert_eq!(scale.code, Some(3), "{}", scale.err);
    let scale = json(&scale);
    assert!(said(scale["levels"][0]["invalid"][0].as_str().unwrap_or_default()), "{scale}");
    assert!(
        scale["throttled"]["periods"].as_u64() > Some(0) && scale["throttled"]["time_s"].as_f64() > Some(0.0),
        "{scale}"
    );

    let record = group.run(&lab, &["record", "--json", "--", "sh", "-c", WORK]);
    assert_eq!(record.code, Some(3), "{}", record.err);
    let record = json(&record);
    assert!(record["throttled"]["periods"].as_u64() > Some(0), "{record}");
    assert_eq!(lab.json(&["runs", "list"])["runs"][0]["state"], "invalid");

    let load =
        ["load", "null:", "--threads", "2", "--time", "1s", "--warmup", "0", "--json", "--observe", "none"];
    let load = group.run(&lab, &load);
    assert_eq!(load.err.matches("has a CPU quota of 0.1 CPUs").count(), 1, "{}", load.err);
    let load = json(&load);
    assert_eq!(load["verdict"]["state"], "invalid", "{load}");
    let checks = load["verdict"]["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "throttled").expect("it is checked");
    assert!(check["ok"] == false && said(check["text"].as_str().unwrap_or_default()), "{check}");
    assert!(load["throttled"]["periods"].as_u64() > Some(0), "{load}");
}

/// Two trials of a load that is never idle.
const PLAN: &str = r#"
schema   = 1
title    = "Under a quota"
question = "Does a quota pass for a result?"

[factors.threads]
values    = [1, 2]
reference = 1
level     = "whole-plot"

[design]
blocks = 2
seed   = 1

[load]
target  = "exec:true"
threads = "{threads}"
rate    = "max"

[phases]
prepare  = "none"
warm-up  = { min = "100ms" }
measure  = { time = "1s", interval = "200ms" }
cooldown = "0s"

[observe]
instruments = []

[judge]
rope   = "5%"
alpha  = 0.05
family = "threads vs reference"
"#;

#[test]
fn root_a_quota_that_takes_effect_leaves_a_bake_off_without_a_result() {
    let Some(group) = Group::with_quota("bakeoff", 10_000, 100_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let plan = lab.path("plan.toml");
    fs::write(&plan, PLAN).expect("a plan");
    let words = ["run", plan.to_str().expect("a plain path"), "--json"];
    let ended = group.run(&lab, &words);
    assert_eq!(ended.code, Some(3), "{}{}", ended.out, ended.err);
    // The preflight warns before the first trial, too.
    assert_eq!(ended.err.matches("has a CPU quota of 0.1 CPUs").count(), 1, "{}", ended.err);
    let run = json(&ended);
    assert_eq!((&run["state"], &run["cells"]["invalid"]), (&"invalid".into(), &4.into()), "{run}");
    assert!(run["throttled"]["periods"].as_u64() > Some(0), "{run}");
    let listed = &lab.json(&["runs", "list"])["runs"][0];
    let reason = listed["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("the CPU quota of control group"), "{listed}");
    // The same load without the quota.
    let free = lab.run(&words);
    assert!(!free.err.contains("has a CPU quota"), "{}", free.err);
    let free = json(&free);
    assert!(free["throttled"]["periods"].as_u64().is_none_or(|periods| periods == 0), "{free}");
}

#[test]
fn root_a_quota_that_takes_effect_leaves_a_search_and_a_sweep_without_an_answer() {
    // A twentieth of a CPU: starting programs uses it up, at every rate that the search tries.
    let Some(group) = Group::with_quota("search", 5_000, 100_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let words = ["load", "exec:true", "--search", "p90<5s", "--rate", "200", "--time", "1s", "--warmup", "0"];
    let search = group.run(&lab, &[&words[..], &["--json", "--observe", "none"]].concat());
    assert_eq!(search.code, Some(3), "{}{}", search.out, search.err);
    let search = json(&search);
    assert_eq!(search["answer"], "invalid", "{search}");
    let probes = search["probes"].as_array().expect("probes");
    assert!(probes.iter().all(|probe| probe["end"] == "invalid"), "{search}");
    assert!(probes[0]["found"].as_str().is_some_and(|found| found.contains("CPU quota")), "{search}");

    let dir = lab.path("data");
    fs::create_dir_all(&dir).expect("a folder");
    let words =
        ["dder", "--json", "--data", "64KiB", "--max", "6KiB", "--point", "1ms", "--rounds", "1", "--dir"];
    let sweep = group.run(&lab, &[&words[..], &[dir.to_str().expect("UTF-8")]].concat());
    assert_eq!(sweep.code, Some(3), "{}{}", sweep.out, sweep.err);
    let sweep = json(&sweep);
    assert!(sweep["throttled"]["periods"].as_u64() > Some(0), "{sweep}");
}

#[test]
fn root_a_file_that_a_memory_limit_drives_out_is_not_read_from_memory() {
    let Some(group) = Group::with_memory("memory", 128 << 20) else {
        return eprintln!("skipped: needs root and a control group with the memory controller");
    };
    let lab = Lab::new();
    let dir = lab.path("data");
    fs::create_dir_all(&dir).expect("a folder");
    let dir = dir.to_str().expect("UTF-8");
    let kind = Command::new("stat").args(["-f", "-c", "%T", dir]).output().expect("stat is everywhere");
    if kind.stdout.starts_with(b"tmpfs") {
        return eprintln!("skipped: needs a folder for temporary files on a device");
    }
    let words = ["dder", "--json", "--how", "read", "--data", "256MiB", "--max", "64KiB", "--rounds", "1"];
    let sweep = group.run(&lab, &[&words[..], &["--point", "2ms", "--dir", dir]].concat());
    assert_eq!(sweep.code, Some(3), "{}{}", sweep.out, sweep.err);
    assert!(sweep.err.contains("came from a device instead of memory"), "{}", sweep.err);
}
