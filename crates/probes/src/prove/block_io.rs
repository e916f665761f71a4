//! Block I/O against fio, which reports the number and size of its requests, and how long each took.
//!
//! On a loop device of our own, past the page cache, one request at a time, so that each request of fio is
//! one request of the device. fio's latency is measured in user space: it lies some 25 to 30 us above the
//! device's, which matters on a fast device. So latencies are proved on a slow one: most of its reads take a
//! known time, a few a much longer one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use record::block_io::{IoBy, IoGroup, IoInterval, IoOp};
use record::missing::{Maybe, Missing};
use record::proof::{Proof, Unit};

use super::slow_file::{Pace, SlowFile};
use super::{Bench, Subject, own_path};
use crate::block_io::{self, Options};

pub(super) const SUBJECT: Subject = Subject {
    name: "io",
    about: "fio with exact sizes and counts on loop devices of its own, a quick one and a slow one",
    prove,
};

const IMAGE_BYTES: u64 = 128 << 20;

/// Arguments of one fio job.
#[derive(Debug, Clone, Copy)]
struct FioJob {
    op: IoOp,
    bytes: u64,
    requests: u64,
    through: BackingFile,
}

/// File behind the loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackingFile {
    /// A file in the page cache: fast.
    Cache,
    /// A slow file.
    SlowFile,
}

const JOBS: [FioJob; 6] = [
    FioJob { op: IoOp::Read, bytes: 4 << 10, requests: 4_000, through: BackingFile::Cache },
    FioJob { op: IoOp::Write, bytes: 4 << 10, requests: 2_000, through: BackingFile::Cache },
    FioJob { op: IoOp::Read, bytes: 64 << 10, requests: 1_000, through: BackingFile::Cache },
    FioJob { op: IoOp::Write, bytes: 256 << 10, requests: 300, through: BackingFile::Cache },
    FioJob { op: IoOp::Read, bytes: 4 << 10, requests: 300, through: BackingFile::SlowFile },
    FioJob { op: IoOp::Write, bytes: 16 << 10, requests: 300, through: BackingFile::SlowFile },
];

/// Two populations: the median is of one and the 99th percentile of the other.
const PACE: Pace = Pace {
    usual: Duration::from_millis(5),
    rare_every: 10,
    rare: Duration::from_millis(20),
    gone_after: None,
};

/// fio's report.
#[derive(Debug, Clone, PartialEq)]
struct FioReport {
    requests: u64,
    p50_ns: f64,
    p99_ns: f64,
}

fn prove(bench: &mut Bench<'_>) {
    let opened = block_io::open(&Options::everything(IoBy::default())).map(drop).map_err(|why| why.reason);
    bench.check_loading(SUBJECT.name, super::PROGRAMS_SINCE, opened);
    for (number, job) in (1..).zip(JOBS) {
        if !bench.begin(&job.name(), number, JOBS.len()) {
            return;
        }
        let disk = LoopDisk::new(job.through);
        let seen = disk.and_then(|disk| watch(&disk, job));
        match seen {
            Ok((said, interval, cost)) => {
                for proof in proofs(job, &said, &interval, &cost) {
                    bench.tell(proof);
                }
            }
            Err(why) => bench.tell(Proof {
                truth: Err(why.clone()),
                found: Err(Missing::because("there was no activity to observe")),
                remark: Some(why.reason),
                ..proof(job, "requests", Unit::Count)
            }),
        }
    }
}

fn watch(disk: &LoopDisk, job: FioJob) -> Maybe<(FioReport, IoInterval, Maybe<f64>)> {
    let device = block_io::find(&disk.path).map_err(|e| Missing::because(e.to_string()))?;
    let options = Options {
        device: Some(device),
        // Other processes may read the device.
        comm: Some("fio".into()),
        ..Options::everything(IoBy { op: true, ..IoBy::default() })
    };
    let mut probe = block_io::open(&options)?;
    probe.start()?;
    let said = fio(disk, job)?;
    let interval = probe.read()?;
    let cost = probe.cost().map(|c| c.ratio_of_one_cpu());
    Ok((said, interval, cost))
}

