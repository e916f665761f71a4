//! A load, as stored in the manifest: everything but the distributions by interval, which have files of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use record::arrivals::Recorded;
use record::histogram::{CensoredHistogram, Histogram};
use record::load::{
    Arrivals, ClientCost, ClientSettings, Counts, Distribution, ErrorCounts, LatePolicy, LoadRecord,
    LoadSettings, OltpSettings, Operation, Outage, PreparePolicy, Rate, RateChange, Schedule, ScriptFile,
    ScriptSettings, Think, Workload,
};
use record::requests::{ExecSettings, HttpSettings, HttpVersion, KvSettings};
use record::series::HistogramSlice;
use record::target::Target;
use record::verdict::{Check, Validity, Verdict};
use serde::{Deserialize, Serialize};

use super::text::lasting;
use super::{Real, Reasons, Wrong, ns, word};
use crate::hlog;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    settings: Settings,
    server_version: Option<String>,
    measured_from_ns: u64,
    measured_ns: u64,
    achieved_per_s: Real,
    counts: Fates,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outcomes: BTreeMap<String, u64>,
    errors: Errors,
    error_samples: Vec<String>,
    outages: Vec<Gap>,
    backlog_after_warmup: u64,
    #[serde(default)]
    found_no_worker: u64,
    #[serde(default)]
    rate_changes: Vec<Change>,
    connected: u32,
    client: Option<Client>,
    verdict: Judgement,
    totals: Totals,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    target: String,
    workload: String,
    oltp: Oltp,
    #[serde(default, skip_serializing_if = "Scripts::is_empty")]
    scripts: Scripts,
    #[serde(default)]
    kv: Option<Kv>,
    #[serde(default)]
    http: Option<Http>,
    #[serde(default)]
    exec: Option<Exec>,
    #[serde(default)]
    verify: bool,
    prepare: String,
    threads: u32,
    /// Missing where each thread had one.
    #[serde(default)]
    connections: Option<u32>,
    rate: Pace,
    arrivals: Spread,
    schedule: String,
    late: Late,
    warmup_ns: u64,
    time_ns: u64,
    events_max: Option<u64>,
    interval_ns: u64,
    retries_max: u32,
    drain_ns: u64,
    seed: u64,
    connects_at_once: u32,
    errors_ratio_max: Real,
    #[serde(default)]
    think: String,
    #[serde(default)]
    ramp_up_ns: u64,
    #[serde(default)]
    ramp_down_ns: u64,
    #[serde(default)]
    client: Generator,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Generator {
    spin_ns: u64,
    fifo: bool,
    keep_awake: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Oltp {
    tables: u32,
    rows: u64,
    point_selects: u32,
    range_size: u64,
    distribution: Rows,
    skip_transaction: bool,
    prepared: bool,
}

/// Whole, so that a run can be repeated when its files have changed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Scripts {
    files: Vec<ScriptText>,
    defines: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ScriptText {
    name: String,
    weight: u32,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kv {
    keys: u64,
    get_ratio: Real,
    /// `FROM-TO:WEIGHT,...`, lengths in bytes.
    sizes: String,
    distribution: Rows,
}

#[derive(Debug, Serialize, Deserialize)]
struct Http {
    method: String,
    headers: Vec<String>,
    body: String,
    expected_status: Option<u16>,
    requests: Option<String>,
    /// Missing before there was a choice.
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    insecure: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Exec {
    /// `NAME=value`, each.
    environment: Vec<String>,
    expected_status: u8,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Pace {
    Max,
    Steady { per_s: Real },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Spread {
    Jitter {
        ratio: Real,
    },
    Period,
    Poisson,
    /// As the user writes it.
    Shape {
        text: String,
    },
    File {
        path: String,
        events: u64,
        span_ns: u64,
        sha256: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Late {
    Queue,
    Skip { limit_ns: u64 },
    Drop,
    Pace { times: Real },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Rows {
    Uniform,
    Zipfian { exponent: Real },
    Special,
    Pareto { h: Real },
}

#[derive(Debug, Serialize, Deserialize)]
struct Fates {
    planned: u64,
    done: u64,
    failed: u64,
    skipped: u64,
    unfinished: u64,
    retries: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Errors {
    transient: u64,
    connection: u64,
    application: u64,
    verify: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Gap {
    from_s: Real,
    for_s: Real,
    affected: u64,
    ended: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each name ends in its unit")]
struct Change {
    at_s: Real,
    from_per_s: Real,
    per_s: Real,
}

#[derive(Debug, Serialize, Deserialize)]
struct Client {
    user_us_per_event: Real,
    system_us_per_event: Real,
    switches_per_event: Real,
    starved_ratio: Option<Real>,
    #[serde(default)]
    run_queue_wait_us_per_event: Option<Real>,
    #[serde(default)]
    keep_awake_cpu_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Judgement {
    state: String,
    checks: Vec<Finding>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Finding {
    name: String,
    ok: bool,
    found: Real,
    limit: Real,
    text: String,
}

/// Distributions over the whole measured phase, each as in a `.hlog` line: V2, deflated, base64.
#[derive(Debug, Serialize, Deserialize)]
struct Totals {
    response: Option<String>,
    response_at_least: Option<String>,
    service: String,
    wait: Option<String>,
    lateness: Option<String>,
    failure: String,
    #[serde(default)]
    connect: Option<String>,
    operations: BTreeMap<String, String>,
}

impl Load {
    /// The form of `load`, but for its slices.
    pub(crate) fn of(load: &LoadRecord) -> Self {
        let LoadRecord {
            settings,
            server_version,
            measured_from_ns,
            measured,
            achieved_per_s,
            counts,
            response,
            service,
            wait,
            lateness,
            failure,
            connect,
            operations,
            outcomes,
            errors,
            error_samples,
            outages,
            backlog_after_warmup,
            found_no_worker,
            rate_changes,
            connected,
            client,
            slices: _,
            verdict,
        } = load;
        let Counts { planned, done, failed, skipped, unfinished, retries } = *counts;
        let ErrorCounts { transient, connection, application, verify } = *errors;
        let mut missing = Reasons::default();
        let totals = Totals {
            response: missing.split("response", response, |r| hlog::encode(&r.known)),
            response_at_least: response.as_ref().ok().map(|r| hlog::encode(&r.at_least)),
            service: hlog::encode(service),
            wait: missing.split("wait", wait, hlog::encode),
            lateness: missing.split("lateness", lateness, hlog::encode),
            failure: hlog::encode(failure),
            connect: missing.split("connect", connect, hlog::encode),
            operations: operations
                .iter()
                .map(|(name, Operation { service })| (name.clone(), hlog::encode(service)))
                .collect(),
        };
        Self {
            settings: Settings::of(settings),
            server_version: missing.split("server_version", server_version, String::clone),
            measured_from_ns: *measured_from_ns,
            measured_ns: ns(*measured),
            achieved_per_s: Real(*achieved_per_s),
            counts: Fates { planned, done, failed, skipped, unfinished, retries },
            outcomes: outcomes.clone(),
            errors: Errors { transient, connection, application, verify },
            error_samples: error_samples.clone(),
            outages: outages.iter().map(Gap::of).collect(),
            backlog_after_warmup: *backlog_after_warmup,
            found_no_worker: *found_no_worker,
            rate_changes: rate_changes
                .iter()
                .map(|c| Change { at_s: Real(c.at_s), from_per_s: Real(c.from_per_s), per_s: Real(c.per_s) })
                .collect(),
            connected: *connected,
            client: missing.split("client", client, Client::of),
            verdict: Judgement::of(verdict),
            totals,
            missing,
        }
    }

    /// The inverse of [`Self::of`]; the slices come from their own file.
    pub(crate) fn read(self, slices: Vec<HistogramSlice>) -> Result<LoadRecord, Wrong> {
        let Fates { planned, done, failed, skipped, unfinished, retries } = self.counts;
        let Errors { transient, connection, application, verify } = self.errors;
        let m = &self.missing;
        let totals = self.totals;
        let at_least = totals.response_at_least;
        let histogram = |text: String| hlog::decode(&text);
        let operation =
            |(name, text): (String, String)| Ok((name, Operation { service: hlog::decode(&text)? }));
        Ok(LoadRecord {
            settings: self.settings.read()?,
            server_version: m.join("server_version", self.server_version, Ok)?,
            measured_from_ns: self.measured_from_ns,
            measured: Duration::from_nanos(self.measured_ns),
            achieved_per_s: self.achieved_per_s.0,
            counts: Counts { planned, done, failed, skipped, unfinished, retries },
            response: m.join("response", totals.response, |known| {
                let at_least = at_least.map_or_else(|| Ok(Histogram::new()), histogram)?;
                Ok(CensoredHistogram { known: hlog::decode(&known)?, at_least })
            })?,
            service: hlog::decode(&totals.service)?,
            wait: m.join("wait", totals.wait, histogram)?,
            lateness: m.join("lateness", totals.lateness, histogram)?,
            failure: hlog::decode(&totals.failure)?,
            connect: m.join_newer("connect", totals.connect, histogram)?,
            operations: totals.operations.into_iter().map(operation).collect::<Result<_, Wrong>>()?,
            outcomes: self.outcomes,
            errors: ErrorCounts { transient, connection, application, verify },
            error_samples: self.error_samples,
            outages: self.outages.iter().map(Gap::read).collect(),
            backlog_after_warmup: self.backlog_after_warmup,
            found_no_worker: self.found_no_worker,
            rate_changes: self
                .rate_changes
                .iter()
                .map(|c| RateChange { at_s: c.at_s.0, from_per_s: c.from_per_s.0, per_s: c.per_s.0 })
                .collect(),
            connected: self.connected,
            client: m.join("client", self.client, Client::read)?,
            slices,
            verdict: self.verdict.read()?,
        })
    }
}

impl Settings {
    fn of(settings: &LoadSettings) -> Self {
        let LoadSettings {
            target,
            workload,
            oltp,
            scripts,
            kv,
            http,
            exec,
            verify,
            prepare,
            threads,
            connections,
            rate,
            arrivals,
            schedule,
            late,
            warmup,
            time,
            events_max,
            interval,
            retries_max,
            drain,
            seed,
            connects_at_once,
            errors_ratio_max,
            think,
            ramp_up,
            ramp_down,
            client,
        } = settings;
        let ClientSettings { spin, fifo, keep_awake } = *client;
        Self {
            target: target.masked(),
            workload: workload.word().to_owned(),
            oltp: Oltp::of(oltp),
            scripts: Scripts::of(scripts),
            kv: Some(Kv::of(kv)),
            http: Some(Http::of(http)),
            exec: Some(Exec::of(exec)),
            verify: *verify,
            prepare: prepare.word().to_owned(),
            threads: *threads,
            connections: *connections,
            rate: match rate {
                Rate::Max => Pace::Max,
                Rate::PerSecond(per_s) => Pace::Steady { per_s: Real(*per_s) },
            },
            arrivals: match arrivals {
                Arrivals::Jitter { ratio } => Spread::Jitter { ratio: Real(*ratio) },
                Arrivals::Period => Spread::Period,
                Arrivals::Poisson => Spread::Poisson,
                Arrivals::Ramp { .. }
                | Arrivals::Step(_)
                | Arrivals::Burst { .. }
                | Arrivals::Sine { .. } => Spread::Shape { text: arrivals.to_string() },
                Arrivals::File(Recorded { path, events, span, sha256 }) => Spread::File {
                    path: path.clone(),
                    events: *events,
                    span_ns: ns(*span),
                    sha256: sha256.clone(),
                },
            },
            schedule: schedule.word().to_owned(),
            late: match late {
                LatePolicy::Queue => Late::Queue,
                LatePolicy::Skip { limit } => Late::Skip { limit_ns: ns(*limit) },
                LatePolicy::Drop => Late::Drop,
                LatePolicy::Pace { times } => Late::Pace { times: Real(*times) },
            },
            warmup_ns: ns(*warmup),
            time_ns: ns(*time),
            events_max: *events_max,
            interval_ns: ns(*interval),
            retries_max: *retries_max,
            drain_ns: ns(*drain),
            seed: *seed,
            connects_at_once: *connects_at_once,
            errors_ratio_max: Real(*errors_ratio_max),
            think: think.to_string(),
            ramp_up_ns: ns(*ramp_up),
            ramp_down_ns: ns(*ramp_down),
            client: Generator { spin_ns: ns(spin), fifo, keep_awake },
        }
    }

    fn read(self) -> Result<LoadSettings, Wrong> {
        Ok(LoadSettings {
            target: Target::new(self.target),
            workload: word("workload", &self.workload, Workload::from_word)?,
            oltp: self.oltp.read(),
            scripts: self.scripts.read(),
            kv: self.kv.map_or_else(|| Ok(KvSettings::usual()), Kv::read)?,
            http: self.http.map_or_else(|| Ok(HttpSettings::plain()), Http::read)?,
            exec: self.exec.map_or_else(ExecSettings::plain, Exec::read),
            verify: self.verify,
            prepare: word("prepare", &self.prepare, PreparePolicy::from_word)?,
            threads: self.threads,
            connections: self.connections,
            rate: match self.rate {
                Pace::Max => Rate::Max,
                Pace::Steady { per_s } => Rate::PerSecond(per_s.0),
            },
            arrivals: match self.arrivals {
                Spread::Jitter { ratio } => Arrivals::Jitter { ratio: ratio.0 },
                Spread::Period => Arrivals::Period,
                Spread::Poisson => Arrivals::Poisson,
                Spread::Shape { text } => {
                    Arrivals::parse(&text).map_err(|e| Wrong(format!("arrivals: {e}")))?
                }
                Spread::File { path, events, span_ns, sha256 } => {
                    let span = Duration::from_nanos(span_ns);
                    Arrivals::File(Recorded { path, events, span, sha256 })
                }
            },
            schedule: word("schedule", &self.schedule, Schedule::from_word)?,
            late: match self.late {
                Late::Queue => LatePolicy::Queue,
                Late::Skip { limit_ns } => LatePolicy::Skip { limit: Duration::from_nanos(limit_ns) },
                Late::Drop => LatePolicy::Drop,
                Late::Pace { times } => LatePolicy::Pace { times: times.0 },
            },
            warmup: Duration::from_nanos(self.warmup_ns),
            time: Duration::from_nanos(self.time_ns),
            events_max: self.events_max,
            interval: Duration::from_nanos(self.interval_ns),
            retries_max: self.retries_max,
            drain: Duration::from_nanos(self.drain_ns),
            seed: self.seed,
            connects_at_once: self.connects_at_once,
            errors_ratio_max: self.errors_ratio_max.0,
            think: match self.think.as_str() {
                "" => Think::None,
                text => Think::parse(text).map_err(|e| Wrong(format!("think: {e}")))?,
            },
            ramp_up: Duration::from_nanos(self.ramp_up_ns),
            ramp_down: Duration::from_nanos(self.ramp_down_ns),
            client: ClientSettings {
                spin: Duration::from_nanos(self.client.spin_ns),
                fifo: self.client.fifo,
                keep_awake: self.client.keep_awake,
            },
        })
    }
}

impl Scripts {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.defines.is_empty()
    }

    fn of(scripts: &ScriptSettings) -> Self {
        let ScriptSettings { files, defines } = scripts;
        let of_file = |file: &ScriptFile| {
            let ScriptFile { name, weight, text } = file.clone();
            ScriptText { name, weight, text }
        };
        Self { files: files.iter().map(of_file).collect(), defines: defines.clone() }
    }

    fn read(self) -> ScriptSettings {
        let file = |ScriptText { name, weight, text }| ScriptFile { name, weight, text };
        ScriptSettings { files: self.files.into_iter().map(file).collect(), defines: self.defines }
    }
}

impl Oltp {
    fn of(oltp: &OltpSettings) -> Self {
        let OltpSettings {
            tables,
            rows,
            point_selects,
            range_size,
            distribution,
            skip_transaction,
            prepared,
        } = *oltp;
        let distribution = Rows::of(distribution);
        Self { tables, rows, point_selects, range_size, distribution, skip_transaction, prepared }
    }

    fn read(self) -> OltpSettings {
        let Self { tables, rows, point_selects, range_size, distribution, skip_transaction, prepared } = self;
        let distribution = distribution.read();
        OltpSettings { tables, rows, point_selects, range_size, distribution, skip_transaction, prepared }
    }
}

impl Rows {
    fn of(distribution: Distribution) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian { exponent } => Self::Zipfian { exponent: Real(exponent) },
            Distribution::Special => Self::Special,
            Distribution::Pareto { h } => Self::Pareto { h: Real(h) },
        }
    }

    fn read(self) -> Distribution {
        match self {
            Self::Uniform => Distribution::Uniform,
            Self::Zipfian { exponent } => Distribution::Zipfian { exponent: exponent.0 },
            Self::Special => Distribution::Special,
            Self::Pareto { h } => Distribution::Pareto { h: h.0 },
        }
    }
}

impl Kv {
    fn of(kv: &KvSettings) -> Self {
        let KvSettings { keys, get_ratio, sizes: _, distribution } = *kv;
        let (get_ratio, distribution) = (Real(get_ratio), Rows::of(distribution));
        Self { keys, get_ratio, sizes: kv.sizes_text(), distribution }
    }

    fn read(self) -> Result<KvSettings, Wrong> {
        let Self { keys, get_ratio, sizes, distribution } = self;
        let sizes = word("sizes", &sizes, |sizes| KvSettings::parse_sizes(sizes).ok())?;
        Ok(KvSettings { keys, get_ratio: get_ratio.0, sizes, distribution: distribution.read() })
    }
}

impl Http {
    fn of(http: &HttpSettings) -> Self {
        let headers = http.masked_headers();
        let HttpSettings { method, headers: _, body, expected_status, requests, version, ca, insecure } =
            http.clone();
        let version = Some(version.word().to_owned());
        Self { method, headers, body, expected_status, requests, version, ca, insecure }
    }

    fn read(self) -> Result<HttpSettings, Wrong> {
        let Self { method, headers, body, expected_status, requests, version, ca, insecure } = self;
        let version = match &version {
            Some(version) => word("HTTP version", version, HttpVersion::from_word)?,
            None => HttpVersion::One,
        };
        Ok(HttpSettings { method, headers, body, expected_status, requests, version, ca, insecure })
    }
}

impl Exec {
    fn of(exec: &ExecSettings) -> Self {
        Self { environment: exec.masked_environment(), expected_status: exec.expected_status }
    }

    fn read(self) -> ExecSettings {
        let variable = |written: &String| {
            let (name, value) = written.split_once('=').unwrap_or((written, ""));
            (name.to_owned(), value.to_owned())
        };
        let environment = self.environment.iter().map(variable).collect();
        ExecSettings { environment, expected_status: self.expected_status }
    }
}

impl Gap {
    fn of(outage: &Outage) -> Self {
        let Outage { from_s, for_s, affected, ended } = *outage;
        Self { from_s: Real(from_s), for_s: Real(for_s), affected, ended }
    }

    fn read(&self) -> Outage {
        Outage { from_s: self.from_s.0, for_s: self.for_s.0, affected: self.affected, ended: self.ended }
    }
}

impl Client {
    fn of(cost: &ClientCost) -> Self {
        let ClientCost {
            user_us_per_event,
            system_us_per_event,
            switches_per_event,
            starved_ratio,
            run_queue_wait_us_per_event,
            keep_awake_cpu,
        } = cost;
        let mut missing = Reasons::default();
        Self {
            user_us_per_event: Real(*user_us_per_event),
            system_us_per_event: Real(*system_us_per_event),
            switches_per_event: Real(*switches_per_event),
            starved_ratio: missing.split("starved_ratio", starved_ratio, |v| Real(*v)),
            run_queue_wait_us_per_event: missing.split(
                "run_queue_wait_us_per_event",
                run_queue_wait_us_per_event,
                |v| Real(*v),
            ),
            keep_awake_cpu_ns: keep_awake_cpu.map(ns),
            missing,
        }
    }

    fn read(self) -> Result<ClientCost, Wrong> {
        Ok(ClientCost {
            user_us_per_event: self.user_us_per_event.0,
            system_us_per_event: self.system_us_per_event.0,
            switches_per_event: self.switches_per_event.0,
            starved_ratio: self.missing.join("starved_ratio", self.starved_ratio, |Real(v)| Ok(v))?,
            run_queue_wait_us_per_event: self.missing.join_later(
                "run_queue_wait_us_per_event",
                self.run_queue_wait_us_per_event,
                |Real(v)| Ok(v),
            )?,
            keep_awake_cpu: self.keep_awake_cpu_ns.map(Duration::from_nanos),
        })
    }
}

impl Judgement {
    fn of(verdict: &Verdict) -> Self {
        let Verdict { state, checks } = verdict;
        let finding = |check: &Check| {
            let Check { name, ok, found, limit, text } = check;
            let (found, limit) = (Real(*found), Real(*limit));
            Finding { name: (*name).to_owned(), ok: *ok, found, limit, text: text.clone() }
        };
        Self { state: state.word().to_owned(), checks: checks.iter().map(finding).collect() }
    }

    fn read(self) -> Result<Verdict, Wrong> {
        let check = |finding: Finding| {
            let Finding { name, ok, found, limit, text } = finding;
            Check { name: lasting(&name), ok, found: found.0, limit: limit.0, text }
        };
        Ok(Verdict {
            state: word("verdict", &self.state, validity)?,
            checks: self.checks.into_iter().map(check).collect(),
        })
    }
}

fn validity(word: &str) -> Option<Validity> {
    [Validity::Valid, Validity::Invalid, Validity::Interrupted].into_iter().find(|v| v.word() == word)
}
