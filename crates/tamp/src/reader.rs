//! [`Reader`]: reads whatever tamp reads as if it had not been compressed.

use crate::Error;
use crate::buffer::{Buffer, Spare};
use crate::decode::{Piece, UnitDecoder};
use crate::join::Joiner;
use crate::meter::{Doing, Meter, now};
use crate::ring::{MakeWork, Pulled, Ring};
use crate::split::{Splitter, Unit};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Decompresses `R`, in parallel as far as the stream's own frames and blocks allow.
///
/// It reads any number of `.zst`, `.lz4` and `.gz` members one behind the other. With more than one
/// thread it reads ahead of what was asked for, up to twice as many blocks as threads. A peer that
/// waits for an answer between frames wants one thread, which never does.
#[derive(Debug)]
pub struct Reader<R> {
    splitter: Splitter<R>,
    ring: Ring<Unit, Result<Piece, Error>, Pulled>,
    joiner: Joiner,
    spare: Arc<Spare>,
    content: Buffer,
    taken: usize,
    ended: bool,
    /// Met while reading ahead; due once what came before it is delivered.
    pending: Option<Error>,
    meter: Arc<Meter>,
}

impl<R: Read> Reader<R> {
    /// A reader of `source` that uses at most `threads` threads, the caller's own included if it is 1.
    pub fn new(source: R, threads: usize) -> Self {
        Self::with_meter(source, threads, Arc::new(Meter::new()))
    }

    /// Like [`Reader::new`], counting into `meter`.
    pub fn with_meter(source: R, threads: usize, meter: Arc<Meter>) -> Self {
        let spare = Arc::new(Spare::default());
        let (worker_spare, independent) = (Arc::clone(&spare), Arc::new(AtomicBool::new(true)));
        let make_work: MakeWork<Unit, Result<Piece, Error>> = Arc::new(move || {
            let mut decoder = UnitDecoder::new(Arc::clone(&worker_spare), Arc::clone(&independent));
            Box::new(move |unit| decoder.decode(unit))
        });
        Self {
            splitter: Splitter::new(source, threads > 1, Arc::clone(&spare)),
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

    /// Why one thread has to decode, if what was read so far leaves no choice: a frame too large to
    /// hold, linked blocks, plain gzip.
    pub fn serial(&self) -> Option<&'static str> {
        let fell_back = self.joiner.fell_back().then_some("plain gzip");
        self.splitter.serial().or(fell_back)
    }

    /// Where something that is no gzip follows gzip; like `gzip`, the reader ignores it.
    pub fn trailing_garbage(&self) -> Option<u64> {
        self.splitter.trailing_garbage().or(self.joiner.trailing_garbage())
    }

    /// Calls `look_up` about ten times a second while this reader waits for a worker, to show progress.
    pub fn on_wait(&mut self, look_up: impl FnMut() + Send + 'static) {
        self.ring.on_wait(Box::new(look_up));
    }

    /// Compressed bytes taken so far, those read ahead among them.
    pub fn offset(&self) -> u64 {
        self.splitter.offset()
    }

    /// The source, wherever it stands: reading ahead may have passed what was delivered.
    pub fn into_inner(self) -> R {
        self.splitter.into_source()
    }

    /// Makes `content` the next piece that is not empty, or empty at the end.
    fn advance(&mut self) -> Result<(), Error> {
        self.taken = 0;
        self.spare.put(std::mem::take(&mut self.content));
        loop {
            if let Some(more) = self.joiner.more() {
                self.content = more?;
            } else {
                self.read_ahead();
                let Some(piece) = self.ring.pull()? else {
                    return self.pending.take().map_or_else(|| self.joiner.finish(), Err);
                };
                self.content = self.joiner.join(piece?)?;
            }
            if !self.content.is_empty() {
                self.meter.out_bytes.fetch_add(self.content.len() as u64, Relaxed);
                return Ok(());
            }
            self.spare.put(std::mem::take(&mut self.content));
        }
    }

    /// Fills the ring, unless something can be delivered already.
    fn read_ahead(&mut self) {
        while !self.ended && self.ring.has_room() && !self.ring.is_ready() {
            let (before, begun) = (self.splitter.offset(), now());
            let next = self.splitter.next();
            self.meter.charge(Doing::Starved, begun);
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
