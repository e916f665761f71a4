//! Regular file to regular file: each worker reads, works and writes independently.
//!
//! No thread reads or writes for others. A worker takes the next piece, a few blocks, by one atomic addition,
//! reads each block into its own buffer, which stays in its core's cache, and writes the piece at its offset.
//! When compressing, the offset is known only after all earlier pieces are compressed; a worker that is ahead
//! hands its piece to the worker that closes the gap.

use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::envelope::Envelope;
use crate::format::Setting;
use crate::holes::{self, Holes};
use crate::index::Index;
use crate::level::Options;
use crate::meter::{Doing, Meter, cpu_time, now};
use crate::pack::Packer;
use crate::placer::{Packed, Placer, Stopped};
use crate::turn::Turn;
use crate::{Dictionary, Error, ReadOptions};
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use twox_hash::XxHash32;

/// Bytes of one write. Writing single blocks costs more: the threads contend.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of all threads' pieces together, which bounds memory with many threads.
const PIECES_BYTES: usize = 8 << 20;

/// Alignment of buffers and lengths for direct I/O.
const PAGE_BYTES: usize = 4096;

/// A part of a regular file to read, and the place in another to write to.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// File to read from.
    pub input: &'a File,
    /// First byte to read.
    pub input_at: u64,
    /// Bytes to read.
    pub input_bytes: u64,
    /// File to write to; `None`: only check.
    pub output: Option<&'a File>,
    /// First byte to write.
    pub output_at: u64,
    /// Leave holes for long runs of zeros in decompressed blocks. Valid only if the output has no bytes there
    /// yet: a hole does not overwrite.
    pub sparse: bool,
}

/// Callback after each piece of work, by any thread, to show progress.
pub type Watch<'a> = &'a (dyn Fn() + Sync);

/// Compresses a regular file; returns the number of bytes written.
///
/// Does not read holes of the input.
///
/// # Errors
///
/// [`Error::Options`]; [`Error::Changed`] if the input shrinks while it is read; [`Error::Verify`] with
/// [`Options::verify`]; errors of reading and writing.
pub fn compress_file(
    places: &Places<'_>,
    options: &Options,
    meter: &Meter,
    watch: Watch<'_>,
) -> Result<u64, Error> {
    options.check()?;
    let stated = Options { content_bytes: Some(places.input_bytes), ..options.clone() };
    let envelope = Envelope::new(&stated);
    let head = envelope.head();
    places.write(&head, places.output_at)?;
    let block_bytes = options.block_bytes as u64;
    let blocks = places.input_bytes.div_ceil(block_bytes);
    let blocks = if blocks == 0 && envelope.wants_empty_block() { 1 } else { blocks };
    let piece_blocks = (piece_bytes(places.input_bytes, options.threads) / block_bytes).max(1);
    let left_max = if options.has_large_tables() { options.threads.div_ceil(2) } else { options.threads };
    let job = Compress {
        places,
        options,
        meter,
        setting: options.format.container().setting(options.level),
        holes: Holes::of(places.input),
        packed_zeros: OnceLock::new(),
        blocks,
        piece_blocks,
        placer: Placer::new(envelope, places.output_at + head.len() as u64, left_max),
    };
    share(blocks.div_ceil(piece_blocks), options.threads, meter, watch, &job)?;
    let (envelope, at) = job.placer.finish();
    let tail = envelope.tail();
    places.write(&tail, at)?;
    let written = at + tail.len() as u64 - places.output_at;
    meter.out_bytes.fetch_add((head.len() + tail.len()) as u64, Relaxed);
    Ok(written)
}

