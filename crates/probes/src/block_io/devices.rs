//! Block devices by name: the kernel's names, and the aliases that survive a reboot.

use std::collections::BTreeMap;
#[cfg(feature = "bpf")]
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A whole device, by the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// The driver's number.
    pub major: u32,
    /// The device's number with that driver.
    pub minor: u32,
}

/// Reason why the requests of a named device cannot be seen.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The name is unknown.
    #[error("there is no block device `{name}`; `ls /sys/block` lists them")]
    Unknown {
        /// Name as the user wrote it.
        name: String,
    },
    /// The device is a partition.
    #[error("`{name}` is a partition: requests are traced on the whole device, `{whole}`")]
    Partition {
        /// Name as the user wrote it.
        name: String,
        /// Device that contains the partition.
        whole: String,
    },
    /// The device handles I/O without requests.
    #[error("`{name}` handles I/O without requests to trace: {}", instead(below))]
    NoRequests {
        /// Name as the user wrote it.
        name: String,
        /// Devices that it passes its input and output on to, if the kernel lists them.
        below: Vec<String>,
    },
}

fn instead(below: &[String]) -> String {
    match below {
        [] => "leave out --dev to see the requests of devices below it, if there are any".to_owned(),
        below => format!("it passes the I/O on, so watch {}", below.join(" and ")),
    }
}

impl Device {
    /// Current name in the kernel: `nvme0n1`; `7:3` if the device is gone.
    pub fn name(self) -> String {
        let link = format!("/sys/dev/block/{}:{}", self.major, self.minor);
        let name = fs::read_link(link).ok().and_then(|to| Some(to.file_name()?.to_str()?.to_owned()));
        name.unwrap_or_else(|| format!("{}:{}", self.major, self.minor))
    }
}

/// Finds a device by a name such as `sda`, `/dev/nvme0n1`, `/dev/disk/by-id/...`, the end of one of those, or
/// `8:0`.
///
/// # Errors
///
/// [`DeviceError`]
pub fn find(name: &str) -> Result<Device, DeviceError> {
    let unknown = || DeviceError::Unknown { name: name.to_owned() };
    let device = numbered(name)
        .or_else(|| named(name))
        .or_else(|| special(Path::new(name)))
        .or_else(|| special(&Path::new("/dev").join(name)))
        .or_else(|| special(&Path::new(BY_ID).join(name)))
        .ok_or_else(unknown)?;
    let place = fs::canonicalize(format!("/sys/dev/block/{}:{}", device.major, device.minor));
    let place = place.map_err(|_| unknown())?;
    if place.join("partition").exists() {
        let whole = place.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
        return Err(DeviceError::Partition { name: name.to_owned(), whole: whole.unwrap_or_default() });
    }
    // Requests have their queues there; a device without them passes I/O on, or completes it at once.
    if !place.join("mq").exists() {
        return Err(DeviceError::NoRequests { name: name.to_owned(), below: below(&place) });
    }
    Ok(device)
}

/// Devices with requests that a device passes its input and output on to.
fn below(place: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for slave in fs::read_dir(place.join("slaves")).into_iter().flatten().flatten() {
        let Ok(mut slave) = fs::canonicalize(slave.path()) else { continue };
        if slave.join("partition").exists() {
            slave.pop();
        }
        if slave.join("mq").exists() {
            names.extend(slave.file_name().map(|name| name.to_string_lossy().into_owned()));
        } else {
            names.extend(below(&slave));
        }
    }
    names.sort();
    names.dedup();
    names
}

const BY_ID: &str = "/dev/disk/by-id";

