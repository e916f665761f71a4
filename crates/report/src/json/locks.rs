//! `bakeoff.locks/1` and `bakeoff.ulocks/1`: one interval of kernel locks, and one of locks of programs.

use record::locks::{LockInterval, LockSample, UserLockInterval, UserLockSample, Waits};
use serde_json::{Map, Value, json};

use super::object::Object;

/// The document of one interval.
///
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn locks(interval: &LockInterval, start_ns: u64) -> Value {
    let locks: Vec<Value> = interval.locks.iter().map(|l| lock(l, interval)).collect();
    let (all, spun_ns) = interval.total();
    json!({
        "schema": "bakeoff.locks/1",
        "t_s": interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        "interval_s": interval.seconds(),
        "missed_deadline": interval.missed_deadline,
        "cpus": interval.cpus,
        "locks": locks,
        "total": {
            "count": all.count,
            "wait_ns_total": all.ns_total,
            "spin_ns_total": spun_ns,
            "cpu_util_ratio": interval.cpu_util_ratio(spun_ns),
        },
        "lower_bounds": !interval.lost.is_empty(),
        "lost": interval.lost,
    })
}

fn lock(lock: &LockSample, interval: &LockInterval) -> Value {
    let object = in_group(lock.cgroup.as_deref())
        .with("kind", lock.kind.word())
        .maybe("lock", lock.name.clone())
        .with("address", format!("{:#x}", lock.address))
        .maybe("caller", lock.caller.clone());
    waits(object, &lock.waits)
        .with("spin_ns_total", lock.spin_ns_total)
        .with("cpu_util_ratio", interval.cpu_util_ratio(lock.spin_ns_total))
        .with("stack", lock.stack.clone())
        .finish()
}

/// The document of one interval of programs' locks.
///
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn user_locks(interval: &UserLockInterval, start_ns: u64) -> Value {
    let locks: Vec<Value> = interval.locks.iter().map(|l| user_lock(l, interval)).collect();
    let (all, spun_ns) = interval.total();
    let util = spun_ns.clone().map(|ns| interval.cpu_util_ratio(ns));
    let total = Object::default()
        .with("count", all.count)
        .with("wait_ns_total", all.ns_total)
        .maybe("spin_ns_total", spun_ns)
        .maybe("cpu_util_ratio", util);
    json!({
        "schema": "bakeoff.ulocks/1",
        "t_s": interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        "interval_s": interval.seconds(),
        "missed_deadline": interval.missed_deadline,
        "cpus": interval.cpus,
        "locks": locks,
        "total": total.finish(),
        "lower_bounds": !interval.lost.is_empty(),
        "lost": interval.lost,
    })
}

fn user_lock(lock: &UserLockSample, interval: &UserLockInterval) -> Value {
    let spun_ns = &lock.spin_ns_total;
    let object = in_group(lock.cgroup.as_deref())
        .with("pid", lock.pid)
        .with("comm", lock.comm.as_str())
        .with("kind", lock.kind.word())
        .with("address", format!("{:#x}", lock.address))
        .maybe("call", lock.call.clone())
        .maybe("caller", lock.caller.clone());
    waits(object, &lock.waits)
        .maybe("spin_ns_total", spun_ns.clone())
        .maybe("cpu_util_ratio", spun_ns.clone().map(|ns| interval.cpu_util_ratio(ns)))
        .with("not_slept", lock.not_slept)
        .with("timed_out", lock.timed_out)
        .maybe("waker", lock.waker.clone())
        .with("stack", lock.stack.clone())
        .finish()
}

/// An object that begins with the control group, if waits are split by control group.
fn in_group(cgroup: Option<&str>) -> Object {
    match cgroup {
        Some(path) => {
            Object::default().with("cgroup", path).with("container", record::cgroup::container(path))
        }
        None => Object::default(),
    }
}

/// Adds the fields that every kind of wait has.
fn waits(object: Object, waits: &Waits) -> Object {
    let histogram: Map<String, Value> =
        waits.histogram.iter().map(|(from_ns, n)| (from_ns.to_string(), (*n).into())).collect();
    object
        .with("count", waits.count)
        .with("wait_ns_total", waits.ns_total)
        .with("wait_ns_mean", waits.ns_mean())
        .with("wait_ns_max", waits.ns_max)
        .with("histogram", histogram)
}
