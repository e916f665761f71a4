//! A load: its settings, the load that was offered, and the results.

pub mod choices;
mod family;
pub mod rules;
pub mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

pub use self::choices::{DataCheck, Distribution, PreparePolicy, Workload};
use self::rules::{Family, Violation};
pub use crate::arrivals::Arrivals;
pub use crate::errors::ErrorCounts;
use crate::histogram::{CensoredHistogram, Histogram, Summary};
pub use crate::hosts::{OfHost, Outage};
pub use crate::loops::{LatePolicy, Loop, OpenLoop, Schedule, Think};
use crate::missing::Maybe;
use crate::requests::{ExecSettings, HttpSettings, HttpVersion, KvSettings};
use crate::run::words;
use crate::series::HistogramSlice;
use crate::target::Target;
use crate::verdict::Verdict;

/// What the generator does to be on time, in a loop of either kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientSettings {
    /// Its workers sleep until this long before a due time, and spin the rest; in a closed loop of connections they look for
    /// answers for so long before they sleep.
    pub spin: Duration,
    /// A thread at idle priority (`SCHED_IDLE`) keeps each CPU from falling asleep.
    pub keep_awake: bool,
}

impl ClientSettings {
    /// Sleeps.
    pub const PLAIN: Self = Self { spin: Duration::ZERO, keep_awake: false };
}

/// The shape of the SQL data set and of its transactions, as users know it from sysbench.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OltpSettings {
    /// Number of tables `sbtest1` ... .
    pub tables: u32,
    /// Rows in each.
    pub rows: u64,
    /// Point selects in a transaction.
    pub point_selects: u32,
    /// Rows that each range query covers.
    pub range_size: u64,
    /// How many of its other statements a transaction has.
    pub mix: OltpMix,
    /// How rows are chosen.
    pub distribution: Distribution,
    /// Without BEGIN and COMMIT.
    pub skip_transaction: bool,
    /// With statements prepared on the server.
    pub prepared: bool,
}

impl OltpSettings {
    /// The defaults.
    pub fn usual() -> Self {
        let distribution = Distribution::named(settings::DISTRIBUTION.default_text());
        Self {
            tables: settings::TABLES.default_u32(),
            rows: settings::ROWS.default_number(),
            point_selects: settings::POINT_SELECTS.default_u32(),
            range_size: settings::RANGE_SIZE.default_number(),
            mix: OltpMix::USUAL,
            distribution: distribution.expect("our own word"),
            skip_transaction: settings::SKIP_TRX.is_on(),
            prepared: settings::PREPARED.is_on(),
        }
    }
}

/// How many statements of each kind a transaction has, beside point selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OltpMix {
    /// Whether it has the four range queries: simple, sum, order and distinct.
    pub range_selects: bool,
    /// Updates of an indexed column.
    pub index_updates: u32,
    /// Updates of a column without an index.
    pub non_index_updates: u32,
    /// Rows that are deleted and inserted again.
    pub delete_inserts: u32,
    /// Values that a statement of random points asks for.
    pub random_points: u32,
    /// Ranges that a statement of random ranges counts.
    pub number_of_ranges: u32,
    /// How far the end of such a range is from its beginning.
    pub delta: u32,
    /// Rows that a statement of a bulk insert adds.
    pub bulk_rows: u32,
}

impl OltpMix {
    /// The defaults, which are sysbench's, but for the rows of a bulk insert: sysbench adds as many as fit a packet.
    pub const USUAL: Self = Self {
        range_selects: settings::RANGE_SELECTS.is_on(),
        index_updates: settings::INDEX_UPDATES.default_u32(),
        non_index_updates: settings::NON_INDEX_UPDATES.default_u32(),
        delete_inserts: settings::DELETE_INSERTS.default_u32(),
        random_points: settings::RANDOM_POINTS.default_u32(),
        number_of_ranges: settings::NUMBER_OF_RANGES.default_u32(),
        delta: settings::DELTA.default_u32(),
        bulk_rows: settings::BULK_ROWS.default_u32(),
    };
    /// The most points, and ranges, of a statement.
    pub const POINTS_MAX: u32 = settings::RANDOM_POINTS.max_u32();
}

