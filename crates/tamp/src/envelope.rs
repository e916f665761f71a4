//! The parts of an output file before and behind its blocks.

use crate::format::Container;
use crate::format::zst::Seek;
use crate::level::Options;

/// A file's head and tail, and the blocks that the tail lists.
#[derive(Debug)]
pub(crate) struct Envelope {
    container: &'static dyn Container,
    block_bytes: usize,
    stated_content_bytes: Option<u64>,
    seeks: Vec<Seek>,
    content_bytes: u64,
}

impl Envelope {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            container: options.format.container(),
            block_bytes: options.block_bytes,
            stated_content_bytes: options.content_bytes,
            seeks: Vec::new(),
            content_bytes: 0,
        }
    }

    /// Returns the bytes before the first block.
    pub(crate) fn head(&self) -> Vec<u8> {
        self.container.head(self.block_bytes, self.stated_content_bytes)
    }

    /// Notes a written block.
    pub(crate) fn add(&mut self, packed: &[u8], content_bytes: usize) {
        self.content_bytes += content_bytes as u64;
        self.seeks.extend(self.container.seek(packed, content_bytes));
    }

    /// Whether a file without content needs an empty block to be valid.
    pub(crate) fn wants_empty_block(&self) -> bool {
        self.container.wants_empty_block()
    }

    /// Returns the bytes behind the last block.
    pub(crate) fn tail(&self) -> Vec<u8> {
        self.container.tail(&self.seeks)
    }

    /// Returns the size of the content so far, and the size that the header states.
    pub(crate) fn content_bytes(&self) -> (u64, Option<u64>) {
        let stated = self.stated_content_bytes.filter(|_| self.container.states_content_bytes());
        (self.content_bytes, stated)
    }
}
