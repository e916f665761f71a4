//! The BPF rung: our programs in the kernel, and their books.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::{fmt, ptr};

use libbpf_rs::libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, ProgramInput, ProgramMut, RingBufferBuilder};
use nix::sched::sched_getcpu;
use nix::sys::memfd::{MFdFlags, memfd_create};
use record::clock::{Clock, Monotonic};
use record::cpu::{Rung, TaskSample};
use record::missing::{Maybe, Missing};

use self::skel::types::{contender, contest, cpu, cpu_time, interrupts, task_record, task_time};
use self::skel::{CpuTimeSkel, CpuTimeSkelBuilder, OpenCpuTimeSkel};
use super::books::{Books, Edge, Interrupts, KINDS, Top};
use super::tasks::{Ledger, Sums, Told};
use super::{Adopt, Options, Source, SwitchClock};
use crate::cgroups;
use crate::cpu_list;
use crate::hog;
use crate::process_ids;
use crate::program::{self, KERNEL_BTF, PerCpu, Spent};
use crate::topology::Cores;

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from cpu_time.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/cpu_time.skel.rs"));
}

const _: () = assert!(size_of::<cpu>() == 4096);
const _: () = assert!(size_of::<cpu_time>() == 256);
const _: () = assert!(size_of::<interrupts>() == 256);
const WAIT_BUCKETS: usize = 40;
const _: () = assert!(size_of::<contest>() == 64);
const _: () = assert!(size_of::<contender>() == 32);
const _: () = assert!(size_of::<task_record>() == 168);

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: CpuTimeSkel<'static>,
    cpus: PerCpu<cpu>,
    hook: Hook,
    epoch: u64,
    ledger: Option<Ledger>,
    note: Option<String>,
    /// Why interrupts are not timed.
    no_interrupts: Option<String>,
    /// Whether the programs see what threads waited.
    sees_waits: bool,
    /// Threads of a PID namespace by the machine's ids.
    ids: HashMap<u32, u32>,
    namespace: Option<process_ids::Namespace>,
    cgroups: cgroups::Names,
    _links: Vec<Link>,
}

/// How we hook on the switch; each is a program of its own, so that none carries what it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Btf,
    ByScheduler,
    WithTasks,
    Raw,
}

/// What else is asked for, and how many CPUs there is to be room for.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    possible: u32,
    tasks: Option<&'a Cores>,
    waits: bool,
}

