//! Runs and bake-offs from a seed: every variant and every missing value occurs for some seed.

use std::collections::BTreeMap;
use std::time::Duration;

use record::bakeoff::{Bakeoff, Factor, Judge, Metric, Page, Plot, Trial};
use record::block_io::{
    Inode, IoCounts, IoEvents, IoGroup, IoInterval, IoOp, Latencies, LatencyBucket, Powers, Seeks,
};
use record::clock::WallAnchor;
use record::command::{CommandEnd, CpuSplit, Recorded};
use record::cpu::{CpuInterval, CpuSample, Rung, TopThread};
use record::environment::Environment;
use record::gate::{Gate, OnInconclusive};
use record::histogram::{CensoredHistogram, Histogram};
use record::instruments::Instruments;
use record::limits::Throttled;
use record::locks::{
    LockInterval, LockKind, LockSample, UserLockInterval, UserLockKind, UserLockSample, Waits,
};
use record::missing::{Maybe, Missing};
use record::nic::{Duplex, InterfaceSample, LinkCounts, NicInterval, TcpCounts, UdpCounts};
use record::proof::{Calibration, Proof, Unit};
use record::resources::{Resource, Used, UsedBy};
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::series::Sample;
use record::server_cpu::{ServerCpu, ServerTasks};
use record::turns::Turns;
use record::warm_up::{Course, JudgedCourse, WarmUp};

pub(crate) mod load;
#[allow(dead_code, reason = "one program uses it")]
pub(crate) mod profile;

pub(crate) use load::load;

/// Equal draws for equal seeds (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.below(1000)).unwrap()
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Any float except NaN, from the smallest to the largest.
    fn real(&mut self) -> f64 {
        loop {
            let value = if self.flip() { f64::from_bits(self.next()) } else { self.small().into() };
            if !value.is_nan() {
                return value;
            }
        }
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let i = usize::try_from(self.below(all.len() as u64)).unwrap();
        all[i].clone()
    }

    fn text(&mut self) -> String {
        let all = ["", "a", "plain text", "ü,\"x\"\n\\", "a=b", "{}", "💧", "it's", "x\ty\u{1}", "100 %"];
        self.one_of(&all).to_owned()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Maybe<T> {
        if self.flip() { Ok(value(self)) } else { Err(Missing::because(self.text())) }
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flip().then(|| value(self))
    }

    fn some<T>(&mut self, most: u64, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }

    fn span(&mut self) -> Duration {
        let shift = self.below(64);
        Duration::from_nanos(self.next() >> shift)
    }

    fn censored(&mut self) -> CensoredHistogram {
        CensoredHistogram { known: self.histogram(), at_least: self.histogram() }
    }

    fn histogram(&mut self) -> Histogram {
        let mut h = Histogram::new();
        for _ in 0..self.below(50) {
            let shift = self.below(64);
            let (value, n) = (self.next() >> shift, 1 + self.below(1_000_000));
            h.record_n(value, n);
        }
        h
    }
}

pub(crate) fn header(dice: &mut Dice, kind: RunKind) -> RunHeader {
    let anchor =
        WallAnchor { monotonic_ns: dice.next() >> 2, unix_ns: 1_700_000_000_000_000_000 + dice.next() / 64 };
    let state = dice.one_of(&[RunState::Sealed, RunState::Invalid, RunState::Failed, RunState::Interrupted]);
    RunHeader {
        id: RunId::new(anchor, u128::from(dice.next())),
        kind,
        state,
        reason: dice.option(Dice::text),
        anchor,
        title: dice.text(),
        labels: dice.some(3, |d| (d.text(), d.text())).into_iter().collect(),
        bakeoff: None,
        tool_version: "0.1.0".into(),
        command: "bakeoff load null:".into(),
    }
}

pub(crate) fn environment(dice: &mut Dice) -> Environment {
    let facts = ["cpu.model", "cpu.count", "kernel.release", "kernel.cmdline"];
    Environment {
        facts: facts.into_iter().map(|name| (name.to_owned(), dice.maybe(Dice::text))).collect(),
        calibration: dice.some(2, calibration),
    }
}

fn calibration(dice: &mut Dice) -> Calibration {
    let (passed, failed, cannot) = (dice.small(), dice.small(), dice.small());
    let unix_ns = dice.next();
    let anchor = WallAnchor { monotonic_ns: 0, unix_ns };
    Calibration {
        subject: dice.text(),
        run: RunId::new(anchor, u128::from(dice.next())),
        unix_ns,
        passed,
        failed,
        cannot,
    }
}

