//! The pipeline for streams: takes blocks, processes them in parallel, and writes them in order.
//!
//! A bounded ring with threads on demand. It starts without threads; the first block starts one, and another
//! starts each time blocks pile up, up to the limit; a thread that idles for [`IDLE`] ends. With a limit of
//! one, the caller's thread does all work.
//!
//! There is no writer thread. The thread that finishes the next block in order writes it, and all finished
//! ones behind it, while the others continue with the codec.

use crate::Error;
use crate::meter::{Doing, Meter, cpu_time, now};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_millis(100);
/// Period of the callback while the caller waits, so progress is shown even if nothing moves.
const LOOK_UP: Duration = Duration::from_millis(100);

/// The work of one thread, from a job to a product. Holds that thread's codec contexts.
pub(crate) type Work<J, O> = Box<dyn FnMut(J) -> O + Send>;
/// Creates a [`Work`] for each thread.
pub(crate) type MakeWork<J, O> = Arc<dyn Fn() -> Work<J, O> + Send + Sync>;

/// Takes products in order.
pub(crate) trait Sink<O>: Send {
    fn put(&mut self, product: O) -> Result<(), Error>;
}

/// Sink of a ring from which the caller fetches the products with [`Ring::pull`].
pub(crate) enum Pulled {}

impl<O> Sink<O> for Pulled {
    fn put(&mut self, _: O) -> Result<(), Error> {
        match *self {}
    }
}

/// See the module.
pub(crate) struct Ring<J, O, S> {
    shared: Arc<Shared<J, O, S>>,
    make_work: MakeWork<J, O>,
    /// Work of the caller's thread, if the limit is one thread.
    own_work: Option<Work<J, O>>,
    last_work: Duration,
    threads_max: usize,
    capacity: usize,
    threads: Vec<JoinHandle<()>>,
    look_up: Box<dyn FnMut() + Send>,
}

/// Fill level of a ring.
pub(crate) struct Load {
    /// Share of the ring's capacity that waits for the codec or is in it, in [0, 1]; `None` without threads.
    /// Products that only wait to be written do not count: a faster codec would not help them.
    pub(crate) occupancy_ratio: Option<f64>,
    /// Whether another thread may still start.
    pub(crate) can_grow: bool,
}

struct Shared<J, O, S> {
    state: Mutex<State<J, O, S>>,
    job_came: Condvar,
    product_left: Condvar,
    meter: Arc<Meter>,
}

struct State<J, O, S> {
    waiting: VecDeque<(u64, J)>,
    /// Products in order, from `next` on; `None` if not finished yet.
    finished: VecDeque<Option<O>>,
    /// Number of the product at the front of `finished`.
    next: u64,
    /// Number of blocks pushed and not yet written or pulled.
    in_flight: usize,
    /// `None` while a thread writes, and always in a ring with [`Pulled`].
    sink: Option<S>,
    writing: bool,
    failed: Option<Error>,
    /// Whether an error occurred; the remaining blocks are dropped.
    dead: bool,
    closed: bool,
    workers: usize,
    /// Number of consecutive pushes that found blocks piled up.
    pressure: u32,
}

