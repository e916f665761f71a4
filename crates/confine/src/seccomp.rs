//! seccomp: refuses system calls that a reader of files does not need.
//!
//! The list names the refused calls, not the allowed ones: a call that a later allocator or C library makes
//! must not end a report.
//!
//! # Source
//!
//! seccomp(2); `include/uapi/linux/{seccomp,audit,bpf_common}.h`.

use std::io;

use libc::{sock_filter, sock_fprog};

use crate::no_new_privileges;

/// Number of the architecture in the kernel's audit interface; 0 if this module has no filter for it.
const ARCHITECTURE: u32 = if cfg!(target_endian = "big") {
    0
} else if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};

/// Calls of Linux 6.6 to 6.17, which have one number on all architectures; `libc` lacks them on some.
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
const SYS_FILE_SETATTR: libc::c_long = 469;

/// System calls that run programs, reach other processes or the network, change the machine, or change files
/// by name without opening them, which Landlock does not govern.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Older forms of these calls, and calls of x86, which other architectures lack.
#[cfg(target_arch = "x86_64")]
const REFUSED_ALSO: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ALSO: &[libc::c_long] = &[];

/// Signal calls, allowed only to this process, which `abort` needs. Their first argument is a process.
const TO_ITSELF: [libc::c_long; 2] = [libc::SYS_kill, libc::SYS_tgkill];
/// Requests of ioctl(2) that insert input into the user's terminal.
const TYPING: [u32; 2] = [0x5412, 0x541c];
/// Requests of ioctl(2) and fcntl(2) that choose the process or the signal of asynchronous input: with
/// `O_ASYNC`, the kernel then sends that signal. `FIOSETOWN`, `SIOCSPGRP`; `F_SETOWN`, `F_SETSIG`,
/// `F_SETOWN_EX`.
const OWNING_IOCTL: [u32; 2] = [0x8901, 0x8902];
const OWNING_FCNTL: [u32; 3] = [8, 10, 15];
/// Flag that a clone(2) must have, while it must have none of [`NEW_NAMESPACES`]: it starts a thread in the
/// same namespaces.
const CLONE_THREAD: u32 = 0x0001_0000;
const NEW_NAMESPACES: u32 = 0x7e02_0000;

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Offsets of the call's number and of the architecture in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
/// Offsets of the lower halves of the first two arguments: both architectures are little-endian.
const FIRST_AT: u32 = 16;
const SECOND_AT: u32 = 24;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
/// Lowest number of the x32 calls, which do the same and would bypass the filter.
const X32: u32 = 0x4000_0000;

/// Makes the calls of `REFUSED` fail with EPERM in this thread and those it starts.
///
/// # Errors
///
/// The kernel's, if it has no filters, or `Unsupported` on an unknown architecture.
pub fn refuse() -> io::Result<()> {
    refuse_but(&[])
}

/// Variant of [`refuse`] for a server: sockets that already listen may accept connections.
///
/// # Errors
///
/// The same as of [`refuse`].
pub fn refuse_in_server() -> io::Result<()> {
    refuse_but(&[libc::SYS_accept, libc::SYS_accept4])
}

/// Variant of [`refuse`] for a process with threads that give up more capabilities later.
///
/// # Errors
///
/// The same as of [`refuse`].
pub fn refuse_but_dropping() -> io::Result<()> {
    refuse_but(&[libc::SYS_capset])
}

fn refuse_but(allowed: &[libc::c_long]) -> io::Result<()> {
    if ARCHITECTURE == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut filter = program(allowed);
    no_new_privileges()?;
    let len = u16::try_from(filter.len()).expect("the filter has some hundred steps");
    let program = sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the filter that it points to outlive the call, which copies them.
    let set = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, u64::from(libc::SECCOMP_MODE_FILTER), &raw const program)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn program(allowed_too: &[libc::c_long]) -> Vec<sock_filter> {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refused = step(RETURN, 0, 0, ERRNO | libc::EPERM.unsigned_abs());
    let allowed = step(RETURN, 0, 0, ALLOW);
    // Jumps over the steps that judge this call.
    let unless = |call: libc::c_long, steps: u8| step(JUMP_EQUAL, 0, steps, number(call));
    let mut program = vec![
        step(LOAD, 0, 0, ARCHITECTURE_AT),
        step(JUMP_EQUAL, 1, 0, ARCHITECTURE),
        step(RETURN, 0, 0, KILL),
        step(LOAD, 0, 0, NUMBER_AT),
        step(JUMP_AT_LEAST, 0, 1, X32),
        refused,
    ];
    for call in REFUSED.iter().chain(REFUSED_ALSO).filter(|call| !allowed_too.contains(call)) {
        program.extend([unless(*call, 1), refused]);
    }
    for call in TO_ITSELF {
        program.extend([
            unless(call, 4),
            step(LOAD, 0, 0, FIRST_AT),
            step(JUMP_EQUAL, 0, 1, std::process::id()),
            allowed,
            refused,
        ]);
    }
    // prlimit64 may name only this process, as 0 or by its id.
    program.extend([
        unless(libc::SYS_prlimit64, 5),
        step(LOAD, 0, 0, FIRST_AT),
        step(JUMP_EQUAL, 1, 0, 0),
        step(JUMP_EQUAL, 0, 1, std::process::id()),
        allowed,
        refused,
    ]);
    let ioctl = [&TYPING[..], &OWNING_IOCTL].concat();
    for (call, requests) in [(libc::SYS_ioctl, &ioctl[..]), (libc::SYS_fcntl, &OWNING_FCNTL)] {
        let steps = u8::try_from(2 * requests.len() + 2).expect("a few requests");
        program.extend([unless(call, steps), step(LOAD, 0, 0, SECOND_AT)]);
        program.extend(requests.iter().flat_map(|of| [step(JUMP_EQUAL, 0, 1, *of), refused]));
        program.push(allowed);
    }
    program.extend([
        unless(libc::SYS_clone, 5),
        step(LOAD, 0, 0, FIRST_AT),
        step(JUMP_ANY_BIT, 2, 0, NEW_NAMESPACES),
        step(JUMP_ANY_BIT, 0, 1, CLONE_THREAD),
        allowed,
        refused,
    ]);
    // clone3 has its flags in memory, which a filter cannot read. After ENOSYS the C library uses the older
    // call.
    let unknown = step(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs());
    program.extend([unless(libc::SYS_clone3, 1), unknown, allowed]);
    program
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("numbers of calls are small")
}

#[cfg(test)]
mod tests;
