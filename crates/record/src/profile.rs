//! Time of threads by stack: on a CPU, or off all CPUs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::missing::Maybe;
use crate::resources::UsedBy;
use crate::run::words;

/// Maximum number of stacks of a profile that a run stores.
pub const RUN_STACKS_MAX: usize = 10_000;
/// Maximum length of the names in these stacks, in bytes.
pub const RUN_NAMES_BYTES_MAX: usize = 4 << 20;
/// Thread name, and only function, of the stacks that exceed these limits.
pub const OTHER_STACKS: &str = "[other stacks]";

/// Kind of time in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileKind {
    /// Time on a CPU, by samples.
    OnCpu,
    /// Time off all CPUs, by context switches.
    OffCpu,
}

words!(ProfileKind { OnCpu = "on-cpu", OffCpu = "off-cpu" });

impl ProfileKind {
    /// Name of the instrument that takes such a profile beside a load.
    pub const fn instrument(self) -> &'static str {
        match self {
            Self::OnCpu => "profile",
            Self::OffCpu => "off-cpu",
        }
    }
}

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

impl ProfileStack {
    /// Length of the thread's name and of all functions, each with a separator.
    pub fn names_bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.len() + 1).sum::<usize>() + self.comm.len() + 1
    }
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
    /// CPU time of the thread that reads the stacks and resolves the names of functions.
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

/// Profile of the measured phase of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProfile {
    /// Processes that were profiled.
    pub of: UsedBy,
    /// The profile. It has the stacks with the most time; those beyond [`RUN_STACKS_MAX`] and
    /// [`RUN_NAMES_BYTES_MAX`] are summed by state, as [`OTHER_STACKS`].
    pub profile: Profile,
    /// Number of stacks that were summed.
    pub summed_stacks: u64,
}

impl RunProfile {
    /// Bounds a profile to what a run stores. Its times and counts keep their sums.
    pub fn bounded(of: UsedBy, mut profile: Profile) -> Self {
        profile.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.ns));
        let mut bytes = 0;
        let mut fits = |stack: &ProfileStack| {
            bytes += stack.names_bytes();
            bytes <= RUN_NAMES_BYTES_MAX
        };
        let kept = profile.stacks.iter().take(RUN_STACKS_MAX).take_while(|stack| fits(stack)).count();
        let rest = profile.stacks.split_off(kept);
        let mut sums: BTreeMap<ThreadState, (u64, u64)> = BTreeMap::new();
        for stack in &rest {
            let (count, ns) = sums.entry(stack.state).or_default();
            *count += stack.count;
            *ns += stack.ns;
        }
        let sum = |(state, (count, ns))| ProfileStack {
            comm: OTHER_STACKS.to_owned(),
            state,
            frames: vec![OTHER_STACKS.to_owned()],
            count,
            ns,
        };
        profile.stacks.extend(sums.into_iter().map(sum));
        Self { of, profile, summed_stacks: rest.len() as u64 }
    }
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
    fn what_exceeds_the_limits_of_a_run_is_summed_by_state_and_no_time_is_lost() {
        let names: Vec<String> = (0..RUN_STACKS_MAX + 70).map(|n| format!("f{n}")).collect();
        let mut many = profile(&[]);
        let stack = |(n, name): (usize, &String)| ProfileStack {
            comm: "app".to_owned(),
            state: if n.is_multiple_of(2) { ThreadState::Blocked } else { ThreadState::Runnable },
            frames: vec![name.clone()],
            count: 2,
            ns: 1_000_000 - n as u64,
        };
        many.stacks = names.iter().enumerate().map(stack).collect();
        let bounded = RunProfile::bounded(UsedBy::Machine, many.clone());
        let stacks = &bounded.profile.stacks;
        assert_eq!((stacks.len(), bounded.summed_stacks), (RUN_STACKS_MAX + 2, 70));
        assert_eq!((bounded.profile.total_ns(), bounded.profile.count()), (many.total_ns(), many.count()));
        for state in [ThreadState::Blocked, ThreadState::Runnable] {
            assert_eq!(bounded.profile.ns_of(state), many.ns_of(state));
        }
        assert!(stacks[RUN_STACKS_MAX..].iter().all(|stack| stack.comm == OTHER_STACKS && stack.count == 70));

        // Functions with long names: the stack with the most time is kept, however small the rest is.
        many.stacks = (0..5).map(|n| stack((n, &"x".repeat(RUN_NAMES_BYTES_MAX / 3)))).collect();
        let bounded = RunProfile::bounded(UsedBy::Machine, many.clone());
        let bytes: usize = bounded.profile.stacks.iter().map(ProfileStack::names_bytes).sum();
        assert!(bytes <= RUN_NAMES_BYTES_MAX + 100 && bounded.summed_stacks == 3, "{bytes}");
        assert_eq!(bounded.profile.total_ns(), many.total_ns());
        let few = RunProfile::bounded(UsedBy::Server, profile(&[(&["a"], 7)]));
        assert_eq!((few.profile.stacks.len(), few.summed_stacks), (1, 0));
    }

    #[test]
    fn own_times_of_all_functions_are_the_time_of_all_stacks() {
        let profile = profile(&[(&["a", "b"], 5), (&["b", "a"], 6), (&["c"], 1)]);
        assert_eq!(profile.functions().iter().map(|f| f.self_ns).sum::<u64>(), profile.total_ns());
    }
}
