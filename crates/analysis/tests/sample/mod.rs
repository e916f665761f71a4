//! Synthetic bake-offs in the shape of real ones, generated from a seed. Used by the tests of analysis and of
//! report.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers of a sample"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use record::bakeoff::{Attempt, Bakeoff, Factor, Judge, Levels, Metric, Page, Plot, Trial, TrialState};
use record::clock::WallAnchor;
use record::cpu::{CpuInterval, CpuSample, Rung, TopThread};
use record::environment::Environment;
use record::histogram::{CensoredHistogram, Histogram};
use record::load::{
    Arrivals, ClientCost, ClientSettings, Counts, DataCheck, Distribution, ErrorCounts, LoadRecord,
    LoadSettings, Loop, OltpMix, OltpSettings, OpenLoop, Operation, PreparePolicy, ScriptSettings,
    UnlistedOutages, Workload,
};
use record::missing::Missing;
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::run::{Run, RunHeader, RunId, RunKind, RunState};
use record::series::{HistogramSlice, LatencyKind};
use record::server_cpu::{ServerCpu, ServerTasks};
use record::target::Target;
use record::verdict::{Check, Verdict};

const START_UNIX_NS: u64 = 1_795_254_723_250_000_000;
const MEASURED_S: u64 = 10;
const NS_PER_S: u64 = 1_000_000_000;

/// Parameters of a sample.
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) blocks: u32,
    /// Levels of the compared factor; the first is the reference.
    pub(crate) values: Vec<&'static str>,
    pub(crate) threads: Vec<u32>,
    /// ln of throughput relative to the reference at each number of threads, by index of the level.
    pub(crate) effect_ln: fn(usize, u32) -> f64,
    /// Standard deviation of a series' and of a trial's ln throughput.
    pub(crate) noise_ln: f64,
    /// Rate of the open loop; `None` for a closed loop.
    pub(crate) rate_per_s: Option<f64>,
    /// Whether one attempt is invalid, one abandoned and one failed.
    pub(crate) with_trouble: bool,
}

impl Recipe {
    /// Journal modes: a clear gain with one thread, a small one with two, zero with four.
    pub(crate) fn journal() -> Self {
        Self {
            seed: 20_261_121,
            blocks: 6,
            values: vec!["delete", "wal"],
            threads: vec![1, 2, 4],
            effect_ln: |value, threads| match (value, threads) {
                (1, 1) => 0.61,
                (1, 2) => 0.12,
                _ => 0.0,
            },
            noise_ln: 0.002,
            rate_per_s: None,
            with_trouble: true,
        }
    }

    pub(crate) fn bake(&self) -> Bakeoff {
        let mut chance = ChaCha8Rng::seed_from_u64(self.seed);
        let trials = self.trials(&mut chance);
        let mut attempts = Vec::new();
        for trial in &trials {
            let trouble = match trial.index {
                4 => Some((TrialState::Invalid, "lateness p99 1.2 ms is over its limit of 100 us")),
                11 => Some((TrialState::Abandoned, "the process ended without a word")),
                17 => Some((TrialState::Failed, "the server did not become ready within 60 s: <no socket>")),
                _ => None,
            };
            if let Some((state, reason)) = trouble.filter(|_| self.with_trouble) {
                let run = (state == TrialState::Invalid).then(|| {
                    let mut run = self.run(trial, attempts.len(), &mut chance);
                    run.header.state = RunState::Invalid;
                    run.header.reason = Some(reason.to_owned());
                    run
                });
                attempts.push(Attempt { trial: trial.index, state, reason: Some(reason.to_owned()), run });
            }
            let run = self.run(trial, attempts.len(), &mut chance);
            attempts.push(Attempt {
                trial: trial.index,
                state: TrialState::Sealed,
                reason: None,
                run: Some(run),
            });
        }
        let mut header = header(RunKind::Bakeoff, START_UNIX_NS, 0);
        header.title = "SQLite journal modes".into();
        header.command = "bakeoff run plans/sqlite-journal.toml".into();
        header.bakeoff = None;
        Bakeoff {
            header,
            question: "Does write-ahead logging pay for <short> transactions & one to four threads?".into(),
            exploratory: self.blocks < 6,
            factors: self.factors(),
            blocks: self.blocks,
            seed: self.seed,
            trials,
            attempts,
            judge: Judge {
                rope_ratio: 0.01,
                alpha: 0.05,
                family: "journal_mode vs reference at each threads".into(),
                metrics: vec![Metric::Throughput, Metric::P99],
                gates: Vec::new(),
                sequential: false,
            },
            page: Page {
                sponsor: Some("Example Lab".into()),
                tuning: Some("base".into()),
                notes: Some(
                    "Give the log its own device where you can.\n\nCheckpoints are part of the cost.".into(),
                ),
            },
            measure: Duration::from_secs(MEASURED_S),
            warmup: Duration::from_secs(2),
            environment: environment(),
            plan_text: "schema = 1\ntitle = \"SQLite journal modes\"\n".into(),
            plan_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        }
    }

