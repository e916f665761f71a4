//! The options that say what a load is, shared by `load`, `prepare` and `cleanup`, and what they resolve to.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use record::load::rules::{self, Violation};
use record::load::{
    Arrivals, ClientSettings, DataCheck, Distribution, LatePolicy, LoadSettings, Loop, OltpMix, OltpSettings,
    PreparePolicy, Schedule, ScriptFile, ScriptSettings, Think, Workload, settings,
};
use record::loops::LoopOptions;
use record::quantity;
use record::requests::HttpSettings;
use record::target::Target;

use crate::exit::{EndsWith as _, Exit};
use crate::replay_options::Replayed;
use crate::request_options::RequestOptions;
use crate::script_file::script;
use crate::script_options::ScriptOptions;
use crate::setting_values::{amount, default_of, option, whole, word};

/// The target of a load and its data.
#[derive(Debug, clap::Args)]
pub(crate) struct DataOptions {
    /// `sqlite:PATH[?journal_mode=wal&...]`, `mysql://user:pw@host:port/db[?socket=PATH]`,
    /// `postgres://user:pw@host:port/db`, `memcached://host:port`, `memcached+unix:PATH`,
    /// `redis://[user:pw@]host:port/db`, `redis+unix:PATH`,
    /// `http://host:port/path`, `exec:COMMAND` or `null:`
    target: String,

    /// Kind of event [default: oltp-read-write for databases, kv for caches, native for others]
    #[arg(long, value_parser = word(&settings::WORKLOAD, Workload::from_word), value_name = "NAME")]
    workload: Option<Workload>,

    /// Run this script instead of a workload: FILE.lua is a sysbench script, and its options follow as --NAME
    /// VALUE; any other file is SQL in pgbench's language. With several SQL scripts, each event runs one,
    /// drawn by weight
    #[arg(long = "script", value_name = "FILE[@WEIGHT]", value_parser = script)]
    scripts: Vec<ScriptFile>,

    /// Set a variable of the scripts
    #[arg(long = "define", value_name = "NAME=VALUE", allow_hyphen_values = true, value_parser = define)]
    defines: Vec<(String, String)>,

    /// Tables of the data set
    #[arg(long, value_name = "N", default_value = settings::TABLES.default_text(), value_parser = whole::<u32>(&settings::TABLES))]
    tables: u32,

    /// Rows in each table
    #[arg(long, value_name = "N", default_value = settings::ROWS.default_text(), value_parser = whole::<u64>(&settings::ROWS))]
    rows: u64,

    /// Random seed of data, rows and arrivals
    #[arg(long, value_name = "N", default_value = settings::SEED.default_text(), value_parser = whole::<u64>(&settings::SEED))]
    seed: u64,

    /// Longest message, row or value that is accepted from a server; at a longer one, bakeoff closes the
    /// connection
    #[arg(long, value_name = "SIZE", default_value = settings::ANSWER_MAX.default_text(), value_parser = amount(&settings::ANSWER_MAX, quantity::bytes))]
    answer_max: u64,

    #[command(flatten)]
    requests: RequestOptions,

    /// Options of a script in Lua, which are not ours.
    #[arg(skip)]
    lua: ScriptOptions,
}

