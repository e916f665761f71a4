//! Child processes: each leads its process group, dies with this process, and has only the privileges that
//! the plan gives it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use load::{Stop, StopLevel};
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::{set_no_new_privs, set_pdeathsig};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, fchdir, getpid, getppid, setgroups, setresgid, setresuid};
use plan::{AddressSpace, HugePages, MemoryLayout, Scheduler};
use probes::process_time;
use record::clock::{Clock as _, Monotonic};

use crate::account::Account;
use crate::control_group::ControlGroup;
use crate::log::Log;
use crate::memory_nodes;
use crate::pidfd;

/// Polling interval while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A child process and the process group that it leads. Dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
}

/// CPUs, scheduling class, account and control group of a process.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    /// `None` for all CPUs.
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) nice: i32,
    pub(crate) memory: MemoryLayout,
    /// Memory nodes; `None` for all.
    pub(crate) mem: Option<Vec<u32>>,
    /// `None` for the user of this process.
    pub(crate) account: Option<Account>,
    /// Control group that it joins before all other setup.
    pub(crate) group: Option<Arc<ControlGroup>>,
    /// Folder that it works in, entered with the rights of its account; `None` for that of the command. By
    /// its name, this process would enter a link that another process of the account put in its place.
    pub(crate) folder: Option<Arc<OwnedFd>>,
}

impl Placement {
    /// Default placement of the system.
    pub(crate) const ANYWHERE: Self = Self {
        cpus: None,
        scheduler: Scheduler::Other,
        nice: 0,
        memory: MemoryLayout::OF_SYSTEM,
        mem: None,
        account: None,
        group: None,
        folder: None,
    };
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// `false` for a zombie.
    pub(crate) is_alive: bool,
    /// Start, in ticks since boot. With the process id, it identifies a process.
    pub(crate) started: u64,
}

