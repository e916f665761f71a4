//! Prints the CPU time of each CPU periodically: `cpu [SECONDS [COUNT]]`.

use std::env;
use std::io::{self, Write};
use std::time::Duration;

use bakeoff_probes::cpu_time::{self, Options};
use bakeoff_probes::schedule::Deadlines;
use record::clock::{Clock, Monotonic};
use record::cpu::CpuSample;
use record::missing::Maybe;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args().skip(1);
    let interval = words.next().map_or(Ok(1.0), |w| w.parse())?;
    let count = words.next().map_or(Ok(u32::MAX), |w| w.parse())?;
    let mut out = io::stdout().lock();
    let mut probe = cpu_time::open(&Options::of_this_machine().with_ticks());
    for note in probe.notes() {
        writeln!(out, "note: {note}")?;
    }
    writeln!(out, "rung {}", probe.rung().word())?;
    probe.start();
    let mut deadlines = Deadlines::new(Monotonic.now_ns(), Duration::try_from_secs_f64(interval)?);
    for _ in 0..count {
        while Monotonic.now_ns() < deadlines.next_ns() {
            Monotonic.sleep_until_ns(deadlines.next_ns());
        }
        let read = probe.read();
        let missed = deadlines.answered_at(Monotonic.now_ns());
        writeln!(out, "{:.6} s, missed {missed}, lost {:?}", read.seconds(), read.lost)?;
        for sample in &read.cpus {
            line(&mut out, sample)?;
        }
    }
    match probe.cost() {
        Ok(cost) => writeln!(out, "{cost:?}")?,
        Err(why) => writeln!(out, "cost missing: {why}")?,
    }
    Ok(())
}

fn line(out: &mut dyn Write, sample: &CpuSample) -> io::Result<()> {
    let percent =
        |r: &Maybe<f64>| r.as_ref().map_or_else(|_| "-".to_owned(), |r| format!("{:.2}", r * 100.0));
    let count = |r: Maybe<i64>| r.map_or_else(|_| "-".to_owned(), |r| r.to_string());
    let top = sample.top.as_ref().map_or_else(ToString::to_string, |t| {
        format!("{} {}/{} {:.2} %", t.comm, t.pid, t.tid, t.ratio * 100.0)
    });
    writeln!(
        out,
        "cpu {}: event {} %, tick-before {} %, tick-after {} %, sampled {} %, /proc/stat {} %, unaccounted {} %, not idle {} %, balance {} ns, switches {}, top {top}",
        sample.cpu,
        percent(&sample.event_ratio),
        percent(&sample.tick_before_ratio),
        percent(&sample.tick_after_ratio),
        percent(&sample.sampled_ratio),
        percent(&sample.procstat_busy_ratio),
        percent(&sample.unaccounted_ratio),
        percent(&sample.not_idle_ratio),
        count(sample.balance_ns.clone()),
        count(sample.switches.clone().map(u64::cast_signed)),
    )
}