/// The rate of a load, its length, and the policies for late and failed events.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct PaceOptions {
    /// Events per second over all threads: 500, 0.5, 500/s, 30/m; without a rate, a closed loop: as fast as
    /// the server answers
    #[arg(long, alias = "tx-rate", value_name = "RATE", allow_negative_numbers = true, value_parser = amount(&settings::RATE, quantity::rate_per_s))]
    rate: Option<f64>,

    /// Threads, each with one connection unless --connections is given
    #[arg(long, value_name = "N", default_value = settings::THREADS.default_text(), value_parser = whole::<u32>(&settings::THREADS))]
    threads: u32,

    /// Total connections of all threads. Each thread drives its share in an event loop, which costs the least
    /// CPU if there are many [default: one per thread]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(&settings::CONNECTIONS))]
    connections: Option<u32>,

    /// Length of the measured phase [default: 10s; with --events, as long as they take; for recorded due
    /// times, their span]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = amount(&settings::TIME, quantity::duration))]
    time: Option<Duration>,

    /// Measure exactly this many events, or as many as fit into --time; ends early if the server is
    /// unreachable for 60 s
    #[arg(long, value_name = "N", value_parser = whole::<u64>(&settings::EVENTS))]
    events: Option<u64>,

    /// Load before the measured phase, not counted [default: 1s; 0 for a replay]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = amount(&settings::WARMUP, quantity::duration))]
    warmup: Option<Duration>,

    /// Raise the load from zero over this time, before the warm-up; not counted
    #[arg(long, value_name = "DURATION", default_value = settings::RAMP_UP.default_text(), allow_hyphen_values = true, value_parser = amount(&settings::RAMP_UP, quantity::duration))]
    ramp_up: Duration,

    /// Lower the load to zero over this time, after the measured phase; not counted
    #[arg(long, value_name = "DURATION", default_value = settings::RAMP_DOWN.default_text(), allow_hyphen_values = true, value_parser = amount(&settings::RAMP_DOWN, quantity::duration))]
    ramp_down: Duration,

    /// Length of a reported interval
    #[arg(long, value_name = "DURATION", default_value = settings::INTERVAL.default_text(), allow_hyphen_values = true, value_parser = amount(&settings::INTERVAL, quantity::duration))]
    interval: Duration,

    /// Distribution of due times: jitter, period, poisson; or, with built-in rates, ramp:100-1000,
    /// step:100@10s,200, burst:50-2000@1s/10s, sine:100-500@60s, `file:PATH` (a file written by --log, or
    /// seconds, one per line) [default: jitter]
    #[arg(long, value_name = "HOW", value_parser = Arrivals::parse)]
    arrivals: Option<Arrivals>,

    /// Largest shift of an event by jitter arrivals, as a share of a thread's period [default: 10%]
    #[arg(long, value_name = "PERCENT", value_parser = amount(&settings::JITTER, quantity::ratio))]
    jitter: Option<f64>,

    /// --jitter in microseconds, as in the steady-rate patch of sysbench
    #[arg(long, value_name = "USEC", conflicts_with = "jitter", requires = "rate")]
    tx_jitter: Option<u64>,

    /// The worker that takes the next event: any free one (shared), or its owner (own) [default: shared]
    #[arg(long, value_name = "HOW", value_parser = word(&settings::SCHEDULE, Schedule::from_word))]
    schedule: Option<Schedule>,

    /// Policy for an event that is due while no worker is free: queue (start it as soon as a worker is free),
    /// skip=DURATION (drop it if it is later than that), drop, pace=2x (start late events at no more than
    /// twice the rate) [default: queue]
    #[arg(long, value_name = "POLICY", value_parser = LatePolicy::parse)]
    late: Option<LatePolicy>,

    /// Think time after each event of a closed loop: 10ms, or exp:10ms for exponential times with that mean
    #[arg(long, value_name = "TIME", value_parser = Think::parse)]
    think: Option<Think>,

    /// Microseconds that workers spin before a due time, or poll for answers before they sleep (closed loop
    /// with --connections): more punctual, at the cost of CPU
    #[arg(long, value_name = "USEC", default_value = settings::SPIN_US.default_text(), value_parser = whole::<u64>(&settings::SPIN_US))]
    spin_us: u64,

    /// Share of a CPU that all workers together may spend on spinning: they wake up early, by the usual
    /// wake-up delay, and spin until the due time. Less on a busy machine; 0 turns it off [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = amount(&settings::SPIN_BUDGET, quantity::ratio))]
    spin_budget: Option<f64>,

    /// Run workers at real-time priority (`SCHED_FIFO`), before everything else
    #[arg(long)]
    fifo: bool,

    /// Keep every CPU awake with a thread at idle priority (`SCHED_IDLE`): otherwise latencies at low rates
    /// include CPU wake-ups
    #[arg(long)]
    keep_awake: bool,

    /// Retries for transient errors
    #[arg(long, value_name = "N", default_value = settings::RETRY.default_text(), value_parser = whole::<u32>(&settings::RETRY))]
    retry: u32,

    /// Longest wait for events in flight at the planned end
    #[arg(long, value_name = "DURATION", default_value = settings::DRAIN.default_text(), allow_hyphen_values = true, value_parser = amount(&settings::DRAIN, quantity::duration))]
    drain: Duration,

    /// Connections opened at a time
    #[arg(long, value_name = "N", default_value = settings::CONNECTS_AT_ONCE.default_text(), value_parser = whole::<u32>(&settings::CONNECTS_AT_ONCE))]
    connects_at_once: u32,

    /// Largest share of failed events in a valid run
    #[arg(long, value_name = "PERCENT", default_value = settings::MAX_ERRORS.default_text(), value_parser = amount(&settings::MAX_ERRORS, quantity::ratio))]
    max_errors: f64,

    /// Build missing data first: auto, always (from scratch) or never
    #[arg(long, value_name = "WHEN", default_value = settings::PREPARE.default_text(), value_parser = word(&settings::PREPARE, PreparePolicy::from_word))]
    prepare: PreparePolicy,

    /// Check of an existing data set before the load: quick (first and last row and the index of each
    /// table), full
    /// (counts every row), none
    #[arg(long, value_name = "HOW", default_value = settings::CHECK.default_text(), value_parser = word(&settings::CHECK, DataCheck::from_word))]
    check: DataCheck,

    /// Point selects in a transaction
    #[arg(long, value_name = "N", default_value = settings::POINT_SELECTS.default_text(), value_parser = whole::<u32>(&settings::POINT_SELECTS))]
    point_selects: u32,

    /// Rows that a range query covers
    #[arg(long, value_name = "N", default_value = settings::RANGE_SIZE.default_text(), value_parser = whole::<u64>(&settings::RANGE_SIZE))]
    range_size: u64,

    /// The four range queries in a transaction: on or off
    #[arg(long, value_name = "ON|OFF", default_value = default_of(&settings::RANGE_SELECTS, "on", "off"), action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    range_selects: bool,

    /// Updates of the indexed column in a transaction
    #[arg(long, value_name = "N", default_value = settings::INDEX_UPDATES.default_text(), value_parser = whole::<u32>(&settings::INDEX_UPDATES))]
    index_updates: u32,

    /// Updates of another column in a transaction
    #[arg(long, value_name = "N", default_value = settings::NON_INDEX_UPDATES.default_text(), value_parser = whole::<u32>(&settings::NON_INDEX_UPDATES))]
    non_index_updates: u32,

    /// Rows that a transaction deletes and inserts again
    #[arg(long, value_name = "N", default_value = settings::DELETE_INSERTS.default_text(), value_parser = whole::<u32>(&settings::DELETE_INSERTS))]
    delete_inserts: u32,

    /// Values in a statement of select-random-points
    #[arg(long, value_name = "N", default_value = settings::RANDOM_POINTS.default_text(), value_parser = whole::<u32>(&settings::RANDOM_POINTS))]
    random_points: u32,

    /// Ranges in a statement of select-random-ranges
    #[arg(long, value_name = "N", default_value = settings::NUMBER_OF_RANGES.default_text(), value_parser = whole::<u32>(&settings::NUMBER_OF_RANGES))]
    number_of_ranges: u32,

    /// Length of each such range
    #[arg(long, value_name = "N", default_value = settings::DELTA.default_text(), value_parser = whole::<u32>(&settings::DELTA))]
    delta: u32,

    /// Rows in a statement of bulk-insert
    #[arg(long, value_name = "N", default_value = settings::BULK_ROWS.default_text(), value_parser = whole::<u32>(&settings::BULK_ROWS))]
    bulk_rows: u32,

    /// Distribution of rows: uniform, zipfian, special or pareto, as in sysbench
    #[arg(long, value_name = "NAME", default_value = settings::DISTRIBUTION.default_text(), value_parser = word(&settings::DISTRIBUTION, Distribution::named))]
    distribution: Distribution,

    /// Leave out BEGIN and COMMIT
    #[arg(long)]
    skip_trx: bool,

    /// Prepare statements on the server: yes or no
    #[arg(long, value_name = "YES|NO", default_value = default_of(&settings::PREPARED, "yes", "no"), action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    prepared: bool,
}

