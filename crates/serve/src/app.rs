//! State that all requests share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use archive::{Action, Archive, ArchiveError, Entry, Note, Queue, QueueError, Submission};
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::identity::{Access, Identity};
use crate::instruments::Instruments;
use crate::limits::{CHANGES, Limiter, REQUESTS, WRONG_TOKENS};
use crate::listing::{Listing, Snapshot};
use crate::monitor::Monitor;
use crate::printer::{Histories, HistoryWanted, PrintError, Printer};
use crate::render::Cache;
use crate::settings::Settings;
use crate::view;
use crate::view_now::Shown;
use crate::worker::Bell;

/// Viewers of the monitor at a time.
pub(crate) const VIEWERS_MAX: usize = 64;

/// Histories in memory.
const HISTORIES_MAX: usize = 8;

/// A history, with its selection and the list of runs that it was read for.
type Asked = (HistoryWanted, Arc<Snapshot>, Arc<Histories>);

/// State that all requests share.
pub(crate) struct App {
    pub(crate) archive: Archive,
    pub(crate) listing: Listing,
    pub(crate) queue: Option<Arc<Mutex<Queue>>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) access: Access,
    pub(crate) requests: Limiter,
    pub(crate) changes: Limiter,
    pub(crate) wrong_tokens: Limiter,
    pub(crate) monitor: Monitor,
    pub(crate) now: watch::Sender<Arc<Shown>>,
    /// One page is rendered at a time: a page must not take CPUs from a measurement.
    pub(crate) rendering: Arc<Semaphore>,
    pub(crate) viewers: Arc<Semaphore>,
    pub(crate) pages: Cache,
    pub(crate) printer: Arc<dyn Printer>,
    /// Histories that were asked for last.
    pub(crate) histories: Mutex<VecDeque<Asked>>,
    /// Hosts that a request may name; empty for any.
    pub(crate) hosts: Vec<String>,
    pub(crate) is_tls: bool,
}

/// Reason that a change was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The server is read-only.
    #[error("this server runs no plans: start it with --queue")]
    NoQueue,
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl App {
    pub(crate) fn new(
        settings: &Settings,
        queue: Option<Arc<Mutex<Queue>>>,
        access: Access,
        instruments: Arc<Instruments>,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Result<Self, ArchiveError> {
        let archive = settings.archive.clone();
        let monitor = Monitor::new(archive.clone(), queue.clone(), instruments, trouble);
        Ok(Self {
            listing: Listing::new(archive.clone())?,
            archive,
            queue,
            bell: Arc::default(),
            access,
            requests: Limiter::new(REQUESTS),
            changes: Limiter::new(CHANGES),
            wrong_tokens: Limiter::new(WRONG_TOKENS),
            monitor,
            now: watch::Sender::new(Arc::default()),
            rendering: Arc::new(Semaphore::new(1)),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            pages: Cache::new(settings.printer.clone()),
            printer: settings.printer.clone(),
            histories: Mutex::default(),
            hosts: Vec::new(),
            is_tls: false,
        })
    }

    pub(crate) fn queue(&self) -> Result<MutexGuard<'_, Queue>, ChangeError> {
        let queue = self.queue.as_ref().ok_or(ChangeError::NoQueue)?;
        Ok(queue.lock().expect("no thread panics while it holds this lock"))
    }

    /// Adds a plan to the queue. If it is there under its id, the answer to an earlier request was lost.
    pub(crate) fn submit(&self, new: &Submission, who: &Identity, from: &str) -> Result<Entry, ChangeError> {
        let mut queue = self.queue()?;
        if let Some(entry) = queue.submitted(new)? {
            return Ok(entry);
        }
        let terms = json!({
            "id": new.id.to_string(),
            "title": new.title,
            "plan_sha256": new.plan_sha256,
            "priority": new.priority,
            "by": new.by,
        });
        queue.audit(&audited("submit", &terms, who, from))?;
        let entry = queue.submit(new)?;
        drop(queue);
        self.changed();
        Ok(entry)
    }

    /// Pauses, continues or cancels an entry.
    pub(crate) fn act(
        &self,
        id: RunId,
        action: Action,
        who: &Identity,
        from: &str,
    ) -> Result<Entry, ChangeError> {
        let mut queue = self.queue()?;
        queue.audit(&audited(action.word(), &json!({"id": id.to_string()}), who, from))?;
        let entry = queue.act(id, action)?;
        drop(queue);
        self.changed();
        Ok(entry)
    }

    /// Changes the priority of an entry.
    pub(crate) fn prioritize(
        &self,
        id: RunId,
        to: i32,
        who: &Identity,
        from: &str,
    ) -> Result<Entry, ChangeError> {
        let mut queue = self.queue()?;
        queue.audit(&audited("prioritize", &json!({"id": id.to_string(), "priority": to}), who, from))?;
        let entry = queue.prioritize(id, to)?;
        drop(queue);
        self.changed();
        Ok(entry)
    }

    /// Removes a run from the archive.
    pub(crate) fn remove(&self, id: RunId, who: &Identity, from: &str) -> Result<(), ChangeError> {
        self.queue()?.audit(&audited("remove", &json!({"run": id.to_string()}), who, from))?;
        self.archive.remove(id)?;
        self.pages.forget(id);
        self.listing.refresh();
        Ok(())
    }

    /// Stores tags and a note of a run.
    pub(crate) fn set_note(
        &self,
        id: RunId,
        note: &Note,
        who: &Identity,
        from: &str,
    ) -> Result<(), ChangeError> {
        let what = json!({"run": id.to_string(), "tags": note.tags, "note": note.text});
        self.queue()?.audit(&audited("note", &what, who, from))?;
        self.archive.set_note(id, note)?;
        self.listing.refresh();
        Ok(())
    }

    /// Metrics over the newest runs, from memory if nothing has changed.
    pub(crate) fn history(&self, wanted: &HistoryWanted) -> Result<Arc<Histories>, PrintError> {
        let snapshot = self.listing.snapshot();
        let lock = || self.histories.lock().expect("no thread panics while it holds this lock");
        let known = |(of, at, _): &&Asked| of == wanted && Arc::ptr_eq(at, &snapshot);
        if let Some((.., found)) = lock().iter().find(known) {
            return Ok(found.clone());
        }
        let found = Arc::new(self.printer.history(&self.archive, wanted)?);
        let mut histories = lock();
        histories.push_front((wanted.clone(), snapshot, found.clone()));
        histories.truncate(HISTORIES_MAX);
        Ok(found)
    }

    /// Wakes the worker and the viewers.
    fn changed(&self) {
        self.bell.ring();
        if self.now.receiver_count() > 0 {
            self.now.send_replace(Arc::new(Shown::new(self.monitor.look())));
        }
    }
}

/// A line of the audit log.
fn audited(action: &str, what: &Value, who: &Identity, from: &str) -> Value {
    json!({
        "schema": "bakeoff.audit/1",
        "at": view::rfc3339(WallAnchor::now().unix_ns),
        "action": action,
        "what": what,
        "who": who.name,
        "from": from,
    })
}
