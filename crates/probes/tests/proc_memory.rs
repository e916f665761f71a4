//! Memory of a process that knows how much it allocated, without root; and what a control group frees at its
//! limit, with it.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bakeoff_probes::memory::{MemoryProbe, open};
use record::memory::{MemoryInterval, ProcessMemory};

const MIB: i64 = 1 << 20;

/// A Python program that allocates and frees memory on request, and answers when it has.
struct Taker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Pages are small (`MADV_NOHUGEPAGE`), so each is a separate fault.
const PROGRAM: &str = "
import mmap, sys
taken = []
print('ready', flush=True)
for line in sys.stdin:
    word, size = line.split()
    size = int(size) << 20
    if word == 'take':
        m = mmap.mmap(-1, size)
        m.madvise(15)
        for at in range(0, size, 4096):
            m[at] = 1
        taken.append(m)
    else:
        taken.pop().close()
    print('done', flush=True)
";

impl Taker {
    fn start() -> Option<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = python.spawn() else {
            eprintln!("skipped: there is no python3");
            return None;
        };
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut taker = Self { child, orders, answers };
        taker.hear("ready");
        Some(taker)
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        self.hear("done");
    }

    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }

    fn seen_by(&self, probe: &mut MemoryProbe) -> (MemoryInterval, ProcessMemory) {
        let interval = probe.read();
        let own = interval.processes.iter().find(|p| p.pid == self.child.id()).unwrap().clone();
        (interval, own)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_a_process_takes_and_gives_back_is_in_its_resident_set_and_its_faults() {
    let Some(mut taker) = Taker::start() else { return };
    let mut probe = open(Some(taker.child.id()));
    probe.start();
    taker.tell("take 64");
    let (interval, own) = taker.seen_by(&mut probe);
    // Python's own objects, some pages.
    assert!((own.rss_change_bytes - 64 * MIB).abs() < MIB, "{own:?}");
    assert!((16_384..16_384 + 512).contains(&own.minor_faults), "{own:?}");
    // The kernel merges its per-CPU counters once a second.
    assert!(interval.machine.unwrap().total_bytes > 64 << 20);
    taker.tell("give 64");
    let (_, own) = taker.seen_by(&mut probe);
    assert!((own.rss_change_bytes + 64 * MIB).abs() < MIB, "{own:?}");
    assert!(own.minor_faults < 512, "{own:?}");
}

#[test]
fn among_all_processes_a_figure_is_off_by_the_pages_that_cpus_hold_back() {
    let Some(mut taker) = Taker::start() else { return };
    let mut probe = open(None);
    probe.start();
    taker.tell("take 64");
    let (interval, own) = taker.seen_by(&mut probe);
    let cpus = i64::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
    assert!((own.rss_change_bytes - 64 * MIB).abs() < MIB + cpus * 2 * 128 * 1024, "{own:?}");
    assert!(
        interval.processes.len() > 1
            && interval.processes.is_sorted_by_key(|p| std::cmp::Reverse(p.rss_bytes))
    );
    assert!(
        interval.processes.iter().all(|p| p.rss_bytes > 0),
        "threads of the kernel have no memory of their own"
    );
}

#[test]
fn a_process_that_begins_and_one_that_ends_between_two_looks_are_told() {
    let mut probe = open(None);
    probe.start();
    let Some(taker) = Taker::start() else { return };
    let (_, own) = taker.seen_by(&mut probe);
    assert_eq!(own.rss_change_bytes, i64::try_from(own.rss_bytes).unwrap());
    assert!(own.minor_faults > 100, "a program that starts faults: {own:?}");
    let pid = taker.child.id();
    drop(taker);
    let after = probe.read();
    assert!(after.ended >= 1 && after.processes.iter().all(|p| p.pid != pid), "{after:?}");
}

#[test]
fn root_what_a_control_group_frees_at_its_limit_is_reclaimed() {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    let (mount, limit) = if v1.join("memory.limit_in_bytes").exists() {
        (v1, "memory.limit_in_bytes")
    } else {
        (Path::new("/sys/fs/cgroup"), "memory.max")
    };
    let group = mount.join(format!("bakeoff-test-memory-{}", std::process::id()));
    if fs::create_dir(&group).is_err() || fs::write(group.join(limit), "32M").is_err() {
        let _ = fs::remove_dir(&group);
        return eprintln!("skipped: needs root and a control group with the memory controller");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("more-than-its-group-may-have");
    let mut probe = open(Some(std::process::id()));
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec dd if=/dev/zero of={} bs=1M count=96",
        group.display(),
        file.display()
    );
    let dd = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    let machine = probe.read().machine.unwrap();
    fs::remove_file(&file).unwrap();
    while fs::remove_dir(&group).is_err() {
        std::thread::yield_now();
    }
    if !dd.success() || !fs::read_to_string("/proc/vmstat").unwrap().contains("pgsteal_file") {
        return eprintln!("skipped: no file can be reclaimed here, or this kernel does not count that");
    }
    let least = 32 << 20;
    assert!(machine.reclaimed_at_limits_bytes >= least, "{machine:?}");
    assert!(machine.reclaimed_bytes >= machine.reclaimed_at_limits_bytes, "{machine:?}");
}
