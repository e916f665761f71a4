//! The state of this moment: queue, running bake-offs and loads, and their intervals.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::sync::{Arc, Mutex};

use archive::{Archive, Entry, Queue, QueueState, Standing};
use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunState};
use serde_json::{Value, json};

use crate::instruments::{Instruments, Seen};
use crate::view::{self, Expected};

/// Intervals of a run that are shown.
const INTERVALS_MAX: usize = 120;
/// Notes of a run that are shown.
const NOTES_MAX: usize = 10;
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
/// Trials of an order in a document; those of a longer one are counted only.
const ORDER_MAX: usize = 600;
/// Age of an interval, besides three of its lengths, up to which it is shown.
const STALE_AFTER_S: f64 = 2.0;
/// Age of an interval, besides one of its lengths, from which its age is shown with it.
const OF_NOW_S: f64 = 1.0;

/// State of a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    pub(crate) at_unix_ns: u64,
    /// Open entries, and the last ones that ended.
    pub(crate) entries: Vec<Entry>,
    /// Expected start and end of each entry.
    pub(crate) expected: Vec<Expected>,
    /// Number of entries in each state that has any, those that are not listed included.
    pub(crate) counts: BTreeMap<QueueState, u32>,
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
    /// Last intervals of its load, oldest first; null between two trials.
    pub(crate) intervals: Vec<Value>,
    /// Last notes, oldest first.
    pub(crate) notes: Vec<String>,
    /// Current step of the series or phase of the load.
    pub(crate) step: String,
    /// End of the log of the server under test.
    pub(crate) log: Option<String>,
    pub(crate) expected_end_unix_ns: Option<u64>,
    /// The present interval; `None` between trials, or if the last one is old.
    pub(crate) interval: Option<Value>,
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
    followed: Mutex<HashMap<RunId, Followed>>,
    ended: Mutex<Ended>,
}

/// Runs that ended while they were watched.
#[derive(Debug, Default)]
struct Ended {
    /// Runs without a stored result yet, each with the time up to which one may come.
    pending: Vec<(RunId, u64)>,
    results: VecDeque<RunHeader>,
}

