//! Time of threads by stack: on a CPU, or off all CPUs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::missing::Maybe;
use crate::run::words;

/// Kind of time in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileKind {
    /// Time on a CPU, by samples.
    OnCpu,
    /// Time off all CPUs, by context switches.
    OffCpu,
}

words!(ProfileKind { OnCpu = "on-cpu", OffCpu = "off-cpu" });

/// State of a thread during the time of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// Waited for an event: a timer, a lock, a disk, a peer. Includes the time from wake-up to the CPU.
    Blocked,
    /// Preempted or yielded: waited for a CPU.
    Runnable,
}

words!(ThreadState { Running = "running", Blocked = "blocked", Runnable = "runnable" });

/// One stack and the time spent in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileStack {
    /// Name of the threads.
    pub comm: String,
    /// State of the threads.
    pub state: ThreadState,
    /// Functions, outermost first; those of the kernel end in `_[k]`.
    pub frames: Vec<String>,
    /// Samples, or number of times that a thread left its CPU.
    pub count: u64,
    /// Total time.
    pub ns: u64,
}

/// Parts of the profile's time with incomplete stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProfileDoubts {
    /// Time with an innermost function that has no name.
    pub unnamed_ns: u64,
    /// Time of processes that ended before their functions could be resolved.
    pub ended_ns: u64,
    /// Time with a user stack of one function, because its code has no frame pointers.
    pub without_callers_ns: u64,
    /// Time of stacks deeper than the kernel walks; their outermost functions are missing.
    pub truncated_ns: u64,
    /// Time of stacks that were not stored for lack of space.
    pub without_stack_ns: u64,
}

/// Cost of profiling.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileCost {
    /// Time of the BPF program per sample or switch, without the interrupt around it.
    pub ns_per_event: f64,
    /// Samples or switches.
    pub events: u64,
    /// CPU time of the BPF program.
    pub kernel_s: f64,
    /// CPU time of this process during the profile; it resolves function names.
    pub reader_s: f64,
}

/// Restriction of a profile to some threads. Empty: all threads of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileFilter {
    /// Only threads of this process.
    pub pid: Option<u32>,
    /// Only threads of this name.
    pub comm: Option<String>,
    /// Only threads in this control group, or below it.
    pub cgroup: Option<String>,
}

impl fmt::Display for ProfileFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.pid.map(|pid| format!("process {pid}")),
            self.comm.as_ref().map(|comm| format!("threads named `{comm}`")),
            self.cgroup.as_ref().map(|name| format!("control group {name}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "all threads" } else { "" })?;
        f.write_str(&parts.join(" and "))
    }
}

/// Stacks of an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Kind of time.
    pub kind: ProfileKind,
    /// Threads that were watched; missing in documents of older versions.
    pub only: Maybe<ProfileFilter>,
    /// Length.
    pub elapsed_ns: u64,
    /// Number of watched CPUs.
    pub cpus: usize,
    /// Time that one sample represents; missing off-CPU.
    pub period_ns: Maybe<u64>,
    /// Samples that found a CPU idle; missing off-CPU and if only some threads were watched.
    pub idle_samples: Maybe<u64>,
    /// One entry for each thread name, state and stack; most time first.
    pub stacks: Vec<ProfileStack>,
    /// Off-CPU: threads that were still off at the end; their time until then counts.
    pub still_off: u64,
    /// Time with incomplete stacks.
    pub doubts: ProfileDoubts,
    /// Reasons for missing names, one sentence each.
    pub notes: Vec<String>,
    /// Lost events, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Cost of the profile.
    pub cost: Maybe<ProfileCost>,
}

/// One function of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionTime {
    /// Name.
    pub name: String,
    /// Time in which it was the innermost function.
    pub self_ns: u64,
    /// Time in which it was on the stack, at any depth.
    pub total_ns: u64,
}

impl Profile {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_ns as f64 * 1e-9
    }

    /// Time of all stacks.
    pub fn total_ns(&self) -> u64 {
        self.stacks.iter().map(|s| s.ns).sum()
    }

    /// Time of the stacks of one state.
    pub fn ns_of(&self, state: ThreadState) -> u64 {
        self.stacks.iter().filter(|s| s.state == state).map(|s| s.ns).sum()
    }

    /// Samples, or number of times off the CPU, of all stacks.
    pub fn count(&self) -> u64 {
        self.stacks.iter().map(|s| s.count).sum()
    }

    /// Time by function; largest self time first.
    pub fn functions(&self) -> Vec<FunctionTime> {
        let mut times: HashMap<&str, (u64, u64)> = HashMap::new();
        for stack in &self.stacks {
            if let Some(innermost) = stack.frames.last() {
                times.entry(innermost).or_default().0 += stack.ns;
            }
            // Counts a recursive function once per stack.
            for frame in stack.frames.iter().collect::<HashSet<_>>() {
                times.entry(frame).or_default().1 += stack.ns;
            }
        }
        let time = |(name, (self_ns, total_ns)): (&str, (u64, u64))| FunctionTime {
            name: name.to_owned(),
            self_ns,
            total_ns,
        };
        let mut all: Vec<FunctionTime> = times.into_iter().map(time).collect();
        all.sort_by(|a, b| (b.self_ns, b.total_ns).cmp(&(a.self_ns, a.total_ns)).then(a.name.cmp(&b.name)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::missing::Missing;

    fn profile(stacks: &[(&[&str], u64)]) -> Profile {
        let stack = |(frames, ns): &(&[&str], u64)| ProfileStack {
            comm: "app".to_owned(),
            state: ThreadState::Running,
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            count: 1,
            ns: *ns,
        };
        Profile {
            kind: ProfileKind::OnCpu,
            only: Ok(ProfileFilter::default()),
            elapsed_ns: 1_000,
            cpus: 1,
            period_ns: Ok(1),
            idle_samples: Ok(0),
            stacks: stacks.iter().map(stack).collect(),
            still_off: 0,
            doubts: ProfileDoubts::default(),
            notes: Vec::new(),
            lost: BTreeMap::new(),
            cost: Err(Missing::because("not measured")),
        }
    }

    #[test]
    fn a_function_that_calls_itself_is_counted_once() {
        let functions = profile(&[(&["main", "walk", "walk", "walk"], 7), (&["main"], 3)]).functions();
        let times: Vec<(&str, u64, u64)> =
            functions.iter().map(|f| (f.name.as_str(), f.self_ns, f.total_ns)).collect();
        assert_eq!(times, [("walk", 7, 7), ("main", 3, 10)]);
    }

    #[test]
    fn own_times_of_all_functions_are_the_time_of_all_stacks() {
        let profile = profile(&[(&["a", "b"], 5), (&["b", "a"], 6), (&["c"], 1)]);
        assert_eq!(profile.functions().iter().map(|f| f.self_ns).sum::<u64>(), profile.total_ns());
    }
}
