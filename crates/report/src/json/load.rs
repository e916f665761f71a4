//! `bakeoff.load/1`: one load.

use analysis::Machine;
use record::histogram::{CensoredHistogram, Histogram, QUANTILES, Summary};
use record::limits::Throttled;
use record::load::{
    ErrorCounts, LoadRecord, LoadSettings, OfAgent, OfHost, OfProbe, OpenLoop, Operation, Outage, Progress,
};
use record::missing::{Maybe, Missing};
use record::replay::Replay;
use record::run::RunId;
use record::verdict::{Check, Verdict};
use serde_json::{Value, json};

use super::object::Object;

/// The document of a load: counts, latencies, cost, and validity.
///
/// - `run`: the run's name, if it is archived.
/// - `machine`: CPU use during the load.
/// - `throttled`: the number of times that a CPU quota took effect.
pub fn load(
    run: Option<RunId>,
    record: &LoadRecord,
    machine: &Machine,
    throttled: &Maybe<Throttled>,
) -> Value {
    let settings = &record.settings;
    let counts = record.counts;
    let latency = |h: &Maybe<Histogram>| h.as_ref().map_err(Clone::clone).and_then(distribution);
    let censored =
        |h: &Maybe<CensoredHistogram>| h.as_ref().map_err(Clone::clone).and_then(|h| bounded(h.summary()));
    let object = Object::default().with("schema", "bakeoff.load/1").maybe(
        "run",
        run.map(|id| id.to_string()).ok_or_else(|| Missing::because("the run was not archived")),
    );
    let object = asked(object, record)
        .maybe("server_version", record.server_version.clone())
        .maybe("rate_per_s", rate_per_s(record))
        .maybe("offered_per_s", offered_per_s(record))
        .maybe("achieved_per_s", achieved_per_s(record))
        .with("warmup_s", settings.warmup.as_secs_f64())
        .with("measured_s", record.measured.as_secs_f64())
        .with("backlog_after_warmup", record.backlog_after_warmup)
        .with("found_no_worker", record.found_no_worker)
        .with(
            "rate_changes",
            record
                .rate_changes
                .iter()
                .map(|c| json!({"at_s": c.at_s, "from_per_s": c.from_per_s, "per_s": c.per_s}))
                .collect::<Vec<_>>(),
        )
        .with("planned", counts.planned)
        .with("done", counts.done)
        .with("failed", counts.failed)
        .with("skipped", counts.skipped)
        .with("unfinished", counts.unfinished)
        .with("retries", counts.retries)
        .maybe("response_ns", record.response_summary().and_then(bounded))
        .maybe("service_ns", bounded(record.service_summary()))
        .maybe("wait_ns", censored(&record.wait))
        .maybe("lateness_ns", latency(&record.lateness))
        .maybe("failure_ns", distribution(&record.failure))
        .maybe("connect_ns", latency(&record.connect))
        .with("operations", operations(record))
        .with("outcomes", json!(record.outcomes))
        .with("errors", errors(&record.errors))
        .with("error_samples", record.error_samples.clone())
        .with("outages", record.outages.iter().map(|o| outage(o, record)).collect::<Vec<_>>())
        .maybe("client", client(record))
        .maybe("throttled", super::throttled::throttled(throttled))
        .with("machine", machine_value(machine))
        .with("verdict", verdict(&record.verdict));
    let object = parts(object, record);
    match &settings.http.replay {
        Some(replay) => object.with("replay", of_replay(replay)).finish(),
        None => object.finish(),
    }
}

/// Unlisted outages, hosts, agents and probe, if there are any.
fn parts(object: Object, record: &LoadRecord) -> Object {
    let unlisted = record.unlisted_outages;
    let object = if unlisted.count == 0 {
        object
    } else {
        object.with("unlisted_outages", json!({"count": unlisted.count, "for_s": unlisted.for_s}))
    };
    let object = if record.hosts.is_empty() {
        object
    } else {
        object.with("hosts", record.hosts.iter().map(of_host).collect::<Vec<_>>())
    };
    let object = if record.agents.is_empty() {
        object
    } else {
        object.with("agents", record.agents.iter().map(of_agent).collect::<Vec<_>>())
    };
    match &record.probe {
        None => object,
        Some(probe) => object.with("probe", of_probe(probe)),
    }
}

