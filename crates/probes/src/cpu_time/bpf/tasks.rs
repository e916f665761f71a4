//! CPU time of each thread, interval by interval. Pure, so tests need no root.

use std::collections::HashMap;
use std::mem;

use record::cpu::TaskSample;
use record::missing::{Maybe, Missing};

/// Unique key of a thread: its id may be reused, but not in the same nanosecond.
pub(super) type Key = (u32, u64);

/// Id of a thread's control group, then of those above it; 0: none, or not known.
pub(super) type Cgroups = [u64; 5];

/// The sums of one thread since the programs were attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) on_cpu_ns: u64,
    pub(super) alone_ns: u64,
    /// Core share, in 1/840 ns.
    pub(super) share: u64,
    pub(super) stints: u64,
    pub(super) interrupted_ns: u64,
}

/// Record of a thread from the kernel side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskRecord {
    pub(super) key: Key,
    /// Ids of its process and of itself, in this PID namespace if it is in there.
    pub(super) shown: (u32, u32),
    pub(super) comm: String,
    /// The closing after which `now` was last added to.
    pub(super) epoch: u64,
    pub(super) now: Sums,
    /// The sums as of that closing.
    pub(super) then: Sums,
    pub(super) user_ns: u64,
    pub(super) system_ns: u64,
    /// Time that it waited for a CPU since its sums began.
    pub(super) waited_ns: u64,
    /// Control groups at the time of the record.
    pub(super) cgroups: Cgroups,
    pub(super) ended: bool,
}

/// Units of a nanosecond in `share`, as in `cpu_time.h`.
const SHARE_UNITS: u64 = 840;

/// State of every thread as of the last closing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    last: HashMap<Key, Entry>,
    /// Threads that ended after the last closing: the rest of their time belongs to the next interval.
    ended_later: Vec<TaskRecord>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    sums: Sums,
    user_ns: u64,
    system_ns: u64,
    waited_ns: u64,
}

impl Ledger {
    /// Time of each thread in the interval that closing number `epoch` ended, most first, each with its
    /// control groups.
    ///
    /// `told`: every thread that has sums, in any order; one that is listed as alive and as ended has ended.
    pub(super) fn settle(&mut self, epoch: u64, told: Vec<TaskRecord>) -> Vec<(TaskSample, Cgroups)> {
        let mut threads: HashMap<Key, TaskRecord> = HashMap::with_capacity(told.len());
        for one in mem::take(&mut self.ended_later).into_iter().chain(told) {
            if one.ended || threads.get(&one.key).is_none_or(|known| !known.ended) {
                threads.insert(one.key, one);
            }
        }
        let before = mem::take(&mut self.last);
        let mut samples = Vec::new();
        for (key, told) in threads {
            let is_later = told.epoch == epoch;
            let entry = Entry {
                sums: if is_later { told.then } else { told.now },
                user_ns: told.user_ns,
                system_ns: told.system_ns,
                waited_ns: told.waited_ns,
            };
            let had = before.get(&key).copied().unwrap_or_default();
            let ended = told.ended && !is_later;
            samples.extend(sample(&told, had, entry, ended).map(|sample| (sample, told.cgroups)));
            if !ended {
                self.last.insert(key, entry);
            }
            if told.ended && is_later {
                self.ended_later.push(told);
            }
        }
        samples.sort_by_key(|(s, _)| (std::cmp::Reverse(s.on_cpu_ns), s.tid));
        samples
    }
}

/// `None` if the thread neither had a CPU in the interval nor waited for one.
fn sample(told: &TaskRecord, had: Entry, has: Entry, ended: bool) -> Option<TaskSample> {
    let grown = |of: fn(&Sums) -> u64| of(&has.sums).saturating_sub(of(&had.sums));
    let on_cpu_ns = grown(|s| s.on_cpu_ns);
    let stints = grown(|s| s.stints);
    let wait_ns = has.waited_ns.saturating_sub(had.waited_ns);
    if on_cpu_ns == 0 && stints == 0 && wait_ns == 0 {
        return None;
    }
    // The core's clock and the CPU's are read a few nanoseconds apart.
    let alone_ns = grown(|s| s.alone_ns).min(on_cpu_ns);
    let (user, system) =
        (has.user_ns.saturating_sub(had.user_ns), has.system_ns.saturating_sub(had.system_ns));
    Some(TaskSample {
        pid: told.shown.0,
        tid: told.shown.1,
        comm: told.comm.clone(),
        cgroup: Err(Missing::because("it is named later")),
        on_cpu_ns,
        alone_ns,
        sibling_busy_ns: on_cpu_ns - alone_ns,
        core_share_ns: grown(|s| s.share) / SHARE_UNITS,
        stints,
        interrupted_ns: grown(|s| s.interrupted_ns),
        wait_ns: Ok(wait_ns),
        user_ns: split(on_cpu_ns, user, user + system),
        system_ns: split(on_cpu_ns, system, user + system),
        ended,
    })
}

