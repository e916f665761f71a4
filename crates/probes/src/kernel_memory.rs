//! Kernel memory of each instrument, on machines of 2, 256 and 1,024 CPUs.

use std::path::Path;

use record::profile::ProfileKind;

use crate::program::KERNEL_BTF;
use crate::{block_io, cpu_time, locks, profile, ticks, user_locks};

/// An instrument, and its memory in bytes by the number of possible CPUs.
type Row = (&'static str, fn(u32) -> libbpf_rs::Result<u64>);

const INSTRUMENTS: [Row; 10] = [
    ("cpu --events-only", |possible| cpu_time::bpf::kernel_memory(possible, false)),
    ("cpu --events-only --tasks --waits", |possible| cpu_time::bpf::kernel_memory(possible, true)),
    // Rings that user space maps, calculated: they are no maps of programs.
    ("cpu on the perf rung", |possible| Ok(cpu_time::perf::kernel_memory(possible))),
    ("samples of cpu", ticks::bpf::kernel_memory),
    ("profile", |possible| profile::bpf::kernel_memory(possible, ProfileKind::OnCpu)),
    ("profile --off-cpu", |possible| profile::bpf::kernel_memory(possible, ProfileKind::OffCpu)),
    ("io", |possible| block_io::bpf::kernel_memory(possible, false)),
    ("io --by file", |possible| block_io::bpf::kernel_memory(possible, true)),
    ("locks", locks::bpf::kernel_memory),
    ("ulocks", user_locks::bpf::kernel_memory),
];
const CPUS: [u32; 3] = [2, 256, 1024];

#[test]
fn root_memory_follows_the_cpus_that_are_possible_and_is_bounded() {
    if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
        return eprintln!("skipped: needs root and a kernel with BTF");
    }
    libbpf_rs::set_print(None);
    println!("| MiB on | {} |", CPUS.map(|cpus| format!("{cpus} CPUs")).join(" | "));
    println!("|---|{}", "---:|".repeat(CPUS.len()));
    for (name, bytes) in INSTRUMENTS {
        let bytes = CPUS.map(|cpus| bytes(cpus).unwrap());
        println!(
            "| `{name}` | {} |",
            bytes.map(|b| format!("{:.2}", b as f64 / f64::from(1 << 20))).join(" | ")
        );
        if name == "cpu on the perf rung" {
            assert!(bytes.into_iter().all(|bytes| bytes <= 70 << 20), "{name}: {bytes:?}");
            continue;
        }
        // A page for each CPU's counters, a kilobyte for each other object of a CPU; sums of requests have a
        // separate bound.
        let for_each_cpu = if name.starts_with("io") { 24 << 10 } else { 8 << 10 };
        for (cpus, bytes_here) in CPUS.into_iter().zip(bytes) {
            assert!(bytes_here < bytes[0] + u64::from(cpus) * for_each_cpu + (32 << 20), "{name}: {bytes:?}");
        }
        assert!(name.starts_with("io") || bytes[2] < bytes[0] + 1024 * for_each_cpu, "{name}: {bytes:?}");
    }
    let events = |cpus| cpu_time::bpf::kernel_memory(cpus, false).unwrap();
    assert!(events(2) < 64 << 10, "a machine of two CPUs does not pay for others: {}", events(2));
    // There is no largest machine.
    assert!(events(4_000) >= events(2) + 3_990 * 4_096);
}