/// Count and service time of each kind of operation.
fn operations(record: &LoadRecord) -> serde_json::Map<String, Value> {
    let value = |operation: &Operation| {
        Object::default()
            .with("count", operation.service.known.count())
            .maybe("service_ns", bounded(operation.summary()))
            .finish()
    };
    record.operations.iter().map(|(name, operation)| (name.clone(), value(operation))).collect()
}

/// Settings of the load.
fn asked(object: Object, record: &LoadRecord) -> Object {
    let settings = &record.settings;
    object
        .with("target", settings.target.masked())
        .with("workload", settings.workload.word())
        .with("threads", settings.threads)
        .with("connections", settings.connections_in_all())
        .maybe("connected", record.connected.clone())
        .with("seed", settings.seed)
        .maybe("arrivals", open_only(settings, |open| open.arrivals.to_string()))
        .maybe("schedule", open_only(settings, |open| open.schedule.word()))
        .maybe("late", open_only(settings, |open| open.late.to_string()))
        .with("think", settings.pace.think().to_string())
        .with("ramp_up_s", settings.ramp_up.as_secs_f64())
        .with("ramp_down_s", settings.ramp_down.as_secs_f64())
        .with("spin_us", settings.client.spin.as_secs_f64() * 1e6)
        .maybe("spin_budget_ratio", open_only(settings, |open| open.spin_budget_ratio))
        .maybe("fifo", open_only(settings, |open| open.fifo))
        .with("keep_awake", settings.client.keep_awake)
}

fn of_replay(replay: &Replay) -> Value {
    let Replay { log, speed, requests, methods, left_out, .. } = replay;
    let methods: Vec<&str> = methods.iter().map(|method| method.name()).collect();
    json!({ "log": log, "speed": speed, "requests": requests, "methods": methods, "left_out": left_out })
}

/// The document of one interval of a running load: a line of a stream.
pub fn progress(progress: &Progress) -> Value {
    Object::default()
        .with("schema", "bakeoff.load-progress/1")
        .with("phase", progress.phase.word())
        .with("t_s", progress.t_s)
        .with("interval_s", progress.interval_s)
        .maybe("offered_per_s", progress.offered_per_s.clone())
        .with("achieved_per_s", progress.achieved_per_s)
        .with("backlog", progress.backlog)
        .maybe("latency_ns", bounded(progress.latency.summary()))
        .maybe(
            "lateness_ns",
            progress.lateness.as_ref().map_err(Clone::clone).and_then(|late| distribution(late)),
        )
        .with("errors", progress.errors)
        .with("outage", progress.outage)
        .finish()
}

/// Events due per second of the measured phase. The requested rate may differ, for example with Poisson
/// arrivals.
pub(crate) fn offered_per_s(record: &LoadRecord) -> Maybe<f64> {
    rate_per_s(record)?;
    let measured_s = record.measured.as_secs_f64();
    if measured_s > 0.0 {
        Ok(record.counts.planned as f64 / measured_s)
    } else {
        Err(Missing::because("nothing was measured"))
    }
}

/// The rate of the measured phase; missing in a closed loop without an event that was done: parts of cut
/// events are no rate.
pub(crate) fn achieved_per_s(record: &LoadRecord) -> Maybe<f64> {
    if record.counts.done == 0 && record.settings.pace.as_open().is_none() {
        return Err(Missing::because("no event was done"));
    }
    Ok(record.achieved_per_s)
}

fn rate_per_s(record: &LoadRecord) -> Maybe<f64> {
    let per_s = record.settings.pace.per_s();
    per_s.ok_or_else(|| Missing::because("a closed loop has no offered rate"))
}

fn open_only<T>(settings: &LoadSettings, of: impl Fn(&OpenLoop) -> T) -> Maybe<T> {
    let none = || Missing::because("events have no due times in a closed loop");
    settings.pace.as_open().map(of).ok_or_else(none)
}

