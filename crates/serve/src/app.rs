//! State that all requests share.

use std::sync::{Arc, Mutex, MutexGuard};

use archive::{Action, Archive, ArchiveError, Entry, Queue, QueueError, Submission};
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::identity::{Access, Identity};
use crate::limits::{CHANGES, Limiter, REQUESTS, WRONG_TOKENS};
use crate::listing::Listing;
use crate::monitor::Monitor;
use crate::render::Cache;
use crate::view;
use crate::view_page::Shown;
use crate::worker::Bell;

/// Viewers of the monitor at a time.
pub(crate) const VIEWERS_MAX: usize = 64;

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
    pub(crate) rendering: Semaphore,
    pub(crate) viewers: Arc<Semaphore>,
    pub(crate) pages: Cache,
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
        archive: Archive,
        queue: Option<Arc<Mutex<Queue>>>,
        access: Access,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Result<Self, ArchiveError> {
        let monitor = Monitor::new(archive.clone(), queue.clone(), trouble);
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
            rendering: Semaphore::new(1),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            pages: Cache::default(),
            hosts: Vec::new(),
            is_tls: false,
        })
    }

    pub(crate) fn queue(&self) -> Result<MutexGuard<'_, Queue>, ChangeError> {
        let queue = self.queue.as_ref().ok_or(ChangeError::NoQueue)?;
        Ok(queue.lock().expect("no thread panics with this lock"))
    }

    /// Adds a plan to the queue.
    pub(crate) fn submit(&self, new: &Submission, who: &Identity, from: &str) -> Result<Entry, ChangeError> {
        let mut queue = self.queue()?;
        let terms = json!({"title": new.title, "plan_sha256": new.plan_sha256, "priority": new.priority, "by": new.by});
        queue.audit(&audited("submit", &terms, who, from))?;
        let entry = queue.submit(new)?;
        queue.audit(&audited("submitted", &json!({"id": entry.id.to_string()}), who, from))?;
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
