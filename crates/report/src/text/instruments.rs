//! The instruments other than the CPU's at a terminal: one line each, over all intervals. A page has the
//! details.

use std::collections::BTreeMap;
use std::io::{self, Write};

use record::block_io::{IoBy, IoGroup, IoInterval, fold};
use record::instruments::{Instruments, Observed};
use record::locks::{LockInterval, UserLockInterval, Waits};
use record::missing::{Maybe, Missing};
use record::nic::NicInterval;
use record::profile::ProfileKind;

use super::{Style, labelled, run_title};
use crate::flame::shortened;
use crate::number::{count, latency, percent, significant_4};
use crate::words::counted;

const INDENT: usize = 11;
const KIB: f64 = 1024.0;
/// Longest name of a function, in letters.
const NAME_LETTERS_MAX: usize = 80;

/// Writes a line for each instrument that was attached or requested; nothing if there was none.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn instruments(out: &mut dyn Write, seen: &Instruments, style: Style) -> io::Result<()> {
    if seen.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let lines: [(&str, Option<String>); 4] = [
        line(seen, block_io),
        line(seen, network),
        line(seen, |all| LockInterval::joined(all).map(|whole| kernel_locks(&whole))),
        line(seen, |all| UserLockInterval::joined(all).map(|whole| program_locks(&whole.idleness_last()))),
    ];
    let profiles = ProfileKind::ALL.iter().map(|kind| (kind.instrument(), profile(seen, *kind)));
    for (name, line) in lines.into_iter().chain(profiles) {
        let why = seen.missing.get(name).map(|missing| format!("missing ({missing})"));
        for text in line.into_iter().chain(why) {
            labelled(out, (name, None), &text, INDENT, style)?;
        }
    }
    Ok(())
}

/// The name of an instrument, with its line if it has intervals.
fn line<T: Observed>(
    seen: &Instruments,
    write: fn(&[T]) -> Option<String>,
) -> (&'static str, Option<String>) {
    (T::NAME, write(T::of(seen)))
}

fn block_io(intervals: &[IoInterval]) -> Option<String> {
    let (first, last) = (intervals.first()?, intervals.last()?);
    let seconds = (last.until_ns - first.from_ns) as f64 * 1e-9;
    let by = IoBy { op: true, ..IoBy::default() };
    let groups = fold(intervals.iter().flat_map(|i| i.groups.clone()), by);
    let lost: u64 = intervals.iter().flat_map(|i| i.lost.values()).sum();
    let bound = if lost > 0 { ">=" } else { "" };
    let group = |g: &IoGroup| {
        let op = g.op.map_or("request", record::block_io::IoOp::word);
        let kib_per_s = significant_4(g.bytes as f64 / KIB / seconds);
        let at = |q: f64| g.from_start.quantile_ns(q).map_or("-".to_owned(), latency);
        format!(
            "{op} {bound}{} ({bound}{kib_per_s} KiB/s, p50 {}, p99 {})",
            count(g.count),
            at(0.5),
            at(0.99)
        )
    };
    let all: Vec<String> = groups.iter().map(group).collect();
    let text = if all.is_empty() { "no request to a block device".to_owned() } else { all.join("; ") };
    Some(with_lost(text, lost, "requests"))
}

/// Sums of an interface over the intervals that have its counts.
#[derive(Default)]
struct Link<'a> {
    name: &'a str,
    rx_bytes: u64,
    tx_bytes: u64,
    saturation: u64,
    seconds: f64,
    intervals: usize,
}

fn network(intervals: &[NicInterval]) -> Option<String> {
    intervals.first()?;
    // In order of appearance.
    let mut links: BTreeMap<u32, Link> = BTreeMap::new();
    for interval in intervals {
        for sample in interval.interfaces.iter().flatten() {
            let Ok(counts) = &sample.counts else { continue };
            let link = links.entry(sample.index).or_default();
            link.name = &sample.name;
            link.rx_bytes += counts.rx_bytes;
            link.tx_bytes += counts.tx_bytes;
            link.saturation += counts.saturation();
            link.seconds += interval.seconds();
            link.intervals += 1;
        }
    }
    links.retain(|_, link| link.rx_bytes + link.tx_bytes + link.saturation > 0);
    let line = |link: &Link| {
        let per_s = |bytes: u64| significant_4(bytes as f64 / KIB / link.seconds);
        let (is_whole, all) = (link.intervals == intervals.len(), intervals.len());
        let bound = if is_whole { "" } else { ">=" };
        let full = match link.saturation {
            0 => String::new(),
            times => format!(", saturated {bound}{} times", count(times)),
        };
        let gap = match all - link.intervals {
            0 => String::new(),
            gap => format!(" (not counted in {gap} of {all} intervals)"),
        };
        let (rx, tx) = (per_s(link.rx_bytes), per_s(link.tx_bytes));
        format!("{} in {rx} KiB/s, out {tx} KiB/s{full}{gap}", link.name)
    };
    let all: Vec<String> = links.values().map(line).collect();
    Some(match (all.is_empty(), uncounted(intervals)) {
        (false, _) => all.join("; "),
        (true, None) => "no interface carried or dropped a packet".to_owned(),
        (true, Some(missing)) => format!("not counted ({missing})"),
    })
}

