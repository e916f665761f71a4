//! A thread that reads the CPUs while others work.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, Rung};
use record::missing::Maybe;

use super::{CpuProbe, Options, open};
use crate::cost::Cost;
use crate::schedule::Deadlines;

/// A [`CpuProbe`] on a separate thread, read on absolute deadlines.
#[derive(Debug)]
pub struct Watch {
    rung: Rung,
    notes: Vec<String>,
    stop: Sender<()>,
    thread: JoinHandle<Watched>,
}

/// Result of a watch.
#[derive(Debug)]
pub struct Watched {
    /// Intervals without gaps; the last ends when the watch was stopped.
    pub intervals: Vec<CpuInterval>,
    /// Reasons why the next rung is unavailable, and remedies.
    pub notes: Vec<String>,
    /// Missed deadlines; their intervals are marked.
    pub missed: u64,
    /// Cost of watching.
    pub cost: Maybe<Cost>,
}

impl Watch {
    /// Starts the probe and returns; from then on it is read every `interval`.
    ///
    /// # Panics
    ///
    /// If the interval is zero, or the system creates no thread.
    pub fn start(interval: Duration, options: Options) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (started, ready) = mpsc::channel();
        let body = move || {
            let mut probe = open(&options);
            probe.start();
            let mut deadlines = Deadlines::new(Monotonic.now_ns(), interval);
            // Fails only if the starter is gone; `stopped` then reports that too.
            let _ = started.send((probe.rung(), probe.notes().to_vec()));
            let mut intervals = Vec::new();
            loop {
                let wait_ns = deadlines.next_ns().saturating_sub(Monotonic.now_ns());
                match stopped.recv_timeout(Duration::from_nanos(wait_ns)) {
                    Err(RecvTimeoutError::Timeout) => intervals.push(read(&mut probe, &mut deadlines)),
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            intervals.push(read(&mut probe, &mut deadlines));
            let cost = probe.cost();
            Watched { intervals, notes: probe.notes().to_vec(), missed: deadlines.missed(), cost }
        };
        let thread =
            thread::Builder::new().name("cpu-watch".into()).spawn(body).expect("the system gives a thread");
        let (rung, notes) = ready.recv().expect("the thread reports before it does anything that can fail");
        Self { rung, notes, stop, thread }
    }

    /// Rung in use.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// Reasons why the next rung is unavailable, and remedies.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends the last interval and returns the result.
    ///
    /// # Panics
    ///
    /// If the watching thread panicked.
    pub fn stop(self) -> Watched {
        drop(self.stop);
        self.thread.join().expect("the watching thread does not panic")
    }
}

fn read(probe: &mut CpuProbe, deadlines: &mut Deadlines) -> CpuInterval {
    let mut interval = probe.read();
    interval.missed_deadline = deadlines.answered_at(interval.until_ns) > 0;
    interval
}
