//! A worker's own waits for a CPU, by the kernel's account.
//!
//! An answer that arrives while its worker is runnable and not running is stamped when the worker runs again.
//! No stamp says so: the time counts as service. The account of the thread does.
//!
//! Reading the account is a system call of about a microsecond. So it is read after an event that lasted for
//! [`READ_NS_MIN`], since a shorter one holds no such wait, and once in [`READ_NS_MAX`] beside, since short
//! waits add up.

use crate::measure::client::OwnAccount;

/// Shortest wait that is known, and minimum time between two readings of the account.
const READ_NS_MIN: u64 = 100_000;
/// Time after the last reading from which any event reads the account.
const READ_NS_MAX: u64 = 10_000_000;

/// Reads the time for which the thread was runnable and did not run; `None` if the kernel does not count it.
pub(crate) type ReadWaited = Box<dyn Fn() -> Option<u64> + Send>;

/// The waits of one thread; without an account, none.
#[derive(Default)]
pub(crate) struct Waits {
    read: Option<ReadWaited>,
    /// Time of the last reading.
    read_at_ns: u64,
    /// Value of the last reading.
    waited_ns: u64,
}

impl Waits {
    /// The waits of the calling thread from `now_ns` on.
    pub(crate) fn of_this_thread(now_ns: u64) -> Self {
        let account = OwnAccount::open();
        Self::by(Box::new(move || account.waited_ns()), now_ns)
    }

    /// The waits by another account.
    pub(crate) fn by(read: ReadWaited, now_ns: u64) -> Self {
        let waited_ns = read().unwrap_or_default();
        Self { read: Some(read), read_at_ns: now_ns, waited_ns }
    }

    /// The account when an event starts, for [`Self::within`].
    ///
    /// - `lateness_ns`: delay of the start. What the thread waited then is in it.
    pub(crate) fn begin(&mut self, start_ns: u64, lateness_ns: u64) -> u64 {
        if lateness_ns >= READ_NS_MIN {
            self.read(start_ns);
        }
        self.waited_ns + lateness_ns.min(start_ns.saturating_sub(self.read_at_ns))
    }

    /// Time of an event that has ended for which the thread waited for a CPU.
    ///
    /// - `begun`: from [`Self::begin`].
    pub(crate) fn within(&mut self, begun: u64, start_ns: u64, end_ns: u64) -> u64 {
        let lasted_ns = end_ns.saturating_sub(start_ns);
        if lasted_ns >= READ_NS_MIN || end_ns >= self.read_at_ns.saturating_add(READ_NS_MAX) {
            self.read(end_ns);
        }
        self.waited_ns.saturating_sub(begun).min(lasted_ns)
    }

    /// Reads the account, unless the last reading was at most [`READ_NS_MIN`] ago.
    fn read(&mut self, now_ns: u64) {
        if now_ns < self.read_at_ns.saturating_add(READ_NS_MIN) {
            return;
        }
        if let Some(waited_ns) = self.read.as_ref().and_then(|read| read()) {
            (self.read_at_ns, self.waited_ns) = (now_ns, waited_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const US: u64 = 1_000;

    /// Waits by an account that a test advances, and the number of its readings.
    fn by_hand() -> (Waits, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (account, readings) = (Arc::new(AtomicU64::new(7_000 * US)), Arc::new(AtomicU64::new(0)));
        let (read, count) = (Arc::clone(&account), Arc::clone(&readings));
        let read = move || {
            count.fetch_add(1, Ordering::SeqCst);
            Some(read.load(Ordering::SeqCst))
        };
        (Waits::by(Box::new(read), 0), account, readings)
    }

    #[test]
    fn a_wait_counts_for_the_event_in_which_it_was() {
        let (mut waits, account, _) = by_hand();
        // A wait of 24 ms before the start is lateness, whether or not the account was read meanwhile.
        account.fetch_add(24_000 * US, Ordering::SeqCst);
        let begun = waits.begin(25_000 * US, 24_000 * US);
        assert_eq!(waits.within(begun, 25_000 * US, 25_300 * US), 0);
        account.fetch_add(50 * US, Ordering::SeqCst);
        let begun = waits.begin(26_000 * US, 50 * US);
        assert_eq!(waits.within(begun, 26_000 * US, 26_300 * US), 0);
        // One after the answer is not.
        let begun = waits.begin(27_000 * US, 0);
        account.fetch_add(24_000 * US, Ordering::SeqCst);
        assert_eq!(waits.within(begun, 27_000 * US, 51_300 * US), 24_000 * US);
        let begun = waits.begin(52_000 * US, 0);
        assert_eq!(waits.within(begun, 52_000 * US, 52_300 * US), 0, "it counts once");
    }

    #[test]
    fn a_wait_is_never_longer_than_its_event() {
        let (mut waits, account, _) = by_hand();
        let begun = waits.begin(1_000 * US, 0);
        account.fetch_add(24_000 * US, Ordering::SeqCst);
        assert_eq!(waits.within(begun, 1_000 * US, 1_300 * US), 300 * US);
        assert_eq!(Waits::default().within(0, 0, 1_000 * US), 0, "no account");
    }

    #[test]
    fn short_events_need_few_readings() {
        let (mut waits, _, readings) = by_hand();
        for event in 0..100_000 {
            let begun = waits.begin(10 * US * event, 2 * US);
            waits.within(begun, 10 * US * event, 10 * US * event + 8 * US);
        }
        // A second of events of 8 us each.
        let found = readings.load(Ordering::SeqCst);
        assert!((90..=102).contains(&found), "{found}");
    }
}
