//! The profiler with BPF: sums of stacks, named while their processes live.

mod names;
mod online;
mod programs;
mod totals;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::profile::{Profile, ProfileCost, ProfileFilter, ProfileKind};

use self::names::Names;
use self::online::Online;
use self::totals::Totals;
use super::Options;
use crate::cpu_list;
use crate::locks::Refused;
use crate::proc_stat::{self, ProcStat};
use crate::program::{self, RunTime};
use crate::ticks::SAMPLE_PERIOD_NS;

#[cfg(test)]
pub(crate) use self::programs::kernel_memory;

/// Maximum number of notes on a control group that comes and goes.
const NEWS_MAX: usize = 16;

impl Options {
    fn filter(&self) -> ProfileFilter {
        let cgroup = self.cgroup.as_ref().map(|cgroup| cgroup.name.clone());
        ProfileFilter { pid: self.pid, comm: self.comm.clone(), cgroup }
    }
}

/// A running profile.
#[derive(Debug)]
pub struct Profiler {
    programs: programs::Bpf,
    options: Options,
    names: Names,
    taken: Totals,
    /// Only on-CPU.
    online: Option<Online>,
    news: Vec<String>,
    began: Baseline,
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
        let (options, taken, news) = (options.clone(), Totals::default(), Vec::new());
        Ok(Self { programs, options, names, taken, online: None, news, began })
    }

    /// Starts and returns the time on `CLOCK_MONOTONIC`. A profile may follow another one.
    pub fn start(&mut self) -> u64 {
        self.taken = Totals::default();
        self.news.clear();
        // Losses before the start are not those of the profile.
        self.programs.lost();
        self.began = Baseline::now(&self.programs, &self.options, 0);
        let at_ns = self.programs.set_running(true);
        self.began.at_ns = at_ns;
        let samples = self.options.kind == ProfileKind::OnCpu;
        self.online = samples.then(|| Online::new(self.programs.sampled(), at_ns));
        at_ns
    }

    /// Takes the sums of the kernel's side, and names them while their processes live. Call it ten times a
    /// second.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return them.
    pub fn gather(&mut self) -> Maybe<()> {
        self.look_around(Monotonic.now_ns());
        self.names.next_round();
        for sum in self.programs.drain()? {
            self.add(&sum);
        }
        Ok(())
    }

    /// Looks whether the filter and the CPUs are still the same.
    fn look_around(&mut self, now_ns: u64) {
        let news = self.programs.follow().filter(|_| self.news.len() < NEWS_MAX);
        self.news.extend(news);
        if let Some(online) = &mut self.online {
            online.look(cpu_list::stays(Path::new("/")).as_ref(), now_ns);
        }
    }

    fn add(&mut self, sum: &programs::Sum) {
        let named = self.names.name(sum);
        self.taken.add(named, sum.state, sum.count, sum.ns);
    }

    /// Ends the profile. Call it from the thread that started it: the cost is that of this thread.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return its sums.
    pub fn finish(&mut self) -> Maybe<Profile> {
        let until_ns = self.programs.set_running(false);
        program::wait_for_running();
        let elapsed_ns = until_ns.saturating_sub(self.began.at_ns);
        let never_ran = off_cpu(&self.options);
        let came = self.programs.samples() - self.began.samples;
        self.look_around(until_ns);
        // The profile does not count time after its end.
        let online = self.online.take();
        self.gather()?;
        let still_off = self.programs.still_off(until_ns)?;
        self.taken.still_off = still_off.len() as u64;
        for sum in &still_off {
            self.add(sum);
        }
        for (reason, n) in self.programs.lost() {
            program::count_in(&mut self.taken.lost, &reason, n);
        }
        let mut notes = self.names.notes();
        if let Some(online) = &online {
            program::count_in(&mut self.taken.lost, "samples-that-did-not-come", online.absent(came));
            program::count_in(&mut self.taken.lost, "cpu-that-came-online", online.unsampled());
            notes.extend(online.notes());
            notes.extend(stolen(&self.began.ticks, &ticks()));
        }
        notes.append(&mut self.news);
        notes.extend(hung(&self.began.off_cpu, &never_ran));
        let only_on_cpu = || Missing::because("an off-CPU profile has no samples");
        let only = self.options.filter();
        let samples = self.options.kind == ProfileKind::OnCpu;
        let idle_samples = match (samples, only == ProfileFilter::default()) {
            (true, true) => Ok(self.taken.idle_samples),
            (true, false) => Err(Missing::because("only some threads were watched")),
            (false, _) => Err(only_on_cpu()),
        };
        Ok(Profile {
            kind: self.options.kind,
            only: Ok(only),
            elapsed_ns,
            cpus: self.programs.cpus(),
            period_ns: if samples { Ok(SAMPLE_PERIOD_NS) } else { Err(only_on_cpu()) },
            idle_samples,
            stacks: self.taken.stacks(),
            still_off: self.taken.still_off,
            doubts: self.taken.doubts,
            cost: self.cost(),
            notes,
            lost: std::mem::take(&mut self.taken.lost),
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

/// CPU time of this thread. Beside a load, other threads of this process generate it.
fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("this thread has a clock");
    std::time::Duration::from(time).as_nanos().try_into().unwrap_or(u64::MAX)
}
