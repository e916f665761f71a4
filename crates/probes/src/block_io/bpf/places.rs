//! Devices that lie on each other: whether a request to one can be for a file on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::block_io::Device;

/// Maximum depth of a stack of devices.
const DEPTH_MAX: u32 = 16;

/// Answers of one reading, by the devices of the request and of the file.
#[derive(Debug)]
pub(super) struct Places {
    root: PathBuf,
    known: BTreeMap<(u32, u32), bool>,
}

impl Default for Places {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}

impl Places {
    /// - `root`: the folder that holds `sys`, `/` on a live machine.
    fn under(root: &Path) -> Self {
        Self { root: root.to_owned(), known: BTreeMap::new() }
    }

    /// Whether the device of a request holds data of a file system on the device `of_file`: it is the same
    /// one, contains it as a partition, or is below it.
    pub(super) fn holds(&mut self, of_request: u32, of_file: u32) -> bool {
        if of_request == of_file {
            return true;
        }
        let root = &self.root;
        *self.known.entry((of_request, of_file)).or_insert_with(|| lies_on(root, of_file, of_request))
    }
}

fn lies_on(root: &Path, upper: u32, lower: u32) -> bool {
    let all = root.join("sys/dev/block");
    let link = |number: u32| {
        let Device { major, minor } = Device::from_number(number);
        all.join(format!("{major}:{minor}"))
    };
    let Ok(upper) = fs::canonicalize(link(upper)) else { return false };
    let mut below = BTreeSet::new();
    collect(&upper, 0, &mut below);
    match fs::canonicalize(link(lower)) {
        Ok(lower) => below.contains(&lower),
        // A path of a multipath NVMe device has no number there.
        Err(_) => below.iter().any(|place| name(place).starts_with("nvme")),
    }
}

/// Adds a device, the whole one if it is a partition, and those below it.
fn collect(place: &Path, depth: u32, below: &mut BTreeSet<PathBuf>) {
    let whole = if place.join("partition").exists() { place.parent().unwrap_or(place) } else { place };
    if depth > DEPTH_MAX || !below.insert(whole.to_owned()) {
        return;
    }
    for slave in fs::read_dir(place.join("slaves")).into_iter().flatten().flatten() {
        if let Ok(slave) = fs::canonicalize(slave.path()) {
            collect(&slave, depth + 1, below);
        }
    }
}

fn name(place: &Path) -> String {
    place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// vda with a partition, sdb, dm-0 on both, md1 on dm-0, and a multipath `NVMe` device.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("sys/devices");
        fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        for (path, number, slaves) in [
            ("vda", "254:0", &[][..]),
            ("vda/vda1", "254:1", &[]),
            ("sdb", "8:16", &[]),
            ("dm-0", "252:0", &["vda/vda1", "sdb"]),
            ("md1", "9:1", &["dm-0"]),
            ("nvme0n1", "259:0", &[]),
        ] {
            let place = devices.join(path);
            fs::create_dir_all(place.join("slaves")).unwrap();
            if path.contains('/') {
                fs::write(place.join("partition"), "1").unwrap();
            }
            for slave in slaves {
                symlink(devices.join(slave), place.join("slaves").join(slave.replace('/', "-"))).unwrap();
            }
            symlink(&place, root.path().join("sys/dev/block").join(number)).unwrap();
        }
        root
    }

    #[test]
    fn a_file_is_on_its_device_and_on_all_below_it_and_on_no_other() {
        let root = machine();
        let number = |major: u32, minor: u32| Device { major, minor }.number();
        let [vda, vda1, sdb, dm, md, nvme, gone] =
            [(254, 0), (254, 1), (8, 16), (252, 0), (9, 1), (259, 0), (259, 7)].map(|(a, b)| number(a, b));
        let mut places = Places::under(root.path());
        for (of_request, of_file) in
            [(vda, vda), (vda, vda1), (vda, dm), (sdb, dm), (dm, md), (vda, md), (gone, nvme)]
        {
            assert!(places.holds(of_request, of_file), "{of_request:x} {of_file:x}");
        }
        for (of_request, of_file) in [
            (vda, sdb),
            (sdb, vda1),
            (dm, vda),
            (nvme, vda1),
            (gone, vda1),
            (vda, gone),
            (vda, number(0, 42)),
        ] {
            assert!(!places.holds(of_request, of_file), "{of_request:x} {of_file:x}");
        }
    }
}
