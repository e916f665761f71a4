//! The record of the whole, from what the agents kept: counts and buckets are added, nothing is averaged.

mod lost;
pub(crate) mod part;
mod sum;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use archive::documents;
use record::agents::OfAgent;
use record::histogram::CompactHistogram;
use record::load::LoadRecord;
use record::missing::{Maybe, Missing};
use record::series::{HistogramSlice, LatencyKind};
use record::verdict::{Validity, Verdict};

use self::part::{Part, Totals};
use self::verdict::Findings;
use crate::error::FleetError;
use crate::meant::Meant;
use crate::received::slices_planned;
use crate::wire::{Dealt, Line};

/// Merges the parts; hands over the distributions of each interval, in order.
///
/// # Errors
///
/// Nothing was measured, or a file with received intervals cannot be read.
pub(crate) fn whole(
    (meant, dealt): (&Meant, &Dealt),
    parts: &[Part<'_>],
    measured_from_ns: u64,
    is_stopped: bool,
    closed: &mut dyn FnMut(Vec<HistogramSlice>),
) -> Result<LoadRecord, FleetError> {
    let of_file = |source| FleetError::File { path: "the intervals of an agent".into(), source };
    let totals = intervals(parts, closed).map_err(of_file)?;
    let (records, disagrees) = records(parts, &totals);
    if records.iter().all(Option::is_none) && totals.iter().all(BTreeMap::is_empty) {
        return Err(nothing(parts, is_stopped));
    }
    let measured = phase(meant, &records, is_stopped);
    let expected = expected(meant, parts);
    let mut of_agents = Vec::new();
    let (mut all, mut early) = (Vec::new(), Vec::new());
    for ((part, record), totals) in parts.iter().zip(records).zip(&totals) {
        let is_known = record.is_some();
        let record = match record {
            None => lost::record((meant, dealt), part, totals, measured),
            Some(record) if record.verdict.state == Validity::Interrupted => {
                if !is_stopped {
                    early.push((part.agent.clone(), record.measured.as_secs_f64()));
                }
                let until = if is_stopped { measured } else { meant.settings.time };
                lost::with_the_rest((meant, dealt), part, record, until)
            }
            Some(record) => record,
        };
        of_agents.push(OfAgent {
            agent: part.agent.clone(),
            host: part.host.clone(),
            weight: dealt.weight(part.index),
            counts: record.counts,
            clock: part.clock.ok_or_else(|| Missing::because("it did not answer before and after the load")),
            start_skew_ns: start_skew_ns(part, &record),
            slices: part.received.count(),
            missing_slices: part
                .received
                .missing(part.received.end.as_ref().map_or(expected, |end| end.slices)),
            lost_at_s: part.lost_at_s,
        });
        all.push((part.agent.clone(), is_known, record));
    }
    let findings = Findings {
        interval: meant.settings.interval,
        on_loss: dealt.on_loss(),
        is_planned: meant.settings.pace.as_open().is_some() || meant.settings.events_max.is_some(),
        agents: &of_agents,
        failed: parts.iter().filter_map(|part| Some((part.agent.clone(), part.failed.clone()?))).collect(),
        silent: all.iter().filter(|(_, is_known, _)| !is_known).map(|(agent, ..)| agent.clone()).collect(),
        damaged: parts.iter().filter(|p| p.received.is_damaged()).map(|p| p.agent.clone()).collect(),
        disagrees,
        early,
        is_stopped,
    };
    let verdicts: Vec<(String, Verdict)> =
        all.iter().map(|(agent, _, record)| (agent.clone(), record.verdict.clone())).collect();
    let records: Vec<LoadRecord> = all.into_iter().map(|(.., record)| record).collect();
    let whole = sum::sum(&meant.settings, &records, measured_from_ns, measured);
    let verdict = verdict::of(&findings, &whole.hosts, sum::late(&whole), &verdicts);
    Ok(LoadRecord { agents: of_agents, verdict, ..whole })
}

/// The record of each agent that gave an account, and the agents with another account than their intervals.
fn records(parts: &[Part<'_>], totals: &[Totals]) -> (Vec<Option<LoadRecord>>, Vec<String>) {
    let mut disagrees = Vec::new();
    let of_part = |(part, totals): (&Part<'_>, &Totals)| {
        let end = part.received.end.as_ref()?;
        let record = documents::load(end.load.clone()).ok()?;
        if part.received.is_complete() && !agrees(&record, totals) {
            disagrees.push(part.agent.clone());
        }
        Some(record)
    };
    (parts.iter().zip(totals).map(of_part).collect(), disagrees)
}

/// The reason for which nothing was measured.
fn nothing(parts: &[Part<'_>], is_stopped: bool) -> FleetError {
    let failed = parts.iter().find_map(|part| Some((part.agent.clone(), part.failed.clone()?)));
    match failed {
        _ if is_stopped => FleetError::Interrupted,
        Some((agent, text)) => FleetError::Agent { agent, text },
        None => FleetError::Absent {
            agent: parts.iter().map(|part| part.agent.as_str()).collect::<Vec<_>>().join(", "),
            text: "lost before anything was measured".to_owned(),
        },
    }
}

/// Length of the measured phase: as planned, unless the load was stopped or a number of events ended it.
fn phase(meant: &Meant, records: &[Option<LoadRecord>], is_stopped: bool) -> Duration {
    let longest = records.iter().flatten().map(|record| record.measured).max();
    let may_be_short = is_stopped || meant.settings.events_max.is_some();
    longest.filter(|_| may_be_short).unwrap_or(meant.settings.time)
}

/// Lines that each agent has, if its account says nothing: as many as another's, or as the settings plan.
fn expected(meant: &Meant, parts: &[Part<'_>]) -> u64 {
    let known = parts.iter().filter_map(|part| part.received.end.as_ref()).map(|end| end.slices).max();
    known.unwrap_or_else(|| slices_planned(&meant.settings))
}

/// Plays the lines of all agents interval by interval; returns the sums of each agent.
fn intervals(
    parts: &[Part<'_>],
    closed: &mut dyn FnMut(Vec<HistogramSlice>),
) -> std::io::Result<Vec<Totals>> {
    let mut readers = Vec::new();
    for part in parts {
        readers.push(part.received.read()?.peekable());
    }
    let mut totals: Vec<Totals> = parts.iter().map(|_| Totals::new()).collect();
    loop {
        // The lowest number that any agent has next.
        let mut next: Option<u64> = None;
        for reader in &mut readers {
            match reader.peek() {
                Some(Ok(line)) => next = Some(next.map_or(line.seq, |next| next.min(line.seq))),
                Some(Err(_)) => return Err(reader.next().and_then(Result::err).expect("it was peeked at")),
                None => {}
            }
        }
        let Some(seq) = next else { return Ok(totals) };
        let mut interval = Totals::new();
        let (mut from_ns, mut for_ns) = (u64::MAX, 0);
        for (reader, totals) in readers.iter_mut().zip(&mut totals) {
            let line = reader.next_if(|line| line.as_ref().is_ok_and(|line| line.seq == seq));
            let Some(line) = line.transpose()? else { continue };
            (from_ns, for_ns) = (from_ns.min(line.from_ns), for_ns.max(line.for_ns));
            add(&line, &mut interval, totals)?;
        }
        let slices: Vec<HistogramSlice> = interval
            .into_iter()
            .map(|((kind, operation), buckets)| HistogramSlice {
                from_ns,
                for_ns,
                operation,
                kind,
                histogram: CompactHistogram::of_buckets(buckets),
            })
            .collect();
        closed(slices);
    }
}

/// Largest count of a bucket over a load: sums over all buckets and agents fit their type.
const BUCKET_MAX: u64 = 1 << 40;

fn too_many() -> std::io::Error {
    std::io::Error::other("an agent counts more events than a load can have")
}

fn add(line: &Line, interval: &mut Totals, totals: &mut Totals) -> std::io::Result<()> {
    for slice in &line.slices {
        let slice = slice.read(line.from_ns, line.for_ns).map_err(std::io::Error::other)?;
        let key = (slice.kind, slice.operation);
        let of_interval = interval.entry(key.clone()).or_default();
        let of_agent = totals.entry(key).or_default();
        for (lowest_ns, count) in slice.histogram.buckets() {
            for sums in [&mut *of_interval, &mut *of_agent] {
                let sum = sums.entry(lowest_ns).or_default();
                *sum = sum.checked_add(count).filter(|sum| *sum <= BUCKET_MAX).ok_or_else(too_many)?;
            }
        }
    }
    Ok(())
}

/// Whether an agent's record has the sums of its intervals, bucket for bucket.
fn agrees(record: &LoadRecord, totals: &Totals) -> bool {
    let empty = BTreeMap::new();
    let is = |kind: LatencyKind, operation: &str, found: &record::histogram::Histogram| {
        let expected = totals.get(&(kind, operation.to_owned())).unwrap_or(&empty);
        found.buckets().eq(expected.iter().map(|(lowest, count)| (*lowest, *count)))
    };
    let response = record.response.as_ref().ok();
    response.is_none_or(|response| is(LatencyKind::Response, "", &response.known))
        && is(LatencyKind::Service, "", &record.service.known)
        && record.wait.as_ref().ok().is_none_or(|wait| is(LatencyKind::Wait, "", &wait.known))
        && record.lateness.as_ref().ok().is_none_or(|lateness| is(LatencyKind::Lateness, "", lateness))
        && is(LatencyKind::Failure, "", &record.failure)
        && record
            .operations
            .iter()
            .all(|(name, operation)| is(LatencyKind::Service, name, &operation.service.known))
}

fn start_skew_ns(part: &Part<'_>, record: &LoadRecord) -> Maybe<i64> {
    let first = part.received.end.as_ref().and_then(|end| end.first);
    let first = first.ok_or_else(|| Missing::because("none of its events is known"))?;
    let due_ns = if record.response.is_ok() { first.due_ns } else { part.start_ns };
    let skew_ns = i128::from(first.start_ns) - i128::from(due_ns);
    i64::try_from(skew_ns).map_err(|_| Missing::because("its first event has an impossible time"))
}
