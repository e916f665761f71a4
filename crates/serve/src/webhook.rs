//! A request to another server at the end of each entry, and at each pause that no user asked for.
//!
//! The queue holds which ends were told, so a server that is killed in between tells them again: at least
//! once, and the entry's id and state tell a repetition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::{Entry, Queue};
use record::clock::WallAnchor;
use record::run::RunId;

use crate::client::Client;
use crate::error::ServeError;
use crate::place::Url;
use crate::view::{self, Expected};

/// Interval between two looks at the queue.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pause after the first failure; each further one doubles it.
const FIRST_PAUSE_S: u64 = 5;
/// Longest pause.
const LONGEST_PAUSE_S: u64 = 600;
/// Time after which an end is not told any more.
const GIVEN_UP_AFTER_S: u64 = 86_400;

/// Time for a request and its answer. A receiver that hangs delays the other ends by this.
const TIME: Duration = Duration::from_secs(10);

/// Tells the ends of entries.
#[derive(Debug)]
pub(crate) struct Webhook {
    client: Client,
    path: String,
    queue: Arc<Mutex<Queue>>,
}

/// Requests sent so far for the entries that the queue has as untold.
#[derive(Debug, Default)]
struct Sent(HashMap<RunId, Tries>);

/// Requests for an entry.
#[derive(Debug, Clone, Copy)]
enum Tries {
    Failed {
        tries: u32,
        next_unix_ns: u64,
    },
    /// The receiver has the document; the queue could not record it.
    Unrecorded,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Webhook {
    pub(crate) fn new(url: &Url, queue: Arc<Mutex<Queue>>) -> Result<Self, ServeError> {
        let client = Client::new(url.server.clone(), None, None)?.within(TIME);
        Ok(Self { client, path: url.path.clone(), queue })
    }

    /// Tells the end of each entry until `is_over`.
    pub(crate) fn follow(self, is_over: &dyn Fn() -> bool) {
        let mut sent = Sent::default();
        let queue = || self.queue.lock().expect(LOCK);
        let mut known = None;
        while !is_over() {
            // The search for ends reads every entry: only after a change, or if one is to be sent again.
            let version = queue().version().ok();
            if version.is_none() || version != known || !sent.0.is_empty() {
                let now_unix_ns = WallAnchor::now().unix_ns;
                // A queue that cannot be read shows on every page; the next look may succeed.
                let untold = queue().untold(now_unix_ns.saturating_sub(GIVEN_UP_AFTER_S * 1_000_000_000));
                known = version.filter(|_| untold.is_ok());
                if let Ok(untold) = untold {
                    let record = |entry: &Entry| queue().told(entry).is_ok();
                    sent.once(&untold, now_unix_ns, is_over, &|entry| self.tell(entry), &record);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn tell(&self, entry: &Entry) -> bool {
        self.client.post(&self.path, &view::entry_document(entry, Expected::default(), false)).is_ok()
    }
}

impl Sent {
    /// Tells each entry that is due, until `is_over`.
    ///
    /// - `tell`: sends the document of an entry; whether the receiver has it.
    /// - `record`: records that; whether it is on disk.
    fn once(
        &mut self,
        untold: &[Entry],
        now_unix_ns: u64,
        is_over: &dyn Fn() -> bool,
        tell: &dyn Fn(&Entry) -> bool,
        record: &dyn Fn(&Entry) -> bool,
    ) {
        self.0.retain(|id, _| untold.iter().any(|entry| entry.id == *id));
        for entry in untold {
            if is_over() {
                return;
            }
            let tries = match self.0.get(&entry.id) {
                Some(Tries::Failed { next_unix_ns, .. }) if *next_unix_ns > now_unix_ns => continue,
                Some(Tries::Failed { tries, .. }) => tries + 1,
                Some(Tries::Unrecorded) => 0,
                None => 1,
            };
            if tries > 0 && !tell(entry) {
                let pause_s = (FIRST_PAUSE_S << (tries - 1).min(16)).min(LONGEST_PAUSE_S);
                let next_unix_ns = now_unix_ns.saturating_add(pause_s * 1_000_000_000);
                self.0.insert(entry.id, Tries::Failed { tries, next_unix_ns });
            } else if record(entry) {
                self.0.remove(&entry.id);
            } else {
                self.0.insert(entry.id, Tries::Unrecorded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use archive::QueueState;

    use super::*;

    fn ended() -> Entry {
        Entry {
            id: RunId::fresh(WallAnchor::now()),
            plan_sha256: String::new(),
            title: String::new(),
            by: String::new(),
            priority: 0,
            not_before_unix_ns: None,
            state: QueueState::Done,
            wish: None,
            run: None,
            estimate_s: 1.0,
            submitted_unix_ns: 0,
            started_unix_ns: None,
            ended_unix_ns: Some(0),
            exit_code: Some(0),
            reason: None,
        }
    }

    #[test]
    fn an_end_that_cannot_be_recorded_is_sent_once() {
        let (mut sent, entry, requests, disk) = (Sent::default(), ended(), Cell::new(0), Cell::new(false));
        let tell = |_: &Entry| {
            requests.set(requests.get() + 1);
            true
        };
        for _ in 0..20 {
            sent.once(std::slice::from_ref(&entry), 0, &|| false, &tell, &|_| disk.get());
        }
        assert_eq!(requests.get(), 1);
        disk.set(true);
        sent.once(&[entry], 0, &|| false, &tell, &|_| disk.get());
        assert!(requests.get() == 1 && sent.0.is_empty());
    }

    #[test]
    fn a_server_that_ends_sends_no_further_request_and_a_failed_one_waits() {
        let (mut sent, entries, asked) = (Sent::default(), [ended(), ended()], RefCell::new(Vec::new()));
        let tell = |entry: &Entry| {
            asked.borrow_mut().push(entry.id);
            false
        };
        let over = || !asked.borrow().is_empty();
        sent.once(&entries, 0, &over, &tell, &|_| true);
        assert_eq!(*asked.borrow(), [entries[0].id]);
        let second_ns = 1_000_000_000;
        for now_ns in [second_ns, 4 * second_ns, 5 * second_ns, 14 * second_ns, 15 * second_ns] {
            sent.once(&entries[..1], now_ns, &|| false, &tell, &|_| true);
        }
        assert_eq!(asked.borrow().len(), 3, "5 s after the first, and 10 s after the second");
    }
}
