//! Options, arguments and output that several commands share.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use archive::Archive;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use record::run::RunId;
use record::target::Target;

use crate::confine::Reader;
use crate::exit::Exit;

/// Options that every command has.
#[derive(Debug)]
pub(crate) struct Global {
    archive: Option<PathBuf>,
    /// Print JSON instead of text.
    pub(crate) json: bool,
}

impl Global {
    /// - `archive`: folder of the archive, if it is not the user's default.
    pub(crate) fn new(archive: Option<PathBuf>, json: bool) -> Self {
        Self { archive, json }
    }

    /// Opens the archive, and creates it if necessary.
    pub(crate) fn archive_for_writing(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open(&self.archive_folder()?)?)
    }

    /// Opens the archive for writing, even as root in another user's folder: the user has given `--trust`.
    pub(crate) fn trusted_archive(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open_trusted(&self.archive_folder()?)?)
    }

    /// Opens an existing archive.
    pub(crate) fn archive(&self) -> anyhow::Result<Archive> {
        Ok(Archive::open_existing(&self.archive_folder()?)?)
    }

    /// Name of an archived run for people: accepted wherever a run is named.
    pub(crate) fn short_name(&self, id: RunId) -> String {
        let short = self.archive().ok().and_then(|archive| archive.short_names(&[id]).ok()?.pop());
        // An index that cannot be read must not hide a result; the id always works.
        short.unwrap_or_else(|| id.to_string())
    }

    /// Drops, for the rest of the process, the rights that a reader of untrusted files does not need: it
    /// keeps those of `reader`, and the archive.
    pub(crate) fn confine(&self, reader: Reader, command: &str, verbose: bool) -> anyhow::Result<()> {
        reader.writes(&self.archive_folder()?).confine(command, verbose);
        Ok(())
    }

    /// Folder of the archive, whether it exists or not.
    pub(crate) fn archive_folder(&self) -> anyhow::Result<PathBuf> {
        match &self.archive {
            Some(folder) => Ok(folder.clone()),
            None => Ok(archive::default_dir(|name| std::env::var_os(name))?),
        }
    }
}

/// Reads the id of an existing process; without the process, nothing could be measured.
pub(crate) fn process(text: &str) -> Result<u32, String> {
    let pid = text.parse().map_err(|_| "expected the id of a process, such as 4711".to_owned())?;
    probes::process_time::find(pid).map_err(|missing| missing.reason)
}

/// Reads the control group of a path.
pub(crate) fn cgroup(text: &str) -> Result<probes::cgroups::Cgroup, String> {
    probes::cgroups::find(text).map_err(|e| e.to_string())
}

/// A further key that separates threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ByGroup {
    /// The control group of version 2
    Cgroup,
}

/// Refuses `--by cgroup` if every thread would be in one unknown group.
pub(crate) fn check_cgroups(by: bool) -> anyhow::Result<()> {
    if by && let Err(error) = probes::cgroups::mounted() {
        return Err(Exit::CannotHere.with(error.to_string()));
    }
    Ok(())
}

/// `07:42:45` in the user's time zone.
pub(crate) fn local_time(unix_ns: u64) -> String {
    let at =
        Timestamp::from_nanosecond(i128::from(unix_ns)).expect("a clock shows a time before the year 9999");
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Prints one JSON document and a newline.
pub(crate) fn print_json(out: &mut dyn Write, document: &serde_json::Value) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    Ok(writeln!(out)?)
}

/// Words of the command that runs, after the translation of `--like`.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Stores the words of the command that runs. Only the first call has an effect.
pub(crate) fn remember_words(words: Vec<OsString>) {
    let _ = WORDS.set(words);
}

/// Words of the command that runs, from the program's name on.
#[cfg(feature = "fleet")]
pub(crate) fn words() -> Vec<String> {
    let words = WORDS.get_or_init(|| std::env::args_os().collect());
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The command line in shell syntax, with the target's password masked.
pub(crate) fn command_line(target: Option<&Target>) -> String {
    let masked = |word: String| match target {
        Some(target) if word == target.expose() => target.masked(),
        _ => word,
    };
    let words = WORDS.get_or_init(|| std::env::args_os().collect());
    record::run::command_line(words.iter().map(|word| masked(word.to_string_lossy().into_owned())))
}

/// Marks an error of the archive: a wrong name is a wrong command line.
pub(crate) fn of_archive(error: archive::ArchiveError) -> anyhow::Error {
    use archive::ArchiveError::{Ambiguous, NoneOfKind, NotFound, PartOfBakeoff, Queued};
    match error {
        NotFound { .. } | NoneOfKind { .. } | Ambiguous { .. } | PartOfBakeoff { .. } | Queued { .. } => {
            Exit::Usage.with(error)
        }
        _ => error.into(),
    }
}