/// Devices that do not report the end of a request to `block_io_done`: the kernel does so only for requests
/// that it times, for statistics, for a scheduler, or for the throttling of write-back.
///
/// - `root`: the folder that holds `sys`.
/// - `only`: the only device in question; all by default.
#[cfg(feature = "bpf")]
pub(super) fn silent(root: &Path, only: Option<Device>) -> BTreeSet<String> {
    let entries = fs::read_dir(root.join("sys/block")).into_iter().flatten().flatten();
    let is_silent = |place: &Path| {
        let text = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
        let is_in_use = text("size").trim() != "0" && place.join("mq").exists();
        let is_wanted = only.is_none() || numbered(&text("dev")) == only;
        let scheduler = text("queue/scheduler");
        let has_scheduler = !scheduler.contains("[none]") && scheduler.trim() != "none";
        // Readable only if write-back is throttled on this device, at present or earlier.
        let is_timed = has_scheduler || !text("queue/wbt_lat_usec").is_empty();
        is_in_use && is_wanted && text("queue/iostats").trim() == "0" && !is_timed
    };
    let found = entries.filter(|entry| is_silent(&entry.path()));
    found.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Sentence on such a device.
#[cfg(feature = "bpf")]
pub(super) fn silent_words(name: &str) -> String {
    format!(
        "requests to {name} are missing: it keeps no statistics (/sys/block/{name}/queue/iostats is 0), and \
         without these, a scheduler and the throttling of write-back, the kernel reports no end of a request: \
         write 1 there, or use `--latency issue`"
    )
}

/// Names in `/dev/disk/by-id`, by the device's name: they stay the same when the kernel numbers devices anew.
pub fn aliases() -> BTreeMap<String, Vec<String>> {
    let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(BY_ID).into_iter().flatten().flatten() {
        let target = fs::canonicalize(entry.path()).ok();
        let device = target.and_then(|t: PathBuf| Some(t.file_name()?.to_str()?.to_owned()));
        if let (Some(device), Ok(alias)) = (device, entry.file_name().into_string()) {
            aliases.entry(device).or_default().push(alias);
        }
    }
    // The model and serial number on the device read better than its WWN or EUI.
    for names in aliases.values_mut() {
        names.sort_by_key(|n| (n.starts_with("wwn-") || n.starts_with("nvme-eui."), n.clone()));
    }
    aliases
}

fn numbered(text: &str) -> Option<Device> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

fn named(name: &str) -> Option<Device> {
    if name.contains('/') {
        return None;
    }
    numbered(&fs::read_to_string(format!("/sys/class/block/{name}/dev")).ok()?)
}

fn special(path: &Path) -> Option<Device> {
    let metadata = fs::metadata(path).ok()?;
    let number = metadata.rdev();
    let of = |part: u64| u32::try_from(part).expect("12 and 20 bits");
    let device =
        Device { major: of(nix::libc::major(number).into()), minor: of(nix::libc::minor(number).into()) };
    metadata.file_type().is_block_device().then_some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_device_and_a_name_is_no_number() {
        assert_eq!(numbered("8:16\n"), Some(Device { major: 8, minor: 16 }));
        assert_eq!(numbered("sda"), None);
    }

    #[test]
    fn what_is_no_device_is_refused_by_name() {
        let error = find("no-such-disk").unwrap_err();
        assert!(error.to_string().contains("no-such-disk"), "{error}");
        assert!(find("/etc/passwd").is_err());
        assert!(find("4000:1").is_err());
    }

    #[test]
    fn every_device_is_found_by_its_names_and_a_partition_names_its_whole() {
        for entry in fs::read_dir("/sys/class/block").into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            match find(&name) {
                Ok(device) => {
                    assert_eq!(device.name(), name);
                    assert!(Path::new("/sys/class/block").join(&name).join("mq").exists(), "{name}");
                }
                Err(DeviceError::Partition { whole, .. }) => assert!(name.starts_with(&whole), "{name}"),
                Err(DeviceError::NoRequests { .. }) => {
                    assert!(!Path::new("/sys/class/block").join(&name).join("mq").exists(), "{name}");
                }
                // The device may have gone meanwhile.
                Err(DeviceError::Unknown { .. }) => {}
            }
        }
    }

    #[cfg(feature = "bpf")]
    #[test]
    fn only_a_device_whose_requests_the_kernel_does_not_time_is_silent() {
        let root = tempfile::tempdir().unwrap();
        let device = |name: &str, number: &str, files: &[(&str, &str)]| {
            let place = root.path().join("sys/block").join(name);
            fs::create_dir_all(place.join("queue")).unwrap();
            fs::create_dir_all(place.join("mq")).unwrap();
            let usual =
                [("size", "8"), ("dev", number), ("queue/iostats", "1"), ("queue/scheduler", "[none] bfq")];
            for (file, text) in usual.iter().chain(files) {
                fs::write(place.join(file), format!("{text}\n")).unwrap();
            }
        };
        let off = ("queue/iostats", "0");
        device("counts", "8:0", &[]);
        device("silent", "8:16", &[off]);
        device("old", "8:32", &[off, ("queue/scheduler", "none")]);
        device("scheduled", "8:48", &[off, ("queue/scheduler", "none [mq-deadline]")]);
        device("throttles", "8:64", &[off, ("queue/wbt_lat_usec", "0")]);
        device("empty", "8:80", &[off, ("size", "0")]);
        let found = |only| silent(root.path(), only).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(found(None), "old silent");
        assert_eq!(found(Some(Device { major: 8, minor: 16 })), "silent");
        assert_eq!(found(Some(Device { major: 8, minor: 0 })), "");
        assert!(silent_words("silent").contains("/sys/block/silent/queue/iostats"));
    }
}
