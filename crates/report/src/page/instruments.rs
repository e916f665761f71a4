//! The results of the instruments other than the CPU's: a section each, with the top lines and a figure.

use record::block_io::{IoBy, IoInterval, fold};
use record::instruments::{Instruments, Observed};
use record::missing::Maybe;
use record::nic::{InterfaceSample, NicInterval};
use record::run::Run;

use super::{Block, Figure, Section, Table, locks};
use crate::chart::{Kind, Line, Lines, Point, lines, round_values};
use crate::heat_map::io_heat;
use crate::number::{count, latency, percent, percent_digits, rate};

/// Maximum number of lines in a table; one more line sums the rest.
const TOP: usize = 10;
/// Maximum number of lines in a figure.
const DRAWN: usize = 6;
const MIB: f64 = 1_048_576.0;

/// The sections of the instruments that were attached or requested.
pub(super) fn sections(run: &Run) -> Vec<Section> {
    let seen = &run.instruments;
    let all = [
        section(seen, "Block I/O", block_io),
        section(seen, "Network", nic),
        section(seen, "Locks of the kernel", locks::of_kernel),
        section(seen, "Locks of programs", locks::of_programs),
    ];
    all.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// The section of one instrument, or the reason for its missing intervals.
fn section<T: Observed>(seen: &Instruments, title: &'static str, lay_out: fn(&[T]) -> Vec<Block>) -> Section {
    let why = seen.missing.get(T::NAME).map(|m| Block::Text(format!("Not observed: {m}.")));
    Section { id: T::NAME, title, blocks: lay_out(T::of(seen)).into_iter().chain(why).collect() }
}

fn block_io(intervals: &[IoInterval]) -> Vec<Block> {
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return Vec::new() };
    let seconds = (last.until_ns - first.from_ns) as f64 * 1e-9;
    let by = IoBy { device: true, op: true, ..IoBy::default() };
    let groups = fold(intervals.iter().flat_map(|i| i.groups.clone()), by);
    let mut table = Table::new(
        "Requests to the block devices; latency from a request's start to its end",
        &[
            "device",
            "operation",
            "#requests",
            "#per second",
            "#MiB/s",
            "#p50",
            "#p99",
            "#max",
            "#sequential %",
            "#errors",
        ],
    );
    let lost: u64 = intervals.iter().flat_map(|i| i.lost.values()).sum();
    let at_least = if lost > 0 { ">=" } else { "" };
    for g in groups.iter().take(TOP) {
        let at = |q: f64| g.from_start.quantile_ns(q).map_or("-".to_owned(), latency);
        table.row(vec![
            g.device.clone().unwrap_or_default().into(),
            g.op.map_or("", record::block_io::IoOp::word).into(),
            format!("{at_least}{}", count(g.count)).into(),
            format!("{at_least}{}", rate(g.count as f64 / seconds)).into(),
            format!("{at_least}{}", rate(g.bytes as f64 / MIB / seconds)).into(),
            at(0.5).into(),
            at(0.99).into(),
            at(1.0).into(),
            g.seeks.sequential_ratio().map_or("-".to_owned(), percent_digits).into(),
            count(g.errors).into(),
        ]);
    }
    if groups.is_empty() {
        return vec![Block::Text("No request went to a block device.".into())];
    }
    let sum = |of: fn(&IoInterval) -> &Maybe<u64>| -> String {
        let all: Maybe<u64> = intervals.iter().map(|i| of(i).clone()).sum();
        all.map_or_else(|missing| format!("unknown ({missing})"), count)
    };
    let mut books = format!(
        "Requests that began before the observation and are not counted: {}. Requests merged into others: \
         {}.",
        sum(|i| &i.unmatched),
        sum(|i| &i.merged)
    );
    if lost > 0 {
        books = format!("{} requests were LOST and are missing from the lines above. {books}", count(lost));
    }
    let mut blocks = vec![Block::Table(table), Block::Text(books)];
    blocks.extend(heat_map(intervals).map(Block::Figure));
    blocks
}

fn heat_map(intervals: &[IoInterval]) -> Option<Figure> {
    let start_ns = intervals.first()?.from_ns;
    let mut data =
        Table::new("Requests that ended in each interval", &["#until", "#requests", "#p50", "#p99", "#max"]);
    let places = intervals.len().div_ceil(super::over_time::PLACES_MAX);
    for some in intervals.chunks(places) {
        let mut all = some[0].total();
        some[1..].iter().for_each(|i| all.add(&i.total()));
        let at = |q: f64| all.from_start.quantile_ns(q).map_or("-".to_owned(), latency);
        let until_s = some[some.len() - 1].until_ns.saturating_sub(start_ns) as f64 * 1e-9;
        data.row(vec![
            format!("{until_s:.1} s").into(),
            count(all.count).into(),
            at(0.5).into(),
            at(0.99).into(),
            at(1.0).into(),
        ]);
    }
    Some(Figure {
        title: "Latency of block I/O over time".into(),
        caption: "Each cell holds the requests of one interval and one range of latency; the fuller its color, the \
                  more."
            .into(),
        description: "Bands at the latencies that many requests have; two bands are two kinds of request. The numbers \
                      are in the table."
            .into(),
        drawing: io_heat(intervals, start_ns)?,
        data,
    })
}

