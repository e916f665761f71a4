//! The lock waits of a run: a section for kernel locks and one for locks of programs.

use std::collections::BTreeMap;

use record::locks::{LockInterval, LockSample, UserLockInterval, UserLockSample, Waits};
use record::missing::Maybe;

use super::{Block, Figure, Table, over_time};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::number::{count, latency, percent_digits};

/// Maximum number of lines in a table; the last line sums the rest.
const TOP: usize = 10;
/// Prefix of a number that is a lower bound.
pub(super) const AT_LEAST: &str = ">=";
/// Maximum number of lines in a figure.
const DRAWN: usize = 6;

pub(super) fn of_kernel(intervals: &[LockInterval]) -> Vec<Block> {
    let Some(whole) = LockInterval::joined(intervals) else { return Vec::new() };
    let (all, spun_ns) = whole.total();
    if all.count == 0 && whole.lost.is_empty() {
        return vec![Block::Text("No thread waited for a kernel lock.".into())];
    }
    let bound = bound(&whole.lost);
    let mut table = Table::new(
        "Contended kernel locks, longest total wait first; CPU-util is the share of all CPUs that spinning \
         burned",
        &["kind", "lock", "caller", "#waits", "#waiting", "#mean", "#max", "#CPU-util %"],
    );
    let of = |i: &LockInterval, l: &LockSample| {
        let place = |o: &LockSample| (o.kind, named(o), word(&o.caller));
        let same = i.locks.iter().filter(|o| place(o) == place(l)).map(|o| o.waits.ns_total);
        seconds_of(same, i.locks.iter().any(|o| o.address == 0)).map(|s| s / i.seconds())
    };
    let mut row = |bound: &str, kind: &str, lock: String, caller: String, waits: &Waits, spun_ns: u64| {
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
        let bound = if intervals.iter().any(|i| of(i, l).is_none()) { AT_LEAST } else { bound };
        row(bound, l.kind.word(), named(l), word(&l.caller), &l.waits, l.spin_ns_total);
    }
    row(bound, "all", String::new(), String::new(), &all, spun_ns);
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
        return vec![Block::Text("No thread waited for a lock of a program.".into())];
    }
    let bound = bound(&whole.lost);
    let mut table = Table::new(
        "Contended locks of programs, longest total wait first; condition variables, and waits that mostly \
         timed out, come last, since they are usually idle threads. CPU-util is the share of all CPUs burned \
         by waits in which the thread did not sleep",
        &["process", "kind", "lock", "call", "caller", "#waits", "#waiting", "#mean", "#max", "#CPU-util %"],
    );
    let of = |i: &UserLockInterval, l: &UserLockSample| {
        let place = |o: &UserLockSample| (o.pid, o.address, o.kind, word(&o.call), word(&o.caller));
        let same = i.locks.iter().filter(|o| place(o) == place(l)).map(|o| o.waits.ns_total);
        seconds_of(same, i.locks.iter().any(|o| o.address == 0)).map(|s| s / i.seconds())
    };
    let mut row = |bound: &str,
                   [process, kind, lock, call, caller]: [String; 5],
                   waits: &Waits,
                   spun_ns: &Maybe<u64>| {
        let util = spun_ns.as_ref().map(|ns| percent_digits(whole.cpu_util_ratio(*ns)));
        let util = util.map_or("-".to_owned(), |util| format!("{bound}{util}"));
        let words = [process, kind, lock, call, caller].into_iter().chain(cells(bound, waits));
        table.row(words.chain([util]).map(Into::into).collect());
    };
    for l in known(&whole.locks, |l| l.address).take(TOP) {
        let (process, lock) = (format!("{}/{}", l.comm, l.pid), format!("{:#x}", l.address));
        let words = [process, l.kind.word().to_owned(), lock, call(&l.call), word(&l.caller)];
        let bound = if intervals.iter().any(|i| of(i, l).is_none()) { AT_LEAST } else { bound };
        row(bound, words, &l.waits, &l.spin_ns_total);
    }
    row(bound, ["all", "", "", "", ""].map(str::to_owned), &all, &spun_ns);
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

fn blocks(table: Table, lost: &BTreeMap<String, u64>, figure: Option<Figure>) -> Vec<Block> {
    let told = |(why, n): (&String, &u64)| format!("{} {why}", count(*n));
    let lost = (!lost.is_empty()).then(|| {
        let all: Vec<String> = lost.iter().map(told).collect();
        Block::Text(format!("Waits were LOST: {}. The numbers above are lower bounds.", all.join(", ")))
    });
    [Block::Table(table)].into_iter().chain(lost).chain(figure.map(Block::Figure)).collect()
}

fn bound(lost: &BTreeMap<String, u64>) -> &'static str {
    if lost.is_empty() { "" } else { AT_LEAST }
}

/// Seconds that threads waited for one lock in an interval. `None` if the lock has no line and the interval
/// sums other locks in one line: the lock may be among those.
fn seconds_of(mut its: impl Iterator<Item = u64>, has_rest: bool) -> Option<f64> {
    let first = its.next();
    if first.is_none() && has_rest {
        None
    } else {
        Some((first.unwrap_or(0) + its.sum::<u64>()) as f64 * 1e-9)
    }
}

fn cells(bound: &str, waits: &Waits) -> [String; 4] {
    [
        format!("{bound}{}", count(waits.count)),
        format!("{bound}{}", latency(waits.ns_total as f64)),
        latency(waits.ns_mean() as f64),
        format!("{bound}{}", latency(waits.ns_max as f64)),
    ]
}

