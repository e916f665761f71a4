//! What every eBPF program of ours needs to know: whether it can be had here, and what it costs.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;
use std::{fmt, fs, io, thread};

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use nix::libc;
use record::missing::{Maybe, Missing};

/// Where the kernel describes its types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// What the kernel's statistics say of one program so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTime {
    pub(crate) ns: u64,
    pub(crate) runs: u64,
}

/// A row of a map: key and value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

impl RunTime {
    /// # Errors
    ///
    /// Missing where the kernel does not tell.
    pub(crate) fn of(program: BorrowedFd<'_>) -> Maybe<Self> {
        Ok(Self { ns: told_of(program, "run_time_ns")?, runs: told_of(program, "run_cnt")? })
    }

    /// Of programs together.
    pub(crate) const NONE: Self = Self { ns: 0, runs: 0 };

    /// What came to it since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { ns: self.ns - before.ns, runs: self.runs - before.runs }
    }

    /// Mean time of a run.
    ///
    /// # Errors
    ///
    /// Missing where there was none.
    pub(crate) fn ns_per_run(self) -> Maybe<f64> {
        if self.runs == 0 {
            return Err(Missing::because("the program did not run"));
        }
        Ok(self.ns as f64 / self.runs as f64)
    }

    /// Mean time of a run since `before`.
    ///
    /// # Errors
    ///
    /// Missing where there was none.
    pub(crate) fn ns_per_run_since(self, before: Self) -> Maybe<f64> {
        self.since(before).ns_per_run()
    }
}

impl std::iter::Sum for RunTime {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::NONE, |sum, one| Self { ns: sum.ns + one.ns, runs: sum.runs + one.runs })
    }
}

/// Times that the kernel did not run a program because it was running on that CPU already.
///
/// # Errors
///
/// Missing where the kernel does not tell.
pub(crate) fn recursion_misses(program: BorrowedFd<'_>) -> Maybe<u64> {
    told_of(program, "recursion_misses")
}

/// What programs could not keep, as they count it in words of their own, by reason; and what the kernel kept from them.
#[derive(Debug)]
pub(crate) struct Losses<const N: usize> {
    reasons: [&'static str; N],
    before: [u64; N],
    kept_out_before: u64,
}

impl<const N: usize> Losses<N> {
    pub(crate) fn new(reasons: [&'static str; N]) -> Self {
        Self { reasons, before: [0; N], kept_out_before: 0 }
    }

    /// What was lost since the last time; `counts` are the programs' words in the order of the reasons.
    pub(crate) fn since_last(
        &mut self,
        counts: [u64; N],
        programs: &[BorrowedFd<'_>],
    ) -> BTreeMap<String, u64> {
        let before = std::mem::replace(&mut self.before, counts);
        let told = self
            .reasons
            .iter()
            .zip(counts.iter().zip(before))
            .map(|(reason, (now, was))| (*reason, now - was));
        let kept_out: u64 = programs.iter().map(|p| recursion_misses(*p).unwrap_or(0)).sum();
        let kept_out_now = kept_out.saturating_sub(std::mem::replace(&mut self.kept_out_before, kept_out));
        let all = told.chain([("kept-out-by-the-kernel", kept_out_now)]);
        all.filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.to_owned(), n)).collect()
    }
}

/// Adds to what was lost for a reason; nothing where that is none.
pub(crate) fn count_in(lost: &mut BTreeMap<String, u64>, reason: &str, n: u64) {
    if n > 0 {
        *lost.entry(reason.to_owned()).or_default() += n;
    }
}

fn told_of(program: BorrowedFd<'_>, name: &str) -> Maybe<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))
        .map_err(|e| Missing::because(format!("a program's statistics cannot be read: {e}")))?;
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|v| v.trim().parse().ok());
    value.ok_or_else(|| Missing::because(format!("this kernel does not tell a program's {name}")))
}