/// Decompresses a regular file by its index; returns the number of bytes of content.
///
/// `None` if the file has no index, or a wrong one: read it from its beginning with [`crate::Reader`], and
/// overwrite what was written so far.
///
/// # Errors
///
/// Errors of reading and writing.
pub fn decompress_file(
    places: &Places<'_>,
    options: &ReadOptions,
    meter: &Meter,
    watch: Watch<'_>,
) -> Result<Option<u64>, Error> {
    let (input_at, threads) = (places.input_at, options.threads.max(1));
    let dictionary = options.dictionary.as_ref();
    let index = Index::read(places.input_bytes, dictionary, &mut |buffer, at| {
        read_full_at(places.input, buffer, input_at + at)
    })?;
    // Only a reader finds that a large frame has a small window.
    let is_granted = |index: &Index| {
        !index.format.container().needs_window()
            || index.entries.iter().all(|entry| u64::from(entry.content_bytes) <= options.memory_bytes)
    };
    // Only a reader reports what is damaged.
    let index =
        index.filter(|index| index.damaged.is_none() && is_granted(index) && !has_wrong_empty_frame(index));
    let Some(index) = index else { return Ok(None) };
    let job = Decompress {
        places,
        index: &index,
        dictionary,
        pieces: index.pieces(piece_bytes(index.content_bytes(), threads)),
        hashed: index.lz4_frames.iter().any(|frame| frame.checksum.is_some()),
        meter,
        hash: Turn::new(XxHash32::with_seed(0)),
        misled: AtomicBool::new(false),
    };
    let done = share(job.pieces.len() as u64, threads, meter, watch, &job);
    if job.misled.load(Relaxed) {
        return Ok(None);
    }
    done?;
    let content_bytes = index.content_bytes();
    if let (Some(output), true) = (places.output, places.sparse) {
        holes::set_end(output, places.output_at + content_bytes)?;
    }
    // Headers, lists and ends are in no entry.
    meter.in_bytes.store(places.input_bytes, Relaxed);
    Ok(Some(content_bytes))
}

/// Whether the checksum of an LZ4 frame without blocks is wrong: no entry leads to such a frame.
fn has_wrong_empty_frame(index: &Index) -> bool {
    let sum = XxHash32::oneshot(0, b"");
    let mut entries = 0;
    index.lz4_frames.iter().any(|frame| {
        let is_empty = std::mem::replace(&mut entries, frame.entries_end) == frame.entries_end;
        is_empty && frame.checksum.is_some_and(|stated| stated != sum)
    })
}

/// Returns the bytes of content in a piece: fewer in a small file, so each thread gets some.
fn piece_bytes(content_bytes: u64, threads: usize) -> u64 {
    let fair = content_bytes / (4 * threads as u64);
    fair.min(PIECE_BYTES.min(PIECES_BYTES / threads) as u64)
}

impl Places<'_> {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.output {
            Some(output) => output.write_all_at(bytes, at),
            None => Ok(()),
        }
    }
}

/// The work on each piece.
trait Job: Sync {
    type Worker;
    fn worker(&self) -> Self::Worker;
    fn piece(&self, worker: &mut Self::Worker, number: u64) -> Result<(), Failure>;
    /// Wakes workers that wait for their turn.
    fn stop(&self);
}

/// Reason that a worker ends early.
enum Failure {
    Of(Error),
    /// Another worker failed first.
    Stopped,
}

impl From<Stopped> for Failure {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Of(error.into())
    }
}

/// Runs the job's pieces on `threads` threads, the caller's among them.
fn share<J: Job>(pieces: u64, threads: usize, meter: &Meter, watch: Watch<'_>, job: &J) -> Result<(), Error> {
    let (next, stopped, failed) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let _stop = StopOnPanic(job);
        meter.worker_began();
        let mut worker = job.worker();
        while !stopped.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= pieces {
                break;
            }
            if let Err(failure) = job.piece(&mut worker, number) {
                stopped.store(true, Relaxed);
                job.stop();
                if let Failure::Of(error) = failure {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
            watch();
        }
        meter.worker_ended();
    };
    let helpers = usize::try_from(pieces).map_or(threads, |pieces| threads.min(pieces)).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // With fewer threads than requested the job only takes longer.
            if std::thread::Builder::new().name("tamp".into()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Stops the other workers if one panics, so no thread waits for ever and the panic is reported.
struct StopOnPanic<'a, J: Job>(&'a J);

impl<J: Job> Drop for StopOnPanic<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

struct Compress<'a> {
    places: &'a Places<'a>,
    options: &'a Options,
    meter: &'a Meter,
    setting: Setting,
    holes: Holes,
    /// A whole block of zeros, compressed once.
    packed_zeros: OnceLock<Vec<u8>>,
    blocks: u64,
    /// Blocks in a piece, except the last.
    piece_blocks: u64,
    placer: Placer,
}