/// The scripts whose statements events send; none for other workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Each event does one of them, drawn by weight.
    pub files: Vec<ScriptFile>,
    /// Variables that are set when an event begins, by name.
    pub defines: Vec<(String, String)>,
}

impl ScriptSettings {
    /// Reads `scale=10`: a name of letters, digits and underscores, and a value.
    pub fn parse_define(text: &str) -> Option<(String, String)> {
        let (name, value) = text.split_once('=')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then(|| (name.to_owned(), value.to_owned()))
    }
}

/// One script, as it was read: a file may change after a run, what the run did may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// Its file, as the user named it.
    pub name: String,
    /// How often it is drawn, beside the other scripts' weights.
    pub weight: u32,
    /// What it says.
    pub text: String,
}

/// Everything that a load was asked to do, every default resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// Where it goes.
    pub target: Target,
    /// What an event does.
    pub workload: Workload,
    /// The SQL data set; unused by targets without one.
    pub oltp: OltpSettings,
    /// The scripts, where the workload is one.
    pub scripts: ScriptSettings,
    /// The keys and values of a cache; unused by other targets.
    pub kv: KvSettings,
    /// What a web server is asked; unused by other targets.
    pub http: HttpSettings,
    /// How a command is run; unused by other targets.
    pub exec: ExecSettings,
    /// Whether everything that is read is compared with what must be there, where the target can.
    pub verify: bool,
    /// Whether missing data is built.
    pub prepare: PreparePolicy,
    /// How closely an existing data set is looked at.
    pub check: DataCheck,
    /// The longest message, row or value that is accepted from a server; a longer one breaks the connection.
    pub answer_bytes_max: u64,
    /// Workers.
    pub threads: u32,
    /// Connections of all workers together, where the target allows many; `None`: one each.
    pub connections: Option<u32>,
    /// What says when an event begins.
    pub pace: Loop,
    /// Load before the measured phase; nothing of it counts.
    pub warmup: Duration,
    /// Length of the measured phase.
    pub time: Duration,
    /// The measured phase ends earlier, after this many events.
    pub events_max: Option<u64>,
    /// Length of a reported interval.
    pub interval: Duration,
    /// Tries after the first for an event that failed in a way that may pass.
    pub retries_max: u32,
    /// How long what is in flight at the planned end may take.
    pub drain: Duration,
    /// From this and the event's number everything random follows.
    pub seed: u64,
    /// How many connections are opened at a time.
    pub connects_at_once: u32,
    /// Share of planned events that may fail in a valid run.
    pub errors_ratio_max: f64,
    /// The load rises over this time, before the warm-up; nothing of it counts.
    pub ramp_up: Duration,
    /// The load falls over this time, after the measured phase; nothing of it counts.
    pub ramp_down: Duration,
    /// What the generator does to be on time.
    pub client: ClientSettings,
}

impl LoadSettings {
    /// The default of [`Self::answer_bytes_max`], which is written in MiB.
    pub const ANSWER_BYTES_MAX: u64 = settings::ANSWER_MAX.default_number() << 20;

    /// Connections of all workers together.
    pub fn connections_in_all(&self) -> u32 {
        self.connections.unwrap_or(self.threads)
    }

    /// Requests that a connection may have in flight at a time.
    pub fn depth(&self) -> u32 {
        self.kv.pipeline.max(self.http.streams)
    }

    /// Requests that all connections together may have in flight.
    pub fn in_flight_max(&self) -> u32 {
        self.connections_in_all().saturating_mul(self.depth())
    }

    /// The first setting that contradicts the value of another.
    pub fn violation(&self) -> Option<Violation> {
        if self.connections_in_all() < self.threads {
            return Some(Violation::of("connections", &rules::A_CONNECTION_EACH));
        }
        if !self.client.spin.is_zero() && !self.pace.may_spin(self.connections) {
            return Some(Violation::of("spin_us", &rules::SPIN));
        }
        let has_no_streams = match self.http.version {
            HttpVersion::One => true,
            HttpVersion::Any => self.target.scheme() == "http",
            HttpVersion::Two => false,
        };
        let is_web = Family::of(&self.target) == Some(Family::Web);
        (is_web && has_no_streams && self.http.streams > 1).then(|| Violation::of("streams", &rules::STREAMS))
    }

