//! Block I/O against fio, which says how many requests it made, of what size, and how long each took.
//!
//! On a loop device of our own, past the page cache, one request at a time: then a request of fio's is a request of the
//! device. fio's latency is its own view: it lies some 25 to 30 us above the device's, which counts on a quick device.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;

use record::block_io::{IoBy, IoGroup, IoInterval, IoOp};
use record::missing::{Maybe, Missing};
use record::proof::{Proof, Unit};

use super::{Bench, Subject};
use crate::block_io::{self, Options};

pub(super) const SUBJECT: Subject =
    Subject { name: "io", about: "fio with exact sizes and counts on a loop device of its own", prove };

const IMAGE_BYTES: u64 = 128 << 20;

/// What fio is told to do.
#[derive(Debug, Clone, Copy)]
struct Job {
    op: IoOp,
    bytes: u64,
    requests: u64,
    through: Through,
}

/// Who ends the requests of the loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    /// A thread of the kernel, out of the page cache: quick, and every end can be seen.
    Cache,
    /// The interrupt of the disk below: slow enough for latencies. A kernel that keeps some tasks from tracers keeps the
    /// interrupts from them that come while such a task runs, so counts are not proved here.
    Disk,
}

const JOBS: [Job; 5] = [
    Job { op: IoOp::Read, bytes: 4 << 10, requests: 4_000, through: Through::Cache },
    Job { op: IoOp::Write, bytes: 4 << 10, requests: 2_000, through: Through::Cache },
    Job { op: IoOp::Read, bytes: 64 << 10, requests: 1_000, through: Through::Cache },
    Job { op: IoOp::Write, bytes: 256 << 10, requests: 300, through: Through::Cache },
    // As large as a request gets everywhere, so that the device takes its time.
    Job { op: IoOp::Read, bytes: 1 << 20, requests: 300, through: Through::Disk },
];

/// What fio said of it.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    requests: u64,
    p50_ns: f64,
    p99_ns: f64,
}

fn prove(bench: &mut Bench<'_>) {
    let image = Image::new();
    for (number, job) in (1..).zip(JOBS) {
        if !bench.begin(&job.name(), number, JOBS.len()) {
            return;
        }
        let disk = image.as_ref().map_err(Clone::clone).and_then(|image| LoopDisk::new(image, job.through));
        let seen = disk.and_then(|disk| watch(&disk, job));
        match seen {
            Ok((said, interval, cost)) => {
                for proof in proofs(job, &said, &interval, &cost) {
                    bench.tell(proof);
                }
            }
            Err(why) => bench.tell(Proof {
                truth: Err(why.clone()),
                found: Err(Missing::because("there was nothing to see")),
                remark: Some(why.reason),
                ..proof(job, "requests", Unit::Count)
            }),
        }
    }
}

fn watch(disk: &LoopDisk, job: Job) -> Maybe<(Said, IoInterval, Maybe<f64>)> {
    let device = block_io::find(&disk.path).map_err(|e| Missing::because(e.to_string()))?;
    let options = Options {
        device: Some(device),
        // Others may look at what is on the device.
        comm: Some("fio".into()),
        ..Options::everything(IoBy { op: true, ..IoBy::default() })
    };
    let mut probe = block_io::open(&options)?;
    probe.start()?;
    let said = fio(disk, job)?;
    let interval = probe.read()?;
    let cost = probe.cost().map(|c| c.ratio_of_one_cpu);
    Ok((said, interval, cost))
}

fn proofs(job: Job, said: &Said, interval: &IoInterval, cost: &Maybe<f64>) -> Vec<Proof> {
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
    let mut proofs = if job.through == Through::Cache { Vec::from(counts) } else { Vec::new() };
    // Where fio's own time counts, and in the tail, where it waits for a CPU, the difference is only shown.
    let is_slow = LATENCY_LIMIT * said.p50_ns >= FIOS_OWN_NS;
    for (name, q, truth) in [("latency p50", 0.5, said.p50_ns), ("latency p99", 0.99, said.p99_ns)] {
        let found = group.from_start.quantile_ns(q).ok_or_else(|| Missing::because("no request was seen"));
        proofs.push(Proof {
            ours: is_slow && q < 0.9,
            truth: Ok(truth),
            found,
            limit: LATENCY_LIMIT * truth,
            remark: (!is_slow)
                .then(|| "fio's own 25 to 30 us, and its waits for a CPU, are in its figure".to_owned()),
            ..proof(job, name, Unit::Ns)
        });
    }
    proofs
}

