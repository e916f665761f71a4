//! Requests to block devices over an interval: number, sizes, addresses and latencies.

use std::collections::BTreeMap;

use crate::missing::Maybe;
use crate::run::words;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoOp {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes earlier writes durable.
    Flush,
    /// Discards data, or zeroes it without a transfer.
    Discard,
    /// Anything else: a command of the driver.
    Other,
}

words!(IoOp { Read = "read", Write = "write", Flush = "flush", Discard = "discard", Other = "other" });

/// Kernel events that follow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IoEvents {
    /// Start and end of the request (Linux 6.5 and later).
    StartToDone,
    /// Insertion into a scheduler's queue, or the issue if there is no scheduler; and the end of the last
    /// part.
    InsertToComplete,
    /// Issue to the driver and the end of the last part: latency from the start is unknown.
    IssueToComplete,
    /// Issue alone, which counts the request: latency, failures and requests in flight are unknown.
    Issue,
}

words!(IoEvents {
    StartToDone = "start-to-done",
    InsertToComplete = "insert-to-complete",
    IssueToComplete = "issue-to-complete",
    Issue = "issue",
});

impl IoEvents {
    /// Whether they yield latency from a request's start.
    pub fn tell_start(self) -> bool {
        matches!(self, Self::StartToDone | Self::InsertToComplete)
    }

    /// Whether they yield a request's end.
    pub fn tell_end(self) -> bool {
        self != Self::Issue
    }
}

/// Keys by which requests are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that the user names or not")]
pub struct IoBy {
    /// The device.
    pub device: bool,
    /// The name of the thread that started the request.
    pub comm: bool,
    /// The file, if it can be known.
    pub file: bool,
    /// The operation.
    pub op: bool,
    /// The cgroup v2 of the thread that started the request.
    pub cgroup: bool,
}

/// Counts by powers of two: lower bound of each bucket, and its count. The bucket of 0 holds only 0; every
/// other bucket ends at twice its lower bound.
pub type Powers = BTreeMap<u64, u64>;

/// One bucket of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBucket {
    /// Shortest latency in the bucket.
    pub from_ns: u64,
    /// Upper end, exclusive.
    pub until_ns: u64,
    /// Number of latencies.
    pub count: u64,
}

/// Distribution of latencies, in buckets at most 1/32 of their lower bound wide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Occupied buckets, in rising order.
    pub buckets: Vec<LatencyBucket>,
    /// Sum, exact.
    pub sum_ns: u64,
    /// Maximum, exact.
    pub max_ns: u64,
}

impl Latencies {
    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.count).sum()
    }

    /// Arithmetic mean, exact; `None` if empty.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }

    /// Latency that a share `q` in `[0, 1]` of all does not exceed; `None` if empty.
    ///
    /// Interpolated by rank within its bucket, so its error is at most 1/32 of itself.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        assert!((0.0..=1.0).contains(&q), "a quantile lies in [0, 1]");
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (q * count as f64).ceil().max(1.0);
        let mut below = 0.0;
        for bucket in &self.buckets {
            let here = bucket.count as f64;
            if below + here >= rank {
                let width = (bucket.until_ns - bucket.from_ns) as f64;
                let value = bucket.from_ns as f64 + width * (rank - below - 0.5) / here;
                return Some(value.min(self.max_ns as f64));
            }
            below += here;
        }
        Some(self.max_ns as f64)
    }

    /// Adds all of `other` without loss.
    pub fn add(&mut self, other: &Self) {
        let mut all: BTreeMap<u64, LatencyBucket> = self.buckets.iter().map(|b| (b.from_ns, *b)).collect();
        for bucket in &other.buckets {
            all.entry(bucket.from_ns).or_insert(LatencyBucket { count: 0, ..*bucket }).count += bucket.count;
        }
        self.buckets = all.into_values().collect();
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Distances from the end of a request to the beginning of the next one on its device, in sectors of 512
/// bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeks {
    /// Forward; 0 is the next sector and needs no seek.
    pub ahead: Powers,
    /// Backward.
    pub back: Powers,
}

