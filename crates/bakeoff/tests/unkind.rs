//! The probes in hostile surroundings: in a PID namespace, with few open files, stopped half way.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::fs;
use std::process::{Command, Stdio};

use lab::{Ended, Lab};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

const SPIN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
fn root_in_a_pid_namespace_a_command_has_the_cpu_time_that_it_had() {
    let Some((lab, mut inside)) = in_a_pid_namespace() else { return };
    let ended = Ended::of(inside(&lab, &["record", "--json", "--no-archive", "--", "sh", "-c", SPIN]));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let of = |name: &str| document[name].as_f64();
    let rusage = of("cpu_by_rusage_s").unwrap();
    let events = of("cpu_by_events_s").expect("root and BTF are there") + of("interrupted_s").unwrap();
    // The scheduler's clock leaves out what the host stole from the CPUs; events cannot.
    let all = &document["machine"]["all"];
    let stolen_ratio = all["stolen_ratio"].as_f64().unwrap_or(0.0);
    let stolen = stolen_ratio * all["cpus"].as_f64().unwrap() * of("wall_s").unwrap();
    let margin = 0.05 + 0.05 * rusage;
    assert!((rusage - margin..rusage + stolen + margin).contains(&events), "{document}");
    assert!(ended.err.contains("PID namespace"), "{}", ended.err);
}

#[test]
fn root_in_a_pid_namespace_pid_means_the_process_that_has_that_id_there() {
    let Some((lab, mut inside)) = in_a_pid_namespace() else { return };
    // The hog is the shell's first child, number 2 in the namespace; on the machine, a kernel thread has that
    // number.
    let hog = "hog lock futex --threads 3 --hold 1ms --time 600s";
    let script = format!(
        "{0} {hog} & pid=$!; {0} ulocks 3 1 --json --pid $pid; code=$?; kill -9 $pid; exit $code",
        env!("CARGO_BIN_EXE_bakeoff")
    );
    let ended = Ended::of(inside(&lab, &["sh", "-c", &script]));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(ended.out.lines().next().unwrap()).unwrap();
    let locks = document["locks"].as_array().unwrap();
    let comms: Vec<&str> = locks.iter().filter_map(|l| l["comm"].as_str()).collect();
    assert!(!locks.is_empty() && comms.iter().all(|c| c.contains("bakeoff")), "{document}");
    let named = |l: &&Value| l["caller"].as_str().is_some_and(|c| c.contains("hog::lock"));
    assert!(locks.iter().any(|l| named(&l)), "names come from its own program: {document}");
}

#[test]
fn root_in_a_pid_namespace_with_the_old_proc_nobody_is_taken_for_another() {
    if in_a_pid_namespace().is_none() {
        return;
    }
    let lab = Lab::new();
    let inside = |script: &str| {
        let script = script.replace("BAKEOFF", env!("CARGO_BIN_EXE_bakeoff"));
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount", "sh", "-c", &script]).stdin(Stdio::null());
        Ended::of(command.env("BAKEOFF_ARCHIVE", lab.path("archive")).output().unwrap())
    };
    let recorded = inside(&format!("BAKEOFF record --json --no-archive -- sh -c '{SPIN}'"));
    let document: Value = serde_json::from_str(&recorded.out).unwrap();
    assert!(document["cpu_by_events_s"].as_f64().unwrap() > 0.0, "{document}");
    // In /proc, another process has this id.
    assert_eq!(document["cpu_by_proc_s"], Value::Null, "{document}");
    assert!(document["missing"]["cpu_by_proc_s"].to_string().contains("mount"), "{document}");

    for command in ["memory 1 1", "ulocks 1 1", "profile 1", "io 1 1", "locks 1 1"] {
        let refused =
            inside(&format!("sleep 100 & BAKEOFF {command} --pid $!; code=$?; kill $!; exit $code"));
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{command}: {}", refused.err);
        assert!(refused.err.contains("mount -t proc"), "{command}: {}", refused.err);
    }

    let hog = "BAKEOFF hog lock futex --threads 3 --hold 1ms --time 600s";
    let seen = inside(&format!("{hog} & BAKEOFF ulocks 3 1 --json --comm bakeoff; kill -9 $!"));
    let document: Value = serde_json::from_str(&seen.out).unwrap();
    let locks = document["locks"].as_array().unwrap();
    // Other processes of that name may run outside.
    assert!(
        locks.iter().all(|lock| lock["call"].is_null()),
        "names are those of another process: {document}"
    );
    let why = |lock: &Value| lock["missing"].to_string().contains("mount -t proc");
    assert!(locks.iter().any(why), "{document}");
}

#[test]
fn root_with_few_open_files_one_line_says_how_many_it_takes() {
    if !can_watch() {
        return;
    }
    let lab = Lab::new();
    let with_few = |words: &str| {
        let script = format!("ulimit -n 24; exec {} {words}", env!("CARGO_BIN_EXE_bakeoff"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("BAKEOFF_ARCHIVE", lab.path("archive")).stdin(Stdio::null());
        Ended::of(command.output().unwrap())
    };
    for words in ["io 100ms 1", "locks 100ms 1", "ulocks 100ms 1"] {
        let ended = with_few(words);
        assert_eq!(ended.code, Some(6), "{words}: {} {}", ended.out, ended.err);
        assert_eq!((ended.err.lines().count(), ended.out.len()), (1, 0), "{words}: {}", ended.err);
        assert!(
            ended.err.contains("open files") && ended.err.contains("ulimit -n"),
            "{words}: {}",
            ended.err
        );
    }
    // Without events, the CPUs are still measured, and the report has the reason.
    let ended = with_few("cpu 100ms 1 --json");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["rung"], "proc");
    assert!(!document["cpus"].as_array().unwrap().is_empty(), "{document}");
    assert!(ended.err.contains("open files"), "{}", ended.err);
}

#[test]
fn at_ctrl_c_the_interval_that_has_begun_is_shown() {
    let lab = Lab::new();
    let mut command = lab.command(&["cpu", "600", "--json", "--events-only"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    // Whether it catches the signal yet.
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    };
    while !catches() {
        std::thread::yield_now();
    }
    kill(Pid::from_raw(id.cast_signed()), Signal::SIGINT).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(document["interval_s"].as_f64().unwrap() < 600.0, "{document}");
    assert!(!document["cpus"].as_array().unwrap().is_empty(), "{document}");
}

type Inside = Box<dyn FnMut(&Lab, &[&str]) -> std::process::Output>;

/// Returns a lab and a function that runs a command in a separate PID namespace.
fn in_a_pid_namespace() -> Option<(Lab, Inside)> {
    const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount", "--mount-proc"];
    if !can_watch() {
        return None;
    }
    if !Command::new("unshare").args(UNSHARE).arg("true").status().is_ok_and(|s| s.success()) {
        eprintln!("skipped: no PID namespace can be had with unshare");
        return None;
    }
    let inside = |lab: &Lab, words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(UNSHARE);
        if words[0] != "sh" {
            command.arg(env!("CARGO_BIN_EXE_bakeoff"));
        }
        command.args(words).env("BAKEOFF_ARCHIVE", lab.path("archive")).stdin(Stdio::null());
        command.output().unwrap()
    };
    Some((Lab::new(), Box::new(inside)))
}

fn can_watch() -> bool {
    let can = geteuid().is_root() && std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    if !can {
        eprintln!("skipped: needs root and a kernel with BTF");
    }
    can
}
