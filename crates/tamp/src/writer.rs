//! [`Writer`]: compresses a stream.

use crate::Error;
use crate::buffer::{Buffer, Spare};
use crate::cut::Cutter;
use crate::envelope::Envelope;
use crate::format::Setting;
use crate::keep_up::Ladder;
use crate::level::Options;
use crate::meter::{Doing, Meter, now};
use crate::pack::Packer;
use crate::ring::{MakeWork, Ring, Sink};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Compresses bytes in parallel, block by block, into `W`.
///
/// The output is complete only after [`Writer::finish`]: a writer that is dropped leaves the blocks written
/// so far, which are readable, and loses the current block.
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
    ring: Ring<Block, Result<Packed, Error>, Output<W>>,
    spare: Arc<Spare>,
    block: Buffer,
    block_bytes: usize,
    setting: Setting,
    ladder: Option<Ladder>,
    cutter: Option<Cutter>,
    last_cut: Instant,
    offset: u64,
    meter: Arc<Meter>,
}

/// Job of a worker.
struct Block {
    offset: u64,
    content: Buffer,
    setting: Setting,
}

/// Product of a worker.
struct Packed {
    content_bytes: usize,
    packed: Buffer,
}

/// Writes blocks in order.
struct Output<W> {
    out: W,
    envelope: Envelope,
    spare: Arc<Spare>,
    meter: Arc<Meter>,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// Creates a writer into `out`.
    ///
    /// # Errors
    ///
    /// [`Error::Options`], and errors of `out` for the container's first bytes.
    pub fn new(out: W, options: &Options) -> Result<Self, Error> {
        Self::with_meter(out, options, Arc::new(Meter::new()))
    }

    /// Variant of [`Writer::new`] that counts into `meter`.
    ///
    /// # Errors
    ///
    /// The same as of [`Writer::new`].
    pub fn with_meter(out: W, options: &Options, meter: Arc<Meter>) -> Result<Self, Error> {
        options.check()?;
        let spare = Arc::new(Spare::default());
        let envelope = Envelope::new(options);
        let mut output = Output { out, envelope, spare: Arc::clone(&spare), meter: Arc::clone(&meter) };
        output.write(&output.envelope.head())?;
        let (packing, worker_spare) = (options.clone(), Arc::clone(&spare));
        let make_work: MakeWork<Block, Result<Packed, Error>> = Arc::new(move || {
            let (mut packer, spare) = (Packer::new(&packing), Arc::clone(&worker_spare));
            Box::new(move |block: Block| {
                let mut packed = spare.get();
                packer.pack(block.offset, &block.content, block.setting, &mut packed)?;
                let content_bytes = block.content.len();
                spare.put(block.content);
                Ok(Packed { content_bytes, packed })
            })
        });
        let mut ring = Ring::new(options.threads, Arc::clone(&meter), make_work, Some(output));
        if options.has_large_tables() {
            // Fewer blocks in flight make up for the memory of the codec's tables.
            ring.limit(options.threads + options.threads / 5 + 1);
        }
        Ok(Self {
            ring,
            block: spare.get(),
            spare,
            block_bytes: options.block_bytes,
            setting: options.format.container().setting(options.level),
            ladder: options.keep_up.then(|| Ladder::new(options.format, options.level)),
            cutter: options.rsyncable.then(|| Cutter::new(options.block_bytes)),
            last_cut: now(),
            offset: 0,
            meter,
        })
    }

    /// Returns the first bytes of a file. After [`Error::SizeHint`], overwrite the beginning with those for
    /// the true size.
    pub fn head(options: &Options) -> Vec<u8> {
        Envelope::new(options).head()
    }

