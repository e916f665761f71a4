//! CPUs on which the threads of the load and of the server ran, as the scheduler placed them.
//!
//! *Reads* the CPU time and the present CPU of each thread, ten times a second, from `/proc`. *Yields* shares
//! of CPU time by CPU: what a thread used since the last reading counts for the CPU where it is now. *Blind
//! to* moves between two readings: a thread that moves often has shares that are right on average only.
//! *Costs* some 10 us per thread and reading; of more than [`THREADS_MAX`] threads nothing is read.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use load::Event;
use nix::unistd::{Pid, getpid};
use probes::process_time;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::load::Phase;
use record::missing::{Maybe, Missing};
use record::resources::{CLIENT_CPU_SHARE, SERVER_CPU_SHARE};
use record::series::{Sample, SharedText};

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(100);
/// Most threads that are read.
const THREADS_MAX: usize = 512;
/// Beginning of the names of the load's threads; a number follows.
const WORKER: &str = "load-";

/// Nanoseconds by CPU.
type ByCpu = BTreeMap<u32, u64>;

/// Follows a load: reads where threads run during its measured phase.
pub(crate) struct ThreadPlaces<'a> {
    members: &'a dyn Fn() -> Vec<Pid>,
    is_on: bool,
    reader: Option<Reader>,
    ended: Option<(u64, Maybe<Places>)>,
}

/// CPU time by CPU: of each thread of the load, and of the server.
#[derive(Debug, Default, PartialEq)]
struct Places {
    client: BTreeMap<String, ByCpu>,
    server: ByCpu,
}

/// A thread that reads.
struct Reader {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Maybe<Places>>,
}

impl<'a> ThreadPlaces<'a> {
    /// - `members`: returns the processes of the server; those at the start of the measured phase are read.
    pub(crate) fn of(members: &'a dyn Fn() -> Vec<Pid>, is_on: bool) -> Self {
        Self { members, is_on, reader: None, ended: None }
    }

    /// Starts to read at the beginning of the measured phase, and ends with it.
    pub(crate) fn follow(&mut self, event: &Event) {
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } if self.is_on => {
                let own = getpid();
                let server = (self.members)().into_iter().filter(|pid| *pid != own).collect();
                self.reader = Reader::start(server);
            }
            Event::MeasureEnds => self.stop(),
            _ => {}
        }
    }

    fn stop(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.ended = Some((Monotonic.now_ns(), reader.end()));
        }
    }

    /// Adds the shares to `series`, or the reason that they are missing to `missing`.
    pub(crate) fn end(
        mut self,
        (host, anchor): (&str, WallAnchor),
        series: &mut Vec<Sample>,
        missing: &mut BTreeMap<String, Missing>,
    ) {
        self.stop();
        let Some((at_ns, places)) = self.ended.take() else { return };
        let places = match places {
            Ok(places) => places,
            Err(why) => {
                missing.insert(CLIENT_CPU_SHARE.to_owned(), why.clone());
                missing.insert(SERVER_CPU_SHARE.to_owned(), why);
                return;
            }
        };
        let t_ms = i64::try_from(at_ns.saturating_sub(anchor.monotonic_ns) / 1_000_000).unwrap_or(i64::MAX);
        let host = SharedText::from(host);
        let mut add = |name: &str, thread: &str, by_cpu: &ByCpu| {
            let all: u64 = by_cpu.values().sum();
            for (cpu, ns) in by_cpu.iter().filter(|(_, ns)| **ns > 0) {
                let labels = format!("cpu={cpu}{thread}").into();
                let value = *ns as f64 / all as f64;
                series.push(Sample { t_ms, host: host.clone(), name: name.into(), labels, value });
            }
        };
        for (thread, by_cpu) in &places.client {
            add(CLIENT_CPU_SHARE, &format!(",thread={thread}"), by_cpu);
        }
        add(SERVER_CPU_SHARE, "", &places.server);
    }
}

impl Drop for ThreadPlaces<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Reader {
    /// - `server`: processes.
    fn start(server: Vec<Pid>) -> Option<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let body = move || read_until(&until, &server);
        let thread = thread::Builder::new().name("thread-places".to_owned()).spawn(body).ok()?;
        Some(Self { is_over, thread })
    }

    fn end(self) -> Maybe<Places> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Err(Missing::because("the reader of threads failed")))
    }
}