    /// Whether a thread has more than one request in flight, and so waits for any of them.
    pub fn has_loops(&self) -> bool {
        self.in_flight_max() > self.threads
    }
}

/// What became of the planned events: `planned = done + failed + skipped + unfinished`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events whose due time lies in the measured phase; in a closed loop, those that were started in it.
    pub planned: u64,
    /// Ended well.
    pub done: u64,
    /// Given up after an error.
    pub failed: u64,
    /// Not done because they were too late, by the late policy.
    pub skipped: u64,
    /// Due, and not ended when we stopped looking: their latency is known from below.
    pub unfinished: u64,
    /// Tries beyond the first; not events of their own.
    pub retries: u64,
}

impl Counts {
    /// Whether no event is lost or counted twice.
    pub fn balance(&self) -> bool {
        self.planned == self.done + self.failed + self.skipped + self.unfinished
    }
}

/// One operation inside the events: a statement of a transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    /// Its service time; known from below where its event had not ended in the measured phase.
    pub service: CensoredHistogram,
    /// Events that were begun and had not ended when we stopped looking: each may be in this operation, or in another.
    pub in_flight: u64,
}

impl Operation {
    /// As [`CensoredHistogram::summary`]; what the events in flight could still raise is named too.
    pub fn summary(&self) -> Option<Summary> {
        self.service.summary_beside(self.in_flight)
    }
}

/// What the generator itself cost, over the measured phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientCost {
    /// CPU time in user mode per done event, microseconds.
    pub user_us_per_event: f64,
    /// CPU time in the kernel per done event, microseconds.
    pub system_us_per_event: f64,
    /// Context switches of the workers per done event.
    pub switches_per_event: f64,
    /// Share of the measured phase that the worst-off worker was runnable and did not run; missing where the
    /// kernel does not count it.
    pub starved_ratio: Maybe<f64>,
    /// How long the workers together were runnable and did not run, per done event, microseconds.
    pub run_queue_wait_us_per_event: Maybe<f64>,
    /// CPU time of the threads that kept the CPUs awake, which is in none of the above; `None` where there were none.
    pub keep_awake_cpu: Option<Duration>,
    /// How workers were woken early; `None` if they were not.
    pub wake_up: Option<WakeUp>,
}

/// How workers were woken early, so as to be on time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeUp {
    /// How long before a due time they asked to be woken, at the end.
    pub lead: Duration,
    /// Share of one CPU that all of them together spun until the due time.
    pub spun_ratio: f64,
}

/// The rate was changed while the load ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateChange {
    /// From here on, seconds since the start of the measured phase; negative in what came before it.
    pub at_s: f64,
    /// The rate until there.
    pub from_per_s: f64,
    /// The rate from there on. Where the arrivals say their rates themselves, both are means over the measured phase.
    pub per_s: f64,
}

