//! Samples of CPUs, out of step with the tick: a `cpu-clock` perf event on each, and a program of ours at
//! each sample.

use std::collections::BTreeMap;
use std::os::fd::IntoRawFd;
use std::{fmt, io};

use libbpf_rs::{Link, ProgramMut};
use perf_event::Builder;
use perf_event::events::Software;

/// The perf events; dropping this ends them.
pub(crate) struct Sampler {
    /// The kernel's number of the event, by CPU.
    ids: BTreeMap<u32, u64>,
    _links: Vec<Link>,
}

impl Sampler {
    /// Starts to sample each of the CPUs with that program.
    ///
    /// - `period_ns`: time between two samples of a CPU.
    /// - `refused`: called for a CPU that cannot be sampled: continues without it, or fails.
    ///
    /// # Errors
    ///
    /// The error of `refused`.
    pub(crate) fn start(
        cpus: impl IntoIterator<Item = u32>,
        period_ns: impl Fn(u32) -> u64,
        program: &ProgramMut<'_>,
        refused: impl Fn(u32, io::Error) -> Result<(), String>,
    ) -> Result<Self, String> {
        let (mut ids, mut links) = (BTreeMap::new(), Vec::new());
        for cpu in cpus {
            match sample(cpu, period_ns(cpu), program) {
                Ok((link, id)) => {
                    links.push(link);
                    ids.insert(cpu, id);
                }
                Err(why) => refused(cpu, why)?,
            }
        }
        Ok(Self { ids, _links: links })
    }

    /// CPUs that are sampled, each with the kernel's number of its event.
    pub(crate) fn ids(&self) -> &BTreeMap<u32, u64> {
        &self.ids
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("ids", &self.ids).finish_non_exhaustive()
    }
}

fn sample(cpu: u32, period_ns: u64, program: &ProgramMut<'_>) -> io::Result<(Link, u64)> {
    let mut event = Builder::new(Software::CPU_CLOCK);
    event.any_pid().one_cpu(cpu as usize).sample_period(period_ns);
    event.include_kernel().include_hv().exclude_idle(false).enabled(false);
    let event = event.build()?;
    let id = event.id();
    // Attaching takes the descriptor over, and enables the event.
    let link = program.attach_perf_event(event.into_raw_fd());
    Ok((link.map_err(|e| io::Error::other(e.to_string()))?, id))
}
