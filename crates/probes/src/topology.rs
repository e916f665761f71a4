//! CPUs that make up a core: the hardware threads that share its units.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::cpu_list::{self, NotACpuList};

/// The cores that have several CPUs; every other CPU has its core for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    siblings: Vec<BTreeSet<u32>>,
}

/// An impossible declaration of cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCores {
    /// A part is not a list of CPUs.
    #[error(transparent)]
    List(#[from] NotACpuList),
    /// A CPU is in two cores, or twice in one.
    #[error("CPU {cpu} is named twice: write each CPU once, and a semicolon between cores, as in 0,1;2,3")]
    Twice {
        /// The CPU.
        cpu: u32,
    },
    /// A core has more CPUs than the shares support.
    #[error("{found} CPUs in one core: at most {SIBLINGS_MAX} are supported")]
    TooMany {
        /// Number of declared CPUs.
        found: usize,
    },
}

/// Maximum number of CPUs in a core, as in `cpu_time.h`: shares are counted in a unit that 1 to 8 divide.
pub const SIBLINGS_MAX: usize = 8;

impl Cores {
    /// The cores as the kernel lists them, under `root`; if it has no list, no cores are shared.
    pub fn read(root: &Path) -> Self {
        let online = cpu_list::online(root).unwrap_or_default();
        let of = |cpu: &u32| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            cpu_list::parse(&fs::read_to_string(root.join(path)).ok()?).ok()
        };
        let all: BTreeSet<BTreeSet<u32>> = online.iter().filter_map(of).collect();
        let shared = all.into_iter().filter(|core| (2..=SIBLINGS_MAX).contains(&core.len()));
        Self { siblings: shared.collect() }
    }

    /// Cores as a user declares them: `0,1;2,3` or `0-7`.
    ///
    /// # Errors
    ///
    /// [`NotCores`].
    pub fn declared(text: &str) -> Result<Self, NotCores> {
        let mut seen = BTreeSet::new();
        let mut siblings = Vec::new();
        for part in text.split(';') {
            let mut core = BTreeSet::new();
            for range in part.split(',') {
                let cpus = cpu_list::parse(range)?;
                if cpus.is_empty() {
                    return Err(NotACpuList { found: part.to_owned() }.into());
                }
                if let Some(cpu) = cpus.iter().find(|cpu| !seen.insert(**cpu)) {
                    return Err(NotCores::Twice { cpu: *cpu });
                }
                core.extend(cpus);
            }
            if core.len() > SIBLINGS_MAX {
                return Err(NotCores::TooMany { found: core.len() });
            }
            siblings.push(core);
        }
        siblings.retain(|core| core.len() > 1);
        Ok(Self { siblings })
    }

    /// The cores with several CPUs.
    pub fn shared(&self) -> &[BTreeSet<u32>] {
        &self.siblings
    }
}

/// Socket of each of `cpus`, and its core by the core's lowest CPU, under `root`; a CPU without data from the
/// kernel is a core by itself on socket 0.
pub fn places(root: &Path, cpus: &[u32]) -> BTreeMap<u32, (u32, u32)> {
    let of = |cpu: u32| {
        let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let socket = text("physical_package_id").and_then(|t| t.trim().parse().ok());
        let siblings = text("thread_siblings_list").and_then(|t| cpu_list::parse(&t).ok());
        let core = siblings.and_then(|s| s.first().copied());
        (cpu, (socket.unwrap_or(0), core.unwrap_or(cpu)))
    };
    cpus.iter().copied().map(of).collect()
}

/// Size of CPU 0's data or unified cache of that level, under `root`; `None` if the kernel does not report
/// it.
pub fn cache_bytes(root: &Path, level: u32) -> Option<u64> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cache");
    (0..16).find_map(|i| {
        let text = |file: &str| fs::read_to_string(folder.join(format!("index{i}/{file}"))).ok();
        let is_data = text("type")?.trim() != "Instruction";
        let is_level = text("level")?.trim().parse() == Ok(level);
        let kib: u64 = text("size")?.trim().strip_suffix('K')?.parse().ok()?;
        (is_data && is_level).then_some(kib * 1_024)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_read_as_declared() {
        let cores = Cores::declared("0,1;2-3;9").unwrap();
        assert_eq!(cores.shared(), [[0, 1].into(), [2, 3].into()]);
        for text in ["", "0,1;", "0,1;1,2", "0,0", "0-1,1", "0-8", "a"] {
            assert!(Cores::declared(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cores_are_read_from_the_folder_that_is_passed_in() {
        let root = tempfile::tempdir().unwrap();
        let cpus = root.path().join("sys/devices/system/cpu");
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3"), (4, "4")] {
            let folder = cpus.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("thread_siblings_list"), siblings).unwrap();
        }
        fs::write(cpus.join("online"), "0-4").unwrap();
        assert_eq!(Cores::read(root.path()).shared(), [[0, 2].into(), [1, 3].into()]);
        fs::write(cpus.join("cpu3/topology/physical_package_id"), "1\n").unwrap();
        let cache = cpus.join("cpu0/cache/index3");
        fs::create_dir_all(&cache).unwrap();
        for (file, text) in [("type", "Unified\n"), ("level", "3\n"), ("size", "32768K\n")] {
            fs::write(cache.join(file), text).unwrap();
        }
        for i in 0..3 {
            let folder = cpus.join(format!("cpu0/cache/index{i}"));
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("type", "Instruction"), ("level", "3"), ("size", "1K")] {
                fs::write(folder.join(file), text).unwrap();
            }
        }
        assert_eq!(cache_bytes(root.path(), 3), Some(32 << 20));
        assert_eq!(cache_bytes(root.path(), 2), None);
        let places = places(root.path(), &[2, 3, 9]);
        assert_eq!(places, [(2, (0, 0)), (3, (1, 1)), (9, (0, 9))].into());
    }
}
