//! The sum of several records of one load.

use std::collections::BTreeMap;
use std::time::Duration;

use record::histogram::{CensoredHistogram, Histogram};
use record::load::{
    ClientCost, Counts, ErrorCounts, LoadRecord, LoadSettings, OfHost, Operation, Outage, UnlistedOutages,
    WakeUp,
};
use record::missing::Maybe;
use record::verdict::{Check, Validity, Verdict};

/// Messages of errors that are kept.
const SAMPLES_MAX: usize = 5;

/// Adds the records; the verdict is still open.
///
/// - `settings`: of the whole.
pub(super) fn sum(
    settings: &LoadSettings,
    records: &[LoadRecord],
    measured_from_ns: u64,
    measured: Duration,
) -> LoadRecord {
    let (mut counts, mut errors) = (Counts::default(), ErrorCounts::default());
    let (mut service, mut failure) = (CensoredHistogram::default(), Histogram::new());
    let mut operations: BTreeMap<String, Operation> = BTreeMap::new();
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    let (mut hosts, mut outages): (Vec<OfHost>, Vec<Outage>) = (Vec::new(), Vec::new());
    let mut samples = Vec::new();
    for record in records {
        add_counts(&mut counts, &record.counts);
        add_errors(&mut errors, &record.errors);
        service.add(&record.service);
        failure.add(&record.failure);
        add_operations(&mut operations, &record.operations);
        for (name, count) in &record.outcomes {
            *outcomes.entry(name.clone()).or_default() += count;
        }
        record.hosts.iter().for_each(|host| add_host(&mut hosts, host));
        outages.extend_from_slice(&record.outages);
        samples.extend(record.error_samples.iter().filter(|text| !text.is_empty()).cloned());
    }
    samples.sort();
    samples.dedup();
    samples.truncate(SAMPLES_MAX);
    let response = all(records, |r| r.response.as_ref(), censored);
    let server_part = all(records, |r| r.server_part.as_ref(), plain);
    let of_agents = records.iter().flat_map(|record| record.generator_made.iter().copied());
    let generator_made = made(&response, &server_part, of_agents);
    LoadRecord {
        settings: settings.clone(),
        server_version: version(records),
        measured_from_ns,
        measured,
        achieved_per_s: records.iter().map(|record| achieved_per_s(settings, record, measured)).sum(),
        counts,
        response,
        service,
        wait: all(records, |r| r.wait.as_ref(), censored),
        lateness: all(records, |r| r.lateness.as_ref(), plain),
        generator_made,
        service_generator_made: service_made(records),
        server_part,
        failure,
        connect: all(records, |r| r.connect.as_ref(), plain),
        operations,
        outcomes,
        errors,
        error_samples: samples,
        outages: joined(outages),
        unlisted_outages: unlisted(records),
        backlog_after_warmup: records.iter().map(|record| record.backlog_after_warmup).sum(),
        found_no_worker: records.iter().map(|record| record.found_no_worker).sum(),
        hosts,
        agents: Vec::new(),
        probe: None,
        rate_changes: Vec::new(),
        connected: all(
            records,
            |r| r.connected.as_ref(),
            |all| all.into_iter().fold(0, |sum, n| n.saturating_add(sum)),
        ),
        client: client(records),
        slices: Vec::new(),
        verdict: Verdict { state: Validity::Invalid, checks: Vec::new() },
    }
}

/// The values of the whole that the generators made: those of no agent alone. If the part of one agent is
/// unknown, all that any agent names.
fn made(
    response: &Maybe<CensoredHistogram>,
    server_part: &Maybe<Histogram>,
    of_agents: impl Iterator<Item = &'static str>,
) -> Vec<&'static str> {
    if let (Ok(response), Ok(server_part)) = (response, server_part) {
        return load::generator_made(&response.merged(), server_part);
    }
    each_once(of_agents)
}

/// The names of all agents, each once: where the parts of the generators are not stored, a value of the whole
/// may be made by any of them.
fn each_once(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn version(records: &[LoadRecord]) -> Maybe<String> {
    let known = records.iter().find_map(|record| record.server_version.clone().ok());
    let first = records.first().expect("a fleet has agents");
    known.map_or_else(|| first.server_version.clone(), Ok)
}

fn service_made(records: &[LoadRecord]) -> Vec<&'static str> {
    each_once(records.iter().flat_map(|record| record.service_generator_made.iter().copied()))
}

