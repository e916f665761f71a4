//! The BPF rung: our programs in the kernel, and their books.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::{fmt, fs, io, ptr};

use libbpf_rs::libbpf_sys::{BPF_F_TEST_RUN_ON_CPU, BPF_STATS_RUN_TIME, bpf_enable_stats};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link, ProgramInput};
use nix::sched::sched_getcpu;
use record::clock::{Clock, Monotonic};
use record::cpu::Rung;
use record::missing::{Maybe, Missing};

use self::skel::types::{contender, contest, cpu_time};
use self::skel::{CpuTimeSkel, CpuTimeSkelBuilder};
use super::Source;
use super::books::{Books, Edge, Top};
use crate::hog;

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from cpu_time.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/cpu_time.skel.rs"));
}

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
/// As in `cpu_time.h`.
const CPU_TIME_CPUS: usize = 1024;

const _: () = assert!(size_of::<cpu_time>() == 128);
const _: () = assert!(size_of::<contest>() == 80);
const _: () = assert!(size_of::<contender>() == 24);

/// Our programs, loaded and attached; detached when dropped.
pub(super) struct Bpf {
    skel: CpuTimeSkel<'static>,
    hook: Hook,
    _switches: Link,
}

/// Where on the switch we hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Btf,
    Raw,
}

impl Bpf {
    /// Loads and attaches the programs and tries one closing; with a note where the second-best hook had to do.
    ///
    /// # Errors
    ///
    /// A sentence for people: what is missing, and how to get it.
    pub(super) fn open() -> Result<(Self, Option<String>), String> {
        // The library would write to stderr; what we have to say, we say in a note.
        libbpf_rs::set_print(None);
        let best = if Path::new(KERNEL_BTF).exists() {
            Self::attach(Hook::Btf).map_err(|e| e.to_string())
        } else {
            Err(format!("this kernel has no BTF ({KERNEL_BTF})"))
        };
        let why = match best {
            Ok(bpf) => return Ok((bpf, None)),
            Err(why) => why,
        };
        match Self::attach(Hook::Raw) {
            Ok(bpf) => Ok((bpf, Some(format!("watching by raw_tp, not by tp_btf: {why}")))),
            Err(raw) => Err(refusal(&raw)),
        }
    }

    fn attach(hook: Hook) -> libbpf_rs::Result<Self> {
        // The object lives at this address until it is dropped; leaking the few bytes that hold its address lets the
        // skeleton be kept in a struct without a lifetime. The kernel's side is freed when `skel` is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = CpuTimeSkelBuilder::default().open(place)?;
        open.progs.on_switch.set_autoload(hook == Hook::Btf);
        open.progs.on_switch_raw.set_autoload(hook == Hook::Raw);
        let skel = open.load()?;
        let switches = attach_hook(&skel, hook)?;
        let mut bpf = Self { skel, hook, _switches: switches };
        // Kernels before 5.10 cannot run a program on a CPU of our choice: find that out now.
        let here = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
        bpf.run_closing(here)?;
        Ok(bpf)
    }

    fn run_closing(&mut self, cpu: u32) -> libbpf_rs::Result<()> {
        let on_cpu = ProgramInput { cpu, flags: BPF_F_TEST_RUN_ON_CPU, ..ProgramInput::default() };
        self.skel.progs.close_books.test_run(on_cpu).map(drop)
    }

    fn books(&self, cpu: u32) -> Books {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        let cpu = cpu as usize;
        // SAFETY: plain integers in memory that is mapped as long as `skel` lives. Only a closing of this CPU writes
        // this entry; closings are ordered by us, through `&mut self`, and each has ended when its call returns.
        let closed: cpu_time = unsafe { ptr::read_volatile(&raw const shared.closed[cpu]) };
        // The half that was in use until that closing; the programs write the other one now.
        let half = usize::from(closed.closings & 1 == 1);
        // SAFETY: as above; only the next closing but one starts to write this half again.
        let contests = unsafe { ptr::read_volatile(&raw const shared.contests[half][cpu]) };
        let top = winner(&contests).map(|(set, way, ns)| {
            // SAFETY: as above.
            let who = unsafe { ptr::read_volatile(&raw const shared.contenders[half][cpu][set][way]) };
            Top { pid: who.tgid, tid: contests[set].tid[way], comm: text(&who), ns }
        });
        Books {
            at_ns: closed.since_ns,
            busy_ns: closed.busy_ns,
            idle_ns: closed.idle_ns,
            switches: closed.switches,
            unseen: closed.unseen,
            unsure_ns: closed.unsure_ns,
            backward: closed.backward,
            top,
        }
    }
}

impl Source for Bpf {
    fn rung(&self) -> Rung {
        Rung::Bpf
    }

    fn close(&mut self, cpu: u32) -> Maybe<Edge> {
        if cpu as usize >= CPU_TIME_CPUS {
            return Err(Missing::because(format!("the layout has room for {CPU_TIME_CPUS} CPUs")));
        }
        // When on the wall the kernel closed them is known to half of how long that took.
        let before_ns = Monotonic.now_ns();
        self.run_closing(cpu).map_err(|e| Missing::because(format!("its books could not be closed: {e}")))?;
        let wall_ns = before_ns.midpoint(Monotonic.now_ns());
        Ok(Edge { wall_ns, books: self.books(cpu) })
    }

