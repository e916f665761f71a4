//! The counters of one CPU, and what events say between two readings of them. Pure, so tests need no root.

use record::cpu::{RECORDS_LOST, SWITCHES_UNSEEN, TopThread, UNOWNED_NS, UNSURE_NS};
use record::missing::{Maybe, Missing};

/// One CPU's counters at a reading, since the programs were attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Books {
    /// Time of the reading, by the kernel's clock on that CPU.
    pub(super) at_ns: u64,
    pub(super) busy_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) switches: u64,
    /// Interrupts; `None` if they are not timed.
    pub(super) interrupts: Option<Interrupts>,
    /// Time that threads waited before they came on; `None` if waits are not seen.
    pub(super) wait_ns: Option<u64>,
    /// Busy time of members: see [`super::CpuProbe::adopt`].
    pub(super) member_ns: u64,
    /// Time in interrupts while members had the CPU.
    pub(super) member_interrupted_ns: u64,
    /// Losses, in the order of [`LOST`].
    pub(super) lost: [u64; LOST.len()],
    /// The thread that ran most since the previous reading; `None` if no thread ran.
    pub(super) top: Option<Top>,
}

/// Time in interrupts, all of it busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interrupts {
    pub(super) irq_ns: u64,
    pub(super) softirq_ns: u64,
    /// Number of interrupts.
    pub(super) count: u64,
    /// Time by kind, in the order of [`KINDS`].
    pub(super) by_kind: [u64; KINDS.len()],
}

/// Kinds of interrupts, as in `cpu_time.h`; the softirqs by the kernel's numbers and names.
pub(super) const KINDS: [&str; 14] = [
    "hi",
    "timer-softirq",
    "net-tx",
    "net-rx",
    "block",
    "irq-poll",
    "tasklet",
    "sched",
    "hrtimer",
    "rcu",
    "device",
    "timer",
    "call",
    "work",
];

/// Kinds of losses: switches that were not seen, the time around them that may count on the wrong side, and
/// busy time without a known thread; clock readings that went back, stints without room for the sums of a
/// task or of its core, tasks of which the end was not reported, records that the kernel had no room for,
/// interrupts without a seen end.
pub(super) const LOST: [&str; 9] = [
    SWITCHES_UNSEEN,
    UNSURE_NS,
    UNOWNED_NS,
    "clock-backward",
    "task-sums",
    "core-clock",
    "task-end",
    RECORDS_LOST,
    "interrupt-end",
];

/// A thread and the least time that it ran.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Top {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) comm: String,
    pub(super) ns: u64,
}

/// A reading, with the time by user space's clock, against which the counters are checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge {
    pub(super) wall_ns: u64,
    pub(super) books: Books,
}

/// One CPU over an interval, by events.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Events {
    pub(super) busy_ratio: f64,
    pub(super) balance_ns: i64,
    pub(super) switches: u64,
    /// Shares of time; `None` if interrupts are not timed.
    pub(super) irq_ratio: Option<f64>,
    pub(super) softirq_ratio: Option<f64>,
    /// Number of interrupts.
    pub(super) interrupts: u64,
    pub(super) wait_ns: Option<u64>,
    pub(super) top: Maybe<TopThread>,
    pub(super) lost: Vec<(&'static str, u64)>,
}

