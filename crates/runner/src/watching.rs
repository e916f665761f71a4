//! The instruments of a machine during the measured phase of a load that others generate.

use std::collections::BTreeMap;
use std::time::Duration;

use probes::cgroups::Cgroup;
use record::agents::Observation;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::cpu::{CpuInterval, CpuSample};
use record::instruments::Instruments;
use record::missing::{Maybe, Missing};
use record::profile::{ProfileKind, RunProfile};
use record::series::{Sample, SharedText};

use crate::Beside;

/// Longest sleep before the next look whether the work is over.
const LOOK_NS: u64 = 50_000_000;
/// Time from the beginning of a rehearsal to the window: the load may be warming up.
const REHEARSAL_NS: u64 = 2_500_000_000;
/// Time from a rehearsal's reading, which looks up names, to the window.
const READING_NS: u64 = 750_000_000;
/// Instruments that start later than this share of an interval are reported.
const LATE_RATIO: f64 = 0.1;
/// Largest size of an observation, as lines of an agent's file, in bytes.
const BYTES_MAX: usize = 56 << 20;
/// Size from which on only the readings of an instrument are taken, and no longer all its numbers.
const DETAILS_BYTES_MAX: usize = 32 << 20;
/// Length of a line besides its name and labels.
const LINE_BYTES: usize = 100;
/// Functions, and names of threads, of a profile.
const NAMED_MAX: usize = 50;
/// Longest name of a function, in letters.
const NAME_LETTERS_MAX: usize = 200;

/// Observes this machine from `from_ns` until `until_ns` on `CLOCK_MONOTONIC`, in intervals of `interval`, or
/// until `is_over` holds. Returns the numbers of every instrument, and the reasons for missing ones; times
/// count from `from_ns`.
///
/// Intervals end at multiples of their length, or late: an interval that has passed is not read again. Before
/// the window, the instruments are read once, so that names are known.
///
/// - `server`: control group of the server on this machine, of which the CPU time is read.
pub fn watch(
    (beside, server): (&mut Beside, Option<&Cgroup>),
    (from_ns, until_ns): (u64, u64),
    interval: Duration,
    is_over: &dyn Fn() -> bool,
) -> Observation {
    let mut found = Found { anchor_ns: from_ns, ..Found::default() };
    let anchor = WallAnchor { monotonic_ns: from_ns, unix_ns: WallAnchor::now().unix_ns };
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    if !rehearse(beside, from_ns, is_over) || !wait_until(from_ns, is_over) {
        return found.seen;
    }
    // Its counter is read before the instruments, which take longer: it covers the window.
    let mut server = server.map(ServerGroup::of);
    beside.open_books();
    found.began(Monotonic.now_ns().saturating_sub(from_ns), interval_ns);
    let mut end_ns = from_ns;
    loop {
        let past = Monotonic.now_ns().saturating_sub(from_ns) / interval_ns;
        end_ns = end_ns.max(from_ns.saturating_add(past.saturating_mul(interval_ns)));
        end_ns = end_ns.saturating_add(interval_ns).min(until_ns);
        let goes_on = wait_until(end_ns, is_over) && end_ns < until_ns;
        if !goes_on {
            break;
        }
        found.add_server(server.as_mut());
        beside.close_interval();
        let (cpu, seen) = (beside.take_complete(), beside.take_intervals());
        found.add(&cpu, seen, beside.take_series("", anchor));
    }
    found.add_server(server.as_mut());
    let cpu = beside.take();
    let ended_ms = Monotonic.now_ns().saturating_sub(from_ns) / 1_000_000;
    let mut seen = beside.take_instruments();
    for taken in std::mem::take(&mut seen.profiles) {
        found.add_profile(&taken, i64::try_from(ended_ms).unwrap_or(i64::MAX));
    }
    found.add(&cpu, seen, beside.take_series("", anchor));
    found.end(beside)
}

/// Reads the instruments of intervals once before the window; false if `is_over` held before.
fn rehearse(beside: &mut Beside, from_ns: u64, is_over: &dyn Fn() -> bool) -> bool {
    if !wait_until(from_ns.saturating_sub(REHEARSAL_NS), is_over) {
        return false;
    }
    beside.rehearse(|| {
        wait_until(from_ns.saturating_sub(READING_NS), is_over);
    });
    !is_over()
}

/// The CPU time of a control group.
#[derive(Debug)]
struct ServerGroup<'a> {
    group: &'a Cgroup,
    /// Time of the last reading, and the CPU time then.
    last: (u64, Maybe<u64>),
}

impl<'a> ServerGroup<'a> {
    fn of(group: &'a Cgroup) -> Self {
        Self { group, last: cpu_ns(group) }
    }

