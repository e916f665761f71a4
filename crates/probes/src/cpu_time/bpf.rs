//! The BPF rung: our programs in the kernel, and their counters.

mod loading;
mod records;
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
mod skel;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::{fmt, ptr};

use libbpf_rs::libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, ProgramInput, ProgramMut};
use nix::sched::sched_getcpu;
use record::clock::{Clock, Monotonic};
use record::cpu::{Rung, TaskSample};
use record::missing::{Maybe, Missing};

use self::loading::{Hook, Setup, on_interrupts, on_switch, own_types, place_on_cores, set_up};
use self::records::{task_records, winner};
use self::skel::types::{contender, contest, cpu, cpu_time, interrupts, task_record};
use self::skel::{CpuTimeSkel, CpuTimeSkelBuilder};
use self::tasks::Ledger;
use super::books::{Books, Edge, Interrupts, KINDS, Top};
use super::source::Source;
use super::{Adopt, Options, SwitchClock};
use crate::cgroups;
use crate::cpu_list;
use crate::hog;
use crate::process_ids;
use crate::program::{self, BurstTime, KERNEL_BTF, PerCpu};
use crate::ticks::Ticks;

const _: () = assert!(size_of::<cpu>() == 4096);
const _: () = assert!(size_of::<cpu_time>() == 256);
const _: () = assert!(size_of::<interrupts>() == 256);
const WAIT_BUCKETS: usize = 40;
const _: () = assert!(size_of::<contest>() == 64);
const _: () = assert!(size_of::<contender>() == 32);
const _: () = assert!(size_of::<task_record>() == 232);

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: CpuTimeSkel<'static>,
    cpus: PerCpu<cpu>,
    hook: Hook,
    epoch: u64,
    ledger: Option<Ledger>,
    note: Option<String>,
    /// Reason why interrupts are not timed.
    no_interrupts: Option<String>,
    /// Whether the programs see how long threads waited.
    sees_waits: bool,
    /// Whether the programs note when tasks ran, for the samplers.
    notes_tasks: bool,
    /// Whether our program walks over all threads of the machine; else the kernel's walk shows those of this
    /// PID namespace.
    walks_itself: bool,
    cgroups: cgroups::Names,
    _links: Vec<Link>,
}

