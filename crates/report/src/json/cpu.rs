//! `bakeoff.cpu/1`: one interval of the CPUs.

use record::cpu::{CpuInterval, CpuSample, TaskSample, TopThread};
use record::missing::{Maybe, Missing};
use serde_json::{Value, json};

use super::object::Object;

/// The document of one interval.
///
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn cpu(interval: &CpuInterval, start_ns: u64) -> Value {
    let cpus: Vec<Value> = interval.cpus.iter().map(sample).collect();
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

/// The `tasks` of an interval: threads in the order given; times in seconds.
pub fn tasks(tasks: &[TaskSample]) -> Value {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let one = |task: &TaskSample| {
        Object::default()
            .with("pid", task.pid)
            .with("tid", task.tid)
            .with("comm", task.comm.clone())
            .with("on_cpu_s", seconds(task.on_cpu_ns))
            .with("alone_s", seconds(task.alone_ns))
            .with("sibling_busy_s", seconds(task.sibling_busy_ns))
            .with("core_share_s", seconds(task.core_share_ns))
            .with("stints", task.stints)
            .maybe("user_s", task.user_ns.clone().map(seconds))
            .maybe("system_s", task.system_ns.clone().map(seconds))
            .with("ended", task.ended)
            .finish()
    };
    tasks.iter().map(one).collect()
}

fn sample(sample: &CpuSample) -> Value {
    Object::default()
        .with("cpu", sample.cpu)
        .maybe("event_ratio", sample.event_ratio.clone())
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
        .maybe("top", sample.top.as_ref().map(top).map_err(Clone::clone))
        .finish()
}

fn top(top: &TopThread) -> Value {
    json!({ "pid": top.pid, "tid": top.tid, "comm": top.comm, "ratio": top.ratio })
}

/// Means of the ratios, sums of the counts.
fn all(interval: &CpuInterval) -> Value {
    let saturated: Vec<u32> = interval.cpus.iter().filter(|s| s.saturated()).map(|s| s.cpu).collect();
    let no_cpu = || Missing::because("no CPU was seen");
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
        .with("unbalanced_cpus", interval.imbalances().map(|(cpu, _)| cpu).collect::<Vec<_>>())
        .finish()
}
