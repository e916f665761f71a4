//! An agent that observes this machine with all instruments while another one loads: its numbers against
//! known truths. Without root, BTF or a NATS server, the test prints that it is skipped.

#![cfg(feature = "fleet")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod lab;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lab::{Ended, Lab};
use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock as _, Monotonic};
use record::run::Run;
use record::series::Sample;
use serde_json::Value;

const LOAD: &str = "load null: --rate 200 --threads 1 --warmup 1s --time 3s --interval 500ms --fleet 1 \
                    --observers 1 --observe none --json";

/// A hog with a name and a known truth.
struct Known {
    child: Child,
    out: BufReader<ChildStdout>,
    from_ns: u64,
}

impl Known {
    fn start(lab: &Lab, name: &str, words: &[&str]) -> Self {
        // The threads have the name of the program's file.
        symlink(env!("CARGO_BIN_EXE_bakeoff"), lab.path(name)).unwrap();
        // Most of its CPU is its, also beside other tests.
        let mut command = Command::new("nice");
        command.args(["-n", "-10"]).arg(lab.path(name)).arg("hog").args(words).args(["--ready", "--json"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, out, from_ns: Monotonic.now_ns() }
    }

    /// Ends it; its own document, and its length in seconds.
    fn end(mut self) -> (Value, f64) {
        drop(self.child.stdin.take());
        let length_s = (Monotonic.now_ns() - self.from_ns) as f64 * 1e-9;
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        (serde_json::from_str(&text).unwrap(), length_s)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A count that was read between two moments.
struct Read {
    from_ns: u64,
    until_ns: u64,
    count: f64,
}

/// A count over time.
struct Course {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Read>>,
}

impl Course {
    fn start(mut count: impl FnMut() -> f64 + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let (from_ns, count) = (Monotonic.now_ns(), count());
                all.push(Read { from_ns, count, until_ns: Monotonic.now_ns() });
                thread::sleep(Duration::from_millis(5));
            }
            all
        });
        Self { stop, thread }
    }

    fn end(self) -> Truth {
        self.stop.store(true, Ordering::Relaxed);
        Truth(self.thread.join().unwrap())
    }
}

struct Truth(Vec<Read>);

impl Truth {
    /// Least and most growth of the count: on a busy machine, it was not read at both moments.
    fn between(&self, from_ns: u64, until_ns: u64) -> [f64; 2] {
        let around = |ns: u64| {
            let before = self.0.iter().rev().find(|read| read.until_ns <= ns).unwrap();
            let after = self.0.iter().find(|read| read.from_ns >= ns).unwrap();
            [before.count, after.count]
        };
        let ([from_least, from_most], [until_least, until_most]) = (around(from_ns), around(until_ns));
        [(until_least - from_most).max(0.0), until_most - from_least]
    }
}

/// The numbers of the observer, on this machine's clock.
struct Observed {
    run: Run,
    host: String,
    /// Ends of the intervals; the first is the beginning.
    ends_ns: Vec<u64>,
}

impl Observed {
    fn read(lab: &Lab, id: &str) -> Self {
        let run = archive::Archive::open(&lab.path("archive")).unwrap().run(id.parse().unwrap()).unwrap();
        let host = format!("{} (o1)", run.environment.fact("host.name").unwrap());
        let anchor_ns = run.header.anchor.monotonic_ns;
        let ns = |sample: &Sample| anchor_ns + u64::try_from(sample.t_ms).unwrap() * 1_000_000;
        // On a busy machine, the instruments may begin late, and say so.
        let late = run.instruments.missing.iter().find(|(name, _)| name.ends_with(": start"));
        let late_s = late.map_or(0.0, |(_, why)| {
            println!("{why}");
            why.reason.split(' ').find_map(|word| word.parse::<f64>().ok()).unwrap()
        });
        let from_ns = run.load.as_ref().unwrap().measured_from_ns;
        let late_ns = u64::try_from(Duration::from_secs_f64(late_s).as_nanos()).unwrap();
        let mut ends_ns = vec![from_ns + late_ns];
        let all = run.series.iter().filter(|s| *s.host == *host && &*s.name == "cpu_busy_ratio");
        ends_ns.extend(all.map(ns));
        assert!(ends_ns.len() > 1 && ends_ns.is_sorted(), "{ends_ns:?}");
        Self { run, host, ends_ns }
    }

