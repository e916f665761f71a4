//! Intervals as comma-separated values: a row for each CPU, interface or lock. A missing value is an empty
//! cell.
//!
//! Of intervals, `t_s` counts from `start_ns`, the start of the first interval, to the end of a row's
//! interval.

use std::io::{self, Write};

use analysis::history::History;
use record::cpu::CpuInterval;
use record::csv::write_row;
use record::locks::{LockInterval, UserLockInterval};
use record::missing::Maybe;
use record::nic::NicInterval;

use crate::number::{plain_of, rfc3339};

const CPU: [&str; 25] = [
    "t_s",
    "interval_s",
    "rung",
    "missed_deadline",
    "cpu",
    "event_ratio",
    "irq_ratio",
    "softirq_ratio",
    "tick_before_ratio",
    "tick_after_ratio",
    "sampled_ratio",
    "procstat_busy_ratio",
    "unaccounted_ratio",
    "not_idle_ratio",
    "stolen_ratio",
    "cycles",
    "instructions",
    "balance_ns",
    "switches",
    "run_queue_wait_s",
    "saturated",
    "top_pid",
    "top_tid",
    "top_comm",
    "top_ratio",
];

const NIC: [&str; 15] = [
    "t_s",
    "interval_s",
    "missed_deadline",
    "name",
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "collisions",
    "speed_bits_per_s",
    "util_ratio",
];

const LOCKS: [&str; 14] = [
    "t_s",
    "interval_s",
    "kind",
    "lock",
    "address",
    "caller",
    "count",
    "wait_ns_total",
    "wait_ns_mean",
    "wait_ns_max",
    "spin_ns_total",
    "cpu_util_ratio",
    "stack",
    "lost",
];

const USER_LOCKS: [&str; 19] = [
    "t_s",
    "interval_s",
    "pid",
    "comm",
    "kind",
    "address",
    "call",
    "caller",
    "count",
    "wait_ns_total",
    "wait_ns_mean",
    "wait_ns_max",
    "spin_ns_total",
    "cpu_util_ratio",
    "not_slept",
    "timed_out",
    "waker",
    "stack",
    "lost",
];

const HISTORY: [&str; 11] =
    ["time", "metric", "subject", "environment", "run", "version", "value", "unit", "low", "high", "event"];

/// Writes the heads of [`cpu`].
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn cpu_head(out: &mut dyn Write) -> io::Result<()> {
    write_row(out, CPU)
}

/// Writes a row for each CPU.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn cpu(out: &mut dyn Write, interval: &CpuInterval, start_ns: u64) -> io::Result<()> {
    let t_s = since_s(interval.until_ns, start_ns);
    for s in &interval.cpus {
        let top =
            |of: fn(&record::cpu::TopThread) -> String| s.top.as_ref().map_or_else(|_| String::new(), of);
        let cells: [String; CPU.len()] = [
            format!("{t_s:.6}"),
            format!("{:.9}", interval.seconds()),
            interval.rung.word().to_owned(),
            u8::from(interval.missed_deadline).to_string(),
            s.cpu.to_string(),
            cell(&s.event_ratio),
            cell(&s.irq_ratio),
            cell(&s.softirq_ratio),
            cell(&s.tick_before_ratio),
            cell(&s.tick_after_ratio),
            cell(&s.sampled_ratio),
            cell(&s.procstat_busy_ratio),
            cell(&s.unaccounted_ratio),
            cell(&s.not_idle_ratio),
            cell(&s.stolen_ratio),
            cell(&s.cycles),
            cell(&s.instructions),
            cell(&s.balance_ns),
            cell(&s.switches),
            cell(&s.run_queue_wait_ns.clone().map(|ns| ns as f64 * 1e-9)),
            cell(&s.busy_ratio().map(|_| u8::from(s.saturated()))),
            top(|t| t.pid.to_string()),
            top(|t| t.tid.to_string()),
            top(|t| t.comm.clone()),
            top(|t| t.ratio.to_string()),
        ];
        write_row(out, cells)?;
    }
    Ok(())
}

