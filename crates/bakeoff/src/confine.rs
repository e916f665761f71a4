//! Fewer rights: what a command does not need, it gives up before it reads what others wrote.
//!
//! Three fences, each on its own, and each optional: capabilities (only root has any), Landlock (which files and
//! networks can be opened) and seccomp (which system calls are answered). A kernel without one of them has the others;
//! `-v` says what is missing.

use std::path::{Path, PathBuf};

use confine::{capabilities, landlock, seccomp};

pub(crate) use confine::capabilities::{after_setup, at_start, drop_all};

use crate::screen::Screen;

/// What a command that only reads what others wrote may still open.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
}

/// Where dates get their zones from.
const ZONES: [&str; 3] = ["/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone"];

impl Reader {
    /// May read `path` and what is below it.
    pub(crate) fn reads(mut self, path: &Path) -> Self {
        self.reads.push(path.to_owned());
        self
    }

    /// May read the files that the command line names, whichever option they stand behind.
    pub(crate) fn reads_named(self) -> Self {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        let values =
            words.iter().filter_map(|word| word.to_str()?.split_once('=').map(|(_, value)| value.into()));
        let named = words.iter().map(PathBuf::from).chain(values);
        named.filter(|path| path.exists() && !path.is_dir()).fold(self, |reader, path| reader.reads(&path))
    }

    /// May also write below `folder`; where there is none yet, below the nearest folder above it that there is.
    pub(crate) fn writes(mut self, folder: &Path) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let there = folder.ancestors().find(|f| !f.as_os_str().is_empty() && f.is_dir());
        self.writes.push(there.unwrap_or(Path::new(".")).to_owned());
        self
    }

    /// May write a file of that name, which replaces the one that is there.
    pub(crate) fn writes_file(self, path: Option<&Path>) -> Self {
        let Some(path) = path else { return self };
        let reader = self.writes(path.parent().unwrap_or(Path::new(".")));
        // A pipe or a device is written to as it is.
        if path.metadata().is_ok_and(|found| !found.is_file()) { reader.writes(path) } else { reader }
    }

    /// Gives up everything else, for the rest of the process. Threads that run already keep what they have.
    pub(crate) fn confine(self, command: &str, verbose: bool) {
        let say = |fence: &str, missing: std::io::Result<()>| {
            if let Err(error) = missing
                && verbose
            {
                Screen::new().line(&format!("bakeoff {command}: reads without {fence} ({error})"));
            }
        };
        say("dropped capabilities", capabilities::keep_files());
        let zones = ZONES.iter().map(PathBuf::from);
        let reads: Vec<PathBuf> = self.reads.into_iter().chain(zones).collect();
        say("Landlock", landlock::restrict(&reads, &self.writes));
        say("a seccomp filter", seccomp::refuse());
    }
}
