use super::*;

fn snapshots(text: &str) -> Vec<Snapshot> {
    let mut all = Vec::new();
    read(Input::Whole(Box::new(text.as_bytes())), &mut |found| {
        if let Found::Snapshot(snapshot) = found {
            all.push(snapshot.clone());
        }
        Ok(())
    })
    .unwrap();
    all
}

fn error(text: &str) -> String {
    read(Input::Whole(Box::new(text.as_bytes())), &mut |_| Ok(())).unwrap_err().to_string()
}

const CLOCKWORK: Clockwork = Clockwork { hz: 100.0, cpus: Some(2), elapsed_s: None };

fn solaris(user: u64, system: u64, idle: u64) -> String {
    format!(
        "{:9} swap ins\n{user:9} user   cpu\n{system:9} system cpu\n{idle:9} idle   cpu\n{:9} wait   cpu\n",
        0, 0
    )
}

#[test]
fn two_snapshots_in_one_file_give_one_exact_interval() {
    let all = snapshots(&(solaris(100, 200, 700) + &solaris(150, 210, 1640)));
    let interval = interval(&all[0], &all[1], &CLOCKWORK);
    assert_eq!(interval.busy_ratio(), Ok(0.06));
    assert_eq!(interval.ratio(|ticks| ticks.idle), Ok(0.94));
    assert!(interval.unaccounted_ratio.unwrap_err().reason.contains("--elapsed"));
    assert_eq!(interval.counters[0], ("swap ins".into(), Ok(0)));
}

#[test]
fn ticks_that_should_have_come_and_did_not_are_unaccounted() {
    let dated = |date: &str, text: String| format!("{date}\n{text}");
    let text = dated("Tue Mar  4 09:05:01 2008", solaris(0, 0, 0))
        + &dated("Tue Mar  4 09:05:11 2008", solaris(100, 100, 300));
    let all = snapshots(&text);
    // Ten seconds, two CPUs, 100 HZ: 2000 ticks were due, 500 came.
    assert_eq!(interval(&all[0], &all[1], &CLOCKWORK).unaccounted_ratio, Ok(0.75));
    assert_eq!(interval(&all[0], &all[1], &CLOCKWORK).elapsed_s, Ok(10.0));
}

#[test]
fn ticks_that_go_back_are_missing_and_not_negative() {
    let all = snapshots(&(solaris(100, 200, 700) + &solaris(99, 210, 1640)));
    let interval = interval(&all[0], &all[1], &CLOCKWORK);
    assert!(interval.busy_ratio().unwrap_err().reason.contains("went back"));
}

#[test]
fn linux_counts_nice_guests_and_interrupts() {
    let text = "     10 K total memory\n  1 non-nice user cpu ticks\n  2 nice user cpu ticks\n  4 system cpu ticks\n  8 idle cpu ticks\n \
                16 IO-wait cpu ticks\n 32 IRQ cpu ticks\n 64 softirq cpu ticks\n 128 stolen cpu ticks\n 256 non-nice guest cpu ticks\n 512 nice guest cpu ticks\n";
    let snapshot = &snapshots(text)[0];
    let ticks = Ticks { user: 1 + 2, system: 4 + 32 + 64, idle: 8, wait: 16, stolen: 128 };
    assert_eq!((snapshot.ticks, snapshot.guest), (ticks, 256 + 512));
}

fn linux(user: u64, idle: u64, wait: u64, guest: u64) -> String {
    format!(
        "{user} non-nice user cpu ticks\n0 nice user cpu ticks\n0 system cpu ticks\n{idle} idle cpu ticks\n{wait} IO-wait cpu \
         ticks\n0 IRQ cpu ticks\n0 softirq cpu ticks\n0 stolen cpu ticks\n{guest} non-nice guest cpu ticks\n0 nice guest cpu ticks\n"
    )
}