fn no_values() -> Missing {
    Missing::because("no values were recorded")
}

fn distribution(histogram: &Histogram) -> Maybe<Value> {
    histogram.summary().as_ref().map(summary_value).ok_or_else(no_values)
}

/// A distribution with the names of those numbers that are only bounds.
fn bounded(summary: Option<Summary>) -> Maybe<Value> {
    let summary = summary.ok_or_else(no_values)?;
    let mut value = summary_value(&summary);
    value["lower_bounds"] = json!(summary.lower_bounds);
    if !summary.upper_bounds.is_empty() {
        value["upper_bounds"] = json!(summary.upper_bounds);
    }
    Ok(value)
}

fn summary_value(summary: &Summary) -> Value {
    let ends = Object::default()
        .with("count", summary.count)
        .with("min", summary.min_ns)
        .with("mean", summary.mean_ns)
        .with("max", summary.max_ns);
    let too_few = || Missing::because(format!("{} values are too few for this percentile", summary.count));
    (0..)
        .zip(QUANTILES)
        .fold(ends, |object, (place, (name, _))| {
            object.maybe(name, summary.quantile_ns(place).ok_or_else(too_few))
        })
        .finish()
}

fn errors(e: &ErrorCounts) -> Value {
    json!({
        "transient": e.transient, "connection": e.connection, "application": e.application, "verify": e.verify,
        "timeout": e.timeout,
    })
}

fn outage(outage: &Outage, record: &LoadRecord) -> Value {
    let mut value = json!({
        "from_s": outage.from_s, "for_s": outage.for_s, "affected": outage.affected, "ended": outage.ended,
    });
    if let Some(host) = record.host_of(outage) {
        value["host"] = json!(host);
    }
    value
}

fn of_host(of: &OfHost) -> Value {
    json!({
        "host": of.host, "connections": of.connections, "done": of.done, "failed": of.failed, "errors": errors(&of.errors),
    })
}

/// The probe apart from the load: its events are in no other number.
fn of_probe(of: &OfProbe) -> Value {
    let object = Object::default()
        .with("id", of.agent.clone())
        .with("host", of.host.clone())
        .with("offered_per_s", of.per_s);
    let record = match &of.record {
        Ok(record) => record,
        Err(missing) => return object.maybe("response_ns", Maybe::<Value>::Err(missing.clone())).finish(),
    };
    object
        .with("planned", record.counts.planned)
        .with("done", record.counts.done)
        .with("failed", record.counts.failed)
        .with("skipped", record.counts.skipped)
        .with("unfinished", record.counts.unfinished)
        .maybe("response_ns", record.response_summary().and_then(bounded))
        .maybe("service_ns", bounded(record.service_summary()))
        .maybe("lateness_ns", record.lateness.as_ref().map_err(Clone::clone).and_then(distribution))
        .with("verdict", verdict(&record.verdict))
        .finish()
}

fn of_agent(of: &OfAgent) -> Value {
    let clock = of
        .clock
        .clone()
        .map(|c| json!({"offset_ns": c.offset_ns, "bound_ns": c.bound_ns, "drift_ns": c.drift_ns}));
    let object = Object::default()
        .with("id", of.agent.clone())
        .with("host", of.host.clone())
        .with("weight", of.weight)
        .with("planned", of.counts.planned)
        .with("done", of.counts.done)
        .with("failed", of.counts.failed)
        .with("skipped", of.counts.skipped)
        .with("unfinished", of.counts.unfinished)
        .with("retries", of.counts.retries)
        .maybe("clock", clock)
        .maybe("start_skew_ns", of.start_skew_ns.clone())
        .with("slices", of.slices)
        .with("missing_slices", of.missing_slices.clone())
        .with("lost", of.lost_at_s.is_some());
    match of.lost_at_s {
        Some(at_s) => object.with("lost_at_s", at_s).finish(),
        None => object.finish(),
    }
}

