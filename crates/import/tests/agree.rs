//! Results of different option sets and tools agree on the same facts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod read;

use bakeoff_import::solaris::lockstat::{Class, Counts, Percent, Run, judge};
use bakeoff_import::solaris::mpstat::Rates;
use read::{As, LOCKSTAT, MPSTAT, runs, samples, show_mpstat};
use std::path::PathBuf;

fn testdata(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    all.sort();
    all
}

fn data(path: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(path)).unwrap()
}

fn run(sample: &str) -> Run {
    let (mut runs, _, end) = runs(&data(&format!("lockstat/{sample}.txt")));
    end.unwrap();
    assert_eq!(runs.len(), 1, "{sample}");
    runs.remove(0)
}

#[test]
fn where_nothing_is_cut_the_rows_sum_up_to_the_title_and_the_bins_to_the_row() {
    let (mut sections, mut histograms) = (0, 0);
    for (name, bytes) in testdata("lockstat") {
        for run in runs(&bytes).0 {
            for section in &run.sections {
                if section.counts == Counts::PerSecond || section.locks.is_empty() {
                    continue;
                }
                let sum: u64 = section.locks.iter().map(|lock| lock.count).sum();
                let cut = name.contains("-D")
                    || name.contains("hD2")
                    || name.contains("kWP-512")
                    || name.contains("cut");
                match section.events {
                    Some(events) if section.percent != Percent::Generated && !cut => {
                        assert_eq!(sum, events, "{name} {}", section.event.name);
                        sections += 1;
                    }
                    _ => {}
                }
                for lock in section.locks.iter().filter(|lock| !lock.histogram.is_empty() && !cut) {
                    assert_eq!(
                        lock.histogram.iter().map(|bin| bin.1).sum::<u64>(),
                        lock.count,
                        "{name}:{}",
                        lock.line
                    );
                    histograms += 1;
                }
            }
        }
    }
    assert!(sections > 150 && histograms > 100, "{sections} sections, {histograms} histograms");
}

/// Nanoseconds that the generator spun, by its own count: four spinning locks of one kind and the two others.
const SPUN_NS: f64 = (90_558_143 + 29_974_330 + 212_263 + 1_598 + 35_376 + 3_157) as f64;

#[test]
fn every_option_set_of_one_run_gives_the_cpu_time_that_went_in() {
    let truth = SPUN_NS / (10.012e9 * 4.0);
    // Totals (`-p`) are exact; means were truncated to whole nanoseconds, at most one for each spin: 169,737
    // spins.
    let cut = 169_737.0 / (10.012e9 * 4.0);
    for (sample, tolerance) in [
        ("illumos-p", 1e-15),
        ("illumos-Ap-with-holds", 1e-15),
        ("illumos-pR-has-counts", 1e-15),
        ("illumos", cut),
        ("illumos-kWP", cut),
        ("illumos-s4", cut),
        ("illumos-sWk", cut),
        ("illumos-AsP", cut),
        ("illumos-crlf", cut),
        ("illumos-not-utf-8", cut),
    ] {
        let run = run(sample);
        let total = judge(&run, &LOCKSTAT.machine).total.unwrap();
        assert!((total - truth).abs() <= tolerance, "{sample}: {total} against {truth}");
    }
    // Rates were truncated to whole events per second: a lower bound.
    let run = run("illumos-RP");
    let judged = judge(&run, &LOCKSTAT.machine);
    let total = judged.total.unwrap();
    assert!(judged.lower_bound && total < truth && total > 0.98 * truth, "{total} against {truth}");
}

#[test]
fn solaris_8_and_10_count_turns_and_get_no_cpu_time_unless_calibrated() {
    for sample in [
        "solaris-8",
        "solaris-10",
        "solaris-8-h",
        "solaris-10-s4",
        "solaris-8-p-counts-references",
        "solaris-8-T-s2",
    ] {
        let run = run(sample);
        let judged = judge(&run, &LOCKSTAT.machine);
        assert!(judged.total.unwrap_err().reason.contains("turns of the spin loop"), "{sample}");
        let calibrated =
            bakeoff_import::solaris::lockstat::Machine { spin_ns: Some(5.0), ..LOCKSTAT.machine };
        assert!(judge(&run, &calibrated).total.unwrap() > 0.0, "{sample}");
    }
    let run = run("solaris-10-p");
    let judged = judge(&run, &LOCKSTAT.machine);
    assert!(judged.total.is_ok(), "this form does not tell the dialect: nanoseconds are assumed, and said");
}

#[test]
fn blocking_is_shown_and_never_summed() {
    let run = run("illumos");
    let judged = judge(&run, &LOCKSTAT.machine);
    let blocked = judged.verdicts.iter().filter(|verdict| verdict.section.event.class == Class::Block);
    for verdict in blocked.clone() {
        assert!(verdict.merits.threads.is_ok());
        assert!(verdict.merits.cpu_util_ratio.is_err());
    }
    assert!(blocked.count() > 0);
    let spun: f64 = judged.verdicts.iter().filter_map(|v| v.merits.cpu_util_ratio.clone().ok()).sum();
    assert_eq!(Ok(spun), judged.total);
}

