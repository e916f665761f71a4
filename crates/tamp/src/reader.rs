//! [`Reader`]: reads whatever tamp reads as if it had not been compressed.

use crate::Error;
use crate::meter::Meter;
use crate::ring::{MakeWork, Pulled, Ring};
use crate::split::{Splitter, Unit, UnitDecoder};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Decompresses `R`, in parallel as far as the stream's own frames and blocks allow.
///
/// With more than one thread it reads ahead of what was asked for, up to twice as many blocks as
/// threads. A peer that waits for an answer between frames wants one thread, which never does.
#[derive(Debug)]
pub struct Reader<R> {
    splitter: Splitter<R>,
    ring: Ring<Unit, Result<Vec<u8>, Error>, Pulled>,
    content: Vec<u8>,
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
        let make_work: MakeWork<Unit, Result<Vec<u8>, Error>> = Arc::new(|| {
            let mut decoder = UnitDecoder::new();
            Box::new(move |unit| decoder.decode(unit))
        });
        Self {
            splitter: Splitter::new(source),
            ring: Ring::new(threads, Arc::clone(&meter), make_work, None),
            content: Vec::new(),
            taken: 0,
            ended: false,
            pending: None,
            meter,
        }
    }

    /// Whether any part so far was one frame too large to hold, so that one thread had to decode it.
    pub fn was_serial(&self) -> bool {
        self.splitter.streamed()
    }

    /// The source, wherever it stands: reading ahead may have passed what was delivered.
    pub fn into_inner(self) -> R {
        self.splitter.into_source()
    }

    /// Makes `content` the next piece that is not empty; `false` at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            self.read_ahead();
            let Some(content) = self.ring.pull()? else {
                return self.pending.take().map_or(Ok(false), Err);
            };
            self.content = content?;
            self.taken = 0;
            if !self.content.is_empty() {
                self.meter.out_bytes.fetch_add(self.content.len() as u64, Relaxed);
                return Ok(true);
            }
        }
    }

    /// Fills the ring, unless something can be delivered already.
    fn read_ahead(&mut self) {
        while !self.ended && self.ring.has_room() && !self.ring.is_ready() {
            let before = self.splitter.offset();
            let pushed = match self.splitter.next() {
                Ok(Some(unit)) => self.ring.push(unit, &mut || ()),
                Ok(None) => {
                    self.ended = true;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            self.meter.in_bytes.fetch_add(self.splitter.offset() - before, Relaxed);
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
            self.content.clear();
            self.taken = 0;
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
