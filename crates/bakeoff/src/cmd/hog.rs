//! `bakeoff hog`: work with a known truth, for `prove`, for teaching, and for trials of other tools.

use std::fs::File;
use std::io::{Read as _, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use nix::errno::Errno;
use probes::hog::lock::{KernelLock, LockTruth};
use probes::hog::packets::{self, Packets};
use probes::hog::{self, HogError, Tick, Truth, Work};
use probes::topology::Cores;
use record::quantity;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::Screen;

/// Run work with a known truth: hide from the clock tick, or inflate its count; fill CPUs; wait for a lock
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    /// Duration; by default until Ctrl-C
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true, value_parser = quantity::duration)]
    time: Option<Duration>,

    /// For `prove`: print `ready` when the work starts and `seen NS` for each byte of standard input, and
    /// exit when standard input ends
    #[arg(long, global = true, hide = true)]
    ready: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Work only between clock ticks: tools that count ticks see none of it
    #[command(after_help = "Examples:\n  bakeoff hog hide --share 70% --time 10s")]
    Hide {
        /// CPU; by default the last one that this process may use
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,

        /// Share of the CPU, up to 95%
        #[arg(long, value_name = "PERCENT", default_value = "70%", value_parser = share)]
        share: f64,
    },
    /// Work only around clock ticks: tools that count ticks overestimate it several times
    #[command(after_help = "Examples:\n  bakeoff hog antihide --time 10s")]
    Antihide {
        /// CPU; by default the last one that this process may use
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
    },
    /// Spin with any number of threads, spread over the given CPUs in turn
    #[command(after_help = "Examples:\n  bakeoff hog spin --threads 4 --cpus 1 --time 10s")]
    Spin {
        /// Threads; by default one on each of the CPUs
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
        threads: Option<u32>,

        /// CPUs: 0-3,8; by default all that this process may use
        #[arg(long, value_name = "LIST", value_parser = cpu_list, conflicts_with = "core_of")]
        cpus: Option<CpuList>,

        /// Use all hardware threads of the core that has this CPU
        #[arg(long, value_name = "N")]
        core_of: Option<u32>,
    },
    /// Let threads wait for one lock: in the program (futex), or in the kernel (inode or pipe)
    #[command(after_help = "Examples:\n  bakeoff hog lock inode --hold 20ms --time 10s")]
    Lock {
        /// Kind of lock: futex, inode or pipe
        #[arg(value_name = "LOCK", default_value = "futex", value_parser = lock)]
        lock: Lock,

        /// Threads that wait
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        threads: u32,

        /// Time for which the lock is held each time
        #[arg(long, value_name = "DURATION", default_value = "1ms", allow_hyphen_values = true, value_parser = quantity::duration)]
        hold: Duration,
    },
    /// Send packets that one CPU receives in softirqs: work that belongs to no thread (needs root)
    #[command(after_help = "Examples:\n  bakeoff hog packets --rate 50000 --time 10s")]
    Packets {
        /// CPU that receives; by default the last one that this process may use
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,

        /// Packets per second, sent in groups of --together; 0: as many as possible
        #[arg(long, value_name = "N", default_value_t = 50_000)]
        rate: u64,

        /// Packets per interrupt
        #[arg(long, value_name = "N", default_value_t = packets::TOGETHER_MAX, value_parser = clap::value_parser!(u16).range(1..=i64::from(packets::TOGETHER_MAX)))]
        together: u16,

        /// Also spin on the CPU that receives
        #[arg(long)]
        spin: bool,
    },
    /// Fill one CPU of many with one thread: an average over all CPUs hides it
    #[command(after_help = "Examples:\n  bakeoff hog cpus --cpu 1 --time 10s")]
    Cpus {
        /// CPU; by default the last one that this process may use
        #[arg(long, value_name = "N")]
        cpu: Option<u32>,
    },
}

/// One lock that a hog can hold.
#[derive(Debug, Clone, Copy)]
enum Lock {
    Futex,
    Kernel(KernelLock),
}

const EXAMPLES: &str = "\
Examples:
  bakeoff hog hide --share 70% & mpstat -P ALL 1     70 % of a CPU, and mpstat calls it idle
  bakeoff hog antihide --time 30s                    10 % of a CPU, and tick counters report about half
  bakeoff hog spin --threads 4 --cpus 1              four threads share CPU 1
  bakeoff hog spin --core-of 0                       every hardware thread of one core
  bakeoff hog packets & bakeoff cpu 1 5              softirqs on a CPU on which nothing runs
  bakeoff hog lock inode --hold 20ms                 threads that wait for one file: see `bakeoff locks`";

