//! Records of threads from the programs.

use std::cell::RefCell;
use std::io::Read;
use std::ptr;

use libbpf_rs::{Iter, ProgramInput, RingBufferBuilder};

use super::skel::CpuTimeSkel;
use super::skel::types::{contender, contest, task_record, task_time};
use super::tasks::{Sums, TaskRecord};
use crate::program;

/// Records of every thread, the living and those that ended.
///
/// - `walks_itself`: by our program, which sees the whole machine from every PID namespace.
pub(super) fn task_records(
    skel: &mut CpuTimeSkel<'_>,
    walks_itself: bool,
) -> Result<Vec<TaskRecord>, Box<dyn std::error::Error>> {
    let told = RefCell::new(Vec::new());
    let mut living = Vec::new();
    if walks_itself {
        begin_walk(skel);
        while walk_on(skel)? {
            take_records(skel, &told)?;
        }
    } else {
        let link = skel.progs.tell_tasks.attach()?;
        Iter::new(&link)?.read_to_end(&mut living)?;
    }
    take_records(skel, &told)?;
    let living = living.chunks_exact(size_of::<task_record>()).map(record_of);
    Ok(living.chain(told.into_inner()).collect())
}

fn begin_walk(skel: &mut CpuTimeSkel<'_>) {
    let shared = skel.maps.bss_data.as_deref_mut().expect("our object has a .bss");
    let walk = &raw mut shared.walk;
    // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the programs only read it.
    unsafe { ptr::write_volatile(walk, ptr::read_volatile(walk) + 1) };
}

/// Tells of as many threads as there is room for; `false` if none are left.
fn walk_on(skel: &CpuTimeSkel<'_>) -> libbpf_rs::Result<bool> {
    skel.progs.tell_all_tasks.test_run(ProgramInput::default())?;
    let shared = skel.maps.bss_data.as_deref().expect("our object has a .bss");
    // SAFETY: an aligned word in memory that is mapped as long as `skel` lives; the program has ended.
    Ok(unsafe { ptr::read_volatile(&raw const shared.is_cut_short) } != 0)
}

fn take_records(skel: &CpuTimeSkel<'_>, told: &RefCell<Vec<TaskRecord>>) -> libbpf_rs::Result<()> {
    let mut ring = RingBufferBuilder::new();
    ring.add(&skel.maps.ended, |bytes| {
        told.borrow_mut().push(record_of(bytes));
        0
    })?;
    ring.build()?.consume()
}

fn record_of(bytes: &[u8]) -> TaskRecord {
    assert!(bytes.len() >= size_of::<task_record>(), "the programs write whole records");
    // SAFETY: long enough, checked above; plain integers and bytes, so every pattern is a value.
    let record: task_record = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
    let sums = |t: &task_time| Sums {
        on_cpu_ns: t.on_cpu_ns,
        alone_ns: t.alone_ns,
        share: t.share,
        stints: t.stints,
        interrupted_ns: t.interrupted_ns,
    };
    TaskRecord {
        key: (record.tid, record.started_ns),
        shown: match (record.books.own_tgid, record.books.own_tid) {
            (_, 0) => (record.tgid, record.tid),
            own => own,
        },
        comm: program::text(&record.comm),
        epoch: record.books.epoch,
        now: sums(&record.books.now),
        then: sums(&record.books.then),
        user_ns: record.utime_ns,
        system_ns: record.stime_ns,
        waited_ns: record.waited_ns,
        cgroups: record.cgroups,
        ended: record.lives == 0,
    }
}

/// The thread that certainly ran most: time that it may have inherited from others does not count.
pub(super) fn winner<const W: usize>(
    contests: &[contest],
    contenders: &[[contender; W]],
) -> Option<(usize, usize, u64)> {
    let all = contests.iter().zip(contenders).enumerate().flat_map(|(set, (contest, who))| {
        (0..W).map(move |way| (set, way, contest.ns[way].saturating_sub(who[way].over_ns)))
    });
    all.max_by_key(|(_, _, ns)| *ns).filter(|(_, _, ns)| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_winner_is_whoever_ran_most_for_certain() {
        let mut contests = [contest::default(), contest::default()];
        contests[0].tid = [10, 11, 0, 0];
        contests[0].ns = [500, 700, 0, 0];
        let mut contenders = [[contender::default(); 4], [contender::default(); 4]];
        contenders[0][1].over_ns = 300;
        // A slot that no thread has taken since the last closing keeps its old thread.
        contenders[1][2].over_ns = 99;
        contests[1].tid = [21, 0, 0, 0];
        contests[1].ns = [450, 0, 0, 0];
        assert_eq!(winner(&contests, &contenders), Some((0, 0, 500)));
        assert_eq!(winner(&[contest::default()], &contenders), None);
    }
}
