//! The record of an agent that sent no report, or ended early: known events, and the rest as unfinished.

use std::collections::BTreeMap;
use std::time::Duration;

use load::Share;
use record::histogram::{CensoredHistogram, Histogram, bound_names};
use record::load::{Counts, ErrorCounts, LoadRecord, Operation, UnlistedOutages};
use record::missing::{Maybe, Missing};
use record::series::LatencyKind;
use record::verdict::{Validity, Verdict};

use super::part::{Part, Totals};
use crate::meant::Meant;
use crate::wire::Dealt;

/// The record of the agent `part`.
///
/// - `totals`: of its known intervals.
/// - `measured`: length of the phase, as the others measured it.
pub(super) fn record(
    (meant, dealt): (&Meant, &Dealt),
    part: &Part<'_>,
    totals: &Totals,
    measured: Duration,
) -> LoadRecord {
    let of = part.agent.as_str();
    let unknown = || Missing::because(format!("agent {of} sent no final report"));
    let sum = |kind: LatencyKind, operation: &str| -> Histogram {
        let buckets = totals.get(&(kind, operation.to_owned()));
        buckets.into_iter().flatten().map(|(lowest_ns, count)| (*lowest_ns, *count)).collect()
    };
    let settings = &meant.settings;
    let planned = load::planned(settings, &meant.recorded, share((meant, dealt), part), measured);
    let is_open = planned.is_some();
    let known = sum(if is_open { LatencyKind::Response } else { LatencyKind::Service }, "");
    // In an open loop, and with a number of events, those that began before the phase are not among its
    // events.
    let counts_carried_in = !is_open && settings.events_max.is_none();
    let carried_in = if counts_carried_in { sum(LatencyKind::CarriedIn, "").count() } else { 0 };
    let done = known.count().saturating_add(carried_in);
    let planned = planned.unwrap_or(done).max(done);
    let unfinished = planned - done;
    let closed = || Missing::because("a closed loop has no intended starts");
    // Their length is unknown: its lower bound is 0.
    let at_least: Histogram = [(0, unfinished)].into_iter().filter(|(_, n)| *n > 0).collect();
    let censored = |known: Histogram| CensoredHistogram { known, at_least: at_least.clone() };
    let of_open = |kind| -> Maybe<Histogram> { if is_open { Ok(sum(kind, "")) } else { Err(closed()) } };
    LoadRecord {
        settings: settings.clone(),
        server_version: Err(unknown()),
        measured_from_ns: 0,
        measured,
        achieved_per_s: per_s(done, measured),
        counts: Counts { planned, done, failed: 0, skipped: 0, unfinished, retries: 0 },
        response: of_open(LatencyKind::Response).map(censored),
        service: censored(sum(LatencyKind::Service, "")),
        wait: of_open(LatencyKind::Wait).map(censored),
        lateness: of_open(LatencyKind::Lateness),
        // Nothing says which part of its responses the generator caused.
        generator_made: if is_open { bound_names().collect() } else { Vec::new() },
        service_generator_made: bound_names().collect(),
        server_part: Err(if is_open { unknown() } else { closed() }),
        failure: sum(LatencyKind::Failure, ""),
        connect: Err(unknown()),
        operations: operations(totals, unfinished),
        outcomes: BTreeMap::new(),
        errors: ErrorCounts::default(),
        error_samples: part.failed.clone().into_iter().collect(),
        outages: Vec::new(),
        unlisted_outages: UnlistedOutages::default(),
        backlog_after_warmup: 0,
        found_no_worker: 0,
        hosts: Vec::new(),
        agents: Vec::new(),
        probe: None,
        rate_changes: Vec::new(),
        connected: Err(unknown()),
        client: Err(unknown()),
        slices: Vec::new(),
        verdict: Verdict { state: Validity::Invalid, checks: Vec::new() },
    }
}

/// The known service times by operation; `unfinished` events may be in any.
fn operations(totals: &Totals, unfinished: u64) -> BTreeMap<String, Operation> {
    let of_each = totals.iter().filter(|((kind, name), _)| *kind == LatencyKind::Service && !name.is_empty());
    let operation = |buckets: &BTreeMap<u64, u64>| Operation {
        service: CensoredHistogram::from(
            buckets.iter().map(|(ns, count)| (*ns, *count)).collect::<Histogram>(),
        ),
        in_flight: unfinished,
        // As for the response.
        generator_made: bound_names().collect(),
    };
    of_each.map(|((_, name), buckets)| (name.clone(), operation(buckets))).collect()
}

/// The record of the agent `part`, which ended early, with the events that were due until the phase ended.
///
/// - `until`: length of the phase.
pub(super) fn with_the_rest(
    (meant, dealt): (&Meant, &Dealt),
    part: &Part<'_>,
    mut record: LoadRecord,
    until: Duration,
) -> LoadRecord {
    let share = share((meant, dealt), part);
    let planned = load::planned(&meant.settings, &meant.recorded, share, until).unwrap_or(0);
    let rest = planned.saturating_sub(record.counts.planned);
    record.counts.planned += rest;
    record.counts.unfinished += rest;
    let at_least: Histogram = [(0, rest)].into_iter().filter(|(_, n)| *n > 0).collect();
    for latency in [&mut record.response, &mut record.wait].into_iter().flatten() {
        latency.at_least.add(&at_least);
    }
    if let Ok(server_part) = &mut record.server_part {
        server_part.add(&at_least);
    }
    record
}

fn share((meant, dealt): (&Meant, &Dealt), part: &Part<'_>) -> Share {
    dealt.share(part.index, &meant.settings).expect("the fleet is no larger than its threads")
}

/// The rate of `events` over a phase.
fn per_s(events: u64, phase: Duration) -> f64 {
    if phase.is_zero() { 0.0 } else { events as f64 / phase.as_secs_f64() }
}