    fn began_ns(&self) -> u64 {
        self.ends_ns[0]
    }

    fn ended_ns(&self) -> u64 {
        *self.ends_ns.last().unwrap()
    }

    /// Least and most length: if some instruments began late, others may have begun with the phase.
    fn lengths_s(&self) -> [f64; 2] {
        [self.began_ns(), self.phase_ns()].map(|from_ns| (self.ended_ns() - from_ns) as f64 * 1e-9)
    }

    /// Beginning of the measured phase.
    fn phase_ns(&self) -> u64 {
        self.run.load.as_ref().unwrap().measured_from_ns
    }

    /// Least and most growth of a count over the observation.
    fn growth(&self, truth: &Truth) -> [f64; 2] {
        let [least, _] = truth.between(self.began_ns(), self.ended_ns());
        let [_, most] = truth.between(self.phase_ns(), self.ended_ns());
        [least, most]
    }

    /// Samples of a name of which the labels have all the parts.
    fn of<'a>(&'a self, name: &'a str, parts: &'a [&'a str]) -> impl Iterator<Item = &'a Sample> {
        let is_of = move |s: &&Sample| {
            *s.host == *self.host && &*s.name == name && parts.iter().all(|part| s.labels.contains(part))
        };
        self.run.series.iter().filter(is_of)
    }

    fn sum(&self, name: &str, parts: &[&str]) -> f64 {
        self.of(name, parts).map(|s| s.value).sum()
    }
}

/// Whether a value is the truth, which lies between two others, but for a share of it and some more.
fn assert_near(what: &str, found: f64, [least, most]: [f64; 2], ratio: f64, more: f64) {
    let is_near = found >= least * (1.0 - ratio) - more && found <= most * (1.0 + ratio) + more;
    assert!(is_near, "{what}: {found}, and in truth {least} to {most}");
}

/// Sends datagrams to itself; the count of those that arrived.
fn datagrams(stop: Arc<AtomicBool>) -> (Arc<AtomicU64>, JoinHandle<()>) {
    let counted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&counted);
    let thread = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..20 {
                socket.send(&[7; 1_000]).unwrap();
                socket.recv(&mut [0; 1_000]).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(2));
        }
    });
    (counted, thread)
}

/// Writes and syncs pieces of a file; the count of bytes.
fn writes(lab: &Lab, stop: Arc<AtomicBool>) -> (Arc<AtomicU64>, JoinHandle<()>) {
    let mut file = fs::File::create(lab.path("written")).unwrap();
    let counted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&counted);
    let thread = thread::spawn(move || {
        let piece = vec![7; 1 << 20];
        while !stop.load(Ordering::Relaxed) {
            file.write_all(&piece).unwrap();
            file.sync_all().unwrap();
            count.fetch_add(1 << 20, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(100));
        }
    });
    (counted, thread)
}

/// A NATS server with one agent that loads, and another one that observes.
struct Two {
    dev: Child,
    observer: Child,
    url: String,
}

