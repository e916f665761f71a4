//! The samplers' programs in the kernel.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::{fmt, ptr};

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use record::clock::{Clock, Monotonic};

use self::skel::types::{cpu, cpu_ticks};
use self::skel::{TicksSkel, TicksSkelBuilder};
use super::{Counts, SAMPLE_PERIOD_NS, Tally};
use crate::cpu_list;
use crate::program::{PerCpu, Sampler, kernel_traces};

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from ticks.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/ticks.skel.rs"));
}

const _: () = assert!(size_of::<cpu_ticks>() == 128);
const _: () = assert!(size_of::<cpu>() == 704);

/// The samplers, attached; detached when dropped.
pub(crate) struct Ticks {
    skel: TicksSkel<'static>,
    cpus: PerCpu<cpu>,
    sees_ends: bool,
    sampler: Option<Sampler>,
    _links: Vec<Link>,
}

impl Ticks {
    /// Attaches the samplers, the phase-free one on each of the CPUs.
    ///
    /// - `task_spans`: map in which another program notes when tasks ran.
    ///
    /// # Errors
    ///
    /// A clause for people.
    pub(crate) fn open(online: &BTreeSet<u32>, task_spans: BorrowedFd<'_>) -> Result<Self, String> {
        // Only x86 has the tracepoint at the end of the timer's interrupt.
        let possible = cpu_list::possible_count();
        let load = |sees_ends: bool| Self::load(sees_ends, possible, Some(task_spans));
        let loaded = load(true)
            .or_else(|first| if kernel_traces("local_timer_exit") { Err(first) } else { load(false) });
        let mut ticks = loaded.map_err(|e| format!("cannot observe ticks: {e}"))?;
        // The values of a CPU that cannot be sampled are missing with the reason.
        let go_on = |_, _| Ok(());
        let sampler =
            Sampler::start(online.iter().copied(), sample_period_ns, &ticks.skel.progs.on_sample, go_on);
        ticks.sample_by(sampler?);
        Ok(ticks)
    }

    /// - `possible`: CPUs that there is room for.
    /// - `task_spans`: as in [`Self::open`]; without it, a new map.
    fn load(sees_ends: bool, possible: u32, task_spans: Option<BorrowedFd<'_>>) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = TicksSkelBuilder::default().open(place)?;
        open.progs.on_tick_end.set_autoload(sees_ends);
        open.maps.cpus.set_max_entries(possible)?;
        match task_spans {
            Some(map) => open.maps.spans_of_tasks.reuse_fd(map)?,
            None => open.maps.spans_of_tasks.set_max_entries(possible)?,
        }
        let skel = open.load()?;
        let cpus = PerCpu::map(&skel.maps.cpus)?;
        let mut links = vec![
            skel.progs.on_tick.attach()?,
            skel.progs.on_softirq_entry.attach()?,
            skel.progs.on_softirq_exit.attach()?,
        ];
        // Ends first: a begin without an end would last. Only x86 has more than the first kind.
        for kind in ["irq_handler", "local_timer", "call_function_single", "call_function", "irq_work"] {
            let end = skel.progs.on_handler_exit.attach_raw_tracepoint(format!("{kind}_exit"));
            if let Ok(end) = end {
                links.push(end);
                links.push(skel.progs.on_handler_entry.attach_raw_tracepoint(format!("{kind}_entry"))?);
            }
        }
        if sees_ends {
            links.push(skel.progs.on_tick_end.attach()?);
        }
        Ok(Self { skel, cpus, sees_ends, sampler: None, _links: links })
    }

    /// Counts of each of the CPUs so far.
    pub(crate) fn tally(&self, online: &BTreeSet<u32>) -> Tally {
        let slots: Vec<(u32, u64, cpu_ticks)> =
            online.iter().filter_map(|cpu| Some((*cpu, Monotonic.now_ns(), self.slot(*cpu)?))).collect();
        let period_ns = slots.iter().map(|(_, _, t)| t.period_ns).filter(|p| *p > 0).min();
        let counts = |cpu: u32, at_ns: u64, t: &cpu_ticks| Counts {
            at_ns,
            ticks: (t.ticks, t.before),
            ends: self.sees_ends.then_some((t.ends, t.after)),
            sampled: self.is_sampled(cpu).then_some((t.samples, t.sampled)),
            timers: t.timers,
        };
        Tally { period_ns, cpus: slots.iter().map(|(cpu, at, t)| (*cpu, counts(*cpu, *at, t))).collect() }
    }

    /// The programs that run at an interrupt or softirq, and at a timer; of these, the first runs at each.
    pub(crate) fn programs(&self) -> [Vec<BorrowedFd<'_>>; 2] {
        let p = &self.skel.progs;
        let of_interrupts =
            [&p.on_softirq_entry, &p.on_softirq_exit, &p.on_handler_entry, &p.on_handler_exit];
        let of_timers =
            [&p.on_tick, &p.on_sample].into_iter().chain(self.sees_ends.then_some(&p.on_tick_end));
        [
            of_interrupts.into_iter().map(|program| program.as_fd()).collect(),
            of_timers.map(|program| program.as_fd()).collect(),
        ]
    }

    fn sample_by(&mut self, sampler: Sampler) {
        for (cpu, id) in sampler.ids() {
            if let Some(place) = self.cpus.of(*cpu) {
                // SAFETY: an aligned word in memory that is mapped as long as `cpus` lives; only we write it.
                unsafe { ptr::write_volatile(&raw mut (*place).ticks.sample_id, *id) };
            }
        }
        self.sampler = Some(sampler);
    }

    fn is_sampled(&self, cpu: u32) -> bool {
        self.sampler.as_ref().is_some_and(|sampler| sampler.ids().contains_key(&cpu))
    }

    fn slot(&self, cpu: u32) -> Option<cpu_ticks> {
        // SAFETY: plain integers in memory that is mapped as long as `cpus` lives. That CPU writes it
        // meanwhile, but each count alone: an aligned word is read whole, and counts of different moments are
        // microseconds apart.
        self.cpus.of(cpu).map(|place| unsafe { ptr::read_volatile(&raw const (*place).ticks) })
    }
}

/// Sample period of a CPU: differs by CPU, within 5 % of [`SAMPLE_PERIOD_NS`]. A sample wakes its CPU up and
/// so moves the work that this CPU was about to do some 10 us later, also to other CPUs; samples of others
/// that stayed in step with it would see too much of that, or nothing.
fn sample_period_ns(cpu: u32) -> u64 {
    const KINDS: u64 = 101;
    SAMPLE_PERIOD_NS + 1_000 * (u64::from(cpu) * 37 % KINDS) - 1_000 * (KINDS / 2)
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32) -> libbpf_rs::Result<u64> {
    let ticks = Ticks::load(false, possible, None)?;
    Ok(crate::program::kernel_bytes(&ticks.skel, possible))
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}
