//! `tamp -d`, `-t`, `--range`, `--salvage`.

use super::args::Args;
use super::compress::replaces;
use super::input::Input;
use super::outcome::{Outcome, say, warn};
use super::output::{Holds, Output};
use super::rights;
use super::watch::{Watch, Way};
use crate::signal;
use anyhow::{Context, anyhow, bail};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use tamp::{Content, Error, Loss, Lost, Meter, Places, Reader, SeekReader, SparseWriter, Suffix};

pub(crate) fn file(args: &Args, input: &Input) -> anyhow::Result<Outcome> {
    let output = match (&args.output, &input.entry) {
        _ if args.test => Some(Output::None),
        (Some(path), _) => Output::create(path, args, Holds::Content, input)?,
        (None, Some(entry)) if !args.stdout => {
            let path = entry.path();
            let Some(named) = named(path, args.own_suffix.as_deref()) else {
                return Ok(warn(args, &format_args!("{}: unknown suffix -- ignored", path.display())));
            };
            Output::create_beside(entry, named, args, input)?
        }
        _ => Some(Output::stdout(args, Holds::Content, input)?),
    };
    let Some(output) = output else { return Ok(Outcome::Warned) };

    let extent = input.extent()?;
    let watch = Arc::new(Watch::new(args, input, Way::Decompress, extent.map(|(_, bytes)| bytes)));
    let is_counted = args.range.is_none() && !args.salvage;
    let _answering = is_counted.then(|| signal::answer_by(&watch));
    let reference = args.reference()?;
    let report = rights::decode(|| decode(args, input, &output, reference.as_deref(), &watch))?;

    let replaces = replaces(args, input) && output.is_new() && report.outcome == Outcome::Done;
    if args.direct {
        input.drop_cached();
    }
    output.finish(input, args)?;
    if args.test && args.verbose && report.outcome == Outcome::Done {
        watch.clear();
        say(&format_args!("{}: OK", input.name()));
    }
    if is_counted {
        watch.finish(args, report.serial);
    }
    if replaces {
        super::removal::remove_input(input)?;
    }
    Ok(report.outcome)
}

/// Decodes the content as the options say.
fn decode(
    args: &Args,
    input: &Input,
    output: &Output,
    reference: Option<&[u8]>,
    watch: &Arc<Watch>,
) -> anyhow::Result<Report> {
    let outcome = if let Some(range) = &args.range {
        self::range(input, range, output, reference, args)?
    } else if args.salvage {
        salvage(input, output, reference, args)?
    } else if let Some(reference) = reference {
        patch(args, input, output, reference, watch)?
    } else if in_place(args, input, output, watch)? {
        Outcome::Done
    } else {
        return stream(args, input, output, watch);
    };
    Ok(Report { outcome, serial: None })
}

struct Report {
    outcome: Outcome,
    serial: Option<&'static str>,
}

/// Decompresses frames that refer to another file.
fn patch(
    args: &Args,
    input: &Input,
    output: &Output,
    reference: &[u8],
    watch: &Arc<Watch>,
) -> anyhow::Result<Outcome> {
    let mut sink = io::sink();
    let mut stream = output.stream();
    let to: &mut dyn Write = stream.as_mut().map_or(&mut sink, |file| file);
    let memory = args.reading().memory_bytes;
    let (from, meter) = (&mut &input.file, &watch.meter);
    match tamp::decompress_frame(from, to, reference, memory, meter, &mut || watch.look_up()) {
        Err(error) if error.is_behind_content() => Ok(behind_content(args, input, watch, &error)),
        decoded => Ok(decoded?.map_or(Outcome::Done, |at| {
            watch.clear();
            warn_of_garbage(args, input, at)
        })),
    }
}