fn proofs(job: FioJob, said: &FioReport, interval: &IoInterval, cost: &Maybe<f64>) -> Vec<Proof> {
    let none = IoGroup::default();
    let group = interval.groups.iter().find(|g| g.op == Some(job.op)).unwrap_or(&none);
    let in_bucket = group.sizes.get(&job.bytes).copied().unwrap_or(0);
    let lost = (!interval.lost.is_empty()).then(|| format!("lost: {:?}", interval.lost));
    let requests = said.requests as f64;
    let counts = [
        Proof {
            truth: Ok(requests),
            found: Ok(group.count as f64),
            cost_ratio: cost.clone(),
            remark: lost,
            ..proof(job, "requests", Unit::Count)
        },
        Proof {
            truth: Ok(requests),
            found: Ok(in_bucket as f64),
            ..proof(job, "... of that size", Unit::Count)
        },
        Proof {
            truth: Ok(requests * job.bytes as f64),
            found: Ok(group.bytes as f64),
            ..proof(job, "bytes", Unit::Bytes)
        },
    ];
    let mut proofs = Vec::from(counts);
    // If fio's overhead matters, the difference is shown but not judged.
    let is_slow = LATENCY_LIMIT * said.p50_ns >= FIOS_OWN_NS;
    for (name, q, truth) in [("latency p50", 0.5, said.p50_ns), ("latency p99", 0.99, said.p99_ns)] {
        let found =
            group.from_start.quantile_ns(q).ok_or_else(|| Missing::because("no request was observed"));
        proofs.push(Proof {
            ours: is_slow,
            truth: Ok(truth),
            found,
            limit: LATENCY_LIMIT * truth,
            remark: (!is_slow)
                .then(|| "fio's figure includes its own 25 to 30 us and its waits for a CPU".to_owned()),
            ..proof(job, name, Unit::Ns)
        });
    }
    proofs
}

/// Limit of the difference, on a device so slow that fio's overhead does not matter.
const LATENCY_LIMIT: f64 = 0.05;
/// fio's overhead from the system call to its clock.
const FIOS_OWN_NS: f64 = 30_000.0;

impl FioJob {
    fn name(self) -> String {
        let on = if self.through == BackingFile::SlowFile { ", slow" } else { "" };
        format!("{} {}s of {} KiB{on}", self.requests, self.op.word(), self.bytes >> 10)
    }
}

/// An empty proof, which tolerates no difference.
fn proof(job: FioJob, instrument: &str, unit: Unit) -> Proof {
    let none = || Err(Missing::because("not measured"));
    Proof {
        subject: SUBJECT.name.into(),
        instrument: instrument.into(),
        ours: true,
        workload: job.name(),
        truth: none(),
        found: none(),
        limit: 0.0,
        unit,
        cost_ratio: Err(Missing::because("it is part of the instrument above")),
        remark: None,
    }
}

fn fio(disk: &LoopDisk, job: FioJob) -> Maybe<FioReport> {
    let rw = if job.op == IoOp::Read { "randread" } else { "randwrite" };
    // At the highest priority, if that is allowed: time that fio waits for a CPU is in its latency and not in
    // the device's.
    let output = Command::new("nice")
        .args([
            "-n",
            "-20",
            "fio",
            "--name=proof",
            "--ioengine=psync",
            "--direct=1",
            "--thread=0",
            "--output-format=json",
        ])
        .args([format!("--filename={}", disk.path), format!("--rw={rw}"), format!("--bs={}", job.bytes)])
        .args([format!("--number_ios={}", job.requests), format!("--size={IMAGE_BYTES}")])
        .args(["--percentile_list=50:99", "--clat_percentiles=1", "--norandommap=1", "--randseed=1"])
        .output()
        .map_err(|e| Missing::because(format!("fio cannot be run: {e}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Missing::because(format!("fio failed: {}", why.lines().last().unwrap_or_default())));
    }
    said(&String::from_utf8_lossy(&output.stdout), job.op)
        .ok_or_else(|| Missing::because("cannot read counts and latencies in fio's report"))
}

/// Finds values in fio's report by name: the job's direction, its count, the percentiles of its completion
/// latency.
fn said(report: &str, op: IoOp) -> Option<FioReport> {
    let direction = if op == IoOp::Read { "\"read\" : {" } else { "\"write\" : {" };
    let after = |text: &str, name: &str| text.find(name).map(|at| text[at + name.len()..].to_owned());
    let number = |text: &str, name: &str| {
        let rest = after(text, name)?;
        let digits: String = rest
            .chars()
            .skip_while(|c| " :".contains(*c))
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        digits.parse::<f64>().ok()
    };
    let direction = after(report, direction)?;
    let latency = after(&direction, "\"clat_ns\"")?;
    let percentiles = after(&latency, "\"percentile\"")?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that fio printed whole"
    )]
    Some(FioReport {
        requests: number(&direction, "\"total_ios\"")? as u64,
        p50_ns: number(&percentiles, "\"50.000000\"")?,
        p99_ns: number(&percentiles, "\"99.000000\"")?,
    })
}