    /// The time now, and the CPU time per second since the last reading.
    fn read(&mut self) -> Maybe<(u64, f64)> {
        let (from_ns, before) = std::mem::replace(&mut self.last, cpu_ns(self.group));
        let (until_ns, after) = (self.last.0, self.last.1.clone()?);
        let elapsed_ns = until_ns.saturating_sub(from_ns).max(1);
        Ok((until_ns, after.saturating_sub(before?) as f64 / elapsed_ns as f64))
    }
}

/// The time, and the CPU time of a group until then.
///
/// # Source
///
/// `cpu.stat` in Documentation/admin-guide/cgroup-v2.rst; every group has it, also without controllers.
fn cpu_ns(group: &Cgroup) -> (u64, Maybe<u64>) {
    let text = std::fs::read_to_string(group.folder.join("cpu.stat"));
    let usec =
        |text: &str| text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok());
    let ns = match text.as_deref().map(usec) {
        Ok(Some(usec)) => Ok(u64::saturating_mul(usec, 1_000)),
        Ok(None) => Err(Missing::because(format!("control group {} has no CPU time", group.name))),
        Err(error) => Err(Missing::because(format!("control group {}: {error}", group.name))),
    };
    (Monotonic.now_ns(), ns)
}

/// An observation that grows.
#[derive(Debug, Default)]
struct Found {
    /// The readings, and the reasons.
    seen: Observation,
    details: Vec<Sample>,
    anchor_ns: u64,
    bytes: usize,
    /// Numbers that were left out, and the time of the first in seconds.
    left_out: Option<(u64, f64)>,
}

impl Found {
    /// Reports instruments that began late.
    fn began(&mut self, late_ns: u64, interval_ns: u64) {
        if late_ns as f64 > LATE_RATIO * interval_ns as f64 {
            let late_s = late_ns as f64 * 1e-9;
            let why = format!("the instruments began {late_s:.3} s after the measured phase did");
            self.seen.missing.insert(Observation::START.to_owned(), Missing::because(why));
        }
    }

    /// Adds what was read of an interval.
    fn add(&mut self, cpu: &[CpuInterval], mut seen: Instruments, readings: Vec<Sample>) {
        self.seen.missing.append(&mut seen.missing);
        let busy = cpu.iter().filter_map(|interval| self.busy(interval)).collect::<Vec<_>>();
        for sample in busy.into_iter().chain(readings) {
            self.add_reading(sample);
        }
        for sample in archive::numbers(cpu, &seen, "", self.anchor_ns) {
            self.add_detail(sample);
        }
    }

    /// The busy share of all CPUs.
    fn busy(&self, interval: &CpuInterval) -> Option<Sample> {
        let ms = (i128::from(interval.until_ns) - i128::from(self.anchor_ns)) / 1_000_000;
        let value = interval.mean(CpuSample::busy_ratio).ok()?;
        Some(sample(i64::try_from(ms).unwrap_or(i64::MAX), "cpu_busy_ratio", String::new(), value))
    }

    /// Adds the CPU time of the server since the last call.
    fn add_server(&mut self, server: Option<&mut ServerGroup<'_>>) {
        let Some(server) = server else { return };
        match server.read() {
            Err(why) => {
                self.seen.missing.insert("server".to_owned(), why);
            }
            Ok((at_ns, cpus)) => {
                let t_ms =
                    i64::try_from(at_ns.saturating_sub(self.anchor_ns) / 1_000_000).unwrap_or(i64::MAX);
                let labels = format!("cgroup={}", label(&server.group.name));
                self.add_reading(sample(t_ms, "server_cpu_s_per_s", labels, cpus));
            }
        }
    }

    fn add_reading(&mut self, sample: Sample) {
        if self.has_room(&sample, BYTES_MAX) {
            self.seen.numbers.push(sample);
        }
    }

    fn add_detail(&mut self, sample: Sample) {
        if self.has_room(&sample, DETAILS_BYTES_MAX) {
            self.details.push(sample);
        }
    }

