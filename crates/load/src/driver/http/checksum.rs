//! Compares a body with the expected one.

/// Checksum of a body that arrives in pieces.
///
/// # Source
///
/// FNV-1a, 64 bits: Fowler, Noll and Vo, draft-eastlake-fnv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) sum: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Checksum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn value(self) -> u64 {
        self.sum
    }
}
