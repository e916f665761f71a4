//! Locks at a terminal, one interval at a time: kernel locks and locks of programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use record::locks::{LockInterval, LockSample, UserLockInterval, UserLockSample, Waits};
use record::missing::Maybe;

use super::table::{Align, Table};
use super::tasks::cgroup_name;
use super::{Style, Tint, labelled, paragraph};
use crate::number::{count, latency, percent_digits};
use crate::words::counted;

/// Parts of an interval to print besides the lines of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockView {
    /// The call stack of each caller.
    pub stacks: bool,
    /// The histogram of wait times.
    pub histogram: bool,
    /// Number of lines; one more line sums the rest.
    pub top: usize,
    /// Whether a filter left out locks: the sums then cover a part of all locks, and the output says so.
    pub is_part: bool,
}

/// Writes one interval of kernel locks: a line for each lock and caller, by wait time, and one for all.
///
/// `CPU %` is the share of all CPUs that spinning burned; sleeping waits burn none. If waits were lost, the
/// numbers are marked as lower bounds.
///
/// - `start_ns`: start of the first interval; printed times count from it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn lock_interval(
    out: &mut dyn Write,
    interval: &LockInterval,
    start_ns: u64,
    view: LockView,
    style: Style,
) -> io::Result<()> {
    let (all, spun_ns) = interval.total();
    let bound = bound(&interval.lost);
    let part = if view.is_part { ", of those asked for" } else { "" };
    let missed = if interval.missed_deadline { ", deadline missed" } else { "" };
    let title = format!(
        "{:.1} s, over {:.3} s on {} CPUs: {bound}{} for the kernel's locks ended{part}{missed}",
        interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        interval.seconds(),
        interval.cpus,
        counted(all.count, "wait")
    );
    paragraph(out, &title, 2, style)?;
    if !interval.locks.is_empty() {
        lock_table(interval, view, (&all, spun_ns)).write(out, style)?;
    }
    let details = interval.locks.iter().take(view.top).zip(1..);
    for (lock, number) in details.filter(|_| view.stacks || view.histogram) {
        let named = lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address));
        let stack = if view.stacks { lock.stack.join(" < ") } else { caller(&lock.caller) };
        paragraph(out, &format!("#{number} {} {named}: {stack}", lock.kind.word()), 4, style)?;
        if view.histogram {
            histogram(out, &lock.waits, style)?;
        }
    }
    lost(out, &interval.lost, style)
}

fn lock_table(interval: &LockInterval, view: LockView, (all, spun_ns): (&Waits, u64)) -> Table {
    let numbered = view.stacks || view.histogram;
    let mut table = Table::default();
    if numbered {
        table = table.column("#", Align::Right, 0);
    }
    let grouped = interval.locks.iter().any(|lock| lock.cgroup.is_some());
    if grouped {
        table = table.column("control group", Align::Left, 0);
    }
    let mut table = table
        .column("kind", Align::Left, 0)
        .column("count", Align::Right, 0)
        .column("total", Align::Right, 4)
        .column("mean", Align::Right, 2)
        .column("max", Align::Right, 3)
        .column("CPU %", Align::Right, 1)
        .column("lock", Align::Left, 5)
        .column("caller", Align::Elastic, 0);
    let bound = bound(&interval.lost);
    let row = |(number, group): (String, String),
               kind: &str,
               waits: &Waits,
               spun_ns: u64,
               lock: String,
               caller: String| {
        let strong = (kind == TOTAL).then_some(Tint::Strong);
        let cells = [
            kind.to_owned(),
            format!("{bound}{}", count(waits.count)),
            format!("{bound}{}", latency(waits.ns_total as f64)),
            latency(waits.ns_mean() as f64),
            format!("{bound}{}", latency(waits.ns_max as f64)),
            format!("{bound}{}", percent_digits(interval.cpu_util_ratio(spun_ns))),
            lock,
            caller,
        ];
        let first = numbered.then_some((number, strong)).into_iter();
        first.chain(grouped.then_some((group, strong))).chain(cells.map(|c| (c, strong))).collect::<Vec<_>>()
    };
    for (lock, number) in interval.locks.iter().take(view.top).zip(1..) {
        let named = lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address));
        let (kind, caller) = (lock.kind.word(), caller(&lock.caller));
        let first = (number.to_string(), group(lock.cgroup.as_deref()));
        table.row(row(first, kind, &lock.waits, lock.spin_ns_total, named, caller));
    }
    let rest: &[LockSample] = interval.locks.get(view.top..).unwrap_or_default();
    if !rest.is_empty() {
        let waits = rest.iter().map(|l| &l.waits).sum();
        let spun_ns = rest.iter().map(|l| l.spin_ns_total).sum();
        table.row(row(
            Default::default(),
            "...",
            &waits,
            spun_ns,
            String::new(),
            format!("{} more", rest.len()),
        ));
    }
    table.row(row(NOTHING, TOTAL, all, spun_ns, String::new(), String::new()));
    table
}