fn unlisted(records: &[LoadRecord]) -> UnlistedOutages {
    let of_each = records.iter().map(|record| record.unlisted_outages);
    of_each.fold(UnlistedOutages::default(), |all, other| UnlistedOutages {
        count: all.count + other.count,
        for_s: all.for_s + other.for_s,
    })
}

/// The check of the lateness of the whole, if it fails.
pub(super) fn late(whole: &LoadRecord) -> Option<Check> {
    let (response, server_part) = (whole.response.as_ref().ok()?, whole.server_part.as_ref().ok()?);
    let is_nothing = whole.settings.target.scheme() == "null";
    load::lateness_check(&response.merged(), server_part, is_nothing).filter(|check| !check.ok)
}

/// The agent's part of the rate of the whole phase, of which it may have measured less. In a closed loop
/// with a number of events, connections without an event left do not count, nor do agents.
fn achieved_per_s(settings: &LoadSettings, record: &LoadRecord, measured: Duration) -> f64 {
    if settings.pace.as_open().is_none() && settings.events_max.is_some() || measured.is_zero() {
        return record.achieved_per_s;
    }
    record.achieved_per_s * record.measured.as_secs_f64() / measured.as_secs_f64()
}

/// The outages of the server: each agent saw the same one, from its own first failure to its own next
/// success.
fn joined(mut seen: Vec<Outage>) -> Vec<Outage> {
    seen.sort_by(|a, b| a.host.cmp(&b.host).then(a.from_s.total_cmp(&b.from_s)));
    let mut joined: Vec<Outage> = Vec::new();
    for outage in seen {
        match joined.last_mut() {
            Some(last) if last.host == outage.host && outage.from_s <= last.from_s + last.for_s => {
                last.for_s = last.for_s.max(outage.from_s + outage.for_s - last.from_s);
                last.affected += outage.affected;
                last.ended &= outage.ended;
            }
            _ => joined.push(outage),
        }
    }
    joined.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    joined
}

