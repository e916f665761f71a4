//! `bakeoff locks` and `ulocks` with programs of known locks. Without root or BTF, the tests print that they
//! skip.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use lab::Lab;
use serde_json::Value;

#[test]
fn root_a_programs_lock_is_named_by_process_until_it_is_stopped() {
    let Some(lab) = lab() else { return };
    let hog = Hog::start(&lab, "futex");
    let seen = watch_until(&lab, &["ulocks", "100ms", "--json", "--pid", &hog.pid()], |interval| {
        locks(interval).iter().any(|l| l["count"].as_u64().unwrap() > 0)
    });
    assert_eq!(seen["schema"], "bakeoff.ulocks/1");
    for lock in locks(&seen) {
        assert_eq!(lock["pid"].to_string(), hog.pid(), "{lock}");
        // The hog makes the system call directly, not through a library.
        assert_eq!((&lock["kind"], &lock["call"]), (&"other".into(), &Value::Null), "{lock}");
    }
    assert_balanced(&seen);
}

#[test]
fn root_a_lock_of_the_kernel_is_named_by_kind_and_caller() {
    let Some(lab) = lab() else { return };
    let hog = Hog::start(&lab, "pipe");
    let words = ["locks", "100ms", "--json", "--stacks", "--kind", "mutex", "--pid", &hog.pid()];
    let is_seen = |interval: &Value| {
        let is_pipe = |l: &Value| l["caller"].as_str().is_some_and(|c| c.contains("pipe"));
        locks(interval).iter().any(is_pipe)
    };
    let seen = watch_until(&lab, &words, is_seen);
    assert_eq!(seen["schema"], "bakeoff.locks/1");
    for lock in locks(&seen) {
        assert_eq!(lock["kind"], "mutex");
        let ratio = lock["cpu_util_ratio"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&ratio), "{lock}");
        assert!(lock["spin_ns_total"].as_u64() <= lock["wait_ns_total"].as_u64(), "{lock}");
    }
    assert_balanced(&seen);
    // A filter that matches no thread gives no waits; the table has a title, with or without a line for all.
    let none = lab.run(&["locks", "100ms", "1", "--comm", "no-such-thread"]);
    assert_eq!(none.code, Some(0), "{}", none.err);
    assert!(none.out.contains("0 waits"), "{}", none.out);
    assert!(!none.out.contains("asked for"), "{}", none.out);
    let part = lab.run(&["locks", "100ms", "1", "--kind", "mutex", "--comm", "no-such-thread"]);
    assert!(part.out.contains("0 waits for the kernel's locks ended, of those asked for"), "{}", part.out);
}

#[test]
fn root_values_between_commas_have_as_many_fields_as_their_head() {
    let Some(lab) = lab() else { return };
    for command in ["locks", "ulocks"] {
        let csv = lab.run(&[command, "100ms", "2", "--csv"]);
        assert_eq!(csv.code, Some(0), "{}", csv.err);
        let head = csv.out.lines().next().unwrap();
        assert!(head.contains("kind") && head.contains("caller"), "{head}");
    }
}

#[test]
fn root_the_end_of_the_only_process_that_is_watched_is_the_end() {
    let Some(lab) = lab() else { return };
    for command in ["locks", "ulocks", "io"] {
        // The ended process remains as a zombie, because the test has not waited for it. A command that
        // missed its end would run for ever.
        let mut child = Command::new("sleep").arg("0.2").spawn().unwrap();
        let ended = lab.run(&[command, "100ms", "--pid", &child.id().to_string()]);
        assert_eq!(ended.code, Some(0), "{command}: {}", ended.err);
        assert!(ended.err.contains(&format!("process {} has ended", child.id())), "{command}: {}", ended.err);
        assert!(!ended.out.is_empty(), "{command}");
        child.wait().unwrap();
    }
}

#[test]
fn what_is_wrong_is_told_and_ends_with_2() {
    let lab = Lab::new();
    for (words, word) in [
        (&["locks", "--kind", "padlock"][..], "spinlock"),
        (&["ulocks", "--kind", "spinlock"], "condvar"),
        (&["locks", "--min-util", "lots"], "1%"),
        (&["locks", "--csv", "--json"], "cannot be used with"),
        (&["ulocks", "0"], "100ms"),
        (&["locks", "1", "0"], "0"),
        (&["locks", "--pid", "0"], "0"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{words:?}: {}", ended.err);
    }
}

#[test]
fn root_without_the_right_to_it_one_line_says_how_to_get_it() {
    let Some(_) = lab() else { return };
    for command in ["locks", "ulocks", "io", "profile"] {
        // A program loses at its start the rights that are not in the bounding set.
        let mut less = Command::new("setpriv");
        less.args(["--bounding-set", "-bpf,-perfmon,-sys_admin", env!("CARGO_BIN_EXE_bakeoff"), command]);
        let Ok(output) = less.output() else { return eprintln!("skipped: there is no setpriv (util-linux)") };
        let ended = lab::Ended::of(output);
        assert_eq!(ended.code, Some(6), "{command}: {}", ended.err);
        assert_eq!((ended.err.lines().count(), ended.out.len()), (1, 0), "{command}: {}", ended.err);
        assert!(ended.err.contains("sudo") && ended.err.contains("CAP_BPF"), "{command}: {}", ended.err);
    }
}

/// Returns a lab if root and BTF are there: then locks must be watched.
fn lab() -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: needs root and a kernel with BTF");
        return None;
    }
    let lab = Lab::new();
    let ended = lab.run(&["locks", "100ms", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    Some(lab)
}

fn locks(interval: &Value) -> &[Value] {
    interval["locks"].as_array().unwrap()
}

/// Checks that the waits of the locks add up to those of the total.
fn assert_balanced(interval: &Value) {
    let sum = |name: &str| locks(interval).iter().map(|l| l[name].as_u64().unwrap()).sum::<u64>();
    for name in ["count", "wait_ns_total"] {
        assert_eq!(interval["total"][name].as_u64(), Some(sum(name)), "{interval}");
    }
    for lock in locks(interval) {
        let buckets = lock["histogram"].as_object().unwrap().values();
        assert_eq!(
            buckets.map(|n| n.as_u64().unwrap()).sum::<u64>(),
            lock["count"].as_u64().unwrap(),
            "{lock}"
        );
    }
}

/// Reads a command's output, interval by interval, until one satisfies `will_do`; then interrupts the
/// command, which must succeed.
fn watch_until(lab: &Lab, words: &[&str], will_do: impl Fn(&Value) -> bool) -> Value {
    let mut child = lab.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut looks = 0;
    let found = loop {
        looks += 1;
        let Some(line) = lines.next().filter(|_| looks < LOOKS_MAX) else {
            let _ = child.kill();
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("{words:?} ended, or told nothing that would do: {why}");
        };
        let interval: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if will_do(&interval) {
            break interval;
        }
    };
    interrupt(&child);
    // The last output of the command is an interval too.
    for line in lines {
        serde_json::from_str::<Value>(&line.unwrap()).unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    found
}

/// Number of intervals, of 0.1 s each, after which the test gives up.
const LOOKS_MAX: u32 = 600;

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// A running `bakeoff hog lock`, which ends when this is dropped.
struct Hog(Child);

impl Hog {
    fn start(lab: &Lab, lock: &str) -> Self {
        let words = ["hog", "lock", lock, "--hold", "5ms", "--time", "10m"];
        Self(lab.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
