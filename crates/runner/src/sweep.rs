//! Reads with every buffer size: the sizes of a trial one after the other, and the state of the machine
//! meanwhile.
//!
//! The files are unlinked before they are read, so none is left behind in any case. A reference size is
//! measured repeatedly between the points and shows drift of the machine. Possible disturbances are recorded
//! every quarter of a second: CPU time of other processes, stolen time, time that this thread waited for a
//! CPU, frequency.

pub(crate) mod place;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use load::Stop;
use load::dd::{Call, Reader};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawnp};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statvfs::statvfs;
use nix::sys::wait::{WaitStatus, waitpid};
use plan::{Data, How, SweepPlan};
use record::bakeoff::Trial;
use record::clock::{Clock as _, Monotonic};
use record::series::{Sample, SharedText};

use self::place::Below;
use crate::error::RunnerError;
use crate::process::{Placement, Process, Waited};
use crate::rounds::{Bench, Measured, Shortfall};

/// Interval at which the state of the machine is recorded.
const WINDOW_NS: u64 = 250_000_000;
/// Number of bytes of one write.
const CHUNK: usize = 1 << 20;
/// Maximum share of reads from memory that may come from a device.
const DEVICE_RATIO_MAX: f64 = 0.001;
/// Bytes that may come from a device in any case, such as pages of programs.
const DEVICE_BYTES_MIN: u64 = 1 << 20;

/// A sweep that is ready to be measured.
pub(crate) struct Sweep {
    plan: SweepPlan,
    files: Vec<(Data, File)>,
}

impl Sweep {
    /// Creates the files.
    pub(crate) fn prepare(plan: &SweepPlan, stop: &Stop) -> Result<Self, RunnerError> {
        let folder = Path::new(&plan.folder);
        let wanted: u64 = plan.data.iter().map(|d| d.bytes).sum();
        let failed = |what: String| move |source: io::Error| RunnerError::Data { what, source };
        let space = statvfs(folder)
            .map_err(|e| failed(format!("cannot use the folder {} (--dir)", folder.display()))(e.into()))?;
        let free = space.blocks_available() * space.fragment_size();
        if free < wanted {
            let problem = format!(
                "the files need {wanted} bytes, but {} has only {free} free: use another --dir, or less \
                 --data",
                folder.display()
            );
            return Err(RunnerError::NotFit { problems: vec![problem] });
        }
        let mut files = Vec::new();
        for data in &plan.data {
            let what =
                format!("cannot create a file of {} bytes in {} (--dir)", data.bytes, folder.display());
            files.push((data.clone(), make(folder, data.bytes, stop).map_err(failed(what))?));
            if stop.is_requested() {
                return Err(RunnerError::StoppedBefore);
            }
        }
        let sweep = Self { plan: plan.clone(), files };
        sweep.try_out()?;
        Ok(sweep)
    }

    /// Checks that every call works, before any trial.
    fn try_out(&self) -> Result<(), RunnerError> {
        if self.plan.how.contains(&How::Direct) {
            self.check_direct()?;
        }
        for how in &self.plan.how {
            let tried = match how {
                How::Dd => Command::new("dd")
                    .arg("--version")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .map(drop),
                How::Spawn | How::ForkExec => start_once(*how).map(drop),
                _ => self.files.iter().try_for_each(|(data, file)| self.reader(*how, data, file).map(drop)),
            };
            tried.map_err(|source| {
                let hint = if *how == How::Direct {
                    " (this file system may not support it: use another --dir)"
                } else {
                    ""
                };
                RunnerError::Data { what: format!("`{}` does not work here{hint}", how.word()), source }
            })?;
        }
        Ok(())
    }

    /// Checks that direct reads read the device. A read from memory must not be reported as a direct one.
    fn check_direct(&self) -> Result<(), RunnerError> {
        let below = place::below(Path::new(&self.plan.folder));
        for (data, file) in &self.files {
            let refused = match (&below, place::is_direct(file)) {
                (_, Err(missing)) => missing.reason,
                (Below::Cache(why), _) => why.clone(),
                (_, Ok(true)) => continue,
                (_, Ok(false)) => "the kernel accepted O_DIRECT, but read through the page cache".to_owned(),
            };
            let facts = place::facts(Path::new(&self.plan.folder));
            let fact = |name: &str| facts[name].clone().unwrap_or_else(|_| "unknown".to_owned());
            let problem = format!(
                "`direct` cannot be measured in {} ({} on {}), {}: {refused}; use another --dir, or --how \
                 without direct",
                self.plan.folder,
                fact("data.file_system"),
                fact("data.device"),
                data.name
            );
            return Err(RunnerError::NotFit { problems: vec![problem] });
        }
        Ok(())
    }

