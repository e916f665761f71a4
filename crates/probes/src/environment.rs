//! The machine as named facts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use record::environment::Environment;
use record::missing::{Maybe, Missing};

use crate::cpu_list;

/// Reads every fact that an ordinary user may read.
///
/// `root`: the folder that holds `proc`, `sys` and `etc`, `/` on a live machine. Nothing is measured and no
/// other program runs; an unreadable fact is missing with its reason.
pub fn read(root: &Path) -> Environment {
    let files = Files { root };
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Maybe<String>| facts.insert(name.to_owned(), value);

    for (name, path) in ONE_LINE_FILES {
        add(name, files.line(path));
    }
    for (name, path) in CHOICES {
        add(name, files.line(path).and_then(|line| chosen(&line)));
    }
    let cpu_info = files.text("proc/cpuinfo");
    add("cpu.model", cpu_info.clone().and_then(|t| cpu_model(&t)));
    add("virtualization", virtualization(&files, &cpu_info));
    add("cpu.count", cpu_list::online(root).map(|c| c.len().to_string()).ok_or_else(no_cpus));
    for (name, file) in [("cpu.sockets", "physical_package_id"), ("cpu.cores", "core_cpus_list")] {
        add(name, distinct_over_cpus(&files, root, file));
    }
    add("memory.bytes", files.text("proc/meminfo").and_then(|t| memory_bytes(&t)));
    add("os.name", files.text("etc/os-release").and_then(|t| os_name(&t)));
    add("numa.nodes", files.line("sys/devices/system/node/online").and_then(|l| count_of(&l)));
    add("cpu.tlb", cpu_info.clone().and_then(|t| tlb(&t)));
    add("cpu.clock_mhz", clock_mhz(&files, &cpu_info));
    for (name, value) in caches(&files, root) {
        add(&name, Ok(value));
    }
    for (name, value) in distances(&files) {
        add(&name, Ok(value));
    }
    for (name, value) in mitigations(&files) {
        add(&name, Ok(value));
    }
    Environment { facts, calibration: Vec::new() }
}

/// Facts that are one line of one file.
const ONE_LINE_FILES: [(&str, &str); 15] = [
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpu.boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("cpu.frequency.max_khz", "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
    ("cpu.governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("cpu.idle.governor", "sys/devices/system/cpu/cpuidle/current_governor"),
    ("cpu.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu.online", "sys/devices/system/cpu/online"),
    ("cpu.smt", "sys/devices/system/cpu/smt/control"),
    ("host.name", "proc/sys/kernel/hostname"),
    ("kernel.cmdline", "proc/cmdline"),
    ("kernel.release", "proc/sys/kernel/osrelease"),
    ("kernel.version", "proc/sys/kernel/version"),
    ("kernel.randomize_va_space", "proc/sys/kernel/randomize_va_space"),
    ("memory.overcommit", "proc/sys/vm/overcommit_memory"),
    ("memory.swappiness", "proc/sys/vm/swappiness"),
];

/// Facts that are one of several words, the one in brackets.
const CHOICES: [(&str, &str); 2] = [
    ("memory.thp", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("memory.thp.defrag", "sys/kernel/mm/transparent_hugepage/defrag"),
];

struct Files<'a> {
    root: &'a Path,
}

impl Files<'_> {
    fn text(&self, path: &str) -> Maybe<String> {
        fs::read_to_string(self.root.join(path)).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Missing::because(format!("there is no /{path}")),
            _ => Missing::because(format!("/{path}: {e}")),
        })
    }

    fn line(&self, path: &str) -> Maybe<String> {
        self.text(path).map(|t| t.trim().replace('\n', " "))
    }
}

/// `madvise` of `always [madvise] never`.
fn chosen(line: &str) -> Maybe<String> {
    let inside = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let none = || Missing::because(format!("none of `{line}` is chosen"));
    inside.map(|(word, _)| word.to_owned()).ok_or_else(none)
}

