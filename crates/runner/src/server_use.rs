//! Memory and storage I/O of the server's own processes, from `/proc`.
//!
//! *Memory* is anonymous memory and swap of each process, and the shared memory of the process that has most
//! of it: processes of one server share one segment. Pages that a process shares with its parent since a fork
//! count in both. *I/O* is what the kernel charges to a process: bytes that it caused to be read from
//! storage, and bytes that it dirtied for storage, even if another task writes them back.

use std::collections::BTreeMap;
use std::path::Path;

use load::Event;
use nix::libc;
use nix::unistd::Pid;
use probes::process_time;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::load::Phase;
use record::missing::{Maybe, Missing};
use record::resources::{Resource, Resources, SERVER_MEMORY, Used, UsedBy};
use record::series::{Sample, SharedText};

use crate::server_cpu::{Stat, ignores_children};

/// Source of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Processes of the series.
    Server,
    /// Commands of an `exec:` load that this process has reaped.
    Commands,
    /// The target runs inside the load generator.
    Embedded,
    /// The plan starts no server.
    Nobody,
}

impl Whose {
    /// - `scheme`: scheme of the load's target.
    pub(crate) fn of(has_server: bool, scheme: &str) -> Self {
        match (has_server, scheme) {
            (true, _) => Self::Server,
            (false, "exec") => Self::Commands,
            (false, "sqlite" | "null") => Self::Embedded,
            (false, _) => Self::Nobody,
        }
    }

    fn missing(self) -> Missing {
        Missing::because(match self {
            Self::Embedded => "the target runs inside the load generator, so it has no separate processes",
            _ => "the plan starts no server, so the server's processes are unknown",
        })
    }
}

/// Bytes that a process, and the children that it reaped, read and wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moved {
    parent: i32,
    read_bytes: u64,
    written_bytes: u64,
}

/// I/O of all processes at one moment.
#[derive(Debug, Clone)]
struct Reading {
    at_ns: u64,
    processes: BTreeMap<Identity, Moved>,
}

/// Process id and start time: the kernel uses ids again.
type Identity = (i32, u64);

/// Follows a load: I/O at both ends of its measured phase, levels of memory at the end of each interval.
pub(crate) struct ServerUse<'a> {
    whose: Whose,
    members: &'a dyn Fn() -> Vec<Pid>,
    /// Whether levels are read at the ends of intervals.
    watches: bool,
    from: Option<Maybe<Reading>>,
    until: Option<Maybe<Reading>>,
    /// Time and level.
    levels: Vec<(u64, f64)>,
    no_levels: Option<Missing>,
}

impl<'a> ServerUse<'a> {
    /// - `members`: returns the processes of the series.
    pub(crate) fn of(whose: Whose, members: &'a dyn Fn() -> Vec<Pid>, watches: bool) -> Self {
        Self { whose, members, watches, from: None, until: None, levels: Vec::new(), no_levels: None }
    }

    /// Reads at the beginning and the end of the measured phase, and at the end of each interval of it.
    pub(crate) fn follow(&mut self, event: &Event) {
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } => {
                self.from = Some(self.read_io());
                self.read_level();
            }
            Event::MeasureEnds => self.until = Some(self.read_io()),
            Event::Interval(progress) if progress.phase == Phase::Measure => self.read_level(),
            _ => {}
        }
    }

    /// Returns the amounts, and adds the levels of memory to `series`; without levels, the reason goes to
    /// `missing`.
    pub(crate) fn end(
        mut self,
        (host, anchor): (&str, WallAnchor),
        series: &mut Vec<Sample>,
        missing: &mut BTreeMap<String, Missing>,
    ) -> Resources {
        let unread = || Missing::because("the measured phase did not begin or did not end");
        let from = self.from.take().unwrap_or_else(|| Err(unread()));
        let until = self.until.take().unwrap_or_else(|| Err(unread()));
        let used = |of: fn(&Moved) -> u64| moved(from.as_ref(), until.as_ref(), of);
        let resources = Resources::from([
            (Resource::Read, used(|m| m.read_bytes)),
            (Resource::Written, used(|m| m.written_bytes)),
        ]);
        let [host, name] = [host, SERVER_MEMORY].map(SharedText::from);
        let sample = |(at_ns, value): &(u64, f64)| Sample {
            t_ms: i64::try_from(at_ns.saturating_sub(anchor.monotonic_ns) / 1_000_000).unwrap_or(i64::MAX),
            host: host.clone(),
            name: name.clone(),
            labels: SharedText::default(),
            value: *value,
        };
        series.extend(self.levels.iter().map(sample));
        if let Some(why) = self.no_levels.filter(|_| self.watches) {
            missing.insert(SERVER_MEMORY.to_owned(), why);
        }
        resources
    }

    fn read_level(&mut self) {
        if !self.watches {
            return;
        }
        match level(self.whose, &(self.members)()) {
            Ok(bytes) => self.levels.push((Monotonic.now_ns(), bytes)),
            Err(why) => self.no_levels = Some(why),
        }
    }

    fn read_io(&self) -> Maybe<Reading> {
        let before_ns = Monotonic.now_ns();
        let processes = match self.whose {
            Whose::Server => io_of(&(self.members)(), Path::new("/proc"))?,
            Whose::Commands => BTreeMap::from([((0, 0), io_of_commands()?)]),
            other => return Err(other.missing()),
        };
        Ok(Reading { at_ns: before_ns.midpoint(Monotonic.now_ns()), processes })
    }
}

