//! Time shares and byte counts, for `--stats`, the progress line and `--keep-up`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counters that every worker adds to, once per block.
///
/// The time of the coordinating thread (the caller for a stream, each worker for a file) has three parts:
/// starved (reading input or waiting for it), codec (compressing or waiting for compression) and blocked
/// (writing or waiting for writes). The largest part names the bottleneck.
#[derive(Debug)]
pub struct Meter {
    started: Instant,
    /// Bytes read.
    pub in_bytes: AtomicU64,
    /// Bytes written.
    pub out_bytes: AtomicU64,
    starved_ns: AtomicU64,
    codec_ns: AtomicU64,
    blocked_ns: AtomicU64,
    work_ns: AtomicU64,
    workers: AtomicUsize,
    workers_max: AtomicUsize,
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Reading input or waiting for it.
    Starved,
    /// Compressing or decompressing, or waiting for it.
    Codec,
    /// Writing or waiting for it.
    Blocked,
}

/// State of a meter at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time since the meter was created.
    pub elapsed: Duration,
    /// Bytes read.
    pub in_bytes: u64,
    /// Bytes written.
    pub out_bytes: u64,
    /// Thread time spent waiting for input.
    pub starved: Duration,
    /// Thread time spent in the codec.
    pub codec: Duration,
    /// Thread time spent on output.
    pub blocked: Duration,
    /// CPU time of all threads in the codec; divided by `elapsed` it is the number of threads used. A thread
    /// that waits for a CPU adds nothing.
    pub work: Duration,
    /// Maximum number of codec threads at the same time.
    pub workers_max: usize,
}

impl Meter {
    /// Creates a meter at zero and starts its clock.
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

    /// Runs `output` and counts its time as blocked.
    pub fn blocked<T>(&self, output: impl FnOnce() -> T) -> T {
        let begun = now();
        let done = output();
        self.charge(Doing::Blocked, begun);
        done
    }

    /// Charges the time since `from` to `doing`; returns the current time, for the next call.
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

    /// Charges the time since `from`: `reading` to the input, the rest to the codec.
    pub(crate) fn charge_cutting(&self, from: Instant, reading: Duration) {
        let cutting = now().duration_since(from).saturating_sub(reading);
        self.starved_ns.fetch_add(nanoseconds(reading), Relaxed);
        self.codec_ns.fetch_add(nanoseconds(cutting), Relaxed);
    }

    /// Reads all counters, one by one, so they may differ by a block.
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

    /// Adds this thread's CPU time since `cpu_from`, from [`cpu_time`], to the work of all threads.
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

/// Returns the current time, for durations only.
#[expect(clippy::disallowed_methods, reason = "tamp stands alone; this is its one reading of the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the CPU time of this thread, for differences only.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or(Duration::ZERO)
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