/// Recorded due times in nanoseconds, from 0.
type DueTimes = Arc<[u64]>;

impl DataOptions {
    /// The target as it was written.
    pub(crate) fn target(&self) -> Target {
        Target::new(&self.target)
    }

    /// The options of a target with all defaults.
    pub(crate) fn plain(target: &str) -> Self {
        let command = Self::augment_args(clap::Command::new("data").no_binary_name(true));
        let matches = command.try_get_matches_from(["--", target]).expect("a target is all that is required");
        Self::from_arg_matches(&matches).expect("its own arguments")
    }

    /// Sets the options of a script in Lua.
    pub(crate) fn give(&mut self, lua: ScriptOptions) {
        self.lua = lua;
    }

    fn script_settings(&self) -> ScriptSettings {
        let files = self.scripts.iter().chain(&self.lua.modules).cloned().collect();
        let defines = self.defines.iter().chain(&self.lua.given).cloned().collect();
        ScriptSettings { files, defines }
    }

    pub(crate) fn has_scripts(&self) -> bool {
        !self.scripts.is_empty()
    }

    fn workload(&self, target: &Target) -> Workload {
        let is_given = |name: &str| match name {
            "script" => self.has_scripts(),
            "command" => self.requests.has_commands(),
            _ => false,
        };
        self.workload.unwrap_or_else(|| rules::default_workload(target, is_given))
    }

