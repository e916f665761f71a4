//! What a run waited for: a section for the kernel's locks, and one for those of programs.

use std::collections::BTreeMap;

use record::locks::{LockInterval, LockSample, UserLockInterval, UserLockSample, Waits};
use record::missing::Maybe;

use super::{Block, Figure, Section, Table, over_time};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::number::{count, latency, percent_digits};

/// Lines of a table at most; the rest is in the line for all.
const TOP: usize = 10;
/// Lines of a figure at most.
const DRAWN: usize = 6;

pub(super) fn of_kernel(intervals: &[LockInterval]) -> Vec<Block> {
    let Some(whole) = LockInterval::joined(intervals) else { return Vec::new() };
    let (all, spun_ns) = whole.total();
    if all.count == 0 && whole.lost.is_empty() {
        return vec![Block::Text("Nobody waited for a lock of the kernel.".into())];
    }
    let bound = bound(&whole.lost);
    let mut table = Table::new(
        "Locks of the kernel that were waited for, most waiting first; CPU-util is the share of all CPUs that spinning burned",
        &["kind", "lock", "caller", "#waits", "#waiting", "#mean", "#max", "#CPU-util %"],
    );
    let mut row = |kind: &str, lock: String, caller: String, waits: &Waits, spun_ns: u64| {
        let [n, total, mean, max] = cells(bound, waits);
        let util = format!("{bound}{}", percent_digits(whole.cpu_util_ratio(spun_ns)));
        table.row(vec![
            kind.into(),
            lock.into(),
            caller.into(),
            n.into(),
            total.into(),
            mean.into(),
            max.into(),
            util.into(),
        ]);
    };
    for l in known(&whole.locks, |l| l.address).take(TOP) {
        row(l.kind.word(), named(l), word(&l.caller), &l.waits, l.spin_ns_total);
    }
    row("all", String::new(), String::new(), &all, spun_ns);
    let of = |i: &LockInterval, l: &LockSample| {
        let same =
            |o: &&LockSample| (o.kind, named(o), word(&o.caller)) == (l.kind, named(l), word(&l.caller));
        i.locks.iter().filter(same).map(|o| o.waits.ns_total).sum::<u64>() as f64 * 1e-9 / i.seconds()
    };
    let points = || whole_ones(intervals, LockInterval::seconds);
    let drawn = known(&whole.locks, |l| l.address).take(DRAWN).map(|l| {
        let name = format!("{} {}", l.kind.word(), word(&l.caller));
        (name, points().map(|i| (i.until_ns, of(i, l))).collect())
    });
    blocks(
        table,
        &whole.lost,
        waiting(drawn.collect(), whole.from_ns, "Waiting for locks of the kernel over time"),
    )
}

pub(super) fn of_programs(intervals: &[UserLockInterval]) -> Vec<Block> {
    let Some(whole) = UserLockInterval::joined(intervals) else { return Vec::new() };
    let whole = whole.idleness_last();
    let (all, spun_ns) = whole.total();
    if all.count == 0 && whole.lost.is_empty() {
        return vec![Block::Text("No program waited for a lock of its own.".into())];
    }
    let bound = bound(&whole.lost);
    let mut table = Table::new(
        "Locks of programs that were waited for, most waiting first; conditions, and waits that mostly ended because their \
         time was over, come last, since they are idleness more often than contention. CPU-util is the share of all CPUs \
         that waits burned in which the thread did not sleep",
        &["process", "kind", "lock", "call", "caller", "#waits", "#waiting", "#mean", "#max", "#CPU-util %"],
    );
    let mut row = |[process, kind, lock, call, caller]: [String; 5], waits: &Waits, spun_ns: &Maybe<u64>| {
        let util = spun_ns.as_ref().map(|ns| percent_digits(whole.cpu_util_ratio(*ns)));
        let util = util.map_or("-".to_owned(), |util| format!("{bound}{util}"));
        let words = [process, kind, lock, call, caller].into_iter().chain(cells(bound, waits));
        table.row(words.chain([util]).map(Into::into).collect());
    };
    for l in known(&whole.locks, |l| l.address).take(TOP) {
        let (process, lock) = (format!("{}/{}", l.comm, l.pid), format!("{:#x}", l.address));
        let words = [process, l.kind.word().to_owned(), lock, call(&l.call), word(&l.caller)];
        row(words, &l.waits, &l.spin_ns_total);
    }
    row(["all", "", "", "", ""].map(str::to_owned), &all, &spun_ns);
    let of = |i: &UserLockInterval, l: &UserLockSample| {
        let place = |o: &UserLockSample| (o.pid, o.address, o.kind, word(&o.call), word(&o.caller));
        let same = |o: &&UserLockSample| place(o) == place(l);
        i.locks.iter().filter(same).map(|o| o.waits.ns_total).sum::<u64>() as f64 * 1e-9 / i.seconds()
    };
    let points = || whole_ones(intervals, UserLockInterval::seconds);
    let drawn = known(&whole.locks, |l| l.address).take(DRAWN).map(|l| {
        let name = format!("{} {} {}", l.comm, l.kind.word(), word(&l.caller));
        (name, points().map(|i| (i.until_ns, of(i, l))).collect())
    });
    blocks(
        table,
        &whole.lost,
        waiting(drawn.collect(), whole.from_ns, "Waiting for locks of programs over time"),
    )
}

