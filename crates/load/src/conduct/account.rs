//! The record of a load that is over, with its verdict.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use record::histogram::{CensoredHistogram, Histogram};
use record::load::{
    Arrivals, ClientCost, Counts, LoadRecord, OfHost, Outage, RateChange, UnlistedOutages, WakeUp,
};
use record::missing::{Maybe, Missing};
use record::series::HistogramSlice;
use record::verdict::{Check, Validity, Verdict};

use super::look::TargetReport;
use crate::conduct::audit::{self, Unfinished};
use crate::conduct::books::Books;
use crate::connection::OperationShare;
use crate::engine::Engine;
use crate::judge::verdict::{self, Away, Findings, delayed, lateness};
use crate::measure::client::{CpuShare, RunQueueWaits, Usage};
use crate::measure::counting::By;
use crate::measure::in_system::InSystem;
use crate::measure::latency::EventCounts;
use crate::measure::outage::OutageLog;
use crate::measure::recount::Recount;
use crate::schedule::clock::to_ns;
use crate::schedule::pace::{self, Scratch};
use crate::schedule::share::Share;

/// Facts about the measured phase.
pub(super) struct Measured {
    pub(super) until_ns: u64,
    pub(super) looked_until_ns: u64,
    /// Beginning of the record's last interval, with slices that are not closed yet.
    pub(super) interval_from_ns: u64,
    /// Duration of the server's absence for which the rest of the events was given up.
    pub(super) gave_up_for: Option<Duration>,
    pub(super) is_interrupted: bool,
    /// The workers' waits for a CPU at the beginning and at the end of the phase.
    pub(super) waits: (RunQueueWaits, RunQueueWaits),
    /// Sockets that the connections had open before the first event; missing if they have none, or the kernel
    /// does not say.
    pub(super) open_sockets: Maybe<u32>,
    /// Events in the system, counted at random moments of the phase.
    pub(super) in_system: Option<InSystem>,
    /// Time for which the whole generator stood still in the phase.
    pub(super) paused_s: f64,
    /// CPU time of the threads that kept the CPUs awake.
    pub(super) awake_cpu: Option<Duration>,
}

/// A load that is over.
pub(super) struct Over {
    /// The record, without the distributions by interval.
    pub(super) record: LoadRecord,
    /// The distributions of the last interval.
    pub(super) last: Vec<HistogramSlice>,
    pub(super) unfinished: Unfinished,
}

