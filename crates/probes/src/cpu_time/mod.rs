//! CPU time by the kernel's context switches, with `/proc/stat` beside it.
//!
//! *Traces* `sched_switch` on every CPU (without BPF: perf's context-switch records, else nothing), whatever
//! the affinity or CPU set of this process. *Yields*, per CPU and interval: busy share by events (ratio), of
//! that the shares in interrupts and in softirqs, time that threads had waited for the CPU (ns), context
//! switches (count), balance (ns), the thread that ran most; and the three readings of [`crate::proc_stat`]
//! over the same window. *Differs from* `mpstat`, `top` and `vmstat`, which count ticks: they miss a thread
//! that sleeps during each tick. An interrupt is busy time, whatever it interrupts, and belongs to no thread.
//! Under a hypervisor, stolen time counts for the task that had the CPU. *Blind to* the part of an interrupt
//! before and after its handler; on the perf rung, to interrupts, so those on an idle CPU count as idle; to
//! time that the hypervisor stole, to idle injection (which counts as idle) and, for the thread that ran
//! most, to threads that together make up less than a quarter of a busy CPU. A CPU that was offline between
//! two readings has no values. *Costs*, measured in November 2026 on a virtual 2-core x86-64 machine: see
//! `docs/decisions/0020`; [`CpuProbe::cost`] measures it on this machine.

mod books;
#[cfg(feature = "bpf")]
pub(crate) mod bpf;
mod ladder;
mod options;
pub(crate) mod perf;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::unistd::{SysconfVar, sysconf};
use record::clock::{Clock, Monotonic};
use record::cpu::{CpuInterval, CpuSample, InterruptSample, Rung, TaskSample, TopThread};
use record::missing::{Maybe, Missing};

use self::books::{Books, Edge};
use self::ladder::best_source;
pub use self::options::{Options, SwitchClock};
use self::snapshot::{Snapshot, counted, was_away};
pub use self::source::Adopt;
use self::source::Source;
use crate::cost::{Cost, Meter};
use crate::cpu_list;
use crate::cycles::Cycles;
use crate::descriptors;
use crate::pressure;
use crate::proc_stat::{self, Booked};
use crate::ticks::{self, Shares, Ticks};

pub use self::watch::{Watch, Watched};

/// Watches the CPUs from [`CpuProbe::start`] on.
#[derive(Debug)]
pub struct CpuProbe {
    root: PathBuf,
    source: Option<Box<dyn Source>>,
    samplers: Maybe<Ticks>,
    tasks: Maybe<Vec<TaskSample>>,
    cycles: Maybe<Cycles>,
    /// The stay of each CPU for which perf events were opened: they end when it goes offline.
    opened: BTreeMap<u32, u64>,
    notes: Vec<String>,
    ticks_per_s: f64,
    meter: Meter<3>,
    switches: u64,
    interrupts: u64,
    last_interrupts: Maybe<Vec<InterruptSample>>,
    members: Maybe<()>,
    first: Option<Snapshot>,
    last: Option<Snapshot>,
    hottest: Hottest,
}

/// CPU time in nanoseconds of each thread that ran most in some interval, by CPU, process and thread.
type Hottest = BTreeMap<u32, BTreeMap<(u32, u32), (String, f64)>>;

/// Opens the highest rung that works here. Never fails: `/proc` is the floor, and a value that even `/proc`
/// lacks is missing with its reason.
pub fn open(options: &Options) -> CpuProbe {
    let mut notes = Vec::new();
    let opened = cpu_list::stays_of(&options.root, &options.online());
    let room = descriptors::make_room(descriptors_of(options));
    let source = match room {
        Ok(()) => best_source(options, &mut notes),
        Err(why) => {
            notes.push(format!("context switches are not observed: {why}"));
            None
        }
    };
    notes.extend(source.as_ref().and_then(|s| s.note()).map(str::to_owned));
    let samplers = open_samplers(options, source.as_deref());
    // HZ is 100 on all but two dead architectures; a fixture is assumed to come from one of the others.
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |t| t as f64);
    let root = options.root.clone();
    let tasks = Err(Missing::because("nothing was read yet"));
    let cycles = open_cycles(options);
    CpuProbe {
        root,
        source,
        samplers,
        tasks,
        cycles,
        opened,
        notes,
        ticks_per_s,
        meter: Meter::new(["a context switch", "an interrupt", "a timer"]),
        switches: 0,
        interrupts: 0,
        last_interrupts: Err(Missing::because("nothing was read yet")),
        members: Err(Missing::because("no process was adopted")),
        first: None,
        last: None,
        hottest: Hottest::new(),
    }
}

