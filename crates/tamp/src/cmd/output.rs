//! What is written: a new file that gets its name only when it is whole, or standard output.

use super::args::Args;
use super::input::{Input, create_new, enlarge_pipe};
use super::{attributes, warn};
use crate::{descriptors, signal};
use anyhow::{Context, bail};
use rustix::fs::{CWD, OFlags, RenameFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where output goes.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file under a temporary name.
    New(NewFile),
    /// Standard output, or an existing file other than a regular one.
    Existing(File),
    /// Nowhere: `--test`.
    None,
}

impl Output {
    /// Standard output, unless it is a terminal and holds compressed data, or the input itself.
    pub(crate) fn stdout(args: &Args, holds: Holds, input: &Input) -> anyhow::Result<Self> {
        if descriptors::was_closed(1) {
            bail!("standard output is closed");
        }
        if holds == Holds::Compressed && !args.force && io::stdout().is_terminal() {
            bail!("compressed data not written to a terminal; use -f to force compression");
        }
        let file = File::from(rustix::io::dup(rustix::stdio::stdout()).context("opening standard output")?);
        refuse_input(&file.metadata()?, input)?;
        enlarge_pipe(&file);
        Ok(Self::Existing(file))
    }

    /// A file that will be named `path`; `None`: it exists, and a warning was printed.
    pub(crate) fn create(path: &Path, args: &Args, input: &Input) -> anyhow::Result<Option<Self>> {
        if is_standard_output(path) {
            return Self::stdout(args, Holds::Content, input).map(Some);
        }
        if let Ok(metadata) = path.metadata() {
            refuse_input(&metadata, input)?;
            if metadata.is_dir() {
                bail!("{} is a directory", path.display());
            }
            let is_device = !metadata.is_file() || is_descriptor(path);
            // A longer file would keep its end behind the output.
            let is_overwritten = metadata.is_file() && metadata.len() > 0;
            if is_device && args.output.is_some() && is_ours(path) && (args.force || !is_overwritten) {
                let mut options = File::options();
                options.write(true).truncate(is_overwritten);
                let file = options.open(path).context("opening the output")?;
                return Ok(Some(Self::Existing(file)));
            }
        }
        if !args.force && path.symlink_metadata().is_ok() {
            warn(args, &format_args!("{} already exists; use -f to overwrite it", path.display()));
            return Ok(None);
        }
        let context = || format!("creating {}", path.display());
        NewFile::create(path).map(|file| Some(Self::New(file))).with_context(context)
    }

    /// The file and where to write in it, if bytes can be put at any place of it.
    pub(crate) fn place(&self) -> io::Result<Option<(&File, u64)>> {
        match self {
            Self::New(new) => Ok(Some((&new.file, 0))),
            Self::None => Ok(None),
            Self::Existing(file) => {
                let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
                if !file.metadata()?.is_file() || appends {
                    return Ok(None);
                }
                let mut file_ref = file;
                Ok(Some((file, file_ref.stream_position()?)))
            }
        }
    }

    /// Whether it is appended to what the same file already has.
    pub(crate) fn continues(&self) -> io::Result<bool> {
        let Self::Existing(file) = self else { return Ok(false) };
        let metadata = file.metadata()?;
        let at = self.place()?.map_or(metadata.len(), |(_, at)| at);
        Ok(metadata.is_file() && at > 0)
    }

    /// The file to write to as a stream.
    pub(crate) fn stream(&self) -> io::Result<Option<File>> {
        match self {
            Self::New(new) => new.file.try_clone().map(Some),
            Self::Existing(file) => file.try_clone().map(Some),
            Self::None => Ok(None),
        }
    }

    /// Whether a run of zeros may be left out from `at` on.
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

    /// Moves standard output to where the next writer shall go on.
    pub(crate) fn pass(&self, end: u64) -> io::Result<()> {
        match self {
            Self::Existing(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(end)).map(drop)
            }
            Self::New(_) | Self::None => Ok(()),
        }
    }

    /// Whether this is a new file, not standard output or a device.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// Gives a new file its attributes and its name.
    pub(crate) fn finish(self, input: &Input, args: &Args) -> anyhow::Result<()> {
        let Self::New(new) = self else { return Ok(()) };
        if input.path.is_some() {
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

/// Whether root or this user owns what stands at `path`, be it a link: another user's pipe, or link to a device, is no
/// place for this user's bytes.
fn is_ours(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|found| found.uid() == 0 || found.uid() == me)
}

/// A file that is written while it is read is neither the old one nor the new.
fn refuse_input(output: &Metadata, input: &Input) -> anyhow::Result<()> {
    if output.is_file() && input.is(output) {
        bail!("the output is the input itself");
    }
    Ok(())
}

/// What a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Compressed,
    Content,
}

/// A file under a temporary name beside its later one; removed unless it gets that.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    is_named: bool,
}

impl NewFile {
    fn create(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidFilename.into()) };
        for _ in 0..TEMPORARY_NAMES {
            let temporary = path.with_file_name(temporary_name(name));
            match create_new(&temporary) {
                Ok(file) => {
                    signal::set_unfinished(Some(&temporary));
                    return Ok(Self { file, temporary, path: path.to_owned(), is_named: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn rename(mut self, args: &Args) -> anyhow::Result<()> {
        let context = || format!("naming the output {}", self.path.display());
        if args.force {
            std::fs::rename(&self.temporary, &self.path).with_context(context)?;
        } else {
            rename_new(&self.temporary, &self.path).with_context(context)?;
        }
        self.is_named = true;
        if !args.no_sync {
            // The name, too, must be on disk before the input may go.
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
            match synced {
                // Some file systems sync no folders, and one may be writable but not readable.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.context("syncing the folder")?,
            }
        }
        Ok(())
    }
}

/// Renames `from` to `to`; an error if `to` exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
    match renamed.map_err(io::Error::from) {
        // The file system does not support it.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP)) => {}
        renamed => return renamed,
    }
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The file system has no hard links.
        Err(_) => std::fs::rename(from, to),
    }
}

/// Whether `path` names this process's standard output.
fn is_standard_output(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|known| path == Path::new(known))
}

/// Whether `path` is a link to an open file, in `/dev` or in a folder of `/proc`.
fn is_descriptor(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    is_link && folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

/// Tried before it is given up.
const TEMPORARY_NAMES: u32 = 10;

/// Another user cannot guess it: the hasher's keys are the system's randomness.
fn temporary_name(name: &OsStr) -> OsString {
    let draw = || RandomState::new().build_hasher().finish();
    let ending = format!(".tamp-{:016x}{:016x}", draw(), draw());
    // The longest names leave no room for more.
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
            // Whatever failed before has been reported; this is only tidying up.
            let _ = std::fs::remove_file(&self.temporary);
        }
        signal::set_unfinished(None);
    }
}