impl Two {
    /// - `group`: control group that is the server's.
    fn start(lab: &Lab, group: Option<&Group>) -> Option<Self> {
        let mut command = lab.command(&["fleet", "dev", "-n", "1"]);
        let mut dev = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(dev.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("NATS_URL=")?.1.to_owned()));
        let Some(url) = url else {
            let err = Ended::of(dev.wait_with_output().unwrap()).err;
            assert!(err.contains("nats-server: it is not installed"), "{err}");
            println!("skipped: no nats-server is installed");
            return None;
        };
        let mut command = lab.command(&["agent", "--role", "observe", "--id", "o1"]);
        command.arg("--spool").arg(lab.path("spool")).env("NATS_URL", &url);
        command.args(group.iter().flat_map(|group| [OsStr::new("--cgroup"), group.0.as_os_str()]));
        let said = fs::File::create(lab.path("said")).unwrap();
        let observer = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let two = Self { dev, observer, url };
        let said = || fs::read_to_string(lab.path("said")).unwrap();
        // To open all instruments takes seconds.
        while !said().contains("waits for a load") {
            thread::sleep(Duration::from_millis(20));
        }
        Some(two)
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        for child in [&mut self.observer, &mut self.dev] {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

/// A control group that ends with this value.
struct Group(PathBuf);

impl Group {
    /// `None`, and a line that says so, without a hierarchy of version 2.
    fn of(members: &[&Known]) -> Option<Self> {
        let Ok(mount) = probes::cgroups::mounted() else {
            println!("without a control group: no hierarchy of version 2 is mounted");
            return None;
        };
        let folder = mount.join(format!("bakeoff-test-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for member in members {
            fs::write(folder.join("cgroup.procs"), member.child.id().to_string()).unwrap();
        }
        Some(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, but for those of a test that failed.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The CPU time of processes, in seconds.
fn cpu_time(of: &[&Known]) -> Course {
    let clocks: Vec<_> = of
        .iter()
        .map(|known| clock_getcpuclockid(Pid::from_raw(known.child.id().cast_signed())).unwrap())
        .collect();
    let seconds = |time: nix::sys::time::TimeSpec| time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9;
    Course::start(move || clocks.iter().map(|clock| seconds(clock_gettime(*clock).unwrap())).sum())
}

#[test]
fn root_every_instrument_of_an_observing_agent_tells_the_truth_or_why_not() {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: needs root and a kernel with BTF");
        return;
    }
    let lab = Lab::new();
    let spin = Known::start(&lab, "known-spin", &["cpus"]);
    let futex = Known::start(&lab, "known-futex", &["lock", "futex", "--hold", "5ms"]);
    let pipe = Known::start(&lab, "known-pipe", &["lock", "pipe", "--hold", "5ms"]);
    let group = Group::of(&[&spin, &futex, &pipe]);
    let Some(two) = Two::start(&lab, group.as_ref()) else { return };
    let (of_spin, of_all) = (cpu_time(&[&spin]), cpu_time(&[&spin, &futex, &pipe]));
    let stop = Arc::new(AtomicBool::new(false));
    let ((sent, sender), (written, writer)) = (datagrams(Arc::clone(&stop)), writes(&lab, Arc::clone(&stop)));
    let sent = Course::start(move || sent.load(Ordering::Relaxed) as f64);
    let written = Course::start(move || written.load(Ordering::Relaxed) as f64);

    let words: Vec<&str> = LOAD.split(' ').collect();
    let ended = Ended::of(lab.command(&words).env("NATS_URL", &two.url).output().unwrap());
    let (of_spin, of_all, sent, written) = (of_spin.end(), of_all.end(), sent.end(), written.end());
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    writer.join().unwrap();
    let (_, (of_futex, futex_s), (of_pipe, pipe_s)) = (spin.end(), futex.end(), pipe.end());
    let load: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    let id = load["run"].as_str().unwrap_or_else(|| panic!("{}", ended.err));
    let seen = Observed::read(&lab, id);

    every_instrument_has_numbers_or_a_reason(&seen);
    the_spinner_has_its_cpu_time(&seen, &of_spin);
    if group.is_some() {
        the_group_has_its_cpu_time(&seen, &of_all);
    }
    let truth = |of: &Value, length_s: f64| {
        seen.lengths_s().map(|seen_s| of["wait_ns"].as_f64().unwrap() / length_s * seen_s)
    };
    let waits = seen.sum("ulocks_wait_ns_total", &["comm=known-futex"]);
    assert_near("waits for the futex", waits, truth(&of_futex, futex_s), 0.15, 0.0);
    let waits = seen.sum("locks_wait_ns_total", &["pipe"]);
    assert_near("waits for the pipe", waits, truth(&of_pipe, pipe_s), 0.2, 0.0);
    let off = seen.sum("off_cpu_threads_s", &["comm=known-futex"]);
    assert!(off * 1e9 >= 0.8 * truth(&of_futex, futex_s)[0], "{off} s off the CPU");
    let sent = seen.growth(&sent);
    assert_near("datagrams", seen.sum("nic_udp_in_datagrams", &[]), sent, 0.05, 50.0);
    assert!(seen.sum("nic_counts_rx_bytes", &["name=lo"]) >= 0.95 * sent[0] * 1_000.0);
    assert!(seen.sum("nic_tcp_in_segments", &[]) > 0.0, "the agents themselves use TCP");
    if fs::metadata(lab.path("written")).unwrap().dev() >> 8 != 0 {
        let [least, _] = seen.growth(&written);
        let found = seen.sum("io_bytes", &["op=write"]);
        assert!(found >= 0.8 * least, "{found} of {least} bytes that were written");
    }
    the_page_names_the_machine(&lab, id, &seen);
}

fn every_instrument_has_numbers_or_a_reason(seen: &Observed) {
    let missing = &seen.run.instruments.missing;
    println!("missing: {missing:?}");
    for name in ["cpu", "io", "nic", "memory", "locks", "ulocks", "power", "profile", "off-cpu"] {
        let prefix = format!("{}_", name.replace('-', "_"));
        let has_numbers =
            seen.run.series.iter().any(|s| *s.host == *seen.host && s.name.starts_with(&prefix));
        let reason = missing
            .keys()
            .find(|key| key.starts_with("observer o1 on ") && key.ends_with(&format!(": {name}")));
        assert!(has_numbers || reason.is_some(), "{name}: {missing:?}");
    }
    let available = seen.of("memory_available_bytes", &[]).map(|s| s.value).collect::<Vec<_>>();
    assert_eq!(available.len(), seen.ends_ns.len() - 1);
    assert!(available.iter().all(|bytes| (1e6..1e14).contains(bytes)), "{available:?}");
    let none = missing.keys().find(|key| key.ends_with(": rest"));
    assert_eq!(none, None, "three seconds fit");
}

fn the_spinner_has_its_cpu_time(seen: &Observed, truth: &Truth) {
    let anchor_ns = seen.run.header.anchor.monotonic_ns;
    let mut tops = 0;
    for ends in seen.ends_ns.windows(2) {
        let length_s = (ends[1] - ends[0]) as f64 * 1e-9;
        let is_at = |s: &&Sample| anchor_ns + s.t_ms.cast_unsigned() * 1_000_000 == ends[1];
        // A thread of another process may have had the CPU for longer.
        if let Some(top) = seen.of("cpu_top_ratio", &["comm=known-spin"]).find(is_at) {
            tops += 1;
            // Times are whole milliseconds.
            let of_truth = truth.between(ends[0], ends[1]);
            assert_near("CPU time", top.value * length_s, of_truth, 0.05, 0.01);
        }
    }
    assert!(tops > 0, "it had most of its CPU in none of {} intervals", seen.ends_ns.len() - 1);
    let of_truth = seen.growth(truth);
    assert_near("profile", seen.sum("profile_threads_s", &["comm=known-spin"]), of_truth, 0.1, 0.05);
    let all = seen.sum("profile_self_s", &[]);
    assert!(
        all > 0.5 * of_truth[0] && all <= seen.sum("profile_time_s", &["state=running"]) + 1e-6,
        "{all} s"
    );
}

/// The counter is read at the beginning of the phase, also if the instruments begin late.
fn the_group_has_its_cpu_time(seen: &Observed, truth: &Truth) {
    let (anchor_ns, begin_ns) = (seen.run.header.anchor.monotonic_ns, seen.phase_ns());
    let (mut before_ns, mut used_s) = (begin_ns, 0.0);
    for sample in seen.of("server_cpu_s_per_s", &["cgroup="]) {
        let at_ns = anchor_ns + sample.t_ms.cast_unsigned() * 1_000_000;
        used_s += sample.value * at_ns.saturating_sub(before_ns) as f64 * 1e-9;
        before_ns = at_ns;
    }
    assert!(before_ns > begin_ns + 2_900_000_000, "it was read until the end");
    assert_near("the group", used_s, truth.between(begin_ns, before_ns), 0.05, 0.1);
}

fn the_page_names_the_machine(lab: &Lab, id: &str, seen: &Observed) {
    let page = |more: &[&str]| {
        let page = lab.path("page.html");
        let report = lab.run(&[&["report", id, "-o", page.to_str().unwrap()], more].concat());
        assert_eq!(report.code, Some(0), "{}", report.err);
        fs::read_to_string(page).unwrap()
    };
    // Without its name, the machine is still another one than the run's.
    assert!(page(&[]).contains("cpu_busy_ratio on "), "the page has a name");
    let page = page(&["--identify"]);
    for words in [format!("cpu_busy_ratio on {}", seen.host), format!("{} comm=known-spin", seen.host)] {
        assert!(page.contains(&words), "the page has `{words}`");
    }
    if !seen.run.instruments.missing.is_empty() {
        assert!(page.contains("Not observed by other agents"), "the page says what is missing");
    }
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
}
