//! What else a file is besides its bytes: owner, mode, extended attributes, times.

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Makes `to` what `from` is, as far as this user may: like `gzip`, not more, and without complaint.
pub(crate) fn copy(from: &File, metadata: &Metadata, to: &File) {
    let owner = Uid::from_raw(metadata.uid());
    let group = Gid::from_raw(metadata.gid());
    // Only root may give a file away, but a group one belongs to can be kept.
    let owned = rustix::fs::fchown(to, Some(owner), None).is_ok();
    let grouped = rustix::fs::fchown(to, None, Some(group)).is_ok();
    // After the owner: a change of owner removes capabilities.
    copy_extended(from, to);
    // Rights meant for another owner or group must not pass to this one.
    let mut mode = metadata.mode() & 0o7777;
    if !owned {
        mode &= !0o4000;
    }
    if !grouped {
        // The old group's members may be among the others now, and the new group's were others: each gets
        // what both had.
        let both = mode >> 3 & mode & 0o007;
        mode = mode & !0o2077 | both << 3 | both;
    }
    let _ = to.set_permissions(Permissions::from_mode(mode));
    let times = Timestamps {
        last_access: Timespec { tv_sec: metadata.atime(), tv_nsec: metadata.atime_nsec() },
        last_modification: Timespec { tv_sec: metadata.mtime(), tv_nsec: metadata.mtime_nsec() },
    };
    let _ = rustix::fs::futimens(to, &times);
}

/// What any new file gets: the temporary one was for its writer alone.
pub(crate) fn usual(to: &File) -> io::Result<()> {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    to.set_permissions(Permissions::from_mode(0o666 & !mask.bits()))
}

fn copy_extended(from: &File, to: &File) {
    let mut names = vec![0; 64 << 10];
    let Ok(bytes) = rustix::fs::flistxattr(from, &mut names[..]) else { return };
    let mut value = vec![0; 64 << 10];
    for name in names[..bytes].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(bytes) = rustix::fs::fgetxattr(from, name, &mut value[..]) {
            let _ = rustix::fs::fsetxattr(to, name, &value[..bytes], XattrFlags::empty());
        }
    }
}
