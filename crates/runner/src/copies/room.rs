//! Resources for the copies: the CPUs that affinity, CPU set and quota leave, and the limits on processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use plan::{Machine, ScalePlan};
use probes::limits::Limits;
use probes::topology;

/// Number of processes that this machine needs besides the copies.
const SPARE_PROCESSES: u64 = 16;
/// A copy is a process, and a thread of this process that waits for it; the kernel's limits count both.
const TASKS_PER_COPY: u64 = 2;

/// Returns the CPUs that copies may now run on, and how many of them a quota allows to be busy.
pub(super) fn cpus(plan: &ScalePlan) -> Result<(BTreeSet<u32>, u32), String> {
    let mut limits = Limits::of_self().cpu();
    let allowed =
        limits.allowed.map_err(|why| format!("the CPUs that this process may use are unknown: {why}"))?;
    let wanted = match &plan.cpus {
        None => allowed,
        Some(cpus) => {
            if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(format!("this process may not use CPU {cpu} (--cpus)"));
            }
            cpus.iter().copied().collect()
        }
    };
    limits.allowed = Ok(wanted.clone());
    let count = limits.whole_cpus().map_err(|why| format!("this process's CPU quota is unknown: {why}"))?;
    Ok((wanted, count))
}

/// Variant of [`cpus`] that returns each CPU with its socket and core.
pub(super) fn machine(plan: &ScalePlan) -> Result<(Machine, u32), String> {
    let (cpus, count) = cpus(plan)?;
    let places = topology::places(Path::new("/"), &cpus.into_iter().collect::<Vec<_>>());
    Ok((Machine { places }, count))
}

/// Formats the CPUs: `2 of CPUs 0,1,2,3` under a quota of two.
pub(super) fn cpus_text(cpus: &BTreeSet<u32>, count: u32) -> String {
    let all: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let word = if all.len() == 1 { "CPU" } else { "CPUs" };
    let all = format!("{word} {}", all.join(","));
    if count as usize == cpus.len() { all } else { format!("{count} of {all}") }
}

/// Reports CPUs that have changed, so new measurements are not comparable with the earlier ones.
pub(super) fn changed(before: &str, now: &str) -> Option<String> {
    (before != now).then(|| {
        format!(
            "the copies could use {before} when the run began, but {now} now: affinity, CPU set or CPU \
             quota changed, or a CPU went online or offline; start a new run"
        )
    })
}

/// Reports the limit on processes that so many copies would exceed.
pub(super) fn over_the_limits(copies: u64) -> Option<String> {
    let wanted = copies * TASKS_PER_COPY + SPARE_PROCESSES;
    let said = |limit: u64, what: &str| {
        (wanted > limit).then(|| {
            format!(
                "{copies} copies need {wanted} processes and threads, but {what} allows {limit}: use \
                 fewer --copies, or raise the limit"
            )
        })
    };
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if !geteuid().is_root()
        && let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NPROC)
        && let Some(problem) = said(soft, "this user's limit (ulimit -u)")
    {
        return Some(problem);
    }
    if let Some(group) = own_control_group() {
        let folder = format!("/sys/fs/cgroup{group}");
        if let (Some(max), Some(now)) =
            (number(&format!("{folder}/pids.max")), number(&format!("{folder}/pids.current")))
            && let Some(problem) = said(max.saturating_sub(now), "this control group's limit (pids.max)")
        {
            return Some(problem);
        }
    }
    ["threads-max", "pid_max"].iter().find_map(|name| {
        let max = number(&format!("/proc/sys/kernel/{name}"))?;
        said(max, &format!("the kernel's limit (kernel.{name})"))
    })
}

fn own_control_group() -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|l| l.strip_prefix("0::").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_named_with_what_a_quota_leaves_of_them() {
        let cpus = BTreeSet::from([0, 1, 4]);
        assert_eq!(
            (cpus_text(&cpus, 3), cpus_text(&cpus, 1)),
            ("CPUs 0,1,4".into(), "1 of CPUs 0,1,4".into())
        );
        assert_eq!(cpus_text(&BTreeSet::from([7]), 1), "CPU 7");
        assert_eq!(changed("CPUs 0,1", "CPUs 0,1"), None);
        assert!(changed("CPUs 0,1", "1 of CPUs 0,1").unwrap().contains("but 1 of CPUs 0,1 now"));
    }

    #[test]
    fn limits_are_met_by_copies_and_their_threads() {
        assert_eq!(over_the_limits(0), None);
        let problem = over_the_limits(1 << 40).unwrap();
        assert!(
            problem.starts_with("1099511627776 copies need 2199023255568 processes and threads"),
            "{problem}"
        );
    }
}