/// A loop device; it is removed when this is dropped, or when this process ends and so closes it.
#[derive(Debug)]
struct LoopDisk {
    path: String,
    _open: File,
    _slow: Option<SlowFile>,
}

impl LoopDisk {
    fn new(through: BackingFile) -> Maybe<Self> {
        match through {
            BackingFile::Cache => Self::held(attach(&Image::new()?.0)?, None),
            BackingFile::SlowFile => Self::slow(PACE),
        }
    }

    fn slow(pace: Pace) -> Maybe<Self> {
        let (file, path) = SlowFile::new(IMAGE_BYTES, pace, attach)?;
        Self::held(path, Some(file))
    }

    fn held(path: String, slow: Option<SlowFile>) -> Maybe<Self> {
        let open = File::open(&path);
        // Detaches when the last descriptor closes.
        let _ = Command::new("losetup").args(["--detach", &path]).status();
        let open = open.map_err(|e| Missing::because(format!("{path} cannot be opened: {e}")))?;
        Ok(Self { path, _open: open, _slow: slow })
    }
}

/// Attaches a loop device to the file and returns its path.
fn attach(file: &Path) -> Maybe<String> {
    let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
    let made = made.map_err(|e| Missing::because(format!("losetup cannot be run: {e}")))?;
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        let why = why.lines().next().unwrap_or_default().to_owned();
        return Err(Missing::because(format!("cannot create a loop device (needs root): {why}")));
    }
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

/// A file for a loop device; dropping this removes its name, and the device's end frees the rest.
#[derive(Debug)]
struct Image(PathBuf);

