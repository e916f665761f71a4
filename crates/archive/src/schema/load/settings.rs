//! Settings of a load, as stored in the manifest.

use std::time::Duration;

use record::load::{
    ClientSettings, DataCheck, Distribution, LoadSettings, OltpMix, OltpSettings, PreparePolicy, ScriptFile,
    ScriptSettings, Workload,
};
use record::requests::{CacheCommand, ClientFiles, ExecSettings, HttpSettings, HttpVersion, KvSettings};
use record::target::{Target, mask_text};
use serde::{Deserialize, Serialize};

use super::super::{Real, Wrong, ns, word};
use super::pace::{Late, Pace, Paced, Spread};
use super::replay::ReplayForm;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Settings {
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
    /// Absent if every row was counted before each load.
    #[serde(default)]
    check: Option<String>,
    /// Absent if there was no limit.
    #[serde(default)]
    answer_bytes_max: Option<u64>,
    threads: u32,
    /// Absent if each thread had one.
    #[serde(default)]
    connections: Option<u32>,
    rate: Pace,
    /// Only for an open loop, like the next two. Earlier versions wrote them for closed loops too, without
    /// meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrivals: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<Late>,
    warmup_ns: u64,
    time_ns: u64,
    events_max: Option<u64>,
    interval_ns: u64,
    retries_max: u32,
    drain_ns: u64,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draws: Option<u64>,
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
    /// Only for an open loop. Earlier runs had no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spin_budget_ratio: Option<Real>,
    /// Only for an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fifo: Option<bool>,
    keep_awake: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Oltp {
    tables: u32,
    rows: u64,
    point_selects: u32,
    range_size: u64,
    /// Absent if a transaction had one of each.
    #[serde(default)]
    mix: Option<Mix>,
    distribution: Rows,
    skip_transaction: bool,
    prepared: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Mix {
    range_selects: bool,
    index_updates: u32,
    non_index_updates: u32,
    delete_inserts: u32,
    /// Absent if no statement had them.
    #[serde(default)]
    sizes: Option<Sizes>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sizes {
    random_points: u32,
    number_of_ranges: u32,
    delta: u32,
    bulk_rows: u32,
}

impl Mix {
    fn of(mix: OltpMix) -> Self {
        let OltpMix { range_selects, index_updates, non_index_updates, delete_inserts, .. } = mix;
        let OltpMix { random_points, number_of_ranges, delta, bulk_rows, .. } = mix;
        let sizes = Some(Sizes { random_points, number_of_ranges, delta, bulk_rows });
        Self { range_selects, index_updates, non_index_updates, delete_inserts, sizes }
    }

    fn read(self) -> OltpMix {
        let Self { range_selects, index_updates, non_index_updates, delete_inserts, sizes } = self;
        let mix =
            OltpMix { range_selects, index_updates, non_index_updates, delete_inserts, ..OltpMix::USUAL };
        match sizes {
            None => mix,
            Some(Sizes { random_points, number_of_ranges, delta, bulk_rows }) => {
                OltpMix { random_points, number_of_ranges, delta, bulk_rows, ..mix }
            }
        }
    }
}

/// Full texts, so that a run can be repeated after its files have changed.
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
    /// SHA-256 of the text, to find runs of the same script. Absent before scripts in Lua existed.
    #[serde(default)]
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kv {
    keys: u64,
    get_ratio: Real,
    /// `FROM-TO:WEIGHT,...`, lengths in bytes.
    sizes: String,
    distribution: Rows,
    /// Absent before this setting existed.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pipeline: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    multi_get: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ns: Option<u64>,
    /// Text and weight of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    commands: Vec<(String, u32)>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[derive(Debug, Serialize, Deserialize)]
struct Http {
    method: String,
    headers: Vec<String>,
    body: String,
    expected_status: Option<u16>,
    requests: Option<String>,
    /// Absent before this setting existed.
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    insecure: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cert: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unix_socket: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "is_false")]
    cookies: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    streams: u32,
    /// Absent before access logs could be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayForm>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Debug, Serialize, Deserialize)]
struct Exec {
    /// `NAME=value` each.
    environment: Vec<String>,
    expected_status: u8,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Rows {
    Uniform,
    Zipfian { exponent: Real },
    Special,
    Pareto { h: Real },
}

impl Settings {
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) fn of(settings: &LoadSettings) -> Self {
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
            check,
            answer_bytes_max,
            threads,
            connections,
            pace,
            warmup,
            time,
            events_max,
            interval,
            retries_max,
            drain,
            seed,
            draws,
            connects_at_once,
            errors_ratio_max,
            ramp_up,
            ramp_down,
            client,
        } = settings;
        let ClientSettings { spin, keep_awake } = *client;
        let Paced { rate, arrivals, schedule, late, spin_budget_ratio, fifo, think } = Paced::of(pace);
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
            check: Some(check.word().to_owned()),
            answer_bytes_max: Some(*answer_bytes_max),
            threads: *threads,
            connections: *connections,
            rate,
            arrivals,
            schedule,
            late,
            warmup_ns: ns(*warmup),
            time_ns: ns(*time),
            events_max: *events_max,
            interval_ns: ns(*interval),
            retries_max: *retries_max,
            drain_ns: ns(*drain),
            seed: *seed,
            draws: (*draws != 0).then_some(*draws),
            connects_at_once: *connects_at_once,
            errors_ratio_max: Real(*errors_ratio_max),
            think,
            ramp_up_ns: ns(*ramp_up),
            ramp_down_ns: ns(*ramp_down),
            client: Generator { spin_ns: ns(spin), spin_budget_ratio, fifo, keep_awake },
        }
    }

    pub(super) fn read(self) -> Result<LoadSettings, Wrong> {
        let paced = Paced {
            rate: self.rate,
            arrivals: self.arrivals,
            schedule: self.schedule,
            late: self.late,
            spin_budget_ratio: self.client.spin_budget_ratio,
            fifo: self.client.fifo,
            think: self.think,
        };
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
            check: match &self.check {
                Some(check) => word("check", check, DataCheck::from_word)?,
                None => DataCheck::Full,
            },
            answer_bytes_max: self.answer_bytes_max.unwrap_or(u64::MAX),
            threads: self.threads,
            connections: self.connections,
            pace: paced.read()?,
            warmup: Duration::from_nanos(self.warmup_ns),
            time: Duration::from_nanos(self.time_ns),
            events_max: self.events_max,
            interval: Duration::from_nanos(self.interval_ns),
            retries_max: self.retries_max,
            drain: Duration::from_nanos(self.drain_ns),
            seed: self.seed,
            draws: self.draws.unwrap_or(0),
            connects_at_once: self.connects_at_once,
            errors_ratio_max: self.errors_ratio_max.0,
            ramp_up: Duration::from_nanos(self.ramp_up_ns),
            ramp_down: Duration::from_nanos(self.ramp_down_ns),
            client: ClientSettings {
                spin: Duration::from_nanos(self.client.spin_ns),
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
            let sha256 = crate::checksum::of(text.as_bytes());
            ScriptText { name, weight, text, sha256 }
        };
        Self { files: files.iter().map(of_file).collect(), defines: defines.clone() }
    }

    fn read(self) -> ScriptSettings {
        let file = |ScriptText { name, weight, text, sha256: _ }| ScriptFile { name, weight, text };
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
            mix,
            distribution,
            skip_transaction,
            prepared,
        } = *oltp;
        let distribution = Rows::of(distribution);
        let mix = Some(Mix::of(mix));
        Self { tables, rows, point_selects, range_size, mix, distribution, skip_transaction, prepared }
    }

    fn read(self) -> OltpSettings {
        let Self { tables, rows, point_selects, range_size, mix, distribution, skip_transaction, prepared } =
            self;
        let mix = mix.map_or(OltpMix::USUAL, Mix::read);
        let distribution = distribution.read();
        OltpSettings {
            tables,
            rows,
            point_selects,
            range_size,
            mix,
            distribution,
            skip_transaction,
            prepared,
        }
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
        let KvSettings { keys, get_ratio, sizes: _, distribution, pipeline, multi_get, ttl, ref commands } =
            *kv;
        let (get_ratio, distribution) = (Real(get_ratio), Rows::of(distribution));
        let (sizes, ttl_ns) = (kv.sizes_text(), ttl.map(ns));
        let commands = commands.iter().map(|c| (mask_text(&c.text), c.weight)).collect();
        Self { keys, get_ratio, sizes, distribution, pipeline, multi_get, ttl_ns, commands }
    }

    fn read(self) -> Result<KvSettings, Wrong> {
        let Self { keys, get_ratio, sizes, distribution, pipeline, multi_get, ttl_ns, commands } = self;
        let sizes = word("sizes", &sizes, |sizes| KvSettings::parse_sizes(sizes).ok())?;
        let (get_ratio, distribution) = (get_ratio.0, distribution.read());
        let ttl = ttl_ns.map(Duration::from_nanos);
        let commands = commands.into_iter().map(|(text, weight)| CacheCommand { text, weight }).collect();
        Ok(KvSettings { keys, get_ratio, sizes, distribution, pipeline, multi_get, ttl, commands })
    }
}