    /// Writes the last block and the container's end; returns the inner writer, not flushed.
    ///
    /// # Errors
    ///
    /// The first error of a worker or of the inner writer; [`Error::SizeHint`], after everything is written,
    /// if an LZ4 header states another size.
    pub fn finish(mut self) -> Result<W, Error> {
        self.cut()?;
        if self.offset == 0 && self.ring.with_sink(|output| output.envelope.wants_empty_block())? {
            self.push()?;
        }
        let mut output = self.ring.finish()?;
        output.write(&output.envelope.tail())?;
        match output.envelope.content_bytes() {
            (found, Some(stated)) if found != stated => Err(Error::SizeHint { stated, found }),
            _ => Ok(output.out),
        }
    }

    /// Reads once from `source` into the current block; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    ///
    /// Errors of `source`, interruptions included; then the same as of [`Writer::finish`].
    pub fn read_from(&mut self, source: &mut impl Read) -> Result<usize, Error> {
        let begun = now();
        let read = source.read(self.block.tail(self.block_bytes));
        self.meter.charge(Doing::Starved, begun);
        let read = read?;
        self.block.grow(read);
        self.push_whole(read)?;
        Ok(read)
    }

    /// Ends the current block, so a reader can find, read or lose what follows independently.
    ///
    /// # Errors
    ///
    /// The first error of a worker or of the inner writer.
    pub fn cut(&mut self) -> Result<(), Error> {
        if self.block.is_empty() { Ok(()) } else { self.push() }
    }

    /// Calls `look_up` about ten times a second while this writer waits for room, to show progress.
    pub fn on_wait(&mut self, look_up: impl FnMut() + Send + 'static) {
        self.ring.on_wait(Box::new(look_up));
    }

    /// Pushes every block that the last `added` bytes completed.
    fn push_whole(&mut self, mut added: usize) -> Result<(), Error> {
        while let Some(cutter) = &mut self.cutter {
            let Some(end) = cutter.find(&self.block, added) else { break };
            let mut next = self.spare.get();
            next.fill(&self.block[end..]);
            added = next.len();
            self.block.set_len(end);
            self.push()?;
            self.block = next;
        }
        if self.block.len() == self.block_bytes { self.push() } else { Ok(()) }
    }

    /// Pushes the current block.
    fn push(&mut self) -> Result<(), Error> {
        let content = std::mem::replace(&mut self.block, self.spare.get());
        let offset = self.offset;
        self.offset += content.len() as u64;
        if let Some(ladder) = &mut self.ladder {
            let since_last = now().duration_since(self.last_cut);
            let load = self.ring.load();
            // A single thread has no ring; the busy share of its codec takes the place of the occupancy.
            let occupancy_ratio = match load.occupancy_ratio {
                Some(ratio) => ratio,
                None => self.ring.last_work().as_secs_f64() / since_last.as_secs_f64().max(f64::MIN_POSITIVE),
            };
            self.setting = ladder.next(occupancy_ratio, load.can_grow, since_last);
        }
        self.last_cut = now();
        self.ring.push(Block { offset, content, setting: self.setting })
    }
}

impl<W: Write + Send + 'static> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.block.append(bytes, self.block_bytes);
        self.push_whole(taken)?;
        Ok(taken)
    }

    /// Ends the current block, waits until everything is written, and flushes the inner writer.
    ///
    /// A reader can then read everything written so far; short blocks compress less.
    fn flush(&mut self) -> io::Result<()> {
        self.cut()?;
        self.ring.with_sink(|output| output.out.flush())?
    }
}

impl<W: Write> Output<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes)?;
        self.meter.out_bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }
}

impl<W: Write + Send> Sink<Result<Packed, Error>> for Output<W> {
    fn put(&mut self, block: Result<Packed, Error>) -> Result<(), Error> {
        let block = block?;
        self.write(&block.packed)?;
        // Counted only now, so progress shows completed input.
        self.meter.in_bytes.fetch_add(block.content_bytes as u64, Relaxed);
        self.envelope.add(&block.packed, block.content_bytes);
        self.spare.put(block.packed);
        Ok(())
    }
}
