//! Fewer rights: a command drops the rights that it does not need before it reads untrusted files.
//!
//! Three independent and optional fences: capabilities (only root has any), Landlock (the files and networks
//! that can be opened) and seccomp (the system calls that are answered). If a kernel lacks one, the others
//! still apply; `-v` prints what is missing.

use std::path::{Path, PathBuf};

use confine::{capabilities, landlock, seccomp};

pub(crate) use confine::capabilities::{after_setup, after_setup_of_load, at_start, drop_all};

use crate::screen::Screen;

/// Paths that a command may still open if it only reads untrusted files.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
}

/// Files of the time zone data.
const ZONES: [&str; 3] = ["/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone"];

impl Reader {
    /// Allows reading `path` and everything below it.
    pub(crate) fn reads(mut self, path: &Path) -> Self {
        self.reads.push(path.to_owned());
        self
    }

    /// Allows reading the files that the command line names, in any option.
    pub(crate) fn reads_named(self) -> Self {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        let values =
            words.iter().filter_map(|word| word.to_str()?.split_once('=').map(|(_, value)| value.into()));
        let named = words.iter().map(PathBuf::from).chain(values);
        named.filter(|path| path.exists() && !path.is_dir()).fold(self, |reader, path| reader.reads(&path))
    }

    /// Allows reading and writing below `folder`, or below its nearest existing parent.
    pub(crate) fn writes(mut self, folder: &Path) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let there = folder.ancestors().find(|f| !f.as_os_str().is_empty() && f.is_dir());
        self.writes.push(there.unwrap_or(Path::new(".")).to_owned());
        self
    }

    /// Allows writing a file of that name, which replaces an existing one.
    pub(crate) fn writes_file(self, path: Option<&Path>) -> Self {
        let Some(path) = path else { return self };
        let reader = self.writes(path.parent().unwrap_or(Path::new(".")));
        // A pipe or a device is written in place.
        if path.metadata().is_ok_and(|found| !found.is_file()) { reader.writes(path) } else { reader }
    }

    /// Drops all other rights for the rest of the process. Threads that already run keep theirs.
    pub(crate) fn confine(self, command: &str, verbose: bool) {
        self.confine_with(seccomp::refuse, command, verbose);
    }

    /// Variant of [`Self::confine`] for a server that already listens.
    #[cfg(feature = "serve")]
    pub(crate) fn confine_server(self, command: &str) {
        self.confine_with(seccomp::refuse_in_server, command, false);
    }

    fn confine_with(self, refuse: fn() -> std::io::Result<()>, command: &str, verbose: bool) {
        let say = |fence: &str, missing: std::io::Result<()>| {
            if let Err(error) = missing
                && verbose
            {
                Screen::new().line(&format!("bakeoff {command}: sandbox without {fence} ({error})"));
            }
        };
        say("dropped capabilities", capabilities::keep_files());
        let zones = ZONES.iter().map(PathBuf::from);
        let reads: Vec<PathBuf> = self.reads.into_iter().chain(zones).collect();
        say("Landlock", landlock::restrict(&reads, &self.writes));
        say("a seccomp filter", refuse());
    }
}
