//! The block devices at a terminal, an interval at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use record::block_io::{Inode, IoGroup, IoInterval, Latencies, Powers};

use super::table::{Align, Table};
use super::tasks::cgroup_name;
use super::{Style, Tint, paragraph};
use crate::number::{count, latency, percent_digits, significant_4};

/// The distributions that can be shown below the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoHistogram {
    /// Bytes of each request.
    Size,
    /// Latency from the start of a request to its end.
    Latency,
    /// Latency from the issue to the driver to the end.
    IssueLatency,
    /// Position of the request on the device.
    Address,
    /// Distance from the previous request.
    Seek,
}

/// Parts of an interval to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoView {
    /// The distributions to show of each group.
    pub histograms: Vec<IoHistogram>,
    /// Number of groups; one more row sums the rest.
    pub top: usize,
}

/// Writes one interval: rates of all devices, a row for each group, then the requested distributions.
///
/// - `start_ns`: start of the first interval; printed times count from it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn io_interval(
    out: &mut dyn Write,
    interval: &IoInterval,
    start_ns: u64,
    view: &IoView,
    style: Style,
) -> io::Result<()> {
    let until_s = interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let missed = if interval.missed_deadline { ", deadline missed" } else { "" };
    let at_least = if interval.lost.is_empty() { "" } else { ">=" };
    let c = interval.counts;
    let per_s = |n: u64| format!("{at_least}{}/s", significant_4(n as f64 / interval.seconds()));
    let mut title = format!(
        "{until_s:.1} s, over {:.3} s{missed}: reads {}, writes {}, async {}, flushes {}, discards {}",
        interval.seconds(),
        per_s(c.reads),
        per_s(c.writes),
        per_s(c.asynchronous),
        per_s(c.flushes),
        per_s(c.discards)
    );
    if c.others > 0 {
        title.push_str(", other ");
        title.push_str(&per_s(c.others));
    }
    paragraph(out, &title, 2, style)?;
    if !interval.groups.is_empty() {
        table(interval, at_least, view.top).write(out, style)?;
    }
    let in_flight = Ok(interval.in_flight);
    let counted = [
        (&in_flight, "under way"),
        (&interval.merged, "merged"),
        (&interval.unmatched, "ended without a start that we saw"),
    ];
    let mut notes: Vec<String> = counted
        .iter()
        .filter_map(|(n, what)| n.as_ref().ok().filter(|n| **n > 0).map(|n| format!("{} {what}", count(*n))))
        .collect();
    // If a filter selects some requests, merges are unknown; this is printed once per interval.
    if let Err(missing) = &interval.merged {
        notes.push(format!("merged unknown ({missing})"));
    }
    notes.extend(interval.lost.iter().map(|(why, n)| format!("LOST {} ({why})", count(*n))));
    if !notes.is_empty() {
        paragraph(out, &notes.join(", "), 2, style)?;
    }
    let shared = shared_names(&interval.groups);
    for group in interval.groups.iter().take(view.top) {
        for histogram in &view.histograms {
            distribution(out, group, &shared, *histogram, style)?;
        }
    }
    Ok(())
}

