//! A load: its settings, the load that was offered, and the results.

pub mod choices;
mod family;
pub mod rules;
pub mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

pub use self::choices::{DataCheck, Distribution, PreparePolicy, Workload};
use self::rules::{Family, Violation};
pub use crate::agents::OfAgent;
pub use crate::arrivals::Arrivals;
pub use crate::counts::Counts;
pub use crate::errors::ErrorCounts;
use crate::histogram::{self, CensoredHistogram, Histogram, Summary};
pub use crate::hosts::{OfHost, Outage, UnlistedOutages};
pub use crate::loops::{LatePolicy, Loop, OpenLoop, Schedule, Think};
use crate::missing::Maybe;
use crate::requests::{ExecSettings, HttpSettings, HttpVersion, KvSettings};
use crate::run::words;
use crate::series::{HistogramSlice, LatencyKind};
use crate::target::Target;
use crate::verdict::Verdict;

/// Techniques that keep the generator on time, in a loop of either kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientSettings {
    /// Workers sleep until this long before a due time and spin for the rest; in a closed loop over many
    /// connections, they poll for responses for this long before they sleep.
    pub spin: Duration,
    /// Whether a thread at idle priority (`SCHED_IDLE`) keeps each CPU out of idle states.
    pub keep_awake: bool,
}

impl ClientSettings {
    /// Settings without spinning and without idle threads.
    pub const PLAIN: Self = Self { spin: Duration::ZERO, keep_awake: false };
}

/// SQL data set and its transactions, in the terms of sysbench.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OltpSettings {
    /// Number of tables `sbtest1`, `sbtest2`, ...
    pub tables: u32,
    /// Rows per table.
    pub rows: u64,
    /// Point selects per transaction.
    pub point_selects: u32,
    /// Rows per range query.
    pub range_size: u64,
    /// Other statements of a transaction.
    pub mix: OltpMix,
    /// Distribution of rows.
    pub distribution: Distribution,
    /// Whether to omit BEGIN and COMMIT.
    pub skip_transaction: bool,
    /// Whether the server prepares the statements.
    pub prepared: bool,
}

impl OltpSettings {
    /// Defaults.
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

/// Statements of a transaction by kind, except point selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OltpMix {
    /// Whether it includes the four range queries: simple, sum, order and distinct.
    pub range_selects: bool,
    /// Updates of an indexed column.
    pub index_updates: u32,
    /// Updates of a column without an index.
    pub non_index_updates: u32,
    /// Rows that are deleted and inserted again.
    pub delete_inserts: u32,
    /// Values per statement of random points.
    pub random_points: u32,
    /// Ranges per statement of random ranges.
    pub number_of_ranges: u32,
    /// Distance from the beginning of such a range to its end.
    pub delta: u32,
    /// Rows per bulk insert.
    pub bulk_rows: u32,
}

impl OltpMix {
    /// Defaults, which are sysbench's, except for the rows of a bulk insert: sysbench adds as many as fit a
    /// packet.
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
    /// Maximum of points, and of ranges, per statement.
    pub const POINTS_MAX: u32 = settings::RANDOM_POINTS.max_u32();
}

/// Scripts with the statements of events; empty for other workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Each event runs one of them, drawn by weight.
    pub files: Vec<ScriptFile>,
    /// Variables that are set at the beginning of an event, by name; options of a script in Lua.
    pub defines: Vec<(String, String)>,
}

impl ScriptSettings {
    /// Whether the script is in Lua, with sysbench's interface; the other files are then its modules.
    pub fn is_lua(&self) -> bool {
        self.files.first().is_some_and(ScriptFile::is_lua)
    }

    /// Parses `scale=10`: a name of letters, digits and underscores, and a value.
    pub fn parse_define(text: &str) -> Option<(String, String)> {
        let (name, value) = text.split_once('=')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then(|| (name.to_owned(), value.to_owned()))
    }
}

/// A script and its text, because the file may change after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// File name, as the user gave it.
    pub name: String,
    /// Weight of the draw, relative to the weights of the other scripts; 0 for a module of a script in Lua.
    pub weight: u32,
    /// Text.
    pub text: String,
}

