//! What this machine's `vmstat -s` prints, read by us, against the kernel's own counters.

use std::fs;
use std::process::Command;

use bakeoff_import::Input;
use bakeoff_import::vmstat_s::{Found, Snapshot, read};

/// user and nice, system and interrupts: guests are in the first two already.
fn kernel() -> [u64; 2] {
    let text = fs::read_to_string("/proc/stat").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with("cpu ")).expect("its first line");
    let n: Vec<u64> = line.split_ascii_whitespace().skip(1).map(|n| n.parse().expect("a number")).collect();
    [n[0] + n[1], n[2] + n[5] + n[6]]
}

#[test]
fn a_snapshot_lies_between_what_the_kernel_says_before_and_after() {
    let before = kernel();
    let Ok(output) = Command::new("vmstat").arg("-s").env("LC_ALL", "C").output() else {
        return eprintln!("skipped: needs vmstat");
    };
    let after = kernel();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let text = output.stdout;
    let read = read(Input::Whole(Box::new(&text[..])), &mut |found| {
        if let Found::Snapshot(snapshot) = found {
            snapshots.push(snapshot.clone());
        }
        Ok(())
    });
    read.expect("it is vmstat -s");
    let ticks = snapshots[0].ticks;
    for (place, found) in [ticks.user, ticks.system].into_iter().enumerate() {
        assert!((before[place]..=after[place]).contains(&found), "{place}: {before:?} {found} {after:?}");
    }
    assert!(snapshots[0].guest <= ticks.user, "guests are inside user: {:?}", snapshots[0]);
}
