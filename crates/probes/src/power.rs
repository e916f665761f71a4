//! Energy of processors and their memory, by the processor's counters (RAPL).
//!
//! *Traces* nothing: reads `/sys/class/powercap/intel-rapl:*` at the edges of intervals; AMD's counters have
//! that name too. *Yields* energy (J) and mean power (W) of each processor package, and of its memory if it
//! has a counter for it. *Differs from* a meter at the plug, which includes disks, fans, power supplies and
//! graphics cards; most processors measure, some estimate. *Blind to* the consumer of the energy; to its
//! distribution over an interval; to most virtual machines, which have no counters. A counter is updated
//! about once in a millisecond: over 100 ms an edge is off by up to 1 %. *Costs* a read of a register by the
//! package for each zone at each edge. Not measured: no machine with such counters was at hand.

pub(crate) mod observe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};
use record::power::EnergySample;

/// Reads the counters from [`open`] on.
#[derive(Debug)]
pub struct PowerProbe {
    root: PathBuf,
    last: Edge,
}

/// The zones by name at an edge.
type Edge = BTreeMap<String, Reading>;

/// A counter at an edge.
#[derive(Debug, Clone, PartialEq)]
struct Reading {
    at_ns: u64,
    energy_uj: Maybe<u64>,
    /// Value at which the counter wraps to 0.
    range_uj: Option<u64>,
}

/// Assumed maximum power of a package. An interval in which the counter could have wrapped at this power has
/// no result.
const POWER_W_MAX: f64 = 1_000.0;

/// The kernel updates a counter about every millisecond, so a short interval may hold the energy of a longer
/// one.
const READING_S: f64 = 0.1;

/// Finds the counters.
///
/// - `root`: the folder that holds `sys`, `/` on a live machine.
///
/// # Errors
///
/// Missing if there is no counter, or no readable one: the reason is a clause with a remedy.
pub fn open(root: &Path) -> Maybe<PowerProbe> {
    let last = edge(root);
    if last.is_empty() {
        return Err(Missing::because(
            "the kernel lists no counters (/sys/class/powercap/intel-rapl:*); most virtual machines and containers have none",
        ));
    }
    if let Some(why) = last.values().find_map(|reading| reading.energy_uj.clone().err())
        && last.values().all(|reading| reading.energy_uj.is_err())
    {
        return Err(why);
    }
    Ok(PowerProbe { root: root.to_owned(), last })
}

impl PowerProbe {
    /// Starts the first interval.
    pub fn start(&mut self) {
        self.last = edge(&self.root);
    }

    /// Energy of each zone since the last reading, or since the start, by name.
    pub fn read(&mut self) -> Vec<EnergySample> {
        let now = edge(&self.root);
        let before = std::mem::replace(&mut self.last, now);
        let names = before.keys().chain(self.last.keys().filter(|name| !before.contains_key(*name)));
        names.map(|name| sample(name, before.get(name), self.last.get(name))).collect()
    }
}

fn edge(root: &Path) -> Edge {
    let all = root.join("sys/class/powercap");
    let entries = fs::read_dir(&all).into_iter().flatten().flatten();
    let folders =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|n| n.starts_with("intel-rapl:")));
    folders.filter_map(|folder| Some((zone(&folder.path())?, reading(&folder.path())))).collect()
}

/// Name of a package, or of its memory; `None` for parts of a package, and for the whole machine.
fn zone(folder: &Path) -> Option<String> {
    let name = |folder: &Path| Some(fs::read_to_string(folder.join("name")).ok()?.trim().to_owned());
    let own = name(folder)?;
    if own.starts_with("package") {
        return Some(own);
    }
    // intel-rapl:0:1 is a part of intel-rapl:0.
    let (package, _) = folder.to_str()?.rsplit_once(':')?;
    (own == "dram").then(|| Some(format!("{}/dram", name(Path::new(package))?)))?
}

