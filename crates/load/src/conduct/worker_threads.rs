//! The workers' threads: started, connected, released together, dismissed.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use confine::capabilities;
use record::load::Loop;

use super::setup_error::setup_error;
use crate::conduct::books::Books;
use crate::connection::{Failure, FailureClass, seat};
use crate::control::bound::ThreadCpus;
use crate::control::progress::{Event, OnEvent};
use crate::control::stop::Stop;
use crate::engine::Engine;
use crate::engine::ledger::Ledger;
use crate::engine::loops::event_loop::EventLoop;
use crate::engine::loops::worker::Worker;
use crate::engine::loops::{closed, open};
use crate::error::LoadError;
use crate::measure::client;
use crate::measure::latency::{self, Recorder, Writer};
use crate::measure::priority;
use crate::measure::waits::Waits;
use crate::schedule::clock::to_ns;

/// Interval at which the conductor checks for a stop.
pub(super) const POLL_NS: u64 = 50_000_000;

/// Attempts of a worker to get its first connection: among many at once, some are refused.
const CONNECT_TRIES: u32 = 3;
/// Pause between them.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 512 * 1024;

/// The workers' threads.
pub(super) struct WorkerThreads {
    threads: Vec<JoinHandle<()>>,
    pub(super) books: Option<Books>,
    gate: Arc<Gate>,
}

/// The gate at which workers wait: first for their turn to connect, then for the start.
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    connects_left: u32,
    signal: Signal,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Wait,
    Go,
    GoHome,
}

type Connected = Result<Duration, Failure>;

impl WorkerThreads {
    /// Starts the workers and waits until each has its connection.
    pub(super) fn connect(
        engine: &Arc<Engine>,
        log_room: usize,
        stop: &Stop,
        on_event: OnEvent<'_>,
    ) -> Result<Self, LoadError> {
        let settings = &engine.settings;
        let sockets = engine.hosts.driver().sockets(settings.connections_in_all());
        if let Err(text) = client::may_open(sockets, settings.threads) {
            return Err(LoadError::Machine { target: settings.target.clone(), text });
        }
        if let Some(Err(e)) = engine.cpus.as_ref().map(ThreadCpus::check) {
            let text = format!("cannot bind the threads of the load to their CPUs: {e}");
            return Err(LoadError::Machine { target: settings.target.clone(), text });
        }
        let driver = engine.hosts.driver();
        let (operations, outcomes) = (driver.operations(), driver.outcomes());
        let state = GateState { connects_left: settings.connects_at_once, signal: Signal::Wait };
        let gate = Arc::new(Gate { state: Mutex::new(state), changed: Condvar::new() });
        let (sender, receiver) = mpsc::channel();
        let mut worker_threads = Self { threads: Vec::new(), books: None, gate };
        let hosts = if engine.hosts.are_several() { engine.hosts.all().len() } else { 0 };
        let mut readers = Vec::new();
        for index in 0..settings.threads {
            let recorder = Recorder::new(operations.len(), outcomes.len(), log_room).of_hosts(hosts);
            let (writer, reader) = latency::cell(Box::new(recorder));
            readers.push(reader);
            let spawned = worker_threads.spawn(engine, index as usize, writer, sender.clone());
            if let Err(error) = spawned {
                worker_threads.go_home(engine);
                return Err(error);
            }
        }
        drop(sender);
        let is_open_loop = settings.pace.as_open().is_some();
        let books = Books::new(readers, operations, outcomes, is_open_loop, log_room);
        worker_threads.books = Some(books.of_hosts(hosts));
        match await_connections(engine, &receiver, stop, on_event) {
            Ok(()) => Ok(worker_threads),
            Err(error) => {
                worker_threads.go_home(engine);
                Err(error)
            }
        }
    }