fn cpu_model(cpu_info: &str) -> Maybe<String> {
    // x86 and most others; s390; POWER.
    let names = ["model name", "processor 0", "cpu"];
    let model = names.iter().find_map(|name| field(cpu_info, name)).map(str::to_owned);
    // 64-bit Arm has numbers only, and each implementer numbers its own parts.
    let by_numbers = || {
        let (part, implementer) = (field(cpu_info, "CPU part")?, field(cpu_info, "CPU implementer")?);
        Some(format!("{part} of implementer {implementer}"))
    };
    model.or_else(by_numbers).ok_or_else(|| Missing::because("/proc/cpuinfo names no model"))
}

fn virtualization(files: &Files<'_>, cpu_info: &Maybe<String>) -> Maybe<String> {
    let named =
        ["sys/hypervisor/type", "sys/class/dmi/id/sys_vendor"].iter().find_map(|p| files.line(p).ok());
    // Only x86 shows it there; on others, the absence of the flag means nothing.
    let Some(flags) = field(cpu_info.as_ref().map_err(Clone::clone)?, "flags") else {
        let vendor = named.map_or_else(String::new, |name| format!(" (the machine is from {name})"));
        return Err(Missing::because(format!("this processor does not show a hypervisor{vendor}")));
    };
    let guest = flags.split(' ').any(|f| f == "hypervisor");
    Ok(match (guest, named) {
        (true, Some(name)) => format!("guest ({name})"),
        (true, None) => "guest".to_owned(),
        (false, _) => "none seen".to_owned(),
    })
}

fn memory_bytes(mem_info: &str) -> Maybe<String> {
    let kib = field(mem_info, "MemTotal").and_then(|v| v.strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|k| (k * 1024).to_string()).ok_or_else(|| Missing::because("/proc/meminfo has no MemTotal in kB"))
}

fn os_name(os_release: &str) -> Maybe<String> {
    let name = os_release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    name.map(|n| n.trim_matches('"').to_owned())
        .ok_or_else(|| Missing::because("/etc/os-release has no PRETTY_NAME"))
}

/// Counts the different values of a file of each CPU's topology: the number of sockets, or of cores.
fn distinct_over_cpus(files: &Files<'_>, root: &Path, file: &str) -> Maybe<String> {
    let cpus = cpu_list::online(root).ok_or_else(no_cpus)?;
    let values: Maybe<BTreeSet<String>> = cpus
        .iter()
        .map(|cpu| files.line(&format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}")))
        .collect();
    Ok(values?.len().to_string())
}

fn mitigations(files: &Files<'_>) -> Vec<(String, String)> {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let entries = fs::read_dir(files.root.join(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    names
        .filter_map(|n| Some((format!("mitigation.{n}"), files.line(&format!("{folder}/{n}")).ok()?)))
        .collect()
}

/// The caches that CPU 0 sees: `cpu.cache.l1d` is `48 KiB, 12 ways, lines of 64 B, 1 CPU each, 2 in all`.
fn caches(files: &Files<'_>, root: &Path) -> Vec<(String, String)> {
    let folder = |cpu: u32, index: u32| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
    let online = cpu_list::online(root).unwrap_or_default();
    let one = |index: u32| {
        let of = |file: &str| files.line(&format!("{}/{file}", folder(0, index))).ok();
        let kind = match of("type")?.as_str() {
            "Data" => "d".to_owned(),
            "Instruction" => "i".to_owned(),
            "Unified" => String::new(),
            other => format!("-{}", other.to_lowercase()),
        };
        let name = format!("cpu.cache.l{}{kind}", of("level")?);
        let mut parts = vec![of("size")?.replace('K', " KiB")];
        parts.extend(of("ways_of_associativity").filter(|w| w != "0").map(|w| format!("{w} ways")));
        parts.extend(of("coherency_line_size").map(|l| format!("lines of {l} B")));
        let shared: BTreeSet<String> = online
            .iter()
            .filter_map(|cpu| files.line(&format!("{}/shared_cpu_list", folder(*cpu, index))).ok())
            .collect();
        let cpus = of("shared_cpu_list").and_then(|list| cpu_list::parse(&list).ok()).map(|l| l.len());
        parts.extend(cpus.map(|n| if n == 1 { "1 CPU each".to_owned() } else { format!("{n} CPUs each") }));
        if !shared.is_empty() {
            parts.push(format!("{} in all", shared.len()));
        }
        Some((name, parts.join(", ")))
    };
    (0..8).map_while(one).collect()
}

/// Some kernels report the second level's size; for the rest, see a manual.
fn tlb(cpu_info: &str) -> Maybe<String> {
    let told = field(cpu_info, "TLB size").map(str::to_owned);
    told.ok_or_else(|| Missing::because("/proc/cpuinfo does not show the TLB's size on this processor"))
}

/// Nominal clock of the processor. If only the current clock is known, it is nominal on a machine with a
/// fixed clock, and left out on others.
fn clock_mhz(files: &Files<'_>, cpu_info: &Maybe<String>) -> Maybe<String> {
    let base = files.line("sys/devices/system/cpu/cpu0/cpufreq/base_frequency");
    if let Some(khz) = base.ok().and_then(|l| l.parse::<u64>().ok()) {
        return Ok((khz / 1_000).to_string());
    }
    if files.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").is_ok() {
        return Err(Missing::because("the clock varies, and this driver does not report its base frequency"));
    }
    let text = cpu_info.as_ref().map_err(Clone::clone)?;
    let now = field(text, "cpu MHz").map(|mhz| mhz.split('.').next().unwrap_or(mhz).to_owned());
    now.ok_or_else(|| Missing::because("neither cpufreq nor /proc/cpuinfo shows a clock frequency"))
}