/// Prints an error found behind the content, which is complete. `--test` fails with it.
fn behind_content(args: &Args, input: &Input, watch: &Watch, error: &dyn Display) -> Outcome {
    watch.clear();
    say(&format_args!("{}: {error}", input.name()));
    if args.test { Outcome::Bad } else { Outcome::Warned }
}

/// Decompresses by the file's index, if both ends are regular files; `false` if the file has no valid index.
fn in_place(args: &Args, input: &Input, output: &Output, watch: &Watch) -> anyhow::Result<bool> {
    let Some((input_at, input_bytes)) = input.extent()? else { return Ok(false) };
    let place = output.place()?;
    if place.is_none() && !args.test {
        return Ok(false);
    }
    let (to, output_at) = place.map_or((None, 0), |(file, at)| (Some(file), at));
    let (free, sparse) = (output.is_free_from(output_at)?, output.may_be_sparse(args, output_at)?);
    let places = Places { input: &input.file, input_at, input_bytes, output: to, output_at, sparse };
    let content_bytes = tamp::decompress_file(&places, args.reading(), &watch.meter, &|| watch.look_up())?;
    if let Some(bytes) = content_bytes {
        output.pass(output_at + bytes)?;
        input.pass(input_at + input_bytes)?;
        return Ok(true);
    }
    // The whole file is decoded again, so the meter starts anew.
    watch.meter.in_bytes.store(0, Relaxed);
    watch.meter.out_bytes.store(0, Relaxed);
    if free {
        // Remains must not show through holes of the next attempt or behind its end.
        to.map_or(Ok(()), |file| file.set_len(output_at))?;
    }
    Ok(false)
}

/// Decompresses from beginning to end.
fn stream(args: &Args, input: &Input, output: &Output, watch: &Arc<Watch>) -> anyhow::Result<Report> {
    let mut reader = Reader::with_options(&input.file, args.reading(), Arc::clone(&watch.meter));
    let waiting = Arc::clone(watch);
    reader.on_wait(move || waiting.look_up());
    let stopped = match output.place()? {
        Some((file, at)) if output.may_be_sparse(args, at)? => {
            let mut to = SparseWriter::new(file, at);
            let stopped = copy(&mut reader, &mut to, args.threads(), watch);
            output.pass(to.finish()?)?;
            stopped
        }
        _ => match output.stream() {
            Some(mut file) => copy(&mut reader, &mut file, args.threads(), watch),
            None => copy(&mut reader, &mut io::sink(), 1, watch),
        },
    };
    if let Err(error) = stopped {
        if damage(&error).is_some_and(Error::is_behind_content) {
            let outcome = behind_content(args, input, watch, &error);
            return Ok(Report { outcome, serial: reader.serial() });
        }
        let unknown = matches!(damage(&error), Some(Error::UnknownFormat { offset: 0 } | Error::Empty));
        if unknown && args.force && args.stdout && !args.test {
            watch.clear();
            copy_as_it_is(reader.at_hand(), input, output)?;
            return Ok(Report { outcome: Outcome::Done, serial: None });
        }
        return Err(error.into());
    }
    let mut outcome = Outcome::Done;
    if let Some(at) = reader.trailing_garbage() {
        watch.clear();
        outcome = warn_of_garbage(args, input, at);
    }
    Ok(Report { outcome, serial: reader.serial() })
}

/// Warns of bytes after the compressed data.
pub(crate) fn warn_of_garbage(args: &Args, input: &Input, at: u64) -> Outcome {
    warn(args, &format_args!("{}: trailing garbage ignored from byte {at}", input.name()))
}

/// Maximum content queued for the writing thread; a larger single piece is allowed.
const BEHIND_BYTES: usize = 1 << 20;

fn copy(
    reader: &mut Reader<&File>,
    to: &mut (dyn Write + Send),
    threads: usize,
    watch: &Watch,
) -> io::Result<()> {
    if threads > 1 {
        // Decoding the next piece need not wait until the last one is written.
        if let Some(copied) = copy_behind(reader, to, watch) {
            return copied;
        }
    }
    pieces(reader, watch, |piece| to.write_all(&piece))
}