impl ScriptFile {
    /// Whether the file is a script in Lua, by its name.
    pub fn is_lua(&self) -> bool {
        std::path::Path::new(&self.name).extension().is_some_and(|extension| extension == "lua")
    }
}

/// All settings of a load, every default resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// Target.
    pub target: Target,
    /// Kind of event.
    pub workload: Workload,
    /// SQL data set; unused by targets without one.
    pub oltp: OltpSettings,
    /// Scripts, if the workload is a script.
    pub scripts: ScriptSettings,
    /// Keys and values of a cache; unused by other targets.
    pub kv: KvSettings,
    /// Requests to a web server; unused by other targets.
    pub http: HttpSettings,
    /// Settings of commands; unused by other targets.
    pub exec: ExecSettings,
    /// Whether every response is compared with the expected data, if the target supports it.
    pub verify: bool,
    /// Policy for missing data.
    pub prepare: PreparePolicy,
    /// Check of an existing data set.
    pub check: DataCheck,
    /// Longest message, row or value that is accepted from a server; a longer one breaks the connection.
    pub answer_bytes_max: u64,
    /// Number of workers.
    pub threads: u32,
    /// Connections of all workers together, if the target supports many; `None`: one each.
    pub connections: Option<u32>,
    /// Loop that decides when an event begins.
    pub pace: Loop,
    /// Length of the load before the measured phase; its events do not count.
    pub warmup: Duration,
    /// Length of the measured phase.
    pub time: Duration,
    /// Number of events after which the measured phase ends early.
    pub events_max: Option<u64>,
    /// Length of a reported interval.
    pub interval: Duration,
    /// Retries for transient errors.
    pub retries_max: u32,
    /// Time limit, after the planned end, for events in flight.
    pub drain: Duration,
    /// Random seed of the data set; with [`Self::draws`] and the number of an event, of every random choice.
    pub seed: u64,
    /// Tells the random choices of this load from those of others on the same data set; 0 for the only one.
    pub draws: u64,
    /// Number of connections that are opened in parallel.
    pub connects_at_once: u32,
    /// Share of planned events that may fail in a valid run.
    pub errors_ratio_max: f64,
    /// Length of the rise of the load before the warm-up; its events do not count.
    pub ramp_up: Duration,
    /// Length of the fall of the load after the measured phase; its events do not count.
    pub ramp_down: Duration,
    /// Techniques that keep the generator on time.
    pub client: ClientSettings,
}

impl LoadSettings {
    /// Random seed of arrivals and events.
    pub fn event_seed(&self) -> u64 {
        self.seed ^ self.draws
    }

    /// Default of [`Self::answer_bytes_max`]; the setting is in MiB.
    pub const ANSWER_BYTES_MAX: u64 = settings::ANSWER_MAX.default_number() << 20;

    /// Connections of all workers together.
    pub fn connections_in_all(&self) -> u32 {
        self.connections.unwrap_or(self.threads)
    }

    /// Requests that a connection may have in flight at a time.
    pub fn depth(&self) -> u32 {
        self.kv.pipeline.max(self.http.streams)
    }

    /// Requests that all connections together may have in flight at a time.
    pub fn in_flight_max(&self) -> u32 {
        self.connections_in_all().saturating_mul(self.depth())
    }

    /// First setting that contradicts the value of another.
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

/// One operation within the events: a statement of a transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    /// Service time; a lower bound if its event was unfinished at the end of the measured phase.
    pub service: CensoredHistogram,
    /// Events that began and were unfinished at the end of the measurement: each may be in this operation or
    /// in another.
    pub in_flight: u64,
    /// Variant of [`LoadRecord::service_generator_made`] for this operation: which operations of an event the
    /// generator delayed is unknown, so these are the values that it may have made.
    pub generator_made: Vec<&'static str>,
}

impl Operation {
    /// Variant of [`CensoredHistogram::summary`] that also names the values that events in flight could
    /// raise, and those that the generator may have made.
    pub fn summary(&self) -> Option<Summary> {
        let summary = self.service.summary_beside(self.in_flight)?;
        Some(Summary { upper_bounds: self.generator_made.clone(), ..summary })
    }
}