impl Bpf {
    /// Loads and attaches the programs and tries one closing.
    ///
    /// # Errors
    ///
    /// A sentence for people: what is missing, and how to get it.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        let (tasks, clock) = (options.tasks.as_ref(), options.clock);
        let wanted = Wanted { possible: cpu_list::possible_count(), tasks, waits: options.waits };
        // The library would write to stderr; what we have to say, we say in a note.
        libbpf_rs::set_print(None);
        let by_btf = |hook: Hook| {
            if Path::new(KERNEL_BTF).exists() {
                Self::attach(hook, wanted).map_err(|e| e.to_string())
            } else {
                Err(format!("the kernel shows no BTF ({KERNEL_BTF}): is /sys mounted?"))
            }
        };
        let best = match (tasks, clock) {
            (Some(_), _) => by_btf(Hook::WithTasks),
            (None, SwitchClock::Own) => by_btf(Hook::Btf),
            // Some kernels' tasks do not lead to their run queue.
            (None, SwitchClock::Scheduler) => by_btf(Hook::ByScheduler).or_else(|why| {
                let mut bpf = by_btf(Hook::Btf)?;
                bpf.add_note(format!("watching by our own clock: the scheduler's cannot be read: {why}"));
                Ok(bpf)
            }),
        };
        best.or_else(|why| {
            let raw = Self::attach(Hook::Raw, Wanted { tasks: None, waits: false, ..wanted });
            let mut bpf = raw.map_err(|e| {
                let refusal = program::refusal("context switches", &e);
                if Path::new(KERNEL_BTF).exists() { refusal } else { format!("{refusal}; {why}") }
            })?;
            bpf.add_note(format!("watching by raw_tp, not by tp_btf: {why}"));
            Ok(bpf)
        })
    }

    fn add_note(&mut self, note: String) {
        self.note = Some(match self.note.take() {
            Some(other) => format!("{note}; {other}"),
            None => note,
        });
    }

    fn attach(hook: Hook, wanted: Wanted<'_>) -> libbpf_rs::Result<Self> {
        // The object lives at this address until it is dropped; leaking the few bytes that hold its address lets the
        // skeleton be kept in a struct without a lifetime. The kernel's side is freed when `skel` is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = CpuTimeSkelBuilder::default();
        // Of programs that read no kernel type, the library still wants to know the kernel's types.
        let own_types = (hook == Hook::Raw).then(own_types).transpose()?;
        if let Some(types) = &own_types {
            builder.obj_builder.btf_custom_path(format!("/proc/self/fd/{}", types.as_raw_fd()))?;
        }
        let mut open = builder.open(place)?;
        open.progs.replay.set_autoload(false);
        set_up(&mut open, hook, wanted)?;
        let skel = open.load()?;
        let cpus = PerCpu::map(&skel.maps.cpus)?;
        let tasks = wanted.tasks;
        place_on_cores(&cpus, tasks);
        // The names of threads that ran most are a courtesy: without this event they are those of the first stint.
        let mut links: Vec<Link> = skel.progs.on_rename.attach().into_iter().collect();
        links.push(on_switch(&skel, hook).attach()?);
        if tasks.is_some() {
            links.push(skel.progs.on_fork.attach()?);
        }
        let no_interrupts = match on_interrupts(&skel) {
            Ok(more) => {
                links.extend(more);
                None
            }
            Err(why) => Some(format!("interrupts are not timed, those on an idle CPU count as idle: {why}")),
        };
        let ledger = tasks.map(|_| Ledger::default());
        let (note, sees_waits) = (no_interrupts.clone(), hook != Hook::Raw);
        let mut bpf = Self {
            skel,
            cpus,
            hook,
            epoch: 0,
            ledger,
            note,
            no_interrupts,
            sees_waits,
            ids: HashMap::new(),
            namespace: process_ids::Namespace::open().unwrap_or_default(),
            cgroups: cgroups::Names::default(),
            _links: links,
        };
        if !process_ids::are_the_machines() {
            bpf.add_note(process_ids::NOTE.to_owned());
        }
        // Kernels before 5.10 cannot run a program on a CPU of our choice: find that out now.
        let here = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
        bpf.run_closing(here)?;
        Ok(bpf)
    }

    fn run_closing(&mut self, cpu: u32) -> libbpf_rs::Result<()> {
        let mut number = self.epoch.to_ne_bytes();
        let on_cpu = ProgramInput {
            context_in: Some(&mut number),
            cpu,
            flags: BPF_F_TEST_RUN_ON_CPU,
            ..ProgramInput::default()
        };
        self.skel.progs.close_books.test_run(on_cpu).map(drop)
    }

    /// Where what the programs keep of that CPU is.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not call that CPU possible.
    fn place(&self, cpu: u32) -> Maybe<*const cpu> {
        let place = self.cpus.of(cpu).map(<*mut cpu>::cast_const);
        place.ok_or_else(|| Missing::because("the kernel does not list it as possible"))
    }

    fn books(&self, place: *const cpu, closed: &cpu_time) -> Books {
        // The half that was in use until that closing; the programs write the other one now.
        let half = usize::from(closed.closings & 1 == 1);
        // SAFETY: plain integers in memory that is mapped as long as `cpus` lives. Only the next closing but one starts to
        // write this half again; closings are ordered by us, through `&mut self`.
        let contests = unsafe { ptr::read_volatile(&raw const (*place).contests[half]) };
        // SAFETY: as above.
        let contenders = unsafe { ptr::read_volatile(&raw const (*place).contenders[half]) };
        let top = winner(&contests, &contenders).map(|(set, way, ns)| {
            let who = &contenders[set][way];
            Top {
                pid: self.shown(who.tgid),
                tid: self.shown(contests[set].tid[way]),
                comm: program::text(&who.comm),
                ns,
            }
        });
        Books {
            at_ns: closed.since_ns,
            busy_ns: closed.busy_ns,
            idle_ns: closed.idle_ns,
            switches: closed.switches,
            interrupts: self.no_interrupts.is_none().then(|| interrupts_of(place, closed)),
            wait_ns: self.sees_waits.then_some(closed.wait_ns),
            member_ns: closed.member_ns,
            member_interrupted_ns: closed.member_interrupted_ns,
            lost: [
                closed.unseen,
                closed.unsure_ns,
                closed.unowned_ns,
                closed.backward,
                closed.lost_tasks,
                closed.lost_core,
                closed.lost_ended,
                0,
                closed.cut,
            ],
            top,
        }
    }

    fn shown(&self, id: u32) -> u32 {
        shown(&self.ids, id)
    }
}