/// A time without end.
const FOR_EVER: Duration = Duration::from_hours(365 * 24);

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let stop = stop_flag(args.ready)?;
    let begin = |out: &mut dyn Write, what: &str| begin(args, out, what);
    let work = Work { length: args.time.unwrap_or(FOR_EVER), stop: &stop };
    let truth = match &args.what {
        What::Hide { cpu, share } => {
            let (cpu, tick) = tick_on(*cpu)?;
            let percent = share * 100.0;
            begin(
                out,
                &format!("working for {percent:.0} % of CPU {cpu}, between its ticks ({})", every(tick)),
            )?;
            hog::hide(cpu, *share, tick, &work)?
        }
        What::Antihide { cpu } => {
            let (cpu, tick) = tick_on(*cpu)?;
            begin(out, &format!("working for 10 % of CPU {cpu}, around its ticks ({})", every(tick)))?;
            hog::antihide(cpu, tick, &work)?
        }
        What::Spin { threads, cpus, core_of } => {
            let cpus = spin_on(cpus.as_ref(), *core_of)?;
            let threads = threads.map_or(cpus.len(), |n| n as usize);
            let places: Vec<u32> = cpus.iter().copied().cycle().take(threads).collect();
            let used = &cpus[..threads.min(cpus.len())];
            begin(out, &format!("spinning on CPUs {}, threads: {threads}", list(used)))?;
            hog::spin(&places, &work)?
        }
        What::Lock { lock, threads, hold } => {
            begin(out, &format!("{threads} threads wait for one lock, held for {hold:?} each time"))?;
            let truth = match lock {
                Lock::Futex => hog::lock::hold_mutex(*threads, *hold, &work),
                Lock::Kernel(lock) => hog::lock::hold_kernel_lock(*lock, *threads, *hold, &work)
                    .context("holding a lock of the kernel (needs root)")?,
            };
            print_waits(truth, global, out)?;
            return Ok(ending(args, &stop));
        }
        What::Packets { cpu, rate, together, spin } => {
            let cpu = cpu.map_or_else(last_usable, usable)?;
            let from_cpu = hog::usable().into_iter().find(|other| *other != cpu);
            let from_cpu = from_cpu.ok_or_else(|| Exit::CannotHere.with("sending needs a second CPU"))?;
            packets::can_be_sent(cpu).context("steering packets to a CPU (needs root)")?;
            let packets = if *rate == 0 {
                "as many packets as possible".into()
            } else {
                format!("{rate} packets a second")
            };
            begin(out, &format!("CPU {cpu} receives {packets} from CPU {from_cpu}"))?;
            let packets = Packets { cpu, from_cpu, per_s: *rate, together: *together, beside_spinner: *spin };
            packets::packets(packets, &work)?
        }
        What::Cpus { cpu } => {
            let cpu = cpu.map_or_else(last_usable, usable)?;
            let of = hog::usable().len();
            begin(out, &format!("filling CPU {cpu}, one of {of} usable CPUs, with one thread"))?;
            hog::spin(&[cpu], &work)?
        }
    };
    print(truth, global, out)?;
    Ok(ending(args, &stop))
}

fn ending(args: &Args, stop: &AtomicBool) -> Exit {
    if stop.load(Ordering::Relaxed) && args.time.is_some() && !args.ready {
        Exit::Interrupted
    } else {
        Exit::Good
    }
}

/// A flag that Ctrl-C raises, and with `ready` the end of standard input.
fn stop_flag(ready: bool) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second signal ends the process if nothing reacted to the first.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted as i32,
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    if ready {
        let flag = Arc::clone(&stop);
        // Writes past the lock of standard output, which is held until the work is over.
        let mut out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        std::thread::Builder::new().name("input".into()).spawn(move || {
            while std::io::stdin().read(&mut [0]).is_ok_and(|n| n == 1) {
                if out.write_all(format!("seen {}\n", hog::seen_ns()).as_bytes()).is_err() {
                    break;
                }
            }
            flag.store(true, Ordering::Relaxed);
        })?;
    }
    Ok(stop)
}

