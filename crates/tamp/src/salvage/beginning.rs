//! The beginning of a Zstandard block that does not decode.
//!
//! The decoder returns nothing of a damaged block, but it has written the content before the damage by then.
//! So the frame is decoded twice more, over zeros and over ones: the bytes up to the first difference are
//! content.

use super::Salvage;
use crate::Error;
use crate::format::zst::{self, BLOCK_HEADER_BYTES, BLOCK_OUT_MAX, Extent};

impl Salvage<'_> {
    /// Returns the content of the damaged block around `pos` before its damage, at most `limit` bytes. The
    /// frame of `header` began at `at` and has `produced` bytes before that block.
    ///
    /// Empty if the block is cut, or if frame and content together exceed the memory limit.
    pub(super) fn zst_beginning(
        &mut self,
        at: u64,
        header: &zst::Header,
        pos: u64,
        produced: u64,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let mut walk = zst::Walk::new(header);
        loop {
            let step = walk.step(self.file.show(at + walk.at() as u64, BLOCK_HEADER_BYTES)?);
            let reached = at + walk.at() as u64;
            match step {
                Ok(_) if reached > self.file.file_bytes => return Ok(Vec::new()),
                Ok(None | Some(Extent::Whole { .. })) if reached > pos => break,
                Ok(None) => {}
                // Contradictory lengths, the end of the file, or only a wrong checksum behind all blocks.
                Ok(Some(_)) | Err(_) => return Ok(Vec::new()),
            }
        }
        let end = at + walk.at() as u64;
        let needed_bytes = (end - at) + produced + 2 * BLOCK_OUT_MAX as u64;
        if needed_bytes > self.options.memory_bytes {
            return Ok(Vec::new());
        }
        let fits = "memory was granted for it";
        let (bytes, produced) =
            (usize::try_from(end - at).expect(fits), usize::try_from(produced).expect(fits));
        let frame = &self.file.show(at, bytes)?;
        let frame = &frame[..bytes.min(frame.len())];
        let mut over = |fill: u8| {
            let mut room = vec![fill; produced + BLOCK_OUT_MAX];
            self.decoder.zst_stream().decode_over(frame, &mut room);
            room.split_off(produced)
        };
        let (mut content, other) = (over(0), over(0xff));
        let agree = content.iter().zip(&other).take_while(|(a, b)| a == b).count();
        content.truncate(agree.min(usize::try_from(limit).unwrap_or(usize::MAX)));
        Ok(content)
    }
}
