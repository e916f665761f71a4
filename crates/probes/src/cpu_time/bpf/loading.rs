//! Choice of the programs that are loaded and attached, and their settings.

use std::fs::File;
use std::io::{self, Write};
use std::ptr;

use libbpf_rs::{Link, ProgramMut};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::skel::types::cpu;
use super::skel::{CpuTimeSkel, OpenCpuTimeSkel};
use crate::process_ids;
use crate::program::{self, PerCpu};
use crate::topology::Cores;

/// Hook on the switch; each is a separate program, so none contains code that it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Btf,
    ByScheduler,
    WithTasks,
    Raw,
}

/// Further features, and the number of CPUs that need room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) possible: u32,
    pub(super) tasks: Option<&'a Cores>,
    pub(super) waits: bool,
    /// Whether the samplers run, which ask when a task ran.
    pub(super) ticks: bool,
    /// Whether our own program walks over the tasks; needs Linux 6.7.
    pub(super) walks_itself: bool,
}

pub(super) fn set_up(open: &mut OpenCpuTimeSkel<'_>, hook: Hook, wanted: Setup<'_>) -> libbpf_rs::Result<()> {
    choose(open, hook);
    open.maps.cpus.set_max_entries(wanted.possible)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    settings.with_wait_histogram = wanted.waits;
    settings.with_spans = wanted.ticks;
    settings.reader_namespace = process_ids::namespace();
    open.maps.spans_of_tasks.set_autocreate(wanted.ticks)?;
    open.maps.spans_of_tasks.set_max_entries(wanted.possible)?;
    ask_for_tasks(open, wanted)
}

/// Sets the core of each CPU, before the programs run.
pub(super) fn place_on_cores(places: &PerCpu<cpu>, cores: Option<&Cores>) {
    for (core, cpus) in (1..).zip(cores.into_iter().flat_map(Cores::shared)) {
        for place in cpus.iter().filter_map(|cpu| places.of(*cpu)) {
            // SAFETY: an aligned word in memory that is mapped as long as `places` lives; the programs only
            // read it.
            unsafe { ptr::write_volatile(&raw mut (*place).core, core) };
        }
    }
}

/// Selects that one of the programs on the switch, and no other.
fn choose(open: &mut OpenCpuTimeSkel<'_>, hook: Hook) {
    let programs = &mut open.progs;
    programs.on_switch.set_autoload(hook == Hook::Btf);
    programs.on_switch_by_scheduler.set_autoload(hook == Hook::ByScheduler);
    programs.on_switch_with_tasks.set_autoload(hook == Hook::WithTasks);
    programs.on_switch_raw.set_autoload(hook == Hook::Raw);
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    // Linux 6.4 allocates a task's storage from a separate pool; before, that could wait for the run queue's
    // lock.
    settings.creates_at_switch = program::kernel_is_at_least(6, 4);
    settings.by_scheduler = hook == Hook::ByScheduler;
    settings.has_btf = hook != Hook::Raw;
}

/// Types that our programs were compiled with, for kernels that do not publish theirs.
pub(super) fn own_types() -> libbpf_rs::Result<File> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cpu_time.bpf.o"));
    let file = memfd_create("bakeoff-types", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?;
    let mut file = File::from(file);
    file.write_all(OBJECT)?;
    Ok(file)
}

pub(super) fn on_switch<'a>(skel: &'a CpuTimeSkel<'_>, hook: Hook) -> &'a ProgramMut<'a> {
    match hook {
        Hook::Btf => &skel.progs.on_switch,
        Hook::ByScheduler => &skel.progs.on_switch_by_scheduler,
        Hook::WithTasks => &skel.progs.on_switch_with_tasks,
        Hook::Raw => &skel.progs.on_switch_raw,
    }
}

/// Starts to time interrupts. Only x86 has events for interrupts that do not come from devices.
pub(super) fn on_interrupts(skel: &CpuTimeSkel<'_>) -> libbpf_rs::Result<Vec<Link>> {
    let p = &skel.progs;
    // Ends first: an end without a begin is ignored, a begin without an end would last.
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

fn ask_for_tasks(open: &mut OpenCpuTimeSkel<'_>, wanted: Setup<'_>) -> libbpf_rs::Result<()> {
    let tasks = wanted.tasks;
    open.progs.tell_tasks.set_autoload(tasks.is_some() && !wanted.walks_itself);
    open.progs.tell_all_tasks.set_autoload(tasks.is_some() && wanted.walks_itself);
    open.progs.on_fork.set_autoload(tasks.is_some());
    // Unused maps need not exist: older kernels lack some of these.
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
