//! Where the time goes: what `--stats`, the progress line and the keep-up controller read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counters that every worker adds to, once a block.
///
/// The time of the conducting thread (the caller of a stream, each worker of a file) is split in three:
/// starved (waiting for input, or reading it), codec (compressing, or waiting for those who do) and
/// blocked (writing, or waiting for those who do). Whichever is largest names the bottleneck.
#[derive(Debug)]
pub struct Meter {
    started: Instant,
    /// Bytes that came in.
    pub in_bytes: AtomicU64,
    /// Bytes that went out.
    pub out_bytes: AtomicU64,
    starved_ns: AtomicU64,
    codec_ns: AtomicU64,
    blocked_ns: AtomicU64,
    work_ns: AtomicU64,
    workers: AtomicUsize,
    workers_max: AtomicUsize,
}

/// What a thread was doing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It waited for input, or read it.
    Starved,
    /// It compressed or decompressed, or waited for those who do.
    Codec,
    /// It wrote, or waited for those who do.
    Blocked,
}

/// The meter's state at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Since the meter was made.
    pub elapsed: Duration,
    /// Bytes that came in.
    pub in_bytes: u64,
    /// Bytes that went out.
    pub out_bytes: u64,
    /// Thread time spent waiting for input.
    pub starved: Duration,
    /// Thread time spent in the codec.
    pub codec: Duration,
    /// Thread time spent on output.
    pub blocked: Duration,
    /// CPU time of all threads in the codec; by `elapsed` it yields the threads used. A thread that waits for
    /// a CPU uses none.
    pub work: Duration,
    /// Codec threads alive at once, at most.
    pub workers_max: usize,
}

impl Meter {
    /// A meter at zero whose clock starts now.
    pub fn new() -> Self {
        Self {
            started: now(),
            in_bytes: AtomicU64::new(0),
            out_bytes: AtomicU64::new(0),
            starved_ns: AtomicU64::new(0),
            codec_ns: AtomicU64::new(0),
            blocked_ns: AtomicU64::new(0),
            work_ns: AtomicU64::new(0),
            workers: AtomicUsize::new(0),
            workers_max: AtomicUsize::new(0),
        }
    }

    /// Does `output`, and counts its time as blocked.
    pub fn blocked<T>(&self, output: impl FnOnce() -> T) -> T {
        let begun = now();
        let done = output();
        self.charge(Doing::Blocked, begun);
        done
    }

    /// Charges the time since `from` to `doing`; yields the moment of charging, to chain from.
    pub(crate) fn charge(&self, doing: Doing, from: Instant) -> Instant {
        let to = now();
        let counter = match doing {
            Doing::Starved => &self.starved_ns,
            Doing::Codec => &self.codec_ns,
            Doing::Blocked => &self.blocked_ns,
        };
        counter.fetch_add(nanoseconds(to.duration_since(from)), Relaxed);
        to
    }

    /// Charges the time since `from`: `reading` of it to the input, the rest to the codec.
    pub(crate) fn charge_cutting(&self, from: Instant, reading: Duration) {
        let cutting = now().duration_since(from).saturating_sub(reading);
        self.starved_ns.fetch_add(nanoseconds(reading), Relaxed);
        self.codec_ns.fetch_add(nanoseconds(cutting), Relaxed);
    }

    /// Everything at once; the counters are read one by one, so sums may be a block apart.
    pub fn read(&self) -> Reading {
        Reading {
            elapsed: now().duration_since(self.started),
            in_bytes: self.in_bytes.load(Relaxed),
            out_bytes: self.out_bytes.load(Relaxed),
            starved: Duration::from_nanos(self.starved_ns.load(Relaxed)),
            codec: Duration::from_nanos(self.codec_ns.load(Relaxed)),
            blocked: Duration::from_nanos(self.blocked_ns.load(Relaxed)),
            work: Duration::from_nanos(self.work_ns.load(Relaxed)),
            workers_max: self.workers_max.load(Relaxed),
        }
    }

    /// Adds what this thread worked since `cpu_from`, from [`cpu_time`], to the work of all threads.
    pub(crate) fn worked(&self, cpu_from: Duration) {
        self.work_ns.fetch_add(nanoseconds(cpu_time().saturating_sub(cpu_from)), Relaxed);
    }

    pub(crate) fn worker_began(&self) {
        let alive = self.workers.fetch_add(1, Relaxed) + 1;
        self.workers_max.fetch_max(alive, Relaxed);
    }

    pub(crate) fn worker_ended(&self) {
        self.workers.fetch_sub(1, Relaxed);
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

/// The moment, for durations only.
#[expect(clippy::disallowed_methods, reason = "tamp stands alone; this is its one reading of the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The CPU time that this thread has used, for differences only.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or(Duration::ZERO)
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