/// Writes the heads of [`nic`].
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn nic_head(out: &mut dyn Write) -> io::Result<()> {
    write_row(out, NIC)
}

/// Writes a row for each interface, with exact counts.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn nic(out: &mut dyn Write, interval: &NicInterval, start_ns: u64) -> io::Result<()> {
    let (t_s, seconds) = (since_s(interval.until_ns, start_ns), interval.seconds());
    for s in interval.interfaces.iter().flatten() {
        let count =
            |of: fn(&record::nic::LinkCounts) -> u64| cell(&s.counts.as_ref().map(of).map_err(Clone::clone));
        let cells: [String; NIC.len()] = [
            format!("{t_s:.6}"),
            format!("{seconds:.6}"),
            interval.missed_deadline.to_string(),
            s.name.clone(),
            count(|c| c.rx_bytes),
            count(|c| c.tx_bytes),
            count(|c| c.rx_packets),
            count(|c| c.tx_packets),
            count(|c| c.rx_errors),
            count(|c| c.tx_errors),
            count(|c| c.rx_dropped),
            count(|c| c.tx_dropped),
            count(|c| c.collisions),
            cell(&s.speed_bits_per_s),
            s.util_ratio(seconds).map_or_else(|_| String::new(), |ratio| format!("{ratio:.6}")),
        ];
        write_row(out, cells)?;
    }
    Ok(())
}

/// Writes the heads of [`locks`].
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn locks_head(out: &mut dyn Write) -> io::Result<()> {
    write_row(out, LOCKS)
}

/// Writes a row for each kernel lock and caller.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn locks(out: &mut dyn Write, interval: &LockInterval, start_ns: u64) -> io::Result<()> {
    let t_s = since_s(interval.until_ns, start_ns);
    let lost: u64 = interval.lost.values().sum();
    for lock in &interval.locks {
        let cells: [String; LOCKS.len()] = [
            format!("{t_s:.3}"),
            format!("{:.6}", interval.seconds()),
            lock.kind.word().to_owned(),
            cell(&lock.name),
            format!("{:#x}", lock.address),
            cell(&lock.caller),
            lock.waits.count.to_string(),
            lock.waits.ns_total.to_string(),
            lock.waits.ns_mean().to_string(),
            lock.waits.ns_max.to_string(),
            lock.spin_ns_total.to_string(),
            format!("{:.9}", interval.cpu_util_ratio(lock.spin_ns_total)),
            lock.stack.join(";"),
            lost.to_string(),
        ];
        write_row(out, cells)?;
    }
    Ok(())
}

/// Writes the heads of [`user_locks`].
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn user_locks_head(out: &mut dyn Write) -> io::Result<()> {
    write_row(out, USER_LOCKS)
}

/// Writes a row for each lock of a program, call and caller.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn user_locks(out: &mut dyn Write, interval: &UserLockInterval, start_ns: u64) -> io::Result<()> {
    let t_s = since_s(interval.until_ns, start_ns);
    let lost: u64 = interval.lost.values().sum();
    for lock in &interval.locks {
        let util = lock.spin_ns_total.as_ref().map(|ns| format!("{:.9}", interval.cpu_util_ratio(*ns)));
        let cells: [String; USER_LOCKS.len()] = [
            format!("{t_s:.3}"),
            format!("{:.6}", interval.seconds()),
            lock.pid.to_string(),
            lock.comm.clone(),
            lock.kind.word().to_owned(),
            format!("{:#x}", lock.address),
            cell(&lock.call),
            cell(&lock.caller),
            lock.waits.count.to_string(),
            lock.waits.ns_total.to_string(),
            lock.waits.ns_mean().to_string(),
            lock.waits.ns_max.to_string(),
            cell(&lock.spin_ns_total),
            util.unwrap_or_default(),
            lock.not_slept.to_string(),
            lock.timed_out.to_string(),
            cell(&lock.waker),
            lock.stack.join(";"),
            lost.to_string(),
        ];
        write_row(out, cells)?;
    }
    Ok(())
}

fn since_s(until_ns: u64, start_ns: u64) -> f64 {
    until_ns.saturating_sub(start_ns) as f64 * 1e-9
}

