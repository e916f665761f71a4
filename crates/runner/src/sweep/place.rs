//! File system of a sweep's files, and whether a direct read of them bypasses the page cache.
//!
//! `open(2)` with `O_DIRECT` succeeds on file systems without a device to read: tmpfs accepts it since Linux
//! 6.6 and reads memory. So the flag's success proves nothing. The test is whether a read leaves the file's
//! pages in memory.
//!
//! That test covers only the page cache of this system. A file system with another cache (ZFS, a file
//! server), or a device in memory or on a file, passes it and still reads memory: such places are recognized
//! by name.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{SysconfVar, sysconf};
use record::missing::{Maybe, Missing};

/// Number of bytes of a file that the test reads.
const TESTED_BYTES: u64 = 1 << 20;
/// Maximum share of the pages that may be in memory after a direct read: readahead of other processes, a page
/// at the end.
const RESIDENT_MAX: f64 = 0.1;

/// Returns facts about the folder: `data.file_system` and `data.device`.
pub(crate) fn facts(folder: &Path) -> BTreeMap<String, Maybe<String>> {
    let mount = fs::canonicalize(folder)
        .and_then(|folder| Ok((folder, fs::read_to_string("/proc/self/mountinfo")?)))
        .map_err(|e| Missing::because(e.to_string()))
        .and_then(|(folder, text)| {
            mount_of(&folder, &text)
                .ok_or_else(|| Missing::because("no mount in /proc/self/mountinfo contains it"))
        });
    BTreeMap::from([
        ("data.file_system".to_owned(), mount.clone().map(|(kind, _)| kind)),
        ("data.device".to_owned(), mount.map(|(_, device)| device)),
    ])
}

/// Layer below the page cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Below {
    /// A disk's file system on a block device.
    Device,
    /// Another cache, with the reason.
    Cache(String),
    /// Unknown, with the reason.
    Unknown(String),
}

/// File systems on block devices that pass direct reads to the device.
const ON_DEVICES: [&str; 12] =
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "nilfs2", "gfs2", "ocfs2", "bcachefs", "vfat"];
/// File systems that have a separate cache, or read from another program or machine.
const WITH_CACHES: [&str; 11] =
    ["zfs", "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "tmpfs", "ramfs", "squashfs"];

/// Returns the layer below the page cache in `folder`.
pub(super) fn below(folder: &Path) -> Below {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match fs::canonicalize(folder) {
        Ok(folder) => below_of(&folder, &mounts, Path::new("/sys/block"), 0),
        Err(e) => Below::Unknown(e.to_string()),
    }
}

/// Returns the layer below the page cache.
///
/// - `depth`: number of loop devices passed so far.
fn below_of(folder: &Path, mountinfo: &str, sys_block: &Path, depth: u32) -> Below {
    let Some((kind, device)) = mount_of(folder, mountinfo) else {
        return Below::Unknown("no mount in /proc/self/mountinfo contains it".to_owned());
    };
    if WITH_CACHES.contains(&kind.as_str())
        || kind == "fuse"
        || kind == "fuseblk"
        || kind.starts_with("fuse.")
    {
        return Below::Cache(format!(
            "{kind} has its own cache, or another program or machine reads the file"
        ));
    }
    let name = device.rsplit('/').next().unwrap_or_default();
    if ["ram", "zram", "pmem"].iter().any(|memory| is_numbered(name, memory)) {
        return Below::Cache(format!("{device} stores its data in memory"));
    }
    if is_numbered(name, "loop") {
        let number: String = name[4..].chars().take_while(char::is_ascii_digit).collect();
        let disk = format!("loop{number}");
        let of_loop = |file: &str| fs::read_to_string(sys_block.join(&disk).join("loop").join(file));
        return match (of_loop("dio"), of_loop("backing_file")) {
            (Ok(dio), _) if dio.trim() == "0" => {
                Below::Cache(format!("{device} reads its file through the page cache (losetup --direct-io)"))
            }
            (Ok(_), Ok(file)) if depth < 8 => {
                below_of(Path::new(file.trim_end_matches('\n')), mountinfo, sys_block, depth + 1)
            }
            _ => Below::Unknown(format!("the storage behind {device} is unknown")),
        };
    }
    if ON_DEVICES.contains(&kind.as_str()) {
        return Below::Device;
    }
    Below::Unknown(format!("the storage behind {kind} is unknown"))
}

/// Matches `loop7`, `loop7p1`, `ram0`.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns type and device of the last mount with the longest path above `folder`.
fn mount_of(folder: &Path, mountinfo: &str) -> Option<(String, String)> {
    let one = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?.replace("\\040", " ");
        let mut after = after.split(' ');
        let (kind, device) = (after.next()?.to_owned(), after.next()?.to_owned());
        folder.starts_with(&at).then_some((at.len(), (kind, device)))
    };
    mountinfo.lines().filter_map(one).max_by_key(|(length, _)| *length).map(|(_, found)| found)
}

