//! Whom a user wants to see, as far as programs learn it after they are loaded.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use libbpf_rs::{MapCore, MapFlags};

use crate::cgroups::Cgroup;

/// Has programs that include `only.bpf.h` see that control group alone, with all below it; the flag beside it
/// is set before loading.
pub(crate) fn ask_for(map: &impl MapCore, cgroup: Option<&Cgroup>) -> libbpf_rs::Result<()> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    // The map keeps the group; the folder may be closed.
    let folder = File::open(&cgroup.folder)?;
    map.update(&0_u32.to_ne_bytes(), &folder.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
}