#[test]
fn a_guests_time_counts_once() {
    let found = |text: String, elapsed_s| {
        let all = snapshots(&text);
        interval(&all[0], &all[1], &Clockwork { elapsed_s, ..CLOCKWORK })
    };
    for elapsed_s in [None, Some(10.0)] {
        // A host with two CPUs, half busy for 10 s, all of it in a guest.
        let all_of_it = found(linux(0, 0, 0, 0) + &linux(1000, 1000, 0, 1000), elapsed_s);
        assert_eq!((all_of_it.busy_ratio(), all_of_it.contradiction), (Ok(0.5), None), "{elapsed_s:?}");
        // The snapshot fell between the two counters: user time lacks one tick of the guest.
        let between = found(linux(0, 0, 0, 0) + &linux(999, 1001, 0, 1000), elapsed_s);
        assert_eq!(
            (between.busy_ratio(), between.contradiction),
            (Ok(999.0 / 2000.0), None),
            "{elapsed_s:?}"
        );
    }
    // A clock that misses a quarter of the time: that guest time would fill the gap is chance.
    let hidden = found(linux(0, 0, 0, 0) + &linux(1000, 500, 0, 500), Some(10.0));
    assert_eq!((hidden.busy_ratio(), hidden.unaccounted_ratio), (Ok(1000.0 / 1500.0), Ok(0.25)));
}

#[test]
fn more_guest_time_than_user_time_is_a_contradiction() {
    let all = snapshots(&(linux(0, 0, 0, 0) + &linux(0, 1000, 0, 1000)));
    let why = interval(&all[0], &all[1], &CLOCKWORK).contradiction.unwrap();
    assert!(why.starts_with("guests had 1000 ticks and user mode 0, which includes them"), "{why}");
    // With two CPUs, four ticks may be between the two counters; with an unknown number more.
    let all = snapshots(&(linux(0, 0, 0, 0) + &linux(50, 50, 0, 80)));
    assert!(interval(&all[0], &all[1], &CLOCKWORK).contradiction.is_some());
    let unknown = Clockwork { cpus: None, ..CLOCKWORK };
    assert_eq!(interval(&all[0], &all[1], &unknown).contradiction, None);
}

#[test]
fn more_ticks_than_the_time_has_are_a_contradiction_and_no_figure() {
    let all = snapshots(&(linux(0, 0, 0, 0) + &linux(1500, 1500, 0, 0)));
    let found = interval(&all[0], &all[1], &Clockwork { elapsed_s: Some(10.0), ..CLOCKWORK });
    let why = found.contradiction.unwrap();
    assert!(why.starts_with("50.0 % more ticks came than 2 CPUs count in 10 s"), "{why}");
    assert_eq!(found.unaccounted_ratio.unwrap_err().reason, why);
    // A tick at each end is not a contradiction.
    let near = snapshots(&(linux(0, 0, 0, 0) + &linux(1002, 1002, 0, 0)));
    let near = interval(&near[0], &near[1], &Clockwork { elapsed_s: Some(10.0), ..CLOCKWORK });
    assert_eq!(near.contradiction, None);
    // Counters near 2^64 cannot both be a hundred percent.
    let huge = snapshots(&(linux(0, 0, 0, 0) + &linux(u64::MAX, u64::MAX, 0, 0)));
    let huge = interval(&huge[0], &huge[1], &CLOCKWORK);
    assert!(
        huge.contradiction.as_ref().is_some_and(|why| why.contains("more than any machine counts")),
        "{huge:?}"
    );
    assert_eq!((huge.busy_ratio(), huge.ratio(|ticks| ticks.idle)), (Ok(0.5), Ok(0.5)));
}

#[test]
fn a_snapshot_that_was_cut_in_its_ticks_is_refused_by_the_state_it_lacks() {
    let whole = linux(1000, 1000, 10, 0);
    let lines: Vec<&str> = whole.lines().collect();
    for (kept, lacks) in [(5, "IRQ"), (6, "softirq"), (7, "stolen")] {
        let cut = lines[..kept].join("\n") + "\n";
        let line = kept + 1;
        let says = format!(
            "{line}:1: found the end of the snapshot that began at line 1, expected its line of {lacks} ticks first"
        );
        assert!(error(&cut).starts_with(&says), "{}", error(&cut));
        // The last line is truncated: half a name is another name.
        let torn = format!("{cut}12 {}", &lacks[..3]);
        assert!(
            error(&torn).contains(&format!("expected its line of {lacks} ticks first")),
            "{}",
            error(&torn)
        );
        // The next file follows, as `cat` joins them.
        assert!(error(&(torn + &whole)).contains(&format!("expected its line of {lacks} ticks first")));
    }
    let solaris = solaris(1, 2, 3);
    let cut: Vec<&str> = solaris.lines().take(4).collect();
    assert!(error(&cut.join("\n")).contains("expected its line of wait ticks first"));
    // Kernels before 2.6.11 do not count stolen time: the next counter follows.
    let old = lines[..7].join("\n") + "\n0 pages paged in\n";
    assert_eq!(snapshots(&old).len(), 1);
}