fn recorded(dice: &mut Dice) -> Recorded {
    let code = 1 + i32::try_from(dice.small()).unwrap();
    Recorded {
        end: dice.one_of(&[CommandEnd::Code(code), CommandEnd::Signal(code), CommandEnd::NoCommand]),
        window: dice.maybe(cpu_interval),
        by_events_ns: dice.maybe(Dice::next),
        interrupted_ns: dice.maybe(Dice::next),
        by_proc_ns: dice.maybe(Dice::next),
        by_rusage: dice.maybe(|d| CpuSplit { user_ns: d.next(), system_ns: d.next() }),
    }
}

fn proof(dice: &mut Dice) -> Proof {
    Proof {
        subject: dice.text(),
        instrument: dice.text(),
        ours: dice.flip(),
        workload: dice.text(),
        truth: dice.maybe(Dice::real),
        found: dice.maybe(Dice::real),
        limit: dice.real(),
        unit: dice.one_of(Unit::ALL),
        cost_ratio: dice.maybe(Dice::real),
        remark: dice.option(Dice::text),
    }
}

pub(crate) fn run(dice: &mut Dice) -> Run {
    let kind = dice.one_of(&[RunKind::Load, RunKind::Record, RunKind::Scale]);
    Run {
        header: header(dice, kind),
        environment: environment(dice),
        load: dice.option(load),
        cpu: dice.some(4, cpu_interval),
        series: dice.some(20, sample),
        thinned: None,
        proofs: dice.some(3, proof),
        recorded: dice.option(recorded),
        throttled: dice.maybe(throttled),
        instruments: instruments(dice),
        server_cpu: dice.maybe(server_cpu),
        resources: Resource::ALL.iter().map(|resource| (*resource, dice.maybe(used))).collect(),
        warm_up: dice.option(warm_up),
        turns: dice.option(turns),
    }
}

fn used(dice: &mut Dice) -> Used {
    let by = dice.one_of(UsedBy::ALL);
    Used { amount: dice.real(), by, from_ns: dice.next(), until_ns: dice.next() }
}

fn turns(dice: &mut Dice) -> Turns {
    let time = |d: &mut Dice| Duration::from_micros(d.small().into());
    Turns { count: dice.small(), slice: time(dice), settle: time(dice), series: dice.small() }
}

fn warm_up(dice: &mut Dice) -> WarmUp {
    WarmUp {
        course: dice.one_of(Course::ALL),
        took_s: dice.real(),
        batch_s: dice.real(),
        batches: 7,
        metrics: dice.some(3, |d| JudgedCourse {
            metric: d.text(),
            course: d.one_of(Course::ALL),
            evidence: d.text(),
            period_s: d.option(Dice::real),
        }),
    }
}

fn throttled(dice: &mut Dice) -> Throttled {
    Throttled { periods: dice.next(), time_ns: dice.next(), cgroup: dice.text() }
}

fn server_cpu(dice: &mut Dice) -> ServerCpu {
    let tasks = dice.one_of(ServerTasks::ALL);
    ServerCpu { cpu_s: dice.real(), from_ns: dice.next(), until_ns: dice.next(), tasks }
}

fn instruments(dice: &mut Dice) -> Instruments {
    Instruments {
        io: dice.some(3, io_interval),
        nic: dice.some(3, nic_interval),
        locks: dice.some(3, lock_interval),
        ulocks: dice.some(3, user_lock_interval),
        profiles: Vec::new(),
        missing: dice.some(2, |d| (d.text(), Missing::because(d.text()))).into_iter().collect(),
    }
}

fn powers(dice: &mut Dice) -> Powers {
    dice.some(5, |d| (1 << d.below(40), d.next() >> 20)).into_iter().collect()
}

fn latencies(dice: &mut Dice) -> Latencies {
    let bucket = |d: &mut Dice| {
        let from_ns = d.next() >> 20;
        LatencyBucket { from_ns, until_ns: from_ns + 32, count: d.next() >> 30 }
    };
    Latencies { buckets: dice.some(5, bucket), sum_ns: dice.next(), max_ns: dice.next() }
}

