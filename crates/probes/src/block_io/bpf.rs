//! The programs in the kernel, and their sums.

mod loading;
mod places;
#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from block_io.bpf.c"
)]
mod skel;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::{fmt, ptr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore as _, MapFlags};
use nix::libc;
use record::block_io::{IoBy, IoCounts, IoEvents, IoGroup, IoInterval, IoOp, Seeks, fold};
use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};

use self::loading::{SLOTS, choose, set_up};
use self::places::Places;
use self::skel::types::{group, group_key, io_lost};
use self::skel::{BlockIoSkel, BlockIoSkelBuilder};
use self::sums::{IO_OPS, file, inode, key_of, latencies, plain, powers, slot_key};
use super::devices;
use super::{Device, IoLatency, Options};
use crate::cgroups;
use crate::cost::{Cost, Meter};
use crate::cpu_list;
use crate::descriptors;
use crate::process_ids;
use crate::program::{
    AskedCgroup, BurstTime, KERNEL_BTF, Row, in_a_burst, kernel_traces, recursion_misses, refusal, take_all,
    text, wait_for_running,
};

/// Programs, maps and links, with a margin.
const DESCRIPTORS: u64 = 64;

const _: () = assert!(size_of::<group>() == 8008);
const _: () = assert!(size_of::<group_key>() == 48);

/// Requests that the burst makes to measure the cost of one.
const BURST: u64 = 200;

/// Watches the block devices from [`IoProbe::start`] on; detached when dropped.
pub struct IoProbe {
    skel: BlockIoSkel<'static>,
    by: IoBy,
    events: IoEvents,
    /// Whether the programs can count merges and ends without a start.
    tells: Countable,
    note: Option<String>,
    /// Names of devices, stored for those that are removed.
    names: BTreeMap<u32, String>,
    lost: io_lost,
    kept_out_before: u64,
    meter: Meter<1>,
    cgroups: cgroups::Names,
    /// Options of the user, with the machine's ids.
    options: Options,
    from_ns: u64,
    requests: u64,
    asked: AskedCgroup,
    /// Devices that do not report the end of their requests.
    silent: BTreeSet<String>,
    news: Vec<String>,
    _links: Vec<Link>,
}

/// Counts that a filter makes impossible.
#[derive(Debug, Clone, Copy)]
struct Countable {
    merged: bool,
    unmatched: bool,
}