    fn spawn(
        &mut self,
        engine: &Arc<Engine>,
        index: usize,
        writer: Writer,
        report: Sender<Connected>,
    ) -> Result<(), LoadError> {
        let (engine, gate) = (Arc::clone(engine), Arc::clone(&self.gate));
        let body = move || worker_thread(&engine, index, writer, &gate, &report);
        let thread = thread::Builder::new().name(format!("load-{index}")).stack_size(STACK_BYTES).spawn(body);
        self.threads.push(thread.map_err(|source| LoadError::Thread { source })?);
        Ok(())
    }

    pub(super) fn go(&self) {
        self.gate.signal(Signal::Go);
    }

    fn go_home(&self, engine: &Engine) {
        self.gate.signal(Signal::GoHome);
        engine.abandon();
    }

    /// Joins the threads that have returned. A thread that hangs in a call is left behind; its event was
    /// counted as unfinished.
    pub(super) fn dismiss(self) {
        for thread in self.threads {
            if thread.is_finished()
                && let Err(panic) = thread.join()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        self.lock().signal = signal;
        self.changed.notify_all();
    }

    /// Waits for a turn to connect; false if the load was given up.
    fn enter(&self) -> bool {
        let waits = |s: &mut GateState| s.connects_left == 0 && s.signal == Signal::Wait;
        let mut state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.signal == Signal::GoHome {
            return false;
        }
        state.connects_left -= 1;
        true
    }

    fn leave(&self) {
        self.lock().connects_left += 1;
        self.changed.notify_all();
    }

    fn await_start(&self) -> bool {
        let waits = |s: &mut GateState| s.signal == Signal::Wait;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        state.signal == Signal::Go
    }
}

/// Body of a worker's thread.
fn worker_thread(
    engine: &Arc<Engine>,
    index: usize,
    writer: Writer,
    gate: &Gate,
    report: &Sender<Connected>,
) {
    let worker_state = &engine.workers[index];
    seat::take(index);
    worker_state.thread_id.store(nix::unistd::gettid().as_raw(), Ordering::SeqCst);
    if let Some(cpus) = &engine.cpus {
        // It was tried before; a CPU that has gone offline since leaves the thread where it was.
        let _ = cpus.bind(index);
    }
    // Sleeps end on time, not up to 50 us later. If the kernel refuses, the lateness shows it.
    let _ = nix::sys::prctl::set_timerslack(1);
    // A server may be hostile: a thread that talks to it keeps only the capabilities that it needs.
    let is_fifo = engine.settings.pace.as_open().is_some_and(|open| open.fifo);
    let _ = if is_fifo { capabilities::keep_priority() } else { capabilities::keep_files() };
    if gate.enter() {
        let member = Member::connect(engine, index, writer, gate, report);
        gate.leave();
        if let Some(member) = member
            && gate.await_start()
        {
            if is_fifo {
                // It was tried before; if the kernel refuses now, the lateness shows it. A thread that starts
                // commands keeps the capability: it changes its priority for each command.
                let keep = || {
                    if engine.hosts.driver().starts_commands() { Ok(()) } else { capabilities::keep_files() }
                };
                let _ = priority::real_time().and_then(|()| keep());
            }
            let ledger = member.counting_waits().work(engine);
            let _ =
                worker_state.scheduled.set(client::scheduled(worker_state.thread_id.load(Ordering::SeqCst)));
            engine.usages.lock().unwrap_or_else(PoisonError::into_inner).extend(ledger.usage());
            engine.working.fetch_sub(1, Ordering::SeqCst);
            if let Some(turns) = &engine.turns {
                turns.leave();
            }
        }
    }
    worker_state.cut.disarm();
}

/// The engine of one thread.
enum Member {
    /// One connection; blocks on it.
    Worker(Box<Worker>),
    /// Many connections; waits for any of them.
    EventLoop(Box<EventLoop>),
}

impl Member {
    /// Makes the thread's connections; `None` if one cannot be made, which was reported.
    fn connect(
        engine: &Arc<Engine>,
        index: usize,
        writer: Writer,
        gate: &Gate,
        report: &Sender<Connected>,
    ) -> Option<Self> {
        let cut = &engine.workers[index].cut;
        if !engine.settings.has_loops() {
            let connection = first_connection(engine, gate, report, || engine.hosts.connect(index, cut))?;
            return Some(Self::Worker(Box::new(Worker::new(index, Arc::clone(engine), writer, connection))));
        }
        let (connection_slots, depth) = (engine.connection_slots_of(index), engine.settings.depth() as usize);
        let connections = connection_slots.len() / depth;
        let mut opened = Vec::with_capacity(connections);
        for connection in connection_slots.start / depth..connection_slots.end / depth {
            let host = engine.hosts.of(connection);
            let open = || {
                let multiplex = host.driver.multiplex().expect("what has loops can be driven by them");
                multiplex.open(cut).map_err(|failure| host.names(failure))
            };
            opened.push(first_connection(engine, gate, report, open)?);
        }
        match EventLoop::new(index, connection_slots.start, engine, writer, opened, cut) {
            Ok(event_loop) => Some(Self::EventLoop(Box::new(event_loop))),
            Err(e) => {
                let text = format!("cannot watch {connections} connections: {e}");
                let _ = report.send(Err(Failure::new(FailureClass::Machine, text)));
                None
            }
        }
    }

