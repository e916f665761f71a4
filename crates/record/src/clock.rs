//! One timeline: load and probes use timestamps of the kernel's own `CLOCK_MONOTONIC`, the clock of
//! `bpf_ktime_get_ns`. In a time namespace the clock that programs read is offset from it; here the offset is
//! taken off.
//!
//! A run stores one [`WallAnchor`] to convert its timestamps to dates. Code that paces or waits takes a
//! [`Clock`], so a test can advance time by hand.

use std::fs;
use std::sync::OnceLock;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// Monotonic clock with a sleep to a deadline.
pub trait Clock: Sync {
    /// Nanoseconds since an arbitrary fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// Returns at `deadline_ns` or a little later; immediately if the deadline has passed.
    ///
    /// May return early if a signal arrives: callers that need the deadline read the clock again.
    fn sleep_until_ns(&self, deadline_ns: u64);
}

/// The kernel's own `CLOCK_MONOTONIC`, read through the vDSO. The first use in a process reads /proc, so it
/// comes before the process gives up the right to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        let deadline_ns = deadline_ns.saturating_add_signed(offset_ns());
        let deadline = Timespec {
            tv_sec: (deadline_ns / NS_PER_S).cast_signed(),
            tv_nsec: (deadline_ns % NS_PER_S).cast_signed(),
        };
        // The only errors are EINTR, which the contract allows, and invalid arguments, which the code above
        // cannot build.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
    }
}

/// One moment on the monotonic and on the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallAnchor {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
}

impl WallAnchor {
    /// Reads both clocks, the monotonic one before and after the wall clock, and stores the middle of the
    /// two.
    pub fn now() -> Self {
        let before = monotonic_ns();
        let unix_ns = read(ClockId::Realtime);
        let after = monotonic_ns();
        Self { monotonic_ns: before.midpoint(after), unix_ns }
    }

    /// Wall-clock time of a monotonic timestamp, if the wall clock was not set in between.
    pub fn unix_ns_at(&self, monotonic_ns: u64) -> u64 {
        if monotonic_ns >= self.monotonic_ns {
            self.unix_ns.saturating_add(monotonic_ns - self.monotonic_ns)
        } else {
            self.unix_ns.saturating_sub(self.monotonic_ns - monotonic_ns)
        }
    }
}

fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic).saturating_add_signed(-offset_ns())
}

/// Nanoseconds by which this process's `CLOCK_MONOTONIC` is ahead of the kernel's own.
fn offset_ns() -> i64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    *OFFSET_NS.get_or_init(|| {
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // The file tells the offsets of the children's namespace. Kernels without one have no such file.
        if namespace("time") != namespace("time_for_children") {
            return 0;
        }
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        monotonic_offset_ns(&offsets).unwrap_or(0)
    })
}

/// Reads `/proc/PID/timens_offsets`: a clock a line, then seconds, which may be negative, and nanoseconds.
fn monotonic_offset_ns(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("monotonic"))?;
    let mut words = line.split_ascii_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (words.next()?.ok()?, words.next()?.ok()?);
    seconds.checked_mul(NS_PER_S.cast_signed())?.checked_add(ns)
}

fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.cast_unsigned() * NS_PER_S + t.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_reached_has_passed_on_the_same_clock() {
        let deadline = Monotonic.now_ns() + 2_000_000;
        while Monotonic.now_ns() < deadline {
            Monotonic.sleep_until_ns(deadline);
        }
        assert!(Monotonic.now_ns() >= deadline);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let of = |seconds: &str, ns: &str| {
            monotonic_offset_ns(&format!("monotonic  {seconds:>10} {ns:>9}\nboottime  7 5\n"))
        };
        assert_eq!(of("0", "0"), Some(0));
        assert_eq!(of("50000000", "3"), Some(50_000_000_000_000_003));
        assert_eq!(of("-2", "500000000"), Some(-1_500_000_000));
        assert_eq!(monotonic_offset_ns("boottime 7 5\n"), None);
    }

    #[test]
    fn stamps_before_and_after_the_anchor_become_dates() {
        let anchor = WallAnchor { monotonic_ns: 1_000, unix_ns: 5_000_000 };
        assert_eq!(anchor.unix_ns_at(1_500), 5_000_500);
        assert_eq!(anchor.unix_ns_at(400), 4_999_400);
    }
}
