//! Builds several tables in parallel, each on a thread with its own connection.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use record::load::LoadSettings;

use super::table::build_one;
use crate::connection::{Cut, Failure, FailureClass};
use crate::control::progress::Event;
use crate::driver::Driver;
use crate::error::LoadError;
use crate::workload::tables::{Store, data_set_error};

/// Interval at which a stop is checked for.
const POLL: Duration = Duration::from_millis(20);
/// Polls after a stop at which the connections are cut.
const POLLS_TO_FINISH: u32 = 40;
/// Maximum number of builders: more are of little use to a server, and each takes a connection.
const BUILDERS_MAX: usize = 32;

/// Number of threads for building `tables` tables.
pub(super) fn builders(settings: &LoadSettings, driver: &dyn Driver, tables: usize) -> usize {
    // An embedded database has one writer at a time.
    let may_be_many = driver.multiplex().is_some();
    let threads = settings.threads as usize;
    if may_be_many { threads.min(tables).clamp(1, BUILDERS_MAX) } else { 1 }
}

/// State that the builders share.
struct TableBuild<'a> {
    settings: &'a LoadSettings,
    driver: &'a dyn Driver,
    /// Tables to build: number, and whether a table of that name exists.
    tables: &'a [(u32, bool)],
    next: AtomicUsize,
    /// Tells the builders to stop.
    is_stopped: AtomicBool,
    cuts: Vec<Cut>,
    /// The first error.
    failed: Mutex<Option<LoadError>>,
}

/// Builds the tables, `builders` at a time; [`ControlFlow::Break`] if it was stopped before.
pub(super) fn build_all(
    settings: &LoadSettings,
    driver: &dyn Driver,
    tables: &[(u32, bool)],
    builders: usize,
    is_stopped: &dyn Fn() -> bool,
    on_event: &dyn Fn(Event),
) -> Result<ControlFlow<()>, LoadError> {
    let site = TableBuild {
        settings,
        driver,
        tables,
        next: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
        cuts: (0..builders).map(|_| Cut::default()).collect(),
        failed: Mutex::new(None),
    };
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for cut in &site.cuts {
            let (sender, site) = (sender.clone(), &site);
            scope.spawn(move || {
                if let Err(error) = site.work(cut, &sender) {
                    site.is_stopped.store(true, Ordering::SeqCst);
                    let mut failed = site.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                }
            });
        }
        drop(sender);
        site.watch(&receiver, is_stopped, on_event);
    });
    if is_stopped() {
        return Ok(ControlFlow::Break(()));
    }
    match site.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(ControlFlow::Continue(())),
    }
}

impl TableBuild<'_> {
    /// Builds one table after another until none is left.
    fn work(&self, cut: &Cut, events: &Sender<Event>) -> Result<(), LoadError> {
        let connecting = |failure: Failure| {
            data_set_error(self.settings, "connecting to build tables".to_owned(), failure)
        };
        let mut store = self.open(cut).map_err(connecting)?;
        while !self.is_stopped.load(Ordering::SeqCst) {
            let Some((table, is_there)) = self.tables.get(self.next.fetch_add(1, Ordering::SeqCst)) else {
                break;
            };
            let is_stopped = || self.is_stopped.load(Ordering::SeqCst);
            // There is no receiver any more if the run was left behind.
            let on_event = |event| drop(events.send(event));
            if build_one(&mut *store, self.settings, *table, *is_there, &is_stopped, &on_event)?.is_break() {
                break;
            }
        }
        cut.disarm();
        Ok(())
    }

    fn open(&self, cut: &Cut) -> Result<Box<dyn Store>, Failure> {
        let store = self.driver.look(cut)?.store;
        store.ok_or_else(|| Failure::new(FailureClass::Application, "this target has no tables"))
    }

    /// Passes on the builders' notifications until the last has ended; a stop reaches all of them.
    fn watch(&self, events: &Receiver<Event>, is_stopped: &dyn Fn() -> bool, on_event: &dyn Fn(Event)) {
        let mut polls_stopped = 0;
        loop {
            match events.recv_timeout(POLL) {
                Ok(event) => on_event(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if is_stopped() {
                self.is_stopped.store(true, Ordering::SeqCst);
                polls_stopped += 1;
                if polls_stopped == POLLS_TO_FINISH {
                    self.cuts.iter().for_each(Cut::cut);
                }
            }
        }
    }
}