/// Cost of the generator over the measured phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientCost {
    /// CPU time in user mode per completed event, microseconds.
    pub user_us_per_event: f64,
    /// CPU time in the kernel per completed event, microseconds.
    pub system_us_per_event: f64,
    /// Context switches of the workers per completed event.
    pub switches_per_event: f64,
    /// Share of the measured phase in which the most delayed worker was runnable but did not run; missing if
    /// the kernel does not count it.
    pub starved_ratio: Maybe<f64>,
    /// Time in which the workers together were runnable but did not run, per completed event, microseconds.
    pub run_queue_wait_us_per_event: Maybe<f64>,
    /// CPU time of the threads that keep CPUs out of idle states; in none of the above; `None` without such
    /// threads.
    pub keep_awake_cpu: Option<Duration>,
    /// Early wake-ups; `None` if they are off.
    pub wake_up: Option<WakeUp>,
}

/// Early wake-ups of workers, which let them start on time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeUp {
    /// Requested time between the wake-up and the due time, at the end.
    pub lead: Duration,
    /// Share of one CPU that all workers together spun until due times.
    pub spun_ratio: f64,
}

/// A change of the rate during the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateChange {
    /// Time of the change, in seconds since the start of the measured phase; negative before it.
    pub at_s: f64,
    /// Rate before the change.
    pub from_per_s: f64,
    /// Rate after the change. If the arrivals define their own rates, both are means over the measured phase.
    pub per_s: f64,
}

/// A probe beside the load of a fleet: few events of the same kind, by an agent that has no share.
#[derive(Debug, Clone, PartialEq)]
pub struct OfProbe {
    /// Name of the agent.
    pub agent: String,
    /// Machine that the agent ran on.
    pub host: String,
    /// Events per second that were asked for.
    pub per_s: f64,
    /// Results, with a verdict for themselves; missing if the agent was lost.
    pub record: Maybe<Box<LoadRecord>>,
}

/// Complete results of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadRecord {
    /// Settings.
    pub settings: LoadSettings,
    /// Version that the server reports: `MariaDB 10.11.6`; missing if it reports none. If several hosts
    /// differ, the version of each host.
    pub server_version: Maybe<String>,
    /// Start of the measured phase, `CLOCK_MONOTONIC`.
    pub measured_from_ns: u64,
    /// Actual length of the measured phase.
    pub measured: Duration,
    /// Completed events per second of the measured phase.
    pub achieved_per_s: f64,
    /// Outcomes of the events.
    pub counts: Counts,
    /// Response time, from the intended start; missing in a closed loop, which has no intended starts.
    pub response: Maybe<CensoredHistogram>,
    /// Service time, from the actual start; a lower bound for events that began and were unfinished.
    pub service: CensoredHistogram,
    /// Time from the intended start until a worker was free; a lower bound for events without a free worker
    /// until the end. Missing in a closed loop.
    pub wait: Maybe<CensoredHistogram>,
    /// Lateness of the generator; missing in a closed loop.
    pub lateness: Maybe<Histogram>,
    /// Names of [`crate::histogram::QUANTILES`], `mean` and `max` that are less than half in `server_part`,
    /// or of which the generator's part is unknown.
    pub generator_made: Vec<&'static str>,
    /// Response time of each event less the generator's part of it: its lateness, the wait that this caused,
    /// and its stops. Unfinished events count with the time that they had lasted. Missing in a closed loop.
    pub server_part: Maybe<Histogram>,
    /// Names of [`crate::histogram::QUANTILES`], `mean` and `max` of the service time that are less than half
    /// without the events of which the generator made more than half: it was stopped, or waited for a CPU.
    pub service_generator_made: Vec<&'static str>,
    /// Service time of failed tries.
    pub failure: Histogram,
    /// Time to open each connection before the load, by its successful try.
    pub connect: Maybe<Histogram>,
    /// Operations within the events, by name.
    pub operations: BTreeMap<String, Operation>,
    /// Responses of the measured phase by class, including those of failed events, if the target
    /// distinguishes classes: `hit` and `miss` of a cache, `2xx` and `5xx` of a web server.
    pub outcomes: BTreeMap<String, u64>,
    /// Failed tries.
    pub errors: ErrorCounts,
    /// First message of each class of error, in the server's words.
    pub error_samples: Vec<String>,
    /// Periods in which the server was unreachable.
    pub outages: Vec<Outage>,
    /// The outages beside these.
    pub unlisted_outages: UnlistedOutages,
    /// Events due but not completed at the end of the warm-up.
    pub backlog_after_warmup: u64,
    /// Events that began late, or were skipped, because no worker was free at their due time.
    pub found_no_worker: u64,
    /// Results by host; empty unless the target names several hosts.
    pub hosts: Vec<OfHost>,
    /// Part of each agent of a fleet; empty if this machine alone made the load.
    pub agents: Vec<OfAgent>,
    /// Latency probe of a fleet, which is in no other number of this record; `None` without one.
    pub probe: Option<OfProbe>,
    /// Changes of the rate during the load.
    pub rate_changes: Vec<RateChange>,
    /// Sockets that the kernel had open to the target before the first event, at most
    /// [`LoadSettings::connections_in_all`]; missing for targets without sockets.
    pub connected: Maybe<u32>,
    /// Cost of the generator.
    pub client: Maybe<ClientCost>,
    /// Distributions by interval, for files; empty while they are only on disk.
    pub slices: Vec<HistogramSlice>,
    /// Whether the run may be used.
    pub verdict: Verdict,
}