/// Whether a direct read of the file bypasses the page cache.
///
/// # Errors
///
/// Missing if this is unknown: the system refuses the flag, or the file's pages never leave memory.
pub(super) fn is_direct(file: &File) -> Maybe<bool> {
    let why = |what: &str, e: io::Error| Missing::because(format!("{what}: {e}"));
    let bytes = file.metadata().map_err(|e| why("the file's size", e))?.len().min(TESTED_BYTES);
    let page = page_bytes();
    let bytes = bytes - bytes % page as u64;
    let length = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
    let Some(length) = length else { return Err(Missing::because("the file is shorter than a page")) };
    file.sync_all().map_err(|e| why("fsync", e))?;
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|e| why("fadvise", e.into()))?;
    if resident(file, length).map_err(|e| why("mincore", e))? > RESIDENT_MAX {
        return Err(Missing::because(
            "its pages never leave memory: this file system stores files in memory",
        ));
    }
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|e| why("O_DIRECT is refused", e))?;
    let mut memory = vec![0_u8; length.get() + page];
    let begin = memory.as_ptr().align_offset(page);
    direct.read_exact_at(&mut memory[begin..begin + length.get()], 0).map_err(|e| why("a direct read", e))?;
    Ok(resident(file, length).map_err(|e| why("mincore", e))? <= RESIDENT_MAX)
}

/// Size of the kernel's pages: 4 KiB on x86; 4, 16 or 64 KiB on Arm.
fn page_bytes() -> usize {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).expect("every system has a page size")
}

/// Returns the share of the file's first pages that are in memory.
fn resident(file: &File, length: NonZeroUsize) -> io::Result<f64> {
    // SAFETY: a new mapping at an address that the kernel chooses; it is private to this function, which
    // unmaps it below.
    let at = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file, 0) }?;
    let mut pages = vec![0_u8; length.get().div_ceil(page_bytes())];
    // SAFETY: the range is the mapping's, and the vector has a byte for each of its pages.
    let answered = unsafe { libc::mincore(at.as_ptr(), length.get(), pages.as_mut_ptr()) };
    let failed = (answered != 0).then(io::Error::last_os_error);
    // SAFETY: it was mapped above with this length, and no reference into it exists.
    unsafe { munmap(at, length.get()) }?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    Ok(pages.iter().filter(|page| **page & 1 == 1).count() as f64 / pages.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_longest_mount_above_a_folder_is_its_own() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /dev/shm rw shared:1 - tmpfs shm rw\n\
                    3 1 0:9 / /mnt/a\\040b rw - xfs /dev/sdb rw\n";
        let of = |folder: &str| mount_of(Path::new(folder), text).unwrap();
        assert_eq!(of("/dev/shm/x"), ("tmpfs".into(), "shm".into()));
        assert_eq!(of("/dev/shmx"), ("ext4".into(), "/dev/sda1".into()));
        assert_eq!(of("/mnt/a b"), ("xfs".into(), "/dev/sdb".into()));
    }

    #[test]
    fn what_has_a_cache_below_the_page_cache_is_not_direct() {
        let sys = tempfile::tempdir().unwrap();
        for (disk, dio, file) in
            [("loop0", "1", "/images/disk"), ("loop1", "0", "/images/disk"), ("loop2", "1", "/shm/disk")]
        {
            let folder = sys.path().join(disk).join("loop");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("dio"), format!("{dio}\n")).unwrap();
            fs::write(folder.join("backing_file"), format!("{file}\n")).unwrap();
        }
        let below = |kind: &str, device: &str| {
            let text = format!(
                "1 0 8:1 / / rw - xfs /dev/vda rw\n2 1 0:5 / /shm rw - tmpfs shm rw\n3 1 0:9 / /data rw shared:1 - {kind} {device} rw\n"
            );
            below_of(Path::new("/data/x"), &text, sys.path(), 0)
        };
        for (kind, device) in [
            ("ext4", "/dev/vda1"),
            ("btrfs", "/dev/mapper/a"),
            ("ext4", "/dev/loop0p1"),
            ("xfs", "/dev/root"),
        ] {
            assert_eq!(below(kind, device), Below::Device, "{kind} on {device}");
        }
        for (kind, device) in [
            ("zfs", "tank/data"),
            ("fuse.sshfs", "host:/"),
            ("fuseblk", "/dev/vdb"),
            ("virtiofs", "share"),
            ("nfs4", "host:/"),
            ("ext4", "/dev/loop1"),
            ("ext4", "/dev/loop2"),
            ("ext4", "/dev/ram0"),
            ("xfs", "/dev/zram1"),
        ] {
            assert!(matches!(below(kind, device), Below::Cache(_)), "{kind} on {device}");
        }
        for (kind, device) in [("overlay", "overlay"), ("somefs", "/dev/vdb"), ("ext4", "/dev/loop9")] {
            assert!(matches!(below(kind, device), Below::Unknown(_)), "{kind} on {device}");
        }
    }

    #[test]
    fn what_reads_memory_is_not_direct() {
        let shm = Path::new("/dev/shm");
        if !facts(shm)["data.file_system"].as_ref().is_ok_and(|kind| kind == "tmpfs") {
            return eprintln!("skipped: /dev/shm is no tmpfs here");
        }
        let mut file = tempfile::tempfile_in(shm).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let why = is_direct(&file).unwrap_err();
        assert!(why.reason.contains("never leave memory"), "{why}");
        // A file that is shorter than a page gives no result.
        assert!(is_direct(&tempfile::tempfile().unwrap()).is_err());
    }
}
