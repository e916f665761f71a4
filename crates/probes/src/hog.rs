//! Workloads with a known truth: instruments are checked against the times that these report.
//!
//! Each runs until its time is over or its flag is raised, and reports its `CLOCK_PROCESS_CPUTIME_ID`, which
//! the scheduler maintains to the nanosecond. A hog should therefore be the only work of its process.
//!
//! That clock starts at the wake-up, some 5 to 30 us before the thread has the CPU, and counts the interrupts
//! that come while the thread runs. [`seen_ns`] counts neither. The time that the thread had the CPU lies
//! between the two.

pub mod lock;
pub mod packets;

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_getres, clock_gettime};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};

/// Report of a hog at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    /// Elapsed time of the work.
    pub wall_ns: u64,
    /// CPU time of its process in that time.
    pub cpu_ns: u64,
    /// Times that its threads left a CPU, voluntarily or not.
    pub switches: u64,
}

/// Times of the scheduler's tick: every `period_ns`, `phase_ns` after the multiples of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// 4,000,000 if HZ is 250.
    pub period_ns: u64,
    /// Offset of the tick in the period, on `CLOCK_MONOTONIC`.
    pub phase_ns: u64,
}

/// Reason why a hog could not work.
#[derive(Debug, thiserror::Error)]
pub enum HogError {
    /// The CPU is offline, or this process may not run there.
    #[error("cannot use CPU {cpu}: it is offline, or not among the CPUs that this process may use")]
    Cpu {
        /// CPU number.
        cpu: u32,
        /// The kernel's error.
        source: nix::Error,
    },
    /// The kernel's coarse clock did not move as ticks move it.
    #[error(
        "the tick was not found in {looked:?} of spinning on CPU {cpu}: too much else runs there, or ticks are off"
    )]
    NoTick {
        /// CPU on which it spun.
        cpu: u32,
        /// Duration of the attempt.
        looked: Duration,
    },
    /// Each CPU has its tick at another moment, and nothing shows which.
    #[error(
        "cannot find ticks on a kernel that was started with skew_tick=1: each CPU ticks at its own offset"
    )]
    SkewedTicks,
    /// A pipe or a thread could not be created.
    #[error("cannot set up the work")]
    System(#[from] io::Error),
}

/// Sleeps during each tick and burns `ratio` of the time in between, on one CPU: tick counters miss this
/// work.
///
/// `ratio`: from 0 to [`HIDE_RATIO_MAX`]. `tick`: from [`find_tick`] on the same CPU.
///
/// # Errors
///
/// [`HogError::Cpu`].
///
/// # Panics
///
/// If the ratio is out of its range: the work could not avoid the tick.
pub fn hide(cpu: u32, ratio: f64, tick: Tick, work: &Work<'_>) -> Result<Truth, HogError> {
    assert!((0.0..=HIDE_RATIO_MAX).contains(&ratio), "a share from 0 to {HIDE_RATIO_MAX} can hide");
    let burn_ns = scaled(tick.period_ns, ratio);
    let from_tick_ns = scaled(tick.period_ns, HIDE_DELAY_RATIO);
    around_ticks(cpu, tick, work, |tick_ns| (tick_ns + from_tick_ns, tick_ns + from_tick_ns + burn_ns))
}

/// Runs only around ticks, a twentieth of the period before and after each: tick counters see half a CPU.
///
/// # Errors
///
/// [`HogError::Cpu`].
pub fn antihide(cpu: u32, tick: Tick, work: &Work<'_>) -> Result<Truth, HogError> {
    let around_ns = tick.period_ns / 20;
    around_ticks(cpu, tick, work, |tick_ns| (tick_ns - around_ns, tick_ns + around_ns))
}

/// Spins one thread on each CPU in the list; a CPU that is listed twice gets two.
///
/// # Errors
///
/// [`HogError::Cpu`].
pub fn spin(cpus: &[u32], work: &Work<'_>) -> Result<Truth, HogError> {
    let began = Stopwatch::now();
    let until_ns = began.wall_ns + nanoseconds(work.length);
    let switches = thread::scope(|scope| {
        let spin_there = |cpu: u32| move || on_cpu(cpu, || burn_until(until_ns, work));
        let threads: Vec<_> = cpus.iter().map(|cpu| scope.spawn(spin_there(*cpu))).collect();
        threads.into_iter().map(|t| t.join().expect("it does not panic")).sum::<Result<u64, HogError>>()
    })?;
    Ok(began.until_now(switches))
}

