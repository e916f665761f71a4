//! The profiler with BPF: sums of stacks, named while their processes live.

mod names;
mod programs;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::profile::{Profile, ProfileCost, ProfileDoubts, ProfileKind, ProfileStack, ThreadState};

use self::names::Names;
use super::Options;
use crate::locks::Refused;
use crate::proc_stat::{self, ProcStat};
use crate::program::{self, RunTime};
use crate::ticks::SAMPLE_PERIOD_NS;

#[cfg(test)]
pub(crate) use self::programs::kernel_memory;

/// Maximum number of stacks in a profile; beyond, time is stored without its stack.
const STACKS_MAX: usize = 65_536;

impl Options {
    fn is_part(&self) -> bool {
        self.pid.is_some() || self.comm.is_some() || self.cgroup.is_some()
    }
}

/// A running profile.
#[derive(Debug)]
pub struct Profiler {
    programs: programs::Bpf,
    options: Options,
    names: Names,
    taken: Totals,
    began: Baseline,
}

/// Sums so far.
#[derive(Debug, Default)]
struct Totals {
    stacks: HashMap<(String, ThreadState, Vec<String>), (u64, u64)>,
    doubts: ProfileDoubts,
    idle_samples: u64,
    still_off: u64,
    lost: BTreeMap<String, u64>,
}

/// Clocks at the start.
#[derive(Debug)]
struct Baseline {
    at_ns: u64,
    samples: u64,
    own_cpu_ns: u64,
    run_time: Maybe<RunTime>,
    ticks: ProcStat,
    off_cpu: BTreeMap<u32, u64>,
}

impl Baseline {
    fn now(programs: &programs::Bpf, options: &Options, at_ns: u64) -> Self {
        let (samples, run_time) = (programs.samples(), programs.run_time());
        let off_cpu = off_cpu(options);
        Self { at_ns, samples, own_cpu_ns: own_cpu_ns(), run_time, ticks: ticks(), off_cpu }
    }
}

impl Profiler {
    /// Attaches the program; counting starts with [`Profiler::start`].
    pub(super) fn open(options: &Options) -> Result<Self, Refused> {
        let programs = programs::Bpf::open(options).map_err(Refused::because)?;
        let names = Names::open();
        let began = Baseline::now(&programs, options, Monotonic.now_ns());
        Ok(Self { programs, options: options.clone(), names, taken: Totals::default(), began })
    }

    /// Starts and returns the time on `CLOCK_MONOTONIC`.
    pub fn start(&mut self) -> u64 {
        self.began = Baseline::now(&self.programs, &self.options, 0);
        self.began.at_ns = self.programs.set_running(true);
        self.began.at_ns
    }

    /// Takes the sums of the kernel's side, and names them while their processes live. Call it ten times a
    /// second.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return them.
    pub fn gather(&mut self) -> Maybe<()> {
        self.names.next_round();
        for sum in self.programs.drain()? {
            self.taken.add(&sum, &mut self.names);
        }
        Ok(())
    }

    /// Ends the profile.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return its sums.
    pub fn finish(mut self) -> Maybe<Profile> {
        let until_ns = self.programs.set_running(false);
        program::wait_for_running();
        let elapsed_ns = until_ns.saturating_sub(self.began.at_ns);
        let never_ran = off_cpu(&self.options);
        let came = self.programs.samples() - self.began.samples;
        self.gather()?;
        let still_off = self.programs.still_off(until_ns)?;
        self.taken.still_off = still_off.len() as u64;
        for sum in &still_off {
            self.taken.add(sum, &mut self.names);
        }
        for (reason, n) in self.programs.lost() {
            program::count_in(&mut self.taken.lost, &reason, n);
        }
        let cpus = self.programs.cpus();
        let samples = self.options.kind == ProfileKind::OnCpu;
        if samples {
            program::count_in(
                &mut self.taken.lost,
                "samples-that-did-not-come",
                absent(came, elapsed_ns, cpus),
            );
        }
        let mut notes = self.names.notes();
        notes.extend(samples.then(|| stolen(&self.began.ticks, &ticks())).flatten());
        notes.extend(hung(&self.began.off_cpu, &never_ran));
        let only_on_cpu = || Missing::because("an off-CPU profile has no samples");
        let idle_samples = match (samples, self.options.is_part()) {
            (true, false) => Ok(self.taken.idle_samples),
            (true, true) => Err(Missing::because("only some threads were watched")),
            (false, _) => Err(only_on_cpu()),
        };
        Ok(Profile {
            kind: self.options.kind,
            elapsed_ns,
            cpus,
            period_ns: if samples { Ok(SAMPLE_PERIOD_NS) } else { Err(only_on_cpu()) },
            idle_samples,
            stacks: self.taken.stacks(),
            still_off: self.taken.still_off,
            doubts: self.taken.doubts,
            cost: self.cost(),
            notes,
            lost: self.taken.lost,
        })
    }