/// Locks with their own line, without the sum of the others.
fn known<T>(locks: &[T], address: impl Fn(&T) -> u64) -> impl Iterator<Item = &T> {
    locks.iter().filter(move |lock| address(lock) != 0)
}

/// The last part of a path, which distinguishes calls.
fn call(name: &Maybe<String>) -> String {
    name.as_deref().map_or("?", |call| call.rsplit("::").next().unwrap_or(call)).to_owned()
}

/// Intervals long enough to plot; the remainder of the last second is left out.
fn whole_ones<T>(intervals: &[T], seconds: impl Fn(&T) -> f64) -> impl Iterator<Item = &T> {
    let typical_s = intervals.first().map_or(0.0, &seconds);
    intervals.iter().filter(move |i| 2.0 * seconds(i) >= typical_s)
}

/// A function's name; of a long name only the end, which distinguishes more than the beginning.
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

/// Number of waiting threads at the end of each interval; `None` if unknown.
type Values = Vec<(u64, Option<f64>)>;

/// The locks with the most waiting, in threads that wait at the same time: seconds of waiting per second.
fn waiting(drawn: Vec<(String, Values)>, start_ns: u64, title: &str) -> Option<Figure> {
    let mut data =
        Table::new("Threads that wait at the same time", &["lock", "#mean", "#least", "#greatest"]);
    for (name, values) in &drawn {
        let of = || values.iter().filter_map(|(_, v)| *v);
        let mean = of().sum::<f64>() / of().count().max(1) as f64;
        let cell = |v: f64| crate::number::significant_4(v).into();
        data.row(vec![
            name.clone().into(),
            cell(mean),
            cell(of().fold(f64::INFINITY, f64::min)),
            cell(of().fold(0.0, f64::max)),
        ]);
    }
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    let line = |(name, values): (String, Values)| {
        let chunk = values.len().div_ceil(over_time::PLACES_MAX).max(1);
        let (mut points, mut gaps) = (Vec::new(), Vec::new());
        for some in values.chunks(chunk) {
            let x = seconds(some[some.len() - 1].0);
            let known: Vec<f64> = some.iter().filter_map(|(_, v)| *v).collect();
            if known.is_empty() {
                gaps.push(x);
            } else {
                let y = known.iter().sum::<f64>() / known.len() as f64;
                points.push(Point { x, y, interval: None, dots: Vec::new() });
            }
        }
        Line { name: super::series::cut(&name), points, banded: true, joined: true, gaps }
    };
    let end_s =
        drawn.iter().flat_map(|(_, values)| values.iter().map(|(at, _)| seconds(*at))).fold(0.0, f64::max);
    let series: Vec<Line> = drawn.into_iter().map(line).filter(|l| l.points.len() > 1).collect();
    if series.is_empty() {
        return None;
    }
    Some(Figure {
        title: title.to_owned(),
        caption: "Waiting threads, on average over each interval (seconds of waiting per second). A wait \
                  counts in the interval in which it ends. A gap in a line means that its lock was not \
                  counted separately in that interval; its waits in the table are then a lower bound."
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::locks::{LockInterval, LockKind, LockSample, Waits};
    use record::missing::Missing;

    use super::*;

    /// An interval with locks by address; address 0 is the sum of locks without a line.
    fn interval(k: u64, locks: &[(u64, u64)]) -> LockInterval {
        let lock = |(address, count): &(u64, u64)| LockSample {
            cgroup: None,
            kind: LockKind::Mutex,
            address: *address,
            name: Err(Missing::because("it was allocated")),
            caller: Ok(format!("caller_{address}")),
            stack: Vec::new(),
            waits: Waits {
                count: *count,
                ns_total: count * 1_000_000,
                ns_max: 1_000_000,
                histogram: BTreeMap::new(),
            },
            spin_ns_total: 0,
        };
        LockInterval {
            from_ns: k * 1_000_000_000,
            until_ns: (k + 1) * 1_000_000_000,
            cpus: 2,
            missed_deadline: false,
            locks: locks.iter().map(lock).collect(),
            lost: BTreeMap::new(),
        }
    }

    #[test]
    fn a_lock_that_may_be_among_the_others_was_waited_for_at_least_so_often() {
        let intervals = [
            interval(0, &[(1, 100), (2, 90), (0, 5)]),
            interval(1, &[(2, 80), (0, 6)]),
            interval(2, &[(1, 70)]),
        ];
        let blocks = of_kernel(&intervals);
        let [Block::Table(table), Block::Figure(figure)] = &blocks[..] else { panic!("{blocks:?}") };
        let text = format!("{table:?}");
        // In the second interval the first lock may be among the six. The third interval has no sum that
        // could hold the second lock.
        assert!(text.contains("\">=170\"") && text.contains("\"170\""), "{text}");
        assert!(text.contains("\"351\""), "the sum is of all: {text}");
        assert!(figure.caption.contains("gap"));
    }

    #[test]
    fn what_has_no_line_is_nothing_only_where_every_lock_has_one() {
        assert_eq!(seconds_of([].into_iter(), false), Some(0.0));
        assert_eq!(seconds_of([].into_iter(), true), None);
        assert_eq!(seconds_of([1_000_000_000, 500_000_000].into_iter(), true), Some(1.5));
    }
}