impl Source for Bpf {
    fn rung(&self) -> Rung {
        Rung::Bpf
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn no_interrupts(&self) -> Option<&str> {
        self.no_interrupts.as_deref()
    }

    fn waits(&self, cpus: &BTreeSet<u32>) -> Maybe<BTreeMap<u64, u64>> {
        if !self.sees_waits {
            return Err(Missing::because("waits need tp_btf"));
        }
        let mut all = [0; WAIT_BUCKETS];
        for place in cpus.iter().filter_map(|cpu| self.cpus.of(*cpu)) {
            // SAFETY: plain integers in memory that is mapped as long as `cpus` lives; an aligned word is read whole.
            let of_cpu = unsafe { ptr::read_volatile(&raw const (*place).waits.histogram) };
            all.iter_mut().zip(of_cpu).for_each(|(sum, n)| *sum += u64::from(n));
        }
        let from_ns = |bucket: usize| if bucket == 0 { 0 } else { 1_u64 << bucket };
        Ok(all.iter().enumerate().filter(|(_, n)| **n > 0).map(|(k, n)| (from_ns(k), *n)).collect())
    }

    fn after_first_edge(&mut self, online: &BTreeSet<u32>) {
        if self.hook == Hook::ByScheduler {
            // How far that clock is from ours is found out at a switch.
            hog::visit(online);
        }
    }

    fn next_edge(&mut self) {
        self.epoch += 1;
        if let Some(namespace) = &self.namespace {
            // Where they cannot be listed, all go by the machine's ids.
            self.ids = namespace.own_by_machines().unwrap_or_default();
        }
    }

    fn tasks(&mut self) -> Maybe<Vec<TaskSample>> {
        if self.ledger.is_none() {
            let why = if self.hook == Hook::Raw { "tasks need tp_btf" } else { "tasks were not asked for" };
            return Err(Missing::because(why));
        }
        let told =
            told(&self.skel).map_err(|e| Missing::because(format!("the tasks cannot be listed: {e}")))?;
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read it.
        unsafe { ptr::write_volatile(&raw mut shared.has_walked, 1) };
        let ledger = self.ledger.as_mut().expect("checked above");
        let mut tasks = ledger.settle(self.epoch, told);
        self.cgroups.next_round();
        for (task, id) in &mut tasks {
            task.cgroup = match *id {
                0 => Err(Missing::because("this kernel has no control groups of version 2")),
                id => Ok(self.cgroups.name(id)),
            };
            (task.pid, task.tid) = (shown(&self.ids, task.pid), shown(&self.ids, task.tid));
        }
        Ok(tasks.into_iter().map(|(task, _)| task).collect())
    }

    fn adopt(&mut self, adopt: Adopt) -> Maybe<()> {
        if self.ledger.is_none() {
            return Err(Missing::because("whose thread is whose is seen where tasks are accounted for"));
        }
        // Without a CPU of choice, it runs in this very process.
        let asked = self.skel.progs.tell_own_tgid.test_run(ProgramInput::default());
        asked.map_err(|e| Missing::because(format!("the machine's id of this process is not known: {e}")))?;
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        let adopter = match adopt {
            // SAFETY: an aligned word in memory that is mapped as long as `skel` lives.
            Adopt::Children => unsafe { ptr::read_volatile(&raw const shared.own_tgid) },
            Adopt::Nobody => 0,
        };
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read it.
        unsafe { ptr::write_volatile(&raw mut shared.adopter, adopter) };
        Ok(())
    }

    fn close(&mut self, cpu: u32) -> Maybe<Edge> {
        let place = self.place(cpu)?;
        // By our own clock the kernel closed them between these two readings. Where its own stamp lies between them,
        // both clocks agree as far as can be known; what is outside of that shows in the balance.
        let before_ns = Monotonic.now_ns();
        self.run_closing(cpu).map_err(|e| Missing::because(format!("its books could not be closed: {e}")))?;
        let after_ns = Monotonic.now_ns();
        // SAFETY: plain integers in memory that is mapped as long as `cpus` lives. Only a closing of this CPU writes them;
        // closings are ordered by us, through `&mut self`, and each has ended when its call returns.
        let closed = unsafe { ptr::read_volatile(&raw const (*place).closed) };
        if closed.since_ns == 0 {
            return Err(Missing::because(
                "it has not switched since the start, so its clock is not known yet",
            ));
        }
        Ok(Edge { wall_ns: closed.closed_ns.clamp(before_ns, after_ns), books: self.books(place, &closed) })
    }

    fn cost(&mut self) -> Maybe<[f64; 2]> {
        let p = &self.skel.progs;
        let programs = [
            on_switch(&self.skel, self.hook).as_fd(),
            p.on_softirq_entry.as_fd(),
            p.on_softirq_exit.as_fd(),
            p.on_timer_entry.as_fd(),
            p.on_timer_exit.as_fd(),
            p.on_device_entry.as_fd(),
            p.on_device_exit.as_fd(),
        ];
        let burst = || hog::ping_pong(None, 5_000).map(drop);
        let [of_switch, of_interrupts @ ..] = program::in_a_burst(programs, &p.on_switch_nothing, burst)?;
        let ns_per_switch = of_switch.ns_per_run()?;
        // Beginning and end. Where none came in that time, the two are taken to cost as much as a switch.
        let of_interrupts: Spent = of_interrupts.into_iter().sum();
        let ns_per_interrupt = of_interrupts.ns_per_run().unwrap_or(ns_per_switch) * 2.0;
        Ok([ns_per_switch, ns_per_interrupt])
    }
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("hook", &self.hook).finish_non_exhaustive()
    }
}

