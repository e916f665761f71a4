//! The state of this moment: queue, running bake-offs, and the intervals of their loads.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};

use archive::{Archive, Entry, Queue, Standing};
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::{Value, json};

use crate::view;

/// Intervals of a run that are shown.
const INTERVALS_MAX: usize = 120;

/// State of a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    pub(crate) at_unix_ns: u64,
    pub(crate) entries: Vec<Entry>,
    /// Expected start of each entry that waits.
    pub(crate) expected: Vec<Option<u64>>,
    pub(crate) running: Vec<Running>,
    /// Process that measures on this machine.
    pub(crate) holder: Option<String>,
    /// Error that keeps the queue from going on.
    pub(crate) trouble: Option<String>,
}

/// A bake-off that runs.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) standing: Arc<Standing>,
    /// Last intervals of its load, oldest first.
    pub(crate) intervals: Vec<Value>,
    /// Last notes, oldest first.
    pub(crate) notes: Vec<String>,
    /// Current step of the series or phase of the load.
    pub(crate) step: String,
    /// End of the log of the server under test.
    pub(crate) log: Option<String>,
}

/// Reads the state of a moment; remembers what it has read of each run.
#[derive(Debug)]
pub(crate) struct Monitor {
    archive: Archive,
    queue: Option<Arc<Mutex<Queue>>>,
    trouble: Arc<Mutex<Option<String>>>,
    followed: Mutex<HashMap<RunId, Followed>>,
}

/// Facts read about a run so far.
#[derive(Debug, Default)]
struct Followed {
    /// Position in its live file.
    at: u64,
    intervals: Vec<Value>,
    notes: Vec<String>,
    step: String,
    /// State of the run, and the length of the journal from which it was read.
    standing: Option<(u64, bool, Arc<Standing>)>,
}

const LOCK: &str = "no thread panics with this lock";

impl Monitor {
    pub(crate) fn new(
        archive: Archive,
        queue: Option<Arc<Mutex<Queue>>>,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self { archive, queue, trouble, followed: Mutex::default() }
    }

    /// Reads the state of this moment.
    pub(crate) fn look(&self) -> Now {
        let at_unix_ns = WallAnchor::now().unix_ns;
        let entries = self.queue.as_ref().and_then(|queue| queue.lock().expect(LOCK).entries().ok());
        let entries = entries.unwrap_or_default();
        let mut ids = self.archive.live_runs();
        ids.extend(entries.iter().filter(|e| e.state == archive::QueueState::Running).filter_map(|e| e.run));
        ids.sort_unstable();
        ids.dedup();
        let mut followed = self.followed.lock().expect(LOCK);
        followed.retain(|id, _| ids.contains(id));
        let mut running = Vec::new();
        for id in ids {
            let of_it = followed.entry(id).or_default();
            running.extend(self.running(id, of_it));
        }
        Now {
            at_unix_ns,
            expected: view::expected_starts(&entries, at_unix_ns),
            entries,
            running,
            holder: runner::holder_of_machine(),
            trouble: self.trouble.lock().expect(LOCK).clone(),
        }
    }

    /// State of a run; `None` if no process conducts it.
    fn running(&self, id: RunId, followed: &mut Followed) -> Option<Running> {
        let is_held = self.archive.is_held(id);
        let journal = fs::metadata(self.archive.bakeoff_dir(id).join("events.jsonl")).ok()?.len();
        let known =
            followed.standing.as_ref().filter(|(bytes, held, _)| (*bytes, *held) == (journal, is_held));
        let standing = if let Some((.., standing)) = known {
            standing.clone()
        } else {
            let standing = Arc::new(self.archive.standing(id).ok()?);
            followed.standing = Some((journal, is_held, standing.clone()));
            standing
        };
        if !standing.is_held {
            return None;
        }
        followed.read(&self.archive, id);
        Some(Running {
            log: self.archive.server_log(&standing),
            standing,
            intervals: followed.intervals.clone(),
            notes: followed.notes.clone(),
            step: followed.step.clone(),
        })
    }
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
        } else if let Some(step) = line["step"].as_str() {
            self.step = format!("series {}: {step}", line["series"]);
        }
        let surplus = self.intervals.len().saturating_sub(INTERVALS_MAX);
        self.intervals.drain(..surplus);
        let surplus = self.notes.len().saturating_sub(10);
        self.notes.drain(..surplus);
    }
}

impl Now {
    /// Document of the moment.
    pub(crate) fn document(&self) -> Value {
        let entries = self.entries.iter().zip(&self.expected).map(|(entry, at)| view::entry(entry, *at));
        let running = self.running.iter().map(|running| {
            let mut document = view::standing(&running.standing);
            document["step"] = json!(running.step);
            document["notes"] = json!(running.notes);
            document["interval"] = running.intervals.last().cloned().unwrap_or(Value::Null);
            document
        });
        json!({
            "schema": "bakeoff.now/1",
            "at": view::rfc3339(self.at_unix_ns),
            "entries": entries.collect::<Vec<_>>(),
            "running": running.collect::<Vec<_>>(),
            "machine_held_by": self.holder,
            "trouble": self.trouble,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_holds_the_last_intervals_only() {
        let mut followed = Followed::default();
        for n in 0..500 {
            followed.take(json!({"phase": "measure", "achieved_per_s": n, "t_s": n}));
            followed.take(json!({"note": n.to_string()}));
        }
        assert_eq!((followed.intervals.len(), followed.notes.len()), (INTERVALS_MAX, 10));
        assert_eq!(followed.intervals.last().unwrap()["achieved_per_s"], 499);
        followed.take(json!({"phase": "measure"}));
        assert_eq!(followed.step, "measure");
    }

    #[test]
    fn a_live_file_of_a_dead_process_is_not_shown_as_running() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let live = archive.live(id);
        let monitor = Monitor::new(archive, None, Arc::default());
        assert_eq!(monitor.look().running.len(), 0);
        drop(live);
    }
}
