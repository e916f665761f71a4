//! Workloads with a known truth: instruments are checked against what these say of themselves.
//!
//! Each runs until its time is over or its flag is raised, and reports its own `CLOCK_PROCESS_CPUTIME_ID`, which the
//! scheduler keeps to the nanosecond: so a hog should be the only work of its process.
//!
//! That clock starts at the wake-up, some 5 to 30 us before the thread has the CPU, and counts the interrupts that come
//! while the thread runs. [`seen_ns`] counts neither. The time that the thread had the CPU lies between the two.

pub mod lock;
pub mod packets;

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};

/// What a hog says of itself, when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    /// How long it was at it.
    pub wall_ns: u64,
    /// CPU time of its process in that time.
    pub cpu_ns: u64,
    /// Times that its threads came off a CPU, of their own will or not.
    pub switches: u64,
}

/// When the scheduler's tick comes: every `period_ns`, and `phase_ns` after the multiples of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// 4,000,000 where HZ is 250.
    pub period_ns: u64,
    /// Where in the period of `CLOCK_MONOTONIC` it falls.
    pub phase_ns: u64,
}

/// Why a hog could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum HogError {
    /// The CPU is offline, or this process may not run there.
    #[error("CPU {cpu} cannot be had: it is offline, or not among the CPUs that this process may use")]
    Cpu {
        /// Its number.
        cpu: u32,
        /// What the kernel said.
        source: nix::Error,
    },
    /// No regular interruption was found.
    #[error(
        "the tick was not found in {looked:?} of spinning on CPU {cpu}: too much else runs there, or ticks are off"
    )]
    NoTick {
        /// Where it was looked for.
        cpu: u32,
        /// For how long.
        looked: Duration,
    },
    /// A pipe or a thread could not be had.
    #[error("cannot set up the work")]
    System(#[from] io::Error),
}

/// Sleeps while the tick comes and burns `ratio` of the time in between, on one CPU: what tick counters do not see.
///
/// `ratio`: from 0 to [`HIDE_RATIO_MAX`]. `tick`: from [`find_tick`] on the same CPU.
///
/// # Errors
///
/// [`HogError::Cpu`].
///
/// # Panics
///
/// Where the ratio is out of its range: there would be no place left to hide.
pub fn hide(cpu: u32, ratio: f64, tick: Tick, work: &Work<'_>) -> Result<Truth, HogError> {
    assert!((0.0..=HIDE_RATIO_MAX).contains(&ratio), "a share from 0 to {HIDE_RATIO_MAX} can hide");
    let burn_ns = scaled(tick.period_ns, ratio);
    let from_tick_ns = scaled(tick.period_ns, HIDE_DELAY_RATIO);
    around_ticks(cpu, tick, work, |tick_ns| (tick_ns + from_tick_ns, tick_ns + from_tick_ns + burn_ns))
}

/// Runs only around ticks, a twentieth of the period before and after each: what tick counters take for half a CPU.
///
/// # Errors
///
/// [`HogError::Cpu`].
pub fn antihide(cpu: u32, tick: Tick, work: &Work<'_>) -> Result<Truth, HogError> {
    let around_ns = tick.period_ns / 20;
    around_ticks(cpu, tick, work, |tick_ns| (tick_ns - around_ns, tick_ns + around_ns))
}

/// Spins as many threads as there are CPUs in the list, each on its own; a CPU that is named twice gets two.
///
/// # Errors
///
/// [`HogError::Cpu`].
pub fn spin(cpus: &[u32], work: &Work<'_>) -> Result<Truth, HogError> {
    let began = Began::now();
    let until_ns = began.wall_ns + nanoseconds(work.length);
    let switches = thread::scope(|scope| {
        let spin_there = |cpu: u32| move || on_cpu(cpu, || burn_until(until_ns, work));
        let threads: Vec<_> = cpus.iter().map(|cpu| scope.spawn(spin_there(*cpu))).collect();
        threads.into_iter().map(|t| t.join().expect("it does not panic")).sum::<Result<u64, HogError>>()
    })?;
    Ok(began.until_now(switches))
}

