//! Giving up rights: before it decodes foreign files, the process drops every right that decoding does not
//! need.

use super::args::Args;
use super::outcome::say;
use confine::{capabilities, landlock, seccomp};
use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folders for the number of CPUs and the peak memory.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// Keeps only the rights to read the named files, to write beside them and to set the attributes of new
/// files. Call it before the first file is opened and before a thread starts.
pub(crate) fn give_up(args: &Args) {
    let tell = |fence: &str, missing: io::Result<()>| {
        if let Err(error) = missing
            && args.verbose
        {
            say(&format_args!("decodes without {fence} ({error})"));
        }
    };
    let makes_files = !(args.test || args.list || args.stdout && !args.rm);
    let kept = if makes_files { capabilities::keep_new_files() } else { capabilities::keep_files() };
    tell("dropped capabilities", kept);
    // Links below a folder may lead anywhere; they are followed only with both options.
    if !(args.recursive && args.force) {
        let (reads, writes) = paths(args, makes_files);
        tell("Landlock", landlock::restrict(&reads, &writes));
    }
    // Decoding threads of root drop the rest of its capabilities.
    let refuse = if capabilities::has_any() { seccomp::refuse_but_dropping } else { seccomp::refuse };
    tell("a seccomp filter", refuse());
}

/// Returns the paths to read and the paths to write. A folder stands for everything below it.
fn paths(args: &Args, makes_files: bool) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
    for path in args.files.iter().chain(&args.patch_from) {
        // The file's folder stays readable if the file is replaced meanwhile; the target of a link is a
        // separate path.
        reads.extend([path.clone(), folder_of(path)]);
    }
    if makes_files {
        let beside = args.output.is_none() || args.rm;
        writes.extend(args.files.iter().filter(|_| beside).map(|path| {
            let inside = args.recursive && path.is_dir();
            if inside { path.clone() } else { folder_of(path) }
        }));
        if let Some(output) = &args.output {
            writes.insert(folder_of(output));
            // A pipe or a device is written in place.
            writes.extend(output.exists().then(|| output.clone()));
        }
    }
    reads.extend(OF_THE_KERNEL.map(PathBuf::from));
    (reads.into_iter().collect(), writes.into_iter().collect())
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Runs `work` in a thread without capabilities, which the threads that it starts inherit. The thread reads
/// and writes only open files.
pub(crate) fn decode<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if !capabilities::has_any() {
        return work();
    }
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = || {
        capabilities::drop_all();
        take().map(|work| work())
    };
    let done = std::thread::scope(|scope| {
        let started = std::thread::Builder::new().name("tamp".into()).spawn_scoped(scope, run).ok()?;
        started.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    done.or_else(|| take().map(|work| work())).expect("it is done by the thread, or here if none can be had")
}
