//! `bakeoff scale` in surroundings that would make it wrong: each level is INVALID and says why, or it is right.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::{Ended, Lab};
use serde_json::Value;

/// One copy that spins, one round.
const ONE: [&str; 8] = ["scale", "--json", "--rounds", "1", "--time", "300ms", "--copies", "1"];
const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}{}", ended.out, ended.err))
}

/// The CPUs that this test may use.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Spins on every CPU until it is dropped.
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
            // On one CPU, a niced hog gets next to nothing, and what is measured is right.
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
        // A run whose every level is INVALID is not sealed.
        assert_eq!(run["state"], "invalid");
        assert_eq!(lab.json(&["runs", "list"])["runs"][0]["state"], "invalid");
    }
}

#[test]
fn what_a_copy_leaves_behind_is_ended_and_said() {
    let lab = Lab::new();
    // The shell waits for `setsid`: a process that is stopped before it leaves the group has left nothing behind.
    let script = "setsid -w sh -c 'sleep 98431 >/dev/null 2>&1 &'";
    let words =
        ["scale", "--json", "--no-observe", "--rounds", "1", "--time", "20ms", "--copies", "1,2", "--"];
    let ended = lab.run(&[&words[..], &["sh", "-c", script]].concat());
    let run = json(&ended);
    let why = run["levels"][1]["invalid"][0].as_str().unwrap_or_default();
    assert!(why.contains("left the group of the copy that started them"), "{run}");
    let left = fs::read_dir("/proc").expect("proc").flatten().filter(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = lab.path("archive");
        words == b"sleep\098431\0" && String::from_utf8_lossy(&environment).contains(&*ours.to_string_lossy())
    });
    assert_eq!(left.count(), 0, "no process of the level lives on");
}

#[test]
fn runs_of_other_commands_are_not_compared_as_machines() {
    let lab = Lab::new();
    let few = ["scale", "--json", "--no-observe", "--rounds", "1", "--time", "20ms", "--copies", "1"];
    assert_eq!(lab.run(&[&few[..], &["--", "true"]].concat()).code, Some(0));
    let other = [&few[..], &["--cpus", "0", "--compare", "latest", "--", "sh", "-c", "true"]].concat();
    let refused = lab.run(&other);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for said in ["command: `sh -c true` here, `true` there", "--cpus: `[0]` here, `all` there", "--force"] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    assert_eq!(lab.json(&["runs", "list"])["runs"].as_array().map(Vec::len), Some(1), "nothing was measured");
    let forced = [&few[..], &["--compare", "latest", "--force", "--", "sh", "-c", "true"]].concat();
    let forced = lab.run(&forced);
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(forced.err.contains("differ in more than the machine"), "{}", forced.err);
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
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return eprintln!("skipped: needs taskset");
    };
    let run = json(&Ended::of(output));
    let copies: Vec<&Value> =
        run["levels"].as_array().expect("levels").iter().map(|l| &l["copies"]).collect();
    assert_eq!((run["cpus"].clone(), copies), (1.into(), vec![&1.into(), &2.into()]), "{run}");
}

/// A control group with a quota or a CPU set.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// `None` if this machine lets nobody make one.
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
                // On a busy machine too, the group is to get enough to use its quota up.
                let _ = fs::write(group.folder.join("cpu.shares"), "262144");
                let _ = fs::write(group.folder.join("cpu.weight"), "10000");
                return Some(group);
            }
        }
        None
    }

    /// One with the first CPU alone; `None` if this machine lets nobody make one.
    fn with_first_cpu(name: &str) -> Option<Self> {
        ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"].into_iter().find_map(|mount| {
            let mount = Path::new(mount);
            let folder = mount.join(format!("bakeoff-test-{name}-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            // Version 1 lets no process in before there is memory too; version 2 takes what its parent has.
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

    /// The binary, in the group.
    fn run(&self, lab: &Lab, words: &[&str]) -> Ended {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.folder.display());
        command.args(["-c", &script, env!("CARGO_BIN_EXE_bakeoff")]).args(words);
        command.env("BAKEOFF_ARCHIVE", lab.path("archive")).stdin(Stdio::null());
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
    // A tenth of a CPU: whatever runs in it is stopped.
    let Some(group) = Group::with_quota("all", 5_000, 50_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let said = |text: &str| {
        text.contains("the CPU quota of control group") && text.contains("stopped its processes")
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
    let load = json(&group.run(&lab, &load));
    assert_eq!(load["verdict"]["state"], "invalid", "{load}");
    let checks = load["verdict"]["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "throttled").expect("it is checked");
    assert!(check["ok"] == false && said(check["text"].as_str().unwrap_or_default()), "{check}");
    assert!(load["throttled"]["periods"].as_u64() > Some(0), "{load}");
}

#[test]
fn root_a_quota_that_takes_effect_leaves_a_search_and_a_sweep_without_an_answer() {
    // A twentieth of a CPU: starting programs uses it up, at any rate that the search tries.
    let Some(group) = Group::with_quota("search", 5_000, 100_000) else {
        return eprintln!("skipped: needs root and a control group with the CPU controller");
    };
    let lab = Lab::new();
    let words = ["load", "exec:true", "--search", "p90<5s", "--rate", "40", "--time", "1s", "--warmup", "0"];
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