const TOTAL: &str = "TOTAL";
/// Empty cells for the number and the control group.
const NOTHING: (String, String) = (String::new(), String::new());

/// Writes one interval of programs' locks: a line for each process, lock and call site, by wait time, and one
/// for all. If waits were lost, the numbers are marked as lower bounds.
///
/// - `start_ns`: start of the first interval; printed times count from it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn user_lock_interval(
    out: &mut dyn Write,
    interval: &UserLockInterval,
    start_ns: u64,
    view: LockView,
    style: Style,
) -> io::Result<()> {
    let bound = bound(&interval.lost);
    let part = if view.is_part { ", of those asked for" } else { "" };
    let missed = if interval.missed_deadline { ", deadline missed" } else { "" };
    let title = format!(
        "{:.1} s, over {:.3} s on {} CPUs: {bound}{} for locks of programs ended{part}{missed}",
        interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        interval.seconds(),
        interval.cpus,
        counted(interval.total().0.count, "wait")
    );
    paragraph(out, &title, 2, style)?;
    if !interval.locks.is_empty() {
        user_lock_table(interval, view).write(out, style)?;
    }
    let details = interval.locks.iter().take(view.top).zip(1..);
    for (lock, number) in details.filter(|_| view.stacks || view.histogram) {
        let stack = if view.stacks { lock.stack.join(" < ") } else { caller(&lock.caller) };
        let head = format!("#{number} {}/{} {} {:#x}", lock.comm, lock.pid, lock.kind.word(), lock.address);
        paragraph(out, &format!("{head}: {stack}"), 4, style)?;
        if view.stacks {
            let woken = format!(
                "woken by {}; {} did not sleep, {} timed out",
                caller(&lock.waker),
                count(lock.not_slept),
                count(lock.timed_out)
            );
            labelled(out, ("", None), &woken, 4, style)?;
        }
        if view.histogram {
            histogram(out, &lock.waits, style)?;
        }
    }
    lost(out, &interval.lost, style)
}

fn user_lock_columns(numbered: bool, grouped: bool) -> Table {
    let mut table = Table::default();
    if numbered {
        table = table.column("#", Align::Right, 0);
    }
    if grouped {
        table = table.column("control group", Align::Left, 0);
    }
    table
        .column("process", Align::Left, 0)
        .column("kind", Align::Left, 5)
        .column("count", Align::Right, 0)
        .column("total", Align::Right, 1)
        .column("mean", Align::Right, 3)
        .column("max", Align::Right, 4)
        .column("CPU %", Align::Right, 2)
        .column("lock", Align::Left, 7)
        .column("call", Align::Left, 6)
        .column("caller", Align::Elastic, 0)
}