fn io_group(dice: &mut Dice) -> IoGroup {
    IoGroup {
        cgroup: None,
        device: dice.option(Dice::text),
        comm: dice.option(Dice::text),
        file: dice.option(Dice::text),
        inode: dice.option(|d| Inode { device: d.text(), number: d.next() }),
        op: dice.option(|d| d.one_of(IoOp::ALL)),
        count: dice.next(),
        bytes: dice.next(),
        errors: dice.next(),
        sizes: powers(dice),
        from_start: latencies(dice),
        from_issue: latencies(dice),
        addresses: powers(dice),
        seeks: Seeks { ahead: powers(dice), back: powers(dice) },
    }
}

fn io_interval(dice: &mut Dice) -> IoInterval {
    IoInterval {
        from_ns: dice.next() >> 1,
        until_ns: dice.next(),
        missed_deadline: dice.flip(),
        events: dice.one_of(IoEvents::ALL),
        counts: IoCounts {
            reads: dice.next(),
            writes: dice.next(),
            asynchronous: dice.next(),
            flushes: dice.next(),
            discards: dice.next(),
            others: dice.next(),
        },
        groups: dice.some(3, io_group),
        in_flight: dice.next(),
        unmatched: dice.maybe(Dice::next),
        merged: dice.maybe(Dice::next),
        lost: dice.some(3, |d| (d.text(), d.next())).into_iter().collect(),
    }
}

fn waits(dice: &mut Dice) -> Waits {
    Waits { count: dice.next(), ns_total: dice.next(), ns_max: dice.next(), histogram: powers(dice) }
}

fn lock_interval(dice: &mut Dice) -> LockInterval {
    let lock = |d: &mut Dice| LockSample {
        cgroup: None,
        kind: d.one_of(LockKind::ALL),
        address: d.next(),
        name: d.maybe(Dice::text),
        caller: d.maybe(Dice::text),
        stack: d.some(3, Dice::text),
        waits: waits(d),
        spin_ns_total: d.next(),
    };
    LockInterval {
        from_ns: dice.next() >> 1,
        until_ns: dice.next(),
        cpus: 2,
        missed_deadline: dice.flip(),
        locks: dice.some(3, lock),
        lost: dice.some(3, |d| (d.text(), d.next())).into_iter().collect(),
    }
}

fn user_lock_interval(dice: &mut Dice) -> UserLockInterval {
    let lock = |d: &mut Dice| UserLockSample {
        cgroup: None,
        pid: d.small(),
        comm: d.text(),
        address: d.next(),
        kind: d.one_of(UserLockKind::ALL),
        call: d.maybe(Dice::text),
        caller: d.maybe(Dice::text),
        stack: d.some(3, Dice::text),
        waker: d.maybe(Dice::text),
        waits: waits(d),
        spin_ns_total: d.maybe(Dice::next),
        not_slept: d.next(),
        timed_out: d.next(),
    };
    UserLockInterval {
        from_ns: dice.next() >> 1,
        until_ns: dice.next(),
        cpus: 2,
        missed_deadline: dice.flip(),
        locks: dice.some(3, lock),
        lost: dice.some(3, |d| (d.text(), d.next())).into_iter().collect(),
    }
}

fn interface(dice: &mut Dice) -> InterfaceSample {
    let counts = |d: &mut Dice| LinkCounts {
        rx_bytes: d.next(),
        tx_bytes: d.next(),
        rx_packets: d.next(),
        tx_packets: d.next(),
        rx_errors: d.next(),
        tx_errors: d.next(),
        rx_dropped: d.next(),
        tx_dropped: d.next(),
        collisions: d.next(),
    };
    InterfaceSample {
        index: dice.small(),
        name: dice.text(),
        kind: dice.option(Dice::text),
        loopback: dice.flip(),
        up: dice.flip(),
        speed_bits_per_s: dice.maybe(Dice::next),
        duplex: dice.maybe(|d| d.one_of(Duplex::ALL)),
        counts: dice.maybe(counts),
    }
}