/// A value of all records as one; missing if it is missing in any.
fn all<'a, T: 'a, U>(
    records: &'a [LoadRecord],
    of: impl Fn(&'a LoadRecord) -> Result<&'a T, &'a record::missing::Missing>,
    sum: impl Fn(Vec<&'a T>) -> U,
) -> Maybe<U> {
    let values: Result<Vec<&T>, _> = records.iter().map(of).collect();
    values.map(sum).map_err(Clone::clone)
}

fn censored(parts: Vec<&CensoredHistogram>) -> CensoredHistogram {
    let mut sum = CensoredHistogram::default();
    for part in parts {
        sum.add(part);
    }
    sum
}

fn plain(parts: Vec<&Histogram>) -> Histogram {
    let mut sum = Histogram::new();
    for part in parts {
        sum.add(part);
    }
    sum
}

fn add_counts(sum: &mut Counts, counts: &Counts) {
    let Counts { planned, done, failed, skipped, unfinished, retries } = *counts;
    sum.planned += planned;
    sum.done += done;
    sum.failed += failed;
    sum.skipped += skipped;
    sum.unfinished += unfinished;
    sum.retries += retries;
}

fn add_errors(sum: &mut ErrorCounts, errors: &ErrorCounts) {
    let ErrorCounts { transient, connection, application, verify, timeout } = *errors;
    sum.transient += transient;
    sum.connection += connection;
    sum.application += application;
    sum.verify += verify;
    sum.timeout += timeout;
}

fn add_operations(sums: &mut BTreeMap<String, Operation>, operations: &BTreeMap<String, Operation>) {
    for (name, operation) in operations {
        let sum = sums.entry(name.clone()).or_default();
        sum.service.add(&operation.service);
        sum.in_flight += operation.in_flight;
        let made = sum.generator_made.iter().chain(&operation.generator_made).copied();
        sum.generator_made = each_once(made);
    }
}

/// Agents have the same hosts, in the same order: an outage names a host by its place.
fn add_host(hosts: &mut Vec<OfHost>, of: &OfHost) {
    match hosts.iter_mut().find(|host| host.host == of.host) {
        None => hosts.push(of.clone()),
        Some(host) => {
            host.connections = host.connections.saturating_add(of.connections);
            host.done += of.done;
            host.failed += of.failed;
            add_errors(&mut host.errors, &of.errors);
        }
    }
}

/// Cost per event over all agents: means weighed by events, and the worst starvation.
fn client(records: &[LoadRecord]) -> Maybe<ClientCost> {
    // An agent that did nothing has no cost per event.
    let counted = records.iter().filter(|record| record.counts.done > 0);
    let costs: Result<Vec<(f64, &ClientCost)>, _> =
        counted.map(|r| r.client.as_ref().map(|cost| (r.counts.done as f64, cost))).collect();
    let costs = costs.map_err(Clone::clone)?;
    let done: f64 = costs.iter().map(|(done, _)| done).sum();
    if costs.is_empty() {
        return records.first().expect("a fleet has agents").client.clone();
    }
    let mean = |of: fn(&ClientCost) -> f64| costs.iter().map(|(n, cost)| n * of(cost)).sum::<f64>() / done;
    let starved: Maybe<Vec<f64>> = costs.iter().map(|(_, cost)| cost.starved_ratio.clone()).collect();
    let waits: Maybe<Vec<f64>> = costs
        .iter()
        .map(|(n, cost)| cost.run_queue_wait_us_per_event.clone().map(|us| us * n / done))
        .collect();
    let wake_up = costs.iter().map(|(_, cost)| cost.wake_up).collect::<Option<Vec<WakeUp>>>();
    let awake = costs.iter().map(|(_, cost)| cost.keep_awake_cpu).collect::<Option<Vec<Duration>>>();
    Ok(ClientCost {
        user_us_per_event: mean(|cost| cost.user_us_per_event),
        system_us_per_event: mean(|cost| cost.system_us_per_event),
        switches_per_event: mean(|cost| cost.switches_per_event),
        starved_ratio: starved.map(|all| all.into_iter().fold(0.0, f64::max)),
        run_queue_wait_us_per_event: waits.map(|all| all.into_iter().sum()),
        keep_awake_cpu: awake.map(|all| all.into_iter().sum()),
        wake_up: wake_up.map(|all| WakeUp {
            lead: all.iter().map(|wake| wake.lead).max().unwrap_or_default(),
            spun_ratio: all.iter().map(|wake| wake.spun_ratio).sum(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_the_whole_may_be_the_generators_although_none_of_an_agent_is() {
        let of = |values: &[(u64, u64)]| -> Histogram { values.iter().copied().collect() };
        // The first agent's p98 is its generator's and its p99 the server's; the other agent is fast.
        let first =
            (of(&[(1_000_000, 9_700), (10_000_000, 300)]), of(&[(1_000_000, 9_850), (10_000_000, 150)]));
        let other = of(&[(1_000_000, 10_000)]);
        assert!(!load::generator_made(&first.0, &first.1).contains(&"p99"));
        let (response, part) = (plain(vec![&first.0, &other]), plain(vec![&first.1, &other]));
        let response = Ok(response.into());
        assert!(made(&response, &Ok(part), std::iter::empty()).contains(&"p99"));
        let unknown = Err(record::missing::Missing::because("it was lost"));
        assert_eq!(made(&response, &unknown, ["p99", "max", "p99"].into_iter()), ["max", "p99"]);
    }

    #[test]
    fn agents_that_saw_the_same_outage_saw_one() {
        let of = |host, from_s, for_s, ended| Outage { from_s, for_s, affected: 10, ended, host };
        let seen = vec![
            of(None, 2.0, 3.0, true),
            of(None, 8.0, 1.0, true),
            of(None, 2.1, 3.1, true),
            of(None, 1.9, 3.0, true),
            of(None, 8.5, 1.5, false),
        ];
        let found = joined(seen);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].from_s - 1.9).abs() < 1e-9 && (found[0].for_s - 3.3).abs() < 1e-9, "{found:?}");
        assert_eq!((found[0].affected, found[0].ended), (30, true));
        assert_eq!((found[1].affected, found[1].ended), (20, false));
        // Two hosts may be away at the same time.
        assert_eq!(joined(vec![of(Some(1), 1.0, 2.0, true), of(Some(0), 1.5, 2.0, true)]).len(), 2);
    }
}
