//! The options that say what a load is, shared by `load`, `prepare` and `cleanup`, and what they resolve to.

use std::time::Duration;

use record::load::{
    Arrivals, ClientSettings, Distribution, LatePolicy, LoadSettings, OltpSettings, PreparePolicy, Rate,
    Schedule, Think, Workload,
};
use record::quantity;
use record::target::Target;

/// Where the load goes, and what data it works on.
#[derive(Debug, clap::Args)]
pub(crate) struct DataOptions {
    /// `sqlite:PATH[?journal_mode=wal&...]`, `mysql://user:pw@host:port/db[?socket=PATH]`, `postgres://user:pw@host:port/db`, `exec:COMMAND` or `null:`
    target: String,

    /// What an event does [default: oltp-read-write for databases, native for exec: and null:]
    #[arg(long, value_parser = workload, value_name = "NAME")]
    workload: Option<Workload>,

    /// Tables of the data set
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tables: u32,

    /// Rows in each table
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,

    /// From this everything random follows: data, rows chosen, arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// How the load arrives, for how long, and what becomes of what is late or fails.
#[derive(Debug, clap::Args)]
pub(crate) struct PaceOptions {
    /// Events per second over all threads: 500, 0.5, 500/s, 30/m; without it as fast as it goes (closed loop)
    #[arg(long, alias = "tx-rate", value_name = "RATE", allow_negative_numbers = true, value_parser = quantity::rate_per_s)]
    rate: Option<f64>,

    /// Workers, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    threads: u32,

    /// Length of the measured phase
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = over_zero)]
    time: Duration,

    /// End the measured phase after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,

    /// Load before the measured phase; nothing of it counts
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::duration)]
    warmup: Duration,

    /// Length of a reported interval
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// How due times are spread: jitter, period or poisson
    #[arg(long, value_name = "HOW", default_value = "jitter", value_parser = ["jitter", "period", "poisson"])]
    arrivals: String,

    /// With jitter arrivals, how far an event moves: a share of a thread's period
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = jitter_ratio)]
    jitter: f64,

    /// The same in microseconds, as the steady-rate patch of sysbench took it
    #[arg(long, value_name = "USEC", conflicts_with = "jitter", requires = "rate")]
    tx_jitter: Option<u64>,

    /// Who takes the next event: any free worker (shared), or its owner (own)
    #[arg(long, value_name = "HOW", default_value = "shared", value_parser = schedule)]
    schedule: Schedule,

    /// What happens to a late event: queue (it starts at once), or skip=DURATION (given up when later than that)
    #[arg(long, value_name = "POLICY", default_value = "queue", value_parser = late_policy)]
    late: LatePolicy,

    /// Tries after the first for an event that failed in a way that may pass
    #[arg(long, value_name = "N", default_value_t = 3)]
    retry: u32,

    /// How long what is in flight at the planned end may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = quantity::duration)]
    drain: Duration,

    /// Connections opened at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    connects_at_once: u32,

    /// Share of events that may fail in a valid run
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share)]
    max_errors: f64,

    /// Build missing data first: auto, always (from scratch) or never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = prepare_policy)]
    prepare: PreparePolicy,

    /// Point selects in a transaction
    #[arg(long, value_name = "N", default_value_t = 10)]
    point_selects: u32,

    /// Rows that a range query covers
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    range_size: u64,

    /// How rows are chosen: uniform, zipfian, special or pareto, as in sysbench
    #[arg(long, value_name = "NAME", default_value = "special", value_parser = distribution)]
    distribution: Distribution,

    /// Leave out BEGIN and COMMIT
    #[arg(long)]
    skip_trx: bool,

    /// Prepare statements on the server: yes or no
    #[arg(long, value_name = "YES|NO", default_value = "yes", action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    prepared: bool,
}

impl DataOptions {
    /// The target as it was written.
    pub(crate) fn target(&self) -> Target {
        Target::new(&self.target)
    }

