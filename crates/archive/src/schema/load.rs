//! A load, as stored in the manifest, without the distributions by interval, which have their own files.

mod agent;
mod counts;
mod pace;
mod replay;
mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

use record::histogram::{CensoredHistogram, Histogram, bound_name};
use record::load::{
    ClientCost, Counts, ErrorCounts, LoadRecord, LoadSettings, OfHost, OfProbe, Operation, Outage,
    RateChange, UnlistedOutages, WakeUp,
};
use record::series::HistogramSlice;
use record::verdict::{Check, Validity, Verdict};
use serde::{Deserialize, Serialize};

use self::agent::AgentForm;
use self::counts::EventCounts;
use self::settings::Settings;
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
    counts: EventCounts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    generator_made: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    service_generator_made: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    operations_generator_made: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outcomes: BTreeMap<String, u64>,
    errors: Errors,
    error_samples: Vec<String>,
    outages: Vec<OutageForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unlisted_outages: Option<UnlistedForm>,
    backlog_after_warmup: u64,
    #[serde(default)]
    found_no_worker: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostForm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probe: Option<ProbeForm>,
    #[serde(default)]
    rate_changes: Vec<Change>,
    #[serde(default)]
    connected: Option<u32>,
    client: Option<Client>,
    verdict: Judgement,
    totals: Totals,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct ProbeForm {
    agent: String,
    host: String,
    per_s: Real,
    load: Option<Box<Load>>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

impl ProbeForm {
    fn of(probe: &OfProbe) -> Self {
        let OfProbe { agent, host, per_s, record } = probe;
        let mut missing = Reasons::default();
        let load = missing.split("load", record, |record| Box::new(Load::of(record)));
        Self { agent: agent.clone(), host: host.clone(), per_s: Real(*per_s), load, missing }
    }

    fn read(self) -> Result<OfProbe, Wrong> {
        let read = |load: Box<Load>| load.read(Vec::new()).map(Box::new);
        let record = self.missing.join("load", self.load, read)?;
        Ok(OfProbe { agent: self.agent, host: self.host, per_s: self.per_s.0, record })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Errors {
    transient: u64,
    connection: u64,
    application: u64,
    verify: u64,
    /// Absent before time-outs existed.
    #[serde(default)]
    timeout: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct OutageForm {
    from_s: Real,
    for_s: Real,
    affected: u64,
    ended: bool,
    /// Index in `hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UnlistedForm {
    count: u64,
    for_s: Real,
}

impl UnlistedForm {
    fn of(unlisted: &UnlistedOutages) -> Option<Self> {
        let UnlistedOutages { count, for_s } = *unlisted;
        (count > 0).then_some(Self { count, for_s: Real(for_s) })
    }

    fn read(self) -> UnlistedOutages {
        UnlistedOutages { count: self.count, for_s: self.for_s.0 }
    }
}

/// Share of one of several hosts.
#[derive(Debug, Serialize, Deserialize)]
struct HostForm {
    host: String,
    connections: u32,
    done: u64,
    failed: u64,
    errors: Errors,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_up: Option<EarlyWake>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct EarlyWake {
    lead_ns: u64,
    spun_ratio: Real,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_at_least: Option<String>,
    wait: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_at_least: Option<String>,
    lateness: Option<String>,
    #[serde(default)]
    server_part: Option<String>,
    failure: String,
    #[serde(default)]
    connect: Option<String>,
    operations: BTreeMap<String, String>,
    /// Only operations with such events.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    operations_at_least: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    operations_in_flight: BTreeMap<String, u64>,
}

fn names(of: &[&'static str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

fn names_of_each(operations: &BTreeMap<String, Operation>) -> BTreeMap<String, Vec<String>> {
    let made = operations.iter().filter(|(_, operation)| !operation.generator_made.is_empty());
    made.map(|(name, operation)| (name.clone(), names(&operation.generator_made))).collect()
}

/// The inverse of [`names`]; names that this version does not know are left out.
fn bound_words(names: &[String]) -> Vec<&'static str> {
    names.iter().filter_map(|name| bound_name(name)).collect()
}

/// The form of settings by themselves.
pub(crate) fn of_settings(settings: &LoadSettings) -> serde_json::Value {
    serde_json::to_value(Settings::of(settings)).expect("the form has no map with keys that are no strings")
}

/// The inverse of [`of_settings`].
pub(crate) fn settings(document: serde_json::Value) -> Result<LoadSettings, Wrong> {
    serde_json::from_value::<Settings>(document).map_err(|error| Wrong(error.to_string()))?.read()
}

impl Load {
    /// Target as stored.
    pub(crate) fn target(&self) -> &str {
        self.settings.target()
    }

    /// The form of `load`, without its slices.
    pub(crate) fn of(load: &LoadRecord) -> Self {
        let LoadRecord {
            settings,
            server_version,
            measured_from_ns,
            measured,
            achieved_per_s,
            counts,
            generator_made,
            service_generator_made,
            outcomes,
            errors,
            error_samples,
            outages,
            unlisted_outages,
            backlog_after_warmup,
            found_no_worker,
            hosts,
            agents,
            probe,
            rate_changes,
            connected,
            client,
            slices: _,
            verdict,
            // Part of the totals.
            response: _,
            service: _,
            wait: _,
            lateness: _,
            server_part: _,
            failure: _,
            connect: _,
            operations,
        } = load;
        let mut missing = Reasons::default();
        let totals = Totals::of(load, &mut missing);
        Self {
            settings: Settings::of(settings),
            server_version: missing.split("server_version", server_version, String::clone),
            measured_from_ns: *measured_from_ns,
            measured_ns: ns(*measured),
            achieved_per_s: Real(*achieved_per_s),
            counts: EventCounts::of(*counts),
            generator_made: names(generator_made),
            service_generator_made: names(service_generator_made),
            operations_generator_made: names_of_each(operations),
            outcomes: outcomes.clone(),
            errors: Errors::of(errors),
            error_samples: error_samples.clone(),
            outages: outages.iter().map(OutageForm::of).collect(),
            unlisted_outages: UnlistedForm::of(unlisted_outages),
            backlog_after_warmup: *backlog_after_warmup,
            found_no_worker: *found_no_worker,
            hosts: hosts.iter().map(HostForm::of).collect(),
            agents: agents.iter().map(AgentForm::of).collect(),
            probe: probe.as_ref().map(ProbeForm::of),
            rate_changes: rate_changes
                .iter()
                .map(|c| Change { at_s: Real(c.at_s), from_per_s: Real(c.from_per_s), per_s: Real(c.per_s) })
                .collect(),
            connected: missing.split("connected", connected, |n| *n),
            client: missing.split("client", client, Client::of),
            verdict: Judgement::of(verdict),
            totals,
            missing,
        }
    }

    /// The inverse of [`Self::of`]; the slices come from their own file.
    pub(crate) fn read(self, slices: Vec<HistogramSlice>) -> Result<LoadRecord, Wrong> {
        let m = &self.missing;
        let totals = self.totals;
        let histogram = |text: String| hlog::decode(&text);
        // Runs of earlier versions lack this.
        let censored = |known: &str, at_least: Option<&String>| {
            let at_least = at_least.map_or_else(|| Ok(hlog::empty()), |text| hlog::decode(text))?;
            Ok(CensoredHistogram { known: hlog::decode(known)?, at_least })
        };
        let operation = |(name, known): (&String, &String)| {
            let service = censored(known, totals.operations_at_least.get(name))?;
            let in_flight = totals.operations_in_flight.get(name).copied().unwrap_or(0);
            let generator_made = self.operations_generator_made.get(name);
            let generator_made = generator_made.map_or_else(Vec::new, |made| bound_words(made));
            Ok((name.clone(), Operation { service, in_flight, generator_made }))
        };
        Ok(LoadRecord {
            settings: self.settings.read()?,
            server_version: m.join("server_version", self.server_version, Ok)?,
            measured_from_ns: self.measured_from_ns,
            measured: Duration::from_nanos(self.measured_ns),
            achieved_per_s: self.achieved_per_s.0,
            counts: Counts::from(self.counts),
            response: m.join("response", totals.response, |known| {
                censored(&known, totals.response_at_least.as_ref())
            })?,
            service: censored(&totals.service, totals.service_at_least.as_ref())?,
            wait: m.join("wait", totals.wait, |known| censored(&known, totals.wait_at_least.as_ref()))?,
            lateness: m.join("lateness", totals.lateness, histogram)?,
            generator_made: bound_words(&self.generator_made),
            service_generator_made: bound_words(&self.service_generator_made),
            server_part: m.join_newer("server_part", totals.server_part, histogram)?,
            failure: hlog::decode(&totals.failure)?,
            connect: m.join_newer("connect", totals.connect, histogram)?,
            operations: totals.operations.iter().map(operation).collect::<Result<_, Wrong>>()?,
            outcomes: self.outcomes,
            errors: self.errors.read(),
            error_samples: self.error_samples,
            outages: self.outages.iter().map(OutageForm::read).collect(),
            unlisted_outages: self.unlisted_outages.map(UnlistedForm::read).unwrap_or_default(),
            backlog_after_warmup: self.backlog_after_warmup,
            found_no_worker: self.found_no_worker,
            hosts: self.hosts.into_iter().map(HostForm::read).collect(),
            agents: self.agents.into_iter().map(AgentForm::read).collect::<Result<_, Wrong>>()?,
            probe: self.probe.map(ProbeForm::read).transpose()?,
            rate_changes: self
                .rate_changes
                .iter()
                .map(|c| RateChange { at_s: c.at_s.0, from_per_s: c.from_per_s.0, per_s: c.per_s.0 })
                .collect(),
            connected: m.join("connected", self.connected, Ok)?,
            client: m.join("client", self.client, Client::read)?,
            slices,
            verdict: self.verdict.read()?,
        })
    }
}

impl Totals {
    /// The form of the distributions of `load`.
    fn of(load: &LoadRecord, missing: &mut Reasons) -> Self {
        let LoadRecord {
            response, service, wait, lateness, server_part, failure, connect, operations, ..
        } = load;
        let any = |at_least: &Histogram| (!at_least.is_empty()).then(|| hlog::encode(at_least));
        Self {
            response: missing.split("response", response, |r| hlog::encode(&r.known)),
            response_at_least: response.as_ref().ok().map(|r| hlog::encode(&r.at_least)),
            service: hlog::encode(&service.known),
            service_at_least: any(&service.at_least),
            wait: missing.split("wait", wait, |w| hlog::encode(&w.known)),
            wait_at_least: wait.as_ref().ok().and_then(|w| any(&w.at_least)),
            lateness: missing.split("lateness", lateness, hlog::encode),
            server_part: missing.split("server_part", server_part, hlog::encode),
            failure: hlog::encode(failure),
            connect: missing.split("connect", connect, hlog::encode),
            operations: operations
                .iter()
                .map(|(name, operation)| (name.clone(), hlog::encode(&operation.service.known)))
                .collect(),
            operations_at_least: operations
                .iter()
                .filter_map(|(name, operation)| Some((name.clone(), any(&operation.service.at_least)?)))
                .collect(),
            operations_in_flight: operations
                .iter()
                .filter(|(_, operation)| operation.in_flight > 0)
                .map(|(name, operation)| (name.clone(), operation.in_flight))
                .collect(),
        }
    }
}

impl OutageForm {
    fn of(outage: &Outage) -> Self {
        let Outage { from_s, for_s, affected, ended, host } = *outage;
        Self { from_s: Real(from_s), for_s: Real(for_s), affected, ended, host }
    }

    fn read(&self) -> Outage {
        let Self { from_s: Real(from_s), for_s: Real(for_s), affected, ended, host } = *self;
        Outage { from_s, for_s, affected, ended, host }
    }
}

impl HostForm {
    fn of(of_host: &OfHost) -> Self {
        let OfHost { host, connections, done, failed, errors } = of_host;
        let errors = Errors::of(errors);
        Self { host: host.clone(), connections: *connections, done: *done, failed: *failed, errors }
    }

    fn read(self) -> OfHost {
        let Self { host, connections, done, failed, errors } = self;
        OfHost { host, connections, done, failed, errors: errors.read() }
    }
}

impl Errors {
    fn of(errors: &ErrorCounts) -> Self {
        let ErrorCounts { transient, connection, application, verify, timeout } = *errors;
        Self { transient, connection, application, verify, timeout }
    }

    fn read(&self) -> ErrorCounts {
        let Self { transient, connection, application, verify, timeout } = *self;
        ErrorCounts { transient, connection, application, verify, timeout }
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
            wake_up,
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
            wake_up: wake_up.map(|w| EarlyWake { lead_ns: ns(w.lead), spun_ratio: Real(w.spun_ratio) }),
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
            wake_up: self
                .wake_up
                .map(|w| WakeUp { lead: Duration::from_nanos(w.lead_ns), spun_ratio: w.spun_ratio.0 }),
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
    Validity::ALL.into_iter().find(|v| v.word() == word)
}
