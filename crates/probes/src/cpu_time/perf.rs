//! The perf rung: the kernel's own context-switch records, by `perf_event_open`.
//!
//! Needs no BPF and no root if `kernel.perf_event_paranoid` is 0 or less. Every switch goes through a ring
//! buffer to user space, so it costs more than a program in the kernel, and records can be lost; notes and
//! loss counts report both. Here the balance means little: both sides use one clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perf_event::events::Software;
use perf_event::{Builder, Clock as PerfClock, SampleFlag, Sampler};
use record::clock::{Clock, Monotonic};
use record::cpu::{RECORDS_LOST, Rung, SWITCHES_UNSEEN, TaskSample, UNSURE_NS};
use record::missing::{Maybe, Missing};

use super::books::{Books, Edge, LOST, Top};
use super::source::{Adopt, Source};
use crate::ticks::Ticks;
use crate::{hog, process_ids};

/// Size that an ordinary user may map per CPU (`kernel.perf_event_mlock_kb`, less the header page): 8,192
/// switches.
const RING_BYTES_MAX: usize = 512 * 1024;
/// Room for 512 switches.
const RING_BYTES_MIN: usize = 32 * 1024;
/// Size of the rings of all CPUs, unless the smallest rings exceed it.
const RINGS_BYTES: usize = 64 << 20;
/// Period of emptying the rings: enough for 800,000 switches a second on each CPU with the largest rings, and
/// 50,000 with the smallest.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// Receiver of the records of every CPU.
#[derive(Debug)]
pub(super) struct Perf {
    lines: Arc<Mutex<Lines>>,
    stop: Option<Sender<()>>,
    drain: Option<JoinHandle<()>>,
}

type Lines = BTreeMap<u32, Line>;

/// One CPU: its ring, and the counters that its records update.
struct Line {
    ring: Sampler,
    account: Account,
}

impl Perf {
    /// Opens a ring on each of the CPUs.
    ///
    /// # Errors
    ///
    /// A sentence for people: the cause and a remedy.
    pub(super) fn open(online: &BTreeSet<u32>) -> Result<Self, String> {
        if !process_ids::are_the_machines() {
            return Err(
                "cannot record context switches in a PID namespace: the kernel reports every thread outside \
                 it as the idle task; run it on the host, or with --pid=host"
                    .to_owned(),
            );
        }
        let bytes = ring_bytes(online.len());
        let line = |cpu: &u32| Ok((*cpu, Line { ring: ring(*cpu, bytes)?, account: Account::default() }));
        let lines: Lines = online.iter().map(line).collect::<io::Result<_>>().map_err(|e| refusal(&e))?;
        let lines = Arc::new(Mutex::new(lines));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&lines);
        let body = move || {
            while stopped.recv_timeout(DRAIN_EVERY) == Err(RecvTimeoutError::Timeout) {
                locked(&shared).values_mut().for_each(Line::drain);
            }
        };
        let drain = thread::Builder::new().name("perf-drain".into()).spawn(body);
        let drain = drain.map_err(|e| {
            format!("cannot record context switches: cannot start the thread that reads them: {e}")
        })?;
        // A CPU reports its task only when it switches: this makes each CPU switch.
        hog::visit(online);
        Ok(Self { lines, stop: Some(stop), drain: Some(drain) })
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread ends when the sender is gone; its panic, if any, was printed.
        let _ = self.drain.take().map(JoinHandle::join);
    }
}

impl Source for Perf {
    fn rung(&self) -> Rung {
        Rung::Perf
    }

    fn next_edge(&mut self) {}

    fn tasks(&mut self) -> Maybe<Vec<TaskSample>> {
        Err(Missing::because("tasks are accounted for on the BPF rung only"))
    }

    fn adopt(&mut self, _: Adopt) -> Maybe<()> {
        Err(Missing::because("the owner of each thread is known on the BPF rung only"))
    }

    fn close(&mut self, cpu: u32) -> Maybe<Edge> {
        let mut lines = locked(&self.lines);
        let line = lines.get_mut(&cpu).ok_or_else(|| Missing::because("it came online after the start"))?;
        let wall_ns = Monotonic.now_ns();
        line.drain();
        let books = line.account.close(wall_ns);
        let books = books.ok_or_else(|| Missing::because("it has not switched since the start"))?;
        // A record that arrived meanwhile may be later than the reading of the clock.
        Ok(Edge { wall_ns: books.at_ns, books })
    }