impl Seeks {
    /// Share of requests that began at the end of the previous request; `None` without requests.
    pub fn sequential_ratio(&self) -> Option<f64> {
        let all: u64 = self.ahead.values().chain(self.back.values()).sum();
        (all > 0).then(|| self.ahead.get(&0).copied().unwrap_or(0) as f64 / all as f64)
    }
}

/// Identity of a file in its file system, independent of its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inode {
    /// Device of the file system, `major:minor`.
    pub device: String,
    /// Inode number.
    pub number: u64,
}

/// Requests of one group over one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoGroup {
    /// The device; `None` if the device is not a key. The same holds for the other keys.
    pub device: Option<String>,
    /// Name of the thread that started them.
    pub comm: Option<String>,
    /// Path of the cgroup of the thread that started them.
    pub cgroup: Option<String>,
    /// Name of the file without its directories; different files may have the same name.
    pub file: Option<String>,
    /// Inode of that file; `None` also if the file is unknown.
    pub inode: Option<Inode>,
    /// Operation.
    pub op: Option<IoOp>,
    /// Requests that ended.
    pub count: u64,
    /// Bytes that they transferred.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes per request.
    pub sizes: Powers,
    /// Latency from their start, including time in queues.
    pub from_start: Latencies,
    /// Latency from their issue to the driver.
    pub from_issue: Latencies,
    /// Start addresses of reads and writes on the device, in sectors of 512 bytes.
    pub addresses: Powers,
    /// Distances of reads and writes from the previously issued one.
    pub seeks: Seeks,
}

impl IoGroup {
    /// Adds all of `other` without loss and ignores its keys.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.from_start.add(&other.from_start);
        self.from_issue.add(&other.from_issue);
        for (ours, theirs) in [
            (&mut self.sizes, &other.sizes),
            (&mut self.addresses, &other.addresses),
            (&mut self.seeks.ahead, &other.seeks.ahead),
            (&mut self.seeks.back, &other.seeks.back),
        ] {
            for (bound, n) in theirs {
                *ours.entry(*bound).or_default() += n;
            }
        }
    }
}

/// Requests to all devices together. A write that also flushes counts as a write and as a flush. Asynchronous
/// requests are those that no thread waits for, of any operation: write-back and read-ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Requests that no thread waits for.
    pub asynchronous: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Anything else.
    pub others: u64,
}

/// All devices over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct IoInterval {
    /// Start, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, `CLOCK_MONOTONIC`; the interval's length is measured, never assumed.
    pub until_ns: u64,
    /// Whether the reader was so late that it missed a deadline.
    pub missed_deadline: bool,
    /// Kernel events that followed the requests.
    pub events: IoEvents,
    /// Requests that ended in the interval.
    pub counts: IoCounts,
    /// The same by group, most bytes first.
    pub groups: Vec<IoGroup>,
    /// Requests still in flight at the end of the interval.
    pub in_flight: u64,
    /// Ends of requests that started before tracing began; they are in no group. Missing if a filter is
    /// active: ends of filtered requests look the same.
    pub unmatched: Maybe<u64>,
    /// Requests, or parts of requests, that were merged into another one. Missing if a filter is active: the
    /// kernel does not report which request they belong to.
    pub merged: Maybe<u64>,
    /// Requests that are in no group, by reason. If not empty, every count is a lower bound.
    pub lost: BTreeMap<String, u64>,
}

impl IoInterval {
    /// Length of the interval in seconds.
    pub fn seconds(&self) -> f64 {
        (self.until_ns - self.from_ns) as f64 * 1e-9
    }

    /// Sum of all groups.
    pub fn total(&self) -> IoGroup {
        let mut total = IoGroup::default();
        for group in &self.groups {
            total.add(group);
        }
        total
    }
}