    fn ns_per_switch(&mut self) -> Maybe<f64> {
        let failed = |what: &str, e: &dyn fmt::Display| Missing::because(format!("{what}: {e}"));
        let _statistics =
            run_statistics().map_err(|e| failed("the kernel's run statistics are closed to us", &e))?;
        let nothing = &self.skel.progs.on_switch_nothing;
        let _nothing = nothing.attach().map_err(|e| failed("the empty program cannot be attached", &e))?;
        let ours = match self.hook {
            Hook::Btf => self.skel.progs.on_switch.as_fd(),
            Hook::Raw => self.skel.progs.on_switch_raw.as_fd(),
        };
        let (ours_before, nothing_before) = (RunTime::of(ours)?, RunTime::of(nothing.as_fd())?);
        hog::ping_pong(None, 5_000).map_err(|e| failed("no burst of switches could be made", &e))?;
        let (ours, nothing) = (RunTime::of(ours)?, RunTime::of(nothing.as_fd())?);
        Ok(ours.ns_per_run_since(ours_before)? - nothing.ns_per_run_since(nothing_before)?)
    }
}

impl fmt::Debug for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpf").field("hook", &self.hook).finish_non_exhaustive()
    }
}

/// What the kernel's statistics say of one program so far.
#[derive(Debug, Clone, Copy)]
struct RunTime {
    ns: u64,
    runs: u64,
}

impl RunTime {
    fn of(program: BorrowedFd<'_>) -> Maybe<Self> {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))
            .map_err(|e| Missing::because(format!("a program's statistics cannot be read: {e}")))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
            let value = line.and_then(|v| v.trim().parse().ok());
            value.ok_or_else(|| Missing::because(format!("this kernel does not tell a program's {name}")))
        };
        Ok(Self { ns: field("run_time_ns")?, runs: field("run_cnt")? })
    }

    fn ns_per_run_since(self, before: Self) -> Maybe<f64> {
        let runs = self.runs - before.runs;
        if runs == 0 {
            return Err(Missing::because("the program did not run"));
        }
        Ok((self.ns - before.ns) as f64 / runs as f64)
    }
}

/// Lets the kernel keep run statistics for as long as the result lives.
fn run_statistics() -> io::Result<OwnedFd> {
    // SAFETY: takes a number, returns a descriptor or a negative error.
    let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach_hook(skel: &CpuTimeSkel<'_>, hook: Hook) -> libbpf_rs::Result<Link> {
    match hook {
        Hook::Btf => skel.progs.on_switch.attach(),
        Hook::Raw => skel.progs.on_switch_raw.attach(),
    }
}

/// The thread that ran most for certain: what it may have inherited from others is not counted for it.
fn winner(contests: &[contest]) -> Option<(usize, usize, u64)> {
    let all = contests.iter().enumerate().flat_map(|(set, contest)| {
        (0..contest.tid.len()).map(move |way| (set, way, contest.ns[way].saturating_sub(contest.over[way])))
    });
    all.max_by_key(|(_, _, ns)| *ns).filter(|(_, _, ns)| *ns > 0)
}

fn text(who: &contender) -> String {
    let bytes: Vec<u8> = who.comm.iter().map(|c| c.cast_unsigned()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why BPF cannot be had, and what to do about it.
fn refusal(error: &libbpf_rs::Error) -> String {
    let lacking = lacking_capabilities();
    let way_out = if !lacking.is_empty() {
        format!(
            "run it with sudo, or give the program the right: sudo setcap cap_bpf,cap_perfmon+ep PROGRAM (it lacks {})",
            lacking.join(" and ")
        )
    } else if error.kind() == ErrorKind::PermissionDenied {
        "it is denied in spite of the capabilities: a container needs `--privileged` or a seccomp profile that lets          bpf(2) pass, and kernel lockdown must not be `confidentiality`"
            .to_owned()
    } else {
        "it needs Linux 5.10 or later with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS".to_owned()
    };
    format!("no context switches by BPF ({error}): {way_out}")
}

fn lacking_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective =
        status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    let effective = effective.unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    // CAP_SYS_ADMIN was all of them before Linux 5.8 and still is.
    let needed = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
    needed.into_iter().filter(|(bit, _)| !has(*bit) && !has(21)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::super::books::between;
    use super::*;

    #[test]
    fn root_both_hooks_tell_the_same() {
        if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return;
        }
        let here = u32::try_from(sched_getcpu().unwrap()).unwrap();
        let (mut by_btf, mut raw) = (Bpf::attach(Hook::Btf).unwrap(), Bpf::attach(Hook::Raw).unwrap());
        let before = (by_btf.close(here).unwrap(), raw.close(here).unwrap());
        hog::ping_pong(Some(here), 2_000).unwrap();
        thread::sleep(Duration::from_millis(200));
        let after = (by_btf.close(here).unwrap(), raw.close(here).unwrap());
        let by_btf = between(&before.0, &after.0).unwrap();
        let raw = between(&before.1, &after.1).unwrap();
        assert!(by_btf.switches >= 3_998, "{by_btf:?}");
        // The closings are some microseconds apart, and others may switch in that time.
        assert!(by_btf.switches.abs_diff(raw.switches) <= 20, "{by_btf:?} {raw:?}");
        // They differ by what is booked around switches that nobody was shown.
        assert!((by_btf.busy_ratio - raw.busy_ratio).abs() < 0.05, "{by_btf:?} {raw:?}");
    }

    #[test]
    fn the_winner_is_whoever_ran_most_for_certain() {
        let mut contests = [contest::default(), contest::default()];
        contests[0].tid = [10, 11, 0, 0];
        contests[0].ns = [500, 700, 0, 0];
        contests[0].over = [0, 300, 0, 0];
        contests[1].tid = [21, 0, 0, 0];
        contests[1].ns = [450, 0, 0, 0];
        assert_eq!(winner(&contests), Some((0, 0, 500)));
        assert_eq!(winner(&[contest::default()]), None);
    }
}
