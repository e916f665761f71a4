//! A process's memory in `/proc/PID`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use record::memory::ProcessMemory;

use super::Scope;
use crate::process_time;

/// A process at an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessCounters {
    pub(super) started: u64,
    pub(super) comm: String,
    pub(super) rss_bytes: u64,
    pub(super) swap_bytes: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
}

/// Reads the processes in `of` that have memory.
pub(super) fn all(root: &Path, of: Scope) -> HashMap<u32, ProcessCounters> {
    let proc = root.join("proc");
    let is_exact = matches!(of, Scope::One(_));
    let listed = || {
        let entries = fs::read_dir(&proc).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let pids: Vec<u32> = match of {
        Scope::EveryProcess => listed(),
        Scope::One(pid) => vec![pid],
        Scope::NoProcess => Vec::new(),
    };
    pids.into_iter().filter_map(|pid| Some((pid, read(&proc.join(pid.to_string()), is_exact)?))).collect()
}

/// `None` if the process has ended, or has no memory: kernel threads.
fn read(folder: &Path, is_exact: bool) -> Option<ProcessCounters> {
    let text = |name: &str| process_time::text(folder.join(name));
    let stat = text("stat").ok()?;
    let status = text("status").ok()?;
    // Readable for its user and root only.
    let exact = if is_exact { text("smaps_rollup").ok() } else { None };
    seen(&stat, &status, exact.as_deref())
}

/// Whether a process is a kernel thread, by its `stat`; `None` if that has an unexpected format.
pub(super) fn is_of_the_kernel(stat: &str) -> Option<bool> {
    /// In the flags of a task: `PF_KTHREAD` of `linux/sched.h`.
    const OF_THE_KERNEL: u64 = 0x0020_0000;
    let (_, behind) = stat.rsplit_once(')')?;
    Some(behind.split_ascii_whitespace().nth(6)?.parse::<u64>().ok()? & OF_THE_KERNEL != 0)
}

fn seen(stat: &str, status: &str, exact: Option<&str>) -> Option<ProcessCounters> {
    // The name may hold blanks and brackets; the third field of proc(5) is the first after it.
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (rss, swap) = (kilobytes(status, "VmRSS:")?, kilobytes(status, "VmSwap:").unwrap_or(0));
    let exactly = |name: &str| exact.and_then(|text| kilobytes(text, name));
    Some(ProcessCounters {
        started: field(22)?,
        comm: head.split_once('(')?.1.to_owned(),
        rss_bytes: exactly("Rss:").unwrap_or(rss),
        swap_bytes: exactly("Swap:").unwrap_or(swap),
        minor_faults: field(10)?,
        major_faults: field(12)?,
    })
}

/// The bytes of `VmRSS:     1234 kB`.
pub(super) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

impl ProcessCounters {
    /// - `before`: the same process at the edge before; `None` if it began since.
    pub(super) fn since(&self, pid: u32, before: Option<&Self>) -> ProcessMemory {
        let then = |of: fn(&Self) -> u64| before.map_or(0, of);
        ProcessMemory {
            pid,
            started: self.started,
            comm: self.comm.clone(),
            rss_bytes: self.rss_bytes,
            swap_bytes: self.swap_bytes,
            rss_change_bytes: self.rss_bytes.cast_signed() - then(|s| s.rss_bytes).cast_signed(),
            minor_faults: self.minor_faults.saturating_sub(then(|s| s.minor_faults)),
            major_faults: self.major_faults.saturating_sub(then(|s| s.major_faults)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "42 (a ) (b) S 1 42 42 0 -1 4194560 1500 20 3 4 5 6 7 8 20 0 1 0 98765 1000000 250 184467";
    const STATUS: &str = "Name:\ta ) (b\nVmRSS:\t    1000 kB\nVmSwap:\t      24 kB\n";

    #[test]
    fn a_name_may_hold_brackets_and_faults_of_children_are_not_its_own() {
        let seen = seen(STAT, STATUS, None).unwrap();
        assert_eq!((seen.comm.as_str(), seen.started), ("a ) (b", 98_765));
        assert_eq!((seen.minor_faults, seen.major_faults), (1_500, 3));
        assert_eq!((seen.rss_bytes, seen.swap_bytes), (1_000 * 1024, 24 * 1024));
    }

    #[test]
    fn a_thread_of_the_kernel_is_known_by_its_flags_whatever_its_name() {
        assert_eq!(is_of_the_kernel(STAT), Some(false));
        let kernel = "2 (k) S 9 (x)) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 184467";
        assert_eq!(is_of_the_kernel(kernel), Some(true));
        assert_eq!(is_of_the_kernel("2 (kthreadd) S 0"), None);
    }

    #[test]
    fn exact_figures_come_before_those_of_counters_and_threads_of_the_kernel_have_none() {
        let exact = "55d0-7ffd ---p 00000000 00:00 0  [rollup]\nRss:   1100 kB\nPss:  3 kB\nSwap:   0 kB\n";
        let found = seen(STAT, STATUS, Some(exact)).unwrap();
        assert_eq!((found.rss_bytes, found.swap_bytes), (1_100 * 1024, 0));
        assert_eq!(seen(STAT, "Name:\tkworker\n", None), None);
    }
}