/// Merges groups that differ only in keys absent from `by`; most bytes first, then most requests.
pub fn fold(groups: impl IntoIterator<Item = IoGroup>, by: IoBy) -> Vec<IoGroup> {
    type Key = (Option<String>, Option<String>, Option<String>, Option<Inode>, Option<IoOp>, Option<String>);
    let mut folded: BTreeMap<Key, IoGroup> = BTreeMap::new();
    for group in groups {
        let key = (
            group.device.clone().filter(|_| by.device),
            group.comm.clone().filter(|_| by.comm),
            group.file.clone().filter(|_| by.file),
            group.inode.clone().filter(|_| by.file),
            group.op.filter(|_| by.op),
            group.cgroup.clone().filter(|_| by.cgroup),
        );
        let (device, comm, file, inode, op, cgroup) = key.clone();
        let fresh = IoGroup { device, comm, cgroup, file, inode, op, ..IoGroup::default() };
        folded.entry(key).or_insert(fresh).add(&group);
    }
    let mut groups: Vec<IoGroup> = folded.into_values().collect();
    groups.sort_by_key(|g| std::cmp::Reverse((g.bytes, g.count)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(values: &[(u64, u64, u64)], max_ns: u64) -> Latencies {
        let bucket = |(from_ns, until_ns, count): &(u64, u64, u64)| LatencyBucket {
            from_ns: *from_ns,
            until_ns: *until_ns,
            count: *count,
        };
        Latencies { buckets: values.iter().map(bucket).collect(), sum_ns: 0, max_ns }
    }

    #[test]
    fn quantiles_lie_in_their_buckets_and_never_above_the_maximum() {
        let l = latencies(&[(1_000, 1_032, 50), (2_000, 2_064, 49), (8_000, 8_256, 1)], 8_010);
        assert_eq!(l.quantile_ns(0.5), Some(1_000.0 + 32.0 * 49.5 / 50.0));
        let p99 = l.quantile_ns(0.99).unwrap();
        assert!((2_000.0..2_064.0).contains(&p99), "{p99}");
        assert_eq!(l.quantile_ns(1.0), Some(8_010.0));
        assert_eq!(Latencies::default().quantile_ns(0.5), None);
    }

    #[test]
    fn adding_distributions_loses_nothing() {
        let mut a = latencies(&[(1_000, 1_032, 2)], 1_020);
        a.add(&latencies(&[(512, 528, 1), (1_000, 1_032, 3)], 1_030));
        assert_eq!(a, latencies(&[(512, 528, 1), (1_000, 1_032, 5)], 1_030));
    }

    #[test]
    fn folding_keeps_every_request_and_sets_the_named_keys_only() {
        let group = |device: &str, op, bytes| IoGroup {
            device: Some(device.into()),
            op: Some(op),
            count: 1,
            bytes,
            sizes: [(bytes, 1)].into(),
            ..IoGroup::default()
        };
        let groups =
            [group("vda", IoOp::Read, 4096), group("vdb", IoOp::Read, 8192), group("vda", IoOp::Write, 4096)];
        let by_op = fold(groups.clone(), IoBy { op: true, ..IoBy::default() });
        assert_eq!(by_op.len(), 2);
        assert_eq!((by_op[0].op, by_op[0].bytes, &by_op[0].device), (Some(IoOp::Read), 12_288, &None));
        let all = fold(groups, IoBy::default());
        assert_eq!((all.len(), all[0].count, all[0].sizes[&4096]), (1, 3, 2));
    }

    #[test]
    fn files_of_one_name_stay_apart() {
        let group = |number| IoGroup {
            file: Some("same".into()),
            inode: Some(Inode { device: "8:1".into(), number }),
            count: 1,
            ..IoGroup::default()
        };
        let groups = [group(12), group(13), group(12)];
        let by_file = fold(groups.clone(), IoBy { file: true, ..IoBy::default() });
        assert_eq!(by_file.iter().map(|g| g.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(fold(groups, IoBy::default()).len(), 1);
    }

    #[test]
    fn a_request_that_begins_where_the_last_one_ended_is_sequential() {
        let seeks = Seeks { ahead: [(0, 3), (8, 1)].into(), back: [(1024, 4)].into() };
        assert_eq!(seeks.sequential_ratio(), Some(0.375));
        assert_eq!(Seeks::default().sequential_ratio(), None);
    }
}
