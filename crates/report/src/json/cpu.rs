//! `bakeoff.cpu/1`: one interval of the CPUs.

use std::collections::BTreeMap;

use record::cpu::{CgroupSample, CpuInterval, CpuSample, InterruptSample, TaskSample, TopThread};
use record::missing::{Maybe, Missing};
use record::power::EnergySample;
use serde_json::{Value, json};

use super::object::Object;

/// The document of one interval.
///
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn cpu(interval: &CpuInterval, start_ns: u64) -> Value {
    let cpus: Vec<Value> = interval.cpus.iter().map(|s| sample(s, interval.seconds())).collect();
    json!({
        "schema": "bakeoff.cpu/1",
        "t_s": interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9,
        "interval_s": interval.seconds(),
        "rung": interval.rung.word(),
        "missed_deadline": interval.missed_deadline,
        "cpus": cpus,
        "all": all(interval),
        "lost": interval.lost,
    })
}

/// The `interrupts` of an interval; times in seconds.
pub fn interrupts(interrupts: &[InterruptSample]) -> Value {
    let one = |i: &InterruptSample| json!({ "cpu": i.cpu, "kind": i.kind, "time_s": i.ns as f64 * 1e-9 });
    interrupts.iter().map(one).collect()
}

/// The `energy` of an interval, by zone.
pub fn energy(zones: &[EnergySample]) -> Value {
    let one = |zone: &EnergySample| {
        Object::default()
            .with("zone", zone.zone.clone())
            .maybe("energy_j", zone.energy_j.clone())
            .maybe("power_w", zone.power_w())
            .finish()
    };
    zones.iter().map(one).collect()
}

/// The `run_queue_waits` since the start: the number of waits in each power of two, by lower bound.
pub fn waits(waits: &BTreeMap<u64, u64>) -> Value {
    waits.iter().map(|(from_ns, count)| json!({ "from_s": *from_ns as f64 * 1e-9, "count": count })).collect()
}

/// The `tasks` of an interval: threads in the order given; times in seconds.
pub fn tasks(tasks: &[TaskSample]) -> Value {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let one = |task: &TaskSample| {
        Object::default()
            .with("pid", task.pid)
            .with("tid", task.tid)
            .with("comm", task.comm.clone())
            .maybe("cgroup", task.cgroup.clone())
            .with("on_cpu_s", seconds(task.on_cpu_ns))
            .with("alone_s", seconds(task.alone_ns))
            .with("sibling_busy_s", seconds(task.sibling_busy_ns))
            .with("core_share_s", seconds(task.core_share_ns))
            .with("stints", task.stints)
            .with("interrupted_s", seconds(task.interrupted_ns))
            .maybe("run_queue_wait_s", task.wait_ns.clone().map(seconds))
            .maybe("user_s", task.user_ns.clone().map(seconds))
            .maybe("system_s", task.system_ns.clone().map(seconds))
            .with("ended", task.ended)
            .finish()
    };
    tasks.iter().map(one).collect()
}

/// CPU use of each control group.
///
/// - `interval_s`: length of the interval.
pub fn cgroups(groups: &[CgroupSample], interval_s: f64) -> Value {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let one = |group: &CgroupSample| {
        Object::default()
            .maybe("cgroup", group.cgroup.clone())
            .with("container", group.cgroup.as_deref().ok().and_then(record::cgroup::container))
            .with("cpus", seconds(group.on_cpu_ns) / interval_s)
            .with("on_cpu_s", seconds(group.on_cpu_ns))
            .maybe("run_queue_wait_s", group.wait_ns.clone().map(seconds))
            .with("interrupted_s", seconds(group.interrupted_ns))
            .with("stints", group.stints)
            .with("threads", group.threads)
            .finish()
    };
    groups.iter().map(one).collect()
}