fn client(record: &LoadRecord) -> Maybe<Value> {
    let client = record.client.clone()?;
    Ok(Object::default()
        .with("user_us_per_event", client.user_us_per_event)
        .with("system_us_per_event", client.system_us_per_event)
        .with("switches_per_event", client.switches_per_event)
        .maybe("starved_ratio", client.starved_ratio)
        .maybe("run_queue_wait_us_per_event", client.run_queue_wait_us_per_event)
        .maybe(
            "keep_awake_cpu_s",
            client
                .keep_awake_cpu
                .map(|cpu| cpu.as_secs_f64())
                .ok_or_else(|| Missing::because("no option kept the CPUs awake")),
        )
        .maybe(
            "wake_up",
            client
                .wake_up
                .map(|w| json!({"lead_us": w.lead.as_secs_f64() * 1e6, "spun_ratio": w.spun_ratio}))
                .ok_or_else(|| Missing::because("workers were not woken early")),
        )
        .finish())
}

fn machine_value(machine: &Machine) -> Value {
    let machine = machine.clone();
    Object::default()
        .maybe("rung", machine.rung.map(record::cpu::Rung::word))
        .maybe("busy_ratio", machine.busy_ratio)
        .maybe("unaccounted_ratio", machine.unaccounted_ratio)
        .maybe("stolen_ratio", machine.stolen_ratio)
        .maybe("saturated_cpus", machine.saturated_cpus)
        .finish()
}

fn verdict(verdict: &Verdict) -> Value {
    json!({
        "state": verdict.state.word(),
        "checks": verdict.checks.iter().map(check).collect::<Vec<_>>(),
    })
}

fn check(check: &Check) -> Value {
    let finite = |v: f64| {
        if v.is_finite() { Ok(v) } else { Err(Missing::because("not a finite number")) }
    };
    Object::default()
        .with("name", check.name)
        .with("ok", check.ok)
        .maybe("found", finite(check.found))
        .maybe("limit", finite(check.limit))
        .with("text", check.text.clone())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_so_few_values_do_not_hold_is_null_and_says_why() {
        let few: Histogram = [(1_000, 20)].into_iter().collect();
        let value = distribution(&few).unwrap();
        assert!(value["p95"].is_number() && value["p99"].is_null(), "{value}");
        assert_eq!(value["missing"]["p99"], "20 values are too few for this percentile");
    }

    #[test]
    fn an_interval_without_lateness_has_the_reason_and_not_zero() {
        let mut shown = Progress {
            phase: record::load::Phase::Measure,
            t_s: 1.0,
            interval_s: 1.0,
            offered_per_s: Err(Missing::because("closed")),
            achieved_per_s: 200.0,
            backlog: 0,
            latency: Box::new([(1_000_000, 200)].into_iter().collect::<Histogram>().into()),
            lateness: Err(Missing::because("closed")),
            errors: 0,
            outage: false,
        };
        let value = progress(&shown);
        assert!(value["lateness_ns"].is_null() && value["missing"]["lateness_ns"] == "closed", "{value}");
        assert_eq!(value["latency_ns"]["lower_bounds"], json!([]));
        shown.latency.at_least.record_n(500_000_000, 3);
        let value = progress(&shown);
        assert_eq!(
            value["latency_ns"]["lower_bounds"],
            json!(["p99", "p99_9", "p99_99", "mean", "max"]),
            "{value}"
        );
        // One event of 200 was late: its p99 is that of the others.
        shown.lateness = Ok(Box::new([(1_000, 199), (400_000_000, 1)].into_iter().collect()));
        let late = &progress(&shown)["lateness_ns"];
        assert!(late["p99"].as_u64() < Some(2_000) && late["max"].as_u64() > Some(399_000_000), "{late}");
    }

    #[test]
    fn events_that_have_not_ended_are_named_in_every_kind_of_latency() {
        let known: Histogram = [(1_000, 200)].into_iter().collect();
        let at_least: Histogram = [(5_000_000, 10)].into_iter().collect();
        let value = bounded(CensoredHistogram { known, at_least }.summary()).unwrap();
        assert_eq!(value["lower_bounds"], json!(["p99", "p99_9", "p99_99", "mean", "max"]));
    }
}