/// A key of groups: its head, its alignment, and its value.
type Key = (&'static str, Align, fn(&IoGroup, &BTreeSet<String>) -> Option<String>);

/// Names that several files share.
fn shared_names(groups: &[IoGroup]) -> BTreeSet<String> {
    let mut inodes: BTreeMap<&String, BTreeSet<&Inode>> = BTreeMap::new();
    for (file, inode) in groups.iter().filter_map(|g| Some((g.file.as_ref()?, g.inode.as_ref()?))) {
        inodes.entry(file).or_default().insert(inode);
    }
    inodes.into_iter().filter(|(_, inodes)| inodes.len() > 1).map(|(file, _)| file.clone()).collect()
}

/// The file's name, with its inode if another file has the same name.
fn file(g: &IoGroup, shared: &BTreeSet<String>) -> Option<String> {
    let name = g.file.clone()?;
    Some(match &g.inode {
        Some(inode) if shared.contains(&name) => {
            format!("{name} (inode {} on {})", inode.number, inode.device)
        }
        _ => name,
    })
}

fn table(interval: &IoInterval, at_least: &str, top: usize) -> Table {
    let groups = &interval.groups;
    let has = |of: fn(&IoGroup) -> bool| groups.iter().any(of);
    let mut table = Table::default();
    let keys: [Key; 5] = [
        ("device", Align::Left, |g, _| g.device.clone()),
        ("comm", Align::Left, |g, _| g.comm.clone()),
        ("control group", Align::Elastic, |g, _| g.cgroup.as_deref().map(cgroup_name)),
        ("file", Align::Elastic, file),
        ("op", Align::Left, |g, _| g.op.map(|op| op.word().to_owned())),
    ];
    let shared = shared_names(groups);
    let is_set = |(_, _, of): &Key| groups.iter().any(|g| of(g, &shared).is_some());
    let keys: Vec<Key> = keys.into_iter().filter(is_set).collect();
    for (head, align, _) in &keys {
        table = table.column(*head, *align, 0);
    }
    let has_errors = has(|g| g.errors > 0);
    table = table
        .column("req/s", Align::Right, 0)
        .column("KiB/s", Align::Right, 2)
        .column("KiB each", Align::Right, 6)
        .column("p50", Align::Right, 3)
        .column("p90", Align::Right, 5)
        .column("p99", Align::Right, 0)
        .column("max", Align::Right, 1)
        .column("issue p50", Align::Right, 7)
        .column("issue p99", Align::Right, 4)
        .column("seq %", Align::Right, 8);
    if has_errors {
        table = table.column("errors", Align::Right, 0);
    }
    let seconds = interval.seconds();
    let mut add = |g: &IoGroup, keys: Vec<String>| {
        let mut row: Vec<(String, Option<Tint>)> = keys.into_iter().map(|key| (key, None)).collect();
        row.extend(figures(g, at_least, seconds).map(|cell| (cell, None)));
        row.extend(has_errors.then(|| (count(g.errors), (g.errors > 0).then_some(Tint::Bad))));
        table.row(row);
    };
    for g in groups.iter().take(top) {
        add(g, keys.iter().map(|(_, _, of)| of(g, &shared).unwrap_or_default()).collect());
    }
    let rest = groups.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let mut all = IoGroup::default();
        for g in rest {
            all.add(g);
        }
        // The first key has room for the number of further groups.
        let mut names = vec![format!("({} more)", rest.len())];
        names.resize(keys.len(), String::new());
        add(&all, names);
    }
    table
}

/// The figures of a row.
fn figures(g: &IoGroup, at_least: &str, seconds: f64) -> [String; 10] {
    let at = |l: &Latencies, q: f64| l.quantile_ns(q).map_or("-".to_owned(), latency);
    let max =
        if g.from_start.buckets.is_empty() { "-".to_owned() } else { latency(g.from_start.max_ns as f64) };
    [
        format!("{at_least}{}", significant_4(g.count as f64 / seconds)),
        format!("{at_least}{}", significant_4(g.bytes as f64 / 1024.0 / seconds)),
        significant_4(g.bytes as f64 / 1024.0 / g.count.max(1) as f64),
        at(&g.from_start, 0.5),
        at(&g.from_start, 0.9),
        at(&g.from_start, 0.99),
        max,
        at(&g.from_issue, 0.5),
        at(&g.from_issue, 0.99),
        g.seeks.sequential_ratio().map_or("-".to_owned(), percent_digits),
    ]
}

/// A distribution by powers of two, in bars.
fn distribution(
    out: &mut dyn Write,
    group: &IoGroup,
    shared: &BTreeSet<String>,
    histogram: IoHistogram,
    style: Style,
) -> io::Result<()> {
    let (what, values, label) = match histogram {
        IoHistogram::Size => ("size in bytes", rising(&group.sizes), size as fn(i128) -> String),
        IoHistogram::Latency => ("latency from the start", by_powers(&group.from_start), time as _),
        IoHistogram::IssueLatency => ("latency from the issue", by_powers(&group.from_issue), time as _),
        IoHistogram::Address => {
            ("address in sectors of 512 bytes", rising(&group.addresses), count_signed as _)
        }
        IoHistogram::Seek => {
            let back = group.seeks.back.iter().rev().map(|(bound, n)| (-i128::from(*bound), *n));
            let all = back.chain(rising(&group.seeks.ahead)).collect();
            ("seek distance in sectors of 512 bytes", all, count_signed as _)
        }
    };
    let Some(most) = values.iter().map(|(_, n)| *n).max() else { return Ok(()) };
    let keys = [
        group.device.clone(),
        group.comm.clone(),
        group.cgroup.clone(),
        file(group, shared),
        group.op.map(|op| op.word().to_owned()),
    ];
    let name: Vec<String> = keys.into_iter().flatten().collect();
    paragraph(out, format!("{} {what}", name.join(" ")).trim(), 2, style)?;
    // A label, a bar and a count, separated by blanks or a line.
    let bar_width = style.width.saturating_sub(10 + 2 + 1 + 12).clamp(8, 40);
    for (bound, n) in values {
        let length = (n as f64 / most as f64 * bar_width as f64).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 40")]
        let bar = "@".repeat(length as usize);
        writeln!(out, "{:>10} |{bar:<bar_width$} {}", label(bound), count(n))?;
    }
    Ok(())
}