/// Shares by kind are read a little after the closing, each count by itself.
fn interrupts_of(place: *const cpu, closed: &cpu_time) -> Interrupts {
    // SAFETY: plain integers in memory that its owner keeps mapped; an aligned word is read whole.
    let all = unsafe { ptr::read_volatile(&raw const (*place).irq.by_kind) };
    let mut by_kind = [0; KINDS.len()];
    by_kind.copy_from_slice(&all[..KINDS.len()]);
    Interrupts { irq_ns: closed.irq_ns, softirq_ns: closed.softirq_ns, count: closed.interrupts, by_kind }
}

/// The id by which this PID namespace knows a process or thread; the machine's where it knows none.
fn shown(ids: &HashMap<u32, u32>, id: u32) -> u32 {
    ids.get(&id).copied().unwrap_or(id)
}

fn set_up(open: &mut OpenCpuTimeSkel<'_>, hook: Hook, wanted: Wanted<'_>) -> libbpf_rs::Result<()> {
    choose(open, hook);
    open.maps.cpus.set_max_entries(wanted.possible)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    settings.with_wait_histogram = wanted.waits;
    ask_for_tasks(open, wanted.tasks)
}

/// Tells the programs of each CPU's core, before they run.
fn place_on_cores(places: &PerCpu<cpu>, cores: Option<&Cores>) {
    for (core, cpus) in (1..).zip(cores.into_iter().flat_map(Cores::shared)) {
        for place in cpus.iter().filter_map(|cpu| places.of(*cpu)) {
            // SAFETY: an aligned word in memory that is mapped as long as `places` lives; the programs only read it.
            unsafe { ptr::write_volatile(&raw mut (*place).core, core) };
        }
    }
}

