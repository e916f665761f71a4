//! Filters that programs receive after they are loaded.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use libbpf_rs::{MapCore, MapFlags};

use crate::cgroups::Cgroup;

/// The control group that programs with `only.bpf.h` are restricted to, with all groups below it.
///
/// The programs' map holds a group, and the user names a path: a service that restarts is a new group there.
/// [`AskedCgroup::follow`] gives the programs the new one.
#[derive(Debug)]
pub(crate) struct AskedCgroup {
    cgroup: Option<Cgroup>,
    /// Inode of the group's folder, which is unique among groups; `None`: there is no such group.
    inode: Option<u64>,
}

impl AskedCgroup {
    /// Restricts the programs; the flag beside the map is set before loading.
    ///
    /// # Errors
    ///
    /// The group is gone, or the kernel refuses it.
    pub(crate) fn open(map: &impl MapCore, cgroup: Option<&Cgroup>) -> libbpf_rs::Result<Self> {
        let mut asked = Self { cgroup: cgroup.cloned(), inode: None };
        asked.inode = cgroup.map(|cgroup| give(map, cgroup)).transpose()?;
        Ok(asked)
    }

    /// Looks whether another group is at the path, and restricts the programs to that one; returns a sentence
    /// if something changed.
    ///
    /// Call it at the edges of intervals: threads of a new group count from the next call on.
    pub(crate) fn follow(&mut self, map: &impl MapCore) -> Option<String> {
        let cgroup = self.cgroup.as_ref()?;
        let now = fs::metadata(&cgroup.folder).ok().map(|found| found.ino());
        if now == self.inode {
            return None;
        }
        let given = now.map(|_| give(map, cgroup)).transpose();
        self.inode = given.as_ref().map_or(None, |inode| *inode);
        let name = &cgroup.name;
        Some(match given {
            Ok(Some(_)) => format!(
                "control group {name} was created anew: threads of the new one count from now on, not before"
            ),
            Ok(None) => format!("control group {name} is gone: nothing counts until it is created anew"),
            Err(why) => format!("control group {name} was created anew and cannot be watched: {why}"),
        })
    }
}

/// Returns the inode of the group's folder.
fn give(map: &impl MapCore, cgroup: &Cgroup) -> libbpf_rs::Result<u64> {
    // The map holds the group; the folder may be closed.
    let folder = File::open(&cgroup.folder)?;
    map.update(&0_u32.to_ne_bytes(), &folder.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
    let inode: io::Result<u64> = folder.metadata().map(|found| found.ino());
    Ok(inode?)
}
