//! State that all requests share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use archive::{Action, Archive, ArchiveError, Entry, Note, Queue, QueueError, Submission, WrongNote};
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::identity::{Access, Identity};
use crate::instruments::Instruments;
use crate::limits::{CHANGES, Limiter, REQUESTS, WRONG_TOKENS};
use crate::listen::Guests;
use crate::listing::{Listing, Snapshot};
use crate::memory::{self, Messages, OF_READING};
use crate::monitor::{Monitor, Now};
use crate::printer::{Histories, HistoryWanted, PrintError, Printer};
use crate::render::Cache;
use crate::settings::Settings;
use crate::shown::Shown;
use crate::view;
use crate::worker::Bell;

/// Viewers of the monitor at a time.
const VIEWERS_MAX: usize = 64;
/// Viewers of one peer at a time. A browser has six connections to a server at most.
const VIEWERS_OF_PEER_MAX: usize = 16;

/// Equal states after which viewers hear that the server is alive, so that either end notices that the
/// connection is gone: 15 s.
const EQUAL_MAX: u32 = 30;

/// Exports at a time, until their last part is sent.
const EXPORTS_MAX: usize = 2;
/// Exports of one peer at a time.
const EXPORTS_OF_PEER_MAX: usize = 1;
/// Time that a client has for the last parts of an export, once nothing else of it is left to do.
const EXPORTS_REST_TIME: Duration = Duration::from_secs(30);
/// Long answers of one peer at a time.
const LONG_ANSWERS_OF_PEER_MAX: usize = 8;

/// Histories in memory.
const HISTORIES_MAX: usize = 8;
/// Bytes of their pages. Their documents take a few times as much.
const HISTORIES_BYTES_MAX: usize = 2 << 20;

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
    /// Whether a viewer has come since the last state was sent.
    pub(crate) has_newcomer: AtomicBool,
    /// Viewers that have come.
    pub(crate) viewers_begun: AtomicUsize,
    /// States that were not sent, since they were like the last one.
    equal_states: AtomicU32,
    /// One run is read at a time, for a page or an export: it must not take CPUs from a measurement, and
    /// memory holds one.
    pub(crate) rendering: Arc<Semaphore>,
    /// Requests that wait for it.
    waiting: AtomicUsize,
    pub(crate) messages: Messages,
    pub(crate) long_answers_of_peers: Guests,
    pub(crate) viewers: Arc<Semaphore>,
    pub(crate) viewers_of_peers: Guests,
    pub(crate) exports: Arc<Semaphore>,
    pub(crate) exports_of_peers: Guests,
    /// Time that a client has for the last parts of an export.
    pub(crate) exports_rest_time: Duration,
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
    /// Another user has changed the note since it was read.
    #[error("the note has changed since it was read: read it again")]
    Changed,
    #[error(transparent)]
    Note(#[from] WrongNote),
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
        memory::return_large_pieces();
        let archive = settings.archive.clone().within(OF_READING);
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
            has_newcomer: AtomicBool::default(),
            viewers_begun: AtomicUsize::default(),
            equal_states: AtomicU32::default(),
            rendering: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            messages: Messages::new(),
            long_answers_of_peers: Guests::new(LONG_ANSWERS_OF_PEER_MAX),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            viewers_of_peers: Guests::new(VIEWERS_OF_PEER_MAX),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            exports_of_peers: Guests::new(EXPORTS_OF_PEER_MAX),
            exports_rest_time: EXPORTS_REST_TIME,
            pages: Cache::new(settings.printer.clone()),
            printer: settings.printer.clone(),
            histories: Mutex::default(),
            hosts: Vec::new(),
            is_tls: false,
        })
    }

    /// The turn to read runs, for one request at a time.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(&self.waiting);
        let turn = self.rendering.clone().acquire_owned().await.expect("the turns are never closed");
        drop(waits);
        turn
    }

    /// Whether a request waits for the turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
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
            "not_before": new.not_before_unix_ns.map(view::rfc3339),
            "by": new.by,
        });
        let entry = audited(&mut queue, "submit", &terms, (who, from), |queue| Ok(queue.submit(new)?))?;
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
        let what = json!({"id": id.to_string()});
        let entry =
            audited(&mut queue, action.word(), &what, (who, from), |queue| Ok(queue.act(id, action)?))?;
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
        let what = json!({"id": id.to_string(), "priority": to});
        let change = |queue: &mut Queue| Ok(queue.prioritize(id, to)?);
        let entry = audited(&mut queue, "prioritize", &what, (who, from), change)?;
        drop(queue);
        self.changed();
        Ok(entry)
    }

    /// Removes a run from the archive.
    pub(crate) fn remove(&self, id: RunId, who: &Identity, from: &str) -> Result<(), ChangeError> {
        let what = json!({"run": id.to_string()});
        let mut queue = self.queue()?;
        audited(&mut queue, "remove", &what, (who, from), |_| Ok(self.archive.remove(id)?))?;
        drop(queue);
        self.pages.forget(id);
        self.listing.change(id, None);
        Ok(())
    }

    /// Changes the tags and the note of a run, and returns both as they are stored.
    pub(crate) fn edit_note(
        &self,
        id: RunId,
        edit: Edit,
        who: &Identity,
        from: &str,
    ) -> Result<Note, ChangeError> {
        let what = json!({"run": id.to_string(), "tags": edit.tags, "note": edit.text});
        let mut queue = self.queue()?;
        let stored = audited(&mut queue, "note", &what, (who, from), |_| {
            let old = self.archive.note(id)?;
            if edit.version.is_some_and(|version| version != version_of(&old)) {
                return Err(ChangeError::Changed);
            }
            let tags = edit.tags.unwrap_or_else(|| old.tags.into_iter().collect());
            let note = Note::new(tags, &edit.text.unwrap_or(old.text))?;
            self.archive.set_note(id, &note)?;
            Ok(self.archive.note(id)?)
        })?;
        drop(queue);
        self.listing.change(id, Some(stored.clone()));
        Ok(stored)
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
        while histories.iter().map(|(.., of)| of.page.len()).sum::<usize>() > HISTORIES_BYTES_MAX {
            histories.pop_back();
        }
        Ok(found)
    }

    /// Wakes the worker and the viewers.
    fn changed(&self) {
        self.bell.ring();
        self.tell(|| self.monitor.look(), &|| ());
    }

    /// Sends the state of this moment to the viewers, if there are any that do not have it.
    ///
    /// - `rest`: called between two pieces of work.
    pub(crate) fn tell(&self, look: impl FnOnce() -> Now, rest: &dyn Fn()) {
        if self.now.receiver_count() == 0 {
            return;
        }
        let has_newcomer = self.has_newcomer.swap(false, Ordering::AcqRel);
        let before = self.now.borrow().clone();
        let now = look();
        let is_same = before.is_same(&now);
        let is_alive = is_same && self.equal_states.fetch_add(1, Ordering::Relaxed) + 1 >= EQUAL_MAX;
        if is_same && !is_alive && !has_newcomer {
            return;
        }
        if is_alive || !is_same {
            self.equal_states.store(0, Ordering::Relaxed);
        }
        let mut new = Shown::after(&before, now, &self.access.csrf, rest);
        new.is_repeated = is_alive;
        self.now.send_replace(Arc::new(new));
    }
}