/// Has that one of the programs on the switch loaded, and no other.
fn choose(open: &mut OpenCpuTimeSkel<'_>, hook: Hook) {
    let programs = &mut open.progs;
    programs.on_switch.set_autoload(hook == Hook::Btf);
    programs.on_switch_by_scheduler.set_autoload(hook == Hook::ByScheduler);
    programs.on_switch_with_tasks.set_autoload(hook == Hook::WithTasks);
    programs.on_switch_raw.set_autoload(hook == Hook::Raw);
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    // Linux 6.4 allocates a task's storage from memory of its own; before, that could wait for the run queue's lock.
    settings.creates_at_switch = program::kernel_is_at_least(6, 4);
    settings.by_scheduler = hook == Hook::ByScheduler;
    settings.has_btf = hook != Hook::Raw;
}

/// The types that our programs were compiled with, in place of the kernel's where these are not to be had.
fn own_types() -> libbpf_rs::Result<File> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cpu_time.bpf.o"));
    let file = memfd_create("bakeoff-types", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?;
    let mut file = File::from(file);
    file.write_all(OBJECT)?;
    Ok(file)
}

fn on_switch<'a>(skel: &'a CpuTimeSkel<'_>, hook: Hook) -> &'a ProgramMut<'a> {
    match hook {
        Hook::Btf => &skel.progs.on_switch,
        Hook::ByScheduler => &skel.progs.on_switch_by_scheduler,
        Hook::WithTasks => &skel.progs.on_switch_with_tasks,
        Hook::Raw => &skel.progs.on_switch_raw,
    }
}

/// Times interrupts from now on. Only x86 has the events of interrupts that are no device's.
fn on_interrupts(skel: &CpuTimeSkel<'_>) -> libbpf_rs::Result<Vec<Link>> {
    let p = &skel.progs;
    // Ends first: an end without a beginning is left out, a beginning without an end would last.
    let needed = [&p.on_softirq_exit, &p.on_softirq_entry, &p.on_device_exit, &p.on_device_entry];
    let mut links = needed.into_iter().map(ProgramMut::attach).collect::<libbpf_rs::Result<Vec<_>>>()?;
    let of_x86 = [
        (&p.on_timer_exit, &p.on_timer_entry),
        (&p.on_call_exit, &p.on_call_entry),
        (&p.on_call_all_exit, &p.on_call_all_entry),
        (&p.on_work_exit, &p.on_work_entry),
    ];
    for (end, beginning) in of_x86 {
        if let Ok(end) = end.attach() {
            links.push(end);
            links.push(beginning.attach()?);
        }
    }
    Ok(links)
}