    /// Counts the waits of the calling thread for a CPU from now on.
    fn counting_waits(mut self) -> Self {
        let ledger = match &mut self {
            Self::Worker(worker) => &mut worker.ledger,
            Self::EventLoop(event_loop) => &mut event_loop.ledger,
        };
        ledger.count_waits(Waits::of_this_thread);
        self
    }

    /// Takes and does events until none is left or the run ends.
    fn work(self, engine: &Engine) -> Ledger {
        match self {
            Self::Worker(mut worker) => {
                match engine.settings.pace {
                    Loop::Open(_) => open::work(&mut worker),
                    Loop::Closed { .. } => closed::work(&mut worker),
                }
                worker.ledger
            }
            Self::EventLoop(event_loop) => event_loop.work(),
        }
    }
}

/// Makes a first connection; `None` if it cannot be made, which was reported.
fn first_connection<T>(
    engine: &Engine,
    gate: &Gate,
    report: &Sender<Connected>,
    mut make: impl FnMut() -> Result<T, Failure>,
) -> Option<T> {
    let mut tries_left = CONNECT_TRIES;
    loop {
        tries_left -= 1;
        let began_ns = engine.clock.now_ns();
        match make() {
            Ok(connection) => {
                // The conductor may have given up; then there is no receiver.
                let _ = report.send(Ok(Duration::from_nanos(engine.clock.now_ns() - began_ns)));
                return Some(connection);
            }
            Err(failure) => {
                let may_pass = matches!(failure.class, FailureClass::Connection | FailureClass::Transient);
                if !may_pass || tries_left == 0 || gate.lock().signal == Signal::GoHome {
                    let _ = report.send(Err(failure));
                    return None;
                }
            }
        }
        thread::sleep(CONNECT_PAUSE);
    }
}

fn await_connections(
    engine: &Engine,
    receiver: &Receiver<Connected>,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<(), LoadError> {
    let of = engine.settings.connections_in_all();
    let mut made = 0;
    while made < of {
        match receiver.recv_timeout(Duration::from_nanos(POLL_NS)) {
            Ok(Ok(took)) => {
                made += 1;
                engine.connects.lock().unwrap_or_else(PoisonError::into_inner).record(to_ns(took));
                on_event(&Event::Connected { made, of, took });
            }
            Ok(Err(failure)) => {
                // Connections that succeeded meanwhile count: the message states how many were made.
                made += (0..).zip(receiver.try_iter().flatten()).map(|(n, _)| n + 1).last().unwrap_or(0);
                return Err(match setup_error(&engine.settings, &failure) {
                    LoadError::NotConnected { target, text, .. } => {
                        LoadError::NotConnected { target, made, of, text }
                    }
                    other => other,
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("every worker reports before it ends"),
        }
        if stop.is_requested() {
            return Err(LoadError::Interrupted);
        }
    }
    Ok(())
}
