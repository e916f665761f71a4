//! Control groups of version 2: by the ids that programs in the kernel see, and by the paths that people use.
//!
//! Programs in the kernel cannot read an id of a version 1 group: on a machine with both versions, every
//! process is in one group of version 2 too, often in its root.

#[cfg(feature = "bpf")]
mod names;

use std::path::{Path, PathBuf};

use crate::limits;
#[cfg(feature = "bpf")]
pub(crate) use names::Names;

/// A group that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Folder of the group.
    pub folder: PathBuf,
    /// Path in the mounted hierarchy: `/system.slice/mariadb.service`.
    pub name: String,
}

/// Reason why a name is not a group that can be watched.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A version 2 hierarchy is not mounted.
    #[error(
        "no cgroup v2 hierarchy is mounted: mount one with `mount -t cgroup2 none DIR`, and move processes \
         into its groups by writing to `cgroup.procs`"
    )]
    NotMounted,
    /// The name is unknown.
    #[error("there is no control group `{name}` below {}", mount.display())]
    Unknown {
        /// Name as the user wrote it.
        name: String,
        /// Mount point of the hierarchy.
        mount: PathBuf,
    },
}

/// Finds the group of a path: as the file system shows it (`/sys/fs/cgroup/a/b`), or below the root of the
/// hierarchy (`a/b`).
///
/// # Errors
///
/// [`CgroupError`].
pub fn find(text: &str) -> Result<Cgroup, CgroupError> {
    let mount = mounted()?;
    let below = mount.join(text.trim_start_matches('/'));
    let as_shown = Path::new(text).canonicalize().ok().filter(|path| path.starts_with(&mount));
    let folder = as_shown.unwrap_or(below);
    // A path of `..` may lead out of the hierarchy.
    let folder = folder.canonicalize().ok().filter(|f| f.starts_with(&mount) && f.is_dir());
    let folder =
        folder.ok_or_else(|| CgroupError::Unknown { name: text.to_owned(), mount: mount.clone() })?;
    let name = name_below(&mount, &folder);
    Ok(Cgroup { folder, name })
}

/// Mount point of the hierarchy of version 2.
///
/// # Errors
///
/// [`CgroupError::NotMounted`].
pub fn mounted() -> Result<PathBuf, CgroupError> {
    let mounts = limits::mounts(Path::new("/"), "self").unwrap_or_default();
    let mount = mounts.into_iter().find(|mount| !mount.is_v1);
    mount.map(|mount| mount.at).ok_or(CgroupError::NotMounted)
}

impl Cgroup {
    /// Whether the group of that path is this one, or below it.
    pub fn holds(&self, name: &str) -> bool {
        Path::new(name).starts_with(&self.name)
    }
}

/// Whether this stands for a group of unknown name and place: see `Names::name`.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.starts_with("(cgroup ")
}

fn name_below(mount: &Path, folder: &Path) -> String {
    let below = folder.strip_prefix(mount).unwrap_or(folder);
    Path::new("/").join(below).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_holds_itself_and_what_is_below_it_and_no_namesake() {
        let group = Cgroup { folder: "/x".into(), name: "/a/b".into() };
        assert!(group.holds("/a/b") && group.holds("/a/b/c"));
        assert!(!group.holds("/a/bc") && !group.holds("/a") && !group.holds("(cgroup 7)"));
    }

    #[test]
    fn names_that_lead_out_of_the_hierarchy_are_unknown() {
        for name in ["../..", "no-such-group", "/etc"] {
            let error = find(name).unwrap_err();
            assert!(matches!(error, CgroupError::Unknown { .. } | CgroupError::NotMounted), "{error}");
        }
    }
}