fn ask_for_tasks(open: &mut OpenCpuTimeSkel<'_>, tasks: Option<&Cores>) -> libbpf_rs::Result<()> {
    open.progs.tell_tasks.set_autoload(tasks.is_some());
    open.progs.on_fork.set_autoload(tasks.is_some());
    // What is not used need not exist: older kernels lack some of these.
    open.maps.task_sums.set_autocreate(tasks.is_some())?;
    open.maps.ended.set_autocreate(tasks.is_some())?;
    open.maps.cores.set_autocreate(tasks.is_some())?;
    let Some(cores) = tasks else { return Ok(()) };
    let shared = u32::try_from(cores.shared().len()).expect("there are fewer cores than CPUs");
    open.maps.cores.set_max_entries(shared.max(1))?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    settings.with_tasks = true;
    Ok(())
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32, with_tasks: bool) -> libbpf_rs::Result<u64> {
    let cores = Cores::default();
    let (tasks, hook) = if with_tasks { (Some(&cores), Hook::WithTasks) } else { (None, Hook::Btf) };
    let bpf = Bpf::attach(hook, Wanted { possible, tasks, waits: with_tasks })?;
    Ok(program::kernel_bytes(&bpf.skel, possible))
}

/// What the kernel side tells of every thread: first of those that live, then of those that ended.
fn told(skel: &CpuTimeSkel<'_>) -> Result<Vec<Told>, Box<dyn std::error::Error>> {
    let link = skel.progs.tell_tasks.attach()?;
    let mut living = Vec::new();
    Iter::new(&link)?.read_to_end(&mut living)?;
    let living = living.chunks_exact(size_of::<task_record>()).map(|bytes| one_told(bytes, false));
    let ended = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    ring.add(&skel.maps.ended, |bytes| {
        ended.borrow_mut().push(one_told(bytes, true));
        0
    })?;
    ring.build()?.consume()?;
    let living: Vec<Told> = living.collect();
    Ok(living.into_iter().chain(ended.into_inner()).collect())
}

fn one_told(bytes: &[u8], ended: bool) -> Told {
    assert!(bytes.len() >= size_of::<task_record>(), "the programs write whole records");
    // SAFETY: long enough, checked above; plain integers and bytes, so that every pattern is a value.
    let record: task_record = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
    let sums = |t: &task_time| Sums {
        on_cpu_ns: t.on_cpu_ns,
        alone_ns: t.alone_ns,
        share: t.share,
        stints: t.stints,
        interrupted_ns: t.interrupted_ns,
    };
    Told {
        key: (record.tid, record.started_ns),
        pid: record.tgid,
        comm: program::text(&record.comm),
        epoch: record.books.epoch,
        now: sums(&record.books.now),
        then: sums(&record.books.then),
        user_ns: record.utime_ns,
        system_ns: record.stime_ns,
        waited_ns: record.waited_ns,
        cgroup: record.cgroup,
        ended,
    }
}

