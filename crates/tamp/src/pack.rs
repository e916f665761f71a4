//! Compresses blocks, in each compressing thread.

use crate::Error;
use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::format::{Container, Encode, Setting};
use crate::level::Options;

/// Codec contexts of one thread.
pub(crate) struct Packer {
    encoder: Box<dyn Encode>,
    verifier: Option<Verifier>,
}

/// Decodes a block right after it was compressed, while it is still in the cache.
struct Verifier {
    container: &'static dyn Container,
    decoder: Decoder<'static>,
    again: Buffer,
}

impl Packer {
    pub(crate) fn new(options: &Options) -> Self {
        let (container, dictionary) = (options.format.container(), options.dictionary.as_ref());
        let verifier = options.verify.then(|| Verifier {
            container,
            decoder: Decoder::new(dictionary),
            again: Buffer::default(),
        });
        Self { encoder: container.encoder(dictionary), verifier }
    }

    /// Compresses `content`, which begins at `offset`, and appends it to `packed`.
    pub(crate) fn pack(
        &mut self,
        offset: u64,
        content: &[u8],
        setting: Setting,
        packed: &mut Buffer,
    ) -> Result<(), Error> {
        let before = packed.len();
        self.encoder.encode(content, setting, packed)?;
        let agrees =
            self.verifier.as_mut().is_none_or(|verifier| verifier.agrees(content, &packed[before..]));
        if agrees { Ok(()) } else { Err(Error::Verify { offset }) }
    }
}

impl Verifier {
    fn agrees(&mut self, content: &[u8], packed: &[u8]) -> bool {
        let again = &mut self.again;
        again.clear();
        let block = self.container.block(packed, content.len(), None);
        let decoded = block.and_then(|block| self.decoder.decode(&block, again));
        decoded.is_ok() && **again == *content
    }
}