    fn cost(&mut self, _: Option<&Ticks>) -> Maybe<[f64; 3]> {
        Err(Missing::because("the kernel keeps no statistics of its context-switch records"))
    }
}

fn locked(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Size of the ring of each of so many CPUs: a power of two.
fn ring_bytes(cpus: usize) -> usize {
    let share = RINGS_BYTES / cpus.max(1);
    (1 << share.max(1).ilog2()).clamp(RING_BYTES_MIN, RING_BYTES_MAX)
}

/// Memory of the rings of so many CPUs, each with a page for its header.
#[cfg(test)]
pub(crate) fn kernel_memory(cpus: u32) -> u64 {
    u64::from(cpus) * (ring_bytes(cpus as usize) as u64 + 4_096)
}

fn ring(cpu: u32, bytes: usize) -> io::Result<Sampler> {
    let mut event = Builder::new(Software::DUMMY);
    event.any_pid().one_cpu(cpu as usize).include_kernel().include_hv().exclude_idle(false);
    event.context_switch(true).clockid(PerfClock::MONOTONIC);
    event.sample(SampleFlag::TID).sample(SampleFlag::TIME).sample_id_all(true);
    let mut ring = event.build()?.sampled(bytes)?;
    ring.enable()?;
    Ok(ring)
}

fn refusal(error: &io::Error) -> String {
    let way_out = if error.kind() == io::ErrorKind::PermissionDenied {
        let now = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        format!(
            "run it with sudo, give the program CAP_PERFMON, or set sysctl kernel.perf_event_paranoid=0 (now \
             {}); a container must allow perf_event_open(2), too",
            now.trim()
        )
    } else {
        "it needs a kernel with CONFIG_PERF_EVENTS, and a container that allows perf_event_open(2)".to_owned()
    };
    format!("cannot record context switches with perf_event_open ({error}): {way_out}")
}

impl Line {
    fn drain(&mut self) {
        while let Some(record) = self.ring.next_record() {
            match read_record(record.ty(), record.misc(), &record.to_contiguous()) {
                Some(Event::Switch(switch)) => self.account.take(&switch),
                Some(Event::Lost(count)) => self.account.lose(count),
                None => {}
            }
        }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("account", &self.account).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Switch(Switch),
    Lost(u64),
}

/// A switch of the CPU from one thread to another. The kernel reports it twice; one of the records may be
/// lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switch {
    at_ns: u64,
    from: Thread,
    to: Thread,
    side: Side,
}

/// Side of a switch that a record reports: the thread that goes off is reported first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Off,
    On,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    pid: u32,
    tid: u32,
}

/// Id that the kernel writes for a thread that has exited.
const GONE: Thread = Thread { pid: u32::MAX, tid: u32::MAX };

impl Thread {
    fn is_idle(self) -> bool {
        self.tid == 0
    }
}

/// Parses the body of a record, in the layout of `perf_event_open(2)` for `TID` and `TIME`; `None` for kinds
/// that were not requested.
fn read_record(kind: u32, misc: u16, body: &[u8]) -> Option<Event> {
    const PERF_RECORD_LOST: u32 = 2;
    const PERF_RECORD_SWITCH_CPU_WIDE: u32 = 15;
    const PERF_RECORD_MISC_SWITCH_OUT: u16 = 1 << 13;
    let word = |at: usize| body.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let double = |at: usize| body.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    match kind {
        PERF_RECORD_LOST => double(8).map(Event::Lost),
        PERF_RECORD_SWITCH_CPU_WIDE => {
            let thread = |at: usize| Some(Thread { pid: word(at)?, tid: word(at + 4)? });
            let (other, this, at_ns) = (thread(0)?, thread(8)?, double(16)?);
            Some(Event::Switch(if misc & PERF_RECORD_MISC_SWITCH_OUT == 0 {
                Switch { at_ns, from: other, to: this, side: Side::On }
            } else {
                Switch { at_ns, from: this, to: other, side: Side::Off }
            }))
        }
        _ => None,
    }
}

/// The counters of one CPU, from its switches.
#[derive(Debug, Default)]
struct Account {
    /// Time of the last update, and the thread on the CPU since.
    since: Option<(u64, Thread)>,
    /// After a loss of records: time from which on another thread may have had the CPU.
    doubt_from_ns: Option<u64>,
    last: Option<Switch>,
    busy_ns: u64,
    idle_ns: u64,
    switches: u64,
    unseen: u64,
    unsure_ns: u64,
    records_lost: u64,
    /// Time of each thread since the last reading.
    threads: HashMap<Thread, u64>,
}