impl Bpf {
    /// Loads and attaches the programs and tries one reading.
    ///
    /// # Errors
    ///
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        let (tasks, clock) = (options.tasks.as_ref(), options.clock);
        let walks_itself = !process_ids::are_the_machines() && program::kernel_is_at_least(6, 7);
        let possible = cpu_list::possible_count();
        let wanted = Setup { possible, tasks, waits: options.waits, ticks: options.ticks, walks_itself };
        // The library would write to stderr; the note reports its errors.
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
            // On some kernels, tasks have no pointer to their run queue.
            (None, SwitchClock::Scheduler) => by_btf(Hook::ByScheduler).or_else(|why| {
                let mut bpf = by_btf(Hook::Btf)?;
                bpf.add_note(format!("using our own clock, because the scheduler's cannot be read: {why}"));
                Ok(bpf)
            }),
        };
        best.or_else(|why| {
            let raw = Self::attach(Hook::Raw, Setup { tasks: None, waits: false, ticks: false, ..wanted });
            let mut bpf = raw.map_err(|e| {
                let refusal = program::refusal("context switches", &e);
                if Path::new(KERNEL_BTF).exists() { refusal } else { format!("{refusal}; {why}") }
            })?;
            bpf.add_note(format!("using raw_tp instead of tp_btf: {why}"));
            Ok(bpf)
        })
    }

    fn add_note(&mut self, note: String) {
        self.note = Some(match self.note.take() {
            Some(other) => format!("{note}; {other}"),
            None => note,
        });
    }

    fn attach(hook: Hook, wanted: Setup<'_>) -> libbpf_rs::Result<Self> {
        // The object lives at this address until it is dropped; leaking the few bytes that hold its address
        // lets the skeleton be kept in a struct without a lifetime. The kernel's side is freed when `skel` is
        // dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = CpuTimeSkelBuilder::default();
        // Of programs that read no kernel type, the library still wants to know the kernel's types.
        let own_types = (hook == Hook::Raw).then(own_types).transpose()?;
        if let Some(types) = &own_types {
            builder.obj_builder.btf_custom_path(format!("/proc/self/fd/{}", types.as_raw_fd()))?;
        }
        let mut open = builder.open(place)?;
        open.progs.replay.set_autoload(false);
        open.progs.replay_wait.set_autoload(false);
        set_up(&mut open, hook, wanted)?;
        let skel = open.load()?;
        let cpus = PerCpu::map(&skel.maps.cpus)?;
        let tasks = wanted.tasks;
        place_on_cores(&cpus, tasks);
        // Without this event the names of threads that ran most may be out of date: they are those of the
        // first stint.
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
        let note = no_interrupts.clone();
        let mut bpf = Self {
            skel,
            cpus,
            hook,
            epoch: 0,
            ledger,
            note,
            no_interrupts,
            sees_waits: false,
            notes_tasks: wanted.ticks,
            walks_itself: tasks.is_some() && wanted.walks_itself,
            cgroups: cgroups::Names::default(),
            _links: links,
        };
        if !process_ids::are_the_machines() {
            bpf.add_note(process_ids::NOTE.to_owned());
        }
        // Kernels before 5.10 cannot run a program on a chosen CPU: find that out now.
        let here = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
        bpf.run_closing(here)?;
        let shared = bpf.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives.
        let has_stamps = unsafe { ptr::read_volatile(&raw const shared.sees_waits) } != 0;
        bpf.sees_waits = hook != Hook::Raw && has_stamps;
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

    /// Address of the programs' data of that CPU.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not list that CPU as possible.
    fn place(&self, cpu: u32) -> Maybe<*const cpu> {
        let place = self.cpus.of(cpu).map(<*mut cpu>::cast_const);
        place.ok_or_else(|| Missing::because("the kernel does not list it as possible"))
    }

    fn books(&self, place: *const cpu, closed: &cpu_time) -> Books {
        // The half that was in use until that closing; the programs write the other one now.
        let half = usize::from(closed.closings & 1 == 1);
        // SAFETY: plain integers in memory that is mapped as long as `cpus` lives. The next closing is the
        // first to write this half again; `&mut self` orders closings.
        let contests = unsafe { ptr::read_volatile(&raw const (*place).contests[half]) };
        // SAFETY: as above.
        let contenders = unsafe { ptr::read_volatile(&raw const (*place).contenders[half]) };
        let top = winner(&contests, &contenders).map(|(set, way, ns)| {
            let who = &contenders[set][way];
            Top {
                pid: who.tgid,
                tid: if who.own_tid == 0 { contests[set].tid[way] } else { who.own_tid },
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

    fn no_waits(&self) -> &'static str {
        match self.hook {
            Hook::Raw => "only tp_btf observes waits for a CPU",
            _ => "this kernel does not stamp waits for a CPU (CONFIG_SCHED_INFO)",
        }
    }

    fn waits(&self) -> Maybe<BTreeMap<u64, u64>> {
        if !self.sees_waits {
            return Err(Missing::because(self.no_waits()));
        }
        let mut all = [0; WAIT_BUCKETS];
        // Of CPUs that are offline now, too: what they counted stays.
        for place in self.cpus.all() {
            // SAFETY: plain integers in memory that is mapped as long as `cpus` lives; an aligned word is
            // read whole.
            let of_cpu = unsafe { ptr::read_volatile(&raw const (*place).waits.histogram) };
            all.iter_mut().zip(of_cpu).for_each(|(sum, n)| *sum += u64::from(n));
        }
        let from_ns = |bucket: usize| if bucket == 0 { 0 } else { 1_u64 << bucket };
        Ok(all.iter().enumerate().filter(|(_, n)| **n > 0).map(|(k, n)| (from_ns(k), *n)).collect())
    }

    fn task_spans(&self) -> Option<BorrowedFd<'_>> {
        self.notes_tasks.then(|| self.skel.maps.spans_of_tasks.as_fd())
    }

    fn after_first_edge(&mut self, online: &BTreeSet<u32>) {
        if self.hook == Hook::ByScheduler {
            // The offset of that clock from ours is measured at a switch.
            hog::visit(online);
        }
    }

    fn next_edge(&mut self) {
        self.epoch += 1;
    }

    fn tasks(&mut self) -> Maybe<Vec<TaskSample>> {
        if self.ledger.is_none() {
            let why = if self.hook == Hook::Raw { "tasks need tp_btf" } else { "tasks were not requested" };
            return Err(Missing::because(why));
        }
        if !self.walks_itself && !process_ids::are_the_machines() {
            let why = "this is a PID namespace, and Linux before 6.7 does not show the threads outside it";
            return Err(Missing::because(why));
        }
        let told = task_records(&mut self.skel, self.walks_itself)
            .map_err(|e| Missing::because(format!("the tasks cannot be listed: {e}")))?;
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read
        // it.
        unsafe { ptr::write_volatile(&raw mut shared.has_walked, 1) };
        let no_waits = (!self.sees_waits).then(|| Missing::because(self.no_waits()));
        let ledger = self.ledger.as_mut().expect("checked above");
        let mut tasks = ledger.settle(self.epoch, told);
        self.cgroups.next_round();
        for (task, ids) in &mut tasks {
            task.cgroup = match ids[0] {
                0 => Err(Missing::because("this kernel has no control groups of version 2")),
                id => Ok(self.cgroups.name_below(id, &ids[1..])),
            };
            if let Some(why) = &no_waits {
                task.wait_ns = Err(why.clone());
            }
        }
        Ok(tasks.into_iter().map(|(task, _)| task).collect())
    }

    fn adopt(&mut self, adopt: Adopt) -> Maybe<()> {
        if self.ledger.is_none() {
            return Err(Missing::because(
                "the owner of each thread is known only if tasks are accounted for",
            ));
        }
        // If the CPU cannot be chosen, it runs in this very process.
        let asked = self.skel.progs.tell_own_tgid.test_run(ProgramInput::default());
        asked.map_err(|e| Missing::because(format!("the host's id of this process is unknown: {e}")))?;
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        let adopter = match adopt {
            // SAFETY: an aligned word in memory that is mapped as long as `skel` lives.
            Adopt::Children => unsafe { ptr::read_volatile(&raw const shared.own_tgid) },
            Adopt::Nobody => 0,
        };
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read
        // it.
        unsafe { ptr::write_volatile(&raw mut shared.adopter, adopter) };
        Ok(())
    }

    fn close(&mut self, cpu: u32) -> Maybe<Edge> {
        let place = self.place(cpu)?;
        // The kernel closes the CPU between these two readings of our clock. If its stamp lies between them,
        // both clocks agree as far as can be known; the excess shows in the balance.
        let before_ns = Monotonic.now_ns();
        self.run_closing(cpu)
            .map_err(|e| Missing::because(format!("its accounting could not be completed: {e}")))?;
        let after_ns = Monotonic.now_ns();
        // SAFETY: plain integers in memory that is mapped as long as `cpus` lives. Only a closing of this CPU
        // writes them; `&mut self` orders closings, and each has ended when its call returns.
        let closed = unsafe { ptr::read_volatile(&raw const (*place).closed) };
        if closed.since_ns == 0 {
            return Err(Missing::because(
                "it has not switched since the start, so its clock is not known yet",
            ));
        }
        Ok(Edge { wall_ns: closed.closed_ns.clamp(before_ns, after_ns), books: self.books(place, &closed) })
    }

    fn cost(&mut self, samplers: Option<&Ticks>) -> Maybe<[f64; 3]> {
        let p = &self.skel.progs;
        let begins = [
            &p.on_softirq_entry,
            &p.on_device_entry,
            &p.on_timer_entry,
            &p.on_call_entry,
            &p.on_call_all_entry,
            &p.on_work_entry,
        ];
        let ends = [
            &p.on_softirq_exit,
            &p.on_device_exit,
            &p.on_timer_exit,
            &p.on_call_exit,
            &p.on_call_all_exit,
            &p.on_work_exit,
        ];
        let [of_interrupts, of_timers] = samplers.map(Ticks::programs).unwrap_or_default();
        // By event: those of which one runs at each event, and all others.
        let events = [
            (vec![on_switch(&self.skel, self.hook).as_fd()], Vec::new()),
            (fds(&begins), [fds(&ends), of_interrupts].concat()),
            (of_timers.iter().take(1).copied().collect(), of_timers.iter().skip(1).copied().collect()),
        ];
        let all: Vec<_> =
            events.iter().flat_map(|(each, others)| each.iter().chain(others).copied()).collect();
        let burst = || hog::ping_pong(None, 5_000).map(drop);
        let mut times = program::each_in_a_burst(&all, &p.on_switch_nothing, burst)?.into_iter();
        let [switch, interrupt, timer] = events.map(|(each, others)| {
            let each: BurstTime = times.by_ref().take(each.len()).sum();
            let others: BurstTime = times.by_ref().take(others.len()).sum();
            BurstTime { ns: each.ns + others.ns, ..each }.ns_per_run()
        });
        let ns_per_switch = switch?;
        // If no interrupt came in that time, its begin and end are assumed to cost as much as two switches.
        let ns_per_interrupt = interrupt.unwrap_or(ns_per_switch * 2.0);
        Ok([ns_per_switch, ns_per_interrupt, timer.unwrap_or(ns_per_switch)])
    }
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("hook", &self.hook).finish_non_exhaustive()
    }
}

fn fds<'a>(programs: &[&'a ProgramMut<'_>]) -> Vec<BorrowedFd<'a>> {
    programs.iter().map(|program| AsFd::as_fd(*program)).collect()
}

/// Interrupt times of one CPU. Shares by kind are read a little after the closing, each count separately.
fn interrupts_of(place: *const cpu, closed: &cpu_time) -> Interrupts {
    // SAFETY: plain integers in memory that its owner keeps mapped; an aligned word is read whole.
    let all = unsafe { ptr::read_volatile(&raw const (*place).irq.by_kind) };
    let mut by_kind = [0; KINDS.len()];
    by_kind.copy_from_slice(&all[..KINDS.len()]);
    Interrupts { irq_ns: closed.irq_ns, softirq_ns: closed.softirq_ns, count: closed.interrupts, by_kind }
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32, with_tasks: bool) -> libbpf_rs::Result<u64> {
    let cores = crate::topology::Cores::default();
    let (tasks, hook) = if with_tasks { (Some(&cores), Hook::WithTasks) } else { (None, Hook::Btf) };
    let bpf =
        Bpf::attach(hook, Setup { possible, tasks, waits: with_tasks, ticks: false, walks_itself: false })?;
    Ok(program::kernel_bytes(&bpf.skel, possible))
}
