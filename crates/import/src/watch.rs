//! Snapshots of this machine's ticks, at deadlines that do not drift.
//!
//! Linux counts idle time exactly and busy time in ticks. This module reads both unchanged;
//! [`vmstat_s::interval`](crate::vmstat_s::interval) reports how well they add up to the elapsed time.
//!
//! # Source
//!
//! `proc_stat(5)`: the columns of the line `cpu`. The kernel counts the time of guests also as user time.

use crate::fields::{Fields, whole};
use crate::vmstat_s::{Snapshot, State, Ticks};
use record::clock::Clock;
use std::io::{self, Read};
use std::time::Duration;

/// A snapshot and the time at which it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Time on `CLOCK_MONOTONIC`: halfway between just before and just after reading.
    pub monotonic_ns: u64,
    /// Number of deadlines since the previous snapshot that were missed.
    pub missed: u64,
    /// Number of online CPUs.
    pub cpus: u32,
    /// The ticks.
    pub snapshot: Snapshot,
}

impl Taken {
    /// Returns the number of CPUs that ticks were due on since `before`. `None` if CPUs went on or off
    /// meanwhile, since the time of that change is unknown.
    pub fn cpus_since(&self, before: &Self) -> Option<u32> {
        (self.cpus == before.cpus).then_some(self.cpus)
    }
}

/// Takes a snapshot now and at every multiple of `interval` from now on, and passes each to `sink`.
///
/// Ends after `count` intervals, if given, or as soon as `wait_until`, which sleeps until a time of `clock`,
/// returns `false` because it was interrupted. A deadline that passed while the previous snapshot was
/// processed is counted in [`Taken::missed`]; the next one is the next multiple, so the schedule does not
/// shift.
///
/// # Errors
///
/// Errors of `source`, which is opened again each time as `/proc/stat` requires, and of `sink`.
pub fn watch(
    source: &mut dyn FnMut() -> io::Result<Box<dyn Read>>,
    clock: &dyn Clock,
    wait_until: &mut dyn FnMut(u64) -> bool,
    interval: Duration,
    count: Option<u64>,
    sink: &mut dyn FnMut(&Taken) -> io::Result<()>,
) -> io::Result<()> {
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    let start = clock.now_ns();
    let mut tick = 0u64;
    let mut missed = 0;
    let mut taken = 0u64;
    loop {
        sink(&take(source, clock, missed)?)?;
        if count.is_some_and(|count| taken >= count) {
            return Ok(());
        }
        taken += 1;
        let due = (clock.now_ns() - start) / interval_ns + 1;
        missed = due - tick - 1;
        tick = due;
        let deadline = start.saturating_add(tick.saturating_mul(interval_ns));
        if !wait_until(deadline) {
            return Ok(());
        }
    }
}

fn take(
    source: &mut dyn FnMut() -> io::Result<Box<dyn Read>>,
    clock: &dyn Clock,
    missed: u64,
) -> io::Result<Taken> {
    let mut text = Vec::new();
    let before = clock.now_ns();
    source()?.read_to_end(&mut text)?;
    let after = clock.now_ns();
    let (ticks, cpus) = proc_stat(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no line `cpu` with at least four numbers")
    })?;
    let snapshot = Snapshot { ticks, ..Snapshot::default() };
    Ok(Taken { monotonic_ns: before.midpoint(after), missed, cpus, snapshot })
}

/// Parses the ticks of all CPUs, and the number of CPUs.
fn proc_stat(text: &[u8]) -> Option<(Ticks, u32)> {
    let mut ticks = None;
    let mut cpus = 0u32;
    for (number, line) in (1..).zip(text.split(|&b| b == b'\n')) {
        let mut fields = Fields::from(line, 0, number);
        match fields.next().map(|field| field.bytes) {
            Some(b"cpu") => ticks = Some(states(fields)?),
            Some(name) if name.starts_with(b"cpu") && whole(&name[3..]).is_some() => cpus += 1,
            _ => {}
        }
    }
    Some((ticks?, cpus.max(1)))
}

