//! Distributions in storage.

/// Distribution as its occupied buckets, with about four bytes for each. A `Histogram` takes 270 kB.
///
/// A run holds thousands of these, by interval and by operation, and a bake-off those of all its runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactHistogram {
    /// For each bucket the distance of its lowest value from that of the previous one, and its count; in
    /// groups of seven bits, the lowest first, of which all but the last have the eighth bit.
    bytes: Box<[u8]>,
}

impl CompactHistogram {
    /// Distribution of these buckets of the one layout: lowest value and count of each, in rising order.
    pub fn of_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut previous_ns) = (Vec::new(), 0_u64);
        for (lowest_ns, count) in buckets {
            put(lowest_ns.wrapping_sub(previous_ns), &mut bytes);
            put(count, &mut bytes);
            previous_ns = lowest_ns;
        }
        Self { bytes: bytes.into() }
    }

    /// Occupied buckets in rising order, as in `Histogram::buckets`.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut lowest_ns) = (&*self.bytes, 0_u64);
        std::iter::from_fn(move || {
            let (distance_ns, count) = (take(&mut rest)?, take(&mut rest)?);
            lowest_ns = lowest_ns.wrapping_add(distance_ns);
            Some((lowest_ns, count))
        })
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets().map(|(_, n)| n).sum()
    }

    /// Whether no value was recorded.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_read_back_and_take_a_quarter_of_two_numbers() {
        let all: [&[(u64, u64)]; 6] = [
            &[],
            &[(0, 1)],
            &[(0, 127), (1, 128), (2, 0)],
            &[(127, u64::MAX), (255, 1 << 63), (u64::MAX, u64::MAX)],
            &[(16_383, 16_383), (16_384, 16_384)],
            // Not in order, as another program may have written them.
            &[(5, 1), (3, 2), (3, 4)],
        ];
        for buckets in all {
            let packed = CompactHistogram::of_buckets(buckets.iter().copied());
            assert_eq!(packed.buckets().collect::<Vec<_>>(), buckets);
            assert_eq!(packed.is_empty(), buckets.is_empty());
        }
        let usual = CompactHistogram::of_buckets((0..1_000).map(|i| (1_048_576 + i * 1_024, i % 90)));
        assert_eq!(usual.count(), (0..1_000).map(|i| i % 90).sum::<u64>());
        assert!(usual.memory_bytes() < 4_100, "{}", usual.memory_bytes());
    }
}
