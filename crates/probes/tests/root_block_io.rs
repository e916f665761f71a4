//! Requests of known number and size on a loop device of our own: needs root, BTF and losetup; without them
//! it prints what it skips. Others may use their disks meanwhile: only our device is looked at.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;

use bakeoff_probes::block_io::{self, IoLatency, IoProbe, Options};
use nix::libc::{self, c_void};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use record::block_io::{IoBy, IoGroup, IoInterval, IoOp};
use record::clock::{Clock as _, Monotonic};

#[test]
fn root_every_request_is_counted_once_with_its_size_and_its_latency() {
    let Some(disk) = Loop::new() else { return };
    let by = IoBy { device: true, op: true, comm: true, ..IoBy::default() };
    let measure = || {
        let mut probe = disk.probe(Options::everything(by));
        let file = disk.open();
        write(&file, 64, 4096);
        read(&file, 32, 16_384);
        file.sync_all().unwrap();
        read_until(&mut probe, |seen| {
            let is_flushed = seen.counts.flushes >= 1;
            !seen.lost.is_empty() || (is_flushed && seen.counts.reads + seen.counts.writes >= 64 + 32)
        })
    };
    // Once in a while this kernel hides the end of a request from tracers, and the probe reports it as lost.
    let seen =
        (0..3).map(|_| measure()).find(|seen| seen.lost.is_empty()).expect("one of three loses nothing");

    assert_eq!((seen.counts.reads, seen.counts.writes), (32, 64), "{seen:?}");
    assert!(seen.counts.flushes >= 1, "{seen:?}");
    assert_eq!((&seen.unmatched, seen.lost.len()), (&Ok(0), 0), "{seen:?}");
    assert!(seen.merged.is_err(), "of one device it is not known");
    for (op, count, size) in [(IoOp::Write, 64, 4096), (IoOp::Read, 32, 16_384)] {
        let group = seen.groups.iter().find(|g| g.op == Some(op)).unwrap();
        assert_eq!((group.count, group.bytes, group.errors), (count, count * size, 0));
        assert_eq!(group.device.as_deref(), Some(disk.name()));
        assert_eq!(group.sizes, [(size, count)].into());
        // The books balance: each request is once in each distribution.
        assert_eq!((group.from_start.count(), group.from_issue.count()), (count, count));
        assert!(group.from_start.sum_ns >= group.from_issue.sum_ns);
        assert!(group.from_start.max_ns >= group.from_start.sum_ns / count);
        let seeks: u64 = group.seeks.ahead.values().chain(group.seeks.back.values()).sum();
        assert_eq!((group.addresses.values().sum::<u64>(), seeks), (count, count));
        // Each followed the one before it but the first.
        assert!(group.seeks.ahead[&0] >= count - 1, "{:?}", group.seeks);
        assert!(group.comm.as_ref().unwrap().len() <= 15);
    }
}

#[test]
fn root_fewer_latencies_lose_no_request() {
    for latency in [IoLatency::Issue, IoLatency::None] {
        let Some(disk) = Loop::new() else { return };
        let everything = Options::everything(IoBy { op: true, ..IoBy::default() });
        let mut probe = disk.probe(Options { latency, ..everything });
        let file = disk.open();
        write(&file, 10, 4096);
        read(&file, 5, 8192);
        let seen = settled(&mut probe, 15);
        assert_eq!((seen.counts.reads, seen.counts.writes), (5, 10), "{latency:?}: {seen:?}");
        assert!(seen.lost.is_empty(), "{latency:?}: {seen:?}");
        for (op, count, size) in [(IoOp::Write, 10, 4096), (IoOp::Read, 5, 8192)] {
            let group = seen.groups.iter().find(|g| g.op == Some(op)).unwrap();
            assert_eq!((group.count, group.bytes), (count, count * size), "{latency:?}: {group:?}");
            assert_eq!(group.from_start.count(), 0, "{latency:?}: {group:?}");
            let from_issue = if latency == IoLatency::Issue { count } else { 0 };
            assert_eq!(group.from_issue.count(), from_issue, "{latency:?}: {group:?}");
        }
    }
}