/// Splits exact time in the ratio of the ticks, as the kernel does; missing if there were none.
fn split(on_cpu_ns: u64, part: u64, whole: u64) -> Maybe<u64> {
    if whole == 0 {
        return Err(Missing::because("no tick found the thread running"));
    }
    let share = u128::from(on_cpu_ns) * u128::from(part) / u128::from(whole);
    Ok(u64::try_from(share).expect("a part of a whole that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tid: u32, epoch: u64, then_ns: u64, now_ns: u64) -> TaskRecord {
        let sums = |ns: u64| Sums {
            on_cpu_ns: ns,
            alone_ns: ns,
            share: ns * SHARE_UNITS,
            stints: ns / 100,
            interrupted_ns: 0,
        };
        TaskRecord {
            key: (tid, 7),
            shown: (1, tid),
            comm: "t".into(),
            epoch,
            now: sums(now_ns),
            then: sums(then_ns),
            user_ns: 0,
            system_ns: 0,
            waited_ns: 0,
            cgroups: [1, 0, 0, 0, 0],
            ended: false,
        }
    }

    fn times(samples: &[(TaskSample, Cgroups)]) -> Vec<(u32, u64, bool)> {
        samples.iter().map(|(s, _)| (s.tid, s.on_cpu_ns, s.ended)).collect()
    }

    #[test]
    fn time_after_the_closing_belongs_to_the_next_interval() {
        let mut ledger = Ledger::default();
        // Read a little after closing 1, when one of them had already run again.
        assert_eq!(
            times(&ledger.settle(1, vec![told(5, 1, 300, 450), told(6, 0, 0, 200)])),
            [(5, 300, false), (6, 200, false)]
        );
        assert_eq!(
            times(&ledger.settle(2, vec![told(5, 1, 300, 700), told(6, 0, 0, 200)])),
            [(5, 400, false)]
        );
    }

    #[test]
    fn a_thread_that_ends_keeps_its_time() {
        let mut ledger = Ledger::default();
        ledger.settle(1, vec![told(5, 0, 0, 100)]);
        let ended = TaskRecord { ended: true, ..told(5, 1, 100, 350) };
        // Listed as alive by the first source, and as ended by the next.
        assert_eq!(times(&ledger.settle(2, vec![told(5, 1, 100, 340), ended])), [(5, 250, true)]);
        assert_eq!(times(&ledger.settle(3, vec![])), []);
    }

    #[test]
    fn a_thread_that_ends_just_after_a_closing_is_split_between_both_intervals() {
        let mut ledger = Ledger::default();
        let ended = TaskRecord { ended: true, ..told(5, 1, 100, 350) };
        assert_eq!(times(&ledger.settle(1, vec![ended])), [(5, 100, false)]);
        assert_eq!(times(&ledger.settle(2, vec![])), [(5, 250, true)]);
        assert_eq!(times(&ledger.settle(3, vec![])), []);
    }

    #[test]
    fn a_thread_that_waited_all_the_time_is_there_too() {
        let mut ledger = Ledger::default();
        ledger.settle(1, vec![told(5, 0, 0, 300)]);
        let waits = TaskRecord { waited_ns: 1_000_000_000, ..told(5, 0, 0, 300) };
        let found = ledger.settle(2, vec![waits]);
        assert_eq!(times(&found), [(5, 0, false)]);
        assert_eq!(found[0].0.wait_ns, Ok(1_000_000_000));
    }

    #[test]
    fn an_id_that_is_given_again_is_another_thread() {
        let mut ledger = Ledger::default();
        ledger.settle(1, vec![told(5, 0, 0, 1_000)]);
        let again = TaskRecord { key: (5, 8), ..told(5, 1, 0, 300) };
        assert_eq!(times(&ledger.settle(2, vec![again])), [(5, 300, false)]);
    }

    #[test]
    fn time_is_split_as_ticks_found_it_and_not_at_all_without_ticks() {
        let with_ticks = TaskRecord { user_ns: 30, system_ns: 10, ..told(5, 0, 0, 1_000) };
        let sample = &Ledger::default().settle(1, vec![with_ticks])[0].0;
        assert_eq!(
            (sample.user_ns.clone(), sample.system_ns.clone()),
            (Ok(1_000 * 30 / 40), Ok(1_000 * 10 / 40))
        );
        let without = &Ledger::default().settle(1, vec![told(5, 0, 0, 1_000)])[0].0;
        assert!(without.user_ns.is_err());
    }
}
