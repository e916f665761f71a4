//! Names of groups by the ids that programs in the kernel see.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{mounted, name_below};

/// Maximum number of groups that a walk visits.
const FOLDERS_MAX: usize = 65_536;

/// Names of groups by their ids, as far as the mounted hierarchy shows them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<u64, String>,
    has_walked: bool,
}

impl Names {
    /// Starts a round: an unknown id is looked up once more. Removed groups keep their name.
    pub(crate) fn next_round(&mut self) {
        self.has_walked = false;
    }

    /// Visits all groups, so that short-lived ones have a name.
    pub(crate) fn walk(&mut self) {
        self.has_walked = true;
        let Ok(mount) = mounted() else { return };
        if self.known.len() > 2 * FOLDERS_MAX {
            self.known.clear();
        }
        let mut waiting = VecDeque::from([mount.clone()]);
        for _ in 0..FOLDERS_MAX {
            let Some(folder) = waiting.pop_front() else { return };
            // The inode of its folder is the group's id, on 64-bit machines.
            if let Ok(metadata) = fs::metadata(&folder) {
                self.known.insert(metadata.ino(), name_below(&mount, &folder));
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            waiting.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
    }

    /// Path of a group; its id below the path of the nearest group above it that has one, or its id alone.
    ///
    /// - `above`: ids, nearest first.
    pub(crate) fn name_below(&mut self, id: u64, above: &[u64]) -> String {
        let name = self.name(id);
        if self.known.contains_key(&id) {
            return name;
        }
        match above.iter().find_map(|id| self.known.get(id)) {
            Some(parent) => Path::new(parent).join(name).to_string_lossy().into_owned(),
            None => name,
        }
    }

    /// Path of a group; its id, if the mounted hierarchy does not show it or the group was removed before the
    /// lookup.
    pub(crate) fn name(&mut self, id: u64) -> String {
        if !self.known.contains_key(&id) && !self.has_walked {
            self.walk();
        }
        self.known.get(&id).cloned().unwrap_or_else(|| format!("(cgroup {id})"))
    }
}