/// The reason that no interval has the counts of any interface; `None` if one has.
pub(crate) fn uncounted(intervals: &[NicInterval]) -> Option<&Missing> {
    let mut why = None;
    for interval in intervals {
        match &interval.interfaces {
            Err(missing) => why = why.or(Some(missing)),
            Ok(samples) if samples.iter().any(|s| s.counts.is_ok()) => return None,
            Ok(samples) => why = why.or(samples.iter().find_map(|s| s.counts.as_ref().err())),
        }
    }
    why
}

fn kernel_locks(whole: &LockInterval) -> String {
    let (all, spun_ns) = whole.total();
    let most = whole.locks.iter().find(|l| l.address != 0);
    let most = most.map(|l| format!("{} in {}", l.kind.word(), name(&l.caller)));
    waited(&all, Some(whole.cpu_util_ratio(spun_ns)), most, &whole.lost)
}

fn program_locks(whole: &UserLockInterval) -> String {
    let (all, spun_ns) = whole.total();
    let most = whole.locks.iter().find(|l| l.address != 0);
    let most = most.map(|l| format!("{} of {}/{} in {}", l.kind.word(), l.comm, l.pid, name(&l.caller)));
    waited(&all, spun_ns.ok().map(|ns| whole.cpu_util_ratio(ns)), most, &whole.lost)
}

/// The profile of a kind: its subject, and the function with the most time.
fn profile(seen: &Instruments, kind: ProfileKind) -> Option<String> {
    let taken = seen.profiles.iter().find(|taken| taken.profile.kind == kind)?;
    let total_ns = taken.profile.total_ns().max(1) as f64;
    let most = taken.profile.functions().into_iter().next().map_or(String::new(), |function| {
        let share = percent(function.self_ns as f64 / total_ns);
        format!("; most in {} ({share})", shortened(&function.name, NAME_LETTERS_MAX))
    });
    let lost: u64 = taken.profile.lost.values().sum();
    Some(with_lost(format!("{}{most}", run_title(taken)), lost, "of them"))
}

fn waited(all: &Waits, util: Option<f64>, most: Option<String>, lost: &BTreeMap<String, u64>) -> String {
    let lost: u64 = lost.values().sum();
    let bound = if lost > 0 { ">=" } else { "" };
    let util = util.map_or(String::new(), |ratio| format!(", CPU-util {bound}{}", percent(ratio)));
    let most = most.map_or(String::new(), |most| format!("; most by {most}"));
    let time = latency(all.ns_total as f64);
    with_lost(format!("{bound}{}, {bound}{time}{util}{most}", counted(all.count, "wait")), lost, "waits")
}

fn with_lost(text: String, lost: u64, what: &str) -> String {
    if lost > 0 { format!("{text}; LOST {} {what}", count(lost)) } else { text }
}

fn name(name: &Maybe<String>) -> &str {
    name.as_deref().unwrap_or("an unknown function")
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::block_io::{IoCounts, IoEvents, IoOp};
    use record::locks::{LockKind, LockSample};

    #[test]
    fn every_instrument_has_its_line_and_what_is_missing_says_why() {
        let group = IoGroup { op: Some(IoOp::Read), count: 300, bytes: 300 * 4096, ..IoGroup::default() };
        let io = IoInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            missed_deadline: false,
            events: IoEvents::StartToDone,
            counts: IoCounts { reads: 300, ..IoCounts::default() },
            groups: vec![group],
            in_flight: 0,
            unmatched: Ok(0),
            merged: Ok(0),
            lost: [("no-end".to_owned(), 2)].into(),
        };
        let lock = LockSample {
            cgroup: None,
            kind: LockKind::Mutex,
            address: 1,
            name: Err(Missing::because("it was allocated")),
            caller: Ok("pipe_write".into()),
            stack: Vec::new(),
            waits: Waits { count: 12, ns_total: 40_000_000, ns_max: 4_000_000, histogram: BTreeMap::new() },
            spin_ns_total: 20_000_000,
        };
        let locks = LockInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            cpus: 2,
            missed_deadline: false,
            locks: vec![lock],
            lost: BTreeMap::new(),
        };
        let seen = Instruments {
            io: vec![io.clone(), IoInterval { from_ns: 1_000_000_000, until_ns: 2_000_000_000, ..io }],
            locks: vec![locks],
            missing: [("ulocks".to_owned(), Missing::because("run it with sudo"))].into(),
            ..Instruments::default()
        };
        let mut out = Vec::new();
        instruments(&mut out, &seen, Style::PIPE).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
        let mut out = Vec::new();
        instruments(&mut out, &Instruments::default(), Style::PIPE).unwrap();
        assert!(out.is_empty());
    }
}