impl IoProbe {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    ///
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        // The library would write to stderr; the note reports its errors.
        libbpf_rs::set_print(None);
        if !Path::new(KERNEL_BTF).exists() {
            return Err(format!("cannot trace block I/O: this kernel has no BTF ({KERNEL_BTF})"));
        }
        descriptors::make_room(DESCRIPTORS)?;
        let pid = options.pid.map(process_ids::machines).transpose().map_err(|why| why.reason)?;
        let options = &Options { pid, ..options.clone() };
        let best = match options.latency {
            IoLatency::Both => IoEvents::StartToDone,
            IoLatency::Issue => IoEvents::IssueToComplete,
            IoLatency::None => IoEvents::Issue,
        };
        let refused = |e: libbpf_rs::Error| refusal("block I/O", &e);
        Self::attach(options, best).or_else(|first| {
            // Older events replace only those that this kernel lacks.
            if best != IoEvents::StartToDone || kernel_traces("block_io_start") {
                return Err(refused(first));
            }
            let mut probe = Self::attach(options, IoEvents::InsertToComplete).map_err(refused)?;
            probe.note = Some(
                "this kernel does not trace the start and end of a request (Linux 6.5 does): latency counts \
                 from its insertion into a scheduler's queue, or from its issue"
                    .into(),
            );
            Ok(probe)
        })
    }

    /// Attaches to these events, whether better ones exist or not.
    pub(super) fn attach(options: &Options, events: IoEvents) -> libbpf_rs::Result<Self> {
        Self::attach_for(options, events, cpu_list::possible_count())
    }

    /// - `possible`: CPUs that may need separate sums.
    fn attach_for(options: &Options, events: IoEvents, possible: u32) -> libbpf_rs::Result<Self> {
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = BlockIoSkelBuilder::default().open(place)?;
        choose(&mut open, events);
        set_up(&mut open, options, possible)?;
        let skel = open.load()?;
        let asked = AskedCgroup::open(&skel.maps.asked_cgroup, options.cgroup.as_ref())?;
        // The ends first, so every start that is seen has an end that is seen.
        let progs = &skel.progs;
        let mut links = match events {
            IoEvents::StartToDone => vec![
                progs.on_done.attach()?,
                // Since Linux 5.18, so always present with these events.
                progs.on_error.attach()?,
                progs.on_issue.attach()?,
                progs.on_start.attach()?,
            ],
            IoEvents::InsertToComplete => vec![
                progs.on_complete.attach()?,
                progs.on_issue_or_begin.attach()?,
                progs.on_insert.attach()?,
            ],
            IoEvents::IssueToComplete => {
                vec![progs.on_complete.attach()?, progs.on_requeue.attach()?, progs.on_issue_begin.attach()?]
            }
            IoEvents::Issue => {
                vec![progs.on_requeue_only.attach()?, progs.on_issue_only.attach()?]
            }
        };
        links.extend([progs.on_merge.attach()?, progs.on_backmerge.attach()?, progs.on_frontmerge.attach()?]);
        let now_ns = Monotonic.now_ns();
        Ok(Self {
            skel,
            by: options.by,
            events,
            tells: tells(options),
            note: None,
            names: BTreeMap::new(),
            lost: io_lost::default(),
            kept_out_before: 0,
            meter: Meter::new(["a request"]),
            cgroups: cgroups::Names::default(),
            options: options.clone(),
            from_ns: now_ns,
            requests: 0,
            asked,
            silent: BTreeSet::new(),
            news: Vec::new(),
            _links: links,
        })
    }

    /// Reason why this is not the best mode, if it is not.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Starts the first interval and returns its start on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    ///
    /// Missing if the sums so far cannot be cleared.
    pub fn start(&mut self) -> Maybe<u64> {
        self.read()?;
        self.meter.start(self.from_ns);
        self.requests = 0;
        Ok(self.from_ns)
    }

    /// Requests that ended since the last reading, or since the start.
    ///
    /// The next interval starts where this one ends. The caller checks whether it missed a deadline.
    ///
    /// # Errors
    ///
    /// Missing if the kernel does not return the sums.
    pub fn read(&mut self) -> Maybe<IoInterval> {
        let shared = self.skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
        let before = shared.half;
        // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read
        // it.
        unsafe { ptr::write_volatile(&raw mut shared.half, before ^ 1) };
        let until_ns = Monotonic.now_ns();
        wait_for_running();
        let mut rows = if before & 1 == 0 {
            take_all(&self.skel.maps.groups_even)?
        } else {
            take_all(&self.skel.maps.groups_odd)?
        };
        rows.extend(self.take_slots(before & 1)?);
        let in_flight = self.in_flight();
        let (counts, groups) = self.sums(&rows);
        self.requests += groups.iter().map(|g| g.count).sum::<u64>();
        let since = self.lost_since();
        let reasons = [
            ("in-flight-full", since.flights_full),
            ("groups-full", since.groups_full),
            ("no-end", since.abandoned),
            ("kept-out-by-the-kernel", self.kept_out()),
        ];
        let lost = reasons.into_iter().filter(|(_, n)| *n > 0).map(|(why, n)| (why.to_owned(), n));
        let interval = IoInterval {
            from_ns: self.from_ns,
            until_ns,
            missed_deadline: false,
            events: self.events,
            counts,
            groups: fold(groups, self.by),
            in_flight,
            unmatched: self.unmatched(since.unmatched),
            merged: or_unknown(self.tells.merged, since.merged),
            lost: lost.collect(),
        };
        self.from_ns = until_ns;
        self.look_around();
        Ok(interval)
    }

    /// Sentences on what changed since the last call: a control group that was created anew, a device that
    /// does not report the end of its requests.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// Looks whether the filter and the devices are still the same.
    fn look_around(&mut self) {
        self.news.extend(self.asked.follow(&self.skel.maps.asked_cgroup));
        if self.events == IoEvents::StartToDone {
            let silent = devices::silent(Path::new("/"), self.options.device);
            self.news.extend(silent.difference(&self.silent).map(|name| devices::silent_words(name)));
            self.silent = silent;
        }
    }

    /// Measures the cost per request with a burst of small reads of the device under this program's file,
    /// unless that was done before; needs the same rights as opening the probe.
    pub fn measure_cost(&mut self) {
        self.meter.measure(|| Ok([ns_per_request(&self.options, self.events)?]));
    }

    /// Cost of watching since the start; measures now if [`Self::measure_cost`] was not called before.
    ///
    /// # Errors
    ///
    /// Missing if the kernel's run statistics are unavailable.
    pub fn cost(&mut self) -> Maybe<Cost> {
        self.measure_cost();
        self.meter.cost([self.requests])
    }

    fn unmatched(&self, seen: u64) -> Maybe<u64> {
        if self.events.tell_end() {
            or_unknown(self.tells.unmatched, seen)
        } else {
            Err(Missing::because("requests are counted at their issue"))
        }
    }

    /// Takes and clears the sums of each CPU, as rows like those of the maps.
    fn take_slots(&self, half: u32) -> Maybe<Vec<Row>> {
        let refused = |e: libbpf_rs::Error| Missing::because(format!("cannot read the sums: {e}"));
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        let slots = &self.skel.maps.slots;
        let mut rows = Vec::new();
        for (slot, key) in (0..SLOTS).zip(&shared.slot_keys) {
            // SAFETY: an aligned word in memory that is mapped as long as `skel` lives.
            let key = unsafe { ptr::read_volatile(key) };
            if key == 0 {
                continue;
            }
            let place = (slot * 2 + half).to_ne_bytes();
            let of_cpus = slots.lookup_percpu(&place, MapFlags::ANY).map_err(refused)?.unwrap_or_default();
            let nothing = vec![0; size_of::<group>()];
            if of_cpus.iter().all(|sums| *sums == nothing) {
                continue;
            }
            slots.update_percpu(&place, &vec![nothing; of_cpus.len()], MapFlags::ANY).map_err(refused)?;
            let key = slot_key(key);
            rows.extend(of_cpus.into_iter().map(|sums| (key.clone(), sums)));
        }
        Ok(rows)
    }

    /// Number of requests in flight.
    fn in_flight(&self) -> u64 {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: aligned words in memory that is mapped as long as `skel` lives; each is read whole.
        let is_taken = |place: &u64| unsafe { ptr::read_volatile(place) } != 0;
        shared.requests.iter().filter(|place| is_taken(place)).count() as u64
    }

    /// Starts that the kernel did not show, since a program was running on that CPU. An end that it did not
    /// show leaves a start behind, which counts as a request without an end.
    fn kept_out(&mut self) -> u64 {
        let p = &self.skel.progs;
        let starts = match self.events {
            IoEvents::StartToDone => vec![p.on_start.as_fd()],
            IoEvents::InsertToComplete => vec![p.on_insert.as_fd(), p.on_issue_or_begin.as_fd()],
            IoEvents::IssueToComplete => vec![p.on_issue_begin.as_fd()],
            IoEvents::Issue => vec![p.on_issue_only.as_fd()],
        };
        // Kernels without this counter skip none.
        let now: u64 = starts.into_iter().map(|program| recursion_misses(program).unwrap_or(0)).sum();
        now.saturating_sub(std::mem::replace(&mut self.kept_out_before, now))
    }

    fn lost_since(&mut self) -> io_lost {
        let shared = self.skel.maps.bss_data.as_deref().expect("our object has a .bss");
        // SAFETY: aligned words in memory that is mapped as long as `skel` lives; each is read whole.
        let now: io_lost = unsafe { ptr::read_volatile(&raw const shared.lost) };
        let before = std::mem::replace(&mut self.lost, now);
        io_lost {
            flights_full: now.flights_full - before.flights_full,
            groups_full: now.groups_full - before.groups_full,
            unmatched: now.unmatched - before.unmatched,
            abandoned: now.abandoned - before.abandoned,
            merged: now.merged - before.merged,
        }
    }

    fn sums(&mut self, rows: &[Row]) -> (IoCounts, Vec<IoGroup>) {
        let mut counts = IoCounts::default();
        let mut groups = Vec::new();
        self.cgroups.next_round();
        let mut places = Places::default();
        for (key, value) in rows {
            let (mut key, sums) = (key_of(key), Box::new(plain::<group>(value)));
            if key.inode != 0 && !places.holds(key.dev, key.inode_dev) {
                // The page of a buffer, not of a file on this device.
                key.inode = 0;
            }
            let op = IO_OPS.get(key.op as usize).copied().unwrap_or(IoOp::Other);
            let of_op = match op {
                IoOp::Read => &mut counts.reads,
                IoOp::Write => &mut counts.writes,
                IoOp::Flush => &mut counts.flushes,
                IoOp::Discard => &mut counts.discards,
                IoOp::Other => &mut counts.others,
            };
            let sizes = powers(&sums.sizes);
            let count = sizes.values().sum();
            *of_op += count;
            counts.asynchronous += sums.asynchronous;
            if op == IoOp::Write {
                counts.flushes += sums.preflush;
            }
            let name = self.names.entry(key.dev).or_insert_with(|| Device::from_number(key.dev).name());
            groups.push(IoGroup {
                device: Some(name.clone()),
                comm: Some(text(&key.comm)),
                cgroup: (key.cgroup != 0).then(|| self.cgroups.name(key.cgroup)),
                file: Some(file(&key, &text(&sums.file))),
                inode: inode(&key),
                op: Some(op),
                count,
                bytes: sums.bytes,
                errors: sums.errors,
                sizes,
                from_start: latencies(&sums.from_start, sums.start_ns_sum, sums.start_ns_max),
                from_issue: latencies(&sums.from_issue, sums.issue_ns_sum, sums.issue_ns_max),
                addresses: powers(&sums.addresses),
                seeks: Seeks { ahead: powers(&sums.seeks_ahead), back: powers(&sums.seeks_back) },
            });
        }
        (counts, groups)
    }
}