/// Reads until the phase is over, and once more.
fn read_until(is_over: &AtomicBool, server: &[Pid]) -> Maybe<Places> {
    let mut reading = Reading::default();
    // Times before the phase do not count.
    reading.take(server)?;
    reading.places = Places::default();
    loop {
        let is_last = is_over.load(Ordering::SeqCst);
        if !is_last {
            thread::park_timeout(EVERY);
        }
        reading.take(server)?;
        if is_last {
            return Ok(reading.places);
        }
    }
}

/// Times of the last reading, and the sums so far.
#[derive(Debug, Default)]
struct Reading {
    before: BTreeMap<(i32, i32), u64>,
    places: Places,
}

impl Reading {
    fn take(&mut self, server: &[Pid]) -> Maybe<()> {
        let mut room = THREADS_MAX;
        let own = getpid().as_raw();
        for (id, seen) in threads(own, &mut room, is_worker)? {
            let used_ns = self.since_last((own, id), seen.ran_ns);
            *self.places.client.entry(seen.name).or_default().entry(seen.cpu).or_default() += used_ns;
        }
        for process in server {
            for (id, seen) in threads(process.as_raw(), &mut room, |_| true)? {
                let used_ns = self.since_last((process.as_raw(), id), seen.ran_ns);
                *self.places.server.entry(seen.cpu).or_default() += used_ns;
            }
        }
        Ok(())
    }

    /// A thread that is new has used all its time since.
    fn since_last(&mut self, id: (i32, i32), ran_ns: u64) -> u64 {
        ran_ns.saturating_sub(self.before.insert(id, ran_ns).unwrap_or(0))
    }
}

fn is_worker(name: &str) -> bool {
    name.strip_prefix(WORKER).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A thread at one moment.
struct Seen {
    name: String,
    cpu: u32,
    ran_ns: u64,
}

/// Threads of a process; one that ends meanwhile is left out.
///
/// # Errors
///
/// Missing if there are more than `room`, or if the kernel does not count their time.
fn threads(process: i32, room: &mut usize, is_wanted: fn(&str) -> bool) -> Maybe<Vec<(i32, Seen)>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Ok(found) };
    for id in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        let folder = format!("/proc/{process}/task/{id}");
        let Ok(stat) = process_time::text(format!("{folder}/stat")) else { continue };
        let Some((name, cpu)) = parse(&stat) else { continue };
        if !is_wanted(name) {
            continue;
        }
        *room = room.checked_sub(1).ok_or_else(|| {
            Missing::because(format!("more than {THREADS_MAX} threads: reading them would disturb"))
        })?;
        let ran_ns = match process_time::text(format!("{folder}/schedstat")) {
            Ok(text) => text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && fs::exists(&folder).unwrap_or(false) => {
                None
            }
            Err(_) => continue,
        };
        let ran_ns =
            ran_ns.ok_or_else(|| Missing::because("the kernel does not count the time of threads"))?;
        found.push((id, Seen { name: name.to_owned(), cpu, ran_ns }));
    }
    Ok(found)
}