/// Writes in another thread; `None` if it cannot start, and then nothing was read.
fn copy_behind(
    reader: &mut Reader<&File>,
    to: &mut (dyn Write + Send),
    watch: &Watch,
) -> Option<io::Result<()>> {
    let behind = Behind::default();
    let (pieces_in, pieces_out) = mpsc::channel::<Content>();
    std::thread::scope(|scope| {
        let behind = &behind;
        let write = move || {
            let _gone = Gone(behind);
            pieces_out.into_iter().try_for_each(|piece| {
                to.write_all(&piece)?;
                let bytes = piece.len();
                drop(piece);
                behind.leave(bytes);
                Ok(())
            })
        };
        let writer = std::thread::Builder::new().name("tamp".into()).spawn_scoped(scope, write).ok()?;
        let read = pieces(reader, watch, |content| {
            behind.enter(content.len());
            pieces_in.send(content).map_err(|_| io::ErrorKind::BrokenPipe.into())
        });
        drop(pieces_in);
        // If the channel is closed, the writer's own error is the cause.
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")));
        Some(written.and(read))
    })
}

/// Bytes queued for the writing thread: blocks may be large, and memory is bounded.
#[derive(Debug, Default)]
struct Behind {
    state: Mutex<Held>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The writing thread has ended.
    gone: bool,
}

impl Behind {
    /// Waits until `bytes` fit or the queue is empty.
    fn enter(&self, bytes: usize) {
        let is_full =
            |held: &mut Held| !held.gone && held.bytes > 0 && held.bytes.saturating_add(bytes) > BEHIND_BYTES;
        let mut held = self.left.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        held.bytes += bytes;
    }

    fn leave(&self, bytes: usize) {
        self.lock().bytes -= bytes;
        self.left.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader when the writing thread ends, for any reason; sending to the channel then fails.
struct Gone<'a>(&'a Behind);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.left.notify_one();
    }
}

/// Calls `take` with each piece of content.
fn pieces(
    reader: &mut Reader<&File>,
    watch: &Watch,
    mut take: impl FnMut(Content) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match reader.next_content().map_err(io::Error::from) {
            Ok(Some(content)) => watch.meter.blocked(|| take(content))?,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        watch.look_up();
    }
}

/// Copies input that is not compressed, like `zcat -f`; `begin` was read already.
fn copy_as_it_is(begin: &[u8], input: &Input, output: &Output) -> io::Result<()> {
    if let Some(mut to) = output.stream() {
        to.write_all(begin)?;
        io::copy(&mut &input.file, &mut to)?;
    }
    Ok(())
}

/// Size of one write by `--range` and `--salvage`.
const WRITE_BYTES: usize = 256 << 10;
/// Largest block that an index lists.
const INDEXED_BYTES_MAX: u64 = 16 << 20;