/// Distances between NUMA nodes, from the firmware.
fn distances(files: &Files<'_>) -> Vec<(String, String)> {
    let one = |node: u32| {
        let line = files.line(&format!("sys/devices/system/node/node{node}/distance")).ok()?;
        Some((format!("numa.distance.{node}"), line))
    };
    (0..1024).map_while(one).collect()
}

fn count_of(list: &str) -> Maybe<String> {
    cpu_list::parse(list).map(|l| l.len().to_string()).map_err(|e| Missing::because(e.to_string()))
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn no_cpus() -> Missing {
    Missing::because("/sys/devices/system/cpu/online cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn facts_come_from_the_folder_that_is_passed_in() {
        let root = machine(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\ncpu MHz\t: 2596.124\nflags\t\t: fpu hypervisor sse\n",
            ),
            ("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0-1\n"),
            ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity", "12\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "64\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1\n"),
            ("sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list", "0-1\n"),
            ("sys/devices/system/node/node0/distance", "10 21\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
        ]);
        let environment = read(root.path());
        for (name, value) in [
            ("cpu.model", "Some CPU @ 3 GHz"),
            ("cpu.count", "2"),
            ("cpu.cores", "1"),
            ("memory.bytes", "2097152"),
            ("kernel.release", "6.1.0"),
            ("memory.thp", "madvise"),
            ("mitigation.meltdown", "Mitigation: PTI"),
            ("os.name", "Some Linux 1"),
            ("virtualization", "guest"),
            ("cpu.cache.l1d", "48 KiB, 12 ways, lines of 64 B, 2 CPUs each, 1 in all"),
            ("cpu.clock_mhz", "2596"),
            ("numa.distance.0", "10 21"),
        ] {
            assert_eq!(environment.fact(name), Some(value), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let environment = read(machine(&[]).path());
        assert_eq!(environment.fact("cpu.model"), None);
        let why = environment.facts["cpu.governor"].as_ref().unwrap_err();
        assert!(why.reason.contains("scaling_governor"), "{why}");
    }

    #[test]
    fn on_64_bit_arm_a_model_is_two_numbers_and_a_hypervisor_does_not_show() {
        let root = machine(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n\
                 CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ]);
        let environment = read(root.path());
        assert_eq!(environment.fact("cpu.model"), Some("0xd0c of implementer 0x41"));
        let why = environment.facts["virtualization"].as_ref().unwrap_err();
        assert_eq!(why.reason, "this processor does not show a hypervisor (the machine is from Amazon EC2)");
    }

    #[test]
    fn this_machine_has_a_model_and_memory() {
        let environment = read(Path::new("/"));
        for name in ["cpu.model", "cpu.count", "kernel.release", "memory.bytes"] {
            assert!(environment.fact(name).is_some_and(|f| !f.is_empty()), "{name}");
        }
    }
}
