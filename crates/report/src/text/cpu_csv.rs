//! The CPUs as comma-separated values: a row a CPU and interval, a value that we lack is empty.

use std::io::{self, Write};

use record::cpu::CpuInterval;
use record::missing::Maybe;

/// The names of the columns, once.
///
/// # Errors
///
/// Those of `out`.
pub fn cpu_csv_header(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "t_s,interval_s,rung,missed_deadline,cpu,event_ratio,tick_before_ratio,tick_after_ratio,sampled_ratio,\
         procstat_busy_ratio,unaccounted_ratio,not_idle_ratio,stolen_ratio,cycles,instructions,balance_ns,switches,\
         saturated,top_pid,top_tid,top_comm,top_ratio"
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
        write!(out, ",{}", cell(&s.busy_ratio().map(|_| u8::from(s.saturated()))))?;
        match &s.top {
            Ok(top) => writeln!(out, ",{},{},{},{}", top.pid, top.tid, quoted(&top.comm), top.ratio)?,
            Err(_) => writeln!(out, ",,,,")?,
        }
    }
    Ok(())
}

fn cell<T: ToString>(value: &Maybe<T>) -> String {
    value.as_ref().map_or(String::new(), ToString::to_string)
}

/// As RFC 4180 has it: a thread may be named anything.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_comma_stays_one_field() {
        assert_eq!(quoted("kworker/0:1"), "kworker/0:1");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