/// The sections of those that looked, or were to look; `why` tells of an instrument that could not be had.
pub(super) fn sections(
    seen: &record::instruments::Instruments,
    why: impl Fn(&str) -> Option<Block>,
) -> [Section; 2] {
    let section = |id, title, blocks: Vec<Block>| Section {
        id,
        title,
        blocks: blocks.into_iter().chain(why(id)).collect(),
    };
    [
        section("locks", "Locks of the kernel", of_kernel(&seen.locks)),
        section("ulocks", "Locks of programs", of_programs(&seen.ulocks)),
    ]
}

fn blocks(table: Table, lost: &BTreeMap<String, u64>, figure: Option<Figure>) -> Vec<Block> {
    let told = |(why, n): (&String, &u64)| format!("{} {why}", count(*n));
    let lost = (!lost.is_empty()).then(|| {
        let all: Vec<String> = lost.iter().map(told).collect();
        Block::Text(format!("Waits were LOST: {}. The numbers above are lower bounds.", all.join(", ")))
    });
    [Block::Table(table)].into_iter().chain(lost).chain(figure.map(Block::Figure)).collect()
}

fn bound(lost: &BTreeMap<String, u64>) -> &'static str {
    if lost.is_empty() { "" } else { ">=" }
}

fn cells(bound: &str, waits: &Waits) -> [String; 4] {
    [
        format!("{bound}{}", count(waits.count)),
        format!("{bound}{}", latency(waits.ns_total as f64)),
        latency(waits.ns_mean() as f64),
        format!("{bound}{}", latency(waits.ns_max as f64)),
    ]
}

/// Those that stand for themselves, and not for what an interval had no line for: that is in the sum.
fn known<T>(locks: &[T], address: impl Fn(&T) -> u64) -> impl Iterator<Item = &T> {
    locks.iter().filter(move |lock| address(lock) != 0)
}

/// The last part of a path is what tells.
fn call(name: &Maybe<String>) -> String {
    name.as_deref().map_or("?", |call| call.rsplit("::").next().unwrap_or(call)).to_owned()
}

/// Those that are long enough to be a point: what was left of the last second is none.
fn whole_ones<T>(intervals: &[T], seconds: impl Fn(&T) -> f64) -> impl Iterator<Item = &T> {
    let typical_s = intervals.first().map_or(0.0, &seconds);
    intervals.iter().filter(move |i| 2.0 * seconds(i) >= typical_s)
}

/// A function's name, of a long one the end: it tells more than the beginning.
fn word(name: &Maybe<String>) -> String {
    const LETTERS_MAX: usize = 32;
    let Ok(name) = name else { return "?".to_owned() };
    let letters = name.chars().count();
    if letters <= LETTERS_MAX {
        return name.clone();
    }
    std::iter::once('…').chain(name.chars().skip(letters - (LETTERS_MAX - 1))).collect()
}

fn named(lock: &LockSample) -> String {
    lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address))
}

/// What was waited for most, as threads that wait at the same time: seconds of waiting per second.
fn waiting(drawn: Vec<(String, Vec<(u64, f64)>)>, start_ns: u64, title: &str) -> Option<Figure> {
    let mut data =
        Table::new("Threads that wait at the same time", &["lock", "#mean", "#least", "#greatest"]);
    for (name, values) in &drawn {
        let of = || values.iter().map(|(_, v)| *v);
        let mean = of().sum::<f64>() / values.len().max(1) as f64;
        let cell = |v: f64| crate::number::significant_4(v).into();
        data.row(vec![
            name.clone().into(),
            cell(mean),
            cell(of().fold(f64::INFINITY, f64::min)),
            cell(of().fold(0.0, f64::max)),
        ]);
    }
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    let line = |(name, values): (String, Vec<(u64, f64)>)| {
        let chunk = values.len().div_ceil(over_time::PLACES_MAX).max(1);
        let point = |some: &[(u64, f64)]| Point {
            x: seconds(some[some.len() - 1].0),
            y: some.iter().map(|(_, v)| v).sum::<f64>() / some.len() as f64,
            interval: None,
            dots: Vec::new(),
        };
        Line {
            name: super::series::cut(&name),
            points: values.chunks(chunk).map(point).collect(),
            banded: true,
            joined: true,
        }
    };
    let end_s =
        drawn.iter().flat_map(|(_, values)| values.iter().map(|(at, _)| seconds(*at))).fold(0.0, f64::max);
    let series: Vec<Line> = drawn.into_iter().map(line).filter(|l| l.points.len() > 1).collect();
    if series.is_empty() {
        return None;
    }
    Some(Figure {
        title: title.to_owned(),
        caption: "Threads that wait at the same time, on average over each interval: seconds of waiting per second. A \
                  wait counts in the interval in which it ends."
            .into(),
        description: "A line for each of the locks with the most waiting; the sums are in the table.".into(),
        drawing: lines(&Lines {
            x_title: "seconds",
            y_title: "threads waiting",
            x_kind: Kind::Linear,
            x_range: Some((0.0, end_s)),
            y_kind: Kind::Linear,
            x_ticks: over_time::seconds_ticks(0.0, end_s),
            y_label: super::series::tick_value,
            series,
        }),
        data,
    })
}