    fn factors(&self) -> Vec<Factor> {
        vec![
            Factor {
                name: "journal_mode".into(),
                values: self.values.iter().map(|v| (*v).to_owned()).collect(),
                reference: Some(self.values[0].to_owned()),
                plot: Plot::Whole,
            },
            Factor {
                name: "threads".into(),
                values: self.threads.iter().map(u32::to_string).collect(),
                reference: None,
                plot: Plot::Sub,
            },
        ]
    }

    fn trials(&self, chance: &mut ChaCha8Rng) -> Vec<Trial> {
        let mut trials = Vec::new();
        let mut series = 0;
        for block in 1..=self.blocks {
            for value in shuffled(&self.values, chance) {
                series += 1;
                for (position, threads) in (1..).zip(shuffled(&self.threads, chance)) {
                    let levels: Levels = [
                        ("journal_mode".to_owned(), value.to_owned()),
                        ("threads".to_owned(), threads.to_string()),
                    ]
                    .into();
                    let index = u32::try_from(trials.len()).expect("the sample is made of its own recipe");
                    trials.push(Trial { index, block, series, position, levels });
                }
            }
        }
        trials
    }

    fn run(&self, trial: &Trial, attempt: usize, chance: &mut ChaCha8Rng) -> Run {
        let value = self
            .values
            .iter()
            .position(|v| *v == trial.levels["journal_mode"])
            .expect("the sample is made of its own recipe");
        let threads: u32 = trial.levels["threads"].parse().expect("the sample is made of its own recipe");
        // Effects that a block and a series share follow from their numbers, so they are the same in all
        // their trials.
        let shared = |n: u64| normal(&mut ChaCha8Rng::seed_from_u64(self.seed ^ (n << 20)));
        let block = 0.02 * shared(u64::from(trial.block));
        let series = self.noise_ln * shared(1_000 + u64::from(trial.series));
        let ln = f64::from(threads).powf(0.7).ln() + (self.effect_ln)(value, threads) + block + series;
        let capacity = 900.0 * (ln + self.noise_ln * normal(chance)).exp();
        let nth = attempt as u64 + 1;
        let from_ns = 1_000_000 * NS_PER_S + nth * 20 * NS_PER_S;
        let load = self.load(capacity, threads, trial, from_ns, chance);
        let mut header = header(RunKind::Load, START_UNIX_NS + nth * 20 * NS_PER_S, nth);
        header.title = format!("{} at {threads} threads", trial.levels["journal_mode"]);
        let busy = (f64::from(threads) * 0.4).min(0.97);
        Run {
            cpu: (0..MEASURED_S).map(|s| cpu(from_ns + s * NS_PER_S, busy, chance)).collect(),
            load: Some(load),
            server_cpu: Ok(ServerCpu {
                cpu_s: busy * MEASURED_S as f64,
                from_ns,
                until_ns: from_ns + MEASURED_S * NS_PER_S,
                tasks: ServerTasks::Tree,
            }),
            ..Run::unmeasured(header, environment())
        }
    }

