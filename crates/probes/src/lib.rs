//! What the machine really did: probes that watch the kernel, and workloads with a known truth to check them
//! by.
//!
//! One folder per probe, C and Rust side by side. Each probe climbs a ladder from the kernel's own events
//! down to what `/proc` tells everyone, says on which rung it stands, and what would lift it to the next one.

#[cfg(not(feature = "bpf"))]
mod absent;
pub mod block_io;
pub mod cgroups;
pub mod cost;
pub mod cpu_list;
pub mod cpu_time;
mod cycles;
#[cfg(feature = "bpf")]
mod demangle;
mod descriptors;
#[cfg(feature = "bpf")]
mod elf_functions;
pub mod environment;
pub mod hog;
pub mod instructions;
mod instrument;
#[cfg(all(test, feature = "bpf"))]
mod kernel_memory;
#[cfg(feature = "bpf")]
mod kernel_symbols;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod nic;
pub mod observe;
mod peers;
pub mod power;
mod pressure;
pub mod proc_stat;
mod process_ids;
pub mod process_time;
pub mod profile;
#[cfg(feature = "bpf")]
mod program;
pub mod prove;
pub mod schedule;
mod ticks;
pub mod topology;
pub mod user_locks;
#[cfg(feature = "bpf")]
mod user_symbols;
