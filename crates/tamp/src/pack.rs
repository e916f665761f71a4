//! A block becomes its compressed form: what each compressing thread does.

use crate::Error;
use crate::buffer::Buffer;
use crate::level::Setting;
use crate::{gz, lz4, zst};

/// One thread's codec contexts.
pub(crate) struct Packer {
    zst: Option<zst::Encoder>,
    bgzf: Option<gz::Encoder>,
    verifier: Option<Verifier>,
}

/// What decodes a block again right after it was compressed, while it is still in the cache.
struct Verifier {
    zst: zst::Decoder,
    deflate: libdeflater::Decompressor,
    again: Buffer,
}

impl Packer {
    pub(crate) fn new(verify: bool) -> Self {
        let verifier = verify.then(|| Verifier {
            zst: zst::Decoder::new(),
            deflate: libdeflater::Decompressor::new(),
            again: Buffer::default(),
        });
        Self { zst: None, bgzf: None, verifier }
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
                self.zst.get_or_insert_with(zst::Encoder::new).encode(content, level, packed)?;
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
            Setting::Zst(_) => self.zst.decode(packed, content.len(), again),
            Setting::Lz4(_) => lz4::decode_framed(packed, &lz4::own_header(content.len()), again),
            Setting::Bgzf(_) => gz::decode_bgzf(&mut self.deflate, packed, content.len(), again),
        };
        decoded.is_ok() && **again == *content
    }
}