fn nic_interval(dice: &mut Dice) -> NicInterval {
    let tcp = |d: &mut Dice| TcpCounts {
        in_segments: d.next(),
        out_segments: d.next(),
        retransmitted_segments: d.next(),
        resets: d.next(),
        attempts_failed: d.next(),
        passive_opens: d.next(),
        active_opens: d.next(),
        listen_drops: d.next(),
    };
    let udp = |d: &mut Dice| UdpCounts {
        in_datagrams: d.next(),
        out_datagrams: d.next(),
        in_errors: d.next(),
        receive_buffer_errors: d.next(),
        send_buffer_errors: d.next(),
        no_ports: d.next(),
    };
    NicInterval {
        from_ns: dice.next() >> 1,
        until_ns: dice.next(),
        missed_deadline: dice.flip(),
        interfaces: dice.maybe(|d| d.some(3, interface)),
        tcp: dice.maybe(tcp),
        udp: dice.maybe(udp),
    }
}

fn sample(dice: &mut Dice) -> Sample {
    Sample {
        t_ms: dice.next().cast_signed() >> 20,
        host: dice.text().into(),
        name: dice.text().into(),
        labels: dice.text().into(),
        value: dice.real(),
    }
}

fn cpu_interval(dice: &mut Dice) -> CpuInterval {
    CpuInterval {
        from_ns: dice.next(),
        until_ns: dice.next(),
        rung: dice.one_of(Rung::ALL),
        missed_deadline: dice.flip(),
        cpus: dice.some(4, |dice| CpuSample {
            cpu: dice.small(),
            event_ratio: dice.maybe(Dice::real),
            irq_ratio: dice.maybe(Dice::real),
            softirq_ratio: dice.maybe(Dice::real),
            run_queue_wait_ns: dice.maybe(Dice::next),
            tick_before_ratio: dice.maybe(Dice::real),
            tick_after_ratio: dice.maybe(Dice::real),
            sampled_ratio: dice.maybe(Dice::real),
            procstat_busy_ratio: dice.maybe(Dice::real),
            unaccounted_ratio: dice.maybe(Dice::real),
            not_idle_ratio: dice.maybe(Dice::real),
            stolen_ratio: dice.maybe(Dice::real),
            cycles: dice.maybe(Dice::next),
            instructions: dice.maybe(Dice::next),
            balance_ns: dice.maybe(|d| d.next().cast_signed()),
            switches: dice.maybe(Dice::next),
            top: dice.maybe(|d| TopThread {
                pid: d.small(),
                tid: d.small(),
                comm: d.text(),
                ratio: d.real(),
            }),
        }),
        psi_some_ratio: dice.maybe(Dice::real),
        lost: dice.some(2, |d| (d.text(), d.next())).into_iter().collect(),
    }
}

/// A bake-off of `blocks` blocks of two configurations at one level, without attempts.
pub(crate) fn bakeoff(dice: &mut Dice, blocks: u32) -> Bakeoff {
    let mut trials = Vec::new();
    for block in 1..=blocks {
        for name in ["libc", "jemalloc"] {
            let index = u32::try_from(trials.len()).unwrap();
            let levels = BTreeMap::from([("allocator".to_owned(), name.to_owned())]);
            trials.push(Trial { index, block, series: index + 1, position: 1, levels });
        }
    }
    let header = header(dice, RunKind::Bakeoff);
    Bakeoff {
        header: RunHeader { state: RunState::Abandoned, reason: None, ..header },
        question: dice.text(),
        exploratory: dice.flip(),
        factors: vec![Factor {
            name: "allocator".into(),
            values: vec!["libc".into(), "jemalloc".into()],
            reference: Some("libc".into()),
            plot: dice.one_of(Plot::ALL),
        }],
        blocks,
        seed: dice.next(),
        trials,
        attempts: Vec::new(),
        judge: Judge {
            rope_ratio: dice.real(),
            alpha: 0.05,
            family: dice.text(),
            metrics: Metric::OF_LOADS.to_vec(),
            gates: gates(),
            sequential: false,
        },
        page: Page {
            sponsor: dice.option(Dice::text),
            tuning: dice.option(Dice::text),
            notes: dice.option(Dice::text),
        },
        measure: dice.span(),
        warmup: dice.span(),
        environment: environment(dice),
        plan_text: format!("# {}\nschema = 1\n", dice.text()),
        plan_sha256: "0123".into(),
    }
}

/// A gate of each form.
fn gates() -> Vec<Gate> {
    let texts = ["p99 not worse by 3.7%", "p99 <= 20ms", "throughput >= 700/m"];
    let effects = OnInconclusive::ALL.iter();
    let read = |text: &str| Gate::read(text).expect("it is a gate");
    texts.into_iter().zip(effects).map(|(text, e)| Gate { on_inconclusive: *e, ..read(text) }).collect()
}