/// Parses user nice system idle iowait irq softirq steal. `guest` and `guest_nice`, if present, are part of
/// user and nice.
fn states(fields: Fields<'_>) -> Option<Ticks> {
    const STATES: [State; 8] = [
        State::User,
        State::User,
        State::System,
        State::Idle,
        State::Wait,
        State::System,
        State::System,
        State::Stolen,
    ];
    let mut ticks = Ticks::default();
    let mut seen = 0;
    for (state, field) in STATES.into_iter().zip(fields) {
        ticks.add(state, whole(field.bytes)?);
        seen += 1;
    }
    (seen >= 4).then_some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock for tests: each reading takes 10 ns, and sleeping ends at the deadline.
    struct ByHand(AtomicU64);

    impl Clock for ByHand {
        fn now_ns(&self) -> u64 {
            self.0.fetch_add(10, Ordering::Relaxed)
        }

        fn sleep_until_ns(&self, deadline_ns: u64) {
            self.0.fetch_max(deadline_ns, Ordering::Relaxed);
        }
    }

    const STAT: &[u8] =
        b"cpu  1 2 4 8 16 32 64 128 256 512\ncpu0 1 2 4 8 16 32 64 128 256 512\ncpu1 0 0 0 0\nintr 5\nctxt 7\n";

    #[test]
    fn guests_are_in_the_users_time_already() {
        let (ticks, cpus) = proc_stat(STAT).unwrap();
        assert_eq!(ticks, Ticks { user: 3, system: 4 + 32 + 64, idle: 8, wait: 16, stolen: 128 });
        assert_eq!(cpus, 2);
        assert_eq!(proc_stat(b"cpu 1 2 3\n"), None);
        assert_eq!(proc_stat(b"intr 1\n"), None);
    }

    #[test]
    fn the_ticks_that_are_due_are_unknown_while_cpus_go_on_or_off() {
        let taken = |cpus| Taken { monotonic_ns: 0, missed: 0, cpus, snapshot: Snapshot::default() };
        assert_eq!(taken(2).cpus_since(&taken(2)), Some(2));
        assert_eq!((taken(1).cpus_since(&taken(2)), taken(2).cpus_since(&taken(1))), (None, None));
    }

    #[test]
    fn deadlines_are_multiples_of_the_interval_and_missed_ones_are_counted() {
        let clock = ByHand(AtomicU64::new(500));
        let mut seen = Vec::new();
        let mut source = || Ok(Box::new(STAT) as Box<dyn Read>);
        let mut wait = |deadline| {
            clock.sleep_until_ns(deadline);
            true
        };
        watch(&mut source, &clock, &mut wait, Duration::from_micros(1), Some(4), &mut |taken| {
            seen.push((taken.monotonic_ns / 1_000, taken.missed));
            if seen.len() == 2 {
                // This sink takes two and a half intervals.
                clock.0.fetch_add(2_500, Ordering::Relaxed);
            }
            Ok(())
        })
        .unwrap();
        // Started at 0.5 us: due at 1.5, then at 2.5 and 3.5 (missed), 4.5, 5.5.
        assert_eq!(seen, [(0, 0), (1, 0), (4, 2), (5, 0), (6, 0)]);
    }

    #[test]
    fn an_interrupted_wait_ends_it() {
        let clock = ByHand(AtomicU64::new(0));
        let (mut calls, mut waits) = (0, 0);
        let mut source = || Ok(Box::new(STAT) as Box<dyn Read>);
        let mut wait = |deadline| {
            clock.sleep_until_ns(deadline);
            waits += 1;
            waits < 3
        };
        watch(&mut source, &clock, &mut wait, Duration::from_micros(1), None, &mut |_| {
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(calls, 3);
    }
}
