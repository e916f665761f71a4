//! One process in `/proc`: whether it exists, and its CPU time, in ticks of 10 ms.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use nix::unistd::{SysconfVar, sysconf};
use record::missing::{Maybe, Missing};

/// Checks that `/proc` belongs to this PID namespace. After `unshare --pid` without a new `/proc`, an id
/// there is another process than the one that has it here.
///
/// # Errors
///
/// Missing if it does not, with a remedy.
pub fn ids_are_those_of_proc() -> Maybe<()> {
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    let own =
        || fs::read_link("/proc/self").is_ok_and(|own| own.as_os_str() == &*std::process::id().to_string());
    if *IS_OURS.get_or_init(own) {
        return Ok(());
    }
    let why = "/proc belongs to another PID namespace, with other ids: mount this namespace's (`mount -t \
               proc proc /proc`)";
    Err(Missing::because(why))
}

/// CPU time of the process and of the children that it has waited for; a zombie's too.
///
/// # Errors
///
/// Missing if `/proc` lacks it.
pub fn with_children_ns(pid: u32) -> Maybe<u64> {
    ids_are_those_of_proc()?;
    let path = format!("/proc/{pid}/stat");
    let text = text(&path).map_err(|e| Missing::because(format!("{path}: {e}")))?;
    let ticks = ticks(&text).ok_or_else(|| Missing::because(format!("{path} has an unexpected format")))?;
    let per_s =
        sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|t| u64::try_from(t).ok()).unwrap_or(100);
    Ok(ticks * 1_000_000_000 / per_s)
}

/// Returns `pid` if a process has this id now.
///
/// # Errors
///
/// Missing if no process has this id. If a thread has it, the reason names its process.
pub fn find(pid: u32) -> Maybe<u32> {
    ids_are_those_of_proc()?;
    let status = text(format!("/proc/{pid}/status"))
        .map_err(|_| Missing::because(format!("there is no process {pid}")))?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
    match process {
        Some(process) if process != pid => {
            Err(Missing::because(format!("{pid} is a thread of process {process}: give the process")))
        }
        _ => Ok(pid),
    }
}

/// A process that is watched until it ends; another one may reuse its id later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    pid: u32,
    /// Start in ticks since boot; `None` if it had already ended.
    started: Option<u64>,
}

impl Watched {
    /// Watches the process that has this id now.
    pub fn of(pid: u32) -> Self {
        Self { pid, started: started(pid) }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process is gone or has no living thread; it may still be there for its parent.
    pub fn has_ended(&self) -> bool {
        self.started.is_none() || started(self.pid) != self.started
    }
}

/// More than an ordinary process has mapped; a malicious one, with many mappings of long paths, makes `maps`
/// of any length.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// The first 16 MiB of a file of `/proc`. The name of a process may be any bytes: those that are not UTF-8
/// are replaced.
///
/// # Errors
///
/// If there is no such file, or the process has ended.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|other| String::from_utf8_lossy(other.as_bytes()).into_owned()))
}

/// Variant of [`text`] that returns bytes. A process controls the bounds of its environment and its
/// arguments, and so their length.
///
/// # Errors
///
/// Same as [`text`].
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Start time of a living process: starttime of proc(5). The end of its first thread alone is not its end.
fn started(pid: u32) -> Option<u64> {
    let text = text(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    let is_over = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
    if is_over { None } else { fields.get(19)?.parse().ok() }
}

/// Sum of utime, stime, cutime and cstime, which follow the name; a name may hold anything but the last
/// parenthesis.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
    fields.get(11..15)?.iter().map(|f| f.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_columns_are_summed_whatever_the_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(110));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert_eq!(ticks(""), None);
        assert!(with_children_ns(std::process::id()).is_ok());
        assert!(with_children_ns(u32::MAX).is_err());
    }

    #[test]
    fn a_process_has_ended_when_it_has_and_is_not_waited_for() {
        assert!(!Watched::of(std::process::id()).has_ended());
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let watched = Watched::of(child.id());
        assert!(!watched.has_ended());
        drop(child.stdin.take());
        while !watched.has_ended() {
            std::thread::yield_now();
        }
        // A zombie was there all the time.
        assert!(find(child.id()).is_ok());
        child.wait().unwrap();
        assert!(watched.has_ended() && Watched::of(child.id()).has_ended());
    }

    #[test]
    fn processes_are_found_and_their_threads_are_told_from_them() {
        let own = std::process::id();
        assert_eq!(find(own), Ok(own));
        assert_eq!(find(u32::MAX), Err(Missing::because("there is no process 4294967295")));
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| find(nix::unistd::gettid().as_raw().cast_unsigned())).join().unwrap()
        });
        assert!(refused.unwrap_err().reason.contains(&format!("a thread of process {own}")));
    }
}