impl fmt::Debug for IoProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoProbe").field("by", &self.by).field("events", &self.events).finish_non_exhaustive()
    }
}

/// Time of the programs for one request, from start to end, of any process: measured with a burst and
/// programs without filters.
fn ns_per_request(options: &Options, events: IoEvents) -> Maybe<f64> {
    let everyones = Options { latency: options.latency, ..Options::everything(options.by) };
    let probe = IoProbe::attach(&everyones, events).map_err(|e| Missing::because(e.to_string()))?;
    let p = &probe.skel.progs;
    let spent = |spent: Vec<BurstTime>| {
        // A request may skip some of them, such as a scheduler's queue, but not the last.
        let requests = spent.last().map_or(0, |last| last.runs);
        BurstTime { runs: requests, ..spent.into_iter().sum() }.ns_per_run()
    };
    let nothing = &p.on_issue_nothing;
    match events {
        IoEvents::StartToDone => {
            let programs = [p.on_start.as_fd(), p.on_issue.as_fd(), p.on_done.as_fd()];
            spent(in_a_burst(programs, nothing, burst)?.into())
        }
        IoEvents::InsertToComplete => {
            let programs = [p.on_insert.as_fd(), p.on_issue_or_begin.as_fd(), p.on_complete.as_fd()];
            spent(in_a_burst(programs, nothing, burst)?.into())
        }
        IoEvents::IssueToComplete => {
            spent(in_a_burst([p.on_issue_begin.as_fd(), p.on_complete.as_fd()], nothing, burst)?.into())
        }
        IoEvents::Issue => spent(in_a_burst([p.on_issue_only.as_fd()], nothing, burst)?.into()),
    }
}

