//! Conversion of the kernel side's sums to the record's types. Pure, so tests need no root.

use std::collections::BTreeMap;

use record::locks::{LockKind, Waits};

/// Kind of a lock, from the kernel's flags of a wait (`include/trace/events/lock.h`).
pub(super) fn kind(flags: u32) -> LockKind {
    const SPINS: u32 = 1;
    const READS: u32 = 2;
    const WRITES: u32 = 4;
    const RT: u32 = 8;
    const PERCPU: u32 = 16;
    const MUTEX: u32 = 32;
    match flags {
        0 => LockKind::Semaphore,
        SPINS => LockKind::Spinlock,
        f if f == SPINS | READS => LockKind::RwlockRead,
        f if f == SPINS | WRITES => LockKind::RwlockWrite,
        READS => LockKind::RwsemRead,
        WRITES => LockKind::RwsemWrite,
        RT => LockKind::RtMutex,
        f if f == RT | READS => LockKind::RtRwlockRead,
        f if f == RT | WRITES => LockKind::RtRwlockWrite,
        f if f == PERCPU | READS => LockKind::PercpuRwsemRead,
        f if f == PERCPU | WRITES => LockKind::PercpuRwsemWrite,
        f if f & !SPINS == MUTEX => LockKind::Mutex,
        _ => LockKind::Other,
    }
}

/// Converts the kernel side's sums of waits: bucket `i` counts those from 2^i ns on.
pub(crate) fn waits(count: u64, ns_total: u64, ns_max: u64, buckets: &[u32]) -> Waits {
    let histogram: BTreeMap<u64, u64> =
        buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (1 << i, u64::from(*n))).collect();
    Waits { count, ns_total, ns_max, histogram }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_kernel_are_kinds_of_locks() {
        let kinds: Vec<&str> =
            [1, 3, 5, 33, 32, 2, 4, 0, 8, 10, 12, 18, 20, 64].map(|f| kind(f).word()).to_vec();
        assert_eq!(
            kinds.join(" "),
            "spinlock rwlock-read rwlock-write mutex mutex rwsem-read rwsem-write semaphore rt-mutex \
             rt-rwlock-read rt-rwlock-write percpu-rwsem-read percpu-rwsem-write other"
        );
    }

    #[test]
    fn buckets_keep_every_wait_under_its_lower_bound() {
        let mut buckets = [0; 40];
        (buckets[0], buckets[10], buckets[39]) = (1, 2, 3);
        let waits = waits(6, 100, 50, &buckets);
        assert_eq!(waits.histogram, BTreeMap::from([(1, 1), (1024, 2), (1 << 39, 3)]));
    }
}