/// Decompresses a range of the content.
fn range(
    input: &Input,
    range: &Range<u64>,
    output: &Output,
    reference: Option<&[u8]>,
    args: &Args,
) -> anyhow::Result<Outcome> {
    let mut to = BufWriter::with_capacity(WRITE_BYTES, output.stream().context("there is always an output")?);
    if let Some(reference) = reference {
        let mut slice = Slice { to: &mut to, range: range.clone(), at: 0 };
        let memory = args.reading().memory_bytes;
        let (from, meter) = (&mut &input.file, Meter::new());
        let decoded = tamp::decompress_frame(from, &mut slice, reference, memory, &meter, &mut || {});
        let passed_bytes = slice.at;
        match decoded {
            Err(error) if passed_bytes < range.end && !error.is_behind_content() => return Err(error.into()),
            _ => to.flush()?,
        }
        return Ok(begins_inside(input, range, passed_bytes, args));
    }
    // A block found by the index has up to 16 MiB. If less memory is granted, the frame's window decides.
    if input.metadata.is_file() && args.reading().memory_bytes >= INDEXED_BYTES_MAX {
        match SeekReader::with_options(input.rest()?, args.reading()) {
            Ok(mut reader) => {
                let content_bytes = reader.content_bytes();
                reader.seek(SeekFrom::Start(range.start))?;
                io::copy(&mut reader.take(range.end - range.start), &mut to)?;
                to.flush()?;
                return Ok(begins_inside(input, range, content_bytes, args));
            }
            Err(Error::Unsupported { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if args.verbose {
        say(&format_args!(
            "{}: it has no index of its blocks, so it is read from the beginning",
            input.name()
        ));
    }
    let mut reader = Reader::with_options(&input.file, args.reading(), Arc::default());
    let passed_bytes = io::copy(&mut (&mut reader).take(range.start), &mut io::sink())?;
    io::copy(&mut reader.take(range.end - range.start), &mut to)?;
    to.flush()?;
    Ok(begins_inside(input, range, passed_bytes, args))
}

/// Passes on the bytes of a range, and fails on a write behind it.
struct Slice<'a> {
    to: &'a mut dyn Write,
    range: Range<u64>,
    /// Bytes received so far.
    at: u64,
}

impl Write for Slice<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        if self.at >= self.range.end {
            return Err(io::Error::other("behind the range"));
        }
        let bytes = content.len() as u64;
        let from = self.range.start.saturating_sub(self.at).min(bytes);
        let to = (self.range.end - self.at).min(bytes).max(from);
        let part = |at: u64| usize::try_from(at).expect("inside the content");
        self.to.write_all(&content[part(from)..part(to)])?;
        self.at += bytes;
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Warns if `range` begins behind the end of the content, which has at least `content_bytes`.
fn begins_inside(input: &Input, range: &Range<u64>, content_bytes: u64, args: &Args) -> Outcome {
    if range.start <= content_bytes {
        return Outcome::Done;
    }
    let (name, start) = (input.name(), range.start);
    warn(
        args,
        &format_args!("{name}: the content ends at byte {content_bytes}, before the range begins at {start}"),
    )
}

/// Writes the readable content of a damaged file.
fn salvage(input: &Input, output: &Output, reference: Option<&[u8]>, args: &Args) -> anyhow::Result<Outcome> {
    if !input.metadata.is_file() {
        bail!("a pipe cannot be searched for blocks; save it to a file first");
    }
    let from = input.rest()?;
    let salvaged = |to: &mut dyn Write| {
        let salvaged = match reference {
            Some(reference) => tamp::salvage_frame(from, reference, args.reading(), to),
            None => tamp::salvage(from, args.reading(), to),
        };
        salvaged.map_err(|error| match error {
            // The file may have been one: its beginning is lost.
            Error::UnknownFormat { .. } => anyhow!(
                "nothing in it can be read: --salvage found no part of a .zst, .lz4, .gz or zlib file"
            ),
            error => error.into(),
        })
    };
    let losses = match output.place()? {
        Some((file, at)) if output.may_be_sparse(args, at)? => {
            let mut to = BufWriter::with_capacity(WRITE_BYTES, SparseWriter::new(file, at));
            let losses = salvaged(&mut to)?;
            output.pass(to.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?)?;
            losses
        }
        _ => {
            let to = output.stream().context("there is always an output")?;
            let mut to = BufWriter::with_capacity(WRITE_BYTES, to);
            let losses = salvaged(&mut to)?;
            to.flush()?;
            losses
        }
    };
    let mut outcome = Outcome::Done;
    for loss in &losses {
        if loss.what == Lost::Trailing {
            let warned = warn_of_garbage(args, input, loss.file.start);
            outcome = if outcome == Outcome::Bad { outcome } else { warned };
        } else {
            say(&format_args!("{}: {}", input.name(), Told(loss)));
            outcome = Outcome::Bad;
        }
    }
    Ok(outcome)
}

/// Message for a loss.
struct Told<'a>(&'a Loss);

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loss { file: Range { start, end }, content_at: at, content_bytes, what, .. } = self.0;
        match (what, content_bytes) {
            (Lost::Unproven, bytes) => {
                let to = at + bytes.unwrap_or(0);
                write!(
                    f,
                    "bytes {start}..{end}: damaged; bytes {at}..{to} of the output were decoded, but no checksum proves them"
                )
            }
            (Lost::TooLarge { needed_bytes }, _) => write!(
                f,
                "bytes {start}..{end}: skipped at byte {at} of the output: decoding takes {} MiB of memory; allow it with --memory",
                needed_bytes.div_ceil(1 << 20)
            ),
            (Lost::Searched, bytes) => {
                let to = at + bytes.unwrap_or(0);
                write!(
                    f,
                    "bytes {start}..{end}: found by searching; bytes {at}..{to} of the output may be a compressed file that was \
                     part of the lost content"
                )
            }
            (Lost::NeedsDictionary { id }, Some(bytes)) => write!(
                f,
                "bytes {start}..{end}: unreadable without the dictionary with the number {id}; {bytes} bytes of content are lost, with \
                 zeros from byte {at} of the output"
            ),
            (Lost::NeedsDictionary { id }, None) => write!(
                f,
                "bytes {start}..{end}: unreadable without the dictionary with the number {id}; an unknown amount of content is lost \
                 at byte {at} of the output"
            ),
            (Lost::Unreadable, _) => {
                write!(f, "bytes {start}..{end}: the file cannot be read here; zeros were decoded instead")
            }
            (Lost::Index(what), _) => {
                write!(f, "bytes {start}..{end}: {what} is damaged; all content is intact")
            }
            (Lost::Unfinished, _) => {
                write!(
                    f,
                    "byte {start}: the file is unfinished; what followed byte {at} of the output is lost"
                )
            }
            (_, Some(bytes)) => write!(
                f,
                "bytes {start}..{end}: unreadable; {bytes} bytes of content are lost, with zeros from byte {at} of the output"
            ),
            (_, None) => write!(
                f,
                "bytes {start}..{end}: unreadable; an unknown amount of content is lost at byte {at} of the output"
            ),
        }
    }
}