    fn cost(&self) -> Maybe<ProfileCost> {
        let (before, now) = (self.began.run_time.clone()?, self.programs.run_time()?);
        let (ns, runs) = (now.ns - before.ns, now.runs - before.runs);
        if runs == 0 {
            return Err(Missing::because("the BPF program did not run"));
        }
        Ok(ProfileCost {
            ns_per_event: ns as f64 / runs as f64,
            events: runs,
            kernel_s: ns as f64 * 1e-9,
            reader_s: own_cpu_ns().saturating_sub(self.began.own_cpu_ns) as f64 * 1e-9,
        })
    }
}

/// Number of absent samples. The first and the last of each CPU may fall to either side of an edge.
fn absent(came: u64, elapsed_ns: u64, cpus: usize) -> u64 {
    let missing = (elapsed_ns / SAMPLE_PERIOD_NS * cpus as u64).saturating_sub(came);
    if missing > cpus as u64 { missing } else { 0 }
}

/// Ticks of the CPUs; none if `/proc/stat` cannot be read.
fn ticks() -> ProcStat {
    proc_stat::read(Path::new("/")).unwrap_or_default()
}

/// Note on the time that a hypervisor took from the CPUs, if that is 1 % or more of theirs.
///
/// A sample cannot tell it from the time of the interrupted thread; that thread's own clock omits it.
fn stolen(before: &ProcStat, after: &ProcStat) -> Option<String> {
    let percent = proc_stat::stolen_ratio(before, after)? * 100.0;
    (percent >= 1.0).then(|| {
        format!(
            "the hypervisor took {percent:.1} % of the CPUs' time; samples count that as time of the threads"
        )
    })
}

/// Threads of the process to watch that have no CPU now, each with the number of times that it left one;
/// empty for an on-CPU profile, or one of more than a process.
fn off_cpu(options: &Options) -> BTreeMap<u32, u64> {
    let pid = options.pid.filter(|_| options.kind == ProfileKind::OffCpu);
    let threads = pid.and_then(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let status = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("status")).ok()?;
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let switches = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(of);
        let switches = switches.into_iter().map(|n| n?.parse::<u64>().ok()).sum::<Option<u64>>()?;
        let is_wanted = options.comm.is_none() || options.comm.as_deref() == of("Name:");
        let is_off = !of("State:")?.starts_with(['R', 'X', 'Z']);
        (is_wanted && is_off).then_some((entry.file_name().to_str()?.parse().ok()?, switches))
    };
    threads.into_iter().flatten().flatten().filter_map(status).collect()
}

/// Note on threads that had no CPU from the start to the end: the programs saw no switch of theirs.
fn hung(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Option<String> {
    let n = before.iter().filter(|(tid, switches)| after.get(tid) == Some(switches)).count();
    let (threads, their) = if n == 1 { ("thread", "its") } else { ("threads", "their") };
    (n > 0).then(|| {
        format!(
            "{n} {threads} of the process had no CPU at any time: {their} waits began before the profile, and \
             their time is not in it"
        )
    })
}

/// CPU time of this process.
fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("this process has a clock");
    std::time::Duration::from(time).as_nanos().try_into().unwrap_or(u64::MAX)
}

impl Totals {
    fn add(&mut self, sum: &programs::Sum, names: &mut Names) {
        let named = names.name(sum);
        if named.is_idle {
            self.idle_samples += sum.count;
            return;
        }
        for (is_so, ns) in [
            (named.is_unnamed, &mut self.doubts.unnamed_ns),
            (named.has_ended, &mut self.doubts.ended_ns),
            (named.lacks_callers, &mut self.doubts.without_callers_ns),
            (named.is_truncated, &mut self.doubts.truncated_ns),
            (named.lacks_stack, &mut self.doubts.without_stack_ns),
        ] {
            *ns += if is_so { sum.ns } else { 0 };
        }
        let mut key = (named.comm, sum.state, named.frames);
        if self.stacks.len() >= STACKS_MAX && !self.stacks.contains_key(&key) {
            program::count_in(&mut self.lost, "no-room-for-stack", sum.count);
            key.2 = vec!["[one of too many stacks]".to_owned()];
        }
        let (count, ns) = self.stacks.entry(key).or_default();
        *count += sum.count;
        *ns += sum.ns;
    }

    /// Most time first.
    fn stacks(&mut self) -> Vec<ProfileStack> {
        let one = |((comm, state, frames), (count, ns))| ProfileStack { comm, state, frames, count, ns };
        let mut stacks: Vec<ProfileStack> = std::mem::take(&mut self.stacks).into_iter().map(one).collect();
        stacks.sort_by(|a, b| {
            b.ns.cmp(&a.ns).then_with(|| (&a.comm, &a.frames, a.state).cmp(&(&b.comm, &b.frames, b.state)))
        });
        stacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_more_or_less_at_the_edges_is_not_lost() {
        let second = 1_000_000_000;
        assert_eq!(absent(2 * 997, second, 2), 0);
        assert_eq!(absent(2 * 997 - 2, second, 2), 0);
        assert_eq!(absent(2 * 997 + 2, second, 2), 0);
        assert_eq!(absent(997, second, 2), 997, "one CPU of two was not sampled");
    }
}