impl CpuProbe {
    /// Rung in use.
    pub fn rung(&self) -> Rung {
        self.source.as_ref().map_or(Rung::Proc, |s| s.rung())
    }

    /// Reasons why the next rung is unavailable, and remedies; one sentence each. Empty on the highest rung.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reason why cycles and instructions are missing on every CPU, if they were requested.
    pub fn lacks_counters(&self) -> Option<&str> {
        let why = self.cycles.as_ref().err()?.reason.as_str();
        (why != NOT_ASKED).then_some(why)
    }

    /// Starts the first interval and returns its start on `CLOCK_MONOTONIC`.
    pub fn start(&mut self) -> u64 {
        // The first snapshot finds out which task runs on each CPU. The core shares need this for every CPU.
        let first = self.snapshot();
        if let Some(source) = &mut self.source {
            source.after_first_edge(&first.online);
        }
        let look = self.snapshot();
        let started_ns = look.at_ns;
        self.meter.start(started_ns);
        self.switches = 0;
        self.interrupts = 0;
        self.hottest.clear();
        self.last = Some(look.clone());
        self.first = Some(look);
        started_ns
    }

    /// Chooses the processes that [`CpuProbe::members_ns`] counts: the children of this process, until the
    /// next call.
    ///
    /// A child is a member from its first instruction on, and so is everything that it starts, however
    /// short-lived.
    pub fn adopt(&mut self, adopt: Adopt) {
        let no_source = || Err(Missing::because("the owner of each thread is unknown on the /proc rung"));
        let done = self.source.as_mut().map_or_else(no_source, |source| source.adopt(adopt));
        if adopt == Adopt::Children {
            self.members = done;
        }
    }

    /// CPU time of the members from the start to the last reading, by events; interrupts are not in it.
    ///
    /// # Errors
    ///
    /// Missing if nothing was adopted, or if this rung does not know the threads of a process.
    pub fn members_ns(&self) -> Maybe<u64> {
        self.of_members(|books| books.member_ns)
    }

    /// Time in interrupts while members had the CPU, over the same period; the kernel's own clocks count it
    /// as CPU time.
    ///
    /// # Errors
    ///
    /// As for [`CpuProbe::members_ns`], or interrupts are not timed.
    pub fn members_interrupted_ns(&self) -> Maybe<u64> {
        if let Some(why) = self.source.as_ref().and_then(|source| source.no_interrupts()) {
            return Err(Missing::because(why));
        }
        self.of_members(|books| books.member_interrupted_ns)
    }

    fn of_members(&self, of: fn(&Books) -> u64) -> Maybe<u64> {
        self.members.clone()?;
        let nothing = || Missing::because("nothing was read yet");
        let (first, last) = self.first.as_ref().zip(self.last.as_ref()).ok_or_else(nothing)?;
        let had = |look: &Snapshot, cpu: u32| match look.edges.get(&cpu) {
            Some(edge) => edge.as_ref().map(|e| of(&e.books)).map_err(Clone::clone),
            // The final state of an offline CPU is not available here.
            None => Err(Missing::because("a CPU came online or went offline")),
        };
        let grown = |cpu: &u32| Ok(had(last, *cpu)? - had(first, *cpu)?);
        first.online.union(&last.online).map(grown).sum()
    }

    /// One interval from the start to the last reading, from the counters at its two edges.
    ///
    /// The thread that ran most on a CPU is chosen among those that ran most in some interval; their time in
    /// other intervals is not counted.
    ///
    /// # Errors
    ///
    /// Missing if the probe was not started, or not read since.
    pub fn since_start(&self) -> Maybe<CpuInterval> {
        let nothing = || Missing::because("nothing was read yet");
        let (first, last) = self.first.as_ref().zip(self.last.as_ref()).ok_or_else(nothing)?;
        if last.at_ns == first.at_ns {
            return Err(nothing());
        }
        let mut whole = self.between(first, last);
        let whole_ns = (last.at_ns - first.at_ns) as f64;
        for sample in &mut whole.cpus {
            let threads = self.hottest.get(&sample.cpu).into_iter().flatten();
            let most = threads.max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
            sample.top = most
                .map(|((pid, tid), (comm, ns))| TopThread {
                    pid: *pid,
                    tid: *tid,
                    comm: comm.clone(),
                    ratio: ns / whole_ns,
                })
                .ok_or_else(|| Missing::because("no thread ran, or this rung does not observe threads"));
        }
        Ok(whole)
    }