fn sample(sample: &CpuSample, seconds: f64) -> Value {
    Object::default()
        .with("cpu", sample.cpu)
        .maybe("event_ratio", sample.event_ratio.clone())
        .maybe("irq_ratio", sample.irq_ratio.clone())
        .maybe("softirq_ratio", sample.softirq_ratio.clone())
        .maybe("run_queue_wait_s", sample.run_queue_wait_ns.clone().map(|ns| ns as f64 * 1e-9))
        .maybe("tick_before_ratio", sample.tick_before_ratio.clone())
        .maybe("tick_after_ratio", sample.tick_after_ratio.clone())
        .maybe("sampled_ratio", sample.sampled_ratio.clone())
        .maybe("procstat_busy_ratio", sample.procstat_busy_ratio.clone())
        .maybe("unaccounted_ratio", sample.unaccounted_ratio.clone())
        .maybe("not_idle_ratio", sample.not_idle_ratio.clone())
        .maybe("stolen_ratio", sample.stolen_ratio.clone())
        .maybe("cycles", sample.cycles.clone())
        .maybe("instructions", sample.instructions.clone())
        .maybe("balance_ns", sample.balance_ns.clone())
        .maybe("switches", sample.switches.clone())
        .maybe("saturated", sample.busy_ratio().map(|_| sample.saturated()))
        .maybe("full", sample.full(seconds))
        .maybe("top", sample.top.as_ref().map(top).map_err(Clone::clone))
        .finish()
}

fn top(top: &TopThread) -> Value {
    json!({ "pid": top.pid, "tid": top.tid, "comm": top.comm, "ratio": top.ratio })
}

/// Means of the ratios, sums of the counts.
fn all(interval: &CpuInterval) -> Value {
    let saturated: Vec<u32> = interval.cpus.iter().filter(|s| s.saturated()).map(|s| s.cpu).collect();
    let is_full = |s: &&CpuSample| s.full(interval.seconds()).unwrap_or(false);
    let full: Vec<u32> = interval.cpus.iter().filter(is_full).map(|s| s.cpu).collect();
    let no_cpu = || Missing::because("no CPU was measured");
    let sum = |of: fn(&CpuSample) -> &Maybe<u64>| -> Maybe<u64> {
        if interval.cpus.is_empty() {
            return Err(no_cpu());
        }
        interval.cpus.iter().map(|s| of(s).clone()).sum()
    };
    let balance: Maybe<i64> = if interval.cpus.is_empty() {
        Err(no_cpu())
    } else {
        interval.cpus.iter().map(|s| s.balance_ns.clone()).sum()
    };
    Object::default()
        .with("cpus", interval.cpus.len())
        .maybe("event_ratio", interval.mean(|s| s.event_ratio.clone()))
        .maybe("irq_ratio", interval.mean(|s| s.irq_ratio.clone()))
        .maybe("softirq_ratio", interval.mean(|s| s.softirq_ratio.clone()))
        .maybe("run_queue_wait_s", sum(|s| &s.run_queue_wait_ns).map(|ns| ns as f64 * 1e-9))
        .maybe("psi_some_ratio", interval.psi_some_ratio.clone())
        .maybe("tick_before_ratio", interval.mean(|s| s.tick_before_ratio.clone()))
        .maybe("tick_after_ratio", interval.mean(|s| s.tick_after_ratio.clone()))
        .maybe("sampled_ratio", interval.mean(|s| s.sampled_ratio.clone()))
        .maybe("procstat_busy_ratio", interval.mean(|s| s.procstat_busy_ratio.clone()))
        .maybe("unaccounted_ratio", interval.mean(|s| s.unaccounted_ratio.clone()))
        .maybe("not_idle_ratio", interval.mean(|s| s.not_idle_ratio.clone()))
        .maybe("stolen_ratio", interval.mean(|s| s.stolen_ratio.clone()))
        .maybe("balance_ns", balance)
        .maybe("switches", sum(|s| &s.switches))
        .with("saturated_cpus", saturated)
        .with("full_cpus", full)
        .with("unbalanced_cpus", interval.imbalances().map(|(cpu, _)| cpu).collect::<Vec<_>>())
        .finish()
}
