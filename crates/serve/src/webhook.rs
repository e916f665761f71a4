//! A request to another server at the end of each entry.
//!
//! The queue holds which ends were told, so a server that is killed in between tells them again: at least
//! once, and the entry's id tells a repetition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::{Entry, Queue};
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::json;

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

/// Tells the ends of entries.
#[derive(Debug)]
pub(crate) struct Webhook {
    client: Client,
    path: String,
    queue: Arc<Mutex<Queue>>,
    failed: HashMap<RunId, Failed>,
}

/// Tries for an entry.
#[derive(Debug, Clone, Copy)]
struct Failed {
    tries: u32,
    next_unix_ns: u64,
}

const LOCK: &str = "no thread panics while it holds this lock";

impl Webhook {
    pub(crate) fn new(url: &Url, queue: Arc<Mutex<Queue>>) -> Result<Self, ServeError> {
        let client = Client::new(url.server.clone(), None, None)?;
        Ok(Self { client, path: url.path.clone(), queue, failed: HashMap::new() })
    }

    /// Tells the end of each entry until `is_over`.
    pub(crate) fn follow(mut self, is_over: &dyn Fn() -> bool) {
        while !is_over() {
            self.once(WallAnchor::now().unix_ns);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn once(&mut self, now_unix_ns: u64) {
        let since = now_unix_ns.saturating_sub(GIVEN_UP_AFTER_S * 1_000_000_000);
        // A queue that cannot be read shows on every page; the next look may succeed.
        let untold = self.queue.lock().expect(LOCK).untold(since).unwrap_or_default();
        self.failed.retain(|id, _| untold.iter().any(|entry| entry.id == *id));
        for entry in untold {
            if self.failed.get(&entry.id).is_some_and(|failed| failed.next_unix_ns > now_unix_ns) {
                continue;
            }
            if self.tell(&entry) {
                let _ = self.queue.lock().expect(LOCK).told(entry.id);
                self.failed.remove(&entry.id);
                continue;
            }
            let tries = self.failed.get(&entry.id).map_or(1, |failed| failed.tries + 1);
            let pause_s = (FIRST_PAUSE_S << (tries - 1).min(16)).min(LONGEST_PAUSE_S);
            let next_unix_ns = now_unix_ns.saturating_add(pause_s * 1_000_000_000);
            self.failed.insert(entry.id, Failed { tries, next_unix_ns });
        }
    }

    fn tell(&self, entry: &Entry) -> bool {
        let mut document = view::entry(entry, Expected::default());
        document["schema"] = json!("bakeoff.queue-entry/1");
        self.client.post(&self.path, &document).is_ok()
    }
}