    /// A load on this data with nothing said about its pace.
    pub(crate) fn settings(&self, prepare: PreparePolicy) -> LoadSettings {
        let target = self.target();
        LoadSettings {
            workload: self.workload.unwrap_or_else(|| load::default_workload(&target)),
            target,
            oltp: OltpSettings {
                tables: self.tables,
                rows: self.rows,
                point_selects: 10,
                range_size: 100,
                distribution: Distribution::Special,
                skip_transaction: false,
                prepared: true,
            },
            prepare,
            threads: 1,
            rate: Rate::Max,
            arrivals: Arrivals::Period,
            schedule: Schedule::Shared,
            late: LatePolicy::Queue,
            warmup: Duration::ZERO,
            time: Duration::from_secs(1),
            events_max: None,
            interval: Duration::from_secs(1),
            retries_max: 0,
            drain: Duration::ZERO,
            seed: self.seed,
            connects_at_once: 1,
            errors_ratio_max: 0.0,
            think: Think::None,
            ramp_up: Duration::ZERO,
            ramp_down: Duration::ZERO,
            client: ClientSettings::PLAIN,
        }
    }
}

impl PaceOptions {
    /// Everything resolved: what `load` will do.
    pub(crate) fn settings(&self, data: &DataOptions) -> LoadSettings {
        let base = data.settings(self.prepare);
        LoadSettings {
            oltp: OltpSettings {
                point_selects: self.point_selects,
                range_size: self.range_size,
                distribution: self.distribution,
                skip_transaction: self.skip_trx,
                prepared: self.prepared,
                ..base.oltp
            },
            threads: self.threads,
            rate: self.rate.map_or(Rate::Max, Rate::PerSecond),
            arrivals: self.arrivals(),
            schedule: self.schedule,
            late: self.late,
            warmup: self.warmup,
            time: self.time,
            events_max: self.events,
            interval: self.interval,
            retries_max: self.retry,
            drain: self.drain,
            connects_at_once: self.connects_at_once,
            errors_ratio_max: self.max_errors,
            ..base
        }
    }

    fn arrivals(&self) -> Arrivals {
        let thread_period_s = self.rate.map(|per_s| f64::from(self.threads) / per_s);
        match (self.arrivals.as_str(), self.tx_jitter, thread_period_s) {
            ("period", ..) => Arrivals::Period,
            ("poisson", ..) => Arrivals::Poisson,
            (_, Some(us), Some(period_s)) => {
                Arrivals::Jitter { ratio: (us as f64 * 1e-6 / period_s).min(1.0) }
            }
            _ => Arrivals::Jitter { ratio: self.jitter },
        }
    }
}

fn over_zero(text: &str) -> Result<Duration, String> {
    match quantity::duration(text) {
        Ok(d) if d.is_zero() => Err("a measured phase of no length measures nothing".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match quantity::duration(text) {
        Ok(d) if d < Duration::from_millis(100) => Err("the shortest interval is 100ms".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

fn jitter_ratio(text: &str) -> Result<f64, String> {
    match quantity::ratio(text) {
        Ok(r) if r > 1.0 => Err("an event moves by at most 100% of its period".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match quantity::ratio(text) {
        Ok(r) if r > 1.0 => Err("at most 100% of the events can fail".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

fn late_policy(text: &str) -> Result<LatePolicy, String> {
    match text.split_once('=') {
        None if text == "queue" => Ok(LatePolicy::Queue),
        Some(("skip", limit)) => {
            quantity::duration(limit).map(|limit| LatePolicy::Skip { limit }).map_err(|e| e.to_string())
        }
        _ => Err("expected queue, or skip=DURATION such as skip=100ms".into()),
    }
}

fn workload(text: &str) -> Result<Workload, String> {
    Workload::from_word(text).ok_or_else(|| expected(Workload::ALL.iter().map(|w| w.word())))
}

fn schedule(text: &str) -> Result<Schedule, String> {
    Schedule::from_word(text).ok_or_else(|| expected(Schedule::ALL.iter().map(|s| s.word())))
}

fn prepare_policy(text: &str) -> Result<PreparePolicy, String> {
    PreparePolicy::from_word(text).ok_or_else(|| expected(PreparePolicy::ALL.iter().map(|p| p.word())))
}

fn distribution(text: &str) -> Result<Distribution, String> {
    Distribution::named(text).ok_or_else(|| expected(Distribution::NAMES.iter().copied()))
}

fn expected(words: impl Iterator<Item = &'static str>) -> String {
    format!("expected one of {}", words.collect::<Vec<_>>().join(", "))
}