/// Passes a byte back and forth between two threads on one CPU: each round is two context switches, or more
/// if other threads want the CPU too.
///
/// `cpu`: the CPU; `None` is the first CPU that this process may use.
///
/// # Errors
///
/// [`HogError`] if the CPU or the pipes are unavailable.
pub fn ping_pong(cpu: Option<u32>, rounds: u32) -> Result<Truth, HogError> {
    let cpu = cpu.unwrap_or_else(first_cpu);
    let (mut question, mut ask) = pipe()?;
    let (mut reply, mut answer) = pipe()?;
    let began = Stopwatch::now();
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

/// Runs briefly on each CPU in turn, so that each of them switches; skips unavailable CPUs.
pub fn visit(cpus: &BTreeSet<u32>) {
    thread::scope(|scope| {
        scope.spawn(|| cpus.iter().filter(|cpu| pin(**cpu).is_ok()).for_each(|_| thread::yield_now()));
    });
}

/// CPUs that affinity and CPU set allow to this process.
pub fn usable() -> BTreeSet<u32> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..).take(CpuSet::count()).filter(|cpu| allowed.is_set(*cpu as usize).unwrap_or(false)).collect()
}

/// Finds the scheduler's tick: spins on a CPU for `look` and notes when ticks advance
/// `CLOCK_MONOTONIC_COARSE`.
///
/// Gaps in a spinner's time do not show the tick: on a virtual machine the host's ticks make as many. The
/// ticks of all CPUs come at the same moment, and one of them advances the clock. If other threads use the
/// CPU too much, it tries again, five times in all.
///
/// # Errors
///
/// [`HogError::NoTick`] if the steps of the clock do not cluster at one moment of its period,
/// [`HogError::SkewedTicks`], [`HogError::Cpu`].
pub fn find_tick(cpu: u32, look: Duration) -> Result<Tick, HogError> {
    const LOOKS: u32 = 5;
    let find = || -> Result<Tick, HogError> {
        pin(cpu)?;
        let period_ns = ns_of(clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_err(io::Error::from)?);
        let mut looks = (0..LOOKS).map(|_| {
            let steps_ns = steps_until(Monotonic.now_ns() + nanoseconds(look));
            phase(&steps_ns, period_ns).map(|phase_ns| Tick { period_ns, phase_ns })
        });
        looks.find_map(|tick| tick).ok_or(HogError::NoTick { cpu, looked: look * LOOKS })
    };
    let started_with = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if started_with.split_ascii_whitespace().any(|word| word == "skew_tick=1") {
        return Err(HogError::SkewedTicks);
    }
    // A separate thread is pinned; the caller's affinity stays.
    thread::scope(|scope| scope.spawn(find).join().expect("it does not panic"))
}

/// Duration of a hog's work.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// Maximum.
    pub length: Duration,
    /// Stops the work early when raised.
    pub stop: &'a AtomicBool,
}

impl Work<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Time in which the burning threads of this process saw their clock advance without a gap: they certainly
/// ran.
///
/// Excludes interrupts, system calls and waiting for a CPU. The last 0.1 ms of each thread may be missing.
pub fn seen_ns() -> u64 {
    SEEN_NS.load(Ordering::Relaxed)
}

/// See [`seen_ns`].
static SEEN_NS: AtomicU64 = AtomicU64::new(0);

/// Largest share that can hide: the rest covers late wake-ups and early sleeps.
pub const HIDE_RATIO_MAX: f64 = 0.95;

/// Delay of the hidden work after the tick, as a share of the period: the tick's interrupt has ended by then.
const HIDE_DELAY_RATIO: f64 = 0.025;