/// Passes a byte back and forth between two threads on one CPU: each round is two context switches, or more where
/// others want the CPU too.
///
/// `cpu`: where; `None` leaves it to the first CPU that this process may use.
///
/// # Errors
///
/// [`HogError`] where the CPU or the pipes cannot be had.
pub fn ping_pong(cpu: Option<u32>, rounds: u32) -> Result<Truth, HogError> {
    let cpu = cpu.unwrap_or_else(first_cpu);
    let (mut question, mut ask) = pipe()?;
    let (mut reply, mut answer) = pipe()?;
    let began = Began::now();
    let switches = thread::scope(|scope| {
        let answering =
            move || on_cpu(cpu, || (0..rounds).try_for_each(|_| pass_on(&mut question, &mut answer)));
        let asking = move || {
            on_cpu(cpu, || {
                (0..rounds).try_for_each(|_| {
                    ask.write_all(&[0])?;
                    reply.read_exact(&mut [0])
                })
            })
        };
        let (answering, asking) = (scope.spawn(answering), scope.spawn(asking));
        let ended = [answering.join(), asking.join()].map(|t| t.expect("it does not panic"));
        ended.into_iter().sum::<Result<u64, HogError>>()
    })?;
    Ok(began.until_now(switches))
}

/// Runs for a moment on each of the CPUs in turn, so that each of them switches; those that cannot be had are passed over.
pub fn visit(cpus: &BTreeSet<u32>) {
    thread::scope(|scope| {
        scope.spawn(|| cpus.iter().filter(|cpu| pin(**cpu).is_ok()).for_each(|_| thread::yield_now()));
    });
}

/// The CPUs that this process may use: those that affinity and CPU set leave it.
pub fn usable() -> BTreeSet<u32> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..).take(CpuSet::count()).filter(|cpu| allowed.is_set(*cpu as usize).unwrap_or(false)).collect()
}

/// Looks for the scheduler's tick on a CPU: spins there for `look` and finds what interrupts it regularly.
///
/// Where others want the CPU too much for that, it looks again, five times in all.
///
/// # Errors
///
/// [`HogError::NoTick`] where no period stands out, [`HogError::Cpu`].
pub fn find_tick(cpu: u32, look: Duration) -> Result<Tick, HogError> {
    const LOOKS: u32 = 5;
    let find = || -> Result<Tick, HogError> {
        pin(cpu)?;
        let mut looks = (0..LOOKS).map(|_| regular(&gaps_until(Monotonic.now_ns() + nanoseconds(look))));
        looks.find_map(|tick| tick).ok_or(HogError::NoTick { cpu, looked: look * LOOKS })
    };
    // On a thread of its own: the caller stays where it may run.
    thread::scope(|scope| scope.spawn(find).join().expect("it does not panic"))
}

/// For how long a hog works.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// At most.
    pub length: Duration,
    /// Less, where somebody raises this.
    pub stop: &'a AtomicBool,
}

impl Work<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The time for which the burning threads of this process saw their clock advance without a gap: they certainly ran.
///
/// Interrupts, system calls and waiting for a CPU are not in it. The last 0.1 ms of each thread may be missing.
pub fn seen_ns() -> u64 {
    SEEN_NS.load(Ordering::Relaxed)
}

/// See [`seen_ns`].
static SEEN_NS: AtomicU64 = AtomicU64::new(0);

/// The largest share that can hide: the rest is for waking late and going to sleep early.
pub const HIDE_RATIO_MAX: f64 = 0.95;

/// How long after the tick the hidden work starts, as a share of the period: its interrupt is long done by then.
const HIDE_DELAY_RATIO: f64 = 0.025;

