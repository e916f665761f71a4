//! Outputs: a new file that gets its name only when it is complete, or standard output.

use super::args::Args;
use super::attributes;
use super::entry::{self, Entry, Identity};
use super::input::{Input, enlarge_pipe};
use super::outcome::warn;
use crate::{descriptors, signal};
use anyhow::{Context, bail};
use rustix::fs::{OFlags, Stat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Destination of the output.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file under a temporary name.
    New(NewFile),
    /// Standard output, or an existing file other than a regular one.
    Existing(Arc<File>),
    /// Discarded: `--test`.
    None,
}

impl Output {
    /// Opens standard output; an error if it is the input itself, or a terminal that would get compressed
    /// data.
    pub(crate) fn stdout(args: &Args, holds: Holds, input: &Input) -> anyhow::Result<Self> {
        if descriptors::was_closed(1) {
            bail!("standard output is closed");
        }
        refuse_terminal(&io::stdout(), args, holds)?;
        let file = File::from(rustix::io::dup(rustix::stdio::stdout()).context("opening standard output")?);
        refuse_needed(&rustix::fs::fstat(&file)?, args, input)?;
        enlarge_pipe(&file);
        Ok(Self::Existing(file.into()))
    }

    /// Creates a file that will be named `path`; `None` if it exists, after a warning.
    pub(crate) fn create(
        path: &Path,
        args: &Args,
        holds: Holds,
        input: &Input,
    ) -> anyhow::Result<Option<Self>> {
        if is_standard_output(path) {
            return Self::stdout(args, holds, input).map(Some);
        }
        let entry = Entry::named(path).with_context(|| format!("creating {}", path.display()))?;
        if let Some(file) = existing(&entry, args, input)? {
            refuse_terminal(&file, args, holds)?;
            return Ok(Some(Self::Existing(file.into())));
        }
        Self::new_file(entry, args)
    }

    /// Variant of `create` in the folder of the input.
    pub(crate) fn create_beside(
        input_entry: &Entry,
        path: PathBuf,
        args: &Args,
        input: &Input,
    ) -> anyhow::Result<Option<Self>> {
        let entry = input_entry.beside(path);
        refuse(&entry, args, input)?;
        Self::new_file(entry, args)
    }

    fn new_file(entry: Entry, args: &Args) -> anyhow::Result<Option<Self>> {
        if !args.force && entry.link_state().is_ok() {
            warn(args, &format_args!("{} already exists; use -f to overwrite it", entry.path().display()));
            return Ok(None);
        }
        let context = format!("creating {}", entry.path().display());
        NewFile::create(entry).map(|file| Some(Self::New(file))).context(context)
    }

    /// Returns the file and the offset to write at, if it can be written at any offset.
    pub(crate) fn place(&self) -> io::Result<Option<(&File, u64)>> {
        match self {
            Self::New(new) => Ok(Some((&new.file, 0))),
            Self::None => Ok(None),
            Self::Existing(file) => {
                let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
                if !file.metadata()?.is_file() || appends {
                    return Ok(None);
                }
                Ok(Some((file, (&**file).stream_position()?)))
            }
        }
    }

    /// Whether the output is appended to existing content of the same file.
    pub(crate) fn continues(&self) -> io::Result<bool> {
        let Self::Existing(file) = self else { return Ok(false) };
        let metadata = file.metadata()?;
        let at = self.place()?.map_or(metadata.len(), |(_, at)| at);
        Ok(metadata.is_file() && at > 0)
    }

    /// Returns the file to write to as a stream. It is not a duplicate: closing a duplicate would drop the
    /// errors that close(2) reports.
    pub(crate) fn stream(&self) -> Option<Arc<File>> {
        match self {
            Self::New(new) => Some(Arc::clone(&new.file)),
            Self::Existing(file) => Some(Arc::clone(file)),
            Self::None => None,
        }
    }

    /// Whether runs of zeros from `at` on may become holes.
    pub(crate) fn may_be_sparse(&self, args: &Args, at: u64) -> io::Result<bool> {
        Ok(!args.no_sparse && self.is_free_from(at)?)
    }

    /// Whether it is a regular file that has no bytes from `at` on.
    pub(crate) fn is_free_from(&self, at: u64) -> io::Result<bool> {
        match self {
            Self::New(_) => Ok(true),
            Self::Existing(file) => file.metadata().map(|found| found.is_file() && found.len() <= at),
            Self::None => Ok(false),
        }
    }

    /// Moves the offset of standard output to where the next writer continues.
    pub(crate) fn pass(&self, end: u64) -> io::Result<()> {
        match self {
            Self::Existing(file) => (&**file).seek(SeekFrom::Start(end)).map(drop),
            Self::New(_) | Self::None => Ok(()),
        }
    }

    /// Whether this is a new file, not standard output or a device.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// Completes the output, and gives a new file its attributes and its name.
    pub(crate) fn finish(self, input: &Input, args: &Args) -> anyhow::Result<()> {
        if let Some(file) = self.stream() {
            descriptors::flush(&file).context("writing the output")?;
        }
        let Self::New(new) = self else { return Ok(()) };
        if input.entry.is_some() {
            attributes::copy(&input.file, &input.metadata, &new.file);
        } else {
            attributes::usual(&new.file)?;
        }
        if !args.no_sync {
            new.file.sync_all().context("writing the output to disk")?;
        }
        if args.direct {
            // Advice only.
            let _ = rustix::fs::fadvise(&new.file, 0, None, rustix::fs::Advice::DontNeed);
        }
        new.rename(args)
    }
}

