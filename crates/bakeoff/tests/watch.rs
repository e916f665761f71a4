//! The dashboard in a real terminal: tmux, at two sizes. The screen of an archived run is golden; for the
//! live machine, only that it is updated is asserted. Without tmux, the tests print that they skip.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use archive::Archive;
use lab::Lab;
use record::block_io::{IoCounts, IoEvents, IoGroup, IoInterval, Latencies, LatencyBucket};
use record::clock::WallAnchor;
use record::cpu::{CpuInterval, CpuSample, Rung, TopThread};
use record::environment::Environment;
use record::instruments::Instruments;
use record::locks::{
    LockInterval, LockKind, LockSample, UserLockInterval, UserLockKind, UserLockSample, Waits,
};
use record::missing::Missing;
use record::nic::{Duplex, InterfaceSample, LinkCounts, NicInterval};
use record::run::{Run, RunHeader, RunId, RunKind};

#[test]
fn a_replay_is_the_same_screen_every_time_also_after_the_terminal_changed_its_size() {
    let lab = Lab::new();
    let id = archived(&lab);
    let Some(tmux) = Tmux::start(&lab, &["watch", "1m", "--replay", &id]) else { return };
    tmux.wait_for("Locks", |screen| screen.contains("do_user_addr") && screen.contains("eth0"));
    // Pauses, to keep the screen still however long the test takes.
    tmux.keys("p");
    tmux.wait_for("a pause", |screen| screen.contains("PAUSED"));
    tmux.keys("Right");
    let small = settled(&tmux, "the second interval", |screen| screen.contains("2/3"));
    insta::assert_snapshot!("replay_80x24", small);
    tmux.resize(200, 50);
    let large = settled(&tmux, "the larger size", |screen| {
        let is_wide = screen.lines().next().is_some_and(|l| l.chars().count() > 150);
        // The last row is drawn last.
        screen.lines().count() == 50 && is_wide && screen.lines().last().is_some_and(|l| l.contains("q quit"))
    });
    insta::assert_snapshot!("replay_200x50", large);
    tmux.resize(80, 24);
    let again = tmux.wait_for("the smaller size", |screen| screen == small);
    assert_eq!(again, small);
    tmux.keys("Left");
    tmux.wait_for("the first interval", |screen| screen.contains("1/3"));
    tmux.keys("q");
    // The terminal is restored, and the command has succeeded.
    tmux.wait_for("the end", |screen| screen.contains("ended with 0") && !screen.contains("bakeoff watch"));
}

#[test]
fn processes_that_vanish_and_a_terminal_that_shrinks_leave_the_dashboard_alive() {
    let lab = Lab::new();
    let Some(tmux) = Tmux::start(&lab, &["watch", "100ms"]) else { return };
    let looks = |screen: &str| screen.contains("hottest thread");
    tmux.wait_for("a first look", looks);
    for (width, height) in [(200, 50), (40, 10), (80, 24)] {
        // Each is busy for a moment, and gone before its name is read.
        for _ in 0..20 {
            let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
            let mut child = Command::new("sh").args(["-c", busy]).spawn().unwrap();
            let _ = child.kill();
            child.wait().unwrap();
        }
        tmux.resize(width, height);
        let is_too_small = height == 10;
        tmux.wait_for("a screen of that size", |screen| {
            screen.lines().count() == usize::from(height)
                && screen.contains("too small: needs") == is_too_small
        });
    }
    let before = tmux.wait_for("another look", looks);
    tmux.wait_for("a look after that", |screen| looks(screen) && screen != before);
    tmux.keys("p");
    let paused = settled(&tmux, "a pause", |screen| screen.contains("PAUSED"));
    // Back and forward through the samples: no sample is taken meanwhile, so the same screen comes back.
    tmux.keys("Left");
    tmux.wait_for("the look before", |screen| screen.contains("1 before the newest"));
    tmux.keys("Right");
    assert_eq!(tmux.wait_for("the newest look", |screen| screen == paused), paused);
    tmux.keys("C-c");
    tmux.wait_for("the end", |screen| screen.contains("ended with 0"));
}

