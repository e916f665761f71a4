//! seccomp: system calls that a reader of files has no use for are refused.
//!
//! A list of what is refused, not of what is allowed: an allocator or a C library of next year must not end a report.
//!
//! # Source
//!
//! seccomp(2); `include/uapi/linux/{seccomp,audit,bpf_common}.h`.

use std::io;

use nix::libc::{self, sock_filter, sock_fprog};

use super::landlock::no_new_privileges;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

/// To run programs, to reach other processes or the network, and to change the machine.
const REFUSED: [libc::c_long; 57] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
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
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_quotactl,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// Signals: only to this process, whose own end is one (`abort`). Their first argument is a process.
const TO_ITSELF: [libc::c_long; 2] = [libc::SYS_kill, libc::SYS_tgkill];

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Where `struct seccomp_data` has the call's number and the architecture.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
/// The lower half of the first argument: both architectures are little-endian.
const ARGUMENT_AT: u32 = 16;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
/// Numbers from here on are of the x32 calls, which have the same meaning and would slip through.
const X32: u32 = 0x4000_0000;

/// From now on the calls of [`REFUSED`] end with EPERM in this thread and those it starts.
///
/// # Errors
///
/// The kernel's, where it has no filters, or `Unsupported` on an architecture that is not known here.
pub(super) fn refuse() -> io::Result<()> {
    if ARCHITECTURE == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut filter = program();
    no_new_privileges()?;
    let len = u16::try_from(filter.len()).expect("the filter has some hundred steps");
    let program = sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the filter that it points to outlive the call, which copies them.
    let set = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, u64::from(libc::SECCOMP_MODE_FILTER), &raw const program)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn program() -> Vec<sock_filter> {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refused = ERRNO | libc::EPERM.unsigned_abs();
    let mut program = vec![
        step(LOAD, 0, 0, ARCHITECTURE_AT),
        step(JUMP_EQUAL, 1, 0, ARCHITECTURE),
        step(RETURN, 0, 0, KILL),
        step(LOAD, 0, 0, NUMBER_AT),
        step(JUMP_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, refused),
    ];
    for call in REFUSED {
        let number = u32::try_from(call).expect("numbers of calls are small");
        program.extend([step(JUMP_EQUAL, 0, 1, number), step(RETURN, 0, 0, refused)]);
    }
    for call in TO_ITSELF {
        let number = u32::try_from(call).expect("numbers of calls are small");
        program.extend([
            step(JUMP_EQUAL, 0, 4, number),
            step(LOAD, 0, 0, ARGUMENT_AT),
            step(JUMP_EQUAL, 0, 1, std::process::id()),
            step(RETURN, 0, 0, ALLOW),
            step(RETURN, 0, 0, refused),
        ]);
    }
    program.push(step(RETURN, 0, 0, ALLOW));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_sockets_are_refused_and_files_and_threads_are_not() {
        std::thread::spawn(|| {
            match refuse() {
                Err(error) if matches!(error.raw_os_error(), None | Some(libc::EINVAL | libc::ENOSYS)) => {
                    return eprintln!("skipped: this kernel has no seccomp filters ({error})");
                }
                done => done.unwrap(),
            }
            assert!(std::process::Command::new("/bin/true").status().is_err());
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err());
            let refused = |result: libc::c_long| {
                result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
            };
            // SAFETY: numbers only; signal 0 is not delivered, and no mount or listener has the number -1.
            unsafe {
                let own = libc::c_long::from(libc::getpid());
                assert_eq!(libc::syscall(libc::SYS_kill, own, 0), 0, "a process may end itself");
                let tid = libc::syscall(libc::SYS_gettid);
                assert_eq!(libc::syscall(libc::SYS_tgkill, own, tid, 0), 0);
                let parent = libc::c_long::from(libc::getppid());
                assert!(refused(libc::syscall(libc::SYS_kill, parent, 0)));
                assert!(refused(libc::syscall(libc::SYS_kill, -1, 0)));
                assert!(refused(libc::syscall(libc::SYS_tgkill, parent, parent, 0)));
                assert!(refused(libc::syscall(libc::SYS_tkill, tid, 0)));
                assert!(refused(libc::syscall(libc::SYS_setresgid, -1, -1, -1)));
                assert!(refused(libc::syscall(libc::SYS_listen, -1, 0)));
                assert!(refused(libc::syscall(libc::SYS_fsmount, -1, 0, 0)));
            }
            assert!(std::fs::read("/etc/passwd").is_ok());
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        })
        .join()
        .unwrap();
    }
}