/// What a load did, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadRecord {
    /// What was asked for.
    pub settings: LoadSettings,
    /// What the server calls itself: `MariaDB 10.11.6`; missing where it does not say. Of several hosts that differ, each by its host.
    pub server_version: Maybe<String>,
    /// Start of the measured phase, `CLOCK_MONOTONIC`.
    pub measured_from_ns: u64,
    /// Length of the measured phase as it was.
    pub measured: Duration,
    /// Done events per second of the measured phase.
    pub achieved_per_s: f64,
    /// What became of the events.
    pub counts: Counts,
    /// From the intended start; missing in a closed loop, which has none.
    pub response: Maybe<CensoredHistogram>,
    /// From the actual start; of events that were begun and had not ended, from below.
    pub service: CensoredHistogram,
    /// From the intended start until a worker was free; of events for which none was free until the end, from below.
    /// Missing in a closed loop.
    pub wait: Maybe<CensoredHistogram>,
    /// How late the generator was; missing in a closed loop.
    pub lateness: Maybe<Histogram>,
    /// Names of [`crate::histogram::QUANTILES`], `mean` and `max`, for which the generator's lateness, with the wait that
    /// it caused, is more than half of the response.
    pub generator_made: Vec<&'static str>,
    /// Service time of tries that failed.
    pub failure: Histogram,
    /// How long the making of each connection took, before the load began: the try that succeeded.
    pub connect: Maybe<Histogram>,
    /// By operation inside the events.
    pub operations: BTreeMap<String, Operation>,
    /// Answers of the measured phase, also those of events that failed, where the target tells ways apart: `hit` and `miss`
    /// of a cache, `2xx` and `5xx` of a web server.
    pub outcomes: BTreeMap<String, u64>,
    /// Tries that failed.
    pub errors: ErrorCounts,
    /// The first message of each class of error, as the server worded it.
    pub error_samples: Vec<String>,
    /// When the server could not be reached.
    pub outages: Vec<Outage>,
    /// Events due and not ended at the end of warm-up.
    pub backlog_after_warmup: u64,
    /// Events that began, or were skipped, later than they were due because no worker was free then.
    pub found_no_worker: u64,
    /// What each of several hosts did; empty if the target names one or none.
    pub hosts: Vec<OfHost>,
    /// Each change of the rate while it ran.
    pub rate_changes: Vec<RateChange>,
    /// Sockets that the kernel had open to the target before the first event, at most [`LoadSettings::connections_in_all`]; missing for targets
    /// without sockets.
    pub connected: Maybe<u32>,
    /// What the generator cost.
    pub client: Maybe<ClientCost>,
    /// Distributions by interval, for files; empty while these are on disk only.
    pub slices: Vec<HistogramSlice>,
    /// Whether the run may be used.
    pub verdict: Verdict,
}

impl LoadRecord {
    /// The host that an outage was of; `None` if the target has one.
    pub fn host_of(&self, outage: &Outage) -> Option<&str> {
        Some(self.hosts.get(outage.host?)?.host.as_str())
    }

    /// The summary of the response, with those values named that the generator may have made.
    ///
    /// # Errors
    ///
    /// Why there is no response time.
    pub fn response_summary(&self) -> Maybe<Option<Summary>> {
        let response = self.response.as_ref().map_err(Clone::clone)?;
        let made = || self.generator_made.clone();
        Ok(response.summary().map(|summary| Summary { upper_bounds: made(), ..summary }))
    }
}

/// What a load shows while it runs: one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Phase that the interval lies in.
    pub phase: Phase,
    /// Seconds since the start of the phase, at the interval's end.
    pub t_s: f64,
    /// Length of the interval in seconds.
    pub interval_s: f64,
    /// Events that fell due, per second; missing in a closed loop.
    pub offered_per_s: Maybe<f64>,
    /// Events that ended well, per second.
    pub achieved_per_s: f64,
    /// Events due and not ended, at the interval's end.
    pub backlog: u64,
    /// Latency of the events that ended in it: response, or service in a closed loop.
    pub latency: Histogram,
    /// Tries that failed in it.
    pub errors: u64,
    /// Whether the server cannot be reached at the moment.
    pub outage: bool,
}

/// Where in its life a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Load that rises, and does not count.
    RampUp,
    /// Load that does not count.
    Warmup,
    /// Load that counts.
    Measure,
    /// Load that falls, and does not count.
    RampDown,
    /// Waiting for what is in flight.
    Drain,
}

words!(Phase {
    RampUp = "ramp-up",
    Warmup = "warm-up",
    Measure = "measure",
    RampDown = "ramp-down",
    Drain = "drain",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_balance_only_when_every_event_has_one_fate() {
        let counts = Counts { planned: 10, done: 6, failed: 1, skipped: 2, unfinished: 1, retries: 5 };
        assert!(counts.balance());
        assert!(!Counts { planned: 11, ..counts }.balance());
    }
}
