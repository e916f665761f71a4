//! [`Reader`]: decompresses a stream of any supported format.

use crate::buffer::{Buffer, Spare};
use crate::decode::{Piece, UnitDecoder};
use crate::join::Joiner;
use crate::meter::{Doing, Meter, cpu_time, now};
use crate::ring::{MakeWork, Pulled, Ring};
use crate::split::{Splitter, Unit};
use crate::{Dictionary, Error};
use std::io::{self, BufRead, Read};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Options for reading.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum number of threads; 1: only the caller's.
    pub threads: usize,
    /// Largest window of a frame that one thread has to read, in bytes. A frame that needs more is refused.
    pub memory_bytes: u64,
    /// Dictionary that the content was compressed with.
    pub dictionary: Option<Dictionary>,
}

impl ReadOptions {
    /// Default limit of stock `zstd -d`: 128 MiB.
    pub const MEMORY_BYTES_USUAL: u64 = 128 << 20;

    /// Returns options with `threads`, the default memory limit and no dictionary.
    pub fn new(threads: usize) -> Self {
        Self { threads, memory_bytes: Self::MEMORY_BYTES_USUAL, dictionary: None }
    }
}

/// Decompresses `R`, in parallel as far as the stream's frames and blocks allow.
///
/// Reads any number of consecutive `.zst` and `.lz4` frames, and then of `.gz` members. With more than one
/// thread it reads ahead, up to twice as many blocks as threads. Use one thread if the sender waits for an
/// answer between frames: one thread never reads ahead.
///
/// An unfinished file (the writer was killed, or the disk was full) is read to its last whole block. Then
/// [`Error::Unfinished`] is returned. If the seek table or the list of frames is damaged, [`Error::Index`] is
/// returned behind all content.
#[derive(Debug)]
pub struct Reader<R> {
    splitter: Splitter<'static, R>,
    ring: Ring<Unit, Result<Piece, Error>, Pulled>,
    joiner: Joiner,
    spare: Arc<Spare>,
    content: Buffer,
    taken: usize,
    ended: bool,
    /// An error found while reading ahead; returned after the content before it.
    pending: Option<Error>,
    meter: Arc<Meter>,
}