/// Returns when every program that runs in the kernel now has ended; those that begin meanwhile see what was written
/// before.
pub(crate) fn wait_for_running() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: takes three numbers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result != 0 {
        // Kernels with CPUs that are free of ticks refuse; a program runs for microseconds.
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes every row out of a map that no program writes to any more.
///
/// # Errors
///
/// Missing where the kernel does not hand them out.
pub(crate) fn take_all(map: &impl MapCore) -> Maybe<Vec<Row>> {
    let refused = |e: &dyn fmt::Display| Missing::because(format!("the sums cannot be read: {e}"));
    // As many at once as there may be: a batch too small for one bucket of the map would fail.
    let batch = map.lookup_and_delete_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY);
    let mut rows: Vec<Row> = batch.map_err(|e| refused(&e))?.collect();
    // The library does not say that a batch failed; what it left behind is taken one by one.
    for key in map.keys().collect::<Vec<_>>() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(|e| refused(&e))? {
            map.delete(&key).map_err(|e| refused(&e))?;
            rows.push((key, value));
        }
    }
    Ok(rows)
}

/// Lets the kernel keep run statistics for as long as the result lives.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn run_statistics() -> io::Result<OwnedFd> {
    // SAFETY: takes a number, returns a descriptor or a negative error.
    let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Why BPF cannot be had, and what to do about it; `what` is what is not seen without it.
pub(crate) fn refusal(what: &str, error: &libbpf_rs::Error) -> String {
    let lacking = lacking_capabilities();
    let way_out = if !lacking.is_empty() {
        format!(
            "run it with sudo, or give the program the right: sudo setcap cap_bpf,cap_perfmon+ep PROGRAM (it lacks {})",
            lacking.join(" and ")
        )
    } else if error.kind() == ErrorKind::PermissionDenied {
        "it is denied in spite of the capabilities: a container needs `--privileged` or a seccomp profile that lets \
         bpf(2) pass, and kernel lockdown must not be `confidentiality`"
            .to_owned()
    } else {
        "it needs Linux 5.12 or later with CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and BTF".to_owned()
    };
    format!("no {what} by BPF ({error}): {way_out}")
}

/// Empties a map that is half full, before programs run out of room; what they still want they write again.
pub(crate) fn empty_if_half_full(map: &impl MapCore) {
    let keys: Vec<Vec<u8>> = map.keys().collect();
    if keys.len() > map.max_entries() as usize / 2 {
        for key in keys {
            // Whatever is left is deleted the next time.
            let _ = map.delete(&key);
        }
    }
}

/// The same, and hands out what was in it.
///
/// What cannot be read stays where it is.
pub(crate) fn take_if_half_full(map: &impl MapCore) -> Vec<Row> {
    if map.keys().count() > map.max_entries() as usize / 2 {
        take_all(map).unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// What was taken out of a map to make room in it, by its key there; what was not asked for longest goes first.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
    /// Of the young; of the old there are as many.
    most: usize,
}

impl<T: Clone> Kept<T> {
    /// Nothing yet, and never more than twice `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most: most.max(1) }
    }

    pub(crate) fn get(&mut self, key: u64) -> Option<T> {
        if let Some(known) = self.young.get(&key) {
            return Some(known.clone());
        }
        let known = self.old.remove(&key)?;
        self.insert(key, known.clone());
        Some(known)
    }

    pub(crate) fn insert(&mut self, key: u64, value: T) {
        if self.young.len() >= self.most && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

/// The name of a task, as the kernel keeps it.
pub(crate) fn text(comm: &[i8]) -> String {
    let bytes: Vec<u8> = comm.iter().map(|c| c.cast_unsigned()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name of threads for our programs, cut as the kernel cuts it: the last byte stays 0. Empty: everyone's.
pub(crate) fn comm(name: Option<&str>) -> [i8; 16] {
    let mut comm = [0; 16];
    for (to, from) in comm[..15].iter_mut().zip(name.unwrap_or_default().bytes()) {
        *to = from.cast_signed();
    }
    comm
}

/// Whether the running kernel is that version or later; no where its name does not begin with a version.
pub(crate) fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_some_and(|found| found >= (major, minor))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether this process has what it takes to load programs; the kernel may still lack what they need.
pub(crate) fn may_load() -> bool {
    lacking_capabilities().is_empty()
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
    use super::*;

    #[test]
    fn versions_are_read_from_the_names_of_kernels() {
        assert_eq!(version("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(version("5.15.0-204-generic"), Some((5, 15)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("next"), None);
    }
}
