//! Filters that programs receive after they are loaded.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use libbpf_rs::{MapCore, MapFlags};

use crate::cgroups::Cgroup;

/// Restricts programs that include `only.bpf.h` to that control group and all below it; the flag beside the
/// map is set before loading.
pub(crate) fn ask_for(map: &impl MapCore, cgroup: Option<&Cgroup>) -> libbpf_rs::Result<()> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    // The map holds the group; the folder may be closed.
    let folder = File::open(&cgroup.folder)?;
    map.update(&0_u32.to_ne_bytes(), &folder.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
}
