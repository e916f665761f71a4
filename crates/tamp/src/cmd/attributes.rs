//! Attributes of a file besides its bytes: owner, mode, extended attributes, times.

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Copies the attributes of `from` to `to` as far as this user may. Like `gzip`, it ignores failures.
pub(crate) fn copy(from: &File, metadata: &Metadata, to: &File) {
    let owner = Uid::from_raw(metadata.uid());
    let group = Gid::from_raw(metadata.gid());
    // Only root may change the owner; a user may keep a group that the user belongs to.
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
        // Members of the old group may now count as others, and members of the new group counted as others:
        // grant both classes only what both had.
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

/// Sets the mode of any new file: the temporary file was readable by its owner alone.
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