    /// Returns facts about the files, for the record.
    pub(crate) fn facts(&self) -> std::collections::BTreeMap<String, record::missing::Maybe<String>> {
        let mut facts = place::facts(Path::new(&self.plan.folder));
        if self.plan.how.contains(&How::Direct) {
            let tested = "past the page cache, as tested".to_owned();
            let direct = match place::below(Path::new(&self.plan.folder)) {
                Below::Unknown(why) => format!("{tested}; {why}"),
                Below::Device | Below::Cache(_) => tested,
            };
            facts.insert("data.direct".to_owned(), Ok(direct));
        }
        facts
    }

    fn reader(&self, how: How, data: &Data, file: &File) -> io::Result<Reader> {
        let call = match how {
            How::Read => Call::Read,
            How::Mmap => Call::Mmap,
            How::Direct => Call::Direct,
            How::Pread => Call::Pread,
            How::Dd | How::Spawn | How::ForkExec => unreachable!("programs do their own reading"),
        };
        let size_max = self.plan.size_max.max(self.plan.reference).next_multiple_of(512);
        Reader::open(file, call, data.bytes, size_max)
    }

    /// Measures one round of one call over one file.
    pub(crate) fn measure(&self, trial: &Trial, bench: &mut Bench<'_>) -> Result<Measured, Shortfall> {
        let how = self.plan.how_of(trial);
        let data = self.plan.data_of(trial);
        let (_, file) = self.files.iter().find(|(d, _)| d == data).expect("a file was made for each");
        let reading = |e: io::Error| Shortfall::Failed(format!("`{}` of {}: {e}", how.word(), data.name));
        let mut meter: Box<dyn FnMut(u64) -> Result<f64, Shortfall>> = match how {
            How::Spawn | How::ForkExec => Box::new(move |_| start_once(how).map_err(reading)),
            How::Dd => {
                let stop = bench.stop;
                Box::new(move |size| dd(file, data.bytes, size, stop))
            }
            _ => {
                let mut reader = self.reader(how, data, file).map_err(reading)?;
                let point = self.plan.point;
                Box::new(move |size| reader.point(size, point).map(|p| p.call_ns).map_err(reading))
            }
        };
        let mut notes = Notes::begin(bench);
        let (device_before, mut bytes) = (device_bytes(), 0.0);
        let bytes_of = |size: u64, call_ns: f64| match how {
            How::Dd => data.bytes as f64,
            _ => size as f64 * self.plan.point.as_nanos() as f64 / call_ns,
        };
        let reference = if how.starts_only() { 0 } else { self.plan.reference };
        for (i, size) in self.plan.order(trial).into_iter().enumerate() {
            if i % self.plan.reference_every as usize == 0 && reference > 0 {
                let call_ns = meter(reference)?;
                notes.add(bench, "reference_call_ns", reference, call_ns);
            }
            if bench.stop.is_requested() {
                return Err(Shortfall::Stopped);
            }
            let call_ns = meter(size)?;
            bytes += bytes_of(size, call_ns);
            notes.add(bench, "call_ns", size, call_ns);
            notes.look(bench);
        }
        if reference > 0 {
            let call_ns = meter(reference)?;
            notes.add(bench, "reference_call_ns", reference, call_ns);
        }
        let is_of_memory = matches!(how, How::Read | How::Pread | How::Mmap | How::Dd);
        let from_device = device_bytes().saturating_sub(device_before);
        let invalid = if is_of_memory { device_sentence(from_device, bytes) } else { None };
        Ok(Measured { samples: notes.samples, invalid })
    }
}

