//! The record of the whole, from what the agents kept: counts and buckets are added, nothing is averaged.

mod lost;
pub(crate) mod part;
mod sum;
mod verdict;

use std::collections::BTreeMap;
use std::io;
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
use crate::received::{TIME_NS_MAX, damage, slices_planned};
use crate::wire::{Dealt, Line};

/// Merges the parts; hands over the distributions of each interval, in order.
///
/// # Errors
///
/// Nothing was measured, or this machine cannot read a file with received intervals.
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

/// An interval of one agent.
struct Interval {
    seq: u64,
    from_ns: u64,
    for_ns: u64,
    totals: Totals,
}

/// Plays the lines of all agents interval by interval; returns the sums of each agent.
///
/// A line that no load has ends the lines of its agent, which is damaged from then on. The others go on.
pub(crate) fn intervals(
    parts: &[Part<'_>],
    closed: &mut dyn FnMut(Vec<HistogramSlice>),
) -> io::Result<Vec<Totals>> {
    let mut totals: Vec<Totals> = parts.iter().map(|_| Totals::new()).collect();
    let (mut readers, mut waiting) = (Vec::new(), Vec::new());
    for (part, totals) in parts.iter().zip(&mut totals) {
        let mut lines = part.received.read()?;
        waiting.push(next_of(part, &mut lines, totals)?);
        readers.push(lines);
    }
    while let Some(seq) = waiting.iter().flatten().map(|interval| interval.seq).min() {
        let mut sums = Totals::new();
        let (mut from_ns, mut for_ns) = (u64::MAX, 0);
        for (index, slot) in waiting.iter_mut().enumerate() {
            let Some(interval) = slot.take_if(|interval| interval.seq == seq) else { continue };
            (from_ns, for_ns) = (from_ns.min(interval.from_ns), for_ns.max(interval.for_ns));
            add(&mut sums, interval.totals);
            *slot = next_of(&parts[index], &mut readers[index], &mut totals[index])?;
        }
        let slices = sums.into_iter().map(|((kind, operation), buckets)| HistogramSlice {
            from_ns,
            for_ns,
            operation,
            kind,
            histogram: CompactHistogram::of_buckets(buckets),
        });
        closed(slices.collect());
    }
    Ok(totals)
}

/// The next interval of an agent, which is added to its sums; `None` at the end, and at damage.
fn next_of(
    part: &Part<'_>,
    lines: &mut impl Iterator<Item = io::Result<Line>>,
    totals: &mut Totals,
) -> io::Result<Option<Interval>> {
    let Some(line) = lines.next() else { return Ok(None) };
    let read = line.and_then(|line| {
        let interval = buckets(&line, totals)?;
        add(totals, interval.clone());
        Ok(Interval { seq: line.seq, from_ns: line.from_ns, for_ns: line.for_ns, totals: interval })
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            part.received.mark_unreadable();
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Largest count of a bucket over a load: sums over all buckets and agents fit their type.
const BUCKET_MAX: u64 = 1 << 40;
/// Most distributions of an agent, of which each has a kind and an operation.
const DISTRIBUTIONS_MAX: usize = 1_000;
/// Longest name of an operation.
const OPERATION_BYTES_MAX: usize = 1 << 10;

/// The distributions of an interval.
///
/// - `before`: the sums of the agent's earlier intervals.
fn buckets(line: &Line, before: &Totals) -> io::Result<Totals> {
    if line.slices.len() > DISTRIBUTIONS_MAX {
        return Err(damage("no load has as many distributions"));
    }
    let mut interval = Totals::new();
    for slice in &line.slices {
        let slice = slice.read(line.from_ns, line.for_ns).map_err(|error| damage(error.to_string()))?;
        if slice.operation.len() > OPERATION_BYTES_MAX {
            return Err(damage("no load has an operation with this name"));
        }
        let key = (slice.kind, slice.operation);
        let earlier = before.get(&key);
        let sums = interval.entry(key).or_default();
        for (lowest_ns, count) in slice.histogram.buckets() {
            let earlier = earlier.and_then(|sums| sums.get(&lowest_ns)).copied().unwrap_or(0);
            let sum: &mut u64 = sums.entry(lowest_ns).or_default();
            *sum = sum.saturating_add(count);
            if lowest_ns > TIME_NS_MAX || sum.saturating_add(earlier) > BUCKET_MAX {
                return Err(damage("no load has these events"));
            }
        }
    }
    let new = interval.keys().filter(|key| !before.contains_key(*key)).count();
    if before.len() + new > DISTRIBUTIONS_MAX {
        return Err(damage("no load has as many distributions"));
    }
    Ok(interval)
}

fn add(sums: &mut Totals, interval: Totals) {
    for (key, buckets) in interval {
        let sums = sums.entry(key).or_default();
        for (lowest_ns, count) in buckets {
            *sums.entry(lowest_ns).or_default() += count;
        }
    }
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

#[cfg(test)]
mod tests {
    use archive::documents::SliceForm;

    use super::*;
    use crate::received::Received;
    use crate::wire;

    /// Line `seq` with `count` events.
    fn line(seq: u64, operation: &str, ns: u64, count: u64) -> Vec<u8> {
        let slice = SliceForm::of(&HistogramSlice {
            from_ns: seq * 10,
            for_ns: 10,
            operation: operation.to_owned(),
            kind: LatencyKind::Service,
            histogram: [(ns, count)].into_iter().collect(),
        });
        wire::bytes(&Line { seq, from_ns: seq * 10, for_ns: 10, slices: vec![slice], shown: None })
    }

    fn received(lines: &[Vec<u8>]) -> Received {
        let mut received = Received::new(64).unwrap();
        received.take_bytes(&[lines, &[Vec::new()]].concat().join(&b'\n')).unwrap();
        received
    }

    /// The sums of the agents, and the events of each interval.
    fn merged(agents: &[Received]) -> (Vec<u64>, Vec<u64>) {
        let part = |(index, received)| Part {
            index,
            agent: format!("a{index}"),
            host: "here".to_owned(),
            received,
            clock: None,
            start_ns: 0,
            lost_at_s: None,
            failed: None,
        };
        let parts: Vec<Part<'_>> = (0..).zip(agents).map(part).collect();
        let mut events = Vec::new();
        let mut closed = |slices: Vec<HistogramSlice>| {
            events.push(
                slices.iter().map(|slice| slice.histogram.buckets().map(|(_, n)| n).sum::<u64>()).sum(),
            );
        };
        let totals = intervals(&parts, &mut closed).unwrap();
        let sum = |totals: &Totals| totals.values().flat_map(BTreeMap::values).sum::<u64>();
        (totals.iter().map(sum).collect(), events)
    }

    #[test]
    fn a_damaged_interval_ends_the_lines_of_its_agent_and_of_no_other() {
        let good: Vec<Vec<u8>> = (0..3).map(|seq| line(seq, "", 1_000, 7)).collect();
        let long = "x".repeat(OPERATION_BYTES_MAX + 1);
        let bad = String::from_utf8(line(1, "", 1_000, 7)).unwrap().replace("\"hdr\":\"", "\"hdr\":\"!");
        for damaged in [
            b"{".to_vec(),
            b"garbage".to_vec(),
            bad.into_bytes(),
            line(2, "", 1_000, 7),
            line(u64::MAX / 10, "", 1_000, 7),
            line(1, "", 1_000, BUCKET_MAX),
            line(1, &long, 1_000, 7),
        ] {
            let text = String::from_utf8_lossy(&damaged).into_owned();
            let other = received(&[good[0].clone(), damaged, good[2].clone()]);
            let agents = [received(&good), other];
            let (sums, events) = merged(&agents);
            assert_eq!((sums, events), (vec![21, 7], vec![14, 7, 7]), "{text}");
            assert_eq!((agents[0].is_damaged(), agents[1].is_damaged()), (false, true), "{text}");
        }
        assert_eq!(merged(&[received(&good), received(&good)]), (vec![21, 21], vec![14, 14, 14]));
    }

    #[test]
    fn distributions_without_end_are_damage() {
        let lines: Vec<Vec<u8>> = (0..40)
            .map(|seq| {
                let names = (0..50).map(|n| format!("{seq}-{n}"));
                let slices = names.map(|operation| {
                    SliceForm::of(&HistogramSlice {
                        from_ns: 0,
                        for_ns: 1,
                        operation,
                        kind: LatencyKind::Service,
                        histogram: [(1, 1)].into_iter().collect(),
                    })
                });
                wire::bytes(&Line { seq, from_ns: 0, for_ns: 1, slices: slices.collect(), shown: None })
            })
            .collect();
        let agents = [received(&lines)];
        assert_eq!(merged(&agents).0, [DISTRIBUTIONS_MAX as u64]);
        assert!(agents[0].is_damaged());
    }
}
