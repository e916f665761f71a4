//! The time shares of `--stats`, for files and pipes with a known bottleneck.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, text};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Files that a single thread decodes: the command that writes each, and tamp's options to read it.
const ONE_THREAD: [(&str, &str, &str); 5] = [
    ("tamp --long -c sample", "s.zst", ""),
    ("tamp --patch-from sample -c other", "p.zst", "--patch-from sample"),
    ("gzip -c sample", "s.gz", ""),
    ("pigz -zc sample", "s.zz", ""),
    ("lz4 -BD -qc sample", "s.lz4", ""),
];

/// Creates `name` with `line`; `false` if the tool is not installed.
#[expect(clippy::print_stderr, reason = "a skip is told")]
fn make(scratch: &Scratch, line: &str, name: &str) -> bool {
    let (tool, rest) = line.split_once(' ').unwrap();
    let output = if tool == "tamp" {
        scratch.command(rest).output()
    } else {
        Command::new(tool).args(rest.split(' ')).current_dir(scratch.folder.path()).output()
    };
    let Ok(output) = output else {
        eprintln!("skipped: {tool} is not installed");
        return false;
    };
    std::fs::write(scratch.path(name), output.stdout).unwrap();
    true
}

/// Returns random letters, on which a codec takes long.
fn letters() -> Vec<u8> {
    (0..6_000_000_u32)
        .map(|n| n.wrapping_mul(0x9E37_79B1) ^ (n >> 3).wrapping_mul(0x85EB_CA6B))
        .map(|n| b'a' + (n >> 24) as u8 % 26)
        .collect()
}

/// Returns content that compresses to a tenth, and is too large to hold as a whole.
fn lines() -> Vec<u8> {
    (0..3_000_000).flat_map(|n: u32| format!("{n:>7}\n").into_bytes()).collect()
}

fn prepared() -> Scratch {
    let scratch = Scratch::new();
    let lines = lines();
    std::fs::write(scratch.path("other"), [&lines[1 << 20..], &lines[..1 << 20]].concat()).unwrap();
    std::fs::write(scratch.path("sample"), lines).unwrap();
    scratch
}

fn stats(stderr: &[u8]) -> Value {
    let last = text(stderr).lines().last().unwrap().to_owned();
    serde_json::from_str(&last).unwrap()
}

fn ratio(stats: &Value, key: &str) -> f64 {
    stats[key].as_f64().unwrap()
}

#[test]
fn the_codec_is_the_bottleneck_of_a_cached_file_that_one_thread_decodes() {
    let scratch = prepared();
    for (line, name, with) in ONE_THREAD {
        if !make(&scratch, line, name) {
            continue;
        }
        for threads in [1, 2] {
            let output = scratch.tamp(&format!("-t -T{threads} --stats=json {with} {name}"));
            let found = stats(&output.stderr);
            assert_eq!(found["bottleneck"], "the codec", "{found}");
            assert!(ratio(&found, "codec_ratio") > 0.5, "{found}");
            let used = ratio(&found, "threads_used");
            assert!(0.0 < used && used < 1.1, "{found}");
        }
    }
}

#[test]
fn the_input_is_the_bottleneck_if_it_pauses_in_what_one_thread_decodes() {
    let scratch = prepared();
    for (line, name, with) in ONE_THREAD {
        if !make(&scratch, line, name) {
            continue;
        }
        let bytes = scratch.read(name);
        let mut command = scratch.command(&format!("-t -T2 --stats=json {with}"));
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for part in bytes.chunks(bytes.len() / 2) {
            stdin.write_all(part).unwrap();
            // The load of the test, not a wait: longer than decoding takes beside other tests.
            std::thread::sleep(Duration::from_millis(1500));
        }
        drop(stdin);
        let found = stats(&child.wait_with_output().unwrap().stderr);
        assert_eq!(found["bottleneck"], "the input", "{found}");
        assert!(ratio(&found, "starved_ratio") > 0.5, "{found}");
    }
}

#[test]
fn threads_used_are_cpu_time_beside_work_that_takes_the_cpus_away() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("sample"), letters()).unwrap();
    let (ended, cpus) = (AtomicBool::new(false), std::thread::available_parallelism().unwrap().get());
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        for _ in 0..3 * cpus {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for line in ["-c -5 sample", "-c -5 --long sample"] {
            // The shell's times: its own, then those of its children.
            let script = format!("\"$0\" --stats=json {line} >/dev/null; times");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_tamp")]).current_dir(scratch.folder.path());
            let output = shell.output().unwrap();
            let times = text(&output.stdout);
            let of_child = times.lines().nth(1).unwrap().split(' ').map(|time| {
                let (minutes, seconds) = time.split_once('m').unwrap();
                minutes.parse::<f64>().unwrap() * 60.0 + seconds.trim_end_matches('s').parse::<f64>().unwrap()
            });
            let (cpu_s, found) = (of_child.sum::<f64>(), stats(&output.stderr));
            let codec_s = ratio(&found, "threads_used") * ratio(&found, "elapsed_s");
            // The shell's clock has steps of 10 ms, and tamp also does other work than the codec's.
            assert!(0.5 * cpu_s - 0.05 < codec_s && codec_s < cpu_s + 0.05, "{line}: {cpu_s} s, {found}");
        }
    });
}

/// Sets the flag when the test ends, even by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn stats_are_one_json_object() {
    let scratch = Scratch::new();
    let output = scratch.tamp("-k --stats=json sample");
    let stats: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(stats["schema"], "tamp.stats/1");
    assert_eq!(stats["in_bytes"], 3_200_000);
    assert_eq!(stats["out_bytes"], scratch.read("sample.zst").len());
    let sum: f64 = ["starved_ratio", "codec_ratio", "blocked_ratio"]
        .iter()
        .map(|key| stats[key].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{stats}");
    assert!(stats["memory_bytes_max"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn the_input_of_a_file_that_is_read_by_its_index_is_all_of_it() {
    let scratch = Scratch::new();
    for (options, name, reads) in [
        ("--zst", "sample.zst", ""),
        ("--zst --block-size 5000", "sample.zst", ""),
        ("--lz4", "sample.lz4", ""),
        ("--bgzf", "sample.gz", ""),
        ("--long", "sample.zst", ""),
        ("--patch-from sample", "sample.zst", "--patch-from sample"),
    ] {
        scratch.ok(&format!("-kf {options} sample"));
        let packed = scratch.read(name);
        for line in ["-dkf -o out", "-t", "-t -T1"] {
            let found = stats(&scratch.tamp(&format!("{line} --stats=json {reads} {name}")).stderr);
            assert_eq!(found["in_bytes"], packed.len(), "{options} {line}: {found}");
            assert_eq!(found["out_bytes"], 3_200_000, "{options} {line}: {found}");
        }
        let found = stats(&scratch.tamp_with(&format!("-d --stats=json {reads}"), &packed).stderr);
        assert_eq!(found["in_bytes"], packed.len(), "{options} from a pipe: {found}");
        for written in [
            scratch.tamp(&format!("-c --stats=json {options} sample")),
            scratch.tamp_with(&format!("--stats=json {options}"), &scratch.read("sample")),
        ] {
            let found = stats(&written.stderr);
            assert_eq!(found["in_bytes"], 3_200_000, "{options}: {found}");
            assert_eq!(found["out_bytes"], written.stdout.len(), "{options}: {found}");
        }
    }
}
