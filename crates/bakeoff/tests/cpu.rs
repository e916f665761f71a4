//! `bakeoff cpu` as a user runs it: on this machine, and on machines made of files.

#![expect(clippy::unwrap_used, reason = "this whole file is tests")]

mod lab;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::Lab;
use serde_json::Value;

/// Writes a machine of 256 CPUs, idle except for one, at a time of `ticks`.
fn big_machine(root: &Path, ticks: u64) {
    let mut stat = String::from("cpu  0 0 0 0\n");
    for cpu in 0..256 {
        let (busy, idle) = if cpu == 137 { (ticks, 0) } else { (0, ticks) };
        writeln!(stat, "cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0").unwrap();
    }
    let sys = root.join("sys/devices/system/cpu");
    fs::create_dir_all(&sys).unwrap();
    fs::create_dir_all(root.join("proc")).unwrap();
    // A reader must never find an empty file that is still being written.
    for (path, text) in [(sys.join("online"), "0-255\n"), (root.join("proc/stat"), stat.as_str())] {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, path).unwrap();
    }
}

struct SetAtEnd<'d>(&'d AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the fixture's clock must be the machine's")]
fn of_256_cpus_the_full_one_is_named_in_one_line() {
    let lab = Lab::new();
    let root = lab.path("machine");
    big_machine(&root, 0);
    let began = Instant::now();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Its time advances with the real time; if this thread starves, an interval may look busier than
            // it was.
            while !done.load(Ordering::Relaxed) {
                big_machine(&root, u64::try_from(began.elapsed().as_millis()).unwrap() / 10);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // Even if an assertion fails: the scope waits for the thread.
        let _done = SetAtEnd(&done);
        let mut command = lab.command(&["cpu", "500ms", "--root", root.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut saturated: Vec<String> = Vec::new();
        loop {
            let line = lines.next().expect("it goes on until it is stopped");
            if line.contains("over 0.") || line.contains("over 1.") {
                if saturated.len() == 1 && saturated[0].starts_with("CPU 137 is saturated") {
                    break;
                }
                saturated.clear();
            }
            assert!(line.chars().count() <= 120, "{line}");
            if line.contains("is saturated") {
                saturated.push(line);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn root_a_cpu_full_of_softirqs_is_called_full_and_softirqs_are_named() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let last: u32 = online.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() || last == 0 {
        return println!("skipped: needs root, a kernel with BTF and two CPUs");
    }
    let lab = Lab::new();
    let cpu = last.to_string();
    let mut hog = lab.command(&["hog", "packets", "--rate", "0", "--cpu", &cpu, "--ready"]);
    let mut hog = hog.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(hog.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let mut watcher = lab.command(&["cpu", "300ms", "40"]);
    let mut watcher = watcher.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut by_threads = 0;
    let found = lines.by_ref().filter(|line| line.starts_with(&format!("CPU {last} is"))).find(|line| {
        by_threads += usize::from(line.contains(" ran "));
        line.contains(" is saturated and full, ") && line.contains(": softirqs used ")
    });
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // It ends with its input.
    drop(hog.stdin.take());
    hog.wait().unwrap();
    // Beside other work, the kernel gives softirqs only a part of the CPU.
    assert!(found.is_some() || by_threads >= 10, "{by_threads} of 40 intervals were filled by a thread");
}

#[test]
fn every_form_of_output_holds_every_cpu() {
    let lab = Lab::new();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let json = lab.json(&["cpu", "100ms", "1", "--tasks"]);
    let cpus = json["cpus"].as_array().unwrap();
    assert_eq!(json["schema"], "bakeoff.cpu/1");
    for cpu in cpus {
        assert!(cpu["stolen_ratio"].is_number() || cpu["missing"]["stolen_ratio"].is_string(), "{cpu}");
        assert!(cpu["cycles"].is_number() || cpu["missing"]["cycles"].is_string(), "{cpu}");
    }
    assert!(json["tasks"].is_array() || json["missing"]["tasks"].is_string(), "{json}");

    let csv = lab.run(&["cpu", "100ms", "2", "--csv"]);
    let rows: Vec<&str> = csv.out.lines().collect();
    assert_eq!(rows.len(), 1 + 2 * cpus.len(), "{}", csv.out);
    let columns = rows[0].split(',').count();
    assert!(rows[0].starts_with("t_s,interval_s,rung"), "{}", rows[0]);
    assert!(rows[1..].iter().all(|row| row.split(',').count() >= columns), "{}", csv.out);

    let first = online.trim().split(['-', ',']).next().unwrap();
    let one = lab.json(&["cpu", "100ms", "1", "--cpus", first]);
    assert_eq!(one["cpus"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_watched_is_told() {
    let lab = Lab::new();
    for (words, word) in [
        (&["cpu", "--topology", "0,1;1,2", "--tasks"][..], "named twice"),
        (&["cpu", "--topology", "0,0", "--tasks"], "named twice"),
        (&["cpu", "--topology", "0,1"], "--tasks"),
        (&["cpu", "--cpus", "9-1"], "list of CPUs"),
        (&["cpu", "100ms", "1", "--cpus", "60000"], "none of the CPUs"),
        (&["cpu", "--csv", "--json"], "--json"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{words:?}: {}", ended.err);
    }
}

#[test]
fn energy_is_that_of_the_counters_or_one_line_says_that_there_are_none() {
    let lab = Lab::new();
    let root = lab.path("machine");
    big_machine(&root, 0);
    let asked = |json: bool| {
        let words = ["cpu", "100ms", "1", "--energy", "--root", root.to_str().unwrap(), "--json"];
        lab.run(&words[..words.len() - usize::from(!json)])
    };
    let without = asked(false);
    assert_eq!((without.code, without.out.contains("energy")), (Some(0), false), "{}", without.err);
    assert_eq!(without.err.matches("no energy: the kernel lists no counters").count(), 1, "{}", without.err);
    let without: Value = serde_json::from_str(&asked(true).out).unwrap();
    assert!(without["energy"].is_null() && without["missing"]["energy"].is_string(), "{without}");

    let zone = root.join("sys/class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).unwrap();
    for (file, text) in
        [("name", "package-0"), ("energy_uj", "1000000"), ("max_energy_range_uj", "262143328850")]
    {
        fs::write(zone.join(file), text).unwrap();
    }
    let with = asked(false);
    assert!(
        with.out.contains("energy: package-0 0 W (0 J)") && !with.err.contains("no energy"),
        "{}",
        with.out
    );
    let with: Value = serde_json::from_str(&asked(true).out).unwrap();
    assert_eq!(with["energy"], serde_json::json!([{ "zone": "package-0", "energy_j": 0.0, "power_w": 0.0 }]));
}
