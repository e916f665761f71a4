//! CPUs that come and go during an on-CPU profile.

use std::collections::{BTreeMap, BTreeSet};

use crate::ticks::SAMPLE_PERIOD_NS;

/// CPUs by the way they are sampled.
///
/// The sampler is attached once, with rights that are dropped afterwards. A CPU that goes offline loses its
/// sampler, also if it comes back.
#[derive(Debug)]
pub(super) struct Online {
    /// With the stay in which it was attached, see [`crate::cpu_list::stays`].
    sampled: BTreeMap<u32, u64>,
    at_ns: u64,
    /// Time of all sampled CPUs.
    sampled_ns: u64,
    /// Time of each CPU that was online without a sampler.
    unsampled_ns: BTreeMap<u32, u64>,
    gone: BTreeSet<u32>,
}

impl Online {
    pub(super) fn new(sampled: BTreeMap<u32, u64>, at_ns: u64) -> Self {
        Self { sampled, at_ns, sampled_ns: 0, unsampled_ns: BTreeMap::new(), gone: BTreeSet::new() }
    }

    /// Adds the time since the last look.
    ///
    /// - `online`: CPUs now, with their stays; `None` if the kernel does not list them, then those of the
    ///   last look.
    pub(super) fn look(&mut self, online: Option<&BTreeMap<u32, u64>>, now_ns: u64) {
        let ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        if let Some(online) = online {
            self.gone.extend(self.sampled.keys().filter(|cpu| !online.contains_key(cpu)));
            self.sampled.retain(|cpu, stay| online.get(cpu) == Some(stay));
            for cpu in online.keys().filter(|cpu| !self.sampled.contains_key(cpu)) {
                *self.unsampled_ns.entry(*cpu).or_default() += ns;
            }
        }
        self.sampled_ns += ns * self.sampled.len() as u64;
    }

    /// Number of samples of CPUs with a sampler that did not come.
    ///
    /// The first and the last of each CPU may fall to either side of an edge.
    ///
    /// - `came`: number of those that came.
    pub(super) fn absent(&self, came: u64) -> u64 {
        let missing = (self.sampled_ns / SAMPLE_PERIOD_NS).saturating_sub(came);
        if missing > self.sampled.len() as u64 { missing } else { 0 }
    }

    /// Number of samples that CPUs without a sampler would have had.
    pub(super) fn unsampled(&self) -> u64 {
        self.unsampled_ns.values().map(|ns| ns.div_ceil(SAMPLE_PERIOD_NS)).sum()
    }

    /// A sentence for each CPU that came or went.
    pub(super) fn notes(&self) -> Vec<String> {
        let came = |cpu: &u32| {
            format!(
                "CPU {cpu} came online during the profile and is not sampled: what ran there is not in it"
            )
        };
        let left = self.gone.iter().filter(|cpu| !self.unsampled_ns.contains_key(cpu));
        let went = |cpu: &u32| format!("CPU {cpu} went offline during the profile");
        self.unsampled_ns.keys().map(came).chain(left.map(went)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn cpus(numbers: &[u32]) -> BTreeMap<u32, u64> {
        numbers.iter().map(|cpu| (*cpu, 1)).collect()
    }

    fn after_a_second(sampled: &[u32]) -> Online {
        let mut online = Online::new(cpus(sampled), 5);
        online.look(Some(&cpus(sampled)), 5 + SECOND);
        online
    }

    #[test]
    fn a_sample_more_or_less_at_the_edges_is_not_lost() {
        let online = after_a_second(&[0, 1]);
        for came in [2 * 997 - 2, 2 * 997, 2 * 997 + 2] {
            assert_eq!(online.absent(came), 0);
        }
        assert_eq!(online.absent(997), 997, "one CPU of two was not sampled");
        assert_eq!((online.unsampled(), online.notes()), (0, Vec::new()));
    }

    #[test]
    fn a_cpu_that_comes_is_not_sampled_and_that_is_reported_and_counted() {
        let mut online = after_a_second(&[0]);
        online.look(Some(&cpus(&[0, 1])), 5 + 3 * SECOND);
        assert_eq!(online.absent(3 * 997), 0, "the other CPU lost nothing");
        assert_eq!(online.unsampled(), 2 * 997 + 1, "two seconds, rounded up");
        assert!(online.notes()[0].starts_with("CPU 1 came online"), "{:?}", online.notes());
    }

    #[test]
    fn a_cpu_that_was_away_between_two_looks_is_not_sampled_any_more() {
        let mut online = after_a_second(&[0, 1]);
        online.look(Some(&[(0, 1), (1, 2)].into()), 5 + 2 * SECOND);
        assert_eq!((online.absent(3 * 997), online.unsampled()), (0, 997 + 1));
        assert!(online.notes()[0].starts_with("CPU 1 came online"), "{:?}", online.notes());
    }

    #[test]
    fn a_cpu_that_goes_is_missed_only_if_it_comes_back() {
        let mut online = after_a_second(&[0, 1]);
        online.look(Some(&cpus(&[0])), 5 + 2 * SECOND);
        assert_eq!((online.absent(3 * 997), online.unsampled()), (0, 0));
        assert_eq!(online.notes(), ["CPU 1 went offline during the profile"]);
        online.look(Some(&cpus(&[0, 1])), 5 + 3 * SECOND);
        assert_eq!((online.absent(4 * 997), online.unsampled()), (0, 997 + 1));
        assert_eq!(online.notes().len(), 1);
        // A list that cannot be read changes nothing.
        online.look(None, 5 + 4 * SECOND);
        assert_eq!(online.absent(5 * 997), 0);
    }
}