fn user_lock_table(interval: &UserLockInterval, view: LockView) -> Table {
    let numbered = view.stacks || view.histogram;
    let grouped = interval.locks.iter().any(|lock| lock.cgroup.is_some());
    let mut table = user_lock_columns(numbered, grouped);
    let bound = bound(&interval.lost);
    let util = |spun_ns: &Maybe<u64>| {
        let ratio = spun_ns.as_ref().map(|ns| interval.cpu_util_ratio(*ns));
        ratio.map_or("-".to_owned(), |ratio| format!("{bound}{}", percent_digits(ratio)))
    };
    let row = |(number, group): (String, String), waits: &Waits, spun_ns: &Maybe<u64>, words: [String; 5]| {
        let strong = (words[0] == TOTAL).then_some(Tint::Strong);
        let [process, kind, lock, call, caller] = words;
        let cells = [
            process,
            kind,
            format!("{bound}{}", count(waits.count)),
            format!("{bound}{}", latency(waits.ns_total as f64)),
            latency(waits.ns_mean() as f64),
            format!("{bound}{}", latency(waits.ns_max as f64)),
            util(spun_ns),
            lock,
            call,
            caller,
        ];
        let first = numbered.then_some((number, strong)).into_iter();
        first.chain(grouped.then_some((group, strong))).chain(cells.map(|c| (c, strong))).collect::<Vec<_>>()
    };
    for (lock, number) in interval.locks.iter().take(view.top).zip(1..) {
        let words = [
            format!("{}/{}", lock.comm, lock.pid),
            lock.kind.word().to_owned(),
            format!("{:#x}", lock.address),
            // The last part of a path distinguishes calls.
            lock.call.as_deref().map_or("-", |c| c.rsplit("::").next().unwrap_or(c)).to_owned(),
            caller(&lock.caller),
        ];
        let first = (number.to_string(), group(lock.cgroup.as_deref()));
        table.row(row(first, &lock.waits, &lock.spin_ns_total, words));
    }
    let rest: &[UserLockSample] = interval.locks.get(view.top..).unwrap_or_default();
    if !rest.is_empty() {
        let (waits, spun_ns) = (
            rest.iter().map(|l| &l.waits).sum(),
            rest.iter().map(|l| l.spin_ns_total.clone()).sum::<Maybe<u64>>(),
        );
        let more = format!("{} more", rest.len());
        let words = ["...".to_owned(), String::new(), String::new(), String::new(), more];
        table.row(row(NOTHING, &waits, &spun_ns, words));
    }
    let blank = String::new;
    let (all, spun_ns) = interval.total();
    table.row(row(
        Default::default(),
        &all,
        &spun_ns,
        [TOTAL.to_owned(), blank(), blank(), blank(), blank()],
    ));
    table
}

fn group(cgroup: Option<&str>) -> String {
    cgroup.map(cgroup_name).unwrap_or_default()
}

/// `>=` if waits were lost.
fn bound(lost: &BTreeMap<String, u64>) -> &'static str {
    if lost.is_empty() { "" } else { ">=" }
}

/// Writes a line with the numbers of lost waits, if any.
fn lost(out: &mut dyn Write, lost: &BTreeMap<String, u64>, style: Style) -> io::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = lost.iter().map(|(reason, n)| format!("{} {reason}", count(*n))).collect();
    paragraph(out, &format!("lost: {}; the numbers are lower bounds", reasons.join(", ")), 2, style)
}

fn caller(caller: &Maybe<String>) -> String {
    caller.clone().unwrap_or_else(|missing| format!("? ({missing})"))
}