struct CompressWorker {
    packer: Packer,
    content: Buffer,
}

impl Compress<'_> {
    /// Reads whole pages of the file into whole pages of memory, which direct I/O requires.
    fn read<'a>(&self, buffer: &'a mut Buffer, offset: u64, bytes: usize) -> Result<&'a [u8], Error> {
        let at = self.places.input_at + offset;
        let lead = usize::try_from(at % PAGE_BYTES as u64).expect("less than a page");
        let whole = (lead + bytes).next_multiple_of(PAGE_BYTES);
        let room = buffer.room(whole + PAGE_BYTES);
        let skip = room.as_ptr().align_offset(PAGE_BYTES);
        let room = &mut room[skip..skip + whole];
        let read = read_full_at(self.places.input, room, at - lead as u64)?;
        if read < lead + bytes {
            return Err(Error::Changed { offset: offset + read.saturating_sub(lead) as u64 });
        }
        Ok(&room[lead..lead + bytes])
    }
}

impl Compress<'_> {
    /// Appends a whole block of zeros.
    fn pack_zeros(&self, packer: &mut Packer, packed: &mut Buffer) -> Result<(), Error> {
        if self.packed_zeros.get().is_none() {
            let mut zeros = Buffer::default();
            packer.pack(0, &vec![0; self.options.block_bytes], self.setting, &mut zeros)?;
            self.packed_zeros.get_or_init(|| zeros.to_vec());
        }
        packed.push(self.packed_zeros.get().expect("it was just made"));
        Ok(())
    }

    /// Reads block `number` and appends it to `packed`; returns the length of its content, and the time of
    /// completion.
    fn block(
        &self,
        worker: &mut CompressWorker,
        number: u64,
        begun: Instant,
        packed: &mut Buffer,
    ) -> Result<(usize, Instant), Error> {
        let block_bytes = self.options.block_bytes as u64;
        let offset = number * block_bytes;
        let bytes =
            usize::try_from((self.places.input_bytes - offset).min(block_bytes)).expect("a block fits");
        let range = self.places.input_at + offset..self.places.input_at + offset + bytes as u64;
        let (mut read_at, mut cpu_from) = (begun, cpu_time());
        if bytes == self.options.block_bytes && self.holes.cover(self.places.input, &range)? {
            self.pack_zeros(&mut worker.packer, packed)?;
        } else {
            let content = self.read(&mut worker.content, offset, bytes)?;
            read_at = self.meter.charge(Doing::Starved, begun);
            cpu_from = cpu_time();
            worker.packer.pack(offset, content, self.setting, packed)?;
        }
        self.meter.worked(cpu_from);
        Ok((bytes, self.meter.charge(Doing::Codec, read_at)))
    }
}

impl Job for Compress<'_> {
    type Worker = CompressWorker;

    fn worker(&self) -> CompressWorker {
        CompressWorker { packer: Packer::new(self.options), content: Buffer::default() }
    }

    fn piece(&self, worker: &mut CompressWorker, number: u64) -> Result<(), Failure> {
        let mut at = now();
        let mut content_bytes = 0;
        let mut packed = Packed { bytes: self.placer.buffer(), blocks: Vec::new() };
        let first = number * self.piece_blocks;
        for number in first..(first + self.piece_blocks).min(self.blocks) {
            let before = packed.bytes.len();
            let (bytes, done_at) = self.block(worker, number, at, &mut packed.bytes)?;
            packed.blocks.push((packed.bytes.len() - before, bytes));
            content_bytes += bytes;
            at = done_at;
        }
        self.placer.put(number, packed, |packed, at| {
            self.meter.out_bytes.fetch_add(packed.bytes.len() as u64, Relaxed);
            self.places.write(&packed.bytes, at).map_err(Failure::from)
        })?;
        self.meter.charge(Doing::Blocked, at);
        self.meter.in_bytes.fetch_add(content_bytes as u64, Relaxed);
        Ok(())
    }

    fn stop(&self) {
        self.placer.stop();
    }
}