/// Name and present CPU from `/proc/PID/task/TID/stat`. The name may contain anything, also blanks.
fn parse(stat: &str) -> Option<(&str, u32)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // The 39th field; the first two are taken.
    Some((name, after.split_ascii_whitespace().nth(36)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::process::{Placement, Process};

    /// CPUs that this process may use.
    fn cpus() -> Vec<u32> {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
        (0..1_024).filter(|cpu| set.is_set(*cpu as usize).unwrap_or(false)).collect()
    }

    /// A thread with the name of a worker that spins on one CPU until the flag is set.
    fn spinner(name: &str, cpu: u32, is_over: &Arc<AtomicBool>) -> JoinHandle<()> {
        let is_over = Arc::clone(is_over);
        let body = move || {
            let mut set = CpuSet::new();
            set.set(cpu as usize).unwrap();
            sched_setaffinity(Pid::from_raw(0), &set).unwrap();
            while !is_over.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).unwrap()
    }

    fn share(by_cpu: &ByCpu, cpu: u32) -> f64 {
        let all: u64 = by_cpu.values().sum();
        by_cpu.get(&cpu).copied().unwrap_or(0) as f64 / all as f64
    }

    #[test]
    fn threads_and_processes_that_are_bound_have_their_time_on_their_cpus() {
        let all = cpus();
        let (first, last) = (all[0], all[all.len() - 1]);
        let is_over = Arc::new(AtomicBool::new(false));
        // Numbers that no load of another test has.
        let spinners = [spinner("load-90001", last, &is_over), spinner("load-90002", first, &is_over)];
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let placement = Placement { cpus: Some(vec![first]), ..Placement::ANYWHERE };
        let server = Process::spawn(command, &placement).unwrap();
        // A thread that was just started may not have its binding yet.
        thread::sleep(Duration::from_millis(200));
        let reader = Reader::start(vec![server.pid()]).unwrap();
        thread::sleep(Duration::from_secs(1));
        let places = reader.end().unwrap();
        is_over.store(true, Ordering::SeqCst);
        for thread in spinners {
            thread.join().unwrap();
        }
        drop(server);
        assert!((share(&places.client["load-90001"], last) - 1.0).abs() < 1e-9, "{places:?}");
        assert!((share(&places.client["load-90002"], first) - 1.0).abs() < 1e-9, "{places:?}");
        assert!((share(&places.server, first) - 1.0).abs() < 1e-9, "{places:?}");
        // The time of a second of spinning, not that since the start of the thread.
        let ran_ns: u64 = places.client["load-90001"].values().sum();
        assert!((1..1_500_000_000).contains(&ran_ns), "{ran_ns}");
    }

    #[test]
    fn a_name_with_blanks_and_parentheses_is_a_name() {
        let stat = "12 (a ) (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 \
                    33 34 17 5 0";
        // After the state come the fields 4 to 38; the next one is the CPU.
        let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().count();
        assert_eq!((fields, parse(stat).unwrap().0), (38, "a ) (b) c"));
        assert_eq!(parse(stat).unwrap().1, 5);
        assert!(parse("12 (a) S 1").is_none() && parse("").is_none());
    }

    #[test]
    fn workers_are_told_by_their_names() {
        for (name, expected) in
            [("load-0", true), ("load-17", true), ("load-", false), ("load-may-fifo", false), ("sh", false)]
        {
            assert_eq!(is_worker(name), expected, "{name}");
        }
    }

    #[test]
    fn shares_are_numbers_of_the_run_and_nothing_is_read_unless_it_was_asked_for() {
        let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
        let (mut series, mut missing) = (Vec::new(), BTreeMap::new());
        let none = || Vec::new();
        let mut off = ThreadPlaces::of(&none, false);
        off.follow(&Event::MeasureEnds);
        off.end(("h", anchor), &mut series, &mut missing);
        assert!(series.is_empty() && missing.is_empty());
        let mut on = ThreadPlaces::of(&none, true);
        let client = [("load-1".to_owned(), ByCpu::from([(0, 30), (3, 10)]))].into();
        on.ended = Some((5_000_000, Ok(Places { client, server: ByCpu::from([(1, 7), (2, 0)]) })));
        on.end(("h", anchor), &mut series, &mut missing);
        let told: Vec<(&str, &str, f64)> = series.iter().map(|s| (&*s.name, &*s.labels, s.value)).collect();
        assert_eq!(
            told,
            [
                (CLIENT_CPU_SHARE, "cpu=0,thread=load-1", 0.75),
                (CLIENT_CPU_SHARE, "cpu=3,thread=load-1", 0.25),
                (SERVER_CPU_SHARE, "cpu=1", 1.0),
            ]
        );
        assert_eq!(series[0].t_ms, 5);
        let mut failed = ThreadPlaces::of(&none, true);
        failed.ended = Some((0, Err(Missing::because("why"))));
        failed.end(("h", anchor), &mut series, &mut missing);
        assert_eq!(missing.len(), 2);
    }
}