impl<J, O, S> Ring<J, O, S>
where
    J: Send + 'static,
    O: Send + 'static,
    S: Sink<O> + 'static,
{
    /// Creates a ring of at most `threads_max` threads. Without `sink`, products are fetched by
    /// [`Ring::pull`].
    pub(crate) fn new(
        threads_max: usize,
        meter: Arc<Meter>,
        make_work: MakeWork<J, O>,
        sink: Option<S>,
    ) -> Self {
        assert!(threads_max > 0, "a ring needs a thread");
        let state = State {
            waiting: VecDeque::new(),
            finished: VecDeque::new(),
            next: 0,
            in_flight: 0,
            sink,
            writing: false,
            failed: None,
            dead: false,
            closed: false,
            workers: 0,
            pressure: 0,
        };
        let own_work = (threads_max == 1).then(|| {
            meter.worker_began();
            make_work()
        });
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                job_came: Condvar::new(),
                product_left: Condvar::new(),
                meter,
            }),
            make_work,
            own_work,
            last_work: Duration::ZERO,
            threads_max,
            capacity: if threads_max == 1 { 1 } else { 2 * threads_max },
            threads: Vec::new(),
            look_up: Box::new(|| ()),
        }
    }

    /// Maximum number of blocks in flight.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Lowers the maximum number of blocks in flight.
    pub(crate) fn limit(&mut self, capacity: usize) {
        self.capacity = self.capacity.min(capacity);
    }

    /// Sets the callback that is called from time to time while the caller waits.
    pub(crate) fn on_wait(&mut self, look_up: Box<dyn FnMut() + Send>) {
        self.look_up = look_up;
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.shared.lock();
        let in_codec = state.finished.iter().filter(|product| product.is_none()).count();
        Load {
            occupancy_ratio: (self.threads_max > 1).then(|| in_codec as f64 / self.capacity() as f64),
            can_grow: self.threads_max > 1 && state.workers < self.threads_max,
        }
    }

    /// Time that the caller's thread took for the last block, if the limit is one thread.
    pub(crate) fn last_work(&self) -> Duration {
        self.last_work
    }

    /// Adds the next block; waits while the ring is full.
    pub(crate) fn push(&mut self, job: J) -> Result<(), Error> {
        if self.own_work.is_some() {
            return self.push_alone(job);
        }
        let mut state = self.shared.lock();
        while state.in_flight >= self.capacity() && !state.dead {
            state = self.shared.wait(state, &mut *self.look_up);
        }
        if !state.dead {
            let number = state.next + state.finished.len() as u64;
            state.finished.push_back(None);
            state.in_flight += 1;
            state.waiting.push_back((number, job));
            self.shared.job_came.notify_one();
            let crowded = state.waiting.len() * 4 >= 3 * (2 * state.workers + 2);
            state.pressure = if crowded { state.pressure + 1 } else { 0 };
            let wanted = state.workers == 0 || state.pressure >= 2;
            if wanted && state.workers < self.threads_max {
                state.workers += 1;
                state.pressure = 0;
                drop(state);
                if let Some(job) = self.spawn() {
                    return self.push_alone(job);
                }
                return self.check();
            }
        }
        drop(state);
        self.check()
    }

    /// Does the work on the caller's thread.
    fn push_alone(&mut self, job: J) -> Result<(), Error> {
        let Some(work) = &mut self.own_work else { unreachable!("whoever calls this has work of its own") };
        let (begun, cpu_from) = (now(), cpu_time());
        let product = work(job);
        self.shared.meter.worked(cpu_from);
        let done = self.shared.meter.charge(Doing::Codec, begun);
        self.last_work = done.duration_since(begun);
        let mut state = self.shared.lock();
        state.finished.push_back(Some(product));
        state.in_flight += 1;
        self.shared.drain(state);
        self.shared.meter.charge(Doing::Blocked, done);
        self.check()
    }

    /// Whether [`Ring::push`] would not wait for room.
    pub(crate) fn has_room(&self) -> bool {
        self.shared.lock().in_flight < self.capacity()
    }

    /// Whether [`Ring::pull`] would return at once.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.shared.lock().finished.front(), Some(Some(_)))
    }

    /// Waits for the next product in order; `None` if no block is in flight.
    ///
    /// # Errors
    ///
    /// Only [`Error::Panicked`]; a product's own errors are in the product.
    pub(crate) fn pull(&mut self) -> Result<Option<O>, Error> {
        let mut state = self.shared.lock();
        loop {
            match state.finished.front() {
                None => return Ok(None),
                Some(Some(_)) => {
                    state.next += 1;
                    state.in_flight -= 1;
                    return Ok(state.finished.pop_front().flatten());
                }
                Some(None) if state.dead => return Err(state.failed.take().unwrap_or(Error::Panicked)),
                Some(None) => state = self.shared.wait(state, &mut *self.look_up),
            }
        }
    }

    /// Waits until all blocks are written.
    pub(crate) fn drain(&mut self) -> Result<(), Error> {
        let mut state = self.shared.lock();
        while state.in_flight > 0 && !state.dead {
            state = self.shared.wait(state, &mut *self.look_up);
        }
        drop(state);
        self.check()
    }

    /// Calls `use_it` with the sink after all blocks are written.
    pub(crate) fn with_sink<T>(&mut self, use_it: impl FnOnce(&mut S) -> T) -> Result<T, Error> {
        self.drain()?;
        let mut state = self.shared.lock();
        Ok(use_it(state.sink.as_mut().expect("nobody writes while nothing is on its way")))
    }

    /// Waits for all blocks, ends the threads, returns the sink.
    pub(crate) fn finish(mut self) -> Result<S, Error> {
        self.drain()?;
        self.close();
        let sink = self.shared.lock().sink.take();
        Ok(sink.expect("a ring that is pulled is dropped, not finished"))
    }

    /// Starts another thread, if the system allows it. If not, and there is no thread yet, returns the job
    /// just added: from now on the caller does all work.
    fn spawn(&mut self) -> Option<J> {
        self.threads.retain(|thread| !thread.is_finished());
        let (shared, make_work) = (Arc::clone(&self.shared), Arc::clone(&self.make_work));
        let spawned =
            std::thread::Builder::new().name("tamp".into()).spawn(move || serve(&shared, &mut *make_work()));
        if let Ok(thread) = spawned {
            self.threads.push(thread);
            return None;
        }
        let mut state = self.shared.lock();
        state.workers -= 1;
        // The last thread does not end by itself, so there was no thread, and nothing else is in flight.
        let (_, job) = if state.workers == 0 { state.waiting.pop_back()? } else { return None };
        state.finished.pop_back();
        state.in_flight -= 1;
        drop(state);
        self.shared.meter.worker_began();
        self.own_work = Some((self.make_work)());
        (self.threads_max, self.capacity) = (1, 1);
        Some(job)
    }

    /// Returns the first error once; later calls return that an earlier write failed.
    fn check(&self) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if !state.dead {
            return Ok(());
        }
        Err(state.failed.take().unwrap_or_else(|| std::io::Error::other("an earlier write failed").into()))
    }
}