impl Http {
    fn of(http: &HttpSettings) -> Self {
        let headers = http.masked_headers();
        let HttpSettings {
            method,
            headers: _,
            body,
            expected_status,
            requests,
            replay,
            version,
            ca,
            insecure,
            identity,
            unix_socket,
            timeout,
            cookies,
            data,
            streams,
        } = http.clone();
        let version = Some(version.word().to_owned());
        let (cert, key) = identity.map(|files| (files.cert, files.key)).unzip();
        let timeout_ns = timeout.map(ns);
        Self {
            method,
            headers,
            body,
            expected_status,
            requests,
            version,
            ca,
            insecure,
            cert,
            key,
            unix_socket,
            timeout_ns,
            cookies,
            data,
            streams,
            replay: replay.as_ref().map(ReplayForm::of),
        }
    }

    fn read(self) -> Result<HttpSettings, Wrong> {
        let version = match &self.version {
            Some(version) => word("HTTP version", version, HttpVersion::from_word)?,
            None => HttpVersion::One,
        };
        Ok(HttpSettings {
            method: self.method,
            headers: self.headers,
            body: self.body,
            expected_status: self.expected_status,
            requests: self.requests,
            replay: self.replay.map(ReplayForm::read).transpose()?,
            version,
            ca: self.ca,
            insecure: self.insecure,
            identity: self.cert.zip(self.key).map(|(cert, key)| ClientFiles { cert, key }),
            unix_socket: self.unix_socket,
            timeout: self.timeout_ns.map(Duration::from_nanos),
            cookies: self.cookies,
            data: self.data,
            streams: self.streams,
        })
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
