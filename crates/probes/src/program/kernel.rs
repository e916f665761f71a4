//! The version of the running kernel, and the file of its types.

use std::fs;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;

/// File in which the kernel describes its types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Whether the running kernel is that version or later; false if its name does not begin with a version.
pub(crate) fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_some_and(|found| found >= (major, minor))
}

/// Whether the kernel has that event for programs with BTF.
pub(crate) fn kernel_traces(event: &str) -> bool {
    let name = format!("btf_trace_{event}");
    Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Typedef<'_>>(&name).is_some())
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_by_its_type() {
        if std::path::Path::new(KERNEL_BTF).exists() {
            assert!(kernel_traces("sched_switch") && !kernel_traces("no_such_event"));
        }
    }

    #[test]
    fn versions_are_read_from_the_names_of_kernels() {
        assert_eq!(version("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(version("5.15.0-204-generic"), Some((5, 15)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("next"), None);
    }
}
