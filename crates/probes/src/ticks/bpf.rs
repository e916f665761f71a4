//! The samplers' programs in the kernel.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::{fmt, io, ptr};

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use perf_event::Builder;
use perf_event::events::Software;
use record::clock::{Clock, Monotonic};

use self::skel::types::cpu_ticks;
use self::skel::{TicksSkel, TicksSkelBuilder};
use super::{Counts, SAMPLE_PERIOD_NS, Tally};

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

/// As in `ticks.h`.
const TICKS_CPUS: usize = 1024;
const _: () = assert!(size_of::<cpu_ticks>() == 128);

/// The samplers, attached; detached when dropped.
pub(crate) struct Ticks {
    skel: TicksSkel<'static>,
    sees_ends: bool,
    sampled: BTreeSet<u32>,
    links: Vec<Link>,
}

impl Ticks {
    /// Attaches the samplers, the phase-free one on each of the CPUs.
    ///
    /// # Errors
    ///
    /// A clause for people.
    pub(crate) fn open(online: &BTreeSet<u32>) -> Result<Self, String> {
        // Only x86 has the tracepoint at the end of the timer's interrupt.
        let loaded = Self::load(true).or_else(|_| Self::load(false));
        let mut ticks = loaded.map_err(|e| format!("ticks cannot be watched: {e}"))?;
        for cpu in online {
            if let Ok(link) = ticks.sample_on(*cpu) {
                ticks.links.push(link);
                ticks.sampled.insert(*cpu);
            }
        }
        Ok(ticks)
    }

    fn load(sees_ends: bool) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = TicksSkelBuilder::default().open(place)?;
        open.progs.on_tick_end.set_autoload(sees_ends);
        let skel = open.load()?;
        let mut links = vec![
            skel.progs.on_tick.attach()?,
            skel.progs.on_softirq_entry.attach()?,
            skel.progs.on_softirq_exit.attach()?,
        ];
        if sees_ends {
            links.push(skel.progs.on_tick_end.attach()?);
        }
        Ok(Self { skel, sees_ends, sampled: BTreeSet::new(), links })
    }

    fn sample_on(&self, cpu: u32) -> io::Result<Link> {
        let mut event = Builder::new(Software::CPU_CLOCK);
        event.any_pid().one_cpu(cpu as usize).sample_period(SAMPLE_PERIOD_NS);
        event.include_kernel().include_hv().exclude_idle(false).enabled(false);
        // Attaching takes the descriptor over, and turns the event on.
        let fd = event.build()?.into_raw_fd();
        self.skel.progs.on_sample.attach_perf_event(fd).map_err(|e| io::Error::other(e.to_string()))
    }

    /// What was counted on each of the CPUs so far.
    pub(crate) fn tally(&self, online: &BTreeSet<u32>) -> Tally {
        let room = online.iter().filter(|cpu| (**cpu as usize) < TICKS_CPUS);
        let slots: Vec<(u32, u64, cpu_ticks)> =
            room.map(|cpu| (*cpu, Monotonic.now_ns(), self.slot(*cpu))).collect();
        let period_ns = slots.iter().map(|(_, _, t)| t.period_ns).filter(|p| *p > 0).min();
        let counts = |cpu: u32, at_ns: u64, t: &cpu_ticks| Counts {
            at_ns,
            before: t.before,
            after: self.sees_ends.then_some(t.after),
            sampled: self.sampled.contains(&cpu).then_some(t.sampled),
        };
        Tally { period_ns, cpus: slots.iter().map(|(cpu, at, t)| (*cpu, counts(*cpu, *at, t))).collect() }
    }

    fn slot(&self, cpu: u32) -> cpu_ticks {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: plain integers in memory that is mapped as long as `skel` lives. That CPU writes it meanwhile, but each
        // count alone: an aligned word is read whole, and counts of different moments are microseconds apart.
        unsafe { ptr::read_volatile(&raw const shared.ticks[cpu as usize]) }
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("sampled", &self.sampled).finish_non_exhaustive()
    }
}
