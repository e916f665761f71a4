//! Reasons why programs cannot be loaded, and remedies.

use std::fs;

use libbpf_rs::ErrorKind;

/// Reason why BPF is unavailable, with a remedy; `what` is the data that is then missing.
pub(crate) fn refusal(what: &str, error: &libbpf_rs::Error) -> String {
    let lacking = lacking_capabilities();
    let way_out = if !lacking.is_empty() {
        format!(
            "run it with sudo, or grant it the capabilities: sudo setcap cap_bpf,cap_perfmon+ep PROGRAM \
             (missing: {})",
            lacking.join(" and ")
        )
    } else if error.kind() == ErrorKind::PermissionDenied {
        "it is denied in spite of the capabilities: a container needs `--privileged` or a seccomp profile \
         that allows bpf(2), and kernel lockdown must not be `confidentiality`"
            .to_owned()
    } else {
        "it needs Linux 5.12 or later with CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and BTF".to_owned()
    };
    format!("cannot trace {what} with BPF ({error}): {way_out}")
}

/// Whether this process has the capabilities to load programs; the kernel may still lack features that they
/// need.
pub(crate) fn may_load() -> bool {
    lacking_capabilities().is_empty()
}

fn lacking_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective =
        status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    let effective = effective.unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    // CAP_SYS_ADMIN included all of them before Linux 5.8 and still does.
    let needed = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
    needed.into_iter().filter(|(bit, _)| !has(*bit) && !has(21)).map(|(_, name)| name).collect()
}