/// Result of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The condition holds.
    Done,
    /// The time limit has passed.
    TimedOut,
    /// The user requested to stop.
    Stopped,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    ///
    /// The kernel sends SIGKILL to it when the calling thread ends, so the caller must be the thread that
    /// conducts to the end.
    pub(crate) fn start(mut command: Command, placement: &Placement, log: &Log) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(log.file()?).stderr(log.file()?);
        Self::spawn(command, placement)
    }

    /// Variant of [`Self::start`] for a command with input and output that the caller has connected.
    pub(crate) fn spawn(mut command: Command, placement: &Placement) -> io::Result<Self> {
        command.process_group(0);
        let cpus = placement.cpus.as_deref().map(cpu_set).transpose()?;
        let (scheduler, nice, account) = (placement.scheduler, placement.nice, placement.account);
        let (memory, mem) = (placement.memory, placement.mem.as_deref().map(memory_nodes::mask));
        let (group, folder) = (placement.group.clone(), placement.folder.clone());
        let parent = getpid();
        let before_exec = move || -> io::Result<()> {
            for procs in group.iter().flat_map(|group| group.procs()) {
                // 0 means the writing process.
                nix::unistd::write(procs, b"0")?;
            }
            if let Some(cpus) = &cpus {
                sched_setaffinity(Pid::from_raw(0), cpus)?;
            }
            set_scheduler(scheduler)?;
            set_nice(nice)?;
            set_memory_layout(memory)?;
            if let Some(mem) = &mem {
                memory_nodes::bind(mem)?;
            }
            give_up_privileges(account)?;
            if let Some(folder) = &folder {
                fchdir(folder.as_ref())?;
            }
            // A change of user clears this setting, so it comes later.
            set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the previous call; the signal would then never be sent.
            if getppid() != parent {
                return Err(Errno::ESRCH.into());
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made, which are async-signal-safe; nothing
        // allocates: the CPU set, the account and the errors are plain values, and the control group and the
        // folder are open files.
        unsafe { command.pre_exec(before_exec) };
        let child = command.spawn()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(|_| io::Error::from(Errno::EOVERFLOW))?);
        Ok(Self { child, pid })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it has ended. It stays a zombie, so its process id and group are not reused.
    pub(crate) fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid), flags), Ok(WaitStatus::StillAlive))
    }

    /// Waits until it ends.
    pub(crate) fn wait(&self, at_most: Duration, stop: &Stop) -> Waited {
        wait_for(at_most, stop, || self.has_ended())
    }

    /// Waits for its exact end, as a measurement needs it. It stays a zombie.
    pub(crate) fn watch(&self, at_most: Duration, stop: &Stop) -> io::Result<Waited> {
        let began_ns = Monotonic.now_ns();
        let fd = pidfd::open(self.pid)?;
        loop {
            let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which lives until the call returns.
            match Errno::result(unsafe { libc::poll(&raw mut polled, 1, 100) }) {
                Ok(1..) => return Ok(Waited::Done),
                Ok(_) | Err(Errno::EINTR) if stop.is_requested() => return Ok(Waited::Stopped),
                Ok(_) | Err(Errno::EINTR)
                    if u128::from(Monotonic.now_ns() - began_ns) > at_most.as_nanos() =>
                {
                    return Ok(Waited::TimedOut);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until it ends, and returns the CPU time of it and of the children it has reaped. Ignores
    /// requests to stop. It stays a zombie.
    pub(crate) fn watch_cpu_time(&self) -> io::Result<Duration> {
        let usage = self.watch_usage()?;
        Ok(span(usage.ru_utime) + span(usage.ru_stime))
    }

    /// Variant of [`Self::watch_cpu_time`] that returns the whole account.
    pub(crate) fn watch_usage(&self) -> io::Result<libc::rusage> {
        // SAFETY: for both structures all zeros is a value; the kernel fills them in.
        let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
        loop {
            // The raw system call, since the C library omits its last argument (waitid(2), "C library/kernel
            // differences").
            // SAFETY: both pointers are to structures of the kernel's layout that live until the call
            // returns.
            let ended = Errno::result(unsafe {
                libc::syscall(
                    libc::SYS_waitid,
                    libc::P_PID,
                    self.pid.as_raw(),
                    &raw mut info,
                    libc::WEXITED | libc::WNOWAIT,
                    &raw mut usage,
                )
            });
            match ended {
                Ok(_) => return Ok(usage),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends it a signal to end. The signal goes to the process alone: a server ends its own children.
    pub(crate) fn ask(&self, signal: Signal) {
        // It may have ended just now, which is the goal.
        let _ = kill(self.pid, signal);
    }

    /// Waits until it ends by itself. Returns whether it succeeded.
    pub(crate) fn finish_by_itself(&mut self) -> io::Result<bool> {
        Ok(self.finish_by_itself_with_status()?.success())
    }

    /// Variant of [`Self::finish_by_itself`] that returns the exit status.
    pub(crate) fn finish_by_itself_with_status(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills the rest of its group, and records its exit status.
    pub(crate) fn finish(&mut self) -> io::Result<ExitStatus> {
        // Before the zombie is reaped: until then the number of its group cannot be reused.
        let _ = killpg(self.pid, Signal::SIGKILL);
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `finish`, `try_wait` returns the status, and no kill is needed.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.finish();
        }
    }
}

impl Stat {
    /// Reads the fields of a live process; a zombie is not found.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Some(Self::of_any(pid)?).filter(|stat| stat.is_alive).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads the fields of a process or zombie.
    pub(crate) fn of_any(pid: i32) -> io::Result<Self> {
        let stat = process_time::text(format!("/proc/{pid}/stat"))?;
        parse_stat(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Polls until `is_there`. Also ends at a first request to stop, since this waiting is not measured.
pub(crate) fn wait_for(at_most: Duration, stop: &Stop, mut is_there: impl FnMut() -> bool) -> Waited {
    let to_ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = Monotonic.now_ns().saturating_add(to_ns(at_most));
    loop {
        if is_there() {
            return Waited::Done;
        }
        if stop.level() > StopLevel::Run {
            return Waited::Stopped;
        }
        let now_ns = Monotonic.now_ns();
        if now_ns >= deadline_ns {
            return Waited::TimedOut;
        }
        Monotonic.sleep_until_ns(deadline_ns.min(now_ns + to_ns(LOOK_EVERY)));
    }
}

/// Parses `/proc/PID/stat`. Its second field is a name in parentheses that may contain anything, also blanks.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse().ok();
    let (parent, _group, session) = (number()?, number()?, number()?);
    // The 22nd field; 6 are taken.
    let started = fields.nth(15)?.parse().ok()?;
    Some(Stat { parent, session, is_alive, started })
}

fn span(time: libc::timeval) -> Duration {
    let (s, us) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
    Duration::from_secs(s.unwrap_or(0)) + Duration::from_micros(us.unwrap_or(0))
}

/// Becomes the account's user permanently, and passes no capability to the program that is executed next.
///
/// Another user gets only the first three descriptors and can never gain privileges: set-user-id programs
/// have no effect for it (`no_new_privs`).
fn give_up_privileges(account: Option<Account>) -> io::Result<()> {
    if let Some(Account { uid, gid }) = account {
        setgroups(&[gid])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        set_no_new_privs()?;
        // Descriptors that our caller left open without close-on-exec are not for another user. Linux before
        // 5.11 cannot mark all at once.
        // SAFETY: the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    }
    // SAFETY: the call takes numbers only. Linux before 4.3 has no ambient capabilities and returns EINVAL.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    Ok(())
}

fn cpu_set(cpus: &[u32]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu as usize)?;
    }
    Ok(set)
}

fn set_scheduler(scheduler: Scheduler) -> io::Result<()> {
    let (policy, priority) = match scheduler {
        Scheduler::Other => return Ok(()),
        Scheduler::Batch => (libc::SCHED_BATCH, 0),
        Scheduler::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Scheduler::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the kernel reads one `sched_param`, which lives until the call returns; 0 is the calling
    // process.
    Ok(Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)?)
}

/// Both settings hold for the program that is executed next, and for its children.
fn set_memory_layout(memory: MemoryLayout) -> io::Result<()> {
    if memory.address_space == AddressSpace::Fixed {
        // SAFETY: the call takes a number only; this one reads the present setting.
        let now = Errno::result(unsafe { libc::personality(0xffff_ffff) })?;
        let fixed = now.cast_unsigned() | libc::ADDR_NO_RANDOMIZE.cast_unsigned();
        // SAFETY: the call takes a number only.
        Errno::result(unsafe { libc::personality(libc::c_ulong::from(fixed)) })?;
    }
    if memory.huge_pages == HugePages::Never {
        // SAFETY: the call takes numbers only.
        Errno::result(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) })?;
    }
    Ok(())
}

fn set_nice(nice: i32) -> io::Result<()> {
    if nice == 0 {
        return Ok(());
    }
    // SAFETY: the call takes numbers only; 0 is the calling process.
    Ok(Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn sh(script: &str, log: &Log) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &Placement::ANYWHERE, log).unwrap()
    }

    fn is_alive(pid: i32) -> bool {
        Stat::of(pid).is_ok()
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_process_ends_with_its_status_and_its_output_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        let mut process = sh("echo out; echo err >&2; exit 7", &log);
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        assert_eq!(process.finish().unwrap().code(), Some(7));
        assert_eq!(log.text().unwrap(), "out\nerr\n");
    }

    #[test]
    fn what_a_process_started_is_killed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (log, fifo) = (
            Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap(),
            folder.path().join("fifo"),
        );
        // The grandchild reports its process id and sleeps.
        let mut process =
            sh(&format!("mkfifo {0}; sh -c 'echo $$ >{0}; exec sleep 1000' & wait", fifo.display()), &log);
        assert_eq!(wait_for(LONG, &Stop::new(), || fifo.exists()), Waited::Done);
        let grandchild = std::fs::read_to_string(&fifo).unwrap().trim().parse().unwrap();
        assert!(is_alive(grandchild));
        process.finish().unwrap();
        assert_eq!(wait_for(LONG, &Stop::new(), || !is_alive(grandchild)), Waited::Done);
    }

    #[test]
    fn a_process_runs_where_and_how_it_was_placed() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status; cut -d' ' -f41 /proc/self/stat"]);
        let placement = Placement { cpus: Some(vec![0]), scheduler: Scheduler::Batch, ..Placement::ANYWHERE };
        let mut process = Process::start(command, &placement, &log).unwrap();
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        assert!(process.finish().unwrap().success());
        assert_eq!(log.text().unwrap(), "Cpus_allowed_list:\t0\n3\n");
    }

    /// The addresses of a process in its log: where its stack begins, and whether huge pages are allowed.
    fn layout_of(memory: MemoryLayout) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep -F '[stack]' /proc/self/maps; grep THP_enabled /proc/self/status"]);
        let placement = Placement { memory, ..Placement::ANYWHERE };
        let mut process = Process::start(command, &placement, &log).unwrap();
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        process.finish().unwrap();
        let text = log.text().unwrap();
        let (stack, pages) = text.split_once('\n').unwrap();
        (stack.to_owned(), pages.trim().to_owned())
    }

    #[test]
    fn addresses_are_the_same_at_each_start_only_if_they_are_fixed() {
        let fixed = MemoryLayout { address_space: AddressSpace::Fixed, ..MemoryLayout::OF_SYSTEM };
        let [first, second] = [0, 1].map(|_| layout_of(fixed).0);
        assert_eq!(first, second);
        let random: std::collections::BTreeSet<String> =
            (0..4).map(|_| layout_of(MemoryLayout::OF_SYSTEM).0).collect();
        let is_random = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap().trim() != "0";
        assert_eq!(random.len() > 1, is_random, "{random:?}");
    }

    #[test]
    fn a_process_without_huge_pages_says_so() {
        let never = MemoryLayout { huge_pages: HugePages::Never, ..MemoryLayout::OF_SYSTEM };
        assert_eq!(layout_of(never).1, "THP_enabled:\t0");
        assert_eq!(layout_of(MemoryLayout::OF_SYSTEM).1, "THP_enabled:\t1");
    }

    /// The kernel's own list says which policy each mapping of the program has.
    #[test]
    fn the_memory_of_a_process_comes_from_its_nodes() {
        let maps = |mem: Option<Vec<u32>>| {
            let folder = tempfile::tempdir().unwrap();
            let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
            let mut command = Command::new("cat");
            command.arg("/proc/self/numa_maps");
            let mut process =
                Process::start(command, &Placement { mem, ..Placement::ANYWHERE }, &log).unwrap();
            assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
            process.finish().unwrap();
            log.text().unwrap()
        };
        // Some containers forbid the call. The policy is that of one thread alone.
        let tried = std::thread::spawn(|| memory_nodes::bind(&memory_nodes::mask(&[0])));
        let is_refused = tried.join().unwrap().is_err();
        if is_refused || !std::path::Path::new("/proc/self/numa_maps").exists() {
            println!("skipped: memory nodes cannot be set here, or the kernel knows none");
            return;
        }
        let bound = maps(Some(vec![0]));
        assert!(bound.lines().all(|line| line.contains(" bind:0 ") || line.ends_with(" bind:0")), "{bound}");
        assert!(maps(None).contains(" default "));
    }

    #[test]
    fn a_process_does_not_start_on_a_node_that_is_absent() {
        let nodes = memory_nodes::of_machine(std::path::Path::new("/"));
        let absent = (0..1_024).find(|node| !nodes.contains(node)).unwrap();
        let placement = Placement { mem: Some(vec![absent]), ..Placement::ANYWHERE };
        assert!(Process::spawn(Command::new("true"), &placement).is_err());
    }

    #[test]
    fn the_end_and_the_cpu_time_are_known_while_it_is_a_zombie() {
        let folder = tempfile::tempdir().unwrap();
        let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        let mut process = sh(spin, &log);
        assert_eq!(process.watch(Duration::MAX, &Stop::new()).unwrap(), Waited::Done);
        assert!(
            process.watch_cpu_time().unwrap() > Duration::from_millis(1),
            "twenty thousand rounds take more"
        );
        assert_eq!(process.finish().unwrap().code(), Some(3));
        let slept = sh("exec sleep 1000", &log);
        let stop = Stop::new();
        stop.request();
        assert_eq!(slept.watch(Duration::MAX, &stop).unwrap(), Waited::Stopped);
    }

    #[test]
    fn another_user_has_no_capability_no_group_and_no_way_back() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: not root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        let mut command = Command::new("grep");
        command.args(["-hE", "^(Uid|Groups|CapPrm|CapEff|CapAmb|NoNewPrivs):", "/proc/self/status"]);
        let account = crate::account::choose(None).unwrap();
        let id = account.expect("root changes the account").uid;
        let mut process =
            Process::start(command, &Placement { account, ..Placement::ANYWHERE }, &log).unwrap();
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        assert!(process.finish().unwrap().success());
        let said: String = log.text().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let none = "0000000000000000";
        assert_eq!(
            said,
            format!(
                "Uid: {id} {id} {id} {id} Groups: {id} CapPrm: {none} CapEff: {none} CapAmb: {none} NoNewPrivs: 1"
            )
        );
    }

    #[test]
    fn root_another_user_gets_no_descriptor_of_our_caller() {
        let Some(account) = crate::account::choose(None).unwrap() else {
            println!("skipped: not root");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let log = Log::make(std::fs::File::open(folder.path()).unwrap(), "log", None).unwrap();
        // Like a shell that has opened a file for itself: `exec 9>secret`.
        let open = nix::unistd::dup(std::fs::File::open("/etc/passwd").unwrap()).unwrap();
        nix::fcntl::fcntl(&open, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        let mut command = Command::new("ls");
        command.arg("-l").arg("/proc/self/fd");
        let placement = Placement { account: Some(account), ..Placement::ANYWHERE };
        let mut process = Process::start(command, &placement, &log).unwrap();
        assert_eq!(process.wait(LONG, &Stop::new()), Waited::Done);
        assert!(process.finish().unwrap().success());
        let said = log.text().unwrap();
        assert!(said.contains("/dev/null") && !said.contains("passwd"), "{said}");
    }

    #[test]
    fn a_process_whose_name_is_no_utf_8_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(std::ffi::OsStr::from_bytes(b"\x9b\xff) S"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("1000").spawn().unwrap();
        let pid = child.id();
        // It may not have completed exec yet.
        while !std::fs::read(format!("/proc/{pid}/comm")).unwrap().starts_with(b"\x9b") {
            std::thread::yield_now();
        }
        let stat = Stat::of(pid.cast_signed());
        let found = process_time::find(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stat.unwrap().parent, getpid().as_raw());
        assert_eq!(found, Ok(pid));
    }

    #[test]
    fn parent_and_session_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_stat(stat), Some(Stat { parent: 1, session: 3, is_alive: true, started: 4711 }));
        assert!(!parse_stat(&stat.replace(" S ", " Z ")).unwrap().is_alive);
        assert_eq!(parse_stat("7"), None);
        assert!(is_alive(getpid().as_raw()));
    }
}
