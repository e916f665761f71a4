//! Opens connections that need a conversation, such as a login and statements to prepare: on a separate
//! thread for each host, one after another, while the loop serves the other connections.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::eventfd::EventFd;
use socket2::Socket;

use crate::connection::{Cut, Failure};
use crate::engine::Engine;
use crate::net::Dialogue;

/// The number of a link, and that of its connection among those of all loops.
type OpenRequest = (usize, usize);
type Opened = Result<(Socket, Box<dyn Dialogue>), Failure>;

/// The opening threads, each started with the first request to its host. A host that hangs holds up no other.
pub(super) struct Opener {
    engine: Arc<Engine>,
    /// Wakes the loop.
    wake: Arc<EventFd>,
    /// The way to each thread, by the number of its host.
    asked: BTreeMap<usize, Sender<OpenRequest>>,
    opened: Arc<Mutex<Vec<(usize, Opened)>>>,
}

impl Opener {
    pub(super) fn new(engine: Arc<Engine>, wake: Arc<EventFd>) -> Self {
        Self { engine, wake, asked: BTreeMap::new(), opened: Arc::default() }
    }

    /// Opens connection `connection` for link `number`; the result wakes the loop.
    pub(super) fn open(&mut self, number: usize, connection: usize) -> io::Result<()> {
        let host = self.engine.hosts.number_of(connection);
        let asked = match self.asked.entry(host) {
            Entry::Occupied(asked) => asked.into_mut(),
            Entry::Vacant(place) => {
                let (asked, numbers) = mpsc::channel();
                let (engine, wake, opened) =
                    (Arc::clone(&self.engine), Arc::clone(&self.wake), Arc::clone(&self.opened));
                let body = move || open_all(&engine, &numbers, &opened, &wake);
                // It ends with the loop, or, if a server hangs, with its attempt.
                thread::Builder::new().name("load-open".to_owned()).spawn(body)?;
                place.insert(asked)
            }
        };
        asked.send((number, connection)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// An opened connection, or the failure.
    pub(super) fn next_opened(&self) -> Option<(usize, Opened)> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

fn open_all(
    engine: &Engine,
    numbers: &Receiver<OpenRequest>,
    opened: &Mutex<Vec<(usize, Opened)>>,
    wake: &EventFd,
) {
    for (number, connection) in numbers {
        let driver = &engine.hosts.of(connection).driver;
        let multiplex = driver.multiplex().expect("only such targets come here");
        if engine.is_abandoned() {
            return;
        }
        // Not cut: a loop that is abandoned does not wait for this thread.
        let made = multiplex.open(&Cut::default());
        opened.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
        // It fails only if the loop has not read the last wake-up, and then the loop finds this result too.
        let _ = wake.write(1);
    }
}