impl Account {
    fn take(&mut self, switch: &Switch) {
        let doubt_from_ns = self.doubt_from_ns.take();
        let last = self.last.replace(*switch).filter(|_| doubt_from_ns.is_none());
        let told_before = |last: Switch| {
            (last.side, switch.side) == (Side::Off, Side::On)
                && (last.from, last.to) == (switch.from, switch.to)
        };
        if last.is_some_and(told_before) {
            return;
        }
        let Some((since_ns, running)) = self.since else {
            self.since = Some((switch.at_ns, switch.to));
            return;
        };
        // The kernel reports no id of a thread that has exited: it is the one that came on last.
        let is_gone = switch.from == GONE && !running.is_idle() && doubt_from_ns.is_none();
        let from = if is_gone { running } else { switch.from };
        self.unseen += u64::from(running != from);
        if let Some(from_ns) = doubt_from_ns {
            self.unsure_ns += switch.at_ns.saturating_sub(from_ns);
        } else if running.is_idle() != from.is_idle() {
            self.unsure_ns += switch.at_ns.saturating_sub(since_ns);
        }
        self.book(switch.at_ns.saturating_sub(since_ns), from);
        self.switches += 1;
        self.since = Some((switch.at_ns.max(since_ns), switch.to));
    }

    /// Records were lost after the last one that was taken: any thread may have had the CPU since then.
    fn lose(&mut self, count: u64) {
        self.records_lost += count;
        if self.doubt_from_ns.is_none() {
            self.doubt_from_ns = self.last.map(|last| last.at_ns);
        }
    }

    fn close(&mut self, now_ns: u64) -> Option<Books> {
        let (since_ns, running) = self.since?;
        self.book(now_ns.saturating_sub(since_ns), running);
        let at_ns = now_ns.max(since_ns);
        if let Some(from_ns) = &mut self.doubt_from_ns {
            self.unsure_ns += at_ns.saturating_sub(*from_ns);
            *from_ns = at_ns;
        }
        self.since = Some((at_ns, running));
        let most = std::mem::take(&mut self.threads).into_iter().max_by_key(|(_, ns)| *ns);
        let mut lost = [0; LOST.len()];
        for (name, count) in
            [(SWITCHES_UNSEEN, self.unseen), (UNSURE_NS, self.unsure_ns), (RECORDS_LOST, self.records_lost)]
        {
            lost[LOST.iter().position(|l| *l == name).expect("LOST names them all")] = count;
        }
        Some(Books {
            at_ns,
            busy_ns: self.busy_ns,
            idle_ns: self.idle_ns,
            switches: self.switches,
            interrupts: None,
            wait_ns: None,
            member_ns: 0,
            member_interrupted_ns: 0,
            lost,
            top: most.map(|(thread, ns)| Top { pid: thread.pid, tid: thread.tid, comm: name_of(thread), ns }),
        })
    }

    fn book(&mut self, ns: u64, thread: Thread) {
        if thread.is_idle() {
            self.idle_ns += ns;
        } else {
            self.busy_ns += ns;
            if thread != GONE {
                *self.threads.entry(thread).or_default() += ns;
            }
        }
    }
}