#[test]
fn root_filters_let_only_theirs_through() {
    let Some(disk) = Loop::new() else { return };
    let everything = Options::everything(IoBy { op: true, ..IoBy::default() });
    let reads = Options { ops: vec![IoOp::Read], ..everything.clone() };
    let ours = Options { pid: Some(std::process::id()), ..everything.clone() };
    let nobodys = Options { comm: Some("no-such-thread".into()), ..everything };
    let [mut reads, mut ours, mut nobodys] = [reads, ours, nobodys].map(|o| disk.probe(o));
    let file = disk.open();
    write(&file, 10, 4096);
    read(&file, 5, 4096);
    assert_eq!(settled(&mut reads, 5).counts.writes, 0);
    let ours = settled(&mut ours, 15);
    assert_eq!((ours.counts.reads, ours.counts.writes), (5, 10));
    assert!(ours.unmatched.is_err(), "others' ends look like ends without a start");
    assert!(nobodys.read().unwrap().groups.is_empty());
}

#[test]
fn root_a_full_map_is_counted_and_not_hidden() {
    let Some(disk) = Loop::new() else { return };
    let everything = Options::everything(IoBy { op: true, ..IoBy::default() });
    // One group: the second kind of request finds no room.
    let mut probe = disk.probe(Options { groups_max: 1, ..everything });
    let file = disk.open();
    write(&file, 7, 4096);
    read(&file, 9, 4096);
    let seen = read_until(&mut probe, |seen| {
        seen.lost.values().sum::<u64>() + seen.counts.writes + seen.counts.reads >= 7 + 9
    });
    assert_eq!(seen.counts.writes + seen.counts.reads, 7, "{seen:?}");
    assert_eq!(seen.lost, [("groups-full".to_owned(), 9)].into());
}

#[test]
fn root_groups_with_sums_of_their_own_and_those_behind_them_are_counted_alike() {
    let Some(disk) = Loop::new() else { return };
    let everything = Options::everything(IoBy { op: true, ..IoBy::default() });
    // One slot and one shared group: whichever kind of request comes first has the slot.
    let mut probe = disk.probe(Options { groups_max: 2, ..everything });
    let file = disk.open();
    for _ in 0..3 {
        write(&file, 7, 4096);
        read(&file, 9, 8192);
        let seen = settled(&mut probe, 16);
        assert_eq!((seen.counts.writes, seen.counts.reads, seen.lost.len()), (7, 9, 0), "{seen:?}");
        for (op, count, size) in [(IoOp::Write, 7, 4096), (IoOp::Read, 9, 8192)] {
            let group = seen.groups.iter().find(|g| g.op == Some(op)).unwrap();
            assert_eq!((group.count, group.bytes), (count, count * size));
            assert_eq!((group.from_start.count(), group.from_issue.count()), (count, count));
        }
    }
}

#[test]
fn root_a_file_is_known_by_its_pages() {
    let Some(disk) = Loop::new() else { return };
    let Some(folder) = disk.with_ext4() else { return };
    let by = IoBy { file: true, op: true, ..IoBy::default() };
    let mut probe = disk.probe(Options::everything(by));
    // One by way of the page cache, one past it.
    std::fs::write(folder.join("cached"), vec![1; 65_536]).unwrap();
    File::open(folder.join("cached")).unwrap().sync_all().unwrap();
    let direct = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(folder.join("direct"))
        .unwrap();
    write(&direct, 4, 4096);
    // More than the device takes at once: split.
    write(&direct, 1, 4 << 20);
    // A request is accounted for after the thread that waited for it was woken.
    let wanted = [("cached", 65_536), ("direct", 16_384 + (4 << 20))];
    let written = |groups: &[IoGroup], name: &str| -> u64 {
        let of = |g: &&IoGroup| g.file.as_deref() == Some(name) && g.op == Some(IoOp::Write);
        groups.iter().filter(of).map(|g| g.bytes).sum()
    };
    let all = |groups: &[IoGroup]| wanted.iter().all(|(name, bytes)| written(groups, name) >= *bytes);
    let seen = read_until(&mut probe, |seen| !seen.lost.is_empty() || all(&seen.groups));
    for (name, bytes) in wanted {
        assert_eq!(written(&seen.groups, name), bytes, "{name}: {:?}", seen.groups);
    }
}