impl<J, O, S> Ring<J, O, S> {
    fn close(&mut self) {
        self.shared.lock().closed = true;
        self.shared.job_came.notify_all();
        for thread in self.threads.drain(..) {
            // A panic is already stored in `failed`.
            let _ = thread.join();
        }
        if self.own_work.take().is_some() {
            self.shared.meter.worker_ended();
        }
    }
}

impl<J, O, S> Drop for Ring<J, O, S> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.dead = true;
        state.waiting.clear();
        drop(state);
        self.close();
    }
}

impl<J, O, S> std::fmt::Debug for Ring<J, O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl<J, O, S> Shared<J, O, S> {
    /// Locks the state, even after a panic: [`Farewell`] reports the panic, and the state is always
    /// consistent.
    fn lock(&self) -> MutexGuard<'_, State<J, O, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a product is finished; charges the time to the codec or to the output.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State<J, O, S>>,
        look_up: &mut dyn FnMut(),
    ) -> MutexGuard<'a, State<J, O, S>> {
        let for_whom = if state.writing { Doing::Blocked } else { Doing::Codec };
        let begun = now();
        let (state, timeout) =
            self.product_left.wait_timeout(state, LOOK_UP).unwrap_or_else(PoisonError::into_inner);
        self.meter.charge(for_whom, begun);
        if !timeout.timed_out() {
            return state;
        }
        drop(state);
        look_up();
        self.lock()
    }
}

impl<J, O, S: Sink<O>> Shared<J, O, S> {
    /// Writes finished products in order, unless another thread does.
    fn drain<'a>(&'a self, mut state: MutexGuard<'a, State<J, O, S>>) {
        while let Some(Some(_)) = state.finished.front() {
            if state.dead {
                break;
            }
            let Some(mut sink) = state.sink.take() else { break };
            let product = state.finished.pop_front().flatten().expect("it was just seen");
            state.next += 1;
            state.writing = true;
            drop(state);
            let put = sink.put(product);
            state = self.lock();
            state.writing = false;
            state.sink = Some(sink);
            state.in_flight -= 1;
            if let Err(error) = put {
                state.fail(error);
            }
            self.product_left.notify_all();
        }
    }
}

impl<J, O, S> State<J, O, S> {
    fn fail(&mut self, error: Error) {
        self.dead = true;
        self.failed.get_or_insert(error);
        self.waiting.clear();
    }
}

/// Body of a worker thread.
fn serve<J, O, S: Sink<O>>(shared: &Shared<J, O, S>, work: &mut dyn FnMut(J) -> O) {
    let _farewell = Farewell { shared };
    shared.meter.worker_began();
    while let Some((number, job)) = next_job(shared) {
        let cpu_from = cpu_time();
        let product = work(job);
        shared.meter.worked(cpu_from);
        let mut state = shared.lock();
        if state.dead {
            return;
        }
        let place = usize::try_from(number - state.next).expect("the ring is short");
        state.finished[place] = Some(product);
        if state.sink.is_some() {
            shared.drain(state);
        } else {
            shared.product_left.notify_all();
        }
    }
}

