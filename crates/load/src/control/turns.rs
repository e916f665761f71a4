//! Turns of a load: between two of them it rests, with its connections open and nothing in flight.
//!
//! The load's own clock counts only its turns. At the end of a turn no event begins any more, and those in
//! flight end. Each worker has then worked for another time, up to the end of its last event. The clock
//! continues from the mean of these times: the number of events a worker completes is decided by a rule that
//! looks at no later event, so events per mean time is unbiased (Wald), even if each event is longer than a
//! turn. Time in which some workers had nothing to do, because others were not finished, counts for none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::clock::{Clock, Monotonic};

use crate::schedule::clock::to_ns;

/// Interval at which a thread that rests checks whether the load is over. The threads of all loads of a block
/// do so while one of these is measured.
const LOOK: Duration = Duration::from_millis(100);
/// The clock runs.
const RUNS: u64 = u64::MAX;

/// Turns of one load.
#[derive(Debug)]
pub struct Turns {
    is_open: AtomicBool,
    /// Time at which the clock stands; [`RUNS`] if it runs.
    stands_ns: AtomicU64,
    /// Time by which the running clock is behind the kernel's.
    behind_ns: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Times at which the resting workers began to rest.
    resting_ns: Vec<u64>,
    /// Workers that have not left.
    workers: usize,
    turns: u32,
    /// Number of times that the workers were let go.
    openings: u64,
}

impl Turns {
    /// The first turn, which has begun: it also contains the connecting.
    ///
    /// - `workers`: threads of the load.
    pub fn begun(workers: u32) -> Self {
        Self {
            is_open: AtomicBool::new(true),
            stands_ns: AtomicU64::new(RUNS),
            behind_ns: AtomicU64::new(0),
            state: Mutex::new(State { workers: workers as usize, turns: 1, ..State::default() }),
            changed: Condvar::new(),
        }
    }

    /// Number of turns so far.
    pub fn count(&self) -> u32 {
        self.lock().turns
    }

    /// Begins the next turn.
    pub fn open(&self) {
        let at_ns = self.stands_ns.load(Ordering::SeqCst);
        self.lock().turns += 1;
        self.go_from(at_ns);
    }

    /// Ends the turn: waits until no event is in flight. False if some do not end within `patience`; then the
    /// turn goes on.
    ///
    /// - `hopes`: whether it is worth to wait on; asked now and then.
    #[must_use]
    pub fn close(&self, patience: Duration, hopes: &dyn Fn() -> bool) -> bool {
        match self.rest(patience, hopes) {
            Some(at_ns) => {
                self.stands_ns.store(at_ns, Ordering::SeqCst);
                true
            }
            None => false,
        }
    }

    /// Lets the load run for a time that does not count, nor do the events in it: caches fill again after the
    /// processes of the target stood still. False as in [`Self::close`]; then nothing counts any more, and
    /// the load can only be stopped.
    #[must_use]
    pub fn settle(&self, time: Duration, patience: Duration, hopes: &dyn Fn() -> bool) -> bool {
        let at_ns = self.stands_ns.load(Ordering::SeqCst);
        // The clock shows a time before the load: what begins and ends then belongs to its warm-up.
        self.go_from(1);
        std::thread::sleep(time);
        let has_rest = self.rest(patience, hopes).is_some();
        if has_rest {
            self.stands_ns.store(at_ns, Ordering::SeqCst);
        }
        has_rest
    }

    fn go_from(&self, at_ns: u64) {
        let mut state = self.lock();
        state.resting_ns.clear();
        state.openings += 1;
        self.behind_ns.store(Monotonic.now_ns().saturating_sub(at_ns), Ordering::SeqCst);
        self.stands_ns.store(RUNS, Ordering::SeqCst);
        self.is_open.store(true, Ordering::SeqCst);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets no event begin, and waits for those in flight. The time from which the clock is to continue;
    /// `None` if some do not end.
    fn rest(&self, patience: Duration, hopes: &dyn Fn() -> bool) -> Option<u64> {
        let until_ns = Monotonic.now_ns().saturating_add(to_ns(patience));
        let mut state = self.lock();
        self.is_open.store(false, Ordering::SeqCst);
        while state.resting_ns.len() < state.workers {
            let left = Duration::from_nanos(until_ns.saturating_sub(Monotonic.now_ns()));
            if left.is_zero() || !hopes() {
                self.is_open.store(true, Ordering::SeqCst);
                state.resting_ns.clear();
                state.openings += 1;
                self.changed.notify_all();
                return None;
            }
            state =
                self.changed.wait_timeout(state, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        }
        let rested = &state.resting_ns;
        let first_ns = rested.iter().min().copied();
        Some(first_ns.map_or_else(
            || self.now_ns(),
            |first_ns| {
                first_ns + rested.iter().map(|at_ns| at_ns - first_ns).sum::<u64>() / rested.len() as u64
            },
        ))
    }

    /// Rests here between two turns; called by a worker before each event. Returns whether it rested.
    ///
    /// - `is_over`: whether the load has ended.
    #[inline]
    pub(crate) fn pass(&self, is_over: impl Fn() -> bool) -> bool {
        let rests = !self.is_open.load(Ordering::SeqCst);
        if rests {
            self.wait(is_over);
        }
        rests
    }

    #[cold]
    fn wait(&self, is_over: impl Fn() -> bool) {
        let mut state = self.lock();
        while !self.is_open.load(Ordering::SeqCst) {
            let since_ns = self.now_ns();
            state.resting_ns.push(since_ns);
            self.changed.notify_all();
            // A worker that wakes late may find that it slept through a whole turn.
            let openings = state.openings;
            while state.openings == openings {
                if is_over() {
                    // It rests no more, and leaves.
                    if let Some(at) = state.resting_ns.iter().position(|at_ns| *at_ns == since_ns) {
                        state.resting_ns.swap_remove(at);
                    }
                    return;
                }
                state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// The load is over, perhaps before it had workers: nothing waits for them any more.
    pub fn end(&self) {
        self.lock().workers = 0;
        self.changed.notify_all();
    }

    /// A worker has ended.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.workers = state.workers.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the clock stands.
    pub(crate) fn stands(&self) -> bool {
        self.stands_ns.load(Ordering::SeqCst) != RUNS
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Turns {
    fn now_ns(&self) -> u64 {
        match self.stands_ns.load(Ordering::SeqCst) {
            RUNS => Monotonic.now_ns().saturating_sub(self.behind_ns.load(Ordering::SeqCst)),
            at_ns => at_ns,
        }
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        let state = self.lock();
        if self.stands() {
            drop(self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner));
            return;
        }
        drop(state);
        // It returns early, which callers allow for: the caller may have read a clock that was set back
        // since, and then its deadline is hours away.
        let until_ns = deadline_ns.saturating_add(self.behind_ns.load(Ordering::SeqCst));
        Monotonic.sleep_until_ns(until_ns.min(Monotonic.now_ns() + to_ns(LOOK)));
    }
}
