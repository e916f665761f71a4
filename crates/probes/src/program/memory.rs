//! Kernel memory of an object's maps, on any number of CPUs.

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFdInfo, MapType, num_possible_cpus};

/// Memory of all maps of a loaded skeleton as the kernel counts it (`memlock` in `/proc/self/fdinfo`), in
/// bytes.
///
/// - `possible`: possible CPUs of the machine in question. Memory that the kernel allocates for each CPU of
///   this machine is counted for that many instead: copies in per-CPU maps, and an element each of
///   preallocated hashes.
pub(crate) fn kernel_bytes<'obj>(skel: &impl Skel<'obj>, possible: u32) -> u64 {
    let here = num_possible_cpus().expect("the kernel lists its CPUs") as u64;
    let of_map = |map: &MapFdInfo| {
        let told = map.memlock.expect("the kernel counts a map's memory");
        // Before Linux 6.4 a hash's count excludes the spare elements of each CPU.
        told.saturating_sub(here * for_each_cpu(map)) + u64::from(possible) * for_each_cpu(map)
    };
    // A map that was not created has a descriptor too, of something else.
    let infos = skel.object().maps().filter_map(|map| map.query_fdinfo().ok());
    infos.map(|info| of_map(&info)).sum()
}

/// Memory that one more CPU adds.
fn for_each_cpu(map: &MapFdInfo) -> u64 {
    /// Links of an element of a hash, in bytes.
    const ELEMENT: u64 = 48;
    let whole_words = |bytes: u32| u64::from(bytes.next_multiple_of(8));
    match map.map_type {
        MapType::PercpuArray => u64::from(map.max_entries) * whole_words(map.value_size),
        MapType::Hash => ELEMENT + whole_words(map.key_size) + whole_words(map.value_size),
        _ => 0,
    }
}