/// Waits for a job; `None` if this thread is no longer needed.
fn next_job<J, O, S>(shared: &Shared<J, O, S>) -> Option<(u64, J)> {
    let mut state = shared.lock();
    let job = loop {
        if let Some(job) = state.waiting.pop_front() {
            break Some(job);
        }
        if state.closed || state.dead {
            break None;
        }
        let (woken, timeout) =
            shared.job_came.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        if timeout.timed_out() && state.waiting.is_empty() && state.workers > 1 {
            break None;
        }
    };
    if job.is_none() {
        state.workers -= 1;
    }
    job
}

/// Counts a thread out, and notifies the others if it panicked.
struct Farewell<'a, J, O, S> {
    shared: &'a Shared<J, O, S>,
}

impl<J, O, S> Drop for Farewell<'_, J, O, S> {
    fn drop(&mut self) {
        self.shared.meter.worker_ended();
        if std::thread::panicking() {
            self.shared.lock().fail(Error::Panicked);
            self.shared.product_left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collect(Vec<u64>);

    impl Sink<u64> for Collect {
        fn put(&mut self, product: u64) -> Result<(), Error> {
            if product == 2 * 500 {
                return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
            }
            self.0.push(product);
            Ok(())
        }
    }

    fn doubling(threads: usize) -> Ring<u64, u64, Collect> {
        let make: MakeWork<u64, u64> = Arc::new(|| {
            Box::new(|n| {
                assert!(n != 600, "asked to panic");
                2 * n
            })
        });
        Ring::new(threads, Arc::new(Meter::new()), make, Some(Collect(Vec::new())))
    }

    #[test]
    fn products_come_out_in_order_whatever_the_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let mut ring = doubling(threads);
            for n in 0..400 {
                ring.push(n).unwrap();
            }
            let found = ring.finish().unwrap().0;
            assert_eq!(found, (0..400).map(|n| 2 * n).collect::<Vec<_>>(), "{threads} threads");
        }
    }

    #[test]
    fn an_error_of_the_sink_reaches_the_caller_once_and_stops_the_ring() {
        for threads in [1, 4] {
            let mut ring = doubling(threads);
            let pushed = (490..).try_for_each(|n| ring.push(n));
            let kind = match pushed.unwrap_err() {
                Error::Io(error) => error.kind(),
                other => panic!("{other}"),
            };
            assert_eq!(kind, std::io::ErrorKind::StorageFull);
            assert!(ring.push(0).is_err());
            assert!(ring.finish().is_err());
        }
    }

    #[test]
    fn a_panic_of_a_worker_is_an_error_not_a_hang() {
        let mut ring = doubling(2);
        let found = (600..640).try_for_each(|n| ring.push(n)).and_then(|()| ring.drain());
        assert!(matches!(found, Err(Error::Panicked)));
    }

    /// Sink that takes each product only after a signal.
    struct Gate(std::sync::mpsc::Receiver<()>);

    impl Sink<u64> for Gate {
        fn put(&mut self, _: u64) -> Result<(), Error> {
            self.0.recv().map_err(|_| Error::Panicked)
        }
    }

    #[test]
    fn what_only_waits_to_be_written_is_no_load() {
        let (open, gate) = std::sync::mpsc::channel();
        let make: MakeWork<u64, u64> = Arc::new(|| Box::new(|n| n));
        let mut ring = Ring::new(3, Arc::new(Meter::new()), make, Some(Gate(gate)));
        for n in 0..6 {
            ring.push(n).unwrap();
        }
        // One thread writes the first block; another, which started when blocks piled up, processes the rest.
        while ring.load().occupancy_ratio != Some(0.0) {
            std::thread::yield_now();
        }
        assert!(!ring.has_room());
        for _ in 0..6 {
            open.send(()).unwrap();
        }
        ring.finish().unwrap();
    }

    #[test]
    fn a_pulled_ring_yields_in_order_and_then_nothing() {
        for threads in [1, 3] {
            let make: MakeWork<u64, u64> = Arc::new(|| Box::new(|n| n + 1));
            let mut ring: Ring<u64, u64, Pulled> = Ring::new(threads, Arc::new(Meter::new()), make, None);
            let mut found = Vec::new();
            for n in 0..100 {
                if !ring.has_room() {
                    found.extend(ring.pull().unwrap());
                }
                ring.push(n).unwrap();
            }
            while let Some(n) = ring.pull().unwrap() {
                found.push(n);
            }
            assert_eq!(found, (1..=100).collect::<Vec<_>>());
        }
    }
}