    /// The settings of a load on this data, without its pace.
    pub(crate) fn settings(&self, prepare: PreparePolicy) -> LoadSettings {
        let target = self.target();
        LoadSettings {
            workload: self.workload(&target),
            target,
            oltp: OltpSettings { tables: self.tables, rows: self.rows, ..OltpSettings::usual() },
            scripts: self.script_settings(),
            kv: self.requests.kv(),
            http: self.requests.http(),
            exec: self.requests.exec(),
            verify: self.requests.verify(),
            prepare,
            // A data set that is built or removed outside of a load can be counted in full.
            check: DataCheck::Full,
            answer_bytes_max: self.answer_max,
            threads: 1,
            connections: None,
            pace: Loop::CLOSED,
            warmup: Duration::ZERO,
            time: Duration::from_secs(1),
            events_max: None,
            interval: Duration::from_secs(1),
            retries_max: 0,
            drain: Duration::ZERO,
            seed: self.seed,
            draws: 0,
            connects_at_once: 1,
            errors_ratio_max: 0.0,
            ramp_up: Duration::ZERO,
            ramp_down: Duration::ZERO,
            client: ClientSettings::PLAIN,
        }
    }
}

/// A load, every default resolved.
#[derive(Debug)]
pub(crate) struct Meant {
    /// Settings of the load.
    pub(crate) settings: LoadSettings,
    /// The due times of `file:` arrivals.
    pub(crate) recorded: Option<DueTimes>,
}

/// The time limit of a number of events.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_hours(24 * 365);

impl PaceOptions {
    /// The load, with every default resolved.
    ///
    /// - `rate_per_s`: the rate of an open loop if no rate is given.
    ///
    /// # Errors
    ///
    /// Options that break a rule, and `file:` arrivals that cannot be read.
    pub(crate) fn meant(
        &self,
        data: &DataOptions,
        rate_per_s: Option<f64>,
        replayed: Option<Replayed>,
    ) -> anyhow::Result<Meant> {
        let base = data.settings(self.prepare);
        let replay = replayed.as_ref().map(|replayed| replayed.replay.clone());
        let usual_warmup =
            if replay.is_some() { Duration::ZERO } else { settings::WARMUP.default_duration() };
        let (arrivals, recorded) = self.arrivals(replayed)?;
        let time = self.time_of(arrivals.as_ref());
        let refused = |violation: Violation| {
            // In a search, `--search` sets the rate.
            let is_of_search = |name: &str| name == "rate" && rate_per_s.is_some();
            let written = |name: &str| if is_of_search(name) { option("search") } else { option(name) };
            Exit::Usage.with(format!("{} {}", option(violation.setting), violation.why(written)))
        };
        let pace = self.loop_options(arrivals, rate_per_s)?.resolved(time).map_err(refused)?;
        let settings = LoadSettings {
            oltp: OltpSettings {
                point_selects: self.point_selects,
                range_size: self.range_size,
                mix: OltpMix {
                    range_selects: self.range_selects,
                    index_updates: self.index_updates,
                    non_index_updates: self.non_index_updates,
                    delete_inserts: self.delete_inserts,
                    random_points: self.random_points,
                    number_of_ranges: self.number_of_ranges,
                    delta: self.delta,
                    bulk_rows: self.bulk_rows,
                },
                distribution: self.distribution,
                skip_transaction: self.skip_trx,
                prepared: self.prepared,
                ..base.oltp
            },
            threads: self.threads,
            connections: self.connections,
            pace,
            warmup: self.warmup.unwrap_or(usual_warmup),
            time,
            events_max: self.events,
            interval: self.interval,
            retries_max: self.retry,
            drain: self.drain,
            check: self.check,
            connects_at_once: self.connects_at_once,
            errors_ratio_max: self.max_errors,
            ramp_up: self.ramp_up,
            ramp_down: self.ramp_down,
            http: HttpSettings { replay, ..base.http },
            client: ClientSettings { spin: Duration::from_micros(self.spin_us), keep_awake: self.keep_awake },
            ..base
        };
        match settings.violation() {
            Some(violation) => Err(refused(violation)),
            None => Ok(Meant { settings, recorded }),
        }
    }