fn reading(folder: &Path) -> Reading {
    let number = |file: &str| -> io::Result<u64> {
        let text = fs::read_to_string(folder.join(file))?;
        text.trim().parse().map_err(|_| io::Error::other(format!("`{}` is not a number", text.trim())))
    };
    let refused = |e: io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            Missing::because("energy counters can be read by root only: run it with sudo")
        }
        _ => Missing::because(format!("an energy counter cannot be read: {e}")),
    };
    Reading {
        energy_uj: number("energy_uj").map_err(refused),
        at_ns: Monotonic.now_ns(),
        range_uj: number("max_energy_range_uj").ok(),
    }
}

fn sample(zone: &str, before: Option<&Reading>, after: Option<&Reading>) -> EnergySample {
    let (energy_j, length_ns) = match (before, after) {
        (Some(before), Some(after)) => (energy_j(before, after), after.at_ns.saturating_sub(before.at_ns)),
        (Some(_), None) => (Err(Missing::because("its counter disappeared in the interval")), 0),
        (None, _) => (Err(Missing::because("its counter appeared in the interval")), 0),
    };
    EnergySample { zone: zone.to_owned(), energy_j, length_ns }
}

fn energy_j(before: &Reading, after: &Reading) -> Maybe<f64> {
    let (began, ended) = (before.energy_uj.clone()?, after.energy_uj.clone()?);
    let joules = |uj: u64| uj as f64 * 1e-6;
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 * 1e-9;
    if let Some(range_uj) = after.range_uj
        && seconds * POWER_W_MAX >= joules(range_uj)
    {
        let longest = (joules(range_uj) / POWER_W_MAX).floor();
        return Err(Missing::because(format!(
            "its counter may have wrapped more than once: take intervals under {longest:.0} s"
        )));
    }
    let found = match (ended.checked_sub(began), after.range_uj) {
        (Some(grown), _) => joules(grown),
        (None, Some(range_uj)) if began <= range_uj => joules(range_uj - began + ended),
        (None, _) => return Err(Missing::because("its counter went back")),
    };
    // A counter that was reset, as after a suspend or in a restored virtual machine, looks like one that
    // wrapped.
    if found > seconds.max(READING_S) * POWER_W_MAX {
        return Err(Missing::because("its counter restarted"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use nix::unistd::{Uid, geteuid, setfsuid};
    use tempfile::TempDir;

    use super::*;

    /// A folder that looks like the kernel's: a package, its cores and memory, and the platform.
    fn machine() -> TempDir {
        let root = TempDir::new().unwrap();
        for (zone, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ] {
            set(&root, zone, "name", name);
            set(&root, zone, "max_energy_range_uj", "262143328850");
            set(&root, zone, "energy_uj", "5000000");
        }
        fs::create_dir(root.path().join("sys/class/powercap/intel-rapl")).unwrap();
        root
    }

    fn set(root: &TempDir, zone: &str, file: &str, value: &str) {
        let folder = root.path().join("sys/class/powercap").join(zone);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), format!("{value}\n")).unwrap();
    }

    fn energies(samples: &[EnergySample]) -> Vec<(&str, Result<f64, String>)> {
        samples.iter().map(|s| (s.zone.as_str(), s.energy_j.clone().map_err(|why| why.reason))).collect()
    }

    #[test]
    fn packages_and_their_memory_have_energy_and_parts_of_a_package_count_once() {
        let root = machine();
        let mut probe = open(root.path()).unwrap();
        set(&root, "intel-rapl:0", "energy_uj", "25500000");
        set(&root, "intel-rapl:0:0", "energy_uj", "99000000");
        set(&root, "intel-rapl:0:1", "energy_uj", "6000000");
        let samples = probe.read();
        assert_eq!(energies(&samples), [("package-0", Ok(20.5)), ("package-0/dram", Ok(1.0))]);
        let of_a_second = EnergySample { length_ns: 1_000_000_000, ..samples[0].clone() };
        assert_eq!(of_a_second.power_w(), Ok(20.5));
        assert_eq!(energies(&probe.read()), [("package-0", Ok(0.0)), ("package-0/dram", Ok(0.0))]);
    }

    #[test]
    fn a_counter_goes_round_once_and_what_may_have_gone_round_twice_is_missing() {
        let reading = |at_s: u64, energy_uj: u64, range_uj| Reading {
            at_ns: at_s * 1_000_000_000,
            energy_uj: Ok(energy_uj),
            range_uj,
        };
        let range = Some(65_532_610_987);
        let round = energy_j(&reading(0, 65_532_610_000, range), &reading(10, 999_013, range));
        assert!((round.unwrap() - 1.0).abs() < 1e-9);
        // At 1 kW, 65 kJ pass in 65 s: the reading is the same as after 0 J.
        let long = energy_j(&reading(0, 5, range), &reading(66, 6, range));
        assert!(long.unwrap_err().reason.contains("intervals under 65 s"));
        assert!(energy_j(&reading(0, 5, range), &reading(65, 6, range)).is_ok());
        for range in [None, Some(3)] {
            assert!(energy_j(&reading(0, 5, range), &reading(0, 4, range)).is_err());
        }
        // A suspend reset it: no wrap explains 262 kJ in a second.
        let range = Some(262_143_328_850);
        let anew = energy_j(&reading(0, 5_000_000, range), &reading(1, 1_000_000, range));
        assert!(anew.unwrap_err().reason.contains("restarted"));
    }

    #[test]
    fn a_zone_that_goes_or_comes_says_so_and_the_others_go_on() {
        let root = machine();
        let mut probe = open(root.path()).unwrap();
        fs::remove_dir_all(root.path().join("sys/class/powercap/intel-rapl:0:1")).unwrap();
        let seen = probe.read();
        assert_eq!(seen[0].energy_j, Ok(0.0));
        assert!(seen[1].energy_j.as_ref().unwrap_err().reason.contains("disappeared"), "{seen:?}");
        assert!(seen[1].power_w().is_err());
        assert_eq!(probe.read().len(), 1);
        set(&root, "intel-rapl:0:1", "name", "dram");
        set(&root, "intel-rapl:0:1", "energy_uj", "nonsense");
        assert!(probe.read()[1].energy_j.as_ref().unwrap_err().reason.contains("appeared in"));
        assert!(probe.read()[1].energy_j.as_ref().unwrap_err().reason.contains("`nonsense` is not a number"));
    }

    #[test]
    fn root_counters_that_only_root_may_read_are_missing_for_others() {
        if !geteuid().is_root() {
            return eprintln!("skipped: only root can make what others may not read");
        }
        let root = machine();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let mut folder = root.path().to_owned();
        mode(&folder, 0o755);
        for name in ["sys", "class", "powercap"] {
            folder.push(name);
            mode(&folder, 0o755);
        }
        for zone in std::fs::read_dir(&folder).unwrap() {
            let zone = zone.unwrap().path();
            mode(&zone, 0o755);
            for file in std::fs::read_dir(&zone).unwrap() {
                mode(&file.unwrap().path(), 0o644);
            }
        }
        let counter = |zone: &str| root.path().join("sys/class/powercap").join(zone).join("energy_uj");
        mode(&counter("intel-rapl:0"), 0o400);
        // Drops the capabilities of this thread alone.
        let as_nobody = |what: &mut dyn FnMut()| {
            setfsuid(Uid::from_raw(65_534));
            what();
            setfsuid(Uid::from_raw(0));
        };
        let mut may_enter = false;
        as_nobody(&mut || may_enter = fs::read_dir(&folder).is_ok());
        if !may_enter {
            return eprintln!("skipped: others may not enter the folder of temporary files");
        }
        let mut seen = Vec::new();
        as_nobody(&mut || seen = open(root.path()).unwrap().read());
        assert!(seen[0].energy_j.as_ref().unwrap_err().reason.contains("by root only"), "{seen:?}");
        assert_eq!(seen[1].energy_j, Ok(0.0));
        mode(&counter("intel-rapl:0:1"), 0o400);
        let mut opened = Ok(());
        as_nobody(&mut || opened = open(root.path()).map(drop));
        assert!(opened.unwrap_err().reason.contains("run it with sudo"));
        assert!(open(root.path()).is_ok());
    }

    #[test]
    fn a_machine_without_counters_says_so() {
        let why = open(TempDir::new().unwrap().path()).unwrap_err();
        assert!(why.reason.contains("lists no counters"), "{why}");
    }
}
