//! The results of the instruments other than the CPU's: a section each, with the top lines and a figure.

use record::agents::is_of_observer;
use record::block_io::{IoBy, IoInterval, Latencies, fold};
use record::instruments::{Instruments, Observed};
use record::missing::Maybe;
use record::nic::{InterfaceSample, LinkCounts, NicInterval, TcpCounts};
use record::run::Run;

use super::locks::AT_LEAST;
use super::{Block, Figure, Section, Table, Words, locks};
use crate::chart::{Kind, Line, Lines, Point, lines, round_values};
use crate::heat_map::io_heat;
use crate::number::{count, latency, percent, percent_digits, rate};
use crate::text::uncounted;

/// Maximum number of lines in a table; the caption says of how many.
const TOP: usize = 10;
/// Maximum number of lines in a figure.
const DRAWN: usize = 6;
const MIB: f64 = 1_048_576.0;

/// The sections of the instruments that were attached or requested.
pub(super) fn sections(run: &Run) -> Vec<Section> {
    let seen = &run.instruments;
    let cpus = super::cpus::cpus_over_time(&run.cpu).map(Block::Figure);
    let all = [
        Section { id: "cpus", title: "CPUs", blocks: cpus.into_iter().collect() },
        section(seen, "Block I/O", block_io),
        section(seen, "Network", nic),
        section(seen, "Locks of the kernel", locks::of_kernel),
        section(seen, "Locks of programs", locks::of_programs),
    ];
    all.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// The section of what observing agents could not observe; `None` if nothing is missing. Their numbers are
/// among the series.
pub(super) fn of_observers(run: &Run) -> Option<Section> {
    let missing = run.instruments.missing.iter().filter(|(name, _)| is_of_observer(name));
    let all: Vec<String> = missing.map(|(name, why)| format!("{name}: {why}.")).collect();
    let (id, title) = ("observers", "Not observed by other agents");
    (!all.is_empty()).then(|| Section { id, title, blocks: vec![Block::List(all)] })
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
        format!(
            "Requests to the block devices{}; latency from a request's start to its end",
            top_of(groups.len(), "bytes")
        ),
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
    let at_least = if lost > 0 { AT_LEAST } else { "" };
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
            max(&g.from_start, at_least).into(),
            g.seeks.sequential_ratio().map_or("-".to_owned(), percent_digits).into(),
            format!("{at_least}{}", count(g.errors)).into(),
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

/// The maximum as it was measured: the quantile 1.0 is interpolated.
fn max(latencies: &Latencies, at_least: &str) -> String {
    if latencies.buckets.is_empty() {
        return "-".to_owned();
    }
    format!("{at_least}{}", latency(latencies.max_ns as f64))
}

/// `, the 10 with the most bytes of 12`, if not all lines are shown.
fn top_of(all: usize, most: &str) -> String {
    if all > TOP { format!(", the {TOP} with the most {most} of {all}") } else { String::new() }
}

fn heat_map(intervals: &[IoInterval]) -> Option<Figure> {
    let start_ns = intervals.first()?.from_ns;
    let mut data =
        Table::new("Requests that ended in each interval", &["#until", "#requests", "#p50", "#p99", "#max"])
            .over_time(&["p50", "p99", "max"], Kind::Log);
    let places = intervals.len().div_ceil(super::over_time::PLACES_MAX);
    for some in intervals.chunks(places) {
        let mut all = some[0].total();
        some[1..].iter().for_each(|i| all.add(&i.total()));
        let at = |q: f64| all.from_start.quantile_ns(q).map_or("-".to_owned(), latency);
        let is_lossy = some.iter().any(|i| !i.lost.is_empty());
        let until_s = some[some.len() - 1].until_ns.saturating_sub(start_ns) as f64 * 1e-9;
        data.row(vec![
            format!("{until_s:.1} s").into(),
            count(all.count).into(),
            at(0.5).into(),
            at(0.99).into(),
            max(&all.from_start, if is_lossy { AT_LEAST } else { "" }).into(),
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
    let Some(first) = intervals.first() else { return Vec::new() };
    let mut names: Vec<(u32, String)> = Vec::new();
    for sample in samples(intervals).map(|(_, s)| s).filter(|s| s.counts.as_ref().is_ok_and(|c| !c.is_idle()))
    {
        let name = (sample.index, sample.name.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        let text = uncounted(intervals).map_or_else(
            || "No network interface carried or dropped a packet.".to_owned(),
            |missing| format!("Traffic was not counted: {missing}."),
        );
        return vec![Block::Text(text)];
    }
    names.sort_by_cached_key(|name| {
        std::cmp::Reverse(counted(intervals, name).map(|(.., c)| c.rx_bytes + c.tx_bytes).sum::<u64>())
    });
    let mut table = Table::new(
        format!(
            "Traffic of the network interfaces{}; saturation counts errors, drops and collisions",
            top_of(names.len(), "traffic")
        ),
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
    for name in names.iter().take(TOP) {
        table.row(interface(intervals, name));
    }
    let tcp: Vec<&TcpCounts> = intervals.iter().filter_map(|i| i.tcp.as_ref().ok()).collect();
    let at_least = if tcp.len() < intervals.len() { AT_LEAST } else { "" };
    let sum = |of: fn(&TcpCounts) -> u64| {
        format!("{at_least}{}", count(tcp.iter().map(|counts| of(counts)).sum::<u64>()))
    };
    let words = match &first.tcp {
        Err(missing) if tcp.is_empty() => format!("TCP counters are missing: {missing}."),
        _ => format!(
            "TCP retransmitted {} of {} segments and dropped {} connections at listeners.",
            sum(|c| c.retransmitted_segments),
            // The kernel's count of segments sent is without retransmissions.
            sum(|c| c.out_segments + c.retransmitted_segments),
            sum(|c| c.listen_drops)
        ),
    };
    let mut blocks = vec![Block::Table(table.clone()), Block::Text(words)];
    blocks.extend(traffic(intervals, &names, first.from_ns, table).map(Block::Figure));
    blocks
}

/// The row of one interface: rates over the time in which it was counted. If that is not all, sums are lower
/// bounds.
fn interface(intervals: &[NicInterval], name: &(u32, String)) -> Vec<Words> {
    let of = || counted(intervals, name);
    let seconds: f64 = of().map(|(i, ..)| i.seconds()).sum();
    let at_least = if of().count() < intervals.len() { AT_LEAST } else { "" };
    let sum = |value: fn(&LinkCounts) -> u64| of().map(|(.., counts)| value(counts)).sum::<u64>();
    let total =
        |value: fn(&LinkCounts) -> u64| -> Words { format!("{at_least}{}", count(sum(value))).into() };
    let busiest = of().filter_map(|(i, s, _)| s.util_ratio(i.seconds()).ok()).reduce(f64::max);
    vec![
        name.1.clone().into(),
        rate(sum(|c| c.rx_bytes) as f64 / MIB / seconds).into(),
        rate(sum(|c| c.tx_bytes) as f64 / MIB / seconds).into(),
        total(|c| c.rx_packets),
        total(|c| c.tx_packets),
        busiest.map_or("speed unknown".to_owned(), |ratio| format!("{at_least}{}", percent(ratio))).into(),
        total(LinkCounts::saturation),
    ]
}

fn samples(intervals: &[NicInterval]) -> impl Iterator<Item = (&NicInterval, &InterfaceSample)> {
    intervals.iter().flat_map(|i| i.interfaces.iter().flatten().map(move |s| (i, s)))
}

/// The intervals in which an interface was counted. An index keeps its number under a new name.
fn counted<'a>(
    intervals: &'a [NicInterval],
    (index, name): &'a (u32, String),
) -> impl Iterator<Item = (&'a NicInterval, &'a InterfaceSample, &'a LinkCounts)> {
    let of_it = samples(intervals).filter(move |(_, s)| s.index == *index && s.name == *name);
    of_it.filter_map(|(i, s)| Some((i, s, s.counts.as_ref().ok()?)))
}

fn traffic(intervals: &[NicInterval], names: &[(u32, String)], start_ns: u64, data: Table) -> Option<Figure> {
    let until_s = |i: &NicInterval| i.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let line = |name: &(u32, String)| {
        let points: Vec<Point> = counted(intervals, name)
            .map(|(i, _, counts)| {
                let mib_per_s = (counts.rx_bytes + counts.tx_bytes) as f64 / MIB / i.seconds();
                Point { x: until_s(i), y: mib_per_s, interval: None, dots: Vec::new() }
            })
            .collect();
        let ends: Vec<u64> = counted(intervals, name).map(|(i, ..)| i.until_ns).collect();
        let gaps =
            intervals.iter().filter(|i| ends.binary_search(&i.until_ns).is_err()).map(until_s).collect();
        Line { name: name.1.clone(), points, banded: true, joined: true, gaps }
    };
    let series: Vec<Line> = names.iter().take(DRAWN).map(line).filter(|l| l.points.len() > 1).collect();
    if series.is_empty() {
        return None;
    }
    let end_s = until_s(intervals.last()?);
    Some(Figure {
        title: "Network traffic over time".into(),
        caption: "MiB per second in and out together, by interface. A gap in a line is a time in which the \
                  interface was not counted."
            .into(),
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

#[cfg(test)]
mod tests {
    use record::block_io::{IoCounts, IoEvents, IoGroup, IoOp, LatencyBucket};
    use record::missing::Missing;

    use super::*;

    fn unknown<T>() -> Maybe<T> {
        Err(Missing::because("it was gone"))
    }

    fn nic_interval(k: u64, interfaces: &[(u32, &str, Maybe<LinkCounts>)]) -> NicInterval {
        let sample = |(index, name, counts): &(u32, &str, Maybe<LinkCounts>)| InterfaceSample {
            index: *index,
            name: (*name).to_owned(),
            kind: None,
            loopback: false,
            up: true,
            speed_bits_per_s: unknown(),
            duplex: unknown(),
            counts: counts.clone(),
        };
        NicInterval {
            from_ns: k * 1_000_000_000,
            until_ns: (k + 1) * 1_000_000_000,
            missed_deadline: false,
            interfaces: Ok(interfaces.iter().map(sample).collect()),
            tcp: Ok(TcpCounts { out_segments: 100, retransmitted_segments: 100, ..TcpCounts::default() }),
            udp: unknown(),
        }
    }

    /// 10 MiB received in 10 packets.
    fn ten() -> LinkCounts {
        LinkCounts { rx_bytes: 10 << 20, rx_packets: 10, ..LinkCounts::default() }
    }

    fn told(intervals: &[NicInterval]) -> (String, String, usize) {
        let blocks = nic(intervals);
        let [Block::Table(table), Block::Text(text), Block::Figure(figure)] = &blocks[..] else {
            panic!("{blocks:?}")
        };
        let lines = figure.drawing.wide.body.matches("class=\"line s").count();
        (format!("{:?}", table.rows), text.clone(), lines)
    }

    #[test]
    fn an_interval_without_counts_is_neither_drawn_nor_averaged_as_nothing() {
        let mut intervals: Vec<NicInterval> = [Ok(ten()), Ok(ten()), unknown(), Ok(ten()), Ok(ten())]
            .into_iter()
            .zip(0..)
            .map(|(counts, k)| nic_interval(k, &[(2, "eth0", counts)]))
            .collect();
        let (rows, text, lines) = told(&intervals);
        assert!(rows.contains("\"10.000\"") && rows.contains("\">=40\""), "{rows}");
        assert_eq!(lines, 2, "the line is broken where nothing is known");
        assert!(text.contains("500 of 1,000 segments"), "{text}");
        intervals[1].tcp = unknown();
        intervals[2].interfaces = unknown();
        let (rows, text, lines) = told(&intervals);
        assert!(rows.contains("\"10.000\"") && rows.contains("\">=40\""), "{rows}");
        assert_eq!(lines, 2);
        assert!(text.contains(">=400 of >=800 segments") && text.contains(">=0 connections"), "{text}");
        let whole: Vec<NicInterval> = (0..3).map(|k| nic_interval(k, &[(2, "eth0", Ok(ten()))])).collect();
        let (rows, text, lines) = told(&whole);
        assert!(rows.contains("\"30\"") && !text.contains(">="), "{rows} {text}");
        assert_eq!(lines, 1);
    }

    fn at_a_terminal(nic: Vec<NicInterval>) -> String {
        let seen = Instruments { nic, ..Instruments::default() };
        let mut out = Vec::new();
        crate::text::instruments(&mut out, &seen, crate::text::Style::PIPE).expect("memory");
        String::from_utf8(out).expect("text").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_terminal_divides_by_the_time_that_was_counted() {
        let interval = |k, counts| nic_interval(k, &[(2, "eth0", counts)]);
        let text =
            at_a_terminal(vec![interval(0, Ok(ten())), interval(1, unknown()), interval(2, Ok(ten()))]);
        assert!(text.contains("eth0 in 10,240 KiB/s") && text.contains("not counted in 1 of 3"), "{text}");
        let text = at_a_terminal(vec![interval(0, Ok(ten())), interval(1, Ok(ten()))]);
        assert!(text.ends_with("eth0 in 10,240 KiB/s, out 0.000 KiB/s"), "{text}");
    }

    #[test]
    fn traffic_that_was_never_counted_is_not_told_as_none() {
        let all = vec![nic_interval(0, &[(2, "eth0", unknown())]), nic_interval(1, &[])];
        let blocks = nic(&all);
        let [Block::Text(text)] = &blocks[..] else { panic!("{blocks:?}") };
        assert!(text.contains("not counted") && text.contains("it was gone"), "{text}");
        let text = at_a_terminal(all);
        assert!(text.contains("not counted") && text.contains("it was gone"), "{text}");
        let blocks = nic(&[nic_interval(0, &[(2, "eth0", Ok(LinkCounts::default()))])]);
        let [Block::Text(text)] = &blocks[..] else { panic!("{blocks:?}") };
        assert!(text.starts_with("No network interface carried"), "{text}");
    }

    #[test]
    fn an_interface_with_a_new_name_is_counted_once() {
        let intervals: Vec<NicInterval> = ["eth0", "eth0", "wan", "wan"]
            .iter()
            .zip(0..)
            .map(|(n, k)| nic_interval(k, &[(2, n, Ok(ten()))]))
            .collect();
        let (rows, ..) = told(&intervals);
        assert_eq!(rows.matches("\">=20\"").count(), 2, "{rows}");
    }

    #[test]
    fn of_many_interfaces_those_with_the_most_traffic_are_shown() {
        let names: Vec<String> = (0..12).map(|i| format!("veth{i}")).collect();
        let of = |k| {
            let counts =
                |i: u64| Ok(LinkCounts { rx_bytes: (i + 1) << 20, rx_packets: 1, ..LinkCounts::default() });
            let all: Vec<_> =
                names.iter().zip(0..).map(|(n, i)| (i, n.as_str(), counts(u64::from(i)))).collect();
            nic_interval(k, &all)
        };
        let blocks = nic(&[of(0), of(1)]);
        let Block::Table(table) = &blocks[0] else { panic!("{blocks:?}") };
        let rows = format!("{:?}", table.rows);
        assert!(rows.contains("veth11") && !rows.contains("veth1\""), "{rows}");
        assert!(table.caption.contains("the 10 with the most traffic of 12"), "{}", table.caption);
    }

    #[test]
    fn the_maximum_of_block_io_is_the_measured_one() {
        let interval = |k: u64| {
            let bucket = LatencyBucket { from_ns: 8_000, until_ns: 8_256, count: 1 };
            let from_start = Latencies { buckets: vec![bucket], sum_ns: 8_250, max_ns: 8_250 };
            let group = IoGroup {
                device: Some("sda".to_owned()),
                op: Some(IoOp::Read),
                count: 1,
                from_start,
                ..IoGroup::default()
            };
            IoInterval {
                from_ns: k * 1_000_000_000,
                until_ns: (k + 1) * 1_000_000_000,
                missed_deadline: false,
                events: IoEvents::StartToDone,
                counts: IoCounts::default(),
                groups: vec![group],
                in_flight: 0,
                unmatched: Ok(0),
                merged: Ok(0),
                lost: std::collections::BTreeMap::new(),
            }
        };
        let text = format!("{:?}", block_io(&[interval(0), interval(1)]));
        // Of the table, and of each interval of the figure.
        assert_eq!(text.matches("\"8.25 us\"").count(), 3, "{text}");
    }
}