#[test]
fn shares_of_time_are_told_from_shares_of_counts() {
    let kind = |sample: &str| run(sample).sections[0].percent;
    assert_eq!(kind("illumos"), Percent::Count);
    assert_eq!(kind("solaris-10-P-shares-of-time"), Percent::Time);
    assert_eq!(kind("illumos-kWP"), Percent::Time);
    assert_eq!(kind("solaris-10-kWP-512-cpus"), Percent::Count);
    assert_eq!(kind("solaris-10-g-overlapping"), Percent::Generated);
    assert_eq!(kind("solaris-10-bP"), Percent::Count);
}

#[test]
fn names_with_blanks_are_read_from_both_ends() {
    for sample in [
        "freebsd-A-nameless-lock",
        "freebsd-b-nameless-lock",
        "freebsd-s-names-with-blanks",
        "freebsd-p-names-with-blanks",
        "freebsd-ps",
        "freebsd-R",
    ] {
        let run = run(sample);
        let names: Vec<(&str, &str)> =
            run.sections[0].locks.iter().map(|lock| (lock.lock.as_str(), lock.caller.as_str())).collect();
        assert_eq!(
            names,
            [
                ("vm page free queue", "vm_page_alloc+0x138"),
                ("process lock", "fork1+0x51"),
                ("", "turnstile_wait+0x10")
            ],
            "{sample}"
        );
    }
}

#[test]
fn a_date_before_every_line_changes_nothing_with_or_without_a_colon() {
    let plain = show_mpstat(&data("mpstat/eight-cpus-three-samples.txt"), As::Text, MPSTAT);
    for dated in ["ctime-before-every-line", "ctime-with-colon-before-every-line", "T-d-date-lines"] {
        let bytes = data(&format!("mpstat/{dated}.txt"));
        assert_eq!(show_mpstat(&bytes, As::Text, MPSTAT), plain, "{dated}");
        let dates: Vec<String> =
            samples(&bytes).0.iter().map(|s| s.at.as_ref().unwrap().to_string()).collect();
        assert_eq!(dates, ["2008-03-04T09:05:01", "2008-03-04T09:05:04", "2008-03-04T09:05:07"], "{dated}");
    }
}

#[test]
fn the_tools_own_aggregate_and_ours_agree_to_its_rounding() {
    let all = samples(&data("mpstat/eight-cpus-three-samples.txt")).0;
    let sets = samples(&data("mpstat/a-two-sets.txt")).0;
    assert_eq!(all.len(), sets.len());
    for (cpus, sets) in all.iter().zip(&sets) {
        // Both outputs have one source: set 0 holds CPUs 0 to 3, set 1 the others.
        let (ours, theirs) = (cpus.aggregate(Rates::Sum), sets.aggregate(Rates::Sum));
        assert_eq!((ours.cpus, theirs.cpus), (8, 8));
        for column in 0..15 {
            let (a, b) = (ours.values[column].unwrap(), theirs.values[column].unwrap());
            let bound = ours.errors[column] + theirs.errors[column];
            assert!((a - b).abs() <= bound, "column {column}: {a} against {b}, bound {bound}");
        }
    }
}

#[test]
fn every_json_document_is_json_and_carries_its_schema() {
    let check = |text: String, schema: &str| {
        let body: String = text
            .lines()
            .filter(|line| !["note: ", "remark: ", "error: "].iter().any(|mark| line.starts_with(mark)))
            .flat_map(|line| [line, "\n"])
            .collect();
        let documents = serde_json::Deserializer::from_str(&body).into_iter::<serde_json::Value>();
        let mut count = 0;
        for document in documents {
            assert_eq!(document.unwrap()["schema"], schema, "{body}");
            count += 1;
        }
        assert!(count > 0, "no document: {text}");
    };
    for (_, bytes) in testdata("mpstat") {
        check(show_mpstat(&bytes, As::Json, MPSTAT), "bakeoff.import-mpstat/1");
    }
    for (_, bytes) in testdata("lockstat") {
        check(read::show_lockstat(&bytes, As::Json, LOCKSTAT), "bakeoff.import-lockstat/1");
    }
    for (_, bytes) in testdata("plockstat") {
        check(read::show_plockstat(&bytes, As::Json, read::PLOCKSTAT), "bakeoff.import-plockstat/1");
    }
    let clockwork = bakeoff_import::vmstat_s::Clockwork { hz: 100.0, cpus: None, elapsed_s: None };
    for (_, bytes) in testdata("vmstat_s") {
        check(read::show_vmstat(&bytes, As::Json, clockwork), "bakeoff.import-vmstat/1");
    }
}
