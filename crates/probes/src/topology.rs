//! Which CPUs make up a core: the hardware threads that share its units.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::cpu_list::{self, NotACpuList};

/// The cores that have several CPUs; every other CPU has its core for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    siblings: Vec<BTreeSet<u32>>,
}

/// A declaration of cores that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCores {
    /// A part is not a list of CPUs.
    #[error(transparent)]
    List(#[from] NotACpuList),
    /// A CPU is in two cores.
    #[error("CPU {cpu} is in two cores: write each CPU once, and a semicolon between cores, as in 0,1;2,3")]
    Twice {
        /// The CPU.
        cpu: u32,
    },
    /// A core has more CPUs than the shares are counted for.
    #[error("a core of {found} CPUs is not known to exist: up to {SIBLINGS_MAX} are accounted for")]
    TooMany {
        /// How many were declared.
        found: usize,
    },
}

/// As in `cpu_time.h`: shares are counted in a unit that can be divided by 1 to 8.
pub const SIBLINGS_MAX: usize = 8;

impl Cores {
    /// The cores as the kernel knows them, under `root`; where it does not tell, none that are shared.
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
            let core = cpu_list::parse(part)?;
            if core.is_empty() {
                return Err(NotACpuList { found: part.to_owned() }.into());
            }
            if core.len() > SIBLINGS_MAX {
                return Err(NotCores::TooMany { found: core.len() });
            }
            if let Some(cpu) = core.iter().find(|cpu| !seen.insert(**cpu)) {
                return Err(NotCores::Twice { cpu: *cpu });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_read_as_declared() {
        let cores = Cores::declared("0,1;2-3;9").unwrap();
        assert_eq!(cores.shared(), [[0, 1].into(), [2, 3].into()]);
        for text in ["", "0,1;", "0,1;1,2", "0-8", "a"] {
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
    }
}