    /// Takes the room for a number, if there is enough.
    fn has_room(&mut self, sample: &Sample, bytes_max: usize) -> bool {
        let bytes = LINE_BYTES + sample.name.len() + sample.labels.len();
        if self.bytes + bytes > bytes_max {
            let (count, _) = self.left_out.get_or_insert((0, sample.t_ms as f64 / 1e3));
            *count += 1;
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Adds the times of a profile by state, by name of the thread and by function, each with the most.
    fn add_profile(&mut self, taken: &RunProfile, t_ms: i64) {
        let profile = &taken.profile;
        let of = match profile.kind {
            ProfileKind::OnCpu => "profile",
            ProfileKind::OffCpu => "off_cpu",
        };
        let (mut states, mut comms) = (BTreeMap::new(), BTreeMap::new());
        for stack in &profile.stacks {
            *states.entry(stack.state).or_insert(0) += stack.ns;
            *comms.entry(stack.comm.as_str()).or_insert(0) += stack.ns;
        }
        let mut comms: Vec<(&str, u64)> = comms.into_iter().collect();
        comms.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let mut add = |name: &str, labels: String, ns: u64| {
            self.seen.numbers.push(sample(t_ms, &format!("{of}_{name}_s"), labels, ns as f64 * 1e-9));
        };
        for (state, ns) in states {
            add("time", format!("state={}", state.word()), ns);
        }
        for (comm, ns) in comms.into_iter().take(NAMED_MAX) {
            add("threads", format!("comm={}", label(comm)), ns);
        }
        for function in profile.functions().into_iter().take(NAMED_MAX) {
            let labels = format!("function={}", label(&function.name));
            add("self", labels.clone(), function.self_ns);
            add("total", labels, function.total_ns);
        }
        let lost: Vec<String> = profile.lost.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        if !lost.is_empty() {
            let why = format!("lost {}: the numbers are lower bounds", lost.join(", "));
            let why = Missing::because(why);
            self.seen.missing.insert(profile.kind.instrument().to_owned(), why);
        }
    }

    /// The observation. The readings, of which there are few, are before the details: views have a largest
    /// number of series.
    fn end(mut self, beside: &Beside) -> Observation {
        self.seen.numbers.append(&mut self.details);
        for (name, able) in beside.abilities() {
            if let Err(why) = able {
                self.seen.missing.entry(name.to_owned()).or_insert(why);
            }
        }
        if let Some(why) = beside.lacks_of_cpu() {
            self.seen.missing.insert("cpu".to_owned(), Missing::because(why));
        }
        if let Some((count, from_s)) = self.left_out {
            let why = format!(
                "{count} numbers from {from_s:.0} s on are left out, details first: an observation has at most {} MiB",
                BYTES_MAX >> 20
            );
            self.seen.missing.insert(Observation::REST.to_owned(), Missing::because(why));
        }
        self.seen
    }
}

fn sample(t_ms: i64, name: &str, labels: String, value: f64) -> Sample {
    Sample { t_ms, host: SharedText::default(), name: name.into(), labels: labels.into(), value }
}

/// A name as the value of a label.
fn label(text: &str) -> String {
    text.replace([',', '='], ";").chars().take(NAME_LETTERS_MAX).collect()
}

/// Whether the time came before `is_over`.
fn wait_until(at_ns: u64, is_over: &dyn Fn() -> bool) -> bool {
    loop {
        if is_over() {
            return false;
        }
        let now_ns = Monotonic.now_ns();
        if now_ns >= at_ns {
            return true;
        }
        std::thread::sleep(Duration::from_nanos((at_ns - now_ns).min(LOOK_NS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_has_its_numbers_and_their_times_count_from_the_window() {
        let mut beside = Beside::new(true);
        let from_ns = Monotonic.now_ns() + 20_000_000;
        let window = (from_ns, from_ns + 500_000_000);
        for _ in 0..2 {
            let window = (window.0.max(Monotonic.now_ns()), window.1.max(Monotonic.now_ns() + 500_000_000));
            let found = watch((&mut beside, None), window, Duration::from_millis(100), &|| false).numbers;
            for name in ["cpu_not_idle_ratio", "cpu_busy_ratio"] {
                let mut times: Vec<i64> = found.iter().filter(|s| &*s.name == name).map(|s| s.t_ms).collect();
                times.dedup();
                assert!(times.is_sorted() && (1..=6).contains(&times.len()), "{times:?}");
                assert!(times.iter().all(|t_ms| *t_ms > 0) && times.last() >= Some(&500), "{times:?}");
            }
        }
    }

    #[test]
    fn an_observation_that_is_stopped_before_it_begins_has_no_numbers() {
        let mut beside = Beside::new(true);
        let from_ns = Monotonic.now_ns() + 3_600_000_000_000;
        let found = watch((&mut beside, None), (from_ns, from_ns + 1), Duration::from_millis(100), &|| true);
        assert_eq!(found, Observation::default());
    }

    /// The unkind truth: a machine with many locks and a long load. Details end first, readings later, and
    /// the observation says how many are missing.
    #[test]
    fn an_observation_has_a_largest_size_and_names_what_exceeds_it() {
        let mut found = Found::default();
        let labels = "x".repeat(1 << 20);
        for t_ms in 0..100 {
            found.add_detail(sample(t_ms * 1_000, "detail", labels.clone(), 1.0));
            found.add_reading(sample(t_ms * 1_000, "reading", "few".into(), 1.0));
        }
        let seen = found.end(&Beside::new(false));
        let count = |name: &str| seen.numbers.iter().filter(|s| &*s.name == name).count();
        assert_eq!((count("detail"), count("reading")), (31, 100));
        assert_eq!(&*seen.numbers[99].name, "reading", "a view has the readings");
        let why = &seen.missing[Observation::REST].reason;
        assert!(why.starts_with("69 numbers from 31 s on are left out"), "{why}");
    }
}