/// Returns the bytes that this process and its ended children read from devices.
fn device_bytes() -> u64 {
    let of = |who| getrusage(who).map_or(0, |usage| usage.block_reads().unsigned_abs() * 512);
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

/// Reports that reads of memory were reads of a device: the file's pages did not stay in memory.
fn device_sentence(from_device: u64, bytes: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
    let share = (bytes * DEVICE_RATIO_MAX) as u64;
    let limit = share.max(DEVICE_BYTES_MIN);
    (from_device > limit).then(|| {
        format!(
            "{} MiB came from a device instead of memory (limit {} MiB): a memory limit or other programs \
             evicted the file; use less --data, or --how direct",
            from_device >> 20,
            limit >> 20
        )
    })
}

/// Creates a file of that size, writes all of it, and unlinks it.
fn make(folder: &Path, bytes: u64, stop: &Stop) -> io::Result<File> {
    let path = folder.join(format!(".bakeoff-dder-{}-{bytes}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    // Not zeros, which some file systems do not store.
    let chunk: Vec<u8> = (1..=251).cycle().take(CHUNK).collect();
    let mut left = bytes;
    while left > 0 && !stop.is_requested() {
        let now = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        file.write_all(&chunk[..now])?;
        left -= now as u64;
    }
    // Pending writes would disturb the first round.
    file.sync_all()?;
    Ok(file)
}

/// The original experiment: one `dd` over the whole file. Returns the time per call, including start and exit
/// of `dd`.
fn dd(file: &File, bytes: u64, size: u64, stop: &Stop) -> Result<f64, Shortfall> {
    let failed = |e: io::Error| Shortfall::Failed(format!("dd bs={size}: {e}"));
    let mut command = Command::new("dd");
    command.arg(format!("if=/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    command.args(["of=/dev/null".to_owned(), format!("bs={size}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began_ns = Monotonic.now_ns();
    let mut process = Process::spawn(command, &Placement::ANYWHERE).map_err(failed)?;
    let waited = process.watch(Duration::MAX, stop).map_err(failed)?;
    let took_ns = Monotonic.now_ns() - began_ns;
    if waited == Waited::Stopped {
        return Err(Shortfall::Stopped);
    }
    let status = process.finish().map_err(failed)?;
    if !status.success() {
        return Err(Shortfall::Failed(format!("dd bs={size} ended with {status}")));
    }
    Ok(took_ns as f64 / bytes.div_ceil(size) as f64)
}

/// Starts `dd` without work and waits for its end. Returns the duration.
fn start_once(how: How) -> io::Result<f64> {
    let words = [c"dd", c"if=/dev/null", c"of=/dev/null", c"status=none"];
    let began_ns = Monotonic.now_ns();
    let success = if how == How::Spawn {
        let (actions, attributes) = (PosixSpawnFileActions::init()?, PosixSpawnAttr::init()?);
        let environment: [&std::ffi::CStr; 1] = [c"PATH=/usr/bin:/bin"];
        let pid = posix_spawnp(c"dd", &actions, &attributes, &words, &environment)?;
        matches!(waitpid(pid, None)?, WaitStatus::Exited(_, 0))
    } else {
        let mut command = Command::new("dd");
        command.args(["if=/dev/null", "of=/dev/null", "status=none"]);
        // A closure before exec makes the standard library use fork and exec.
        let mut process = Process::spawn(command, &Placement::ANYWHERE)?;
        process.finish_by_itself()?
    };
    let took_ns = Monotonic.now_ns() - began_ns;
    if success { Ok(took_ns as f64) } else { Err(io::Error::other("dd failed")) }
}

/// Samples of a trial, and the state of the machine between two times.
struct Notes {
    samples: Vec<Sample>,
    since: Moment,
}

/// State of the machine at one time.
struct Moment {
    at_ns: u64,
    /// CPU time of this thread, and time that it waited for a CPU.
    own: Option<(u64, u64)>,
}

impl Moment {
    fn now() -> Self {
        Self { at_ns: Monotonic.now_ns(), own: own_times_ns() }
    }
}

impl Notes {
    fn begin(bench: &mut Bench<'_>) -> Self {
        bench.beside.open_books();
        Self { samples: Vec::new(), since: Moment::now() }
    }

    fn add(&mut self, bench: &Bench<'_>, name: &str, size: u64, value: f64) {
        self.push(bench, name, format!("size={size}"), value);
    }

    fn push(&mut self, bench: &Bench<'_>, name: &str, labels: String, value: f64) {
        let t_ms = (Monotonic.now_ns() - bench.anchor.monotonic_ns) / 1_000_000;
        let t_ms = i64::try_from(t_ms).unwrap_or(i64::MAX);
        let host = SharedText::default();
        self.samples.push(Sample { t_ms, host, name: name.into(), labels: labels.into(), value });
    }

    /// Records possible disturbances, every quarter of a second.
    fn look(&mut self, bench: &mut Bench<'_>) {
        if Monotonic.now_ns() - self.since.at_ns < WINDOW_NS {
            return;
        }
        bench.beside.close_interval();
        let now = Moment::now();
        let for_ns = (now.at_ns - self.since.at_ns) as f64;
        let mut own_ratio = None;
        if let (Some(before), Some(after)) = (self.since.own, now.own) {
            own_ratio = Some((after.0 - before.0) as f64 / for_ns);
            self.push(bench, "run_delay_ratio", String::new(), (after.1 - before.1) as f64 / for_ns);
        }
        if let Some(ratio) = bench.beside.steal_ratio() {
            self.push(bench, "steal_ratio", String::new(), ratio);
        }
        let busy = bench
            .beside
            .last()
            .and_then(|i| Some((i.cpus.len() as f64, i.mean(record::cpu::CpuSample::busy_ratio).ok()?)));
        if let (Some((cpus, mean)), Some(own)) = (busy, own_ratio) {
            self.push(bench, "other_busy_ratio", String::new(), (mean - own / cpus).max(0.0));
        }
        if let Some(hz) = frequency_hz() {
            self.push(bench, "frequency_hz", String::new(), hz);
        }
        self.since = Moment::now();
    }
}

/// Returns the CPU time of this thread, and the time that it was ready and waited for a CPU.
fn own_times_ns() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Returns the frequency of CPU 0, which most virtual machines do not report.
fn frequency_hz() -> Option<f64> {
    let khz = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").ok()?;
    khz.trim().parse::<f64>().ok().map(|khz| khz * 1e3)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use plan::Experiment;
    use record::clock::WallAnchor;

    use super::*;
    use crate::beside::Beside;

    fn plan(folder: &Path, how: Vec<How>) -> SweepPlan {
        SweepPlan {
            title: "reads".into(),
            how,
            data: vec![Data { name: "16KiB".into(), bytes: 16 << 10 }],
            folder: folder.to_str().unwrap().to_owned(),
            full: false,
            size_max: 2_048,
            rounds: 1,
            point: Duration::from_micros(10),
            reference: 1_024,
            reference_every: 16,
            seed: 1,
        }
    }

    fn measured(plan: &SweepPlan, stop: &Stop) -> Result<Measured, Shortfall> {
        let ready = Sweep::prepare(plan, &Stop::new()).unwrap();
        let trial = Experiment::Sweep(plan.clone()).trials().remove(0);
        let mut beside = Beside::new(false);
        let folder = Path::new(&plan.folder);
        ready.measure(&trial, &mut Bench { stop, beside: &mut beside, folder, anchor: WallAnchor::now() })
    }

    fn sizes(measured: &Measured, name: &str) -> Vec<u64> {
        let of = measured.samples.iter().filter(|s| s.name == name);
        of.map(|s| s.labels.strip_prefix("size=").unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn every_size_is_measured_once_in_the_plans_order_with_the_reference_between_them() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), vec![How::Pread]);
        let done = measured(&plan, &Stop::new()).unwrap();
        let trial = Experiment::Sweep(plan.clone()).trials().remove(0);
        assert_eq!(sizes(&done, "call_ns"), plan.order(&trial));
        let references = sizes(&done, "reference_call_ns");
        assert_eq!(references, vec![1_024; plan.sizes().len().div_ceil(16) + 1]);
        assert!(done.samples.iter().filter(|s| s.name.ends_with("call_ns")).all(|s| s.value > 0.0));
    }

    #[test]
    fn programs_are_started_and_dd_reads_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        for how in [How::Spawn, How::ForkExec] {
            let starts = measured(&plan(folder.path(), vec![how]), &Stop::new()).unwrap();
            assert!(sizes(&starts, "reference_call_ns").is_empty());
            assert!(starts.samples.iter().filter(|s| s.name == "call_ns").all(|s| s.value > 0.0));
        }
        let file = make(folder.path(), 10_000, &Stop::new()).unwrap();
        assert!(dd(&file, 10_000, 4_096, &Stop::new()).is_ok_and(|call_ns| call_ns > 0.0));
        let Err(Shortfall::Failed(why)) = dd(&file, 10_000, 0, &Stop::new()) else {
            panic!("dd does not read by nothing")
        };
        assert_eq!(why, "dd bs=0 ended with exit status: 1");
    }

    #[test]
    fn reads_of_memory_that_come_from_a_device_are_invalid() {
        let gib = f64::from(1 << 30);
        assert_eq!((device_sentence(1 << 20, 0.0), device_sentence(10 << 20, 10.0 * gib)), (None, None));
        let why = device_sentence(11 << 20, 10.0 * gib).unwrap();
        assert!(why.starts_with("11 MiB came from a device instead of memory (limit 10 MiB)"), "{why}");
    }

    #[test]
    fn the_file_is_whole_has_no_name_and_is_not_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let file = make(folder.path(), CHUNK as u64 + 5, &Stop::new()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut all = Vec::new();
        fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap().read_to_end(&mut all).unwrap();
        assert!(all.len() == CHUNK + 5 && all.iter().all(|b| *b != 0));
    }

    #[test]
    fn who_wants_to_stop_gets_no_more_points() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        stop.request();
        assert!(matches!(measured(&plan(folder.path(), vec![How::Read]), &stop), Err(Shortfall::Stopped)));
        let before = Sweep::prepare(&plan(folder.path(), vec![How::Read]), &stop).err();
        assert!(matches!(before, Some(RunnerError::StoppedBefore)), "{before:?}");
    }

    #[test]
    fn a_disk_that_is_too_small_is_told_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path(), vec![How::Read]);
        plan.data[0].bytes = 1 << 60;
        let why = Sweep::prepare(&plan, &Stop::new()).err().unwrap().to_string();
        assert!(why.starts_with("the files need 1152921504606846976 bytes, but "), "{why}");
        assert!(why.ends_with(" free: use another --dir, or less --data"), "{why}");
    }
}