/// Returns the damage of the compressed data that caused `error`, if any.
fn damage(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Whether the name is that of a compressed file.
pub(crate) fn is_named(path: &Path, args: &Args) -> bool {
    named(path, args.own_suffix.as_deref()).is_some()
}

/// Returns the name without its suffix; `None` if the suffix is neither a known one nor `own`.
fn named(path: &Path, own: Option<&str>) -> Option<PathBuf> {
    if let Some(own) = own {
        let name = path.file_name()?.as_bytes();
        let stem = name.strip_suffix(own.as_bytes()).and_then(|stem| stem.strip_suffix(b"."));
        if let Some(stem) = stem.filter(|stem| !stem.is_empty()) {
            return Some(path.with_file_name(OsStr::from_bytes(stem)));
        }
    }
    let suffix = Suffix::of(path.extension()?.to_str()?)?;
    Some(path.with_extension(suffix.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_its_suffix_or_is_left_alone() {
        let name = |path: &str| named(Path::new(path), Some("x.y")).map(|path| path.display().to_string());
        assert_eq!(name("a/b.sql.zst").as_deref(), Some("a/b.sql"));
        assert_eq!(name("b.TGZ").as_deref(), Some("b.tar"));
        assert_eq!(name("b.tlz4").as_deref(), Some("b.tar"));
        assert_eq!((name("b.txt"), name("zst"), name(".zst")), (None, None, None));
        assert_eq!((name("a/b.x.y").as_deref(), name(".x.y")), (Some("a/b"), None));
    }
}
