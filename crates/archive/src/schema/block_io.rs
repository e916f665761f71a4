//! Requests to block devices, as stored: `io.jsonl.zst`, one interval per line.
//!
//! A distribution is its occupied buckets: `[from, until, count]` for latencies, `[bound, count]` for powers
//! of two.

use std::collections::BTreeMap;

use record::block_io::{
    Inode, IoCounts, IoEvents, IoGroup, IoInterval, IoOp, Latencies, LatencyBucket, Powers, Seeks,
};
use serde::{Deserialize, Serialize};

use super::{Reasons, Wrong, word};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    from_ns: u64,
    until_ns: u64,
    missed_deadline: bool,
    events: String,
    counts: Counts,
    groups: Vec<Group>,
    in_flight: u64,
    unmatched: Option<u64>,
    merged: Option<u64>,
    lost: BTreeMap<String, u64>,
    /// Absent in earlier versions, which always had both values.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    reads: u64,
    writes: u64,
    r#async: u64,
    flushes: u64,
    discards: u64,
    others: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Group {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Device of the file system, and number of the inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inode: Option<(String, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<String>,
    count: u64,
    bytes: u64,
    errors: u64,
    size_bytes: Vec<(u64, u64)>,
    latency_ns: Latency,
    issue_latency_ns: Latency,
    address_sectors: Vec<(u64, u64)>,
    seek_ahead_sectors: Vec<(u64, u64)>,
    seek_back_sectors: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Latency {
    buckets: Vec<(u64, u64, u64)>,
    sum_ns: u64,
    max_ns: u64,
}

impl Interval {
    pub(crate) fn of(interval: &IoInterval) -> Self {
        let IoInterval {
            from_ns,
            until_ns,
            missed_deadline,
            events,
            counts,
            groups,
            in_flight,
            unmatched,
            merged,
            lost,
        } = interval;
        let IoCounts { reads, writes, asynchronous, flushes, discards, others } = *counts;
        let mut missing = Reasons::default();
        Self {
            from_ns: *from_ns,
            until_ns: *until_ns,
            missed_deadline: *missed_deadline,
            events: events.word().to_owned(),
            counts: Counts { reads, writes, r#async: asynchronous, flushes, discards, others },
            groups: groups.iter().map(Group::of).collect(),
            in_flight: *in_flight,
            unmatched: missing.split("unmatched", unmatched, |n| *n),
            merged: missing.split("merged", merged, |n| *n),
            lost: lost.clone(),
            missing,
        }
    }

    pub(crate) fn read(self) -> Result<IoInterval, Wrong> {
        let Counts { reads, writes, r#async: asynchronous, flushes, discards, others } = self.counts;
        Ok(IoInterval {
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            missed_deadline: self.missed_deadline,
            events: word("events", &self.events, IoEvents::from_word)?,
            counts: IoCounts { reads, writes, asynchronous, flushes, discards, others },
            groups: self.groups.into_iter().map(Group::read).collect::<Result<_, _>>()?,
            in_flight: self.in_flight,
            unmatched: self.missing.join("unmatched", self.unmatched, Ok)?,
            merged: self.missing.join("merged", self.merged, Ok)?,
            lost: self.lost,
        })
    }
}

impl Group {
    fn of(group: &IoGroup) -> Self {
        let IoGroup {
            cgroup: _,
            device,
            comm,
            file,
            inode,
            op,
            count,
            bytes,
            errors,
            sizes,
            from_start,
            from_issue,
            addresses,
            seeks: Seeks { ahead, back },
        } = group;
        Self {
            device: device.clone(),
            comm: comm.clone(),
            file: file.clone(),
            inode: inode.as_ref().map(|i| (i.device.clone(), i.number)),
            op: op.map(|op| op.word().to_owned()),
            count: *count,
            bytes: *bytes,
            errors: *errors,
            size_bytes: pairs(sizes),
            latency_ns: Latency::of(from_start),
            issue_latency_ns: Latency::of(from_issue),
            address_sectors: pairs(addresses),
            seek_ahead_sectors: pairs(ahead),
            seek_back_sectors: pairs(back),
        }
    }

    fn read(self) -> Result<IoGroup, Wrong> {
        Ok(IoGroup {
            cgroup: None,
            device: self.device,
            comm: self.comm,
            file: self.file,
            inode: self.inode.map(|(device, number)| Inode { device, number }),
            op: self.op.map(|op| word("op", &op, IoOp::from_word)).transpose()?,
            count: self.count,
            bytes: self.bytes,
            errors: self.errors,
            sizes: self.size_bytes.into_iter().collect(),
            from_start: self.latency_ns.read(),
            from_issue: self.issue_latency_ns.read(),
            addresses: self.address_sectors.into_iter().collect(),
            seeks: Seeks {
                ahead: self.seek_ahead_sectors.into_iter().collect(),
                back: self.seek_back_sectors.into_iter().collect(),
            },
        })
    }
}

impl Latency {
    fn of(latencies: &Latencies) -> Self {
        let Latencies { buckets, sum_ns, max_ns } = latencies;
        let bucket = |b: &LatencyBucket| (b.from_ns, b.until_ns, b.count);
        Self { buckets: buckets.iter().map(bucket).collect(), sum_ns: *sum_ns, max_ns: *max_ns }
    }

    fn read(self) -> Latencies {
        let bucket = |(from_ns, until_ns, count)| LatencyBucket { from_ns, until_ns, count };
        Latencies {
            buckets: self.buckets.into_iter().map(bucket).collect(),
            sum_ns: self.sum_ns,
            max_ns: self.max_ns,
        }
    }
}

fn pairs(powers: &Powers) -> Vec<(u64, u64)> {
    powers.iter().map(|(bound, n)| (*bound, *n)).collect()
}