/// Shared memory is a file too, and so is what a program maps: that of the buffer is not that of the request.
#[test]
fn root_the_file_of_a_buffer_is_not_the_file_of_a_direct_request() {
    let Some(disk) = Loop::new() else { return };
    let by = IoBy { file: true, op: true, ..IoBy::default() };
    // The program itself: a file on another device, if on any.
    let program = File::open("/proc/self/exe").unwrap();
    for (what, buffer) in [("shared memory", Shared::memory()), ("a mapped file", Shared::file(&program))] {
        let mut probe = disk.probe(Options::everything(by));
        let file = disk.open();
        for k in 0..5 {
            file.write_all_at(buffer.bytes(), k * 4096).unwrap();
        }
        let seen = settled(&mut probe, 5);
        assert_eq!(seen.counts.writes, 5, "{what}: {seen:?}");
        for group in &seen.groups {
            assert_eq!(
                (&group.inode, group.file.as_deref()),
                (&None, Some("(not known)")),
                "{what}: {group:?}"
            );
        }
    }
}

#[test]
fn root_a_page_of_a_device_is_of_that_device() {
    let Some(disk) = Loop::new() else { return };
    let by = IoBy { file: true, op: true, ..IoBy::default() };
    let mut probe = disk.probe(Options::everything(by));
    let through_the_cache = OpenOptions::new().write(true).open(&disk.path).unwrap();
    through_the_cache.write_all_at(&[7; 8192], 1 << 20).unwrap();
    through_the_cache.sync_all().unwrap();
    let seen = settled(&mut probe, 1);
    let written = seen.groups.iter().find(|g| g.op == Some(IoOp::Write)).unwrap();
    let number = std::fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
    assert_eq!(written.inode.as_ref().map(|inode| inode.device.as_str()), Some(number.trim()), "{seen:?}");
}

/// Without statistics, a scheduler and the throttling of write-back, the kernel reports no end of a request.
#[test]
fn root_a_device_without_statistics_is_named_unless_its_requests_are_seen() {
    let Some(disk) = Loop::new() else { return };
    let place = |name: &str| format!("/sys/block/{}/queue/{name}", disk.name());
    std::fs::write(place("scheduler"), "none").unwrap();
    std::fs::write(place("iostats"), "0").unwrap();
    let is_timed = std::fs::read_to_string(place("wbt_lat_usec")).is_ok();
    let by = IoBy { device: true, op: true, ..IoBy::default() };
    let mut probe = disk.probe(Options::everything(by));
    let news = probe.take_news();
    let file = disk.open();
    write(&file, 5, 4096);
    if is_timed {
        assert_eq!((settled(&mut probe, 5).counts.writes, news), (5, Vec::new()));
    } else {
        // All of them have ended: the calls have returned.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(probe.read().unwrap().counts.writes, 0);
        assert!(news[0].contains(disk.name()) && news[0].contains("iostats"), "{news:?}");
        assert_eq!(probe.take_news(), [""; 0], "once");
    }
    // The way out that the sentence names.
    let mut issued = disk.probe(Options { latency: IoLatency::Issue, ..Options::everything(by) });
    write(&file, 5, 4096);
    assert_eq!((settled(&mut issued, 5).counts.writes, issued.take_news()), (5, Vec::new()));
    std::fs::write(place("iostats"), "1").unwrap();
}

#[test]
fn root_a_device_that_goes_leaves_its_numbers_behind() {
    let Some(mut disk) = Loop::new() else { return };
    let mut probe = disk.probe(Options::everything(IoBy { device: true, ..IoBy::default() }));
    let file = disk.open();
    write(&file, 3, 4096);
    drop(file);
    disk.detach();
    let seen = settled(&mut probe, 3);
    assert_eq!(seen.counts.writes, 3, "{seen:?}");
    assert!(probe.read().unwrap().groups.is_empty());
}

/// Reads until that many requests have ended: the last one's end may come after its caller has gone on.
fn settled(probe: &mut IoProbe, requests: u64) -> IoInterval {
    read_until(probe, |seen| !seen.lost.is_empty() || seen.counts.reads + seen.counts.writes >= requests)
}

/// Reads until everything has arrived; after a minute, returns the state so far.
fn read_until(probe: &mut IoProbe, is_all: impl Fn(&IoInterval) -> bool) -> IoInterval {
    let give_up_ns = Monotonic.now_ns() + 60_000_000_000;
    let mut sum = probe.read().unwrap();
    while !is_all(&sum) && Monotonic.now_ns() < give_up_ns {
        let next = probe.read().unwrap();
        sum.counts.reads += next.counts.reads;
        sum.counts.writes += next.counts.writes;
        sum.counts.flushes += next.counts.flushes;
        sum.groups.extend(next.groups);
        for (reason, n) in next.lost {
            *sum.lost.entry(reason).or_default() += n;
        }
    }
    let by = IoBy { device: true, comm: true, file: true, op: true, cgroup: false };
    sum.groups = record::block_io::fold(std::mem::take(&mut sum.groups), by);
    sum
}

