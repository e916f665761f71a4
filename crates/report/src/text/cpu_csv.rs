//! The CPUs as comma-separated values: a row a CPU and interval, a value that we lack is empty.

use std::io::{self, Write};

use record::cpu::CpuInterval;
use record::missing::Maybe;
use record::printable::csv_cell;

/// The names of the columns, once.
///
/// # Errors
///
/// Those of `out`.
pub fn cpu_csv_header(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "t_s,interval_s,rung,missed_deadline,cpu,event_ratio,irq_ratio,softirq_ratio,tick_before_ratio,tick_after_ratio,sampled_ratio,\
         procstat_busy_ratio,unaccounted_ratio,not_idle_ratio,stolen_ratio,cycles,instructions,balance_ns,switches,\
         run_queue_wait_s,saturated,top_pid,top_tid,top_comm,top_ratio"
    )
}

/// The rows of one interval.
///
/// - `start_ns`: the moment that `t_s` counts from.
///
/// # Errors
///
/// Those of `out`.
pub fn cpu_csv(out: &mut dyn Write, interval: &CpuInterval, start_ns: u64) -> io::Result<()> {
    let t_s = interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let missed = u8::from(interval.missed_deadline);
    for s in &interval.cpus {
        write!(out, "{t_s:.6},{:.9},{},{missed},{}", interval.seconds(), interval.rung.word(), s.cpu)?;
        for ratio in [
            &s.event_ratio,
            &s.irq_ratio,
            &s.softirq_ratio,
            &s.tick_before_ratio,
            &s.tick_after_ratio,
            &s.sampled_ratio,
            &s.procstat_busy_ratio,
            &s.unaccounted_ratio,
            &s.not_idle_ratio,
            &s.stolen_ratio,
        ] {
            write!(out, ",{}", cell(ratio))?;
        }
        write!(out, ",{},{}", cell(&s.cycles), cell(&s.instructions))?;
        write!(out, ",{},{}", cell(&s.balance_ns), cell(&s.switches))?;
        write!(out, ",{}", cell(&s.run_queue_wait_ns.clone().map(|ns| ns as f64 * 1e-9)))?;
        write!(out, ",{}", cell(&s.busy_ratio().map(|_| u8::from(s.saturated()))))?;
        match &s.top {
            Ok(top) => writeln!(out, ",{},{},{},{}", top.pid, top.tid, csv_cell(&top.comm), top.ratio)?,
            Err(_) => writeln!(out, ",,,,")?,
        }
    }
    Ok(())
}

fn cell<T: ToString>(value: &Maybe<T>) -> String {
    value.as_ref().map_or(String::new(), ToString::to_string)
}
