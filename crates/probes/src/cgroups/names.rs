//! Names of groups by the ids that programs in the kernel see.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::{mounted, name_below};

/// Groups that are looked at for a name.
const FOLDERS_MAX: usize = 65_536;

/// Names of groups by their ids, as far as the mounted hierarchy shows them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<u64, String>,
    has_walked: bool,
}

impl Names {
    /// From now on, an id that is not known is looked for once more. Groups that are gone keep their name.
    pub(crate) fn next_round(&mut self) {
        self.has_walked = false;
    }

    /// Looks at all groups that there are, so that one that goes soon has a name.
    pub(crate) fn walk(&mut self) {
        self.has_walked = true;
        let Ok(mount) = mounted() else { return };
        if self.known.len() > 2 * FOLDERS_MAX {
            self.known.clear();
        }
        let mut waiting = VecDeque::from([mount.clone()]);
        for _ in 0..FOLDERS_MAX {
            let Some(folder) = waiting.pop_front() else { return };
            // The number of its folder is the group's id, on machines of 64 bits.
            if let Ok(metadata) = fs::metadata(&folder) {
                self.known.insert(metadata.ino(), name_below(&mount, &folder));
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            waiting.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
    }

    /// The path of a group; its id, if the mounted hierarchy does not show it or it went before it was looked
    /// for.
    pub(crate) fn name(&mut self, id: u64) -> String {
        if !self.known.contains_key(&id) && !self.has_walked {
            self.walk();
        }
        self.known.get(&id).cloned().unwrap_or_else(|| format!("(cgroup {id})"))
    }
}