fn cell<T: ToString>(value: &Maybe<T>) -> String {
    value.as_ref().map_or_else(|_| String::new(), ToString::to_string)
}

/// Writes one row for each value of the histories, with the changes and breaks that begin at it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn history(out: &mut dyn Write, histories: &[History]) -> io::Result<()> {
    write_row(out, HISTORY)?;
    for history in histories {
        for (i, point) in history.points.iter().enumerate() {
            let plain = |value: f64| plain_of(&history.key, value).to_string();
            let end = |of: fn(&(f64, f64)) -> f64| {
                point.interval.as_ref().map_or(String::new(), |interval| plain(of(interval)))
            };
            let is_break = history.breaks.iter().any(|b| b.at == i);
            let event = match history.changes.iter().find(|c| c.at == i) {
                Some(change) if change.after > change.before => "rise",
                Some(_) => "fall",
                None if is_break => "break",
                None if history.excursions.iter().any(|e| (e.from..e.until).contains(&i)) => "excursion",
                None => "",
            };
            write_row(
                out,
                [
                    rfc3339(point.at_unix_ns),
                    history.key.metric.clone(),
                    history.subject(),
                    history.key.host.clone(),
                    point.run.to_string(),
                    point.version.clone().unwrap_or_default(),
                    plain(point.value),
                    history.key.unit().unwrap_or_default().to_owned(),
                    end(|interval| interval.0),
                    end(|interval| interval.1),
                    event.to_owned(),
                ],
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::locks::{LockKind, LockSample, Waits};
    use record::missing::Missing;
    use record::nic::{InterfaceSample, LinkCounts};

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_missing_count_is_an_empty_cell() {
        let missing = || Missing::because("gone");
        let sample = |name: &str, counts, speed_bits_per_s| InterfaceSample {
            index: 1,
            name: name.to_owned(),
            kind: None,
            loopback: false,
            up: true,
            speed_bits_per_s,
            duplex: Err(missing()),
            counts,
        };
        let counts = LinkCounts { rx_bytes: 12_500_000_000, tx_bytes: 1_024, ..LinkCounts::default() };
        let interval = NicInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            missed_deadline: true,
            interfaces: Ok(vec![
                sample("eth0", Ok(counts), Ok(100_000_000_000)),
                sample("gone0", Err(missing()), Err(missing())),
            ]),
            tcp: Err(missing()),
            udp: Err(missing()),
        };
        let text = text(|out| nic_head(out).and_then(|()| nic(out, &interval, 0)));
        assert!(text.lines().all(|line| line.split(',').count() == 15), "{text}");
        assert!(text.contains("\n1.000000,1.000000,true,eth0,12500000000,1024,0,"), "{text}");
        assert!(text.ends_with("gone0,,,,,,,,,,,\n"), "{text}");
    }

    #[test]
    fn every_lock_has_a_cell_for_each_head() {
        let lock = LockSample {
            cgroup: None,
            kind: LockKind::Spinlock,
            address: 0xff,
            name: Err(Missing::because("it was allocated")),
            caller: Ok("f<a, b>".to_owned()),
            stack: vec!["f".to_owned(), "g".to_owned()],
            waits: Waits { count: 2, ns_total: 10, ns_max: 7, histogram: BTreeMap::new() },
            spin_ns_total: 10,
        };
        let interval = LockInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            cpus: 1,
            missed_deadline: false,
            locks: vec![lock],
            lost: BTreeMap::from([("no-room".to_owned(), 3)]),
        };
        assert_eq!(
            text(|out| locks_head(out).and_then(|()| locks(out, &interval, 0))),
            "t_s,interval_s,kind,lock,address,caller,count,wait_ns_total,wait_ns_mean,wait_ns_max,spin_ns_total,\
             cpu_util_ratio,stack,lost\n\
             1.000,1.000000,spinlock,,0xff,\"f<a, b>\",2,10,5,7,10,0.000000010,f;g,3\n"
        );
        assert_eq!(text(|out| user_locks_head(out)).split(',').count(), USER_LOCKS.len());
    }
}
