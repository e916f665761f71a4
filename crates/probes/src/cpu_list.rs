//! Lists of CPUs as the kernel writes them: `0-3,8,10-11`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[cfg(feature = "bpf")]
use nix::libc;

/// A text that is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a list of CPUs such as 0-3,8")]
pub struct NotACpuList {
    /// The text.
    pub found: String,
}

/// Reads a list of CPUs; an empty text is an empty list.
///
/// # Errors
///
/// [`NotACpuList`] if a part is neither a number nor a rising range, or a number is over 65,535.
pub fn parse(text: &str) -> Result<BTreeSet<u32>, NotACpuList> {
    let wrong = || NotACpuList { found: text.trim().to_owned() };
    let number = |t: &str| t.parse::<u16>().map(u32::from).map_err(|_| wrong());
    let mut cpus = BTreeSet::new();
    if text.trim().is_empty() {
        return Ok(cpus);
    }
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Online CPUs, including those outside of this process's affinity and CPU set.
///
/// `root`: the folder that holds `sys`, `/` on a live machine. `None` if the kernel has no list.
pub fn online(root: &Path) -> Option<BTreeSet<u32>> {
    parse(&fs::read_to_string(root.join("sys/devices/system/cpu/online")).ok()?).ok()
}

/// Online CPUs, each with a number that changes when the CPU goes offline and comes back: the kernel makes
/// the folder `topology` of a CPU anew whenever the CPU comes online. Without the folder, the number is 0.
///
/// # Source
///
/// `torvalds/linux`, `drivers/base/topology.c`: `topology_add_dev`, `topology_remove_dev`.
#[cfg(feature = "bpf")]
pub(crate) fn stays(root: &Path) -> Option<BTreeMap<u32, u64>> {
    Some(stays_of(root, &online(root)?))
}

/// Variant of `stays` for a list of CPUs.
pub(crate) fn stays_of(root: &Path, cpus: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let folder = |cpu| root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
    cpus.iter().map(|cpu| (*cpu, fs::metadata(folder(cpu)).map_or(0, |found| found.ino()))).collect()
}

/// Highest number that a CPU may ever have on this machine, plus one: of the CPUs that the kernel lists as
/// possible, a list that is fixed at boot.
#[cfg(feature = "bpf")]
pub(crate) fn possible_count() -> u32 {
    let possible =
        fs::read_to_string("/sys/devices/system/cpu/possible").ok().and_then(|text| parse(&text).ok());
    possible.and_then(|cpus| Some(cpus.last()? + 1)).unwrap_or_else(affinity_bits)
}

/// Number of bits in the kernel's affinity masks, at least the number of possible CPUs; for a machine without
/// `/sys`.
#[cfg(feature = "bpf")]
fn affinity_bits() -> u32 {
    let mut mask = [0_u64; 1024];
    let size = size_of_val(&mask);
    // SAFETY: the kernel writes at most `size` bytes to the mask.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size, mask.as_mut_ptr()) };
    u32::try_from(bytes)
        .expect("the kernel tells any process its own affinity, and has room for at most 65,536 CPUs")
        * 8
}

/// Number of online CPUs; 1 if the kernel has no list.
#[cfg(feature = "bpf")]
pub(crate) fn online_count() -> usize {
    online(Path::new("/")).map_or(1, |online| online.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_the_kernel_writes_them() {
        for (text, cpus) in [
            ("0\n", vec![0]),
            ("0-3", vec![0, 1, 2, 3]),
            ("0,2-3,1023\n", vec![0, 2, 3, 1023]),
            ("\n", vec![]),
        ] {
            assert_eq!(parse(text), Ok(cpus.into_iter().collect()), "{text}");
        }
        for text in ["a", "3-1", "0,,1", "-1", "0-", "99999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[cfg(feature = "bpf")]
    #[test]
    fn every_cpu_that_is_online_is_possible_and_masks_have_room_for_all() {
        let highest = *online(Path::new("/")).unwrap().last().unwrap();
        assert!(highest < possible_count() && possible_count() <= affinity_bits());
        assert_eq!(affinity_bits() % 64, 0, "masks are made of words");
    }
}
