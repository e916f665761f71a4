//! Other users of this machine that can change a file, or the way to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, absolute};

use nix::unistd::geteuid;

/// Whether another user than this one and root can change a file, or create files in a folder.
///
/// - `author`: another user that may own it.
#[cfg(feature = "lua")]
pub(crate) fn is_shared(path: &Path, author: Option<u32>) -> bool {
    can_others_write(path, author, false)
}

/// Whether another user than this one and root can change a folder, or replace one on the way to it.
pub(crate) fn is_way_shared(folder: &Path) -> bool {
    let (Ok(written), Ok(found)) = (absolute(folder), fs::canonicalize(folder)) else { return true };
    // In the folders above, the sticky bit keeps other users from replacing entries that are not theirs.
    let is_open = |end: &Path| end.ancestors().any(|part| can_others_write(part, None, part != end));
    // A link on the way may lie in a folder that is not on the way without links.
    is_open(&found) || is_open(&written)
}

fn can_others_write(path: &Path, author: Option<u32>, may_be_sticky: bool) -> bool {
    fs::metadata(path).map_or(true, |found| {
        let users = [Some(0), Some(geteuid().as_raw()), author];
        // A user's private group, with the same number, has no other member; nor should root's group.
        let may_group = found.mode() & 0o020 != 0 && found.gid() != found.uid() && found.gid() != 0;
        let is_sticky = may_be_sticky && found.mode() & 0o1000 != 0;
        !users.contains(&Some(found.uid())) || !is_sticky && (may_group || found.mode() & 0o002 != 0)
    })
}