/// A request that waits, until it is dropped: its client may leave.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A change of tags and note. A field that is missing does not change.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// Version that the user has read.
    pub(crate) version: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) text: Option<String>,
}

/// Version of a note: a digest of its content.
pub(crate) fn version_of(note: &Note) -> String {
    let mut digest = Sha256::new();
    for part in note.tags.iter().chain([&note.text]) {
        digest.update(part);
        digest.update([0]);
    }
    let bytes = digest.finalize();
    format!("{:016x}", u64::from_be_bytes(*bytes.first_chunk().expect("a digest has 32 bytes")))
}

/// Makes a change, with a line in the audit log before it and its outcome after it.
fn audited<T>(
    queue: &mut Queue,
    action: &str,
    what: &Value,
    (who, from): (&Identity, &str),
    change: impl FnOnce(&mut Queue) -> Result<T, ChangeError>,
) -> Result<T, ChangeError> {
    let (now, number) = (WallAnchor::now(), RunId::fresh(WallAnchor::now()).to_string());
    queue.audit(&json!({
        "schema": "bakeoff.audit/1",
        "at": view::rfc3339(now.unix_ns),
        "change": number,
        "action": action,
        "what": what,
        "who": who.name,
        "from": from,
    }))?;
    let changed = change(queue);
    let outcome = changed.as_ref().map_or_else(|why| format!("refused: {why}"), |_| "done".to_owned());
    let at = view::rfc3339(WallAnchor::now().unix_ns);
    // A line that cannot be written leaves the outcome unknown; what is done stays done.
    let _ = queue.audit(&json!({"schema": "bakeoff.audit/1", "at": at, "of": number, "outcome": outcome}));
    changed
}
