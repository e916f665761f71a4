//! Order of the trials, drawn from the seed: anyone with the plan can reproduce it.
//!
//! Numbers come from the `ChaCha20` key stream, taken as 64-bit little-endian numbers. The seed, also little
//! endian, is the first eight bytes of the key; the rest of the key, the nonce and the counter are 0.
//! `openssl enc -chacha20 -K KEY -iv 0...0` produces this stream from zeros.
//!
//! A number below n is x mod n for the first x that is below the largest multiple of n in 64 bits: no value
//! is favored. A list is shuffled by Fisher and Yates: for i from its last index down to 1, swap i with a
//! number below i + 1. For each block the configurations are shuffled; then, in the resulting order, the
//! cells of each configuration. Both lists start in the order of `matrix::series`. Nothing else draws from
//! the stream.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use record::bakeoff::{Levels, Trial};

use crate::matrix::merged;

/// The numbers 0 to `n` - 1 in the order drawn from the seed for block `number`, counted from 1.
pub fn shuffled(seed: u64, number: u32, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    Stream::of(seed, number.into()).shuffle(&mut order);
    order
}

/// All trials, in the order drawn.
///
/// - `configurations`: each with its cells.
pub(crate) fn draw(seed: u64, blocks: u32, configurations: &[(Levels, Vec<Levels>)]) -> Vec<Trial> {
    let mut stream = Stream::new(seed);
    let mut trials = Vec::new();
    let mut series = 0;
    for block in 1..=blocks {
        let mut drawn: Vec<&(Levels, Vec<Levels>)> = configurations.iter().collect();
        stream.shuffle(&mut drawn);
        for (configuration, cells) in drawn {
            series += 1;
            let mut cells: Vec<&Levels> = cells.iter().collect();
            stream.shuffle(&mut cells);
            for (cell, position) in cells.into_iter().zip(1..) {
                let index = u32::try_from(trials.len()).expect("check limits the number of trials");
                let levels = merged(configuration, cell);
                trials.push(Trial { index, block, series, position, levels });
            }
        }
    }
    trials
}

#[derive(Debug)]
pub(crate) struct Stream(ChaCha20Rng);

impl Stream {
    fn new(seed: u64) -> Self {
        Self::of(seed, 0)
    }

    /// Separate stream for draws within a trial: `number` is the second eight bytes of the key.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&number.to_le_bytes());
        Self(ChaCha20Rng::from_seed(key))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // Number of 64-bit values that would favor the small remainders: 2^64 mod n.
        let spare = (u64::MAX % n + 1) % n;
        loop {
            let x = self.0.next_u64();
            if x <= u64::MAX - spare {
                return x % n;
            }
        }
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = usize::try_from(self.below(i as u64 + 1)).expect("an index of the list");
            list.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn levels(name: &str, values: &[&str]) -> Vec<Levels> {
        values.iter().map(|&v| Levels::from([(name.to_owned(), v.to_owned())])).collect()
    }

    fn draw(seed: u64, blocks: u32, whole: &[Levels], sub: &[Levels]) -> Vec<Trial> {
        let each: Vec<_> = whole.iter().map(|configuration| (configuration.clone(), sub.to_vec())).collect();
        super::draw(seed, blocks, &each)
    }

    #[test]
    fn the_stream_is_chacha20_as_others_make_it() {
        // head -c 16 /dev/zero | openssl enc -chacha20 -K 0100...00 -iv 00...00 | xxd -p
        let mut stream = Stream::new(1);
        assert_eq!(stream.0.next_u64(), u64::from_le_bytes(OPENSSL[..8].try_into().unwrap()));
        assert_eq!(stream.0.next_u64(), u64::from_le_bytes(OPENSSL[8..].try_into().unwrap()));
    }
    const OPENSSL: [u8; 16] =
        [0xc5, 0xd3, 0x0a, 0x7c, 0xe1, 0xec, 0x11, 0x93, 0x78, 0xc8, 0x4f, 0x48, 0x7d, 0x77, 0x5a, 0x85];

    #[test]
    fn a_block_has_one_series_of_every_configuration_and_a_series_every_cell_once() {
        let (whole, sub) = (levels("c", &["a", "b", "c", "d"]), levels("t", &["1", "2", "4"]));
        for seed in 0..200 {
            let trials = draw(seed, 6, &whole, &sub);
            assert_eq!(trials.len(), 72);
            assert!(trials.iter().enumerate().all(|(i, t)| t.index as usize == i));
            let mut of_block: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for series in trials.chunk_by(|a, b| a.series == b.series) {
                let block = of_block.entry(series[0].block).or_default();
                block.push(series[0].levels["c"].clone());
                assert!(
                    series
                        .iter()
                        .all(|t| t.block == series[0].block && t.levels["c"] == block[block.len() - 1])
                );
                assert_eq!(series.iter().map(|t| t.position).collect::<Vec<_>>(), [1, 2, 3]);
                assert_eq!(series.iter().map(|t| &t.levels["t"]).collect::<BTreeSet<_>>().len(), 3);
            }
            assert_eq!(of_block.len(), 6);
            for mut configurations in of_block.into_values() {
                configurations.sort();
                assert_eq!(configurations, ["a", "b", "c", "d"]);
            }
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_order_and_another_one_another() {
        let (whole, sub) = (levels("c", &["a", "b", "c"]), levels("t", &["1", "2", "4"]));
        assert_eq!(draw(7, 6, &whole, &sub), draw(7, 6, &whole, &sub));
        assert_ne!(draw(7, 6, &whole, &sub), draw(8, 6, &whole, &sub));
    }

    /// Each of the 6 orders of 3 configurations in 6000 first blocks: chi square with 5 degrees of freedom
    /// stays below its 99.99 % quantile, 25.7. The seeds are fixed, so the test is deterministic.
    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let (whole, sub) = (levels("c", &["a", "b", "c"]), vec![Levels::new()]);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for seed in 0..6_000 {
            let order = draw(seed, 1, &whole, &sub).iter().map(|t| t.levels["c"].as_str()).collect();
            *counts.entry(order).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        let chi_square: f64 = counts.values().map(|&n| (f64::from(n) - 1_000.0).powi(2) / 1_000.0).sum();
        assert!(chi_square < 25.7, "{counts:?}");
    }
}