    fn load(
        &self,
        capacity: f64,
        threads: u32,
        trial: &Trial,
        from_ns: u64,
        chance: &mut ChaCha8Rng,
    ) -> LoadRecord {
        let per_s = self.rate_per_s.unwrap_or(capacity);
        let done = (per_s * MEASURED_S as f64) as u64;
        let mut service = Histogram::new();
        let typical_ns = 1e9 * f64::from(threads) / capacity;
        for _ in 0..4_000 {
            service.record_n((typical_ns * (0.35 * normal(chance)).exp()) as u64, 3);
        }
        service.record_n((typical_ns * 9.0) as u64, 36);
        let unfinished = u64::from(self.rate_per_s.is_some()) * 2;
        let mut response = CensoredHistogram { known: service.clone(), at_least: Histogram::new() };
        response.at_least.record_n(60_000_000, unfinished);
        let closed = || Missing::because("a closed loop has no intended start");
        let whole = CensoredHistogram::from(service.clone());
        let point_select = Operation { service: whole.clone(), in_flight: 0, generator_made: Vec::new() };
        LoadRecord {
            settings: self.settings(threads, trial),
            server_version: Ok("SQLite 3.50.4".into()),
            measured_from_ns: from_ns,
            measured: Duration::from_secs(MEASURED_S),
            achieved_per_s: per_s,
            counts: Counts { planned: done + unfinished, done, unfinished, retries: 3, ..Counts::default() },
            response: if self.rate_per_s.is_some() { Ok(response) } else { Err(closed()) },
            wait: self.rate_per_s.map(|_| whole.clone()).ok_or_else(closed),
            connect: Ok(service.clone()),
            lateness: self.rate_per_s.map(|_| service.clone()).ok_or_else(closed),
            generator_made: Vec::new(),
            service_generator_made: Vec::new(),
            server_part: Err(Missing::because("not recorded")),
            service: whole,
            failure: Histogram::new(),
            operations: BTreeMap::from([("point-select".to_owned(), point_select)]),
            outcomes: BTreeMap::new(),
            errors: ErrorCounts { transient: 3, ..ErrorCounts::default() },
            error_samples: vec!["database is locked".into()],
            outages: Vec::new(),
            unlisted_outages: UnlistedOutages::default(),
            backlog_after_warmup: 0,
            found_no_worker: 0,
            hosts: Vec::new(),
            agents: Vec::new(),
            probe: None,
            rate_changes: Vec::new(),
            connected: Ok(threads),
            client: Ok(ClientCost {
                user_us_per_event: 41.2,
                system_us_per_event: 18.9,
                switches_per_event: 2.13,
                starved_ratio: Err(Missing::because("the kernel counts no run-queue wait")),
                run_queue_wait_us_per_event: Err(Missing::because("the kernel counts no run-queue wait")),
                keep_awake_cpu: None,
                wake_up: None,
            }),
            slices: self.rate_per_s.map_or(Vec::new(), |_| slices(typical_ns, chance)),
            verdict: Verdict::of(checks()),
        }
    }

    fn settings(&self, threads: u32, trial: &Trial) -> LoadSettings {
        LoadSettings {
            target: Target::new(format!(
                "sqlite:bench.db?journal_mode={}&password=secret",
                trial.levels["journal_mode"]
            )),
            workload: Workload::OltpReadWrite,
            oltp: OltpSettings {
                tables: 1,
                rows: 10_000,
                point_selects: 10,
                range_size: 100,
                mix: OltpMix::USUAL,
                distribution: Distribution::Uniform,
                skip_transaction: false,
                prepared: true,
            },
            scripts: ScriptSettings::default(),
            kv: KvSettings::usual(),
            http: HttpSettings::plain(),
            exec: ExecSettings::plain(),
            verify: false,
            prepare: PreparePolicy::Auto,
            check: DataCheck::Quick,
            answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
            threads,
            connections: None,
            pace: self.rate_per_s.map_or(Loop::CLOSED, jittered),
            warmup: Duration::from_secs(2),
            time: Duration::from_secs(MEASURED_S),
            events_max: None,
            interval: Duration::from_secs(1),
            retries_max: 5,
            drain: Duration::from_secs(5),
            seed: self.seed,
            draws: 0,
            connects_at_once: 8,
            errors_ratio_max: 0.01,
            ramp_up: Duration::ZERO,
            ramp_down: Duration::ZERO,
            client: ClientSettings::PLAIN,
        }
    }
}

fn jittered(per_s: f64) -> Loop {
    Loop::Open(OpenLoop { arrivals: Arrivals::Jitter { ratio: 0.1 }, ..OpenLoop::plain(per_s) })
}

