//! Capabilities: the parts of root's power, given up one by one.
//!
//! A thread has its own capabilities, and a new thread inherits those of its creator. The programs that we
//! start get the capabilities of the user that the plan names.
//!
//! # Source
//!
//! capabilities(7), capset(2); `include/uapi/linux/capability.h`.

use std::io;

/// Numbers of `linux/capability.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Capability {
    DacOverride = 1,
    DacReadSearch = 2,
    Chown = 0,
    Fowner = 3,
    Fsetid = 4,
    Kill = 5,
    SetGid = 6,
    SetUid = 7,
    SetPcap = 8,
    NetAdmin = 12,
    IpcLock = 14,
    SysPtrace = 19,
    SysAdmin = 21,
    SysNice = 23,
    SysResource = 24,
    SetFcap = 31,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
    CheckpointRestore = 40,
}

use Capability::{
    Bpf, CheckpointRestore, Chown, DacOverride, DacReadSearch, Fowner, Fsetid, IpcLock, Kill, NetAdmin,
    Perfmon, SetFcap, SetGid, SetPcap, SetUid, SysAdmin, SysNice, SysPtrace, SysResource, Syslog,
};

/// Capabilities to read and write a user's files: an archive, a database or a page may lie in that user's
/// folder.
const OF_FILES: [Capability; 2] = [DacOverride, DacReadSearch];

/// Capabilities to give a new file another file's owner, mode, times, attributes and capabilities.
const OF_NEW_FILES: [Capability; 6] = [Chown, DacOverride, DacReadSearch, Fowner, Fsetid, SetFcap];

/// Capabilities that any measuring command needs: to load programs and open samplers, to start servers as
/// other users and without privileges, to stop them, to set priorities.
const OF_MEASURING: [Capability; 18] = [
    SetPcap,
    CheckpointRestore,
    Bpf,
    Chown,
    DacOverride,
    DacReadSearch,
    Fowner,
    IpcLock,
    Kill,
    NetAdmin,
    Perfmon,
    SetGid,
    SetUid,
    SysAdmin,
    SysNice,
    SysPtrace,
    SysResource,
    Syslog,
];

/// Capabilities that running instruments need: to read other users' `/proc` and mapped files, to resolve the
/// kernel's symbols, and to set the priority of threads that start later.
const OF_WATCHING: [Capability; 6] =
    [CheckpointRestore, DacOverride, DacReadSearch, SysNice, SysPtrace, Syslog];

/// Gives up capabilities that no measuring command needs: loading modules, raw devices, the clock, rebooting.
pub fn at_start() {
    // If the kernel refuses, nothing is lost.
    let _ = keep(&OF_MEASURING);
}

/// Gives up capabilities that only the setup needs. Call it after all programs are loaded and all samplers
/// open, and before threads start.
pub fn after_setup() {
    keep_watching(&[]);
}

/// Variant of [`after_setup`] for a command that also runs programs or opens many connections: it keeps the
/// rights to stop programs that changed their user, and to raise its own limits.
pub fn after_setup_of_load() {
    keep_watching(&[Kill, SysResource]);
}

fn keep_watching(also: &[Capability]) {
    let mut kept = OF_WATCHING.to_vec();
    kept.extend_from_slice(also);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Reading a program's maps takes no capability since commit c8644cd0efe7.
    if !is_since(&release, (5, 19)) {
        kept.push(Bpf);
    }
    // Before CheckpointRestore, `/proc/PID/map_files` needed SysAdmin.
    if !is_since(&release, (5, 9)) {
        kept.push(SysAdmin);
    }
    let _ = keep(&kept);
}

/// Gives up all capabilities of this thread.
pub fn drop_all() {
    let _ = keep(&[]);
}

/// Whether this thread has a capability.
pub fn has_any() -> bool {
    of_this_thread().is_ok_and(|data| data.iter().any(|word| word.permitted != 0))
}

/// Variant of [`keep_files`] that also keeps the right to set this thread's priority.
///
/// # Errors
///
/// The same as of [`keep_files`].
pub fn keep_priority() -> io::Result<()> {
    keep(&[DacOverride, DacReadSearch, SysNice])
}

/// Gives up all capabilities of this thread except those to read and write a user's files. A thread that
/// talks to servers or parses foreign files needs no more.
///
/// # Errors
///
/// The kernel's, if it has no 64-bit capabilities.
pub fn keep_files() -> io::Result<()> {
    keep(&OF_FILES)
}

/// Variant of [`keep_files`] that also keeps the right to set the owner, mode, attributes and capabilities of
/// new files.
///
/// # Errors
///
/// The same as of [`keep_files`].
pub fn keep_new_files() -> io::Result<()> {
    keep(&OF_NEW_FILES)
}

/// Whether a kernel release, such as `6.1.0-18-amd64`, is at least `version`.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|found| found >= version)
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: 64 bits in two words.
const VERSION: u32 = 0x2008_0522;

/// Gives up every capability of this thread except `kept`.
///
/// # Errors
///
/// The kernel's, if it has no 64-bit capabilities.
fn keep(kept: &[Capability]) -> io::Result<()> {
    let mask = kept.iter().fold(0_u64, |mask, capability| mask | 1 << *capability as u8);
    let mut data = of_this_thread()?;
    for (word, data) in data.iter_mut().enumerate() {
        let part = u32::try_from(mask >> (32 * word) & 0xffff_ffff).expect("32 bits are left");
        data.permitted &= part;
        data.effective &= part;
        data.inheritable = 0;
    }
    // SAFETY: a prctl(2) without pointers.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0_u64, 0_u64, 0_u64) };
    let mut header = Header { version: VERSION, pid: 0 };
    // SAFETY: both point to what capset(2) reads: a header and, for version 3, two data words.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn of_this_thread() -> io::Result<[Data; 2]> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both point to what capget(2) writes: a header and, for version 3, two data words.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if got == 0 { Ok(data) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The permitted and effective capabilities of this thread, as the kernel shows them.
    fn shown() -> (u64, u64) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        (mask("CapPrm:"), mask("CapEff:"))
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert!(
            is_since("6.1.0-18-amd64", (5, 19))
                && is_since("5.19", (5, 19))
                && is_since("5.100.1\n", (5, 19))
        );
        assert!(!is_since("5.9.16", (5, 19)) && !is_since("", (5, 9)) && !is_since("4.20", (5, 9)));
    }

    #[test]
    fn a_thread_keeps_what_is_named_and_what_it_starts_has_no_more() {
        std::thread::spawn(|| {
            let (before, _) = shown();
            keep(&[DacReadSearch, Bpf]).unwrap();
            let wanted = before & (1 << 2 | 1 << 39);
            assert_eq!(shown(), (wanted, wanted));
            drop_all();
            assert_eq!(shown(), (0, 0));
            assert_eq!(std::thread::spawn(shown).join().unwrap(), (0, 0));
        })
        .join()
        .unwrap();
    }
}
