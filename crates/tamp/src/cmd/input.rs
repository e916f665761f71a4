//! Inputs: files and standard input.

use super::args::Args;
use super::entry::{self, Entry, Identity};
use super::outcome::warn;
use super::printable::printable;
use crate::descriptors;
use anyhow::{Context, bail};
use rustix::fs::{OFlags, Stat};
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// An open input.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
    /// `None`: standard input.
    pub(crate) entry: Option<Entry>,
    pub(crate) found: Found,
}

/// Origin of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// On the command line.
    Named,
    /// In a folder, by `--recursive`.
    Below,
}

/// Warning about a pipe or a device.
const IRREGULAR: &str = "is not a directory or a regular file -- ignored";

impl Input {
    /// Opens standard input, unless compressed data would have to be typed.
    pub(crate) fn stdin(args: &Args) -> anyhow::Result<Self> {
        if descriptors::was_closed(0) {
            bail!("standard input is closed");
        }
        if args.reads_compressed() && !args.force && io::stdin().is_terminal() {
            bail!("compressed data not read from a terminal; use -f to force decompression");
        }
        let file = File::from(rustix::io::dup(rustix::stdio::stdin()).context("opening standard input")?);
        enlarge_pipe(&file);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            bail!("is a directory");
        }
        Ok(Self { file, metadata, entry: None, found: Found::Named })
    }

    /// Opens a file; `None` if it is skipped with a warning, as by gzip.
    pub(crate) fn open(entry: Entry, found: Found, args: &Args) -> anyhow::Result<Option<Self>> {
        let replaces = args.rm || !(args.stdout || args.output.is_some() || args.test || args.list);
        let pass_over = |why: &str| {
            warn(args, &format_args!("{}: {why}", entry.path().display()));
            Ok(None)
        };
        let link = entry::kind(&entry.link_state()?);
        if link.is_dir() {
            return pass_over("is a directory -- ignored");
        }
        // Salvage keeps its input.
        let removes = replaces && !args.salvage;
        if link.is_symlink() && (removes || found == Found::Below) && !args.force {
            return pass_over("is a symbolic link -- ignored");
        }
        let kind = if link.is_symlink() { entry::kind(&entry.state()?) } else { link };
        let is_refused = |is_file: bool| (replaces || found == Found::Below) && !is_file;
        // Opening a pipe would release its writer, and what that writes would be lost.
        if !kind.is_dir() && is_refused(kind.is_file()) {
            return pass_over(IRREGULAR);
        }
        // Opening blocks until a writer opens the pipe, but only if a pipe is wanted. The pipe is opened
        // once: after a writer has closed it, a second open would wait for ever.
        let waits = !(kind.is_file() || kind.is_dir());
        // A file may have been replaced by a link since.
        let follows = if link.is_symlink() { OFlags::empty() } else { OFlags::NOFOLLOW };
        let file = entry.open(follows | if waits { OFlags::empty() } else { OFlags::NONBLOCK })?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return pass_over("is a directory -- ignored");
        }
        // It may have been replaced since.
        if is_refused(metadata.is_file()) {
            return pass_over(IRREGULAR);
        }
        let removes = removes && !args.keep;
        if let Some(option) = args.needs(&Identity::of(&metadata)).filter(|_| removes) {
            return pass_over(&format!("is the file of {option} -- unchanged"));
        }
        if removes && metadata.nlink() > 1 && !args.force {
            let others = metadata.nlink() - 1;
            return pass_over(&format!("has {others} other link(s) -- unchanged"));
        }
        enlarge_pipe(&file);
        Ok(Some(Self { file, metadata, entry: Some(entry), found }))
    }

    /// Returns the path; `None` for standard input.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.entry.as_ref().map(Entry::path)
    }

    /// Returns the offset and the number of bytes that follow, of a regular file; `None` for a pipe.
    pub(crate) fn extent(&self) -> io::Result<Option<(u64, u64)>> {
        if !self.metadata.is_file() {
            return Ok(None);
        }
        let at = (&self.file).stream_position()?;
        let bytes = self.metadata.len().saturating_sub(at);
        // Files of /proc report size 0 though they have content; files of /sys report a page.
        if bytes == 0 && self.file.read_at(&mut [0], at)? > 0 || self.is_in_sysfs() {
            return Ok(None);
        }
        Ok(Some((at, bytes)))
    }

    fn is_in_sysfs(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|found| u64::try_from(found.f_type) == Ok(SYSFS_MAGIC))
    }

    /// Reads a regular file from its current offset: standard input may have an offset that other programs
    /// left.
    pub(crate) fn rest(&self) -> io::Result<Rest<'_>> {
        Ok(Rest { file: &self.file, begin: (&self.file).stream_position()?, at: 0 })
    }

    /// Fails if a regular file was written to since it was opened.
    pub(crate) fn check_unchanged(&self) -> anyhow::Result<()> {
        if state(&self.file.metadata()?) != state(&self.metadata) {
            bail!("the input changed while it was read, so the output may mix old and new content");
        }
        Ok(())
    }

    /// Moves the offset of standard input behind the part that was read with pread: the next reader continues
    /// there.
    pub(crate) fn pass(&self, end: u64) -> io::Result<()> {
        if self.entry.is_none() { (&self.file).seek(SeekFrom::Start(end)).map(drop) } else { Ok(()) }
    }

    /// Whether `found` is the state of this file.
    pub(crate) fn is(&self, found: &Stat) -> bool {
        Identity::of_stat(found) == Identity::of(&self.metadata)
    }

    /// Bypasses the page cache for later reads, which then take whole pages; no effect if the file system
    /// cannot.
    pub(crate) fn read_directly(&self) {
        let flags = rustix::fs::fcntl_getfl(&self.file);
        let _ = flags.and_then(|flags| rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT));
    }

    /// Drops the file's pages from the page cache.
    pub(crate) fn drop_cached(&self) {
        // Advice only.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Returns the name, safe to print on a terminal.
    pub(crate) fn name(&self) -> String {
        printable(&self.real_name())
    }

    /// Returns the name for programs. Bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn real_name(&self) -> String {
        self.path().map_or_else(|| "standard input".into(), |path| path.display().to_string())
    }
}

