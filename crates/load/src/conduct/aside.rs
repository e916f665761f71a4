//! Work that may hang, on a separate thread, so the caller can still stop.
//!
//! Reading a data file, resolving a name, checking a server and building its tables block inside the driver.
//! A separate thread does that; the caller passes on its notifications and polls for a stop. A thread that
//! does not return is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::connection::Cut;
use crate::control::progress::{Event, OnEvent};
use crate::control::stop::{Stop, StopLevel};
use crate::error::LoadError;

/// Interval at which a stop is checked for.
const POLL: Duration = Duration::from_millis(20);
/// Polls after a stop before the work's connection is cut and the thread is left behind.
const POLLS_TO_FINISH: u32 = 45;

/// The caller's request to stop, as the work sees it.
pub(crate) struct Aside {
    stopped: AtomicBool,
    /// Cuts the work's connection.
    pub(crate) cut: Cut,
}

impl Aside {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

enum Message<T> {
    Event(Event),
    Result(Result<T, LoadError>),
}

/// Runs `work` on a separate thread.
pub(crate) fn run<T: Send + 'static>(
    stop: &Stop,
    on_event: OnEvent<'_>,
    work: impl FnOnce(&Aside, &dyn Fn(Event)) -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let aside = Arc::new(Aside { stopped: AtomicBool::new(false), cut: Cut::default() });
    let (sender, receiver) = mpsc::channel();
    let theirs = Arc::clone(&aside);
    let body = move || {
        // The server may be hostile.
        let _ = confine::capabilities::keep_files();
        // There is no receiver any more if the work was left behind.
        let on_event = |event| drop(sender.send(Message::Event(event)));
        let result = work(&theirs, &on_event);
        theirs.cut.disarm();
        let _ = sender.send(Message::Result(result));
    };
    let thread = thread::Builder::new().name("load-prepare".to_owned()).spawn(body);
    let thread = thread.map_err(|source| LoadError::Thread { source })?;
    let mut polls_stopped = 0;
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(Message::Event(event)) => on_event(&event),
            Ok(Message::Result(result)) => {
                // The thread has nothing left to do.
                let _ = thread.join();
                return result;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => unreachable!("the work ends with its result"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
        if stop.is_requested() {
            aside.stopped.store(true, Ordering::SeqCst);
            polls_stopped += 1;
            if polls_stopped > POLLS_TO_FINISH || stop.level() == StopLevel::Now {
                aside.cut.cut();
                return Err(LoadError::Interrupted);
            }
        }
    }
}