/// Opens an existing file that is written in place: a device, a pipe, or the target of an open descriptor.
/// Refuses another user's pipe, and another user's link to a device.
fn existing(entry: &Entry, args: &Args, input: &Input) -> anyhow::Result<Option<File>> {
    let Some(found) = refuse(entry, args, input)? else { return Ok(None) };
    let is_file = entry::kind(&found).is_file();
    // The old file may be longer, and its end would follow the output.
    let is_overwritten = is_file && found.st_size > 0;
    if is_file && !is_descriptor(entry) || is_overwritten && !args.force {
        return Ok(None);
    }
    let me = rustix::process::geteuid().as_raw();
    let Some(file) = entry.open_own(me).context("opening the output")? else { return Ok(None) };
    let opened = rustix::fs::fstat(&file)?;
    if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino) {
        bail!("the output was replaced while it was opened");
    }
    if is_overwritten {
        file.set_len(0).context("emptying the output")?;
    }
    Ok(Some(file))
}

/// Refuses the input itself, which overwriting would corrupt while it is read, and when compressing the file
/// of `--patch-from` or `-D`, because reading the output takes that file.
fn refuse_needed(found: &Stat, args: &Args, input: &Input) -> anyhow::Result<()> {
    if !entry::kind(found).is_file() {
        return Ok(());
    }
    if input.is(found) {
        bail!("the output is the input itself");
    }
    if let Some(option) = args.needs(&Identity::of_stat(found)).filter(|_| !args.reads_compressed()) {
        bail!(
            "the output is the file of {option}, and reading the output needs that file; choose another name"
        );
    }
    Ok(())
}

/// Refuses a folder, and a file that is needed. Returns the state of an existing file.
fn refuse(entry: &Entry, args: &Args, input: &Input) -> anyhow::Result<Option<Stat>> {
    let Ok(found) = entry.state() else { return Ok(None) };
    refuse_needed(&found, args, input)?;
    if entry::kind(&found).is_dir() {
        bail!("{} is a directory", entry.path().display());
    }
    Ok(Some(found))
}

/// Refuses to write compressed data to a terminal, which would act on control bytes.
fn refuse_terminal(output: &impl IsTerminal, args: &Args, holds: Holds) -> anyhow::Result<()> {
    if holds == Holds::Compressed && !args.force && output.is_terminal() {
        bail!("compressed data not written to a terminal; use -f to force compression");
    }
    Ok(())
}

/// Content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Compressed,
    Content,
}

/// A file under a temporary name beside its final one; removed if it is never renamed.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: Arc<File>,
    temporary: Entry,
    entry: Entry,
    is_named: bool,
}

impl NewFile {
    fn create(entry: Entry) -> io::Result<Self> {
        let Some(name) = entry.path().file_name() else { return Err(io::ErrorKind::InvalidFilename.into()) };
        for _ in 0..TEMPORARY_NAMES {
            let temporary = entry.beside(entry.path().with_file_name(temporary_name(name)));
            match temporary.create_new() {
                Ok(file) => {
                    signal::set_unfinished(Some(temporary.path()));
                    return Ok(Self { file: file.into(), temporary, entry, is_named: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn rename(mut self, args: &Args) -> anyhow::Result<()> {
        let (from, to) = (&self.temporary, &self.entry);
        let renamed = if args.force { from.replace(to) } else { from.rename_new(to) };
        renamed.with_context(|| format!("naming the output {}", self.entry.path().display()))?;
        self.is_named = true;
        if !args.no_sync {
            // The name, too, must be on disk before the input is removed.
            match self.entry.sync_folder() {
                // Some file systems cannot sync folders, and a folder may be writable but not readable.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.context("syncing the folder")?,
            }
        }
        Ok(())
    }
}

/// Whether `path` names this process's standard output.
fn is_standard_output(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|known| path == Path::new(known))
}

/// Whether `entry` leads to an open file: it is in a folder of `/proc`, or a link of `/dev` into it.
fn is_descriptor(entry: &Entry) -> bool {
    let is_link = entry.link_state().is_ok_and(|found| entry::kind(&found).is_symlink());
    let is_device = || {
        let folder = entry.path().parent().and_then(|folder| folder.canonicalize().ok());
        folder.is_some_and(|folder| folder == Path::new("/dev"))
    };
    is_link && (entry.is_of_the_kernel() || is_device())
}

/// Number of attempts.
const TEMPORARY_NAMES: u32 = 10;

/// Returns a name that another user cannot guess: the hasher's keys are random.
fn temporary_name(name: &OsStr) -> OsString {
    let draw = || RandomState::new().build_hasher().finish();
    let ending = format!(".tamp-{:016x}{:016x}", draw(), draw());
    // The longest names leave no room for a suffix.
    if 1 + name.len() + ending.len() > 255 {
        return ending.into();
    }
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(ending);
    hidden
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_named {
            // Earlier failures were reported; this only cleans up.
            let _ = self.temporary.remove();
        }
        signal::set_unfinished(None);
    }
}
