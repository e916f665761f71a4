//! The state of this moment: queue, running bake-offs and loads, and their intervals.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::sync::{Arc, Mutex};

use archive::{Archive, Entry, Queue, QueueError, QueueState, QueueVersion, Standing};
use record::clock::WallAnchor;
use record::histogram::Bound;
use record::run::{RunHeader, RunId, RunState};
use serde_json::{Value, json};

use crate::followed::{Followed, Point};
use crate::instruments::{Instruments, Seen};
use crate::reasons::{self, UNLISTED};
use crate::view::{self, Expected};

/// Entries that ended and are shown.
pub(crate) const ENDED_MAX: u32 = 100;
/// Intervals of a load that is behind: its backlog grows in all of them, and it does less than this part of
/// what is offered.
const BEHIND_INTERVALS: usize = 3;
const BEHIND_RATIO: f64 = 0.9;
/// Time in which the process of a run that has ended begins to store it.
const STORED_WITHIN_NS: u64 = 10_000_000_000;
/// Results of runs that have ended and are shown.
const RESULTS_MAX: usize = 5;
/// Reason that a bake-off in slices has no interval.
const IN_TURNS: &str = "not shown in slices: the loads of a block take turns";
/// Reason that a server without a queue lists none.
const READ_ONLY: &str = "not shown: this server is read-only";
/// Reason that readers do not get the log of a server.
const LOG_WITHHELD: &str = "shown to the role `run` only";
/// Trials of an order in a document; those of a longer one are counted only.
const ORDER_MAX: usize = 600;

/// Extent of a document of the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    /// The present alone: a stream has sent what came before.
    Present,
    /// The intervals before it, too, and the log of the server under test.
    Past,
}

/// State of a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    pub(crate) at_unix_ns: u64,
    /// Open entries, and the last ones that ended.
    pub(crate) entries: Arc<Vec<Entry>>,
    /// Expected start and end of each entry.
    pub(crate) expected: Vec<Expected>,
    /// Number of entries in each state that has any, those that are not listed included.
    pub(crate) counts: Arc<BTreeMap<QueueState, u32>>,
    pub(crate) running: Vec<Running>,
    /// Latest intervals of the machine's instruments.
    pub(crate) machine: Seen,
    /// Process that measures on this machine.
    pub(crate) holder: Option<String>,
    /// Error that keeps the queue from going on.
    pub(crate) trouble: Option<String>,
    /// Reason that the entries are not known.
    pub(crate) unlisted: Option<String>,
    /// Runs that ended last while this server watched them, newest first.
    pub(crate) ended: Vec<RunHeader>,
}

/// A bake-off or a load that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) header: RunHeader,
    /// Trials of a bake-off; `None` for a load.
    pub(crate) standing: Option<Arc<Standing>>,
    /// Last intervals of its load, oldest first; `None` between two trials.
    pub(crate) points: Vec<Option<Point>>,
    /// Last notes, oldest first.
    pub(crate) notes: Vec<String>,
    /// Current step of the series or phase of the load.
    pub(crate) step: String,
    /// End of the log of the server under test.
    pub(crate) log: Option<Arc<str>>,
    pub(crate) expected_end_unix_ns: Option<u64>,
    /// The present interval; `None` between trials, or if the last one is old.
    pub(crate) interval: Option<Arc<Value>>,
    /// Age of that interval, if the next one is overdue.
    pub(crate) age_s: Option<u64>,
}

/// Reads the state of a moment; remembers what it has read of each run.
#[derive(Debug)]
pub(crate) struct Monitor {
    archive: Archive,
    queue: Option<Arc<Mutex<Queue>>>,
    instruments: Arc<Instruments>,
    trouble: Arc<Mutex<Option<String>>>,
    /// Entries, and the state of the queue that had them.
    listed: Mutex<Option<(QueueVersion, Listed)>>,
    followed: Mutex<HashMap<RunId, Followed>>,
    ended: Mutex<Ended>,
}

/// Entries of a queue, and the number of entries in each state.
type Listed = (Arc<Vec<Entry>>, Arc<BTreeMap<QueueState, u32>>);

