//! `bakeoff.io/1`: one interval of the block devices.

use std::collections::BTreeMap;

use record::block_io::{IoEvents, IoGroup, IoInterval, Latencies, Powers};
use serde_json::{Map, Value, json};

/// The document of one interval.
///
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
/// - `aliases`: names by device that survive a reboot.
pub fn io(interval: &IoInterval, start_ns: u64, aliases: &BTreeMap<String, Vec<String>>) -> Value {
    let seconds = interval.seconds();
    let c = interval.counts;
    let per_s = |n: u64| n as f64 / seconds;
    json!({
        "schema": "bakeoff.io/1",
        "t_s": interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        "interval_s": seconds,
        "missed_deadline": interval.missed_deadline,
        "events": interval.events.word(),
        "rates": {
            "reads_per_s": per_s(c.reads),
            "writes_per_s": per_s(c.writes),
            "async_per_s": per_s(c.asynchronous),
            "flushes_per_s": per_s(c.flushes),
            "discards_per_s": per_s(c.discards),
            "others_per_s": per_s(c.others),
        },
        "groups": interval.groups.iter().map(|g| group(g, interval.events, aliases)).collect::<Vec<_>>(),
        "in_flight": interval.events.tell_end().then_some(interval.in_flight),
        "unmatched": interval.unmatched.as_ref().ok(),
        "merged": interval.merged.as_ref().ok(),
        "missing": missing(interval),
        "lost": interval.lost,
    })
}

/// Values that the interval's events cannot give, each with its reason.
fn missing(interval: &IoInterval) -> Map<String, Value> {
    let (why, names): (&str, &[&str]) = match interval.events {
        IoEvents::StartToDone | IoEvents::InsertToComplete => ("", &[]),
        IoEvents::IssueToComplete => ("requests are traced from their issue only", &["latency_ns"]),
        IoEvents::Issue => (
            "requests are counted at their issue",
            &["latency_ns", "issue_latency_ns", "errors", "in_flight"],
        ),
    };
    let of_events = names.iter().map(|name| (*name, why.to_owned()));
    let counts = [("unmatched", &interval.unmatched), ("merged", &interval.merged)];
    let of_counts = counts.into_iter().filter_map(|(name, n)| Some((name, n.as_ref().err()?.reason.clone())));
    of_events.chain(of_counts).map(|(name, why)| (name.to_owned(), why.into())).collect()
}

fn group(g: &IoGroup, events: IoEvents, aliases: &BTreeMap<String, Vec<String>>) -> Value {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
    if let Some(device) = &g.device {
        set("device", device.clone().into());
        if let Some(names) = aliases.get(device) {
            set("aliases", names.clone().into());
        }
    }
    if let Some(comm) = &g.comm {
        set("comm", comm.clone().into());
    }
    if let Some(cgroup) = &g.cgroup {
        set("cgroup", cgroup.clone().into());
        set("container", record::cgroup::container(cgroup).into());
    }
    if let Some(file) = &g.file {
        set("file", g.inode.as_ref().map(|_| file.clone()).into());
        set("inode", g.inode.as_ref().map(|i| i.number).into());
        set("inode_device", g.inode.as_ref().map(|i| i.device.clone()).into());
        if g.inode.is_none() {
            set(
                "missing",
                json!({ "file": "the request carries no page of a file, and is not direct I/O through the kernel's iomap" }),
            );
        }
    }
    if let Some(op) = g.op {
        set("op", op.word().into());
    }
    set("count", g.count.into());
    set("bytes", g.bytes.into());
    set("errors", events.tell_end().then_some(g.errors).into());
    set("size_bytes", powers(&g.sizes));
    set("latency_ns", events.tell_start().then(|| latencies(&g.from_start)).into());
    set("issue_latency_ns", events.tell_end().then(|| latencies(&g.from_issue)).into());
    set("address_sectors", powers(&g.addresses));
    set("seek_sectors", json!({ "ahead": powers(&g.seeks.ahead), "back": powers(&g.seeks.back) }));
    set("sequential_ratio", g.seeks.sequential_ratio().into());
    Value::Object(object)
}

/// Counts by lower bound.
fn powers(powers: &Powers) -> Value {
    Value::Object(powers.iter().map(|(bound, n)| (bound.to_string(), (*n).into())).collect())
}

fn latencies(l: &Latencies) -> Value {
    let buckets: Map<String, Value> =
        l.buckets.iter().map(|b| (b.from_ns.to_string(), b.count.into())).collect();
    json!({
        "count": l.count(),
        "mean": l.mean_ns(),
        "p50": l.quantile_ns(0.5),
        "p90": l.quantile_ns(0.9),
        "p99": l.quantile_ns(0.99),
        "p99_9": l.quantile_ns(0.999),
        "max": (!l.buckets.is_empty()).then_some(l.max_ns),
        "buckets": buckets,
    })
}