fn nic(intervals: &[NicInterval]) -> Vec<Block> {
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return Vec::new() };
    let seconds = (last.until_ns - first.from_ns) as f64 * 1e-9;
    let mut names: Vec<(u32, String)> = Vec::new();
    for sample in samples(intervals).map(|(_, s)| s).filter(|s| s.counts.as_ref().is_ok_and(|c| !c.is_idle()))
    {
        let name = (sample.index, sample.name.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return vec![Block::Text("No network interface carried or dropped a packet.".into())];
    }
    let mut table = Table::new(
        "Traffic of the network interfaces; saturation counts errors, drops and collisions",
        &[
            "interface",
            "#in MiB/s",
            "#out MiB/s",
            "#in packets",
            "#out packets",
            "#busiest interval",
            "#saturation",
        ],
    );
    for (index, name) in names.iter().take(TOP) {
        let of = || samples(intervals).filter(|(_, s)| s.index == *index);
        let sum = |value: fn(&record::nic::LinkCounts) -> u64| -> u64 {
            of().filter_map(|(_, s)| s.counts.as_ref().ok()).map(value).sum()
        };
        let busiest = of().filter_map(|(i, s)| s.util_ratio(i.seconds()).ok()).reduce(f64::max);
        table.row(vec![
            name.clone().into(),
            rate(sum(|c| c.rx_bytes) as f64 / MIB / seconds).into(),
            rate(sum(|c| c.tx_bytes) as f64 / MIB / seconds).into(),
            count(sum(|c| c.rx_packets)).into(),
            count(sum(|c| c.tx_packets)).into(),
            busiest.map_or("speed unknown".to_owned(), percent).into(),
            count(sum(record::nic::LinkCounts::saturation)).into(),
        ]);
    }
    let tcp = |of: fn(&record::nic::TcpCounts) -> u64| -> u64 {
        intervals.iter().filter_map(|i| i.tcp.as_ref().ok()).map(of).sum()
    };
    // The reason is the same in every interval: the kernel's abilities do not change during a run.
    let words =
        match intervals.iter().map(|i| &i.tcp).find(|t| t.is_ok()).or(intervals.first().map(|i| &i.tcp)) {
            Some(Err(missing)) => format!("TCP counters are missing: {missing}."),
            _ => format!(
                "TCP retransmitted {} of {} segments and dropped {} connections at listeners.",
                count(tcp(|c| c.retransmitted_segments)),
                count(tcp(|c| c.out_segments)),
                count(tcp(|c| c.listen_drops))
            ),
        };
    let mut blocks = vec![Block::Table(table.clone()), Block::Text(words)];
    blocks.extend(traffic(intervals, &names, first.from_ns, table).map(Block::Figure));
    blocks
}

fn samples(intervals: &[NicInterval]) -> impl Iterator<Item = (&NicInterval, &InterfaceSample)> {
    intervals.iter().flat_map(|i| i.interfaces.iter().flatten().map(move |s| (i, s)))
}

fn traffic(intervals: &[NicInterval], names: &[(u32, String)], start_ns: u64, data: Table) -> Option<Figure> {
    let until_s = |i: &NicInterval| i.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let line = |(index, name): &(u32, String)| {
        let points = samples(intervals).filter(|(_, s)| s.index == *index).filter_map(|(i, s)| {
            let counts = s.counts.as_ref().ok()?;
            let mib_per_s = (counts.rx_bytes + counts.tx_bytes) as f64 / MIB / i.seconds();
            Some(Point { x: until_s(i), y: mib_per_s, interval: None, dots: Vec::new() })
        });
        Line { name: name.clone(), points: points.collect(), banded: true, joined: true, gaps: Vec::new() }
    };
    let series: Vec<Line> = names.iter().take(DRAWN).map(line).filter(|l| l.points.len() > 1).collect();
    if series.is_empty() {
        return None;
    }
    let end_s = until_s(intervals.last()?);
    Some(Figure {
        title: "Network traffic over time".into(),
        caption: "MiB per second in and out together, by interface.".into(),
        description: "A line for each interface; the sums are in the table.".into(),
        drawing: lines(&Lines {
            x_title: "seconds",
            y_title: "MiB/s",
            x_kind: Kind::Linear,
            x_range: Some((0.0, end_s)),
            y_kind: Kind::Linear,
            x_ticks: round_values(0.0, end_s, 8).into_iter().map(|v| (v, format!("{v}"))).collect(),
            y_label: |v| format!("{v}"),
            series,
        }),
        data,
    })
}
