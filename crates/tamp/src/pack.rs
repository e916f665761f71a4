//! A block becomes its compressed form: what each compressing thread does.

use crate::Error;
use crate::buffer::Buffer;
use crate::decode::Decoder;
use crate::dictionary::Dictionary;
use crate::format::{gz, lz4, zst};
use crate::level::{Options, Setting};

/// One thread's codec contexts.
pub(crate) struct Packer {
    dictionary: Option<Dictionary>,
    zst: Option<zst::Encoder>,
    bgzf: Option<gz::Encoder>,
    verifier: Option<Verifier>,
}

/// What decodes a block again right after it was compressed, while it is still in the cache.
struct Verifier {
    decoder: Decoder,
    again: Buffer,
}

impl Packer {
    pub(crate) fn new(options: &Options) -> Self {
        let dictionary = options.dictionary.clone();
        let verifier = options
            .verify
            .then(|| Verifier { decoder: Decoder::new(dictionary.as_ref()), again: Buffer::default() });
        Self { dictionary, zst: None, bgzf: None, verifier }
    }

    /// Compresses `content`, which stood at `offset`, and appends it to `packed`.
    pub(crate) fn pack(
        &mut self,
        offset: u64,
        content: &[u8],
        setting: Setting,
        packed: &mut Buffer,
    ) -> Result<(), Error> {
        let before = packed.len();
        match setting {
            Setting::Zst(level) => {
                let dictionary = self.dictionary.as_ref();
                let encoder = self.zst.get_or_insert_with(|| zst::Encoder::new(dictionary));
                encoder.encode(content, level, packed)?;
            }
            Setting::Lz4(effort) => lz4::encode(content, effort, packed)?,
            Setting::Bgzf(level) => {
                if self.bgzf.as_ref().is_none_or(|encoder| encoder.level() != level) {
                    self.bgzf = Some(gz::Encoder::new(level));
                }
                let encoder = self.bgzf.as_mut().expect("it was just made");
                encoder.encode(content, packed)?;
            }
        }
        let agrees = self
            .verifier
            .as_mut()
            .is_none_or(|verifier| verifier.agrees(content, setting, &packed[before..]));
        if agrees { Ok(()) } else { Err(Error::Verify { offset }) }
    }
}

impl Verifier {
    fn agrees(&mut self, content: &[u8], setting: Setting, packed: &[u8]) -> bool {
        let again = &mut self.again;
        again.clear();
        let decoded = match setting {
            Setting::Zst(_) => self.decoder.zst(packed, content.len(), again),
            Setting::Lz4(_) => lz4::decode_framed(packed, &lz4::own_header(content.len()), again),
            Setting::Bgzf(_) => self.decoder.bgzf(packed, content.len(), again),
        };
        decoded.is_ok() && **again == *content
    }
}
