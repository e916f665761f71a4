//! The `/proc` rung: on a machine made of files, and as an unprivileged user.

#![expect(clippy::unwrap_used, reason = "this whole file is tests")]

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use bakeoff_probes::cpu_time::{self, Options, SwitchClock};
use record::clock::{Clock, Monotonic};
use record::cpu::Rung;

#[test]
fn of_256_cpus_the_one_that_is_full_is_named() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0-255\n");
    write(root.path(), "proc/stat", &stat(1_000, 1_000));
    let mut probe = cpu_time::open(&Options {
        root: root.path().to_owned(),
        highest: Rung::Bpf,
        ticks: true,
        tasks: None,
        waits: false,
        clock: SwitchClock::Own,
    });
    assert_eq!(probe.rung(), Rung::Proc);
    assert_eq!(probe.notes().len(), 1, "{:?}", probe.notes());

    let began_ns = Monotonic.now_ns();
    probe.start();
    thread::sleep(Duration::from_millis(300));
    let ticks = (Monotonic.now_ns() - began_ns) / 10_000_000;
    write(root.path(), "proc/stat", &stat(1_000 + ticks, 1_000));
    let interval = probe.read();

    let saturated: Vec<u32> = interval.cpus.iter().filter(|c| c.saturated()).map(|c| c.cpu).collect();
    assert_eq!(saturated, [137]);
    assert_eq!(interval.cpus.len(), 256);
    // One CPU of 256 is what an average hides: 0.4 %.
    let mean = interval.mean(|c| c.procstat_busy_ratio.clone()).unwrap();
    assert!((mean - 1.0 / 256.0).abs() < 1e-9, "{mean}");
    let why = interval.cpus[0].event_ratio.as_ref().unwrap_err();
    assert!(why.reason.contains("/proc rung"), "{why}");
}

#[test]
fn a_cpu_that_comes_or_goes_is_missing_and_not_idle() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0-1\n");
    write(root.path(), "proc/stat", "cpu  0 0 0 0\ncpu0 0 0 0 100\ncpu1 0 0 0 100\n");
    let mut probe = cpu_time::open(&Options {
        root: root.path().to_owned(),
        highest: Rung::Proc,
        ticks: false,
        tasks: None,
        waits: false,
        clock: SwitchClock::Own,
    });
    probe.start();
    // In less time than that, ticks say nothing.
    thread::sleep(Duration::from_millis(60));
    write(root.path(), "sys/devices/system/cpu/online", "0,2\n");
    write(root.path(), "proc/stat", "cpu  0 0 0 0\ncpu0 0 0 0 101\ncpu2 0 0 0 5\n");
    let interval = probe.read();
    let seen: Vec<(u32, bool)> = interval.cpus.iter().map(|c| (c.cpu, c.not_idle_ratio.is_ok())).collect();
    assert_eq!(seen, [(0, true), (1, false), (2, false)]);
}

#[test]
fn without_proc_stat_every_value_says_why() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0\n");
    let mut probe = cpu_time::open(&Options {
        root: root.path().to_owned(),
        highest: Rung::Proc,
        ticks: false,
        tasks: None,
        waits: false,
        clock: SwitchClock::Own,
    });
    probe.start();
    let interval = probe.read();
    let why = interval.cpus[0].busy_ratio().unwrap_err();
    assert!(why.reason.contains("/proc/stat cannot be read"), "{why}");
}

#[test]
fn root_a_user_who_may_nothing_gets_the_proc_rung_and_is_told_how_to_climb() {
    // target/debug/deps/this-test -> target/debug/examples/cpu
    let this = std::env::current_exe().unwrap();
    let example = this.parent().unwrap().parent().unwrap().join("examples/cpu");
    let mut command = Command::new(example);
    command.args(["0.1", "2"]);
    if nix::unistd::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return eprintln!("skipped: user nobody may not run a program of this folder: {e}"),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("rung proc"), "{text}");
    if cfg!(feature = "bpf") {
        assert!(text.contains("sudo") && text.contains("CAP_BPF"), "{text}");
    }
    assert!(text.contains("cpu 0: event - %"), "{text}");
}

/// 256 CPUs that were idle for `now` ticks, but for one that was busy since `then`.
fn stat(now: u64, then: u64) -> String {
    let mut text = String::from("cpu  1 2 3 4 5 6 7 8 0 0\n");
    for cpu in 0..256 {
        if cpu == 137 {
            writeln!(text, "cpu{cpu} {} 0 0 {then} 0 0 0 0 0 0", now - then).unwrap();
        } else {
            writeln!(text, "cpu{cpu} 0 0 0 {now} 0 0 0 0 0 0").unwrap();
        }
    }
    text + "intr 0\nctxt 0\n"
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