fn rising(powers: &Powers) -> Vec<(i128, u64)> {
    powers.iter().map(|(bound, n)| (i128::from(*bound), *n)).collect()
}

/// Latencies by powers of two, summed from the finer buckets.
fn by_powers(l: &Latencies) -> Vec<(i128, u64)> {
    let mut powers = Powers::new();
    for b in &l.buckets {
        let bound = if b.from_ns == 0 { 0 } else { 1 << b.from_ns.ilog2() };
        *powers.entry(bound).or_default() += b.count;
    }
    rising(&powers)
}

fn time(ns: i128) -> String {
    latency(ns as f64)
}

fn size(bytes: i128) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => b.to_string(),
    }
}

fn count_signed(n: i128) -> String {
    let digits = count(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX));
    if n < 0 { format!("-{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::block_io::{IoCounts, IoEvents, IoOp, LatencyBucket, Seeks};

    fn example() -> IoInterval {
        let bucket = |from_ns, until_ns, count| LatencyBucket { from_ns, until_ns, count };
        let l = Latencies {
            buckets: vec![bucket(65_536, 67_584, 900), bucket(8_388_608, 8_650_752, 100)],
            sum_ns: 900 * 66_000 + 100 * 8_500_000,
            max_ns: 8_600_123,
        };
        let group = IoGroup {
            device: Some("nvme0n1".into()),
            op: Some(IoOp::Read),
            count: 1_000,
            bytes: 1_000 * 4_096,
            sizes: [(4_096, 1_000)].into(),
            from_start: l.clone(),
            from_issue: l,
            addresses: [(1 << 20, 1_000)].into(),
            seeks: Seeks { ahead: [(0, 250), (1_024, 500)].into(), back: [(65_536, 250)].into() },
            ..IoGroup::default()
        };
        IoInterval {
            from_ns: 0,
            until_ns: 2_000_000_000,
            missed_deadline: false,
            events: IoEvents::StartToDone,
            counts: IoCounts { reads: 1_000, asynchronous: 3, ..IoCounts::default() },
            groups: vec![group],
            in_flight: 2,
            unmatched: Ok(1),
            merged: Ok(7),
            lost: [("in-flight-full".to_owned(), 12)].into(),
        }
    }

    fn shown(interval: &IoInterval, width: usize) -> String {
        let all = [
            IoHistogram::Size,
            IoHistogram::Latency,
            IoHistogram::IssueLatency,
            IoHistogram::Address,
            IoHistogram::Seek,
        ];
        let mut out = Vec::new();
        let view = IoView { histograms: all.to_vec(), top: 20 };
        io_interval(&mut out, interval, 0, &view, Style { width, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_interval_reads_as_recorded_and_what_was_lost_makes_it_a_lower_bound() {
        insta::assert_snapshot!(shown(&example(), 100));
    }

    #[test]
    fn groups_beyond_the_first_ones_are_one_row_with_their_sum() {
        let mut interval = example();
        let file = |name: &str| IoGroup { file: Some(name.into()), ..interval.groups[0].clone() };
        interval.groups = vec![file("a"), file("b"), file("c")];
        let mut out = Vec::new();
        let view = IoView { histograms: Vec::new(), top: 1 };
        io_interval(&mut out, &interval, 0, &view, Style { width: 100, color: false }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rest = text.lines().find(|l| l.contains("(2 more)")).unwrap();
        assert!(rest.contains(">=1,000"), "twice 1,000 requests in 2 s: {text}");
        assert_eq!(text.lines().filter(|l| l.contains("nvme0n1")).count(), 1);
    }

    #[test]
    fn a_name_that_two_files_have_stands_with_their_inodes() {
        let mut interval = example();
        let file = |name: &str, number| IoGroup {
            file: Some(name.into()),
            inode: Some(Inode { device: "8:1".into(), number }),
            ..interval.groups[0].clone()
        };
        interval.groups = vec![file("same", 12), file("same", 13), file("other", 14)];
        let text = shown(&interval, 160);
        assert!(text.contains("same (inode 12 on 8:1)") && text.contains("same (inode 13 on 8:1)"), "{text}");
        assert!(!text.contains("inode 14"), "{text}");
    }

    #[test]
    fn every_line_fits_into_40_columns() {
        for line in shown(&example(), 40).lines() {
            assert!(line.chars().count() <= 40, "{line:?}");
        }
    }

    #[test]
    fn an_interval_without_requests_is_a_line() {
        let idle = IoInterval {
            counts: IoCounts::default(),
            groups: Vec::new(),
            in_flight: 0,
            unmatched: Ok(0),
            merged: Ok(0),
            lost: [].into(),
            ..example()
        };
        assert_eq!(shown(&idle, 100).lines().count(), 1);
    }
}
