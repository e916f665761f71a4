//! Support for every eBPF program of ours, one subject a file.

mod asked;
mod draining;
mod kernel;
mod losses;
#[cfg(test)]
mod memory;
mod names;
mod per_cpu;
mod refusal;
mod run_time;
mod sampler;
mod stacks;

pub(crate) use self::asked::AskedCgroup;
pub(crate) use self::draining::{Halves, Row, empty_if_half_full, take_all, wait_for_running};
pub(crate) use self::kernel::{KERNEL_BTF, kernel_is_at_least, kernel_traces};
pub(crate) use self::losses::{Losses, count_in};
#[cfg(test)]
pub(crate) use self::memory::kernel_bytes;
pub(crate) use self::names::{comm, text};
pub(crate) use self::per_cpu::PerCpu;
pub(crate) use self::refusal::{may_load, refusal};
pub(crate) use self::run_time::{
    BurstTime, RunTime, each_in_a_burst, in_a_burst, recursion_misses, run_statistics,
};
pub(crate) use self::sampler::Sampler;
pub(crate) use self::stacks::Stacks;