/// Works in the same part of every tick's period, which `part` tells from the time of the tick.
fn around_ticks(
    cpu: u32,
    tick: Tick,
    work: &Work<'_>,
    part: impl Fn(u64) -> (u64, u64) + Sync,
) -> Result<Truth, HogError> {
    let began = Began::now();
    let end_ns = began.wall_ns + nanoseconds(work.length);
    let body = || {
        // The kernel may wake a sleeper up to 50 us late to save power, unless told otherwise.
        nix::sys::prctl::set_timerslack(1).map_err(io::Error::from)?;
        let mut tick_ns = tick.first_after(began.wall_ns + tick.period_ns);
        while tick_ns < end_ns && !work.stopped() {
            let (from_ns, until_ns) = part(tick_ns);
            while Monotonic.now_ns() < from_ns {
                Monotonic.sleep_until_ns(from_ns);
            }
            burn_until(until_ns, work)?;
            tick_ns = (tick_ns + tick.period_ns).max(tick.first_after(Monotonic.now_ns()));
        }
        Ok(())
    };
    let switches =
        thread::scope(|scope| scope.spawn(|| on_cpu(cpu, body)).join().expect("it does not panic"))?;
    Ok(began.until_now(switches))
}

impl Tick {
    fn first_after(self, ns: u64) -> u64 {
        let since = (ns + self.period_ns - self.phase_ns) % self.period_ns;
        ns - since + self.period_ns
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form that on_cpu takes")]
fn burn_until(until_ns: u64, work: &Work<'_>) -> io::Result<()> {
    const TELL_AFTER_NS: u64 = 100_000;
    let mut last_ns = Monotonic.now_ns();
    let mut seen_ns = 0;
    while last_ns < until_ns && !work.stopped() {
        std::hint::spin_loop();
        let now_ns = Monotonic.now_ns();
        if now_ns - last_ns < SHORTEST_GAP_NS {
            seen_ns += now_ns - last_ns;
        }
        if seen_ns >= TELL_AFTER_NS {
            SEEN_NS.fetch_add(std::mem::take(&mut seen_ns), Ordering::Relaxed);
        }
        last_ns = now_ns;
    }
    SEEN_NS.fetch_add(seen_ns, Ordering::Relaxed);
    Ok(())
}

fn pass_on(from: &mut PipeReader, to: &mut PipeWriter) -> io::Result<()> {
    let mut byte = [0];
    from.read_exact(&mut byte)?;
    to.write_all(&byte)
}

/// Does the work on that CPU and yields how often this thread came off it meanwhile.
fn on_cpu(cpu: u32, work: impl FnOnce() -> io::Result<()>) -> Result<u64, HogError> {
    pin(cpu)?;
    let before = switches_of_this_thread()?;
    work()?;
    Ok(switches_of_this_thread()? - before)
}

fn pin(cpu: u32) -> Result<(), HogError> {
    let mut set = CpuSet::new();
    let pinned = set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.map_err(|source| HogError::Cpu { cpu, source })
}

fn first_cpu() -> u32 {
    usable().first().copied().unwrap_or(0)
}

fn switches_of_this_thread() -> io::Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    Ok((usage.voluntary_context_switches() + usage.involuntary_context_switches()).cast_unsigned())
}

#[derive(Debug, Clone, Copy)]
struct Began {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Began {
    fn now() -> Self {
        Self { wall_ns: Monotonic.now_ns(), cpu_ns: process_cpu_ns() }
    }

    fn until_now(self, switches: u64) -> Truth {
        let now = Self::now();
        Truth { wall_ns: now.wall_ns - self.wall_ns, cpu_ns: now.cpu_ns - self.cpu_ns, switches }
    }
}

fn process_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux always has it");
    t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_nsec().cast_unsigned()
}

/// A stretch of time in which a spinning thread did not run.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at_ns: u64,
    for_ns: u64,
}

/// A reading of the clock takes some 50 ns, the shortest interrupt ten times that.
const SHORTEST_GAP_NS: u64 = 500;

fn gaps_until(end_ns: u64) -> Vec<Gap> {
    let mut gaps = Vec::with_capacity(1 << 14);
    let mut last_ns = Monotonic.now_ns();
    while last_ns < end_ns && gaps.len() < gaps.capacity() {
        let now_ns = Monotonic.now_ns();
        if now_ns - last_ns >= SHORTEST_GAP_NS {
            gaps.push(Gap { at_ns: last_ns, for_ns: now_ns - last_ns });
        }
        last_ns = now_ns;
    }
    gaps
}

