//! Other users of this machine that can change a file, or the way to it.

#[cfg(feature = "lua")]
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
#[cfg(feature = "lua")]
use std::path::Component;
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

/// Whether another user than this one and root can change what a path leads to: a folder on the way, a link,
/// or the end. Links are followed one by one, because each may lie in another folder.
///
/// - `base`: a folder that is trusted, as are the folders above it.
/// - `below`: the path from there.
/// - `author`: another user that may own the parts.
#[cfg(feature = "lua")]
pub(crate) fn is_end_shared(base: &Path, below: &Path, author: Option<u32>) -> bool {
    /// The kernel follows as many.
    const LINKS_MAX: u32 = 40;
    let Ok(mut at) = fs::canonicalize(base) else { return true };
    let parts = |path: &Path| -> Vec<OsString> {
        let named = path.components().filter(|part| *part != Component::CurDir);
        named.rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut left, mut links) = (parts(below), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Ok(found) = fs::symlink_metadata(&next) else { return true };
        if !found.is_symlink() {
            // The sticky bit keeps the next part, of which the owner is examined.
            if can_others_change(&found, author, found.is_dir()) {
                return true;
            }
            at = next;
            continue;
        }
        let Ok(target) = fs::read_link(&next) else { return true };
        links += 1;
        if links > LINKS_MAX || !is_trusted(&found, author) {
            return true;
        }
        left.extend(parts(&target));
    }
    false
}

fn can_others_write(path: &Path, author: Option<u32>, may_be_sticky: bool) -> bool {
    fs::metadata(path).map_or(true, |found| can_others_change(&found, author, may_be_sticky))
}

fn can_others_change(found: &Metadata, author: Option<u32>, may_be_sticky: bool) -> bool {
    // A user's private group, with the same number, has no other member; nor should root's group.
    let may_group = found.mode() & 0o020 != 0 && found.gid() != found.uid() && found.gid() != 0;
    let is_sticky = may_be_sticky && found.mode() & 0o1000 != 0;
    !is_trusted(found, author) || !is_sticky && (may_group || found.mode() & 0o002 != 0)
}

fn is_trusted(found: &Metadata, author: Option<u32>) -> bool {
    [Some(0), Some(geteuid().as_raw()), author].contains(&Some(found.uid()))
}

#[cfg(all(test, feature = "lua"))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn each_folder_that_links_lead_through_is_examined() {
        let folder = |mode| {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            fs::write(folder.path().join("module.lua"), "").unwrap();
            folder
        };
        let (base, private, open) = (folder(0o755), folder(0o755), folder(0o777));
        let [in_base, in_private, in_open] =
            [&base, &private, &open].map(|folder| move |name: &str| folder.path().join(name));
        symlink(in_private("module.lua"), in_base("private.lua")).unwrap();
        symlink(in_open("module.lua"), in_base("open.lua")).unwrap();
        // The end is private, and others can turn the second link to another one.
        symlink(in_private("module.lua"), in_open("hop.lua")).unwrap();
        symlink(in_open("hop.lua"), in_base("hop.lua")).unwrap();
        symlink(private.path(), in_base("private")).unwrap();
        symlink(open.path(), in_base("open")).unwrap();
        symlink("loop.lua", in_base("loop.lua")).unwrap();
        symlink("./module.lua", in_base("beside.lua")).unwrap();
        let up = format!("../{}/module.lua", private.path().file_name().unwrap().to_str().unwrap());
        for (below, shared) in [
            ("module.lua", false),
            ("./module.lua", false),
            ("beside.lua", false),
            ("private.lua", false),
            ("private/module.lua", false),
            (up.as_str(), false),
            ("open.lua", true),
            ("open/module.lua", true),
            ("open/hop.lua", true),
            ("hop.lua", true),
            ("loop.lua", true),
            ("none.lua", true),
        ] {
            assert_eq!(is_end_shared(base.path(), Path::new(below), None), shared, "{below}");
        }
        fs::set_permissions(private.path().join("module.lua"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(is_end_shared(base.path(), Path::new("private.lua"), None));
    }
}