/// The thread that ran most for certain: what it may have inherited from others is not counted for it.
fn winner<const W: usize>(
    contests: &[contest],
    contenders: &[[contender; W]],
) -> Option<(usize, usize, u64)> {
    let all = contests.iter().zip(contenders).enumerate().flat_map(|(set, (contest, who))| {
        (0..W).map(move |way| (set, way, contest.ns[way].saturating_sub(who[way].over_ns)))
    });
    all.max_by_key(|(_, _, ns)| *ns).filter(|(_, _, ns)| *ns > 0)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::super::books::between;
    use super::*;

    #[test]
    fn root_all_programs_on_the_switch_tell_the_same() {
        if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return;
        }
        let here = u32::try_from(sched_getcpu().unwrap()).unwrap();
        let all = [Hook::Btf, Hook::Raw, Hook::ByScheduler, Hook::WithTasks];
        let cores = Cores::default();
        let tasks = |hook: Hook| (hook == Hook::WithTasks).then_some(&cores);
        let mut all = all.map(|hook| {
            let possible = cpu_list::possible_count();
            Bpf::attach(hook, Wanted { possible, tasks: tasks(hook), waits: false }).unwrap()
        });
        // The scheduler's clock is known from the first switch after the first closing on.
        for bpf in &mut all {
            let _ = bpf.close(here);
        }
        hog::ping_pong(Some(here), 10).unwrap();
        let before = all.each_mut().map(|bpf| bpf.close(here).unwrap());
        hog::ping_pong(Some(here), 2_000).unwrap();
        thread::sleep(Duration::from_millis(200));
        let after = all.each_mut().map(|bpf| bpf.close(here).unwrap());
        let told: Vec<_> = before.iter().zip(&after).map(|(b, a)| between(b, a).unwrap()).collect();
        assert!(told[0].switches >= 3_998, "{told:?}");
        for one in &told {
            // The closings are some microseconds apart, and others may switch in that time.
            assert!(one.switches.abs_diff(told[0].switches) <= 20, "{told:?}");
            // They differ by what is booked around switches that nobody was shown.
            assert!((one.busy_ratio - told[0].busy_ratio).abs() < 0.05, "{told:?}");
            // A reading that a hypervisor holds up in between is off by as much as that.
            assert!(one.balance_ns.abs() < 1_000_000, "{told:?}");
        }
    }

    /// The programs on a machine with one core of several CPUs, for [`switch_at`] to play switches on; not attached.
    fn one_core(possible: u32, cpus: &str) -> Option<(CpuTimeSkel<'static>, PerCpu<cpu>)> {
        if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
            return None;
        }
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = CpuTimeSkelBuilder::default().open(place).unwrap();
        let cores = Cores::declared(cpus).unwrap();
        set_up(&mut open, Hook::WithTasks, Wanted { possible, tasks: Some(&cores), waits: false }).unwrap();
        let skel = open.load().unwrap();
        let cpus = PerCpu::map(&skel.maps.cpus).unwrap();
        place_on_cores(&cpus, Some(&cores));
        Some((skel, cpus))
    }

    /// A switch on a CPU to a task or to idle; what the stint that ended had: alone, and its share, in ns.
    fn switch_at(skel: &mut CpuTimeSkel<'_>, cpu: usize, now_ns: u64, to_task: bool) -> (u64, f64) {
        let words = [cpu as u64, now_ns, u64::from(to_task)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        skel.progs.replay.test_run(input).unwrap();
        let had = &skel.maps.bss_data.as_deref().unwrap().replayed;
        (had.alone_ns, had.share as f64 / 840.0)
    }

    /// The same by brute force: who was busy in each stretch between two switches.
    #[derive(Default)]
    struct Witness {
        busy: [bool; 8],
        alone_ns: [u64; 8],
        share_ns: [f64; 8],
        core_busy_ns: u64,
        last_ns: u64,
    }

    impl Witness {
        fn until(&mut self, now_ns: u64) {
            let ns = now_ns - std::mem::replace(&mut self.last_ns, now_ns);
            let count = self.busy.iter().filter(|b| **b).count();
            for cpu in (0..8).filter(|cpu| self.busy[*cpu]) {
                self.alone_ns[cpu] += if count == 1 { ns } else { 0 };
                self.share_ns[cpu] += ns as f64 / count as f64;
            }
            self.core_busy_ns += if count > 0 { ns } else { 0 };
        }
    }

    #[test]
    fn root_shares_of_a_core_are_right_in_a_thousand_random_schedules() {
        let mut chance: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut draw = |below: u64| {
            // xorshift64: any numbers do, the same in each run.
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance % below
        };
        let machine = |threads: u32| one_core(8, &format!("0-{}", threads - 1));
        let Some(mut machines) = [2, 4, 8].into_iter().map(machine).collect::<Option<Vec<_>>>() else {
            eprintln!("skipped: needs root and a kernel with BTF");
            return;
        };
        for schedule in 0..1_000_u64 {
            let kind = usize::try_from(schedule % 3).unwrap();
            let (skel, threads) = (&mut machines[kind].0, 2_usize << kind);
            // Each schedule starts with every CPU idle, at a time of its own.
            let start_ns = (schedule + 1) * 1_000_000_000_000;
            for cpu in 0..8 {
                switch_at(skel, cpu, start_ns, false);
            }
            let mut witness = Witness { last_ns: start_ns, ..Witness::default() };
            let (mut alone_ns, mut share_ns) = ([0; 8], [0.0; 8]);
            let mut now_ns = start_ns;
            for _ in 0..60 {
                now_ns += draw(5_000_000);
                let cpu = usize::try_from(draw(threads as u64)).unwrap();
                let to_task = draw(3) > 0;
                witness.until(now_ns);
                let had = switch_at(skel, cpu, now_ns, to_task);
                if witness.busy[cpu] {
                    alone_ns[cpu] += had.0;
                    share_ns[cpu] += had.1;
                }
                witness.busy[cpu] = to_task;
            }
            now_ns += 1_000_000;
            witness.until(now_ns);
            for cpu in 0..8 {
                let had = switch_at(skel, cpu, now_ns, false);
                if witness.busy[cpu] {
                    alone_ns[cpu] += had.0;
                    share_ns[cpu] += had.1;
                }
                assert_eq!(alone_ns[cpu], witness.alone_ns[cpu], "schedule {schedule}, CPU {cpu}");
                assert!(
                    (share_ns[cpu] - witness.share_ns[cpu]).abs() < 1.0,
                    "schedule {schedule}, CPU {cpu}"
                );
            }
            let sum: f64 = share_ns.iter().sum();
            assert!((sum - witness.core_busy_ns as f64).abs() < 1_000.0, "schedule {schedule}: {sum}");
            assert!(share_ns[threads..].iter().all(|s| *s == 0.0));
        }
    }

    #[test]
    fn root_eight_hogs_on_one_core_have_an_eighth_of_it_each() {
        let Some((mut skel, _)) = one_core(8, "0-7") else { return };
        for cpu in 0..8 {
            switch_at(&mut skel, cpu, 1_000, true);
        }
        for cpu in 0..8 {
            let (alone_ns, share_ns) = switch_at(&mut skel, cpu, 20_000_001_000, false);
            assert_eq!(alone_ns, 0);
            assert!((share_ns - 2.5e9).abs() < 1.0, "{share_ns}");
        }
    }

    #[test]
    fn root_a_machine_may_have_any_number_of_cpus_and_has_no_more() {
        // Cores may be declared that the machine does not have.
        let Some((mut skel, cpus)) = one_core(3_000, "2998-3001") else { return };
        let counted = |cpu| {
            // SAFETY: an aligned word in memory that is mapped as long as `cpus` lives.
            cpus.of(cpu).map(|place| unsafe { ptr::read_volatile(&raw const (*place).stint.counted) })
        };
        for cpu in 2_997..3_002 {
            switch_at(&mut skel, cpu, 1_000, true);
        }
        assert_eq!([2_997, 2_998, 2_999, 3_000].map(counted), [Some(0), Some(1), Some(1), None]);
        // Both had a half of their core, CPU 2997 has one for itself, and the others have no books.
        let (alone_ns, share_ns) = switch_at(&mut skel, 2_999, 3_000, false);
        assert!(alone_ns == 0 && (share_ns - 1_000.0).abs() < 1.0, "{alone_ns} {share_ns}");
    }

    #[test]
    fn the_winner_is_whoever_ran_most_for_certain() {
        let mut contests = [contest::default(), contest::default()];
        contests[0].tid = [10, 11, 0, 0];
        contests[0].ns = [500, 700, 0, 0];
        let mut contenders = [[contender::default(); 4], [contender::default(); 4]];
        contenders[0][1].over_ns = 300;
        // A way that nobody has taken since the last closing keeps who had it before.
        contenders[1][2].over_ns = 99;
        contests[1].tid = [21, 0, 0, 0];
        contests[1].ns = [450, 0, 0, 0];
        assert_eq!(winner(&contests, &contenders), Some((0, 0, 500)));
        assert_eq!(winner(&[contest::default()], &contenders), None);
    }
}
