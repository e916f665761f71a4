//! [`Writer`]: whatever is written to it comes out compressed.

use crate::Error;
use crate::level::{Options, Setting};
use crate::meter::Meter;
use crate::ring::{MakeWork, Ring, Sink};
use crate::zst::{self, Seek};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Compresses what is written to it, in parallel, block by block, into `W`.
///
/// Nothing is complete before [`Writer::finish`]: a writer that is dropped leaves what it had
/// written, which reads back as far as it goes, and loses the block in hand.
///
/// # Example
///
/// ```
/// use std::io::{Read, Write};
///
/// let mut writer = tamp::Writer::new(Vec::new(), &tamp::Options::zst(tamp::Level::USUAL))?;
/// writer.write_all(b"a log line\n")?;
/// let file: Vec<u8> = writer.finish()?;
///
/// let mut text = String::new();
/// tamp::Reader::new(&file[..], 1).read_to_string(&mut text)?;
/// assert_eq!(text, "a log line\n");
/// # Ok::<(), tamp::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "what is written is complete only after `finish`"]
pub struct Writer<W: Write + Send + 'static> {
    ring: Ring<Block, Result<Packed, Error>, Container<W>>,
    block: Vec<u8>,
    block_bytes: usize,
    setting: Setting,
    offset: u64,
    meter: Arc<Meter>,
}

/// What a worker gets.
struct Block {
    offset: u64,
    content: Vec<u8>,
    setting: Setting,
}

/// What a worker yields.
struct Packed {
    content_bytes: usize,
    packed: Vec<u8>,
}

/// Where blocks are put in order, and what the container needs to know of them at its end.
struct Container<W> {
    out: W,
    seeks: Vec<Seek>,
    meter: Arc<Meter>,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// A writer into `out`.
    ///
    /// # Errors
    ///
    /// What `out` says to the container's first bytes.
    pub fn new(out: W, options: &Options) -> Result<Self, Error> {
        Self::with_meter(out, options, Arc::new(Meter::new()))
    }

    /// Like [`Writer::new`], counting into `meter`.
    ///
    /// # Errors
    ///
    /// As [`Writer::new`].
    pub fn with_meter(out: W, options: &Options, meter: Arc<Meter>) -> Result<Self, Error> {
        options.check();
        let container = Container { out, seeks: Vec::new(), meter: Arc::clone(&meter) };
        let verify = options.verify;
        let make_work: MakeWork<Block, Result<Packed, Error>> = Arc::new(move || {
            let mut packer = Packer::new(verify);
            Box::new(move |block| packer.pack(&block))
        });
        Ok(Self {
            ring: Ring::new(options.threads, Arc::clone(&meter), make_work, Some(container)),
            block: Vec::with_capacity(options.block_bytes),
            block_bytes: options.block_bytes,
            setting: Setting::of(options.format, options.level),
            offset: 0,
            meter,
        })
    }

    /// Writes the last block and the container's end; yields the inner writer, not flushed.
    ///
    /// # Errors
    ///
    /// The first error of a worker or of the inner writer.
    pub fn finish(mut self) -> Result<W, Error> {
        if !self.block.is_empty() || self.offset == 0 {
            self.cut()?;
        }
        let mut container = self.ring.finish(&mut || ())?;
        let end = zst::seek_table(&container.seeks);
        container.out.write_all(&end)?;
        container.meter.out_bytes.fetch_add(end.len() as u64, Relaxed);
        Ok(container.out)
    }

    /// Ends the block in hand and sends it on its way.
    fn cut(&mut self) -> Result<(), Error> {
        let content = std::mem::replace(&mut self.block, Vec::with_capacity(self.block_bytes));
        let offset = self.offset;
        self.offset += content.len() as u64;
        self.meter.in_bytes.fetch_add(content.len() as u64, Relaxed);
        self.ring.push(Block { offset, content, setting: self.setting }, &mut || ())
    }
}

impl<W: Write + Send + 'static> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.block_bytes - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == self.block_bytes {
            self.cut()?;
        }
        Ok(taken)
    }

    /// Ends the block in hand, waits until all is written, and flushes the inner writer.
    ///
    /// A reader can then read all that was written so far; blocks cut short compress less.
    fn flush(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.cut()?;
        }
        self.ring.with_sink(|container| container.out.flush())?
    }
}

impl<W: Write + Send> Sink<Result<Packed, Error>> for Container<W> {
    fn put(&mut self, block: Result<Packed, Error>) -> Result<(), Error> {
        let block = block?;
        self.out.write_all(&block.packed)?;
        self.meter.out_bytes.fetch_add(block.packed.len() as u64, Relaxed);
        self.seeks.push(Seek {
            frame_bytes: u32::try_from(block.packed.len()).expect("blocks are at most 128 MiB"),
            content_bytes: u32::try_from(block.content_bytes).expect("blocks are at most 128 MiB"),
        });
        Ok(())
    }
}

/// One thread's codec.
struct Packer {
    zst: zst::Encoder,
    check: Option<zst::Decoder>,
    again: Vec<u8>,
}

impl Packer {
    fn new(verify: bool) -> Self {
        Self { zst: zst::Encoder::new(), check: verify.then(zst::Decoder::new), again: Vec::new() }
    }

    fn pack(&mut self, block: &Block) -> Result<Packed, Error> {
        let mut packed = Vec::new();
        match block.setting {
            Setting::Zst(level) => self.zst.encode(&block.content, level, &mut packed)?,
        }
        if let Some(decoder) = &mut self.check {
            let decoded = decoder.decode(&packed, block.content.len(), &mut self.again);
            if decoded.is_err() || self.again != block.content {
                return Err(Error::Verify { offset: block.offset });
            }
        }
        Ok(Packed { content_bytes: block.content.len(), packed })
    }
}