/// Current name of the thread; `(ended)` if it is gone.
fn name_of(thread: Thread) -> String {
    let name = fs::read_to_string(format!("/proc/{}/task/{}/comm", thread.pid, thread.tid));
    name.map_or_else(|_| "(ended)".to_owned(), |n| n.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::Side::{Off, On};
    use super::*;

    const IDLE: Thread = Thread { pid: 0, tid: 0 };
    const ONE: Thread = Thread { pid: 1, tid: 11 };
    const TWO: Thread = Thread { pid: 1, tid: 12 };

    fn books(switches: &[(u64, Thread, Thread, Side)], closed_ns: u64) -> Books {
        let mut account = Account::default();
        for (at_ns, from, to, side) in switches {
            account.take(&Switch { at_ns: *at_ns, from: *from, to: *to, side: *side });
        }
        account.close(closed_ns).unwrap()
    }

    #[test]
    fn each_stretch_is_booked_to_who_had_the_cpu() {
        let books = books(&[(100, IDLE, ONE, Off), (400, ONE, TWO, Off), (500, TWO, IDLE, Off)], 1_000);
        assert_eq!((books.busy_ns, books.idle_ns, books.switches, books.at_ns), (400, 500, 2, 1_000));
        let top = books.top.unwrap();
        assert_eq!((top.tid, top.ns), (11, 300));
        assert_eq!(books.lost, [0; LOST.len()]);
    }

    #[test]
    fn a_thread_that_is_no_more_has_a_word_for_a_name() {
        assert_eq!(name_of(Thread { pid: u32::MAX, tid: u32::MAX }), "(ended)");
    }

    #[test]
    fn a_switch_that_is_told_from_both_sides_counts_once() {
        let twice = [
            (100, IDLE, ONE, Off),
            (101, IDLE, ONE, On),
            (400, ONE, TWO, Off),
            (401, ONE, TWO, On),
            (600, TWO, ONE, Off),
        ];
        let books = books(&twice, 600);
        assert_eq!((books.busy_ns, books.switches, books.lost[0]), (500, 2, 0));
    }

    #[test]
    fn a_switch_that_is_told_from_one_side_only_counts_too() {
        // After idle, the record of the idle task's side is lost.
        let books = books(&[(100, ONE, IDLE, On), (500, IDLE, TWO, On), (700, TWO, IDLE, Off)], 1_000);
        assert_eq!((books.busy_ns, books.idle_ns, books.lost[0]), (200, 700, 0));
    }

    #[test]
    fn a_switch_that_is_not_told_at_all_shows_and_bounds_the_doubt() {
        let books = books(&[(100, ONE, IDLE, Off), (700, TWO, IDLE, Off)], 1_000);
        assert_eq!(books.lost[0], 1);
        assert_eq!(books.lost[1], 600);
        assert_eq!(books.busy_ns + books.idle_ns, 900);
    }

    #[test]
    fn after_records_were_lost_the_whole_stretch_is_in_doubt() {
        let mut account = Account::default();
        account.take(&Switch { at_ns: 100, from: IDLE, to: ONE, side: Off });
        account.lose(5_000);
        account.take(&Switch { at_ns: 900, from: ONE, to: TWO, side: Off });
        let books = account.close(1_000).unwrap();
        assert_eq!((books.lost[1], books.lost[7]), (800, 5_000));
        // What came after the last switch that was told may be lost too.
        account.lose(7);
        assert_eq!(account.close(1_500).unwrap().lost[1], 800 + 600);
        assert_eq!(account.close(1_700).unwrap().lost[1], 800 + 800);
        account.take(&Switch { at_ns: 1_750, from: TWO, to: IDLE, side: Off });
        assert_eq!(account.close(2_000).unwrap().lost[1], 800 + 850);
    }

    #[test]
    fn a_thread_that_exits_is_the_one_that_came_on() {
        let other = Thread { pid: 1, tid: 13 };
        let told =
            [(100, IDLE, ONE, Off), (400, GONE, TWO, Off), (450, GONE, other, Off), (600, other, IDLE, Off)];
        let books = books(&told, 600);
        assert_eq!((books.lost[0], books.busy_ns, books.idle_ns), (0, 500, 0));
        let top = books.top.unwrap();
        assert_eq!((top.tid, top.ns), (ONE.tid, 300));
    }

    #[test]
    fn a_cpu_that_never_switched_has_no_books_and_one_that_stopped_switching_has() {
        assert_eq!(Account::default().close(1_000), None);
        assert_eq!(books(&[(100, IDLE, ONE, Off)], 5_000).busy_ns, 4_900);
    }

    #[test]
    fn records_read_as_the_kernel_writes_them() {
        let body: Vec<u8> =
            [1_u32, 12, 1, 11].iter().flat_map(|w| w.to_ne_bytes()).chain(77_u64.to_ne_bytes()).collect();
        let out = read_record(15, 1 << 13, &body).unwrap();
        assert_eq!(out, Event::Switch(Switch { at_ns: 77, from: ONE, to: TWO, side: Off }));
        let into = read_record(15, 0, &body).unwrap();
        assert_eq!(into, Event::Switch(Switch { at_ns: 77, from: TWO, to: ONE, side: On }));
        let lost: Vec<u8> = [9_u64, 23].iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(read_record(2, 0, &lost), Some(Event::Lost(23)));
        assert_eq!(read_record(15, 0, &body[..20]), None);
        assert_eq!(read_record(1, 0, &body), None);
    }
}