/// A piece of content; dropping it returns its memory for reuse.
#[derive(Debug)]
pub struct Content {
    buffer: Buffer,
    from: usize,
    spare: Arc<Spare>,
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.from..]
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.buffer));
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader of `source` with at most `threads` threads; 1: only the caller's.
    pub fn new(source: R, threads: usize) -> Self {
        Self::with_options(source, &ReadOptions::new(threads), Arc::new(Meter::new()))
    }

    /// Variant of [`Reader::new`] that counts into `meter`.
    pub fn with_options(source: R, options: &ReadOptions, meter: Arc<Meter>) -> Self {
        let (threads, dictionary) = (options.threads.max(1), options.dictionary.clone());
        let spare = Arc::new(Spare::default());
        let (worker_spare, independent) = (Arc::clone(&spare), Arc::new(AtomicBool::new(true)));
        let make_work: MakeWork<Unit, Result<Piece, Error>> = Arc::new(move || {
            let (spare, independent) = (Arc::clone(&worker_spare), Arc::clone(&independent));
            let mut decoder = UnitDecoder::new(dictionary.as_ref(), spare, independent);
            Box::new(move |unit| decoder.decode(unit))
        });
        Self {
            splitter: Splitter::new(source, options, Arc::clone(&spare)),
            ring: Ring::new(threads, Arc::clone(&meter), make_work, None),
            joiner: Joiner::new(Arc::clone(&spare)),
            spare,
            content: Buffer::default(),
            taken: 0,
            ended: false,
            pending: None,
            meter,
        }
    }

    /// Returns the next content without copying it, so another thread can write it; `None` at the end.
    ///
    /// Its size follows the blocks of the stream.
    ///
    /// # Errors
    ///
    /// Errors of the source, interruptions included, and what is wrong with the stream.
    pub fn next_content(&mut self) -> Result<Option<Content>, Error> {
        if self.taken == self.content.len() {
            self.advance()?;
        }
        let (buffer, from) = (std::mem::take(&mut self.content), std::mem::take(&mut self.taken));
        let content = Content { buffer, from, spare: Arc::clone(&self.spare) };
        Ok((!content.is_empty()).then_some(content))
    }

    /// Reason that one thread has to decode the stream, if so: a frame too large to hold, linked blocks,
    /// plain gzip.
    pub fn serial(&self) -> Option<&'static str> {
        let fell_back = self.joiner.fell_back().then_some("plain gzip");
        self.splitter.serial().or(fell_back)
    }

    /// Offset of trailing garbage, which the reader ignores: anything but a member after gzip, or zeros after
    /// Zstandard frames.
    pub fn trailing_garbage(&self) -> Option<u64> {
        self.splitter.trailing_garbage().or(self.joiner.trailing_garbage())
    }

    /// Calls `look_up` about ten times a second while this reader waits for a worker, to show progress.
    pub fn on_wait(&mut self, look_up: impl FnMut() + Send + 'static) {
        self.ring.on_wait(Box::new(look_up));
    }

    /// Number of compressed bytes taken so far, including those read ahead.
    pub fn offset(&self) -> u64 {
        self.splitter.offset()
    }

    /// Bytes read from the source and not taken. After [`Error::UnknownFormat`] at the beginning, these are
    /// all bytes read.
    pub fn at_hand(&self) -> &[u8] {
        self.splitter.at_hand()
    }

    /// Returns the source, which reading ahead may have moved past the delivered content.
    pub fn into_inner(self) -> R {
        self.splitter.into_source()
    }

    /// Sets `content` to the next non-empty piece, or to an empty one at the end.
    fn advance(&mut self) -> Result<(), Error> {
        self.taken = 0;
        self.spare.put(std::mem::take(&mut self.content));
        loop {
            let (begun, cpu_from) = (now(), cpu_time());
            if let Some(more) = self.joiner.more() {
                self.meter.worked(cpu_from);
                self.meter.charge(Doing::Codec, begun);
                self.content = more?;
            } else {
                self.read_ahead();
                let Some(piece) = self.ring.pull()? else {
                    self.pending.take().map_or_else(|| self.joiner.finish(), Err)?;
                    return self.splitter.problem().map_or(Ok(()), |problem| Err(problem.into()));
                };
                let begun = now();
                let joined = self.joiner.join(piece?);
                self.meter.charge(Doing::Codec, begun);
                self.content = joined?;
            }
            if !self.content.is_empty() {
                self.meter.out_bytes.fetch_add(self.content.len() as u64, Relaxed);
                return Ok(());
            }
            self.spare.put(std::mem::take(&mut self.content));
        }
    }

    /// Fills the ring, unless a piece is ready.
    fn read_ahead(&mut self) {
        while !self.ended && self.ring.has_room() && !self.ring.is_ready() {
            let (before, read_before) = (self.splitter.offset(), self.splitter.reading());
            let (begun, cpu_from) = (now(), cpu_time());
            let next = self.splitter.next();
            let reading = self.splitter.reading().saturating_sub(read_before);
            self.meter.charge_cutting(begun, reading);
            if matches!(next, Ok(Some(Unit::Plain { .. }))) {
                // The splitter decoded it.
                self.meter.worked(cpu_from);
            }
            self.meter.in_bytes.fetch_add(self.splitter.offset() - before, Relaxed);
            let pushed = match next {
                Ok(Some(unit)) => self.ring.push(unit),
                Ok(None) => {
                    self.ended = true;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = pushed {
                self.ended = true;
                self.pending = Some(error);
            }
        }
    }
}

impl<R: Read> BufRead for Reader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.content.len() {
            self.advance()?;
        }
        Ok(&self.content[self.taken..])
    }

    fn consume(&mut self, bytes: usize) {
        assert!(self.taken + bytes <= self.content.len(), "only what was shown can be consumed");
        self.taken += bytes;
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut from = self.fill_buf()?;
        let read = from.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};

    /// Builds one gzip member of parts that end with a flush, like those of `pigz`.
    fn flushed(parts: &[&[u8]]) -> Vec<u8> {
        let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        let mut deflate = Compress::new(Compression::fast(), false);
        let mut crc = crc32fast::Hasher::new();
        let mut bytes = 0;
        for (number, part) in parts.iter().enumerate() {
            let flush = if number + 1 == parts.len() { FlushCompress::Finish } else { FlushCompress::Sync };
            file.reserve(part.len() + 1000);
            deflate.compress_vec(part, &mut file, flush).unwrap();
            crc.update(part);
            bytes += part.len();
        }
        file.extend(crc.finalize().to_le_bytes());
        file.extend(u32::try_from(bytes).unwrap().to_le_bytes());
        file
    }

    fn noise(seed: u32, bytes: u32) -> Vec<u8> {
        (0..bytes)
            .map(|n| (n ^ seed).wrapping_mul(0x9E37_79B1).wrapping_add(seed).to_be_bytes()[0] & 0x3f)
            .collect()
    }

    #[test]
    fn what_follows_gzip_is_the_same_to_any_number_of_threads() {
        let member = flushed(&[b"one ", b"two"]);
        let other = crate::format::lz4::frame_header(64 << 10, None);
        for (rest, expected) in [
            (&member[..], Ok((14, None))),
            (&[0, 0, 0], Ok((7, None))),
            (b"\0\0x", Ok((7, Some(member.len() as u64 + 2)))),
            (b"\0garbage", Ok((7, Some(member.len() as u64 + 1)))),
            (&other, Err(io::ErrorKind::Unsupported)),
        ] {
            let file = [&member, rest].concat();
            for threads in [1, 3] {
                let mut reader = Reader::new(&file[..], threads);
                let read = reader.read_to_end(&mut Vec::new());
                let found =
                    read.map(|bytes| (bytes, reader.trailing_garbage())).map_err(|error| error.kind());
                assert_eq!(found, expected, "{threads} threads, {rest:?}");
            }
        }
    }

    #[test]
    fn a_segment_that_refers_back_only_late_is_delivered_once() {
        let (first, fresh) = (noise(1, 50_000), noise(77, 150_000));
        // The worker decodes most of the second part before it reaches a reference that it cannot resolve.
        let second = [&fresh[..], &first[first.len() - 20_000..]].concat();
        let second_near = [&first[first.len() - 5_000..], &fresh[..]].concat();
        for second in [second, second_near] {
            let parts = [&first[..], &second, &fresh[..100], &first];
            let file = flushed(&parts);
            for threads in [1, 2, 4] {
                let mut found = Vec::new();
                Reader::new(&file[..], threads).read_to_end(&mut found).unwrap();
                assert!(found == parts.concat(), "{threads} threads: {} bytes", found.len());
            }
        }
    }
}