/// Level of the server's memory in bytes.
pub(crate) fn level(whose: Whose, members: &[Pid]) -> Maybe<f64> {
    match whose {
        Whose::Server => memory_of(members, Path::new("/proc")),
        Whose::Commands => Err(Missing::because("the commands of the load are short-lived")),
        other => Err(other.missing()),
    }
}

fn memory_of(members: &[Pid], proc: &Path) -> Maybe<f64> {
    let (mut own, mut shared, mut any) = (0_u64, 0_u64, false);
    for pid in members {
        // A process that ended since it was listed has no memory any more.
        let Ok(text) = process_time::text(proc.join(format!("{pid}/status"))) else { continue };
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        };
        // A zombie and a thread of the kernel have none of these lines.
        let Some(anonymous) = kib("RssAnon") else { continue };
        own += anonymous + kib("VmSwap").unwrap_or(0);
        shared = shared.max(kib("RssShmem").unwrap_or(0));
        any = true;
    }
    if any {
        Ok((own + shared) as f64 * 1024.0)
    } else {
        Err(Missing::because("the server's process has ended"))
    }
}

fn io_of(members: &[Pid], proc: &Path) -> Maybe<BTreeMap<Identity, Moved>> {
    let mut found = BTreeMap::new();
    for pid in members {
        let text = match process_time::text(proc.join(format!("{pid}/io"))) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(Missing::because(format!(
                    "reading the I/O of process {pid} of the server needs root"
                )));
            }
            // It has ended.
            Err(_) => continue,
        };
        let Some(moved) = bytes_of(&text) else { continue };
        let stat = process_time::text(proc.join(format!("{pid}/stat"))).unwrap_or_default();
        let Some(stat) = Stat::read(&stat) else { continue };
        if ignores_children(proc, pid.as_raw()) {
            return Err(Missing::because(format!(
                "process {pid} of the server ignores SIGCHLD, so the I/O of its exited children is lost"
            )));
        }
        found.insert((pid.as_raw(), stat.started), Moved { parent: stat.parent, ..moved });
    }
    if found.is_empty() { Err(Missing::because("the server's process has ended")) } else { Ok(found) }
}

/// Parses `/proc/PID/io`. What a process truncated before it was written back was never written.
fn bytes_of(text: &str) -> Option<Moved> {
    let number = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse::<u64>().ok())
    };
    Some(Moved {
        parent: 0,
        read_bytes: number("read_bytes")?,
        written_bytes: number("write_bytes")?.saturating_sub(number("cancelled_write_bytes").unwrap_or(0)),
    })
}

/// Returns the bytes of all commands that this process has reaped; the kernel counts blocks of 512 bytes.
fn io_of_commands() -> Maybe<Moved> {
    // SAFETY: all zeros is a valid value of the structure; the kernel fills it in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call returns.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        let why = std::io::Error::last_os_error();
        return Err(Missing::because(format!("cannot read the I/O of commands: {why}")));
    }
    let bytes = |blocks: i64| u64::try_from(blocks).unwrap_or(0) * 512;
    Ok(Moved { parent: 0, read_bytes: bytes(usage.ru_inblock), written_bytes: bytes(usage.ru_oublock) })
}

