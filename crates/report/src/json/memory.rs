//! `bakeoff.memory/1`: one interval of the machine's memory and of each process's.

use analysis::growth::Growth;
use record::memory::{MachineMemory, MemoryInterval, ProcessMemory};
use record::missing::Maybe;
use serde_json::{Value, json};

use super::object::Object;

/// The document of one interval.
///
/// - `growths`: for each process, in the same order, the growth rate of its resident set since the start.
/// - `start_ns`: the moment that `t_s` counts from; `t_s` is the interval's end.
pub fn memory(interval: &MemoryInterval, growths: &[Maybe<Growth>], start_ns: u64) -> Value {
    let processes = interval.processes.iter().zip(growths);
    Object::default()
        .with("schema", "bakeoff.memory/1")
        .with("t_s", interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9)
        .with("interval_s", interval.seconds())
        .with("missed_deadline", interval.missed_deadline)
        .maybe("machine", interval.machine.as_ref().map(machine).map_err(Clone::clone))
        .with("processes", processes.map(|(p, growth)| process(p, growth)).collect::<Vec<_>>())
        .with("ended", interval.ended)
        .finish()
}

fn machine(m: &MachineMemory) -> Value {
    Object::default()
        .with("total_bytes", m.total_bytes)
        .with("available_bytes", m.available_bytes)
        .with("available_change_bytes", m.available_change_bytes)
        .with("free_bytes", m.free_bytes)
        .with("swap_total_bytes", m.swap_total_bytes)
        .with("swap_used_bytes", m.swap_used_bytes)
        .with("minor_faults", m.minor_faults)
        .with("major_faults", m.major_faults)
        .with("scanned_bytes", m.scanned_bytes)
        .with("reclaimed_bytes", m.reclaimed_bytes)
        .with("reclaimed_at_limits_bytes", m.reclaimed_at_limits_bytes)
        .with("reclaimed_direct_bytes", m.reclaimed_direct_bytes)
        .with("stalls", m.stalls)
        .with("swapped_in_bytes", m.swapped_in_bytes)
        .with("swapped_out_bytes", m.swapped_out_bytes)
        .maybe("oom_kills", m.oom_kills.clone())
        .maybe("pressure_some_ratio", m.pressure_some_ratio.clone())
        .finish()
}

fn process(p: &ProcessMemory, growth: &Maybe<Growth>) -> Value {
    let interval = |g: &Growth| json!({"per_s": g.per_s, "low": g.low, "high": g.high});
    Object::default()
        .with("pid", p.pid)
        .with("comm", p.comm.as_str())
        .with("rss_bytes", p.rss_bytes)
        .with("rss_change_bytes", p.rss_change_bytes)
        .with("swap_bytes", p.swap_bytes)
        .with("minor_faults", p.minor_faults)
        .with("major_faults", p.major_faults)
        .maybe("growth_bytes_per_s", growth.as_ref().map(interval).map_err(Clone::clone))
        .finish()
}