struct Decompress<'a> {
    places: &'a Places<'a>,
    index: &'a Index,
    dictionary: Option<&'a Dictionary>,
    /// Ranges of entries that are decoded together.
    pieces: Vec<Range<usize>>,
    /// Whether an LZ4 frame has a checksum over all its content.
    hashed: bool,
    meter: &'a Meter,
    /// Checksum over the content of an LZ4 frame, which must be computed in order.
    hash: Turn<XxHash32>,
    /// A block differs from the index: the file must be read from its beginning.
    misled: AtomicBool,
}

struct DecompressWorker {
    decoder: Decoder<'static>,
    packed: Buffer,
    content: Buffer,
}

impl Decompress<'_> {
    /// Waits for an LZ4 block's turn and hashes it.
    fn hash(&self, number: usize, content: &[u8]) -> Result<Result<(), &'static str>, Stopped> {
        let frame = self.index.lz4_frame(number).expect("only LZ4 frames have a checksum over blocks");
        self.hash.take(number as u64, |hash| {
            if frame.checksum.is_some() {
                hash.write(content);
            }
            if number + 1 < frame.entries_end {
                return Ok(());
            }
            let found = std::mem::replace(hash, XxHash32::with_seed(0)).finish_32();
            if frame.checksum.is_some_and(|stated| stated != found) {
                return Err("an lz4 frame with a wrong checksum");
            }
            Ok(())
        })
    }
}

impl Decompress<'_> {
    /// Decodes entry `number` from bytes read at `piece_at`; returns the time of completion.
    fn entry(
        &self,
        worker: &mut DecompressWorker,
        number: usize,
        piece_at: u64,
        begun: Instant,
    ) -> Result<Instant, Failure> {
        let entry = &self.index.entries[number];
        let from = usize::try_from(entry.at - piece_at).expect("a piece fits").min(worker.packed.len());
        let to = (from + entry.bytes as usize).min(worker.packed.len());
        let before = worker.content.len();
        let packed = &worker.packed[from..to];
        let cpu_from = cpu_time();
        let mut decoded = self.index.decode(number, &mut worker.decoder, packed, &mut worker.content);
        self.meter.worked(cpu_from);
        if decoded.is_ok() && self.hashed {
            decoded = self.hash(number, &worker.content[before..])?;
        }
        let decoded_at = self.meter.charge(Doing::Codec, begun);
        if let Err(what) = decoded {
            self.misled.store(true, Relaxed);
            return Err(Error::Damaged { offset: entry.at, what }.into());
        }
        Ok(decoded_at)
    }
}

impl Job for Decompress<'_> {
    type Worker = DecompressWorker;

    fn worker(&self) -> DecompressWorker {
        DecompressWorker {
            decoder: Decoder::new(self.dictionary),
            packed: Buffer::default(),
            content: Buffer::default(),
        }
    }

    fn piece(&self, worker: &mut DecompressWorker, number: u64) -> Result<(), Failure> {
        let begun = now();
        let numbers = self.pieces[usize::try_from(number).expect("pieces are in memory")].clone();
        let entries = &self.index.entries[numbers.clone()];
        let (first, last) = (&entries[0], &entries[entries.len() - 1]);
        let bytes = usize::try_from(last.end() - first.at).expect("a piece fits");
        let read =
            read_full_at(self.places.input, worker.packed.room(bytes), self.places.input_at + first.at)?;
        worker.packed.set_len(read);
        let mut at = self.meter.charge(Doing::Starved, begun);
        worker.content.clear();
        for number in numbers {
            at = self.entry(worker, number, first.at, at)?;
        }
        let place = self.places.output_at + first.content_at;
        if let (Some(output), true) = (self.places.output, self.places.sparse) {
            holes::write_around(output, &worker.content, place)?;
        } else {
            self.places.write(&worker.content, place)?;
        }
        self.meter.charge(Doing::Blocked, at);
        let in_bytes: u64 = entries.iter().map(|entry| u64::from(entry.bytes)).sum();
        self.meter.in_bytes.fetch_add(in_bytes, Relaxed);
        self.meter.out_bytes.fetch_add(worker.content.len() as u64, Relaxed);
        Ok(())
    }

    fn stop(&self) {
        self.hash.stop();
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Direct I/O fails behind an unaligned end of file, which has no more bytes anyway.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && filled > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