/// Computes the difference of two readings.
///
/// The share is of the time between the readings by the kernel's clock, which is exact. The balance uses user
/// space's clock, read before and after each reading: time outside of the two counts.
///
/// # Errors
///
/// Missing if no time passed, or a counter went back: the readings are of different attachments.
pub(super) fn between(before: &Edge, after: &Edge) -> Maybe<Events> {
    let (b, a) = (&before.books, &after.books);
    let grown = |of: fn(&Books) -> u64, what: &str| {
        of(a).checked_sub(of(b)).ok_or_else(|| Missing::because(format!("the count of {what} went back")))
    };
    let busy_ns = grown(|x| x.busy_ns, "busy time")?;
    let idle_ns = grown(|x| x.idle_ns, "idle time")?;
    let switches = grown(|x| x.switches, "context switches")?;
    let length_ns = grown(|x| x.at_ns, "nanoseconds")?;
    if length_ns == 0 {
        return Err(Missing::because("the interval has no length"));
    }
    let wall_ns = after.wall_ns.cast_signed() - before.wall_ns.cast_signed();
    let share = |ns: u64| ns as f64 / length_ns as f64;
    let top = a.top.as_ref().map(|t| TopThread {
        pid: t.pid,
        tid: t.tid,
        comm: t.comm.clone(),
        ratio: share(t.ns),
    });
    let interrupts = b.interrupts.zip(a.interrupts);
    let of_interrupts = |of: fn(&Interrupts) -> u64| interrupts.map(|(b, a)| of(&a).saturating_sub(of(&b)));
    let lost =
        LOST.into_iter().zip(b.lost.iter().zip(a.lost)).map(|(name, (b, a))| (name, a.saturating_sub(*b)));
    Ok(Events {
        busy_ratio: share(busy_ns),
        balance_ns: (busy_ns + idle_ns).cast_signed() - wall_ns,
        switches,
        irq_ratio: of_interrupts(|i| i.irq_ns).map(share),
        softirq_ratio: of_interrupts(|i| i.softirq_ns).map(share),
        interrupts: of_interrupts(|i| i.count).unwrap_or(0),
        wait_ns: b.wait_ns.zip(a.wait_ns).map(|(b, a)| a.saturating_sub(b)),
        top: top.ok_or_else(|| Missing::because("no thread ran")),
        lost: lost.filter(|(_, count)| *count > 0).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(wall_ns: u64, busy_ns: u64, idle_ns: u64) -> Edge {
        Edge { wall_ns, books: Books { at_ns: wall_ns, busy_ns, idle_ns, ..Books::default() } }
    }

    #[test]
    fn books_that_balance_say_the_share_and_nothing_else() {
        let events = between(&edge(1_000, 100, 900), &edge(11_000, 7_100, 3_900)).unwrap();
        assert!((events.busy_ratio - 0.7).abs() < 1e-12);
        assert_eq!((events.balance_ns, events.lost.len()), (0, 0));
        assert!(events.top.is_err());
    }

    #[test]
    fn time_that_nobody_booked_shows_in_the_balance() {
        let events = between(&edge(0, 0, 0), &edge(10_000, 3_000, 6_500)).unwrap();
        assert_eq!(events.balance_ns, -500);
    }

    #[test]
    fn time_that_was_booked_twice_shows_in_the_balance() {
        let events = between(&edge(0, 0, 0), &edge(10_000, 4_000, 6_500)).unwrap();
        assert_eq!(events.balance_ns, 500);
    }

    #[test]
    fn a_clock_that_went_back_and_switches_not_seen_are_told() {
        let mut after = edge(10, 5, 5);
        after.books.lost = [1, 3, 0, 2, 0, 0, 0, 0, 0];
        let events = between(&edge(0, 0, 0), &after).unwrap();
        assert_eq!(events.lost, [("switch-unseen", 1), ("unsure-ns", 3), ("clock-backward", 2)]);
    }

    #[test]
    fn books_of_another_attachment_are_refused() {
        assert!(between(&edge(5, 500, 0), &edge(10, 3, 3)).is_err());
        assert!(between(&edge(5, 0, 0), &edge(5, 0, 0)).is_err());
    }

    #[test]
    fn the_thread_that_ran_most_has_its_share_of_the_interval() {
        let mut after = edge(1_000, 800, 200);
        after.books.top = Some(Top { pid: 1, tid: 2, comm: "hog".into(), ns: 700 });
        let top = between(&edge(0, 0, 0), &after).unwrap().top.unwrap();
        assert_eq!((top.pid, top.tid, top.comm.as_str()), (1, 2, "hog"));
        assert!((top.ratio - 0.7).abs() < 1e-12);
    }
}