/// `linux/magic.h`
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// The attributes that a write to the file changes.
fn state(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// A file from an offset on. Reading does not move the file's own offset.
#[derive(Debug)]
pub(crate) struct Rest<'a> {
    file: &'a File,
    begin: u64,
    at: u64,
}

impl Read for Rest<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(to, self.begin.saturating_add(self.at))?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Rest<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let found = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => {
                self.file.metadata()?.len().saturating_sub(self.begin).checked_add_signed(by)
            }
        };
        self.at = found.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A pipe of 1 MiB moves data at more than twice the speed of one of 64 KiB.
pub(crate) fn enlarge_pipe(file: &File) {
    // Fails for anything but a pipe, or if the user's limit for pipes is reached. The size then stays the
    // same.
    let _ = rustix::pipe::fcntl_setpipe_size(file, 1 << 20);
}

/// Callback for each file found.
type Each<'a> = dyn FnMut(&Path, io::Result<(Entry, Found)>) + 'a;

/// Calls `each` for `path`, or with `--recursive` for every file below it in the order of names. Passes the
/// error of a folder that cannot be read.
pub(crate) fn walk(path: &Path, args: &Args, each: &mut Each<'_>) {
    match Entry::named(path) {
        Ok(entry) => walk_from(entry, Found::Named, args, each),
        Err(error) => each(path, Err(error)),
    }
}

fn walk_from(entry: Entry, found: Found, args: &Args, each: &mut Each<'_>) {
    let path = entry.path().to_owned();
    if !(args.recursive && entry.is_folder()) {
        return each(&path, Ok((entry, found)));
    }
    match entry.entries() {
        Ok(below) => below.into_iter().for_each(|entry| walk_from(entry, Found::Below, args, each)),
        Err(error) => each(&path, Err(error)),
    }
}