/// A terminal with a screen that a test reads.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Starts the binary with these words in a terminal of 80 x 24; the exit code is printed at the end.
    fn start(lab: &Lab, words: &[&str]) -> Option<Self> {
        let settings = lab.path("tmux.conf");
        std::fs::write(&settings, "set -g status off\nset -g remain-on-exit on\n").unwrap();
        let tmux = Self { socket: lab.path("tmux").to_str().unwrap().to_owned() };
        let line = format!(
            "BAKEOFF_ARCHIVE='{}' TZ=UTC LC_ALL=C.UTF-8 '{}' {}; echo ended with $?; sleep 600",
            lab.path("archive").display(),
            env!("CARGO_BIN_EXE_bakeoff"),
            words.join(" ")
        );
        let mut command = Command::new("tmux");
        command.args(["-u", "-S", &tmux.socket, "-f", settings.to_str().unwrap(), "new-session", "-d"]);
        let started = command.args(["-x", "80", "-y", "24", &line]).stderr(Stdio::null()).status();
        if !started.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no tmux");
            return None;
        }
        Some(tmux)
    }

    fn tell(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-S", &self.socket]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self, key: &str) {
        self.tell(&["send-keys", key]);
    }

    fn resize(&self, width: u16, height: u16) {
        self.tell(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Text of the screen without the dashboard's CPU time, which varies.
    fn screen(&self) -> String {
        let text = self.tell(&["capture-pane", "-p"]);
        let known = |line: &str| line.split("own CPU").next().unwrap_or_default().trim_end().to_owned();
        text.lines().map(|line| known(line) + "\n").collect()
    }

    /// Waits for a screen that satisfies `will_do`.
    fn wait_for(&self, what: &str, will_do: impl Fn(&str) -> bool) -> String {
        for _ in 0..600 {
            let screen = self.screen();
            if will_do(&screen) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{what} did not come within a minute:\n{}", self.screen());
    }
}

/// Waits for a screen that satisfies `will_do` twice in a row: the first may be half drawn.
fn settled(tmux: &Tmux, what: &str, will_do: impl Fn(&str) -> bool) -> String {
    let mut screen = tmux.wait_for(what, &will_do);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let next = tmux.wait_for(what, &will_do);
        if next == screen {
            return screen;
        }
        screen = next;
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Archives a run of three intervals; returns its name.
fn archived(lab: &Lab) -> String {
    let anchor = WallAnchor { monotonic_ns: 5 * SECOND_NS, unix_ns: 1_795_000_000 * SECOND_NS };
    let header = RunHeader {
        id: RunId::new(anchor, 7),
        ..RunHeader::running(RunKind::Record, anchor, "a command".into(), "bakeoff record -- command".into())
    }
    .ended(None);
    let instruments = Instruments {
        io: (0..3).map(io).collect(),
        nic: (0..3).map(nic).collect(),
        locks: (0..3).map(locks).collect(),
        ulocks: (0..3).map(ulocks).collect(),
        profiles: Vec::new(),
        missing: BTreeMap::new(),
    };
    let run = Run {
        cpu: (0..3).map(cpu).collect(),
        instruments,
        ..Run::unmeasured(header.clone(), Environment::default())
    };
    let archive = Archive::open(&lab.path("archive")).unwrap();
    archive.begin(&header).unwrap().seal(&run).unwrap();
    header.id.to_string()
}

fn times(k: u64) -> (u64, u64) {
    ((5 + k) * SECOND_NS, (6 + k) * SECOND_NS)
}

fn cpu(k: u64) -> CpuInterval {
    let (from_ns, until_ns) = times(k);
    let sample = |cpu: u32| {
        let busy = if cpu == 1 { 0.998 } else { 0.25 };
        CpuSample {
            event_ratio: Ok(busy),
            irq_ratio: Ok(0.01),
            softirq_ratio: Ok(0.02),
            run_queue_wait_ns: Ok(1_000_000),
            procstat_busy_ratio: Ok(busy / 2.0),
            unaccounted_ratio: Ok(busy / 2.0),
            not_idle_ratio: Ok(busy),
            stolen_ratio: Ok(0.0),
            balance_ns: Ok(0),
            switches: Ok(1_234),
            top: Ok(TopThread { pid: 4_711, tid: 4_712, comm: "mariadbd".into(), ratio: busy * 0.9 }),
            ..CpuSample::without_values(cpu, "not asked for")
        }
    };
    let cpus = (0..2).map(sample).collect();
    CpuInterval {
        from_ns,
        until_ns,
        rung: Rung::Bpf,
        missed_deadline: false,
        cpus,
        psi_some_ratio: Ok(0.25),
        lost: BTreeMap::new(),
    }
}

fn io(k: u64) -> IoInterval {
    let (from_ns, until_ns) = times(k);
    let bucket = |from_ns: u64, count| LatencyBucket { from_ns, until_ns: from_ns + from_ns / 32, count };
    let buckets = vec![bucket(65_536, 100), bucket(131_072, 10), bucket(4_194_304 << k, 3)];
    let from_start = Latencies { buckets, sum_ns: 0, max_ns: 20_000_000 };
    IoInterval {
        from_ns,
        until_ns,
        missed_deadline: false,
        events: IoEvents::StartToDone,
        counts: IoCounts { reads: 100, writes: 13, ..IoCounts::default() },
        groups: vec![IoGroup { count: 113, from_start, ..IoGroup::default() }],
        in_flight: 0,
        unmatched: Ok(0),
        merged: Ok(0),
        lost: [("in-flight-full".to_owned(), 3)].into(),
    }
}

fn locks(k: u64) -> LockInterval {
    let (from_ns, until_ns) = times(k);
    let lock = |kind, caller: &str, count| LockSample {
        cgroup: None,
        kind,
        address: 0xffff_8880,
        name: Err(Missing::because("it was allocated")),
        caller: Ok(caller.into()),
        stack: Vec::new(),
        waits: Waits { count, ns_total: count * 12_345, ns_max: 50_000, histogram: [(8_192, count)].into() },
        spin_ns_total: count * 10_000,
    };
    let locks = vec![
        lock(LockKind::RwsemRead, "do_user_addr_page_fault", 2_000 * (k + 1)),
        lock(LockKind::Spinlock, "try_to_wake_up", 40),
    ];
    LockInterval { from_ns, until_ns, cpus: 2, missed_deadline: false, locks, lost: BTreeMap::new() }
}

fn ulocks(k: u64) -> UserLockInterval {
    let (from_ns, until_ns) = times(k);
    let lock = |kind, caller: &str, count| UserLockSample {
        cgroup: None,
        pid: 4_711,
        comm: "mariadbd".into(),
        address: 0x5589_cc6c,
        kind,
        call: Err(Missing::because("no name")),
        caller: Ok(caller.into()),
        stack: Vec::new(),
        waker: Err(Missing::because("no waker was observed")),
        waits: Waits { count, ns_total: count * 50_000, ns_max: 90_000, histogram: BTreeMap::new() },
        spin_ns_total: Ok(count * 1_000),
        not_slept: 0,
        timed_out: 0,
    };
    let locks = vec![
        lock(UserLockKind::Condvar, "os_event_wait_low", 40),
        lock(UserLockKind::Mutex, "log_write", 90),
    ];
    UserLockInterval { from_ns, until_ns, cpus: 2, missed_deadline: false, locks, lost: BTreeMap::new() }
}

fn nic(k: u64) -> NicInterval {
    let (from_ns, until_ns) = times(k);
    let counts =
        LinkCounts { rx_bytes: 125_000_000, rx_packets: 90_000, rx_dropped: 7, ..LinkCounts::default() };
    let eth0 = InterfaceSample {
        index: 2,
        name: "eth0".into(),
        kind: None,
        loopback: false,
        up: true,
        speed_bits_per_s: Ok(10_000_000_000),
        duplex: Ok(Duplex::Full),
        counts: Ok(counts),
    };
    let unknown = Missing::because("its driver does not report it");
    let lo = InterfaceSample { name: "lo".into(), index: 1, speed_bits_per_s: Err(unknown), ..eth0.clone() };
    NicInterval {
        from_ns,
        until_ns,
        missed_deadline: false,
        interfaces: Ok(vec![lo, eth0]),
        tcp: Err(Missing::because("not there")),
        udp: Err(Missing::because("not there")),
    }
}