/// Runs that ended while they were watched.
#[derive(Debug, Default)]
struct Ended {
    /// Runs without a stored result yet, each with the time up to which one may come.
    pending: Vec<(RunId, u64)>,
    results: VecDeque<RunHeader>,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Monitor {
    pub(crate) fn new(
        archive: Archive,
        queue: Option<Arc<Mutex<Queue>>>,
        instruments: Arc<Instruments>,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Self {
        let (listed, followed, ended) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { archive, queue, instruments, trouble, listed, followed, ended }
    }

    /// Reads the state of this moment. What has not changed since the last look is not read again.
    pub(crate) fn look(&self) -> Now {
        let at_unix_ns = WallAnchor::now().unix_ns;
        let mut trouble = self.trouble.lock().expect(LOCK).clone();
        let read = match self.queue.as_ref().map(|queue| self.listed(&queue.lock().expect(LOCK))) {
            None => Err(READ_ONLY.to_owned()),
            Some(Ok(read)) => Ok(read),
            Some(Err(why)) => {
                trouble.get_or_insert(why.to_string());
                Err(UNLISTED.to_owned())
            }
        };
        let unlisted = read.as_ref().err().cloned();
        let (entries, counts) = read.unwrap_or_default();
        let mut ids = self.archive.live_runs();
        ids.extend(entries.iter().filter(|e| e.state == QueueState::Running).filter_map(|e| e.run));
        ids.sort_unstable();
        ids.dedup();
        let mut followed = self.followed.lock().expect(LOCK);
        let mut running = Vec::new();
        for id in &ids {
            running.extend(self.running(*id, followed.entry(*id).or_default(), at_unix_ns));
        }
        let gone: Vec<RunId> = followed.keys().filter(|id| !ids.contains(id)).copied().collect();
        followed.retain(|id, _| ids.contains(id));
        drop(followed);
        let ended = self.ended(&gone, at_unix_ns);
        // One that is being stopped does not run to its end.
        let wished = |id: RunId| entries.iter().any(|entry| entry.run == Some(id) && entry.wish.is_some());
        for run in running.iter_mut().filter(|run: &&mut Running| wished(run.header.id)) {
            run.expected_end_unix_ns = None;
        }
        let ends = running.iter().map(|r: &Running| (r.header.id, r.expected_end_unix_ns));
        // A queue that has stopped starts nothing.
        let expected = if trouble.is_some() {
            vec![Expected::default(); entries.len()]
        } else {
            view::expected(&entries, &ends.collect(), at_unix_ns)
        };
        Now {
            at_unix_ns,
            expected,
            entries,
            counts,
            running,
            machine: self.instruments.seen(),
            holder: runner::holder_of_machine(),
            trouble,
            unlisted,
            ended,
        }
    }

    fn listed(&self, queue: &Queue) -> Result<Listed, QueueError> {
        // The version first: the next look finds a change in between.
        let version = queue.version()?;
        let mut known = self.listed.lock().expect(LOCK);
        if let Some((_, listed)) = known.as_ref().filter(|(of, _)| *of == version) {
            return Ok(listed.clone());
        }
        let listed = (Arc::new(queue.entries(ENDED_MAX)?), Arc::new(queue.counts()?));
        *known = Some((version, listed.clone()));
        Ok(listed)
    }

    /// Results of the runs that ended last. One is stored a while after its last interval, if at all.
    fn ended(&self, gone: &[RunId], now_unix_ns: u64) -> Vec<RunHeader> {
        let mut ended = self.ended.lock().expect(LOCK);
        let Ended { pending, results } = &mut *ended;
        pending.extend(gone.iter().map(|id| (*id, now_unix_ns.saturating_add(STORED_WITHIN_NS))));
        pending.retain(|(id, until)| {
            let stored = self.archive.header(*id).ok().filter(|header| header.state != RunState::Running);
            if let Some(header) = stored {
                results.retain(|known| known.id != header.id);
                results.push_front(header);
                return false;
            }
            now_unix_ns < *until || self.archive.is_measured_now(*id) || self.archive.is_held(*id)
        });
        results.truncate(RESULTS_MAX);
        results.iter().cloned().collect()
    }

    /// State of a run; `None` if no process conducts it.
    fn running(&self, id: RunId, followed: &mut Followed, now_unix_ns: u64) -> Option<Running> {
        let journal =
            fs::metadata(self.archive.bakeoff_dir(id).join("events.jsonl")).map(|found| found.len());
        let (header, standing) = if let Ok(bytes) = journal {
            let standing = self.standing(id, followed, bytes)?;
            (standing.header.clone(), Some(standing))
        } else {
            (self.header(id, followed)?, None)
        };
        followed.read(&self.archive, id);
        followed.log =
            standing.as_ref().and_then(|standing| self.archive.server_log(standing, followed.log.as_ref()));
        let told = &followed.told;
        let expected_end_unix_ns = match &standing {
            Some(standing) => standing.expected_end_unix_ns(now_unix_ns),
            None => told.expected_end_unix_ns(now_unix_ns),
        };
        let present = told.present(now_unix_ns);
        Some(Running {
            log: followed.log.as_ref().map(|log| log.text.clone()),
            header,
            standing,
            interval: present.map(|(interval, _)| interval.clone()),
            age_s: present.and_then(|(_, age_s)| age_s),
            points: told.points.clone(),
            notes: told.notes.clone(),
            step: told.step.clone(),
            expected_end_unix_ns,
        })
    }

    /// Header of a single run; `None` if no process measures it.
    fn header(&self, id: RunId, followed: &mut Followed) -> Option<RunHeader> {
        if followed.header.is_none() || !self.archive.is_measured_now(id) {
            followed.header = self.archive.measured_now(id);
        }
        followed.header.clone()
    }

    /// State of a bake-off; `None` if no process conducts it.
    fn standing(&self, id: RunId, followed: &mut Followed, journal: u64) -> Option<Arc<Standing>> {
        let is_held = self.archive.is_held(id);
        let known =
            followed.standing.as_ref().filter(|(bytes, held, _)| (*bytes, *held) == (journal, is_held));
        let standing = if let Some((.., standing)) = known {
            standing.clone()
        } else {
            let standing = Arc::new(self.archive.standing_after(id, &mut followed.journal).ok()?);
            followed.standing = Some((journal, is_held, standing.clone()));
            standing
        };
        standing.is_held.then_some(standing)
    }
}

impl Now {
    /// Expected start and end of an entry.
    pub(crate) fn expected_of(&self, id: RunId) -> Expected {
        let place = self.entries.iter().position(|entry| entry.id == id);
        place.map_or_else(Expected::default, |place| self.expected[place])
    }

    /// Number of entries that ended long ago and are not listed.
    pub(crate) fn not_listed(&self) -> u64 {
        self.counts.values().map(|n| u64::from(*n)).sum::<u64>().saturating_sub(self.entries.len() as u64)
    }

    /// Document of the moment.
    ///
    /// - `may_run`: whether it is for a client that may run plans.
    pub(crate) fn document(&self, may_run: bool, with: With) -> Value {
        let mut document = json!({
            "schema": "bakeoff.now/1",
            "at": view::rfc3339(self.at_unix_ns),
            "running": self.running.iter().map(|running| running.document(may_run, with)).collect::<Vec<_>>(),
            "ended": self.ended.iter().map(report::json::listed).collect::<Vec<_>>(),
            "instruments": self.machine.document(),
            "machine_held_by": self.holder,
            "trouble": reasons::of_trouble(self.trouble.as_deref(), may_run),
        });
        if let (With::Past, Some(recent)) = (with, self.machine.recent()) {
            document["instruments"]["cpus_recent"] = recent;
        }
        self.add_entries(&mut document, may_run);
        document
    }

    /// Adds the entries to a document: null if they are not known, with the reason.
    pub(crate) fn add_entries(&self, document: &mut Value, may_run: bool) {
        let entries = self.entries.iter().zip(&self.expected);
        let entries = entries.map(|(entry, at)| view::entry(entry, *at, may_run));
        if let Some(why) = &self.unlisted {
            (document["entries"], document["not_listed"]) = (Value::Null, Value::Null);
            document["missing"] = json!({"entries": why, "not_listed": why});
        } else {
            document["entries"] = entries.collect();
            document["not_listed"] = json!(self.not_listed());
        }
    }
}

impl Running {
    /// Reason that a bake-off in slices has no interval while trials are open; `None` for others.
    pub(crate) fn no_interval(&self) -> Option<&'static str> {
        let is_open = |standing: &Arc<Standing>| standing.trials.iter().any(|told| told.is_current);
        self.standing.as_ref().filter(|standing| standing.is_in_slices && is_open(standing)).map(|_| IN_TURNS)
    }

    /// Whether a page shows both the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { header, standing, points, notes, step, log, expected_end_unix_ns, interval, age_s } = self;
        // A bake-off that has not changed is the same value; the comparison of its trials would take long.
        standing.as_ref().map(Arc::as_ptr) == other.standing.as_ref().map(Arc::as_ptr)
            && *header == other.header
            && *points == other.points
            && *notes == other.notes
            && *step == other.step
            && *log == other.log
            && *expected_end_unix_ns == other.expected_end_unix_ns
            && *interval == other.interval
            && *age_s == other.age_s
    }