/// Builds the record of a load; ends the last interval of `books`, which are closed.
pub(super) fn record(
    engine: &Engine,
    books: &mut Books,
    measured: &Measured,
    changes: Vec<RateChange>,
    is_logged: bool,
    seen: TargetReport,
) -> Over {
    let timeline = engine.timeline();
    let mut scratch = Scratch::default();
    let until_ns = measured.until_ns;
    let is_open = timeline.due.is_some();
    let mut unfinished =
        audit::unfinished(engine, until_ns, measured.looked_until_ns, is_logged, &mut scratch);
    // Events that ended late are not included yet: their operations are known.
    let in_flight = unfinished.service_at_least.count() + books.event_counts.failed_late;
    let hung = hung(engine, &unfinished, measured);
    let last = end_last_interval(engine, books, measured, &mut unfinished);
    let event_counts = &books.event_counts;
    let counts = counts(engine, event_counts, unfinished.at_least.count(), until_ns, &mut scratch);
    let span = Duration::from_nanos(until_ns - timeline.measured_from_ns);
    let achieved_per_s = events_in_phase(event_counts) / (span.as_secs_f64() - engine.idle_s(until_ns));
    let cost = Cost::of(engine, measured, counts.done);
    let of_open = |histogram: &Histogram| if is_open { Ok(histogram.clone()) } else { Err(closed_loop()) };
    let with =
        |known: Histogram, at_least: &Histogram| CensoredHistogram { known, at_least: at_least.clone() };
    let response = of_open(&books.total.response).map(|known| with(known, &books.total.at_least));
    let (connections, target) = (engine.settings.connections_in_all(), &engine.settings.target);
    let mut record = LoadRecord {
        settings: engine.settings.clone(),
        server_version: seen.version.map(|version| target.hide_in(&version)),
        measured_from_ns: timeline.measured_from_ns,
        measured: span,
        achieved_per_s,
        counts,
        response,
        service: with(
            books.total.service.clone(),
            if is_open { &unfinished.service_at_least } else { &books.total.at_least },
        ),
        wait: of_open(&books.total.wait).map(|known| with(known, &unfinished.wait_at_least)),
        lateness: of_open(&books.total.lateness),
        generator_made: Vec::new(),
        service_generator_made: Vec::new(),
        server_part: of_open(&books.total.server_part),
        failure: books.total.failure.clone(),
        connect: Ok(engine.connects.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        operations: books.operations(in_flight),
        outcomes: books.outcomes(),
        errors: event_counts.errors,
        error_samples: engine.samples().iter().map(|said| target.hide_in(said)).collect(),
        outages: outages(engine, until_ns, &mut scratch),
        unlisted_outages: unlisted_outages(engine),
        backlog_after_warmup: event_counts.warmup_ended_late + unfinished.warmup,
        found_no_worker: event_counts.found_no_worker,
        hosts: hosts(engine, books),
        agents: Vec::new(),
        probe: None,
        rate_changes: changes,
        connected: measured.open_sockets.clone().map(|open| open.min(connections)),
        client: cost.client.clone(),
        slices: Vec::new(),
        verdict: Verdict { state: Validity::Invalid, checks: Vec::new() },
    };
    name_made(&mut record, books);
    let recount = recount(books, &unfinished, is_logged);
    record.verdict =
        judge(engine, books, &record, measured, (&cost, recount, &unfinished, hung), seen.checks);
    Over { record, last, unfinished }
}

/// Names the values that the generator made.
fn name_made(record: &mut LoadRecord, books: &Books) {
    if let Ok(response) = &record.response {
        record.generator_made = lateness::generator_made(&response.merged(), &books.total.server_part);
    }
    record.service_generator_made = delayed::made(&record.service.merged(), &books.total.delayed);
}

/// Adds the events that ended late, or never, to the books. Ends the last interval.
fn end_last_interval(
    engine: &Engine,
    books: &mut Books,
    measured: &Measured,
    unfinished: &mut Unfinished,
) -> Vec<HistogramSlice> {
    books.late.response.add_to(&mut unfinished.at_least);
    books.late.service.add_to(&mut unfinished.service_at_least);
    books.late.wait.add_to(&mut unfinished.wait_at_least);
    books.take_unfinished(unfinished);
    let interval_ns = measured.until_ns.saturating_sub(measured.interval_from_ns);
    books.end_interval(measured.interval_from_ns - engine.timeline().measured_from_ns, interval_ns)
}

/// The counts by the rows of the event log; `None` without a complete log.
fn recount(books: &mut Books, unfinished: &Unfinished, is_logged: bool) -> Option<Recount> {
    books.recount.add(&unfinished.rows);
    (is_logged && books.unlogged + unfinished.unlogged == 0).then_some(books.recount)
}

/// The counts of a load that ended at `until_ns`.
fn counts(
    engine: &Engine,
    event_counts: &EventCounts,
    unfinished: u64,
    until_ns: u64,
    scratch: &mut Scratch,
) -> Counts {
    let planned = match engine.counting().by {
        By::Due => engine.timeline().measured_due_before(until_ns, scratch),
        By::Start => event_counts.started,
        By::Part => event_counts.started - event_counts.warmup_ended,
    };
    let counts = Counts {
        planned,
        done: event_counts.done,
        failed: event_counts.failed,
        skipped: event_counts.skipped,
        unfinished,
        retries: event_counts.retries,
    };
    assert!(counts.balance(), "an event was lost or counted twice: {counts:?}");
    counts
}

/// The number of events that count towards the rate: see [`crate::measure::counting`].
fn events_in_phase(event_counts: &EventCounts) -> f64 {
    (event_counts.done - event_counts.done_carried_in) as f64 + event_counts.part_e9 as f64 / 1e9
}

fn judge(
    engine: &Engine,
    books: &Books,
    record: &LoadRecord,
    measured: &Measured,
    (cost, recount, unfinished, hung): (&Cost, Option<Recount>, &Unfinished, u64),
    seen: Vec<Check>,
) -> Verdict {
    let measured_s = seconds(engine.timeline().measured_from_ns, measured.until_ns);
    let published = record.response.as_ref().unwrap_or(&record.service);
    let operations: Vec<(&OperationShare, u64)> = books.operation_counts().collect();
    let findings = Findings {
        settings: &engine.settings,
        rate_per_s: engine.timeline().rate_per_s_max(measured.until_ns),
        counts: &record.counts,
        achieved_per_s: record.achieved_per_s,
        // A rate that was changed changes the number in flight.
        in_system: measured.in_system.map(|counted| InSystem {
            trend: counted.trend.filter(|_| record.rate_changes.is_empty()),
            ..counted
        }),
        paused_s: measured.paused_s,
        service_count: record.service.known.count(),
        timeouts: record.errors.timeout,
        never_ended: record.counts.unfinished.saturating_sub(books.event_counts.drained),
        held_s: (unfinished.held_ns + books.event_counts.held_ns) as f64 / 1e9,
        closed_s: books.event_counts.closed_ns as f64 / 1e9,
        lost_s: (unfinished.lost_ns + books.event_counts.lost_ns) as f64 / 1e9,
        open_sockets: measured.open_sockets.clone(),
        recount,
        measured_s,
        schedule_events: schedule_events(record, &engine.share).filter(|_| !measured.is_interrupted),
        hung,
        drained: books.event_counts.drained,
        lateness: record.response.as_ref().ok().and_then(|response| {
            let is_nothing = engine.settings.target.scheme() == "null";
            lateness::check(&response.merged(), &books.total.server_part, is_nothing)
        }),
        delayed: delayed::check(&record.service.merged(), &books.total.delayed)
            .filter(|_| record.response.is_err()),
        in_system_mean_ns: published.summary().map(|s| s.mean_ns),
        in_system_spread_ratio: published.merged().spread_ratio(),
        service_spread_ratio: record.service.merged().spread_ratio(),
        service_longest_s: record.service.summary().map_or(0.0, |summary| summary.max_ns as f64 / 1e9),
        cut_s: books.event_counts.cut_ns as f64 / 1e9,
        starved_ratio: cost.starved_ratio,
        may_have_loops: engine.hosts.driver().multiplex().is_some()
            && engine.settings.threads > 1
            && !engine.settings.has_loops(),
        waits_for_server: engine.hosts.driver().waits_for_server(),
        connection_errors: record.errors.connection,
        away: away(engine, &record.outages, measured_s),
        preemptions: cost.usage.preemptions,
        busiest_ratio: cost.busiest_ratio,
        share: cost.share,
        hosts: &record.hosts,
        operations: &operations,
    };
    let mut checks = verdict::checks(&findings);
    checks.extend(measured.gave_up_for.map(verdict::gave_up));
    checks.extend(seen);
    if measured.is_interrupted {
        return Verdict { state: Validity::Interrupted, checks };
    }
    Verdict::of(checks)
}

/// Events in flight, when the drain was over, that had begun before it; 0 if the drain was cut short.
fn hung(engine: &Engine, unfinished: &Unfinished, measured: &Measured) -> u64 {
    let drained_ns = measured.looked_until_ns.saturating_sub(measured.until_ns);
    if drained_ns < to_ns(engine.settings.drain) {
        return 0;
    }
    let service = &unfinished.service_at_least;
    service.count() - service.count_at_or_below(drained_ns)
}

/// The planned rate times the measured phase, not rounded to whole events; `None` if there was no such rate:
/// in a closed loop, in a replay, and if the rate was changed.
fn schedule_events(record: &LoadRecord, share: &Share) -> Option<f64> {
    let (s, measured_s) = (&record.settings, record.measured.as_secs_f64());
    let open = s.pace.as_open().filter(|_| record.rate_changes.is_empty())?;
    if matches!(open.arrivals, Arrivals::File(_)) {
        return None;
    }
    let at_one_rate = || {
        let most = s.events_max.map_or(f64::INFINITY, |max| max as f64);
        (open.per_s * measured_s).min(most)
    };
    let of_all = pace::events_until(&open.arrivals, s.time, measured_s).unwrap_or_else(at_one_rate);
    let expected = share.of_rate(of_all, open.schedule);
    // An agent of a fleet has whole events of a schedule that has others.
    let is_rounded = (record.counts.planned as f64 - expected).abs() <= share.rounding(open.schedule);
    (share.is_whole() || !is_rounded).then_some(expected)
}

/// Total outage, within the measured phase, of the host that was away longest.
fn away(engine: &Engine, outages: &[Outage], measured_s: f64) -> Option<Away> {
    let within = |outage: &Outage| {
        let end_s = outage.from_s + outage.for_s;
        (end_s.min(measured_s) - outage.from_s.max(0.0)).max(0.0)
    };
    let of_host = |host: Option<usize>| {
        let unlisted = engine.outages[host.unwrap_or(0)].unlisted();
        let listed: f64 = outages.iter().filter(|outage| outage.host == host).map(within).sum();
        listed + unlisted.for_ns as f64 / 1e9
    };
    let each = outages.iter().map(|outage| Away { host: outage.host, for_s: of_host(outage.host) });
    each.max_by(|a, b| a.for_s.total_cmp(&b.for_s))
}

/// The counts of each of several hosts.
fn hosts(engine: &Engine, books: &Books) -> Vec<OfHost> {
    let connections = engine.hosts.connections(engine.settings.connections_in_all());
    let each =
        books.hosts.iter().zip(engine.hosts.all()).enumerate().map(|(number, (of_host, host))| OfHost {
            host: host.name.clone(),
            connections: connections[number],
            done: of_host.done,
            failed: of_host.failed,
            errors: of_host.errors,
        });
    each.collect()
}

/// Cost of the workers, as far as it is known.
struct Cost {
    usage: Usage,
    starved_ratio: Option<f64>,
    /// Share of the phase that the busiest worker was on a CPU; `None` if the kernel does not count it.
    busiest_ratio: Option<f64>,
    share: Option<CpuShare>,
    client: Maybe<ClientCost>,
}

impl Cost {
    fn of(engine: &Engine, measured: &Measured, done: u64) -> Self {
        let (before, after) = &measured.waits;
        let waited_ns = after.since(before);
        let worst = |all_ns: &Vec<u64>| {
            all_ns.iter().max().map_or(0.0, |ns| *ns as f64 / 1e9 / after.between_s(before))
        };
        let not_counted =
            || Missing::because("the kernel did not report how long each worker waited for a CPU");
        let starved_ratio = waited_ns.as_ref().map(worst);
        let usages = engine.usages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut usage = Usage::default();
        for worker in &usages {
            usage.add(worker);
        }
        let left_behind = engine.working.load(Ordering::SeqCst);
        let client = if left_behind > 0 {
            Err(Missing::because(format!(
                "{left_behind} workers were still waiting for the server at the end"
            )))
        } else if done == 0 || usages.is_empty() {
            Err(Missing::because("no event completed"))
        } else {
            Ok(ClientCost {
                user_us_per_event: usage.user_us as f64 / done as f64,
                system_us_per_event: usage.system_us as f64 / done as f64,
                switches_per_event: usage.switches as f64 / done as f64,
                starved_ratio: starved_ratio.ok_or_else(not_counted),
                run_queue_wait_us_per_event: waited_ns
                    .map(|w| w.iter().sum::<u64>() as f64 / 1e3 / done as f64)
                    .ok_or_else(not_counted),
                keep_awake_cpu: measured.awake_cpu,
                wake_up: engine.lead.spent(measured.until_ns).map(|spent| WakeUp {
                    lead: Duration::from_nanos(spent.lead_ns),
                    spun_ratio: spent.spun_ratio,
                }),
            })
        };
        // A worker that spins until a due time could do other events meanwhile.
        let spun_ratio = engine.lead.spent(measured.until_ns).map_or(0.0, |spent| spent.spun_ratio);
        let spun_ratio = spun_ratio / f64::from(engine.settings.threads);
        let busiest_ratio = after.on_cpu_since(before).as_ref().map(|all| (worst(all) - spun_ratio).max(0.0));
        Self { usage, starved_ratio, busiest_ratio, share: after.share_since(before), client }
    }
}

/// The outages of the measured phase that [`outages`] leaves out.
fn unlisted_outages(engine: &Engine) -> UnlistedOutages {
    let of_each = engine.outages.iter().map(OutageLog::unlisted);
    of_each.fold(UnlistedOutages::default(), |all, of_host| UnlistedOutages {
        count: all.count + of_host.count,
        for_s: all.for_s + of_host.for_ns as f64 / 1e9,
    })
}

/// The listed outages that touch the measured phase, oldest first.
fn outages(engine: &Engine, until_ns: u64, scratch: &mut Scratch) -> Vec<Outage> {
    let timeline = engine.timeline();
    let from_ns = timeline.measured_from_ns;
    let are_several = engine.hosts.are_several();
    let mut outages = Vec::new();
    for (number, log) in engine.outages.iter().enumerate() {
        let spans = log.spans().into_iter().map(|span| (span.until_ns(until_ns), span));
        let touching = spans
            .filter(|(end_ns, span)| span.from_ns < until_ns && end_ns.is_none_or(|end_ns| end_ns > from_ns));
        outages.extend(touching.map(|(ended_ns, span)| {
            let end_ns = ended_ns.unwrap_or(until_ns);
            let due_before = timeline.measured_due_before(span.from_ns, scratch);
            let due_until = timeline.measured_due_before(end_ns.min(until_ns), scratch);
            Outage {
                from_s: (span.from_ns as f64 - from_ns as f64) / 1e9,
                for_s: seconds(span.from_ns, end_ns),
                // Other events that fall due while one of several hosts is away are done on the others.
                affected: if are_several {
                    span.hit_from(from_ns)
                } else {
                    due_until - due_before + span.hit_before(from_ns)
                },
                ended: ended_ns.is_some(),
                host: are_several.then_some(number),
            }
        }));
    }
    outages.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    outages
}

pub(super) fn closed_loop() -> Missing {
    Missing::because("a closed loop has no intended start")
}

pub(super) fn seconds(from_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(from_ns) as f64 / 1e9
}