/// Works in the same part of every tick's period; `part` computes it from the time of the tick.
fn around_ticks(
    cpu: u32,
    tick: Tick,
    work: &Work<'_>,
    part: impl Fn(u64) -> (u64, u64) + Sync,
) -> Result<Truth, HogError> {
    let began = Stopwatch::now();
    let end_ns = began.wall_ns + nanoseconds(work.length);
    let body = || {
        // The kernel may wake a sleeper up to 50 us late to save power, unless this is set.
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

/// Does the work on that CPU and returns how often this thread left the CPU meanwhile.
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
struct Stopwatch {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Stopwatch {
    fn now() -> Self {
        Self { wall_ns: Monotonic.now_ns(), cpu_ns: process_cpu_ns() }
    }

    fn until_now(self, switches: u64) -> Truth {
        let now = Self::now();
        Truth { wall_ns: now.wall_ns - self.wall_ns, cpu_ns: now.cpu_ns - self.cpu_ns, switches }
    }
}

fn process_cpu_ns() -> u64 {
    ns_of(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux always has it"))
}

/// Reading the clock takes some 50 ns, the shortest interrupt ten times that.
const SHORTEST_GAP_NS: u64 = 500;

/// Times at which a spinning thread saw the coarse clock advance: just after the tick.
fn steps_until(end_ns: u64) -> Vec<u64> {
    let coarse = || clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map(ns_of).ok();
    let mut steps_ns = Vec::new();
    let mut last = coarse();
    loop {
        let now = coarse();
        let now_ns = Monotonic.now_ns();
        if now != last {
            steps_ns.push(now_ns);
        }
        last = now;
        if now_ns >= end_ns {
            return steps_ns;
        }
    }
}

/// Offset of the clock's steps in the period, if a tenth of a period holds at least half of the steps. The
/// first hundredth that holds many is nearest to the tick: a step is seen late and never early.
fn phase(steps_ns: &[u64], period_ns: u64) -> Option<u64> {
    const BINS: usize = 100;
    const TENTH: usize = BINS / 10;
    const FEWEST: usize = 10;
    let mut counts = [0_usize; BINS];
    for step_ns in steps_ns {
        let bin = step_ns % period_ns * BINS as u64 / period_ns;
        counts[usize::try_from(bin).expect("less than BINS")] += 1;
    }
    let held = |from: usize| (from..from + TENTH).map(|bin| counts[bin % BINS]).sum::<usize>();
    let from = (0..BINS).max_by_key(|from| held(*from)).filter(|from| held(*from) >= FEWEST)?;
    if 2 * held(from) < steps_ns.len() {
        return None;
    }
    let first = (from..from + TENTH).map(|bin| bin % BINS).find(|bin| 10 * counts[*bin] >= held(from))?;
    Some(first as u64 * period_ns / BINS as u64)
}

fn ns_of(t: TimeSpec) -> u64 {
    t.tv_sec().cast_unsigned() * 1_000_000_000 + t.tv_nsec().cast_unsigned()
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
    fn the_tick_is_where_most_steps_of_the_clock_are_seen_first() {
        // Seen 5 to 40 us late, in every fifth case 1 ms late, because another thread had the CPU.
        let seen = |phase_ns: u64| -> Vec<u64> {
            let late_ns = |k: u64| if k.is_multiple_of(5) { 1_000_000 } else { 5_000 + k * 37 % 35 * 1_000 };
            (0..100).map(|k| 7_000_000_000 + k * 4_000_000 + phase_ns + late_ns(k)).collect()
        };
        for phase_ns in [0, 730_000, 3_999_000] {
            let found_ns = phase(&seen(phase_ns), 4_000_000).unwrap();
            let off_ns = (found_ns + 4_000_000 - phase_ns) % 4_000_000;
            assert!(off_ns <= 40_000 || off_ns >= 3_960_000, "{found_ns} for {phase_ns}");
        }
    }

    #[test]
    fn steps_of_no_one_moment_are_no_tick() {
        let steps_ns: Vec<u64> = (0..400).map(|k| k * k * 7_919).collect();
        assert_eq!(phase(&steps_ns, 4_000_000), None);
        assert_eq!(phase(&[], 4_000_000), None);
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
        // The first question may lie there already, and nothing waits after the last reply.
        assert!(truth.switches >= 198, "{truth:?}");
        assert!(truth.cpu_ns > 0);
    }
}