/// Amount between two readings.
///
/// # Errors
///
/// Missing if a process ended together with its parent: its bytes are lost.
fn moved(
    from: Result<&Reading, &Missing>,
    until: Result<&Reading, &Missing>,
    of: fn(&Moved) -> u64,
) -> Maybe<Used> {
    let (from, until) = (from.map_err(Clone::clone)?, until.map_err(Clone::clone)?);
    let is_there = |pid: i32| until.processes.keys().any(|(known, _)| *known == pid);
    let lost = from
        .processes
        .iter()
        .find(|(identity, then)| !until.processes.contains_key(identity) && !is_there(then.parent));
    if let Some(((pid, _), _)) = lost {
        return Err(Missing::because(format!(
            "process {pid} of the server ended, and no other process of the server counts its I/O"
        )));
    }
    let sum = |reading: &Reading| reading.processes.values().map(of).sum::<u64>();
    let amount = sum(until).checked_sub(sum(from));
    let amount = amount.ok_or_else(|| Missing::because("the server's I/O went backwards"))?;
    Ok(Used { amount: amount as f64, by: UsedBy::Server, from_ns: from.at_ns, until_ns: until.at_ns })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn reading(processes: &[(i32, i32, u64)]) -> Reading {
        let moved = |(pid, parent, written): &(i32, i32, u64)| {
            ((*pid, 7), Moved { parent: *parent, read_bytes: 0, written_bytes: *written })
        };
        Reading { at_ns: 0, processes: processes.iter().map(moved).collect() }
    }

    fn written(from: &[(i32, i32, u64)], until: &[(i32, i32, u64)]) -> Maybe<f64> {
        let (from, until) = (reading(from), reading(until));
        Ok(moved(Ok(&from), Ok(&until), |m| m.written_bytes)?.amount)
    }

    #[test]
    fn a_child_that_ended_left_its_bytes_to_its_parent_or_the_sum_is_missing() {
        // 11 wrote 5 more and ended; its parent, 10, has what it wrote from the start.
        assert_eq!(written(&[(10, 1, 100), (11, 10, 20)], &[(10, 1, 125)]), Ok(5.0));
        assert_eq!(written(&[(10, 1, 100)], &[(10, 1, 100), (12, 10, 7)]), Ok(7.0));
        assert!(written(&[(10, 1, 100), (11, 9, 20)], &[(10, 1, 130)]).is_err());
        assert!(written(&[(10, 1, 100)], &[(10, 1, 90)]).is_err());
    }

    #[test]
    fn a_process_that_got_the_id_of_one_that_ended_did_not_inherit_its_bytes() {
        let (from, mut until) = (reading(&[(10, 1, 0), (11, 9, 20)]), reading(&[(10, 1, 0)]));
        until.processes.insert((11, 8), Moved { parent: 10, read_bytes: 0, written_bytes: 50 });
        assert!(moved(Ok(&from), Ok(&until), |m| m.written_bytes).is_err());
    }

    /// The kernel does not hand the bytes of children to a parent that ignores their end.
    #[test]
    fn a_server_that_ignores_its_children_has_no_bytes_that_can_be_trusted() {
        let mut child = std::process::Command::new("env")
            // A shell would install its own handler.
            .args(["--ignore-signal=CHLD", "cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"ready\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let found = io_of(&[Pid::from_raw(child.id().cast_signed())], Path::new("/proc"));
        assert!(found.is_err_and(|m| m.reason.contains("ignores SIGCHLD")));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn memory_is_what_processes_have_alone_and_their_shared_memory_once() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: i32, status: &str| {
            fs::create_dir(proc.path().join(pid.to_string())).unwrap();
            fs::write(proc.path().join(format!("{pid}/status")), status).unwrap();
        };
        process(5, "Name:\tx\nRssAnon:\t  100 kB\nRssFile:\t 999 kB\nRssShmem:\t 1000 kB\nVmSwap:\t 10 kB\n");
        process(6, "Name:\tx\nRssAnon:\t   50 kB\nRssShmem:\t  400 kB\nVmSwap:\t  0 kB\n");
        process(7, "Name:\tzombie\n");
        let pids = |pids: &[i32]| pids.iter().map(|p| Pid::from_raw(*p)).collect::<Vec<_>>();
        assert_eq!(memory_of(&pids(&[5, 6, 7, 8]), proc.path()), Ok(1_160.0 * 1_024.0));
        assert!(memory_of(&pids(&[7, 8]), proc.path()).is_err());
    }

    #[test]
    fn bytes_of_files_that_were_cancelled_were_not_written() {
        let text = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(bytes_of(text), Some(Moved { parent: 0, read_bytes: 4096, written_bytes: 4096 }));
        assert_eq!(bytes_of("rchar: 9\n"), None);
    }

    /// The truth is a file of known size, written through to the disk by a child.
    #[test]
    fn the_bytes_that_a_process_wrote_are_counted_and_memory_is_no_storage() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sh")
            .args([
                "-c",
                "read x; dd if=/dev/zero of=file bs=64k count=32 conv=fsync 2>/dev/null; echo done; read x",
            ])
            .current_dir(folder.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let read = || Reading { at_ns: 0, processes: io_of(&[pid], Path::new("/proc")).unwrap() };
        let from = read();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let until = read();
        let bytes = moved(Ok(&from), Ok(&until), |m| m.written_bytes).unwrap().amount;
        let is_memory = nix::sys::statfs::statfs(folder.path()).unwrap().filesystem_type()
            == nix::sys::statfs::TMPFS_MAGIC;
        if is_memory {
            assert!(bytes < 2_097_152.0, "{bytes}");
        } else {
            assert!((2_097_152.0..2_500_000.0).contains(&bytes), "{bytes}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
