//! A workload with a known truth, as a separate process:
//! `hog hide CPU PERCENT SECONDS`, `hog antihide CPU SECONDS`, `hog spin CPU[,CPU...] SECONDS`,
//! `hog ping-pong CPU ROUNDS`, `hog packets CPU FROM_CPU PER_SECOND SECONDS [spin]`.
//!
//! Prints `ready` when the work starts, `seen NS` for each byte that it reads (see `hog::seen_ns`), and at
//! its end its report. Ends early when its input ends.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use bakeoff_probes::hog::packets::{self, Packets};
use bakeoff_probes::hog::{self, Tick, Truth, Work};

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    thread::spawn(|| {
        while io::stdin().read(&mut [0]).is_ok_and(|n| n == 1) {
            if writeln!(io::stdout(), "seen {}", hog::seen_ns()).is_err() {
                break;
            }
        }
        STOP.store(true, Ordering::Relaxed);
    });
    let truth = match words[..] {
        ["hide", cpu, percent, seconds] => {
            let tick = find_tick(cpu.parse()?)?;
            ready()?;
            hog::hide(cpu.parse()?, percent.parse::<f64>()? / 100.0, tick, &work(seconds)?)?
        }
        ["antihide", cpu, seconds] => {
            let tick = find_tick(cpu.parse()?)?;
            ready()?;
            hog::antihide(cpu.parse()?, tick, &work(seconds)?)?
        }
        ["spin", cpus, seconds] => {
            let cpus: Vec<u32> = cpus.split(',').map(str::parse).collect::<Result<_, _>>()?;
            ready()?;
            hog::spin(&cpus, &work(seconds)?)?
        }
        ["ping-pong", cpu, rounds] => {
            ready()?;
            hog::ping_pong(Some(cpu.parse()?), rounds.parse()?)?
        }
        ["packets", cpu, from_cpu, per_s, seconds, ref rest @ ..] => {
            let packets = Packets {
                cpu: cpu.parse()?,
                from_cpu: from_cpu.parse()?,
                per_s: per_s.parse()?,
                together: packets::TOGETHER_MAX,
                beside_spinner: rest == ["spin"],
            };
            packets::can_be_sent(packets.cpu)?;
            ready()?;
            packets::packets(packets, &work(seconds)?)?
        }
        _ => return Err("usage: hog hide CPU PERCENT SECONDS | antihide CPU SECONDS | spin CPUS SECONDS | ping-pong CPU ROUNDS | packets CPU FROM_CPU PER_SECOND SECONDS [spin]".into()),
    };
    let Truth { wall_ns, cpu_ns, switches } = truth;
    writeln!(io::stdout(), "wall_ns {wall_ns} cpu_ns {cpu_ns} switches {switches}")?;
    Ok(())
}

fn find_tick(cpu: u32) -> Result<Tick, Box<dyn std::error::Error>> {
    let tick = hog::find_tick(cpu, Duration::from_secs(1))?;
    writeln!(io::stderr(), "tick every {} ns at {} ns", tick.period_ns, tick.phase_ns)?;
    Ok(tick)
}

fn work(seconds: &str) -> Result<Work<'static>, Box<dyn std::error::Error>> {
    Ok(Work { length: Duration::try_from_secs_f64(seconds.parse()?)?, stop: &STOP })
}

fn ready() -> io::Result<()> {
    writeln!(io::stdout(), "ready")
}