    /// Ends the interval on every CPU and returns it: from the last reading, or from the start.
    ///
    /// The next interval starts where this one ends. The caller checks whether it missed a deadline.
    pub fn read(&mut self) -> CpuInterval {
        let after = self.snapshot();
        let before = self.last.take().unwrap_or_else(|| Snapshot { edges: BTreeMap::new(), ..after.empty() });
        let interval = self.between(&before, &after);
        self.last_interrupts = self.interrupts_between(&before, &after);
        self.interrupts += after
            .edges
            .keys()
            .filter_map(|cpu| {
                self.edges_of(*cpu, &before, &after).and_then(|(b, a)| books::between(b, a)).ok()
            })
            .map(|events| events.interrupts)
            .sum::<u64>();
        self.switches += interval.cpus.iter().filter_map(|c| c.switches.as_ref().ok()).sum::<u64>();
        let interval_ns = (interval.until_ns - interval.from_ns) as f64;
        for (cpu, top) in interval.cpus.iter().filter_map(|c| Some((c.cpu, c.top.as_ref().ok()?))) {
            let (comm, ns) = self.hottest.entry(cpu).or_default().entry((top.pid, top.tid)).or_default();
            comm.clone_from(&top.comm);
            *ns += top.ratio * interval_ns;
        }
        self.last = Some(after);
        interval
    }

    /// CPU time of each thread in the last interval, most first, without threads that had none.
    ///
    /// # Errors
    ///
    /// Missing if tasks were not requested, or if this rung does not see them.
    pub fn tasks(&self) -> Maybe<&[TaskSample]> {
        self.tasks.as_deref().map_err(Clone::clone)
    }

    /// Time by kind of interrupt in the last interval, by CPU, without kinds that took no time.
    ///
    /// # Errors
    ///
    /// Missing if interrupts are not timed.
    pub fn interrupts(&self) -> Maybe<&[InterruptSample]> {
        self.last_interrupts.as_deref().map_err(Clone::clone)
    }

    /// Number of waits for a CPU from the start to the last reading, by the lower bound of each power of two
    /// in nanoseconds; empty unless [`Options::waits`] requests it.
    ///
    /// # Errors
    ///
    /// Missing if waits are not seen, or nothing was read yet.
    pub fn waits(&self) -> Maybe<BTreeMap<u64, u64>> {
        let nothing = || Missing::because("nothing was read yet");
        let (first, last) = self.first.as_ref().zip(self.last.as_ref()).ok_or_else(nothing)?;
        let (first, mut all) = (first.waits.clone()?, last.waits.clone()?);
        for (from_ns, n) in first {
            all.entry(from_ns).and_modify(|count| *count = count.saturating_sub(n));
        }
        all.retain(|_, n| *n > 0);
        Ok(all)
    }

    fn interrupts_between(&self, before: &Snapshot, after: &Snapshot) -> Maybe<Vec<InterruptSample>> {
        let source = self.source.as_ref();
        if let Some(why) = source.map_or(Some(NO_EVENTS), |source| source.no_interrupts()) {
            return Err(Missing::because(why));
        }
        let mut all = Vec::new();
        for cpu in after.edges.keys() {
            let Ok((b, a)) = self.edges_of(*cpu, before, after) else { continue };
            let Some((b, a)) = b.books.interrupts.zip(a.books.interrupts) else { continue };
            let grown = b.by_kind.iter().zip(a.by_kind).map(|(b, a)| a.saturating_sub(*b));
            let of_kind = books::KINDS.into_iter().zip(grown).filter(|(_, ns)| *ns > 0);
            all.extend(of_kind.map(|(kind, ns)| InterruptSample { cpu: *cpu, kind, ns }));
        }
        Ok(all)
    }

    /// Measures the cost per event with a burst of a few thousand context switches on one CPU (some 20 ms),
    /// unless that was done before; needs the same rights as opening the probe.
    pub fn measure_cost(&mut self) {
        let (source, samplers) = (&mut self.source, self.samplers.as_ref().ok());
        self.meter.measure(|| match source {
            Some(source) => source.cost(samplers),
            None => Err(Missing::because("/proc is read only at the ends of an interval")),
        });
    }