/// Where the device is slow enough that fio's own time does not count.
const LATENCY_LIMIT: f64 = 0.05;
/// fio's own time from the system call to its clock.
const FIOS_OWN_NS: f64 = 30_000.0;

impl Job {
    fn name(self) -> String {
        let from = if self.through == Through::Disk { ", from the disk" } else { "" };
        format!("{} {}s of {} KiB{from}", self.requests, self.op.word(), self.bytes >> 10)
    }
}

/// Exact, or wrong.
fn proof(job: Job, instrument: &str, unit: Unit) -> Proof {
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

fn fio(disk: &LoopDisk, job: Job) -> Maybe<Said> {
    let rw = if job.op == IoOp::Read { "randread" } else { "randwrite" };
    // First at the CPU, where that is allowed: what fio waits for one is in its latency and not in the device's.
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
        .ok_or_else(|| Missing::because("fio's report has no counts and latencies that we can read"))
}

/// Goes from name to name through fio's report: the job's direction, its count, its completion latency's percentiles.
fn said(report: &str, op: IoOp) -> Option<Said> {
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
    Some(Said {
        requests: number(&direction, "\"total_ios\"")? as u64,
        p50_ns: number(&percentiles, "\"50.000000\"")?,
        p99_ns: number(&percentiles, "\"99.000000\"")?,
    })
}

/// A file for loop devices; it goes when this is dropped.
#[derive(Debug)]
struct Image(PathBuf);

impl Image {
    fn new() -> Maybe<Self> {
        let failed = |e: io::Error| Missing::because(format!("no file for a loop device: {e}"));
        let image = Self(std::env::temp_dir().join(format!("bakeoff-prove-{}.image", std::process::id())));
        // Written, not only made: a hole is read without a disk.
        File::create_new(&image.0).and_then(|mut file| fill(&mut file)).map_err(failed)?;
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A loop device over it; it goes when this is dropped.
#[derive(Debug)]
struct LoopDisk {
    path: String,
}

impl LoopDisk {
    fn new(image: &Image, through: Through) -> Maybe<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).arg(&image.0);
        if through == Through::Disk {
            losetup.arg("--direct-io=on");
        }
        let made = losetup.output().map_err(|e| Missing::because(format!("losetup cannot be run: {e}")))?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr);
            let why = why.lines().next().unwrap_or_default().to_owned();
            return Err(Missing::because(format!("no loop device can be made (root can): {why}")));
        }
        Ok(Self { path: String::from_utf8_lossy(&made.stdout).trim().to_owned() })
    }
}

fn fill(file: &mut File) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let piece = vec![0x5a; PIECE];
    for _ in 0..IMAGE_BYTES / PIECE as u64 {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[cfg(test)]
mod tests {
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
        let expected = Said { requests: 2_000, p50_ns: 90_624.0, p99_ns: 181_248.0 };
        assert_eq!(said(&report, IoOp::Write), Some(expected));
        assert_eq!(said(&report, IoOp::Read).unwrap().requests, 0);
        assert_eq!(said("{}", IoOp::Read), None);
    }

    #[test]
    fn root_what_fio_did_is_what_was_counted() {
        let job = Job { op: IoOp::Read, bytes: 8 << 10, requests: 300, through: Through::Cache };
        let image = Image::new();
        let disk = image.as_ref().map_err(Clone::clone).and_then(|image| LoopDisk::new(image, job.through));
        let seen = disk.and_then(|disk| watch(&disk, job));
        let (said, interval, _) = match seen {
            Ok(seen) => seen,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        for proof in proofs(job, &said, &interval, &Ok(0.0)) {
            // How long it took, a busy machine decides.
            if proof.unit != Unit::Ns {
                assert_eq!(proof.error(), Ok(0.0), "{proof:?}");
            }
        }
    }
}
