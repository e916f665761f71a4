//! What stands before, and what behind the blocks of a file.

use crate::format::zst::Seek;
use crate::format::{gz, lz4, zst};
use crate::level::{Format, Options};

/// A container being written.
#[derive(Debug)]
pub(crate) struct Container {
    format: Format,
    block_bytes: usize,
    stated_content_bytes: Option<u64>,
    seeks: Vec<Seek>,
    content_bytes: u64,
}

impl Container {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            format: options.format,
            block_bytes: options.block_bytes,
            stated_content_bytes: options.content_bytes,
            seeks: Vec::new(),
            content_bytes: 0,
        }
    }

    /// What goes before the first block.
    pub(crate) fn head(&self) -> Vec<u8> {
        match self.format {
            Format::Zst | Format::Bgzf => Vec::new(),
            Format::Lz4 => lz4::frame_header(self.block_bytes, self.stated_content_bytes),
        }
    }

    /// Notes that a block was written.
    pub(crate) fn add(&mut self, packed: &[u8], content_bytes: usize) {
        self.content_bytes += content_bytes as u64;
        if self.format == Format::Zst {
            self.seeks.push(Seek::of(packed, content_bytes));
        }
    }

    /// Whether a file without content needs a block all the same, so that it is a file of its format.
    pub(crate) fn wants_empty_block(&self) -> bool {
        self.format == Format::Zst
    }

    /// What goes behind the last block.
    pub(crate) fn tail(&self) -> Vec<u8> {
        match self.format {
            Format::Zst => zst::tail(&self.seeks),
            Format::Lz4 => lz4::END_MARK.to_vec(),
            Format::Bgzf => gz::BGZF_END.to_vec(),
        }
    }

    /// Content noted so far, and what the header said it would be.
    pub(crate) fn content_bytes(&self) -> (u64, Option<u64>) {
        let stated = if self.format == Format::Lz4 { self.stated_content_bytes } else { None };
        (self.content_bytes, stated)
    }
}