/// Two checks that hold.
fn checks() -> Vec<Check> {
    vec![
        Check {
            name: "achieved-rate",
            ok: true,
            found: 0.999_96,
            limit: 0.999,
            text: "99.996 % of the offered rate was achieved; at least 99.9 % is needed".into(),
        },
        Check {
            name: "lateness",
            ok: true,
            found: 58e-6,
            limit: 100e-6,
            text: "the generator was 58 us late at p99; at most 100 us is allowed".into(),
        },
    ]
}

/// Response times of each second.
fn slices(typical_ns: f64, chance: &mut ChaCha8Rng) -> Vec<HistogramSlice> {
    let mut slice = |second: u64| HistogramSlice {
        from_ns: second * NS_PER_S,
        for_ns: NS_PER_S,
        operation: String::new(),
        kind: LatencyKind::Response,
        histogram: (0..400).map(|_| ((typical_ns * (0.35 * normal(chance)).exp()) as u64, 1)).collect(),
    };
    (0..MEASURED_S).map(&mut slice).collect()
}

/// One second of two CPUs.
pub(crate) fn cpu(from_ns: u64, busy: f64, chance: &mut ChaCha8Rng) -> CpuInterval {
    let no_counters =
        || Missing::because("this machine has no hardware counters, or its hypervisor exposes none");
    let sample = |cpu: u32, busy: f64| CpuSample {
        event_ratio: Ok(busy),
        irq_ratio: Ok(0.01),
        softirq_ratio: Ok(0.02),
        run_queue_wait_ns: Ok(1_000_000),
        procstat_busy_ratio: Ok(busy * 0.9),
        unaccounted_ratio: Ok(0.012),
        not_idle_ratio: Ok(busy * 1.01),
        stolen_ratio: Ok(0.0),
        balance_ns: Ok(-31),
        switches: Ok(4_821 + u64::from(cpu) * 100),
        top: Ok(TopThread { pid: 4_711, tid: 4_720 + cpu, comm: "bakeoff".into(), ratio: busy * 0.8 }),
        cycles: Err(no_counters()),
        instructions: Err(no_counters()),
        ..CpuSample::without_values(cpu, "not watched")
    };
    let wobble = 0.01 * normal(chance);
    CpuInterval {
        from_ns,
        until_ns: from_ns + NS_PER_S,
        rung: Rung::Bpf,
        missed_deadline: false,
        cpus: vec![sample(0, (busy + wobble).clamp(0.0, 1.0)), sample(1, (busy * 0.7).clamp(0.0, 1.0))],
        psi_some_ratio: Ok(0.25),
        lost: BTreeMap::new(),
    }
}

fn header(kind: RunKind, unix_ns: u64, nth: u64) -> RunHeader {
    let anchor = WallAnchor { monotonic_ns: 1_000_000 * NS_PER_S, unix_ns };
    RunHeader {
        id: RunId::new(anchor, u128::from(nth) * 0x1234_5678_9abc_def0_1234),
        labels: BTreeMap::from([("lab".to_owned(), "north".to_owned())]),
        bakeoff: Some(RunId::new(WallAnchor { monotonic_ns: 0, unix_ns: START_UNIX_NS }, 0)),
        tool_version: "0.1.0".into(),
        ..RunHeader::running(kind, anchor, String::new(), "bakeoff load sqlite:bench.db".into()).ended(None)
    }
}

fn environment() -> Environment {
    let known = [
        ("cpu.model", "Example CPU 3.0 GHz"),
        ("cpu.count", "2"),
        ("kernel.release", "6.1.0-example"),
        ("memory.bytes", "8324141056"),
        ("os.name", "Debian GNU/Linux 12"),
    ];
    let mut facts: BTreeMap<_, _> = known.map(|(k, v)| (k.to_owned(), Ok(v.to_owned()))).into();
    facts.insert("cpu.governor".into(), Err(Missing::because("no cpufreq directory")));
    Environment { facts, calibration: Vec::new() }
}

fn shuffled<T: Copy>(items: &[T], chance: &mut ChaCha8Rng) -> Vec<T> {
    let mut items = items.to_vec();
    for i in (1..items.len()).rev() {
        items.swap(i, (chance.next_u64() % (i as u64 + 1)) as usize);
    }
    items
}

/// Standard normal draw (Box and Muller).
pub(crate) fn normal(chance: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((chance.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}