    /// Cost of watching since the start; measures now if [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing if no program runs in the kernel, or its run statistics are unavailable.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        let timers = match (&self.first, &self.last) {
            (Some(Snapshot { tally: Ok(first), .. }), Some(Snapshot { tally: Ok(last), .. })) => {
                last.timers_since(first)
            }
            _ => 0,
        };
        let mut cost = self.meter.cost([self.switches, self.interrupts, timers])?;
        if self.samplers.is_err() {
            cost.events.pop();
        }
        Ok(cost)
    }

    fn snapshot(&mut self) -> Snapshot {
        let before_ns = Monotonic.now_ns();
        let stat = proc_stat::read(&self.root)
            .map(|stat| (before_ns.midpoint(Monotonic.now_ns()), stat))
            .map_err(|e| Missing::because(format!("/proc/stat cannot be read: {e}")));
        let listed = || stat.iter().flat_map(|(_, stat)| stat.keys().copied()).collect();
        let online = cpu_list::online(&self.root).unwrap_or_else(listed);
        let stays = cpu_list::stays_of(&self.root, &online);
        let edges = match &mut self.source {
            Some(source) => {
                source.next_edge();
                online.iter().map(|cpu| (*cpu, source.close(*cpu))).collect()
            }
            None => BTreeMap::new(),
        };
        let tally = self.samplers.as_ref().map(|s| s.tally(&online)).map_err(Clone::clone);
        let counted = |cycles: &mut Maybe<Cycles>, cpu: u32| match cycles {
            Ok(cycles) => cycles.read(cpu),
            Err(why) => Err(why.clone()),
        };
        let cycles = online.iter().map(|cpu| (*cpu, counted(&mut self.cycles, *cpu))).collect();
        let pressure = pressure::some_ns(&self.root, "cpu").map(|ns| (Monotonic.now_ns(), ns));
        let waits = match &self.source {
            Some(source) => source.waits(),
            None => Err(Missing::because(NO_EVENTS)),
        };
        let at_ns = before_ns.midpoint(Monotonic.now_ns());
        let look = Snapshot { at_ns, online, stays, edges, tally, cycles, stat, pressure, waits };
        self.tasks = match &mut self.source {
            Some(source) => source.tasks(),
            None => Err(Missing::because("the /proc rung does not observe tasks")),
        };
        look
    }

    fn between(&self, before: &Snapshot, after: &Snapshot) -> CpuInterval {
        let mut lost = BTreeMap::new();
        let cpus = before.online.union(&after.online).map(|cpu| self.sample(*cpu, before, after, &mut lost));
        CpuInterval {
            from_ns: before.at_ns,
            until_ns: after.at_ns,
            rung: self.rung(),
            missed_deadline: false,
            cpus: cpus.collect(),
            psi_some_ratio: pressure::ratio(&before.pressure, &after.pressure),
            lost,
        }
    }

    fn sample(
        &self,
        cpu: u32,
        before: &Snapshot,
        after: &Snapshot,
        lost: &mut BTreeMap<String, u64>,
    ) -> CpuSample {
        if was_away(cpu, &before.stays, &after.stays) {
            return CpuSample::without_values(cpu, "it was offline for a part of this interval");
        }
        let events = self.edges_of(cpu, before, after).and_then(|(b, a)| books::between(b, a));
        for (reason, count) in events.iter().flat_map(|e| &e.lost) {
            *lost.entry((*reason).to_owned()).or_default() += count;
        }
        let booked = self.booked(cpu, before, after);
        let sampled = match (&before.tally, &after.tally) {
            (Ok(before), Ok(after)) => ticks::shares(cpu, before, after),
            (Err(why), _) | (_, Err(why)) => Shares::missing(why),
        };
        let counted = match self.has_ended(cpu, after) {
            Some(why) if self.cycles.is_ok() => Err(why),
            _ => counted(cpu, before, after),
        };
        let no_interrupts = self.source.as_ref().and_then(|s| s.no_interrupts()).unwrap_or(NO_EVENTS);
        let of_interrupts = |of: fn(&books::Events) -> Option<f64>| {
            events.clone().and_then(|e| of(&e).ok_or_else(|| Missing::because(no_interrupts)))
        };
        let no_waits = || Missing::because(self.source.as_ref().map_or(NO_EVENTS, |s| s.no_waits()));
        let waits = |e: books::Events| {
            if after.at_ns.saturating_sub(before.at_ns) < WAITS_SHORTEST_NS {
                return Err(Missing::because("the interval is too short to measure waits for a CPU"));
            }
            e.wait_ns.ok_or_else(no_waits)
        };
        CpuSample {
            cpu,
            event_ratio: events.as_ref().map(|e| e.busy_ratio).map_err(Clone::clone),
            irq_ratio: of_interrupts(|e| e.irq_ratio),
            softirq_ratio: of_interrupts(|e| e.softirq_ratio),
            run_queue_wait_ns: events.clone().and_then(waits),
            tick_before_ratio: sampled.before_tick,
            tick_after_ratio: sampled.after_tick,
            sampled_ratio: sampled.out_of_phase,
            procstat_busy_ratio: booked.clone().and_then(|b| b.busy_ratio()),
            unaccounted_ratio: booked.clone().map(|b| b.unaccounted_ratio()),
            not_idle_ratio: booked.clone().map(|b| b.not_idle_ratio()),
            stolen_ratio: booked.map(|b| b.steal_s / b.wall_s),
            cycles: counted.clone().map(|c| c.cycles),
            instructions: counted.map(|c| c.instructions),
            balance_ns: events.as_ref().map(|e| e.balance_ns).map_err(Clone::clone),
            switches: events.as_ref().map(|e| e.switches).map_err(Clone::clone),
            top: events.and_then(|e| e.top),
        }
    }

    /// Reason that perf events of a CPU count nothing more.
    fn has_ended(&self, cpu: u32, after: &Snapshot) -> Option<Missing> {
        let why = "it was offline since the start, which ended its perf events";
        was_away(cpu, &self.opened, &after.stays).then(|| Missing::because(why))
    }

    fn edges_of<'a>(
        &self,
        cpu: u32,
        before: &'a Snapshot,
        after: &'a Snapshot,
    ) -> Maybe<(&'a Edge, &'a Edge)> {
        if self.source.is_none() {
            return Err(Missing::because(NO_EVENTS));
        }
        if let (Rung::Perf, Some(why)) = (self.rung(), self.has_ended(cpu, after)) {
            return Err(why);
        }
        let of = |look: &'a Snapshot, gone: &str| match look.edges.get(&cpu) {
            Some(edge) => edge.as_ref().map_err(Clone::clone),
            None => Err(Missing::because(gone)),
        };
        Ok((of(before, "it came online in this interval")?, of(after, "it went offline in this interval")?))
    }

    fn booked(&self, cpu: u32, before: &Snapshot, after: &Snapshot) -> Maybe<Booked> {
        let of = |look: &Snapshot| -> Maybe<(u64, proc_stat::Ticks)> {
            let (at_ns, stat) = look.stat.as_ref().map_err(Clone::clone)?;
            let ticks = stat.get(&cpu).ok_or_else(|| Missing::because("/proc/stat does not list it"))?;
            Ok((*at_ns, *ticks))
        };
        let ((from_ns, before), (until_ns, after)) = (of(before)?, of(after)?);
        proc_stat::booked(&before, &after, until_ns.saturating_sub(from_ns), self.ticks_per_s)
    }
}

