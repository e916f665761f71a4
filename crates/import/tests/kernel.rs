//! Compares our reading of this machine's `vmstat -s` with the kernel's counters.

use std::fs;
use std::process::Command;

use bakeoff_import::Input;
use bakeoff_import::vmstat_s::{Clockwork, Found, Snapshot, interval, read};

/// The first line of a `/proc/stat`: user nice system idle iowait irq softirq steal guest `guest_nice`.
fn ticks_in(path: &str) -> Vec<u64> {
    let text = fs::read_to_string(path).expect("it can be read");
    let line = text.lines().find(|line| line.starts_with("cpu ")).expect("its first line");
    line.split_ascii_whitespace().skip(1).map(|n| n.parse().expect("a number")).collect()
}

/// Returns user and nice, system and interrupts. The first two include guests.
fn kernel() -> [u64; 2] {
    let n = ticks_in("/proc/stat");
    [n[0] + n[1], n[2] + n[5] + n[6]]
}

fn snapshots(text: &[u8]) -> Vec<Snapshot> {
    let mut all = Vec::new();
    let end = read(Input::Whole(Box::new(text)), &mut |found| {
        if let Found::Snapshot(snapshot) = found {
            all.push(snapshot.clone());
        }
        Ok(())
    });
    end.expect("it is vmstat -s");
    all
}

/// Two CPUs, 10 s; guests had all but 25 of 990 ticks of user time. `vmstat -s` of both versions read the
/// `before` and `after` beside these files in place of `/proc/stat`.
#[test]
fn a_host_of_guests_is_as_busy_as_the_kernel_says_whichever_version_printed_it() {
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/vmstat_s/");
    let stat = |name: &str| ticks_in(&format!("{FOLDER}host-of-guests-{name}.proc-stat"));
    let rose: Vec<u64> = stat("after").iter().zip(stat("before")).map(|(a, b)| a - b).collect();
    // By hand: 990 of user and nice, 150 of system, 1 and 8 of interrupts, of 2000.
    let busy = rose[0] + rose[1] + rose[2] + rose[5] + rose[6];
    let all: u64 = rose[..8].iter().sum();
    assert_eq!((busy, all, rose[8] + rose[9]), (1149, 2000, 965));
    for (version, has_guests) in [("procps-3.3.17", false), ("procps-4.0.2", true)] {
        let text = fs::read(format!("{FOLDER}{version}-host-of-guests.txt")).expect("it is there");
        let all = snapshots(&text);
        for elapsed_s in [None, Some(10.0)] {
            let clockwork = Clockwork { hz: 100.0, cpus: Some(2), elapsed_s };
            let found = interval(&all[0], &all[1], &clockwork);
            assert_eq!(found.busy_ratio(), Ok(1149.0 / 2000.0), "{version}");
            assert_eq!((found.unaccounted_ratio, found.contradiction), (Ok(0.0), None), "{version}");
        }
        assert_eq!(all[1].guest - all[0].guest, if has_guests { 965 } else { 0 }, "{version}");
    }
}

#[test]
fn a_snapshot_lies_between_what_the_kernel_says_before_and_after() {
    let before = kernel();
    let Ok(output) = Command::new("vmstat").arg("-s").env("LC_ALL", "C").output() else {
        return eprintln!("skipped: needs vmstat");
    };
    let after = kernel();
    let snapshots = snapshots(&output.stdout);
    let ticks = snapshots[0].ticks;
    for (place, found) in [ticks.user, ticks.system].into_iter().enumerate() {
        let kernels = u128::from(before[place])..=u128::from(after[place]);
        assert!(kernels.contains(&found), "{place}: {before:?} {found} {after:?}");
    }
    // A tick of each CPU may lie between the two counters.
    assert!(snapshots[0].guest <= ticks.user + 64, "guests are inside user: {:?}", snapshots[0]);
}