impl LoadRecord {
    /// Host of an outage; `None` if the target has only one host.
    pub fn host_of(&self, outage: &Outage) -> Option<&str> {
        Some(self.hosts.get(outage.host?)?.host.as_str())
    }

    /// Kind of the latencies of events: response, or service in a closed loop.
    pub fn latency_kind(&self) -> LatencyKind {
        if self.response.is_ok() { LatencyKind::Response } else { LatencyKind::Service }
    }

    /// Whether the generator made most of a quantile of the response time, or its part is unknown.
    pub fn is_generator_made(&self, quantile: f64, response_ns: u64) -> bool {
        match &self.server_part {
            Ok(server_part) => server_part
                .quantile_ns(quantile)
                .is_some_and(|server_ns| histogram::is_generator_made(response_ns as f64, server_ns as f64)),
            Err(_) => !self.generator_made.is_empty(),
        }
    }

    /// Summary of the service time, in which the values that the generator made are upper bounds.
    pub fn service_summary(&self) -> Option<Summary> {
        let summary = self.service.summary()?;
        Some(Summary { upper_bounds: self.service_generator_made.clone(), ..summary })
    }

    /// Summary of the response time, in which the values with more than half generator lateness are upper
    /// bounds.
    ///
    /// # Errors
    ///
    /// The reason for a missing response time.
    pub fn response_summary(&self) -> Maybe<Option<Summary>> {
        let response = self.response.as_ref().map_err(Clone::clone)?;
        let made = || self.generator_made.clone();
        Ok(response.summary().map(|summary| Summary { upper_bounds: made(), ..summary }))
    }
}

/// One interval of a running load.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Phase of the interval.
    pub phase: Phase,
    /// End of the interval, in seconds since the start of the phase.
    pub t_s: f64,
    /// Length of the interval in seconds.
    pub interval_s: f64,
    /// Due events per second; missing in a closed loop.
    pub offered_per_s: Maybe<f64>,
    /// Successfully completed events per second.
    pub achieved_per_s: f64,
    /// Events due but not completed at the end of the interval.
    pub backlog: u64,
    /// Latency of the events that ended in the interval: response time, or service time in a closed loop.
    /// Events that timed out have the time that they had lasted, a lower bound.
    pub latency: Box<CensoredHistogram>,
    /// Lateness of the same events; missing in a closed loop and outside of the measured phase.
    pub lateness: Maybe<Box<Histogram>>,
    /// Failed tries in the interval.
    pub errors: u64,
    /// Whether the server is currently unreachable.
    pub outage: bool,
}

/// Phase of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Rising load, which does not count.
    RampUp,
    /// Load that does not count.
    Warmup,
    /// Load that counts.
    Measure,
    /// Falling load, which does not count.
    RampDown,
    /// Wait for events in flight.
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