fn begin(args: &Args, out: &mut dyn Write, what: &str) -> anyhow::Result<()> {
    if args.ready {
        writeln!(out, "ready")?;
        return Ok(out.flush()?);
    }
    let until = args.time.map_or("until Ctrl-C".to_owned(), |t| format!("for {} s", t.as_secs_f64()));
    Screen::new().line(&format!("{what}, {until}"));
    Ok(())
}

fn print(truth: Truth, global: &Global, out: &mut dyn Write) -> anyhow::Result<()> {
    let Truth { wall_ns, cpu_ns, switches } = truth;
    if global.json {
        let document = json!({
            "schema": "bakeoff.hog/1", "wall_ns": wall_ns, "cpu_ns": cpu_ns, "switches": switches,
            "cpu_ratio": cpu_ns as f64 / wall_ns.max(1) as f64,
        });
        return print_json(out, &document);
    }
    let (wall_s, cpu_s) = (wall_ns as f64 * 1e-9, cpu_ns as f64 * 1e-9);
    writeln!(
        out,
        "the truth, by its own clock: {cpu_s:.3} s of CPU in {wall_s:.3} s, {:.2} % of one CPU; {switches} context switches",
        100.0 * cpu_s / wall_s.max(1e-9)
    )?;
    Ok(out.flush()?)
}

fn print_waits(truth: LockTruth, global: &Global, out: &mut dyn Write) -> anyhow::Result<()> {
    let LockTruth { waits, wait_ns, .. } = truth;
    if global.json {
        return print_json(out, &json!({ "schema": "bakeoff.hog/1", "waits": waits, "wait_ns": wait_ns }));
    }
    let wait_s = wait_ns as f64 * 1e-9;
    writeln!(out, "the truth, by the threads' own clocks: {waits} waits, {wait_s:.3} s together")?;
    Ok(out.flush()?)
}

fn lock(word: &str) -> Result<Lock, String> {
    match word {
        "futex" => Ok(Lock::Futex),
        "inode" => Ok(Lock::Kernel(KernelLock::Inode)),
        "pipe" => Ok(Lock::Kernel(KernelLock::Pipe)),
        _ => Err("expected futex, inode or pipe".into()),
    }
}

fn tick_on(cpu: Option<u32>) -> anyhow::Result<(u32, Tick)> {
    let cpu = cpu.map_or_else(last_usable, usable)?;
    Ok((cpu, hog::find_tick(cpu, Duration::from_secs(1))?))
}

fn last_usable() -> Result<u32, HogError> {
    hog::usable().last().copied().ok_or(HogError::Cpu { cpu: 0, source: Errno::EINVAL })
}

fn spin_on(cpus: Option<&CpuList>, core_of: Option<u32>) -> Result<Vec<u32>, HogError> {
    let wanted: Vec<u32> = if let Some(cpu) = core_of {
        let cores = Cores::read(Path::new("/"));
        let core = cores.shared().iter().find(|core| core.contains(&cpu));
        core.map_or(vec![cpu], |core| core.iter().copied().collect())
    } else {
        cpus.map_or_else(|| hog::usable().into_iter().collect(), |list| list.0.clone())
    };
    wanted.into_iter().map(usable).collect()
}

/// Returns the CPU if this process may use it; checked before any report of work on it.
fn usable(cpu: u32) -> Result<u32, HogError> {
    if hog::usable().contains(&cpu) { Ok(cpu) } else { Err(HogError::Cpu { cpu, source: Errno::EINVAL }) }
}

fn every(tick: Tick) -> String {
    format!("one every {:.2} ms", tick.period_ns as f64 * 1e-6)
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A list of CPUs in the order of their numbers; a CPU that is named twice counts twice only in `--threads`.
#[derive(Debug, Clone)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// Reads `0-3,8`.
pub(crate) fn cpu_list(text: &str) -> Result<CpuList, String> {
    let cpus = probes::cpu_list::parse(text).map_err(|e| e.to_string())?;
    if cpus.is_empty() {
        Err("the list of CPUs is empty".into())
    } else {
        Ok(CpuList(cpus.into_iter().collect()))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = quantity::ratio(text).map_err(|e| e.to_string())?;
    let max = hog::HIDE_RATIO_MAX;
    match share {
        none if none <= 0.0 => Err("must be more than 0%".to_owned()),
        much if much > max => Err(format!("must be at most {:.0}%: no more can be hidden", max * 100.0)),
        share => Ok(share),
    }
}
