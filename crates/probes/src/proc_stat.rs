//! CPU time as `/proc/stat` counts it, on most kernels by ticks.
//!
//! *Traces* nothing. *Yields*, per CPU, what the kernel added to each state between two readings. *Differs
//! from* events: under `NO_HZ` the idle column is measured, the busy columns are counted in ticks; a task
//! that runs between the ticks is in neither. Tools that divide by the sum of the columns hide that;
//! [`Booked`] divides by wall time, and the rest shows the error. *Blind to* what happens within a tick. A
//! column counts ticks of 10 ms, so each ratio is off by up to a point over one second and a tenth of that
//! over ten; values a little below 0 or above 1 are that noise, and are not clamped. Under a load of
//! compilers and a database, errors of 0.5 to 6 points were measured over one second. *Costs* one read of
//! `/proc/stat` at each edge.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use record::missing::{Maybe, Missing};

/// Ticks of one CPU since boot. Guest time is part of user time, as the kernel counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Tasks in user mode.
    pub user: u64,
    /// Tasks in user mode with lowered priority.
    pub nice: u64,
    /// Tasks in the kernel.
    pub system: u64,
    /// Nothing to run.
    pub idle: u64,
    /// Nothing to run, while a task that slept here waits for I/O; may go back.
    pub iowait: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Deferred interrupt work.
    pub softirq: u64,
    /// The hypervisor ran something else.
    pub steal: u64,
}

impl Ticks {
    fn sum(&self) -> u64 {
        self.user + self.nice + self.system + self.idle + self.iowait + self.irq + self.softirq + self.steal
    }
}

/// One reading: ticks of each CPU, by number. Offline CPUs are absent.
pub type ProcStat = BTreeMap<u32, Ticks>;

/// Reads `proc/stat` under `root`.
///
/// # Errors
///
/// The error of the read; `InvalidData` if no line is about a CPU.
pub fn read(root: &Path) -> io::Result<ProcStat> {
    let stat = parse(&fs::read_to_string(root.join("proc/stat"))?);
    if stat.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no line per CPU"));
    }
    Ok(stat)
}

/// Parses the text of `/proc/stat`; skips lines that are not about one CPU.
///
/// Kernels before 2.6.11 have fewer columns: an absent one is 0, since its time was part of another column.
pub fn parse(text: &str) -> ProcStat {
    text.lines().filter_map(cpu_line).collect()
}

fn cpu_line(line: &str) -> Option<(u32, Ticks)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    // The sum over all CPUs has a blank in place of the number.
    if line.as_bytes().get(3) == Some(&b' ') {
        return None;
    }
    let cpu = words.next()?.parse().ok()?;
    let mut next = || words.next().map_or(Some(0), |w| w.parse().ok());
    let ticks = Ticks {
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next()?,
        irq: next()?,
        softirq: next()?,
        steal: next()?,
    };
    Some((cpu, ticks))
}

/// CPU time that `/proc/stat` accounts over an interval of `wall_s`, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Booked {
    /// User, nice, system and both kinds of interrupts.
    pub busy_s: f64,
    /// Idle and waiting for I/O.
    pub idle_s: f64,
    /// Taken by the hypervisor.
    pub steal_s: f64,
    /// Length of the interval by our clock.
    pub wall_s: f64,
}

impl Booked {
    /// Busy time over all accounted time: the ratio that most tools print.
    ///
    /// # Errors
    ///
    /// Missing if no time was accounted, as on a CPU without ticks; some tools print that as 100 % idle.
    pub fn busy_ratio(&self) -> Maybe<f64> {
        let sum = self.busy_s + self.idle_s + self.steal_s;
        if sum > 0.0 {
            Ok(self.busy_s / sum)
        } else {
            Err(Missing::because("/proc/stat counted nothing in this interval"))
        }
    }

    /// 1 - accounted time / wall; negative if more was accounted than passed.
    pub fn unaccounted_ratio(&self) -> f64 {
        1.0 - (self.busy_s + self.idle_s + self.steal_s) / self.wall_s
    }

    /// 1 - idle / wall: right within about 1.5 points if idle is measured and not counted in ticks.
    pub fn not_idle_ratio(&self) -> f64 {
        1.0 - self.idle_s / self.wall_s
    }
}

/// A tick at either edge must not dominate the result.
const TICKS_MIN: f64 = 5.0;