/// Writes a line for each power of two between the shortest and the longest wait.
fn histogram(out: &mut dyn Write, waits: &Waits, style: Style) -> io::Result<()> {
    const LABEL: usize = 20;
    let (Some((first, _)), Some((last, _))) =
        (waits.histogram.first_key_value(), waits.histogram.last_key_value())
    else {
        return Ok(());
    };
    let most = waits.histogram.values().copied().max().unwrap_or(1);
    let room = style.width.saturating_sub(LABEL + 18).clamp(1, 40);
    let mut from_ns = *first;
    while from_ns <= *last {
        let n = waits.histogram.get(&from_ns).copied().unwrap_or(0);
        let length =
            usize::try_from((u128::from(n) * room as u128).div_ceil(u128::from(most))).unwrap_or(room);
        let label = format!("{} to {}", latency(from_ns as f64), latency((from_ns << 1) as f64));
        writeln!(out, "    {label:>LABEL$} |{:room$}| {}", "#".repeat(length), count(n))?;
        from_ns <<= 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::locks::{LockKind, UserLockKind};
    use record::missing::Missing;

    fn interval(lost: &[(&str, u64)]) -> LockInterval {
        let lock = |kind, name: Maybe<String>, caller: &str, count: u64, ns: u64, spun: u64| LockSample {
            cgroup: None,
            kind,
            address: 0xffff_8880_1234_5678,
            name,
            caller: Ok(caller.to_owned()),
            stack: vec![caller.to_owned(), "do_syscall_64".into()],
            waits: Waits {
                count,
                ns_total: ns,
                ns_max: ns / 2,
                histogram: BTreeMap::from([(1024, count - 1), (8192, 1)]),
            },
            spin_ns_total: spun,
        };
        let unnamed = || Err(Missing::because("it was allocated"));
        LockInterval {
            from_ns: 1_000_000_000,
            until_ns: 2_000_000_000,
            cpus: 2,
            missed_deadline: false,
            locks: vec![
                lock(LockKind::RwsemWrite, unnamed(), "ext4_buffered_write_iter", 12_345, 4_500_000_000, 0),
                lock(LockKind::Mutex, unnamed(), "pipe_write", 300, 90_000_000, 40_000_000),
                lock(LockKind::Spinlock, Ok("tasklist_lock".into()), "do_exit", 10, 20_000, 20_000),
            ],
            lost: lost.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect(),
        }
    }

    fn written(width: usize, view: LockView, lost: &[(&str, u64)]) -> String {
        let mut out = Vec::new();
        lock_interval(&mut out, &interval(lost), 1_000_000_000, view, Style { width, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    }

    const PLAIN: LockView = LockView { stacks: false, histogram: false, top: 20, is_part: false };

    #[test]
    fn locks_are_a_table_that_fits_from_40_columns_up() {
        insta::assert_snapshot!("locks_120", written(120, PLAIN, &[]));
        insta::assert_snapshot!("locks_40", written(40, PLAIN, &[]));
        let all = LockView { stacks: true, histogram: true, top: 2, is_part: false };
        insta::assert_snapshot!("locks_all_80", written(80, all, &[("no-room", 7)]));
        for width in 40..=200 {
            for line in written(width, all, &[("no-room", 7)]).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn locks_of_programs_are_a_table_that_fits_from_40_columns_up() {
        let lock = |kind, call: &str, caller: &str, count: u64| UserLockSample {
            cgroup: None,
            pid: 4711,
            comm: "mariadbd".into(),
            address: 0x7f12_3456_7890,
            kind,
            call: Ok(call.to_owned()),
            caller: Ok(caller.to_owned()),
            stack: vec![call.to_owned(), caller.to_owned(), "main".into()],
            waker: Ok("mariadbd/4713 in log_write_up_to".into()),
            waits: Waits {
                count,
                ns_total: count * 2_000_000,
                ns_max: 9_000_000,
                histogram: BTreeMap::from([(1 << 20, count)]),
            },
            spin_ns_total: Ok(count * 200_000),
            not_slept: 3,
            timed_out: 1,
        };
        let interval = UserLockInterval {
            from_ns: 1_000_000_000,
            until_ns: 2_000_000_000,
            cpus: 2,
            missed_deadline: true,
            locks: vec![
                lock(
                    UserLockKind::Condvar,
                    "pthread_cond_timedwait",
                    "os_event_wait_time_low(void*, unsigned long)",
                    120,
                ),
                lock(
                    UserLockKind::Mutex,
                    "std::sys::sync::mutex::futex::Mutex::lock_contended",
                    "tamp::pool::Pool::take",
                    7,
                ),
            ],
            lost: BTreeMap::new(),
        };
        let view = LockView { stacks: true, histogram: false, top: 1, is_part: false };
        let written = |width: usize, view: LockView| {
            let mut out = Vec::new();
            let style = Style { width, color: false };
            user_lock_interval(&mut out, &interval, 1_000_000_000, view, style).unwrap();
            String::from_utf8(out).unwrap()
        };
        insta::assert_snapshot!("user_locks_120", written(120, PLAIN));
        insta::assert_snapshot!("user_locks_40", written(40, view));
        for width in 40..=200 {
            for line in written(width, view).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_part_is_not_taken_for_all() {
        let text = written(120, LockView { is_part: true, ..PLAIN }, &[]);
        assert!(text.contains("12,655 waits for the kernel's locks ended, of those asked for\n"), "{text}");
    }

    #[test]
    fn what_was_lost_makes_every_sum_a_lower_bound() {
        let text = written(120, PLAIN, &[("no-room", 7)]);
        assert!(text.contains(">=12,655 waits") && text.contains(">=12,345"), "{text}");
        assert!(text.contains("lost: 7 no-room"), "{text}");
        assert!(!written(120, PLAIN, &[]).contains(">="));
    }
}
