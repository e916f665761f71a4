//! Throttling of many control groups, interval by interval.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use record::limits::Throttled;

use super::{Group, Mount, Throttling, inside, mounts};

/// Maximum number of groups that are watched from the start on.
const AT_START_MAX: usize = 512;
/// Maximum number of groups to remember, those that were removed among them.
const GROUPS_MAX: usize = 8_192;

/// Control groups with their counters at the start of the interval.
#[derive(Debug)]
pub struct Quotas {
    root: PathBuf,
    mounts: Vec<Mount>,
    watched: HashMap<String, Throttling>,
}

impl Quotas {
    /// Watches the groups of the hierarchy of version 2: those that exist, at most 512, from now on, and
    /// others from the first interval on that names them.
    pub fn watch() -> Self {
        Self::under(Path::new("/"))
    }

    pub(super) fn under(root: &Path) -> Self {
        let mounts = mounts(root, "self").unwrap_or_default();
        let mount = mounts.iter().find(|mount| !mount.is_v1).map(|mount| inside(root, &mount.at));
        let mut quotas = Self { root: root.to_owned(), mounts, watched: HashMap::new() };
        let mut waiting: VecDeque<PathBuf> = mount.iter().cloned().collect();
        while let Some(folder) = waiting.pop_front().filter(|_| quotas.watched.len() < AT_START_MAX) {
            let below = folder.strip_prefix(mount.as_ref().expect("a folder is in it")).unwrap_or(&folder);
            quotas.begin(&Path::new("/").join(below).to_string_lossy());
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            waiting.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
        quotas
    }

    /// Quotas that took effect since the last call, or since the start, longest first; and the reasons for
    /// groups of which that is unknown, because they are gone or were created anew.
    ///
    /// - `groups`: names of those that were active. A quota above several of them is in the result once.
    pub fn since_last<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a str>,
    ) -> (Vec<Throttled>, BTreeSet<String>) {
        let mut found: BTreeMap<String, Throttled> = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for name in groups {
            match self.watched.get(name).filter(|watch| watch.before.is_ok()).map(Throttling::so_far) {
                Some(Ok(throttled)) if throttled.is_any() => {
                    found.insert(throttled.cgroup.clone(), throttled);
                }
                Some(Err(why)) => {
                    unknown.insert(why.reason);
                }
                Some(Ok(_)) | None => {}
            }
            self.begin(name);
        }
        let mut found: Vec<Throttled> = found.into_values().collect();
        found.sort_by_key(|throttled| std::cmp::Reverse(throttled.time_ns));
        (found, unknown)
    }

    fn begin(&mut self, name: &str) {
        if self.watched.len() >= GROUPS_MAX {
            self.watched.clear();
        }
        let known = self.watched.get(name).map(|watch| watch.before.clone().map(|(group, _)| group));
        let group = known.unwrap_or_else(|| Group::named(&self.root, &self.mounts, Path::new(name)));
        self.watched.insert(name.to_owned(), Throttling { before: group.map(Group::now) });
    }
}
