//! Makes every refused call with arguments that no kernel accepts, once without and once with the filter.

use super::*;

/// Makes the call with `argument` in all six places; returns the error, or 0.
fn error_of(call: libc::c_long, argument: libc::c_long) -> i32 {
    let a = argument;
    // SAFETY: neither -1 nor 0 is an address, a process or a descriptor that any of the calls accepts.
    let result = unsafe { libc::syscall(call, a, a, a, a, a, a) };
    if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

/// Calls that have an effect whatever their arguments: the test makes them only with the filter.
const WITHOUT_ARGUMENTS: [libc::c_long; 3] = [libc::SYS_vhangup, libc::SYS_msgget, libc::SYS_semget];
#[cfg(target_arch = "x86_64")]
const FORKS: [libc::c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [libc::c_long; 0] = [];

/// Runs `check` in a thread with the filter; `false` if this kernel has no filters.
fn confined(check: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| {
        let body = || match refuse() {
            Err(error) if matches!(error.raw_os_error(), None | Some(libc::EINVAL | libc::ENOSYS)) => false,
            done => {
                done.expect("a filter");
                check();
                true
            }
        };
        scope.spawn(body).join().expect("the thread ends")
    })
}

#[test]
fn each_refused_call_is_refused_by_the_filter_and_by_nothing_else() {
    let all: Vec<_> = REFUSED.iter().chain(REFUSED_ALSO).copied().collect();
    let without: Vec<i32> = all
        .iter()
        .map(|call| {
            let does = WITHOUT_ARGUMENTS.contains(call) || FORKS.contains(call);
            if does { 0 } else { error_of(*call, -1) }
        })
        .collect();
    let has_filter = confined(|| {
        for call in &all {
            assert_eq!(error_of(*call, -1), libc::EPERM, "call {call}");
        }
    });
    if !has_filter {
        return eprintln!("skipped: this kernel has no seccomp filters");
    }
    // Control: a call that the kernel refuses anyway proves nothing about the filter.
    let proven = without.iter().filter(|error| **error != libc::EPERM).count();
    // SAFETY: a call without arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    eprintln!("{proven} of {} calls are refused by the filter alone", all.len());
    assert!(proven >= if is_root { all.len() - 10 } else { all.len() / 2 }, "{without:?}");
}

#[test]
fn signals_limits_threads_and_terminals_are_refused_by_their_arguments() {
    let call = |call: libc::c_long, a: libc::c_long, b: libc::c_long, c: libc::c_long| {
        // SAFETY: no pointers; signal 0 is not delivered, and -1 is not a valid descriptor.
        let result = unsafe { libc::syscall(call, a, b, c, 0, 0) };
        if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    };
    let own = libc::c_long::from(std::process::id());
    let parent = libc::c_long::from(std::os::unix::process::parent_id());
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWCGROUP,
    ];
    let typing = || TYPING.map(|request| call(libc::SYS_ioctl, -1, request.into(), 0));
    assert_eq!(call(libc::SYS_kill, parent, 0, 0), 0, "the control");
    assert_eq!(call(libc::SYS_prlimit64, parent, 0, 0), 0, "the control");
    assert_eq!(typing(), [libc::EBADF; 2], "the control");
    confined(|| {
        // SAFETY: a call without arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        assert_eq!(call(libc::SYS_kill, own, 0, 0), 0, "a process may end itself");
        assert_eq!(call(libc::SYS_tgkill, own, thread, 0), 0);
        assert_eq!([call(libc::SYS_prlimit64, 0, 0, 0), call(libc::SYS_prlimit64, own, 0, 0)], [0; 2]);
        for refused in [
            call(libc::SYS_kill, parent, 0, 0),
            call(libc::SYS_kill, -1, 0, 0),
            call(libc::SYS_kill, 0, 0, 0),
            call(libc::SYS_tgkill, parent, parent, 0),
            call(libc::SYS_prlimit64, parent, 0, 0),
            // Starting a process, or a thread in another namespace, must fail.
            call(libc::SYS_clone, libc::SIGCHLD.into(), 0, 0),
        ] {
            assert_eq!(refused, libc::EPERM);
        }
        for namespace in namespaces {
            let flags = i64::from(namespace) | i64::from(libc::CLONE_THREAD);
            assert_eq!(call(libc::SYS_clone, flags, 0, 0), libc::EPERM, "{flags:x}");
        }
        assert_eq!(call(libc::SYS_clone3, 0, 0, 0), libc::ENOSYS);
        assert_eq!(typing(), [libc::EPERM; 2]);
        assert_eq!(call(libc::SYS_ioctl, -1, 0x5413, 0), libc::EBADF, "the size of a terminal");
    });
}

#[test]
fn programs_and_sockets_are_refused_and_files_and_threads_are_not() {
    let program = || std::process::Command::new("/bin/true").status().is_ok();
    let socket = || std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
    assert!(program() && socket(), "the control");
    confined(|| {
        assert!(!program() && !socket());
        assert!(std::fs::read("/etc/passwd").is_ok());
        assert_eq!(std::thread::spawn(|| 7).join().expect("a thread"), 7);
    });
}

/// The kernel sends a signal for input to the process that a descriptor names.
#[test]
fn no_signal_is_sent_by_way_of_input() {
    let mut victim = std::process::Command::new("sleep").arg("1000").spawn().expect("a process");
    let call = |call: libc::c_long, fd: i32, request: libc::c_long, argument: libc::c_long| {
        // SAFETY: the pointers among the arguments are to values that live.
        let result = unsafe { libc::syscall(call, fd, request, argument) };
        if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    };
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let [input, output] = ends;
    let pid = libc::c_long::from(victim.id().cast_signed());
    let owner = [libc::c_int::from(1_u8), victim.id().cast_signed()];
    let int = victim.id().cast_signed();
    let name = || {
        [
            call(libc::SYS_fcntl, input, libc::F_SETOWN.into(), pid),
            call(libc::SYS_fcntl, input, 15, owner.as_ptr().addr().cast_signed() as libc::c_long),
            call(libc::SYS_fcntl, input, 10, libc::SIGTERM.into()),
        ]
    };
    let of_terminal = || {
        [0x8901, 0x8902].map(|request| {
            call(libc::SYS_ioctl, input, request, (&raw const int).addr().cast_signed() as libc::c_long)
        })
    };
    let attack = || {
        let named = name();
        let flags = libc::O_ASYNC | libc::O_NONBLOCK;
        assert_eq!(call(libc::SYS_fcntl, input, libc::F_SETFL.into(), flags.into()), 0);
        // SAFETY: one byte from a text.
        assert_eq!(unsafe { libc::write(output, b"x".as_ptr().cast(), 1) }, 1);
        named
    };
    let is_confined = confined(|| {
        assert_eq!(attack(), [libc::EPERM; 3]);
        assert_eq!(of_terminal(), [libc::EPERM; 2]);
        // SAFETY: a call without pointers.
        assert!(unsafe { libc::fcntl(input, libc::F_GETFD) } >= 0, "other requests are answered");
    });
    if is_confined {
        assert_eq!(victim.try_wait().expect("a child"), None, "a confined thread has sent a signal");
    }
    // The control.
    assert_ne!(of_terminal()[0], libc::EPERM);
    assert_eq!(attack(), [0; 3]);
    let ended = victim.wait().expect("a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGTERM));
}