    /// Reason to call a load behind: it does less than is offered, and its backlog grows. `None` if the last
    /// intervals do not show that.
    pub(crate) fn behind(&self) -> Option<String> {
        self.interval.as_ref()?;
        let last = *self.points.last_chunk::<BEHIND_INTERVALS>()?;
        // None of them is a gap.
        let last = last.into_iter().collect::<Option<Vec<Point>>>()?;
        let offered = last.iter().map(|point| point.offered_per_s).sum::<Option<f64>>()?;
        let done = last.iter().map(|point| point.done_per_s).sum::<Option<f64>>()?;
        let grows = |pair: &[Point]| Some(pair[1].backlog? > pair[0].backlog?);
        let is_behind =
            done < BEHIND_RATIO * offered && last.windows(2).all(|pair| grows(pair) == Some(true));
        let each = BEHIND_INTERVALS as f64;
        is_behind.then(|| {
            format!(
                "done {:.1}/s of {:.1}/s offered in the last {BEHIND_INTERVALS} intervals; the backlog grows",
                done / each,
                offered / each
            )
        })
    }

    fn document(&self, may_run: bool, with: With) -> Value {
        let mut document = json!({
            "run": self.header.id.to_string(),
            "kind": self.header.kind.word(),
            "title": self.header.title,
            "state": self.header.state.word(),
            "started": view::rfc3339(self.header.anchor.unix_ns),
            "expected_end": self.expected_end_unix_ns.map(view::rfc3339),
            "step": self.step,
            "notes": self.notes,
            "interval": self.interval.as_deref(),
            "age_s": self.age_s,
            "behind": self.behind(),
        });
        if let Some(standing) = &self.standing {
            view::add_trials(&mut document, standing, ORDER_MAX);
        }
        if let Some(why) = self.no_interval() {
            document["missing"]["interval"] = json!(why);
        }
        if with == With::Past {
            document["recent"] = recent(&self.points);
            document["log"] = json!(self.log.as_deref().filter(|_| may_run));
            if document["log"].is_null() {
                let why = if may_run { "no server of this run has a log now" } else { LOG_WITHHELD };
                document["missing"]["log"] = json!(why);
            }
        }
        document
    }
}