impl Image {
    fn new() -> Maybe<Self> {
        let failed = |e: io::Error| Missing::because(format!("cannot create a file for a loop device: {e}"));
        let image = Self(own_path("image"));
        File::create_new(&image.0).and_then(|file| file.set_len(IMAGE_BYTES)).map_err(failed)?;
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
    use std::sync::Barrier;

    use nix::libc;

    use super::*;

    #[test]
    fn fios_report_is_read_by_direction() {
        let part = |name: &str, ios: u64, p50: u64| {
            format!(
                "\"{name}\" : {{ \"io_bytes\" : 5, \"total_ios\" : {ios}, \"slat_ns\" : {{ \"min\" : 0 }}, \"clat_ns\" : \
                 {{ \"percentile\" : {{ \"50.000000\" : {p50}, \"99.000000\" : {} }} }}, \"lat_ns\" : {{}} }}",
                p50 * 2
            )
        };
        let report = format!("{{ {}, {} }}", part("read", 0, 1), part("write", 2_000, 90_624));
        let expected = FioReport { requests: 2_000, p50_ns: 90_624.0, p99_ns: 181_248.0 };
        assert_eq!(said(&report, IoOp::Write), Some(expected));
        assert_eq!(said(&report, IoOp::Read).unwrap().requests, 0);
        assert_eq!(said("{}", IoOp::Read), None);
    }

    /// Prints what is absent. What is there must work: a refusal of our programs is a failure.
    fn can_prove(tools: &[&str], files: &[&str]) -> bool {
        let lacks_file = |path: &&str| !Path::new(path).exists();
        let lacks_tool = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
        let mut absent: Vec<&str> = Vec::new();
        absent.extend((!nix::unistd::geteuid().is_root()).then_some("root"));
        absent.extend(
            files.iter().copied().chain(["/sys/kernel/btf/vmlinux", "/dev/loop-control"]).filter(lacks_file),
        );
        absent.extend(tools.iter().copied().chain(["losetup"]).filter(lacks_tool));
        if !absent.is_empty() {
            eprintln!("skipped: needs {}", absent.join(", "));
        }
        absent.is_empty()
    }

    #[test]
    fn root_what_fio_did_is_what_was_counted() {
        if !can_prove(&["fio", "nice"], &[]) {
            return;
        }
        let job = FioJob { op: IoOp::Read, bytes: 8 << 10, requests: 300, through: BackingFile::Cache };
        let (said, interval, _) = watch(&LoopDisk::new(job.through).unwrap(), job).unwrap();
        for proof in proofs(job, &said, &interval, &Ok(0.0)) {
            // A busy machine decides how long it took.
            if proof.unit != Unit::Ns {
                assert_eq!(proof.error(), Ok(0.0), "{proof:?}");
            }
        }
    }

    #[test]
    fn root_requests_that_find_no_room_are_counted_and_no_others_are_lost() {
        const REQUESTS: usize = 64;
        if !can_prove(&[], &["/dev/fuse"]) {
            return;
        }
        let disk = LoopDisk::new(BackingFile::SlowFile).unwrap();
        let options = Options {
            device: Some(block_io::find(&disk.path).unwrap()),
            pid: Some(std::process::id()),
            // The minimum: one set of places.
            flights_max: 16,
            ..Options::everything(IoBy::default())
        };
        let mut probe = block_io::open(&options).expect("root and BTF are there");
        probe.start().unwrap();
        let together = Barrier::new(REQUESTS);
        std::thread::scope(|scope| {
            for k in 0..REQUESTS as u64 {
                let (disk, together) = (&disk, &together);
                scope.spawn(move || {
                    let file =
                        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&disk.path).unwrap();
                    let mut space = vec![1; 8_192];
                    let from = space.as_ptr().align_offset(4_096);
                    together.wait();
                    // Far apart, so the requests are not merged.
                    file.read_exact_at(&mut space[from..from + 4_096], k << 20).unwrap();
                });
            }
        });
        let seen = probe.read().unwrap();
        let lost = seen.lost.get("in-flight-full").copied().unwrap_or(0);
        assert!(lost > 0, "{seen:?}");
        // The end of the last one may come after its caller has continued.
        assert_eq!(seen.counts.reads + lost + seen.in_flight, REQUESTS as u64, "{seen:?}");
        assert_eq!(seen.lost.len(), 1, "{seen:?}");
    }

    #[test]
    fn root_of_a_disk_that_is_unplugged_every_request_ends_and_the_failed_ones_are_told() {
        const THREADS: u64 = 4;
        const EACH: u64 = 8;
        if !can_prove(&[], &["/dev/fuse"]) {
            return;
        }
        let disk = LoopDisk::slow(Pace { gone_after: Some(12), ..PACE }).unwrap();
        let device = block_io::find(&disk.path).unwrap();
        let options = Options {
            device: Some(device),
            pid: Some(std::process::id()),
            ..Options::everything(IoBy::default())
        };
        let mut probe = block_io::open(&options).expect("root and BTF are there");
        probe.start().unwrap();
        let failed: u64 = std::thread::scope(|scope| {
            let reader = |thread: u64| {
                let disk = &disk;
                move || {
                    let file =
                        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&disk.path).unwrap();
                    let mut space = vec![1; 8_192];
                    let from = space.as_ptr().align_offset(4_096);
                    let place = |k| (thread * EACH + k) << 20;
                    (0..EACH)
                        .map(|k| file.read_exact_at(&mut space[from..from + 4_096], place(k)))
                        .filter(Result::is_err)
                        .count()
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(reader(thread))).collect();
            threads.into_iter().map(|t| t.join().unwrap() as u64).sum()
        });
        assert!(failed > 0);
        let seen = probe.read().unwrap();
        // The end of the last one may come after its caller has continued.
        let errors: u64 = seen.groups.iter().map(|g| g.errors).sum();
        assert_eq!(seen.counts.reads + seen.in_flight, THREADS * EACH, "{seen:?}");
        assert!(errors <= failed && errors + seen.in_flight >= failed, "{failed}: {seen:?}");
        assert!(seen.lost.is_empty(), "{seen:?}");
    }
}