    /// Whether a rate is given.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// The settings of the loop.
    fn loop_options(
        &self,
        arrivals: Option<Arrivals>,
        rate_per_s: Option<f64>,
    ) -> anyhow::Result<LoopOptions> {
        let thread_period_s = self.rate.map(|per_s| f64::from(self.threads) / per_s);
        let of_period = |us: u64| Some(us as f64 * 1e-6 / thread_period_s?);
        let jitter_ratio = self.jitter.or_else(|| self.tx_jitter.and_then(of_period));
        if jitter_ratio.is_some_and(|ratio| ratio > 1.0) {
            let period_us = thread_period_s.unwrap_or_default() * 1e6;
            return Err(Exit::Usage.with(format!(
                "--tx-jitter {}: an event can shift by at most its thread's period, here {period_us:.0} us",
                self.tx_jitter.unwrap_or_default()
            )));
        }
        Ok(LoopOptions {
            per_s: self.rate.or(rate_per_s),
            arrivals,
            jitter_ratio,
            schedule: self.schedule,
            late: self.late,
            spin_budget_ratio: self.spin_budget,
            fifo: self.fifo,
            think: self.think,
        })
    }

    /// The given arrivals; recorded ones with their due times.
    fn arrivals(&self, replayed: Option<Replayed>) -> anyhow::Result<(Option<Arrivals>, Option<DueTimes>)> {
        if let Some(Replayed { schedule, .. }) = replayed {
            return Ok((Some(Arrivals::File(schedule.recorded)), Some(schedule.due_ns)));
        }
        let Some(Arrivals::File(file)) = &self.arrivals else { return Ok((self.arrivals.clone(), None)) };
        let schedule = archive::event_log::schedule(&file.path).ends_with(Exit::Usage)?;
        Ok((Some(Arrivals::File(schedule.recorded)), Some(schedule.due_ns)))
    }

    fn time_of(&self, arrivals: Option<&Arrivals>) -> Duration {
        let own = match (arrivals, self.rate, self.events) {
            // Alone it has no gap, and time to be answered.
            (Some(Arrivals::File(file)), ..) if file.events < 2 => Duration::from_secs(1),
            // The file lacks the last gap: the mean gap is used.
            (Some(Arrivals::File(file)), ..) => {
                let gaps = u32::try_from(file.events - 1).unwrap_or(u32::MAX);
                file.span + (file.span / gaps).max(Duration::from_millis(1))
            }
            (Some(arrivals), ..) if arrivals.say_their_rate() => settings::TIME.default_duration(),
            (.., None) => settings::TIME.default_duration(),
            (_, None, Some(_)) => AS_LONG_AS_IT_TAKES,
            // Twice the mean and a minute, because Poisson arrivals vary.
            (_, Some(per_s), Some(events)) => Duration::try_from_secs_f64(2.0 * events as f64 / per_s + 60.0)
                .unwrap_or(AS_LONG_AS_IT_TAKES)
                .min(AS_LONG_AS_IT_TAKES),
        };
        self.time.unwrap_or(own)
    }
}

fn define(text: &str) -> Result<(String, String), String> {
    let expected = "expected NAME=VALUE; a name consists of letters, digits and underscores";
    ScriptSettings::parse_define(text).ok_or_else(|| expected.to_owned())
}
