//! Memory: the levels of processes, their growth, and the cost of getting more.
//!
//! *Traces* nothing: reads `/proc/meminfo`, `/proc/vmstat`, `/proc/pressure/memory` and, of each process,
//! `stat` and `status` (`smaps_rollup` of a process that is watched alone) at the edges of intervals.
//! *Yields* levels at the end of an interval (bytes), and events within it: faults, stalls and kills (count),
//! pages reclaimed and swapped (bytes), time under pressure (ratio). *Differs from* vmstat: faults are
//! separated by whether they waited for a disk, and all faults of a process that began in an interval count
//! there. *Blind to* processes that start and end between two edges (their ends are counted if they were
//! seen), and to sharing of pages between processes: the sum of all resident sets is more than the memory in
//! use. The kernel counts a resident set separately for each CPU: unless a process is watched alone, its
//! figure is off by up to 128 KiB (32 pages) for each CPU. *Costs* two small files for each process and
//! interval; `smaps_rollup` costs the kernel a walk over all of its pages.

mod machine;
pub mod observe;
mod process;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use record::clock::{Clock as _, Monotonic};
use record::memory::{MemoryInterval, ProcessMemory};
use record::missing::{Maybe, Missing};

use self::machine::Machine;
use self::process::ProcessCounters;
use crate::process_time;

/// Watches memory from [`open`] on.
#[derive(Debug)]
pub struct MemoryProbe {
    root: PathBuf,
    of: Scope,
    last: Edge,
}

/// Processes to read, beside the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    EveryProcess,
    /// One process, read exactly.
    One(u32),
    NoProcess,
}

/// Readings at an edge.
#[derive(Debug)]
struct Edge {
    at_ns: u64,
    machine: Maybe<Machine>,
    processes: HashMap<u32, ProcessCounters>,
}

/// Returns the id of the process that has it now, if it can have memory.
///
/// # Errors
///
/// Missing if there is no such process, or if it is a kernel thread.
pub fn find(pid: u32) -> Maybe<u32> {
    let pid = process_time::find(pid)?;
    let stat = process_time::text(format!("/proc/{pid}/stat")).unwrap_or_default();
    if process::is_of_the_kernel(&stat) == Some(true) {
        let name =
            stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(name, _)| name);
        return Err(Missing::because(format!(
            "{pid} ({name}) is a kernel thread: it has no memory of its own; kernel memory belongs to the \
             machine"
        )));
    }
    Ok(pid)
}

/// Takes the first reading; `only`: read this process alone, exactly.
pub fn open(only: Option<u32>) -> MemoryProbe {
    probe(only.map_or(Scope::EveryProcess, Scope::One))
}

/// Variant of [`open`] without processes.
fn of_the_machine() -> MemoryProbe {
    probe(Scope::NoProcess)
}

fn probe(of: Scope) -> MemoryProbe {
    let root = PathBuf::from("/");
    let last = Edge::now(&root, of);
    MemoryProbe { root, of, last }
}

impl MemoryProbe {
    /// Starts the first interval and returns its start on `CLOCK_MONOTONIC`.
    pub fn start(&mut self) -> u64 {
        self.last = Edge::now(&self.root, self.of);
        self.last.at_ns
    }

    /// Interval since the last reading. The caller checks whether it missed a deadline.
    pub fn read(&mut self) -> MemoryInterval {
        let now = Edge::now(&self.root, self.of);
        let before = std::mem::replace(&mut self.last, now);
        interval(&before, &self.last)
    }
}

impl Edge {
    fn now(root: &Path, of: Scope) -> Self {
        let machine = Machine::read(root);
        let at_ns = Monotonic.now_ns();
        Self { at_ns, machine, processes: process::all(root, of) }
    }
}

fn interval(before: &Edge, after: &Edge) -> MemoryInterval {
    let machine = match (&before.machine, &after.machine) {
        (Ok(before_it), Ok(it)) => Ok(it.since(before_it)),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    let is_same = |pid: &u32, seen: &ProcessCounters| {
        after.processes.get(pid).is_some_and(|now| now.started == seen.started)
    };
    let ended = before.processes.iter().filter(|(pid, seen)| !is_same(pid, seen)).count() as u64;
    let mut processes: Vec<ProcessMemory> = after
        .processes
        .iter()
        .map(|(pid, seen)| seen.since(*pid, before.processes.get(pid).filter(|b| b.started == seen.started)))
        .collect();
    processes.sort_by_key(|p| (std::cmp::Reverse(p.rss_bytes), p.pid));
    let (from_ns, until_ns) = (before.at_ns, after.at_ns);
    MemoryInterval { from_ns, until_ns, missed_deadline: false, machine, processes, ended }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(at_ns: u64, processes: &[(u32, u64, u64, u64)]) -> Edge {
        let seen = |(pid, started, rss_bytes, minor_faults): &(u32, u64, u64, u64)| {
            let seen = ProcessCounters {
                started: *started,
                comm: "app".to_owned(),
                rss_bytes: *rss_bytes,
                swap_bytes: 0,
                minor_faults: *minor_faults,
                major_faults: 0,
            };
            (*pid, seen)
        };
        let processes = processes.iter().map(seen).collect();
        Edge { at_ns, machine: Err(Missing::because("not read")), processes }
    }

    #[test]
    fn what_began_in_an_interval_has_all_of_its_faults_there() {
        let before = edge(0, &[(7, 100, 5_000, 50), (8, 100, 9_000, 90), (9, 100, 1, 1)]);
        // 8 is another process now, 9 has ended.
        let after = edge(1, &[(7, 100, 4_000, 60), (8, 200, 1_000, 10)]);
        let seen = interval(&before, &after);
        let told: Vec<(u32, i64, u64)> =
            seen.processes.iter().map(|p| (p.pid, p.rss_change_bytes, p.minor_faults)).collect();
        assert_eq!(told, [(7, -1_000, 10), (8, 1_000, 10)]);
        assert_eq!(seen.ended, 2);
    }
}
