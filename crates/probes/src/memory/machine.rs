//! The machine's memory in `/proc`.

use std::fs;
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};
use record::clock::{Clock as _, Monotonic};
use record::memory::MachineMemory;
use record::missing::{Maybe, Missing};

use super::process::kilobytes;
use crate::pressure;

/// Levels and counters at an edge.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    levels: Levels,
    counters: Counters,
    /// Time under pressure since boot, with the time of the reading.
    pressure: Maybe<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Levels {
    total: u64,
    available: u64,
    free: u64,
    swap_total: u64,
    swap_free: u64,
}

/// Counters since boot; pages, but for faults, stalls and kills.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counters {
    faults: u64,
    major_faults: u64,
    scanned: u64,
    reclaimed: u64,
    /// The part for the whole machine, not for a control group.
    reclaimed_machine: u64,
    reclaimed_direct: u64,
    stalls: u64,
    swapped_in: u64,
    swapped_out: u64,
    oom_kills: Maybe<u64>,
}

impl Machine {
    /// # Errors
    ///
    /// Missing if `/proc` lacks it.
    pub(super) fn read(root: &Path) -> Maybe<Self> {
        let text = |path: &str| {
            fs::read_to_string(root.join(path))
                .map_err(|e| Missing::because(format!("/{path} cannot be read: {e}")))
        };
        let levels = levels(&text("proc/meminfo")?)
            .ok_or_else(|| Missing::because("/proc/meminfo has no MemAvailable (Linux 3.14 has it)"))?;
        let counters = counters(&text("proc/vmstat")?)
            .ok_or_else(|| Missing::because("/proc/vmstat counts no page faults"))?;
        let pressure = pressure::some_ns(root, "memory").map(|ns| (Monotonic.now_ns(), ns));
        Ok(Self { levels, counters, pressure })
    }