/// Difference of two readings of one CPU, `wall_ns` apart by our clock.
///
/// # Errors
///
/// Missing if a busy column went back, as it may when a CPU was taken offline in between, or if too few ticks
/// passed. The idle columns go back by a tick now and then (proc(5)): such values are not corrected.
pub fn booked(before: &Ticks, after: &Ticks, wall_ns: u64, ticks_per_s: f64) -> Maybe<Booked> {
    if (wall_ns as f64) * 1e-9 * ticks_per_s < TICKS_MIN {
        return Err(Missing::because("/proc/stat counts in ticks, and too few passed in so short a time"));
    }
    let busy = |t: &Ticks| [t.user, t.nice, t.system, t.irq, t.softirq];
    if let Some((b, a)) = busy(before).into_iter().zip(busy(after)).find(|(b, a)| a < b) {
        return Err(Missing::because(format!("/proc/stat went back from {b} to {a} ticks")));
    }
    let seconds =
        |of: fn(&Ticks) -> u64| of(after).wrapping_sub(of(before)).cast_signed() as f64 / ticks_per_s;
    Ok(Booked {
        busy_s: seconds(|t| t.user + t.nice + t.system + t.irq + t.softirq),
        idle_s: seconds(|t| t.idle.wrapping_add(t.iowait)),
        steal_s: seconds(|t| t.steal),
        wall_s: wall_ns as f64 * 1e-9,
    })
}

/// Share of all accounted time of the CPUs that the hypervisor took between two readings.
///
/// `None` if no time was accounted. CPUs that are in one reading only do not count.
pub fn stolen_ratio(before: &ProcStat, after: &ProcStat) -> Option<f64> {
    let (mut steal, mut all) = (0, 0);
    for (cpu, now) in after {
        let Some(was) = before.get(cpu) else { continue };
        steal += now.steal.saturating_sub(was.steal);
        all += now.sum().saturating_sub(was.sum());
    }
    (all > 0).then(|| steal as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn stolen_time_is_a_share_of_all_time_of_the_cpus_in_both_readings() {
        let before = parse("cpu0 10 0 0 90 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n");
        let after = parse("cpu0 60 0 0 130 0 0 0 10\ncpu2 0 0 0 0 0 0 0 999\n");
        assert_eq!(stolen_ratio(&before, &after), Some(0.1));
        assert_eq!(stolen_ratio(&before, &before), None, "nothing was accounted");
        assert_eq!(stolen_ratio(&after, &before), None, "counters that went back");
    }

    #[test]
    fn the_line_of_each_cpu_is_read_and_no_other() {
        let text =
            "cpu  10 0 6 222 6 0 1 1 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu12 1 0 0 9\nintr 5 6\ncpufreq 1\n";
        let stat = parse(text);
        assert_eq!(stat.keys().copied().collect::<Vec<_>>(), [0, 12]);
        let expected =
            Ticks { user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 };
        assert_eq!(stat[&0], expected);
        assert_eq!(stat[&12], Ticks { user: 1, idle: 9, ..Ticks::default() });
    }

    #[test]
    fn a_process_that_hides_between_ticks_shows_as_unaccounted_time() {
        let before = Ticks { user: 100, idle: 1_000, ..Ticks::default() };
        let after = Ticks { user: 101, idle: 1_030, ..before };
        let booked = booked(&before, &after, S, 100.0).unwrap();
        assert_close(booked.busy_ratio().unwrap(), 1.0 / 31.0);
        assert_close(booked.unaccounted_ratio(), 0.69);
        assert_close(booked.not_idle_ratio(), 0.70);
    }

    #[test]
    fn more_booked_than_passed_is_shown_as_such() {
        let after = Ticks { user: 54, idle: 84, ..Ticks::default() };
        let booked = booked(&Ticks::default(), &after, S, 100.0).unwrap();
        assert_close(booked.unaccounted_ratio(), -0.38);
    }

    #[test]
    fn nothing_booked_is_missing_and_not_idle() {
        let booked = booked(&Ticks::default(), &Ticks::default(), S, 100.0).unwrap();
        assert!(booked.busy_ratio().is_err());
        assert_close(booked.unaccounted_ratio(), 1.0);
    }

    #[test]
    fn idle_columns_may_go_back_and_busy_columns_may_not() {
        let before = Ticks { user: 50, iowait: 10, idle: 100, ..Ticks::default() };
        let back = Ticks { iowait: 9, idle: 201, ..before };
        assert_close(booked(&before, &back, S, 100.0).unwrap().not_idle_ratio(), 0.0);
        let reset = Ticks { user: 3, ..before };
        assert!(booked(&before, &reset, S, 100.0).is_err());
        let wrapped = Ticks { idle: u64::MAX, ..before };
        let past_zero = Ticks { idle: 99, ..before };
        assert_close(booked(&wrapped, &past_zero, S, 100.0).unwrap().not_idle_ratio(), 0.0);
    }

    #[test]
    fn an_interval_of_a_few_ticks_has_no_ratios() {
        // Two ticks came in half a tick's time: an edge effect, not 400 % of a CPU.
        let two_ticks = Ticks { user: 2, ..Ticks::default() };
        for wall_ns in [0, S / 200, S / 25] {
            assert!(booked(&Ticks::default(), &two_ticks, wall_ns, 100.0).is_err(), "{wall_ns}");
        }
        assert!(booked(&Ticks::default(), &two_ticks, S / 20, 100.0).is_ok());
    }

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }
}