/// Memory of the maps on a machine of that many CPUs, in bytes.
#[cfg(test)]
pub(crate) fn kernel_memory(possible: u32, by_file: bool) -> libbpf_rs::Result<u64> {
    let options = Options::everything(IoBy { op: true, file: by_file, ..IoBy::default() });
    let probe = IoProbe::attach_for(&options, IoEvents::StartToDone, possible)?;
    Ok(crate::program::kernel_bytes(&probe.skel, possible))
}

/// Derives from the filters which counts are possible. Merges have no origin; ends without a start have only
/// a device.
fn tells(options: &Options) -> Countable {
    let Options { device, pid, comm, cgroup, ops, .. } = options;
    let unmatched = pid.is_none() && comm.is_none() && cgroup.is_none() && ops.is_empty();
    Countable { merged: unmatched && device.is_none(), unmatched }
}

fn or_unknown(is_told: bool, n: u64) -> Maybe<u64> {
    if is_told { Ok(n) } else { Err(Missing::because("filters do not apply to it")) }
}

/// Reads small pieces of this program's file, past the page cache.
fn burst() -> std::io::Result<()> {
    let file: File = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open("/proc/self/exe")?;
    let mut space = vec![0_u8; 8192];
    let start = space.as_ptr().align_offset(4096);
    for k in 0..BURST {
        file.read_at(&mut space[start..start + 4096], k % 16 * 4096)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_older_events_tell_the_same_numbers() {
        if !nix::unistd::geteuid().is_root() || !Path::new(KERNEL_BTF).exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return;
        }
        let ours = Options {
            pid: Some(std::process::id()),
            ..Options::everything(IoBy { op: true, ..IoBy::default() })
        };
        let [mut new, mut old] = match [IoEvents::StartToDone, IoEvents::InsertToComplete]
            .map(|events| IoProbe::attach(&ours, events))
        {
            [Ok(new), Ok(old)] => [new, old],
            [Err(why), _] | [_, Err(why)] => panic!("root and BTF are there: {why}"),
        };
        new.start().unwrap();
        old.start().unwrap();
        if let Err(why) = burst() {
            return eprintln!("skipped: no request can be made past the page cache: {why}");
        }
        let (new, old) = (new.read().unwrap(), old.read().unwrap());
        // Tests in parallel may read at the edges, and some kernels hide a few ends from tracers: both modes
        // must count most requests.
        let (by_new, by_old) = (new.total().count, old.total().count);
        assert!(by_new + by_new / 10 >= BURST && by_old + by_old / 10 >= BURST, "{by_new} and {by_old}");
        let p50 = |i: &IoInterval| i.total().from_issue.quantile_ns(0.5).unwrap();
        assert!((p50(&new) / p50(&old) - 1.0).abs() < 0.5, "{} ns and {} ns", p50(&new), p50(&old));
    }
}