/// Intervals as columns, oldest first. In a gap between two trials each column has null.
fn recent(points: &[Option<Point>]) -> Value {
    let column = |of: fn(&Point) -> Option<f64>| -> Vec<Option<f64>> {
        points.iter().map(|point| point.as_ref().and_then(of)).collect()
    };
    let bound = |point: &Option<Point>| match point.as_ref()?.bound_of_p99 {
        Bound::Exact => None,
        Bound::Lower => Some("lower"),
        Bound::Upper => Some("upper"),
        Bound::Neither => Some("neither"),
    };
    json!({
        "offered_per_s": column(|point| point.offered_per_s),
        "done_per_s": column(|point| point.done_per_s),
        "latency_p99_ns": column(|point| point.p99_ns),
        "latency_p99_bound": points.iter().map(bound).collect::<Vec<_>>(),
        "lateness_p99_ns": column(|point| point.lateness_p99_ns),
        "backlog": column(|point| point.backlog),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_does_less_than_is_offered_is_behind() {
        let anchor = WallAnchor::now();
        let running = |intervals: Vec<Value>| Running {
            header: RunHeader::running(record::run::RunKind::Load, anchor, String::new(), String::new()),
            standing: None,
            interval: intervals.last().cloned().map(Arc::new),
            age_s: None,
            points: intervals.iter().map(Point::of).collect(),
            notes: Vec::new(),
            step: String::new(),
            log: None,
            expected_end_unix_ns: None,
        };
        let at = |offered: Value, done: f64, backlog: u64| json!({"offered_per_s": offered, "achieved_per_s": done, "backlog": backlog});
        let slow = |backlog| at(json!(20.0), 5.0, backlog);
        let behind = running(vec![slow(15), slow(30), slow(45)]).behind().unwrap();
        assert!(behind.starts_with("done 5.0/s of 20.0/s offered"), "{behind}");
        let not = |intervals| assert_eq!(running(intervals).behind(), None);
        not(vec![slow(15), slow(30)]);
        not(vec![slow(15), slow(30), slow(30)]);
        not(vec![slow(15), Value::Null, slow(30), slow(45)]);
        not((1..4).map(|n| at(json!(20.0), 19.0, n)).collect());
        not((1..4).map(|n| at(Value::Null, 5.0, n)).collect());
        not(vec![slow(15), slow(30), slow(45), Value::Null]);
    }

    #[test]
    fn a_live_file_of_a_dead_process_is_not_shown_as_running() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let anchor = WallAnchor::now();
        let header = |title: &str| {
            RunHeader::running(record::run::RunKind::Load, anchor, title.to_owned(), String::new())
        };
        let (dead, living) = (header("dead"), header("living"));
        let _left = (archive.live(dead.id), archive.live(living.id));
        let writer = archive.begin(&living).unwrap();
        let monitor = Monitor::new(archive.clone(), None, Arc::default(), Arc::default());
        let titles = || monitor.look().running.into_iter().map(|r| r.header.title).collect::<Vec<_>>();
        assert_eq!(titles(), ["living"]);
        drop(writer);
        assert_eq!(titles(), Vec::<String>::new());
        Archive::open(folder.path()).unwrap();
        assert_eq!(archive.live_runs(), [], "the next process that opens the archive removes what is left");
    }
}