const NOT_ASKED: &str = "cycles and instructions were not requested";
/// A wait counts in the interval in which it ends, and may have begun long before it.
const WAITS_SHORTEST_NS: u64 = 50_000_000;

const NO_EVENTS: &str = "the /proc rung does not observe context switches";

/// Number of open files that watching needs: programs, maps and links, and for each CPU its samplers and
/// counters, or its ring.
fn descriptors_of(options: &Options) -> u64 {
    let programs = if options.ticks { 96 } else { 64 };
    let for_each_cpu = if options.ticks { 4 } else { 1 };
    programs + for_each_cpu * options.online().len() as u64
}

fn open_cycles(options: &Options) -> Maybe<Cycles> {
    if !options.ticks || options.root != Path::new("/") {
        return Err(Missing::because(NOT_ASKED));
    }
    let online = options.online();
    Cycles::open(&online).map_err(Missing::because)
}

fn open_samplers(options: &Options, source: Option<&dyn Source>) -> Maybe<Ticks> {
    if !options.ticks {
        return Err(Missing::because("ticks and samples were not requested"));
    }
    let Some(source) = source.filter(|s| s.rung() == Rung::Bpf) else {
        return Err(Missing::because("only the BPF rung observes ticks and samples"));
    };
    let Some(task_spans) = source.task_spans() else {
        return Err(Missing::because("ticks and samples need tp_btf"));
    };
    let online = options.online();
    Ticks::open(&online, task_spans).map_err(Missing::because)
}
