//! Decoders read what others wrote: before they do, the process gives up what it does not need for that.

use super::args::Args;
use super::say;
use confine::{capabilities, landlock, seccomp};
use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The number of CPUs, and the memory that was needed, are read from here.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// Keeps the rights to read the named files, to write beside them and to give new files their attributes.
/// Call it before the first file is opened and before a thread is started.
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
    // Links below a folder may lead anywhere; they are followed only if both options say so.
    if !(args.recursive && args.force) {
        let (reads, writes) = paths(args, makes_files);
        tell("Landlock", landlock::restrict(&reads, &writes));
    }
    tell("a seccomp filter", seccomp::refuse());
}

/// What may be read, and what may also be written. A folder stands for all below it.
fn paths(args: &Args, makes_files: bool) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
    for path in args.files.iter().chain(&args.patch_from) {
        // A file that is replaced while another one is read keeps its folder; where a link leads is a place
        // by itself.
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
            // A pipe or a device is written to as it is.
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

/// Does `work` in a thread that has no capability, nor have the threads that it starts: it reads and writes
/// open files only.
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