#[test]
fn snapshots_with_different_lines_of_ticks_went_not_back() {
    let old: Vec<String> = linux(500, 400, 0, 0).lines().take(7).map(str::to_owned).collect();
    let all = snapshots(&(linux(1000, 1000, 0, 0) + &old.join("\n") + "\n0 pages paged in\n"));
    let why = interval(&all[0], &all[1], &CLOCKWORK).busy_ratio().unwrap_err().reason;
    assert_eq!(
        why,
        "only one of the snapshots has the line `stolen cpu ticks`: they are from different versions, or one \
         is cut"
    );
}

#[test]
fn counters_near_2_to_the_64_lose_nothing_and_are_impossible() {
    let linux =
        |nice: u64, user: u64| linux(user, 100, 0, 0).replace("0 nice user", &format!("{nice} nice user"));
    let near = u64::MAX - 615;
    let all = snapshots(&(linux(near, near) + &linux(u64::MAX, u64::MAX).replace("100 idle", "715 idle")));
    let found = interval(&all[0], &all[1], &CLOCKWORK);
    assert_eq!(found.busy_ratio(), Ok(2.0 / 3.0));
    let why = found.contradiction.unwrap();
    assert_eq!(
        why,
        "`non-nice user cpu ticks` of the snapshot at line 1 is 18446744073709551000, more than any machine counts: a counter is wrong"
    );
}

#[test]
fn a_last_line_without_an_end_is_named_unless_its_name_is_known() {
    let notes = |text: &str| {
        let mut notes = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |found| {
            if let Found::Note(note) = found {
                notes.push(note.to_string());
            }
            Ok(())
        })
        .unwrap();
        notes
    };
    let text = linux(1, 2, 3, 4);
    assert_eq!(notes(text.trim_end()), [""; 0]);
    assert_eq!(
        notes(&format!("{text}70044 pages pag")),
        ["11: the last line has no newline, its name may be cut: `70044 pages pag`"]
    );
    // Not a date in seconds since 1970.
    assert_eq!(notes(&format!("{text}1795244057")), ["11: the last line is cut, left out: `1795244057`"]);
}

#[test]
fn waiting_may_fall_a_little_without_a_reboot() {
    let all = snapshots(&(linux(0, 0, 50, 0) + &linux(100, 301, 49, 0)));
    let found = interval(&all[0], &all[1], &CLOCKWORK);
    assert_eq!((found.busy_ratio(), found.ratio(|ticks| ticks.wait)), (Ok(0.25), Ok(0.0)));
}

#[test]
fn a_reboot_is_seen_by_the_boot_time_where_every_counter_rose() {
    // One day after one boot, and two days after the next.
    let found = |boot_s: u64| {
        let text = linux(100, 300, 50, 0) + "1700000000 boot time\n" + &linux(200, 600, 90, 0);
        let all = snapshots(&format!("{text}{boot_s} boot time\n"));
        interval(&all[0], &all[1], &CLOCKWORK).busy_ratio()
    };
    assert_eq!(found(1_700_000_002), found(1_700_000_000));
    assert!(found(1_700_000_000).is_ok());
    for boot_s in [1_700_086_400, 1_699_990_000] {
        assert!(found(boot_s).unwrap_err().reason.contains("the boot time changed by"), "{boot_s}");
    }
}

#[test]
fn errors_name_the_line_the_column_and_what_was_expected() {
    for (text, expected) in [
        (
            String::new(),
            "1:1: found the end of the input, expected the counters of `vmstat -s`, such as `50200112 user   cpu`",
        ),
        (
            "    5 user   cpu\n    x\n".into(),
            "3:1: found the end of the snapshot that began at line 1, expected its line of system ticks first (`N system   cpu` or `N system cpu ticks`)",
        ),
        ("    5\n".into(), "1:6: found the end of the line, expected a counter's name after its value"),
        ("  -5 user cpu\n".into(), "1:3: found `-5`, expected a counter's value"),
    ] {
        assert_eq!(error(&text), expected, "{text}");
    }
    assert!(error("procs -----------memory----------\n").contains("only `vmstat -s` has ticks"));
}