/// The longest period, among those that Linux can be built with, at one phase of which the gaps crowd.
///
/// Gaps of other causes are spread evenly over any period, so they thin the crowd without moving it. A period that is a
/// part of the true one crowds as well, one that is not crowds less: hence the longest of the good ones.
fn regular(gaps: &[Gap]) -> Option<Tick> {
    /// 100, 250, 300 and 1,000 Hz.
    const PERIODS_NS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];
    /// Three of [`BINS`] hold 3 % by chance.
    const CROWD_RATIO: f64 = 0.12;
    let crowds = PERIODS_NS.map(|period_ns| crowd(gaps, period_ns));
    let best = crowds.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
    let good = crowds.into_iter().find(|(_, ratio)| best >= CROWD_RATIO && *ratio >= 0.7 * best);
    good.map(|(tick, _)| tick)
}

const BINS: usize = 100;

/// Where in that period the gaps crowd most, and which share of them lies there.
fn crowd(gaps: &[Gap], period_ns: u64) -> (Tick, f64) {
    // One long gap is a preemption and says no more than a short one; many of a few microseconds are the tick.
    const LONGEST_NS: u64 = 5_000;
    let mut weight = [0_u64; BINS];
    for gap in gaps {
        let bin = gap.at_ns % period_ns * BINS as u64 / period_ns;
        weight[usize::try_from(bin).expect("less than BINS")] += gap.for_ns.min(LONGEST_NS);
    }
    let bins = weight.len();
    let three = |bin: usize| weight[(bin + bins - 1) % bins] + weight[bin] + weight[(bin + 1) % bins];
    let best = (0..bins).max_by_key(|bin| three(*bin)).unwrap_or(0);
    let all = weight.iter().sum::<u64>().max(1);
    let bin_ns = period_ns / BINS as u64;
    (Tick { period_ns, phase_ns: best as u64 * bin_ns + bin_ns / 2 }, three(best) as f64 / all as f64)
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a period of milliseconds"
)]
fn scaled(period_ns: u64, ratio: f64) -> u64 {
    (period_ns as f64 * ratio).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_found_among_twice_as_many_other_interruptions() {
        let ticks =
            (0..100).map(|k| Gap { at_ns: 7_000_000 + k * 4_000_000 + k * 37 % 2_000, for_ns: 3_000 });
        let others = (0..200).map(|k| Gap { at_ns: 7_100_000 + k * 1_876_543, for_ns: 3_500 });
        let gaps: Vec<Gap> = ticks.chain(others).collect();
        let tick = regular(&gaps).unwrap();
        assert_eq!(tick.period_ns, 4_000_000);
        assert!(tick.phase_ns.abs_diff(3_000_000) <= 60_000, "{tick:?}");
    }

    #[test]
    fn without_a_tick_none_is_found() {
        let gaps: Vec<Gap> = (0..400).map(|k| Gap { at_ns: k * k * 7_919, for_ns: 1_000 }).collect();
        assert_eq!(regular(&gaps), None);
        assert_eq!(regular(&[]), None);
    }

    #[test]
    fn the_first_tick_after_a_moment_is_in_the_next_period_at_the_phase() {
        let tick = Tick { period_ns: 100, phase_ns: 30 };
        for (ns, first) in [(1_000, 1_030), (1_029, 1_030), (1_030, 1_130), (1_031, 1_130), (1_099, 1_130)] {
            assert_eq!(tick.first_after(ns), first, "{ns}");
        }
    }

    #[test]
    fn a_round_of_ping_pong_switches_twice() {
        let truth = ping_pong(None, 100).unwrap();
        // The first question may lie there already, and nobody waits after the last reply.
        assert!(truth.switches >= 198, "{truth:?}");
        assert!(truth.cpu_ns > 0);
    }
}