/// Facts read about a run so far.
#[derive(Debug, Default)]
struct Followed {
    /// Position in its live file.
    at: u64,
    intervals: Vec<Value>,
    notes: Vec<String>,
    step: String,
    /// Length of a load, and the time at which its first phase began.
    lasts_s: Option<f64>,
    began_unix_ns: Option<u64>,
    /// State of the run, and the length of the journal from which it was read.
    standing: Option<(u64, bool, Arc<Standing>)>,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Monitor {
    pub(crate) fn new(
        archive: Archive,
        queue: Option<Arc<Mutex<Queue>>>,
        instruments: Arc<Instruments>,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self { archive, queue, instruments, trouble, followed: Mutex::default(), ended: Mutex::default() }
    }

    /// Reads the state of this moment.
    pub(crate) fn look(&self) -> Now {
        let at_unix_ns = WallAnchor::now().unix_ns;
        let mut trouble = self.trouble.lock().expect(LOCK).clone();
        let read = match self.queue.as_ref().map(|queue| listed(&queue.lock().expect(LOCK))) {
            None => Err(READ_ONLY.to_owned()),
            Some(Ok(read)) => Ok(read),
            Some(Err(why)) => {
                trouble.get_or_insert(why.to_string());
                Err(why.to_string())
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
            now_unix_ns < *until || self.archive.measured_now(*id).is_some() || self.archive.is_held(*id)
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
            (self.archive.measured_now(id)?, None)
        };
        followed.read(&self.archive, id);
        let expected_end_unix_ns = match &standing {
            Some(standing) => standing.expected_end_unix_ns(now_unix_ns),
            None => followed.expected_end_unix_ns(now_unix_ns),
        };
        Some(Running {
            log: standing.as_ref().and_then(|standing| self.archive.server_log(standing)),
            header,
            standing,
            interval: followed.present(now_unix_ns).map(|(interval, _)| interval.clone()),
            age_s: followed.present(now_unix_ns).and_then(|(_, age_s)| age_s),
            intervals: followed.intervals.clone(),
            notes: followed.notes.clone(),
            step: followed.step.clone(),
            expected_end_unix_ns,
        })
    }

    /// State of a bake-off; `None` if no process conducts it.
    fn standing(&self, id: RunId, followed: &mut Followed, journal: u64) -> Option<Arc<Standing>> {
        let is_held = self.archive.is_held(id);
        let known =
            followed.standing.as_ref().filter(|(bytes, held, _)| (*bytes, *held) == (journal, is_held));
        let standing = if let Some((.., standing)) = known {
            standing.clone()
        } else {
            let standing = Arc::new(self.archive.standing(id).ok()?);
            followed.standing = Some((journal, is_held, standing.clone()));
            standing
        };
        standing.is_held.then_some(standing)
    }
}

type Listed = (Vec<Entry>, BTreeMap<QueueState, u32>);

fn listed(queue: &Queue) -> Result<Listed, archive::QueueError> {
    Ok((queue.entries(ENDED_MAX)?, queue.counts()?))
}

impl Followed {
    fn read(&mut self, archive: &Archive, id: RunId) {
        let (lines, at) = archive.live_lines(id, self.at);
        self.at = at;
        for line in lines {
            self.take(line);
        }
    }

    fn take(&mut self, line: Value) {
        if let Some(note) = line["note"].as_str() {
            self.notes.push(note.to_owned());
        } else if line["achieved_per_s"].is_number() {
            self.intervals.push(line);
        } else if let Some(phase) = line["phase"].as_str() {
            phase.clone_into(&mut self.step);
            self.began_unix_ns = self.began_unix_ns.or(line["at_unix_ns"].as_u64());
        } else if let Some(step) = line["step"].as_str() {
            self.step = format!("series {}: {step}", line["series"]);
            self.gap();
        } else if let Some(doing) = line["doing"].as_str() {
            doing.clone_into(&mut self.step);
            self.gap();
        } else if line["trial"].is_number() {
            self.gap();
        } else if let Some(lasts_s) = line["lasts_s"].as_f64() {
            self.lasts_s = Some(lasts_s);
        }
        let surplus = self.intervals.len().saturating_sub(INTERVALS_MAX);
        self.intervals.drain(..surplus);
        let surplus = self.notes.len().saturating_sub(NOTES_MAX);
        self.notes.drain(..surplus);
    }

    /// Ends a trial's intervals: those of the next one are of another configuration.
    fn gap(&mut self) {
        if self.intervals.last().is_some_and(|last| !last.is_null()) {
            self.intervals.push(Value::Null);
        }
    }

    /// The interval of this moment, and its age if the next one is overdue. An old one says nothing about
    /// this moment: between trials, or if the process hangs.
    fn present(&self, now_unix_ns: u64) -> Option<(&Value, Option<u64>)> {
        let last = self.intervals.last()?;
        let age_ns = now_unix_ns.saturating_sub(last["at_unix_ns"].as_u64()?);
        let (age_s, length_s) = (age_ns as f64 / 1e9, last["interval_s"].as_f64().unwrap_or(0.0));
        let shown = (age_s > length_s + OF_NOW_S).then_some(age_ns / 1_000_000_000);
        (age_s <= 3.0 * length_s + STALE_AFTER_S).then_some((last, shown))
    }

    /// Time at which a load ends according to its options; `None` if it takes longer.
    fn expected_end_unix_ns(&self, now_unix_ns: u64) -> Option<u64> {
        let lasts = std::time::Duration::try_from_secs_f64(self.lasts_s?).ok()?;
        let end = self.began_unix_ns?.checked_add(u64::try_from(lasts.as_nanos()).ok()?)?;
        (end >= now_unix_ns).then_some(end)
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
    pub(crate) fn document(&self, may_run: bool) -> Value {
        let mut document = json!({
            "schema": "bakeoff.now/1",
            "at": view::rfc3339(self.at_unix_ns),
            "running": self.running.iter().map(Running::document).collect::<Vec<_>>(),
            "ended": self.ended.iter().map(report::json::listed).collect::<Vec<_>>(),
            "instruments": self.machine.document(),
            "machine_held_by": self.holder,
            "trouble": self.trouble,
        });
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

    /// Reason to call a load behind: it does less than is offered, and its backlog grows. `None` if the last
    /// intervals do not show that.
    pub(crate) fn behind(&self) -> Option<String> {
        self.interval.as_ref()?;
        let begin = self.intervals.iter().rposition(Value::is_null).map_or(0, |gap| gap + 1);
        let last = self.intervals[begin..].last_chunk::<BEHIND_INTERVALS>()?;
        let number = |interval: &Value, name: &str| interval[name].as_f64();
        let sum = |name: &str| last.iter().map(|interval| number(interval, name)).sum::<Option<f64>>();
        let (offered, done) = (sum("offered_per_s")?, sum("achieved_per_s")?);
        let grows = |pair: &[Value]| Some(number(&pair[1], "backlog")? > number(&pair[0], "backlog")?);
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

    fn document(&self) -> Value {
        let mut document = json!({
            "run": self.header.id.to_string(),
            "kind": self.header.kind.word(),
            "title": self.header.title,
            "state": self.header.state.word(),
            "started": view::rfc3339(self.header.anchor.unix_ns),
            "expected_end": self.expected_end_unix_ns.map(view::rfc3339),
            "step": self.step,
            "notes": self.notes,
            "interval": self.interval,
            "age_s": self.age_s,
            "behind": self.behind(),
        });
        if let Some(standing) = &self.standing {
            view::add_trials(&mut document, standing, ORDER_MAX);
        }
        if let Some(why) = self.no_interval() {
            document["missing"]["interval"] = json!(why);
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(n: u64, at_unix_ns: u64) -> Value {
        json!({"phase": "measure", "achieved_per_s": n, "interval_s": 1.0, "at_unix_ns": at_unix_ns})
    }

    #[test]
    fn a_viewer_holds_the_last_intervals_only() {
        let mut followed = Followed::default();
        for n in 0..500 {
            followed.take(interval(n, n));
            followed.take(json!({"note": n.to_string()}));
        }
        assert_eq!((followed.intervals.len(), followed.notes.len()), (INTERVALS_MAX, NOTES_MAX));
        assert_eq!(followed.intervals.last().unwrap()["achieved_per_s"], 499);
        followed.take(json!({"phase": "measure"}));
        assert_eq!(followed.step, "measure");
        followed.take(json!({"doing": "block 2: 4 series in turns of 300 ms"}));
        assert_eq!(followed.step, "block 2: 4 series in turns of 300 ms");
    }

    #[test]
    fn the_last_interval_of_a_trial_is_not_the_present_of_the_next() {
        let mut followed = Followed::default();
        followed.take(interval(7, 1_000_000_000));
        let present = |followed: &Followed, now_s: u64| followed.present(now_s * 1_000_000_000).is_some();
        assert!(present(&followed, 2), "it ended a second ago");
        let age = |now_s: u64| followed.present(now_s * 1_000_000_000).unwrap().1;
        assert_eq!([2, 3, 4, 6].map(age), [None, None, Some(3), Some(5)], "one of 1 s, of the time 1");
        assert!(!present(&followed, 9), "the process hangs, or the server is being stopped");
        followed.take(json!({"series": 2, "block": 1, "step": "setup"}));
        assert!(!present(&followed, 2), "the next server is being set up");
        followed.take(json!({"trial": 1, "levels": {}}));
        assert_eq!(followed.intervals.iter().filter(|line| line.is_null()).count(), 1, "one gap is enough");
    }

    #[test]
    fn a_load_that_takes_longer_has_no_expected_end_in_the_past() {
        let mut followed = Followed::default();
        followed.take(json!({"lasts_s": 2.0}));
        followed.take(json!({"phase": "measure", "at_unix_ns": 1_000_000_000}));
        let end = |now_s: u64| followed.expected_end_unix_ns(now_s * 1_000_000_000);
        assert_eq!([2, 3, 4].map(end), [Some(3_000_000_000), Some(3_000_000_000), None]);
    }

    #[test]
    fn a_load_that_does_less_than_is_offered_is_behind() {
        let anchor = WallAnchor::now();
        let running = |intervals: Vec<Value>| Running {
            header: RunHeader::running(record::run::RunKind::Load, anchor, String::new(), String::new()),
            standing: None,
            interval: intervals.last().cloned(),
            age_s: None,
            intervals,
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
