//! Conversion of the maps' contents to the record's types.

use std::ptr;

use record::block_io::{Inode, IoOp, Latencies, LatencyBucket, Powers};

use super::skel::types::group_key;
use crate::block_io::Device;

/// Constants of `block_io.h`.
const FINE_BITS: u32 = 5;
const LATENCY_LOG2_MIN: u32 = 9;
const SLOT_OP_BITS: u32 = 8;
pub(super) const IO_OPS: [IoOp; 5] = [IoOp::Read, IoOp::Write, IoOp::Flush, IoOp::Discard, IoOp::Other];

impl Device {
    /// Device number, as the programs in the kernel write it.
    pub(super) fn number(self) -> u32 {
        self.major << 20 | self.minor
    }

    /// The inverse of [`Self::number`].
    pub(super) fn from_number(number: u32) -> Self {
        Self { major: number >> 20, minor: number & 0xf_ffff }
    }
}

/// Converts the key of a slot to the form of the maps' keys.
pub(super) fn slot_key(key: u64) -> Vec<u8> {
    let op = u32::try_from(key & ((1 << SLOT_OP_BITS) - 1)).expect("masked") - 1;
    let dev = u32::try_from(key >> SLOT_OP_BITS).expect("a device has 32 bits");
    [dev.to_ne_bytes(), op.to_ne_bytes()].concat()
}

/// Converts a key; it lacks the owner if none was requested.
pub(super) fn key_of(bytes: &[u8]) -> group_key {
    let mut whole = [0; size_of::<group_key>()];
    whole[..bytes.len()].copy_from_slice(bytes);
    plain(&whole)
}

/// Reads a value of the maps, which are plain integers and bytes.
pub(super) fn plain<T: Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>(), "the maps have values of this size");
    // SAFETY: long enough, checked above; every pattern of bits is a value of these types.
    unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) }
}

pub(super) fn file(key: &group_key, name: &str) -> String {
    match (key.inode, name) {
        (0, _) => "(not known)".to_owned(),
        (inode, "") => format!("(inode {inode})"),
        (_, name) => name.to_owned(),
    }
}

pub(super) fn inode(key: &group_key) -> Option<Inode> {
    let Device { major, minor } = Device::from_number(key.inode_dev);
    (key.inode != 0).then(|| Inode { device: format!("{major}:{minor}"), number: key.inode })
}

pub(super) fn powers(buckets: &[u32]) -> Powers {
    let bound = |b: usize| if b == 0 { 0 } else { 1_u64 << (b - 1) };
    let occupied = buckets.iter().enumerate().filter(|(_, n)| **n > 0);
    occupied.map(|(b, n)| (bound(b), u64::from(*n))).collect()
}

pub(super) fn latencies(buckets: &[u32], sum_ns: u64, max_ns: u64) -> Latencies {
    let occupied = (0..).zip(buckets).filter(|(_, n)| **n > 0);
    let buckets = occupied.map(|(b, n)| bucket(b, u64::from(*n), max_ns)).collect();
    Latencies { buckets, sum_ns, max_ns }
}

/// Bounds of a bucket: 32 of equal width to each power of two. The first also holds shorter latencies, the
/// last longer ones.
pub(super) fn bucket(number: u32, count: u64, max_ns: u64) -> LatencyBucket {
    let (power, place) =
        (LATENCY_LOG2_MIN + (number >> FINE_BITS), u64::from(number & ((1 << FINE_BITS) - 1)));
    let width = 1_u64 << (power - FINE_BITS);
    let from_ns = if number == 0 { 0 } else { (1 << power) + place * width };
    let end = (1 << power) + (place + 1) * width;
    let is_last = number + 1 == u32::try_from(size_of::<[u32; 896]>() / 4).expect("896");
    LatencyBucket { from_ns, until_ns: if is_last { end.max(max_ns + 1) } else { end }, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_way_through_the_kernel() {
        for device in [Device { major: 259, minor: 1_048_575 }, Device { major: 8, minor: 0 }] {
            assert_eq!(Device::from_number(device.number()), device);
        }
    }

    #[test]
    fn buckets_follow_each_other_without_gap_and_are_narrow() {
        let mut end = 0;
        for number in 0..896 {
            let b = bucket(number, 1, u64::MAX - 1);
            assert_eq!(b.from_ns, end, "bucket {number}");
            if (1..895).contains(&number) {
                assert!((b.until_ns - b.from_ns) * 32 <= b.from_ns, "bucket {number}");
            }
            end = b.until_ns;
        }
        assert_eq!(bucket(895, 1, u64::MAX - 1).until_ns, u64::MAX);
    }

    #[test]
    fn powers_are_named_by_their_lower_bounds() {
        let mut buckets = [0; 34];
        (buckets[0], buckets[1], buckets[13]) = (5, 2, 7);
        assert_eq!(powers(&buckets), [(0, 5), (1, 2), (4096, 7)].into());
    }
}