    pub(super) fn since(&self, before: &Self) -> MachineMemory {
        let page = sysconf(SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(4_096);
        let (now, then) = (&self.counters, &before.counters);
        let came = |of: fn(&Counters) -> u64| of(now).saturating_sub(of(then));
        let kills = now.oom_kills.clone().and_then(|n| Ok(n.saturating_sub(then.oom_kills.clone()?)));
        let major_faults = came(|c| c.major_faults);
        MachineMemory {
            total_bytes: self.levels.total,
            available_bytes: self.levels.available,
            free_bytes: self.levels.free,
            swap_total_bytes: self.levels.swap_total,
            swap_used_bytes: self.levels.swap_total.saturating_sub(self.levels.swap_free),
            available_change_bytes: self.levels.available.cast_signed()
                - before.levels.available.cast_signed(),
            minor_faults: came(|c| c.faults).saturating_sub(major_faults),
            major_faults,
            scanned_bytes: page * came(|c| c.scanned),
            reclaimed_bytes: page * came(|c| c.reclaimed),
            reclaimed_at_limits_bytes: page
                * came(|c| c.reclaimed).saturating_sub(came(|c| c.reclaimed_machine)),
            reclaimed_direct_bytes: page * came(|c| c.reclaimed_direct),
            stalls: came(|c| c.stalls),
            swapped_in_bytes: page * came(|c| c.swapped_in),
            swapped_out_bytes: page * came(|c| c.swapped_out),
            oom_kills: kills,
            pressure_some_ratio: pressure::ratio(&before.pressure, &self.pressure),
        }
    }
}

fn levels(text: &str) -> Option<Levels> {
    Some(Levels {
        total: kilobytes(text, "MemTotal:")?,
        available: kilobytes(text, "MemAvailable:")?,
        free: kilobytes(text, "MemFree:")?,
        swap_total: kilobytes(text, "SwapTotal:").unwrap_or(0),
        swap_free: kilobytes(text, "SwapFree:").unwrap_or(0),
    })
}

fn counters(text: &str) -> Option<Counters> {
    let lines = || text.lines().filter_map(|line| line.split_once(' '));
    let value = |name: &str| lines().find(|(n, _)| *n == name)?.1.trim().parse::<u64>().ok();
    // By reclaimer, without reclaim in a control group at its limit; and since Linux 5.8 the same pages by
    // their type, with it.
    let sum = |what: &str, of: &[&str]| -> u64 {
        of.iter().filter_map(|which| value(&format!("{what}_{which}"))).sum()
    };
    let by_who = |what: &str| sum(what, &["kswapd", "direct", "khugepaged", "proactive"]);
    let in_all = |what: &str| sum(what, &["anon", "file"]).max(by_who(what));
    // By zone since Linux 4.10.
    let stalls =
        lines().filter(|(name, _)| name.starts_with("allocstall")).filter_map(|(_, n)| n.parse::<u64>().ok());
    Some(Counters {
        faults: value("pgfault")?,
        major_faults: value("pgmajfault")?,
        scanned: in_all("pgscan"),
        reclaimed: in_all("pgsteal"),
        reclaimed_machine: by_who("pgsteal"),
        reclaimed_direct: value("pgsteal_direct").unwrap_or(0),
        stalls: stalls.sum(),
        swapped_in: value("pswpin").unwrap_or(0),
        swapped_out: value("pswpout").unwrap_or(0),
        oom_kills: value("oom_kill")
            .ok_or_else(|| Missing::because("this kernel does not count them (4.13 does)")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "pgfault 1000\npgmajfault 10\npgsteal_kswapd 5\npgsteal_direct 2\npgsteal_khugepaged 1\npgsteal_anon 3\n\
        pgsteal_file 5\npgscan_kswapd 50\npgscan_direct 20\npgscan_direct_throttle 9\npgscan_file 70\nallocstall_normal 4\n\
        allocstall_movable 6\npswpin 7\npswpout 8\noom_kill 1\n";

    #[test]
    fn a_page_that_is_counted_twice_by_the_kernel_counts_once() {
        let found = counters(VMSTAT).unwrap();
        assert_eq!((found.scanned, found.reclaimed, found.reclaimed_direct, found.stalls), (70, 8, 2, 10));
        assert_eq!(found.oom_kills, Ok(1));
        assert!(counters("nr_free_pages 5\n").is_none());
        assert!(counters("pgfault 1\npgmajfault 0\n").unwrap().oom_kills.is_err());
    }

    #[test]
    fn what_control_groups_reclaimed_at_their_limit_was_reclaimed() {
        let text = VMSTAT.replace("pgsteal_file 5", "pgsteal_file 1005");
        let found = counters(&text).unwrap();
        assert_eq!((found.reclaimed, found.reclaimed_machine, found.reclaimed_direct), (1_008, 8, 2));
        // Before Linux 5.8 the kernel did not count by type.
        let old =
            VMSTAT.replace("pgsteal_anon", "x").replace("pgsteal_file", "y").replace("pgscan_file", "z");
        assert_eq!(counters(&old).unwrap().reclaimed, 8);
    }

    fn machine(vmstat: &str, available: u64, pressure: (u64, u64)) -> Machine {
        Machine {
            levels: Levels { total: 100, available, free: 1, swap_total: 10, swap_free: 4 },
            counters: counters(vmstat).unwrap(),
            pressure: Ok(pressure),
        }
    }

    /// Some thread always waited for 665,001 ns, in which the kernel's total grew by 666 us.
    #[test]
    fn pressure_all_the_time_is_at_most_all_the_time() {
        let seen = machine(VMSTAT, 60, (665_001, 766_000)).since(&machine(VMSTAT, 60, (0, 100_000)));
        assert_eq!(seen.pressure_some_ratio, Ok(1.0));
    }

    #[test]
    fn a_major_fault_is_no_minor_one() {
        let after = machine(
            &VMSTAT.replace("pgfault 1000", "pgfault 1500").replace("pgmajfault 10", "pgmajfault 30"),
            60,
            (1_000, 0),
        );
        let seen = after.since(&machine(VMSTAT, 75, (0, 0)));
        assert_eq!((seen.minor_faults, seen.major_faults), (480, 20));
        assert_eq!((seen.available_change_bytes, seen.swap_used_bytes), (-15, 6));
        assert_eq!(seen.reclaimed_bytes, 0);
    }
}