fn write(file: &File, count: u64, size: usize) {
    let space = Aligned::new(size);
    for k in 0..count {
        file.write_all_at(space.bytes(), k * size as u64).unwrap();
    }
}

fn read(file: &File, count: u64, size: usize) {
    let mut space = Aligned::new(size);
    for k in 0..count {
        file.read_exact_at(space.bytes_mut(), k * size as u64).unwrap();
    }
}

/// Whether the kernel has the event at the start of a request (Linux 6.5), by its types.
fn has_start() -> bool {
    let found =
        Command::new("grep").args(["-qa", "btf_trace_block_io_start", "/sys/kernel/btf/vmlinux"]).status();
    found.unwrap().success()
}

/// A loop device over a file of our own; it goes when this is dropped, also when a test fails.
struct Loop {
    path: String,
    attached: bool,
    folder: tempfile::TempDir,
}

impl Loop {
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        let Some(made) = made.ok().filter(|_| Path::new("/dev/loop-control").exists()) else {
            eprintln!("skipped: there is no losetup, or the kernel has no loop devices");
            return None;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Some(Self { path, attached: true, folder })
    }

    fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    /// A probe for this device only, with its first interval started.
    fn probe(&self, options: Options) -> IoProbe {
        let device = Some(block_io::find(&self.path).unwrap());
        let mut probe = block_io::open(&Options { device, ..options }).expect("root and BTF are there");
        if has_start() {
            assert_eq!(probe.note(), None, "this kernel traces the start and end of a request");
        }
        probe.start().unwrap();
        probe
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&self.path).unwrap()
    }

    /// A file system on it; `None` if it is unavailable.
    fn with_ext4(&self) -> Option<std::path::PathBuf> {
        let place = self.folder.path().join("mounted");
        std::fs::create_dir(&place).unwrap();
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &self.path])
            .status();
        let mounted = Command::new("mount").arg(&self.path).arg(&place).status();
        if !made.is_ok_and(|s| s.success()) || !mounted.is_ok_and(|s| s.success()) {
            eprintln!("skipped: no ext4 can be made and mounted here");
            return None;
        }
        Some(place)
    }

    fn detach(&mut self) {
        if self.attached {
            Command::new("losetup").args(["--detach", &self.path]).status().unwrap();
            self.attached = false;
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let place = self.folder.path().join("mounted");
        if place.exists() {
            let _ = Command::new("umount").arg(&place).status();
        }
        if self.attached {
            let _ = Command::new("losetup").args(["--detach", &self.path]).status();
        }
    }
}

/// Space as direct I/O wants it.
struct Aligned {
    space: Vec<u8>,
    from: usize,
    size: usize,
}

impl Aligned {
    fn new(size: usize) -> Self {
        let space = vec![7; size + 4096];
        let from = space.as_ptr().align_offset(4096);
        Self { space, from, size }
    }

    fn bytes(&self) -> &[u8] {
        &self.space[self.from..self.from + self.size]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.space[self.from..self.from + self.size]
    }
}

/// A page that is shared with a file.
struct Shared(NonNull<c_void>);

impl Shared {
    const LENGTH: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

    /// Shared memory without a name, which the kernel keeps in a file.
    fn memory() -> Self {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: new memory at an address that the kernel chooses.
        let place = unsafe { mmap_anonymous(None, Self::LENGTH, access, MapFlags::MAP_SHARED) }.unwrap();
        // SAFETY: a page of our own.
        unsafe { place.cast::<u8>().as_ptr().write_bytes(7, Self::LENGTH.get()) };
        Self(place)
    }

    fn file(file: &File) -> Self {
        let (access, flags) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE);
        // SAFETY: new memory at an address that the kernel chooses; no one cuts the program off meanwhile.
        Self(unsafe { mmap(None, Self::LENGTH, access, flags, file, 0) }.unwrap())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: as long as it is mapped, which is as long as this lives.
        unsafe { std::slice::from_raw_parts(self.0.cast().as_ptr(), Self::LENGTH.get()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference to it outlives this.
        unsafe { munmap(self.0, Self::LENGTH.get()) }.unwrap();
    }
}
