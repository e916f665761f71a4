//! Content-defined ends of blocks.
//!
//! A rolling hash covers the last 64 bytes; a block ends if the hash is small. The same bytes give the same
//! ends at any offset, so content behind an insertion is cut as before.
//!
//! # Source
//!
//! The gear hash of Xia and others, "Ddelta" (Performance Evaluation 79, 2014).

/// Finds the ends of blocks.
#[derive(Debug)]
pub(crate) struct Cutter {
    hash: u64,
    /// Minimum size of a block: smaller blocks compress badly.
    bytes_min: usize,
    /// Largest hash that ends a block.
    hash_max: u64,
}

impl Cutter {
    /// Creates a cutter for blocks of at most `bytes_max`, half that on average if the content varies.
    pub(crate) fn new(bytes_max: usize) -> Self {
        // Behind the minimum size n, an end comes once in m bytes. With n = max / 8 and m = 0.43 max, the
        // average of min(n + m, max) is half of max.
        let between = (bytes_max as u64 * 43 / 100).max(1);
        Self { hash: 0, bytes_min: bytes_max / 8, hash_max: u64::MAX / between }
    }

    /// Finds the end of the first block of `bytes`; searches only the last `added` bytes.
    pub(crate) fn find(&mut self, bytes: &[u8], added: usize) -> Option<usize> {
        let from = bytes.len() - added;
        for (at, &byte) in bytes.iter().enumerate().skip(from) {
            self.hash = (self.hash << 1).wrapping_add(GEAR[usize::from(byte)]);
            if self.hash <= self.hash_max && at + 1 >= self.bytes_min {
                self.hash = 0;
                return Some(at + 1);
            }
        }
        None
    }
}

/// A random number for each byte value, by splitmix64.
const GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let mut state: u64 = 0;
    let mut byte = 0;
    while byte < 256 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        gear[byte] = mixed ^ (mixed >> 31);
        byte += 1;
    }
    gear
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn blocks(mut content: &[u8], bytes_max: usize) -> Vec<&[u8]> {
        let mut cutter = Cutter::new(bytes_max);
        let mut blocks = Vec::new();
        while !content.is_empty() {
            let held = &content[..content.len().min(bytes_max)];
            let end = cutter.find(held, held.len()).unwrap_or(held.len());
            blocks.push(&content[..end]);
            content = &content[end..];
        }
        blocks
    }

    #[test]
    fn blocks_have_half_of_their_largest_size_on_average() {
        let content: Vec<u8> = (0..800_000_u32)
            .flat_map(|n| format!("row {}\n", n.wrapping_mul(0x9E37_79B1)).into_bytes())
            .collect();
        for bytes_max in [16_000, 32 << 10, 50_000] {
            let found = blocks(&content, bytes_max);
            let mean = content.len() / found.len();
            assert!((bytes_max * 45 / 100..=bytes_max * 55 / 100).contains(&mean), "{mean} of {bytes_max}");
        }
    }

    #[test]
    fn an_insertion_changes_the_blocks_around_it_and_no_others() {
        let before: Vec<u8> = (0..400_000_u32).flat_map(|n| format!("row {n}\n").into_bytes()).collect();
        let mut after = before.clone();
        after.splice(2_000_000..2_000_000, *b"inserted");
        let (before, after) = (blocks(&before, 64 << 10), blocks(&after, 64 << 10));
        let known: HashSet<_> = before.iter().collect();
        let new = after.iter().filter(|block| !known.contains(block)).count();
        assert!(before.len() > 50 && new <= 3, "{new} of {} blocks are new", after.len());
    }
}
